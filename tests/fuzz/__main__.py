"""Fuzz the package: ``python -m tests.fuzz --seconds 60 [TARGET ...]``.

Atheris runs each function of `targets` from the files of ``tests/fuzz/corpus/TARGET``; inputs that
reach new code go to ``build/fuzz/TARGET``. HypoFuzz runs the property tests of kernels, the target
`properties`. Each of the two has the time that `--seconds` names; the targets of Atheris share it.
No input may take 2 GB, none of Atheris 10 seconds. Prints the number of inputs of each target, and
exits with 1 if one failed or had none: shorten the input that it names, and add it to the corpus,
which ``make test`` reads.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from fastrank_eval._lib.lexer import COMPARISONS
from fastrank_eval.apps.nightly.config_checks import TABLES
from fastrank_eval.measures.base import registry
from fastrank_eval.measures.names import GATE_WORDS
from tests.fuzz.targets import LOG, TARGETS

HERE = Path(__file__).parent
BUILD = Path("build/fuzz")
PROPERTIES = "properties"
#: Limits of one input.
SECONDS, MEGABYTES = 10, 2048
#: Bytes of an input. Python's `tomllib` takes seconds for dotted keys of 64 KB.
MOST_BYTES = {"config": 1 << 14}


class Run(NamedTuple):
    """The number of inputs that a target had, and whether one failed."""

    inputs: int
    failed: bool


def words(target: str) -> list[str]:
    """Words of a grammar, which the mutations insert."""
    columns = [*LOG.column_names, "weight", "date"]
    signs = [*COMPARISONS, *"()[]{},:@+-*/'\"", "\r\n", "\t"]
    measures = [name for kind in registry.values() for name in (kind.name, *kind.aliases)]
    options = {f"{param.name}=" for kind in registry.values() for param in kind.options}
    keywords = ["and", "or", "not", "in", "between", "is", "null", "true", "false", "quantile4"]
    keys = [f"{key} = " for table in TABLES.values() for key in table]
    by_target = {
        "measures": [*measures, *options, "None", "True", "1e308"],
        "gates": [*measures, *GATE_WORDS, "[*]", "[slot=1]", "score_a:"],
        "where": [*columns, *keywords, "'2026-11-02'", "'at'"],
        "scores": columns,
        "slices": [*columns, *keywords, "@rows:1,10", "@positives:2", "week", "month", "width"],
        "config": [*keys, *(f"[{name}]\n" for name in TABLES if name), "{date}", "{date:%Y}"],
        "dates": ["2026-11-19", "..", "today", "yesterday", "days", "GB", "MiB", "%"],
        "csv": [*columns, "nan", "inf", "0.50", "-0", "1e5", "null"],
        "tsv": [*columns, "nan", "inf", "0.50", "-0", "1e5", "null"],
    }
    return [*signs, *by_target.get(target, ["nan", "inf", "-0", "1e400", "#", "\x0b"])]


def write_dictionary(target: str, path: Path) -> None:
    """Write words in the form of libFuzzer."""
    escaped = ["".join(f"\\x{byte:02x}" for byte in word.encode()) for word in words(target)]
    path.write_text("".join(f'"{word}"\n' for word in escaped), encoding="ascii")


def under_atheris(target: str, seconds: int) -> list[str]:
    """Make the folders and the dictionary of a target; return its command."""
    found, crashes = BUILD / target, BUILD / "crashes" / target
    for folder in (found, crashes):
        folder.mkdir(parents=True, exist_ok=True)
    dictionary = BUILD / f"{target}.dict"
    write_dictionary(target, dictionary)
    return [
        *("tests.fuzz.instrumented", target),
        *(str(found), str(HERE / "corpus" / target)),
        f"-dict={dictionary}",
        f"-artifact_prefix={crashes}/",
        f"-max_total_time={seconds}",
        f"-timeout={SECONDS}",
        f"-rss_limit_mb={MEGABYTES}",
        f"-max_len={MOST_BYTES.get(target, 1 << 16)}",
        *("-print_final_stats=1", "-reload=0", "-verbosity=0"),
    ]


def fuzz(target: str, seconds: int) -> Run:
    """Run a target in a process of its own."""
    storage = BUILD / PROPERTIES
    storage.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m"]
    if target == PROPERTIES:
        command += ["tests.fuzz.properties", str(seconds)]
    else:
        command += under_atheris(target, seconds)
    environment = os.environ | {
        "NUMBA_DISABLE_JIT": "1",
        "HYPOTHESIS_STORAGE_DIRECTORY": str(storage),
    }
    done = subprocess.run(command, env=environment, capture_output=True, check=False)
    output = (done.stdout + done.stderr).decode("utf-8", "replace")
    count = re.search(r"stat::number_of_executed_units: *(\d+)", output)
    failed = done.returncode != 0 or count is None or count[1] == "0"
    if failed:
        lines = [line for line in output.splitlines() if not line.startswith("INFO: Instr")]
        sys.stdout.write("\n".join(lines) + "\n")
    return Run(int(count[1]) if count else 0, failed)


def main() -> None:
    """Fuzz the targets one after another."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="all by default")
    parser.add_argument("--seconds", type=int, default=3600, help="for each tool")
    given = parser.parse_args()
    unknown = {*given.targets} - {*TARGETS, PROPERTIES}
    if unknown:
        parser.error(f"TARGET: must be one of {', '.join([*TARGETS, PROPERTIES])}, got {unknown}")
    names = given.targets or [*TARGETS, PROPERTIES]
    parsers = sum(target != PROPERTIES for target in names)
    failed, inputs = [], 0
    for target in names:
        share = 1 if target == PROPERTIES else parsers
        run = fuzz(target, max(given.seconds // share, 1))
        inputs += run.inputs
        failed += [target] if run.failed else []
        verdict = "FAILED" if run.failed else "no fault"
        sys.stdout.write(f"{target:>16}{run.inputs:>12,} inputs  {verdict}\n")
        sys.stdout.flush()
    sys.stdout.write(f"{'all':>16}{inputs:>12,} inputs\n")
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}; inputs of parsers are in {BUILD}/crashes")


if __name__ == "__main__":
    main()
