"""Numbers that no change of the code may change, as exact bits.

``python -m tests.golden_numbers`` writes the golden file anew. With ``--folder PATH`` it prints the
numbers of the Parquet files in a folder, to be compared before and after a change by hand.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from click.testing import CliRunner

import fastrank_eval as fe
from fastrank_eval.apps.cli.main import cli
from fastrank_eval.apps.demo import impressions
from fastrank_eval.apps.demo.examples import write_month
from tests.every_number import every_number, numbers
from tests.oracles.measures import read
from tests.strategies import LASTING, POOLED_VARIANTS, allows
from tests.support.nightly_runs import CONFIG

FIXTURES = Path(__file__).parent / "fixtures"
GOLDEN = FIXTURES / "golden_numbers.json"
#: Names of columns that may hold groups and labels, in files of any folder.
GROUPS, LABELS = ("query", "user_id", "user", "qid"), ("label", "rel", "click")
#: What the clock, the folder or the version says.
PASSING = {"seconds", "meta", "written_at", "rows_per_second", "version", "writer", "fingerprint"}


def lasting(told: Any) -> Any:
    """Leave out of nested mappings what a second run need not repeat."""
    if isinstance(told, dict):
        return {name: lasting(one) for name, one in told.items() if name not in PASSING}
    return [lasting(one) for one in told] if isinstance(told, list) else told


def sample(pairs: Iterable[tuple[str, str]], share: int) -> Iterator[tuple[str, str]]:
    """Choose one of so many by its name."""
    return (pair for pair in pairs if zlib.crc32(pair[0].encode()) % share == 0)


def of_table(what: str, table: pa.Table, group: str, label: str) -> Iterator[tuple[str, str]]:
    """Evaluate real rows under three tie policies and with weights, and compare their models."""
    scores = [name for name in table.column_names if name.startswith("score")]
    table = table.append_column("row", pa.array(np.arange(len(table))))
    roles: dict[str, Any] = {"group": group, "label": label, "score": scores}
    texts = [text for text in LASTING if "@" not in text or text.endswith(("@3", "@10"))]
    texts = [text for text in texts if not {"weight", "max_grade"} & {*read(text)[1]}]
    texts = [text for text in texts if "gain={" not in text]
    for ties in ("expected", "item", "worst"):
        some = texts[::4] if ties == "expected" else texts[1::8]
        some = [one for one in some if allows(one, ties)]
        found = fe.evaluate(table, measures=some, ties=ties, item="row", **roles)
        yield from values(f"{what} {ties}", found)
    found = fe.evaluate(table, measures=["AUC", "AUC(se='clustered')", "KS", "PRAUC"], **roles)
    yield from values(f"{what} of all rows", found)
    if len(scores) > 1:
        asked = {**roles, "baseline": scores[0]}
        compared = fe.compare(table, measures=["GAUC", "nDCG@10", "AP"], **asked)
        yield from numbers(f"{what} compared", lasting(compared.document()))


def values(what: str, result: fe.Result) -> Iterator[tuple[str, str]]:
    """Write value and standard error of each line."""
    for line in result:
        name = f"{what} {line.score} {line.measure} {line.slice}"
        yield from numbers(name, [float(line.value), float(line.se)])


def of_fixtures() -> Iterator[tuple[str, str]]:
    """Evaluate the real rows that lie in the repository."""
    for name in ("ltr_lightgbm", "ctr_obd_men"):
        yield from of_table(name, pq.read_table(FIXTURES / f"{name}.parquet"), "query", "label")


def of_states() -> Iterator[tuple[str, str]]:
    """Merge saved states of two parts of a generated log, slices and a baseline included."""
    table = impressions(4000, seed=3).read_all()
    users = table["user_id"].to_numpy()
    probable = [text for name in ("LogLoss", "NE", "PCOC", "ECE") for text in POOLED_VARIANTS[name]]
    measures = ["GAUC", "AUC(se='clustered')", "nDCG@5", "GMAP"]
    measures += [text for text in probable if "rel=" not in text]
    asked: dict[str, Any] = {"group": "user_id", "label": "click", "score": ["score_a", "score_b"]}
    asked |= {"baseline": "score_a", "by": "slot", "min_groups": 1, "keep": "state"}
    parts = [
        fe.evaluate(table.filter(pa.array(users % 2 == odd)), measures=measures, **asked).state
        for odd in (0, 1)
    ]
    merged = parts[0].merge(parts[1])
    yield from values("merged", merged.result())
    yield from numbers("merged compared", lasting(merged.compare().document()))


def of_nights() -> Iterator[tuple[str, str]]:
    """Run three nights of a generated month, and read the JSON of the last."""

    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        write_month(Path(folder, "logs"), rows=1500)
        Path(folder, "nightly.toml").write_text(CONFIG, encoding="utf-8")
        os.chdir(folder)
        try:
            for day in (27, 28, 29):
                date = ["--date", f"2026-11-{day}", "--json", "night.json"]
                CliRunner().invoke(cli, ["nightly", "nightly.toml", *date], catch_exceptions=False)
            told = json.loads(Path("night.json").read_text(encoding="utf-8"))
        finally:
            os.chdir(before)
    yield from numbers("night", lasting(told))


def golden_numbers() -> dict[str, str]:
    """Compute all of them, by name."""
    found: dict[str, str] = {}
    merged = sample(of_states(), 3)
    for some in (sample(every_number(), 50), of_fixtures(), merged, of_nights()):
        found.update(some)
    return found


def of_folder(folder: Path) -> dict[str, str]:
    """Evaluate each Parquet file below a folder that has groups, labels and scores."""
    found: dict[str, str] = {}
    for path in sorted(folder.rglob("*.parquet")):
        names = pq.read_schema(path).names
        group = next((name for name in GROUPS if name in names), None)
        label = next((name for name in LABELS if name in names), None)
        if group and label and any(name.startswith("score") for name in names):
            found.update(of_table(str(path.relative_to(folder)), pq.read_table(path), group, label))
    return found


def main() -> None:
    """Write the golden file, or print the numbers of a folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, help="print the numbers of its Parquet files")
    folder = parser.parse_args().folder
    text = json.dumps(of_folder(folder) if folder else golden_numbers(), indent=0) + "\n"
    if folder:
        sys.stdout.write(text)
    else:
        GOLDEN.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
