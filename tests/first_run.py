"""Prove what a wheel with machine code promises, with the Python that it is installed in.

``python tests/first_run.py FOLDER`` runs in an environment of its own. Eight measures must be
computed in a first run without Numba, and without a compiled kernel, on each level of x86-64 that
the processor reaches. Numbers of each level must have the bits of the golden file. Files of FOLDER
hold the numbers: `make release-check` compares them between the lowest and the newest libraries.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
MEASURES = "GAUC,AUC,nDCG@10,AP,RR,ERR(max_grade=1)@10,P@10,R@10"
#: Numbers of the golden file that `every_number` computes too.
LEAST = 200


def write_rows(folder: Path) -> None:
    """Write a click log, sorted by users and shuffled."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(4)
    rows = 150_000
    table = pa.table(
        {
            "user": np.sort(rng.integers(0, 7000, rows)),
            "click": rng.integers(0, 2, rows).astype(np.int8),
            "score_a": rng.random(rows),
            "score_b": rng.random(rows).astype(np.float32),
        }
    )
    pq.write_table(table, folder / "sorted.parquet")
    pq.write_table(table.take(rng.permutation(rows)), folder / "shuffled.parquet")


def evaluate_first(folder: Path, level: str) -> None:
    """Evaluate in a process that has no kernel yet, and write the numbers."""
    import fastrank_eval as fe
    from fastrank_eval._lib import jit

    found = {}
    for name in ("sorted", "shuffled"):
        result = fe.evaluate(
            folder / f"{name}.parquet",
            group="user",
            label="click",
            score=["score_a", "score_b"],
            measures=MEASURES,
        )
        found[name] = {
            f"{value.score} {value.measure}": [value.value.hex(), value.se.hex()]
            for value in result.values
        }
    assert jit.compilations.count == 0, f"{jit.compilations.count} kernels compiled on {level}"
    assert "numba" not in sys.modules, f"Numba imported on {level}"
    assert not Path(os.environ["FASTRANK_CACHE_DIR"]).exists(), f"kernels stored on {level}"
    (folder / f"{level}.json").write_text(json.dumps(found, indent=0), encoding="utf-8")


def compare_golden(level: str) -> None:
    """Compare numbers of a small log with the golden file."""
    # After the installed package, because this folder has the package's sources too.
    sys.path.append(str(ROOT))
    from tests.every_number import every_number

    text = (ROOT / "tests/fixtures/golden_numbers.json").read_text(encoding="utf-8")
    golden: dict[str, Any] = json.loads(text)
    found = {name: bits for name, bits in every_number() if name in golden}
    assert len(found) > LEAST, len(found)
    differ = {name for name, bits in found.items() if bits != golden[name]}
    assert not differ, f"{sorted(differ)[:10]} differ on {level}"


def run_on(level: str, step: str, folder: Path) -> None:
    """Run a step as on a processor that reaches no higher level."""
    from fastrank_eval._lib import kernel_store

    assert kernel_store.SHIPPED.is_dir(), "this package has no machine code"
    kernel_store.processor_level = lambda: level
    if step == "first":
        evaluate_first(folder, level)
    else:
        compare_golden(level)


def main() -> None:
    """Run each step on each level, in processes of their own."""
    folder = Path(sys.argv[1]).resolve()
    if len(sys.argv) > 2:
        run_on(sys.argv[2], sys.argv[3], folder)
        return
    from fastrank_eval._lib import kernel_store

    folder.mkdir(parents=True, exist_ok=True)
    write_rows(folder)
    reached = kernel_store.processor_level()
    assert reached, "no level of x86-64"
    levels = list(kernel_store.LEVELS)
    levels = levels[: levels.index(reached) + 1]
    for level in levels:
        for step, cache in (("first", "no kernels"), ("golden", "kernels")):
            settings = {"FASTRANK_CACHE_DIR": str(folder / cache)}
            command = [sys.executable, str(Path(__file__)), str(folder), level, step]
            subprocess.run(command, env={**os.environ, **settings}, check=True, timeout=600)
    numbers = {(folder / f"{level}.json").read_text(encoding="utf-8") for level in levels}
    assert len(numbers) == 1, f"numbers differ between {', '.join(levels)}"
    print(f"nothing compiled, the same bits on {', '.join(levels)}")  # noqa: T201


if __name__ == "__main__":
    main()
