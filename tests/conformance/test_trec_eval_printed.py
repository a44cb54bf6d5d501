"""What trec_eval printed over its own test run: version 10 has no package that could be called."""

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from fastrank_eval.apps.cli.main import cli
from fastrank_eval.measures import measure
from tests.conformance.runs import Qrels, Run, evaluated_run, in_our_order

#: A call -> the file that holds what version 10 printed.
CALLS = {(): "out.test", ("-m", "all_trec"): "out.test.a", ("-q", "-m", "all_trec"): "out.test.aq"}
SUFFIXES = {"trec_eval_10": "", "trec_eval_9": ".v9.0.4"}
NO_MEASURES = ("runid", "num_q", "relstring")
FOUR_DECIMALS = 5.000001e-5


def read(shared_data: Path) -> tuple[Run, Qrels]:
    run: Run = {}
    qrels: Qrels = {}
    folder = shared_data / "trec_eval"
    for line in (folder / "results.test").read_text().splitlines():
        query, _, doc, _, score, _ = line.split()
        run.setdefault(query, {})[doc] = float(score)
    for line in (folder / "qrels.test").read_text().splitlines():
        query, _, doc, grade = line.split()
        qrels.setdefault(query, {})[doc] = int(grade)
    return run, qrels


@pytest.mark.parametrize("profile", SUFFIXES)
def test_its_own_test__every_line_comes_out_identical(ledger, shared_data, profile):
    folder = shared_data / "trec_eval"
    files = [str(folder / "qrels.test"), str(folder / "results.test")]
    lines = 0
    for call, name in CALLS.items():
        wanted = (folder / f"{name}{SUFFIXES[profile]}").read_text().splitlines()
        command = ["trec", *call, "--as", profile.removeprefix("trec_eval_"), *files]
        outcome = CliRunner().invoke(cli, command, catch_exceptions=False)
        assert outcome.stdout.splitlines() == wanted
        lines += len(wanted)
    version = {"trec_eval_10": "10.0-rc3", "trec_eval_9": "9.0.4"}[profile]
    ledger.notes[profile].append(
        f"All {lines} lines that trec_eval {version} prints over its own test run, in three calls, "
        f"come out identical from `fastrank-eval trec --as {command[-3]}`."
    )


def test_version_10__values_of_each_query(ledger, shared_data):
    profile = "trec_eval_10"
    ledger.sources[profile] = "what trec_eval 10.0-rc3 printed"
    ledger.tolerances[profile] = FOUR_DECIMALS
    ledger.notes[profile].append(
        "No package known to us carries version 10. What it printed stands for it, with four "
        "decimals: half a unit of the fourth passes. Version 9, which shares all but a few of its "
        "definitions, is compared to the last digit above."
    )
    run, qrels = read(shared_data)
    found: dict[str, dict[str, float]] = {}
    for line in (shared_data / "trec_eval" / "out.test.aq").read_text().splitlines():
        name, query, value = (part.strip() for part in line.split("\t"))
        if name not in NO_MEASURES:
            found.setdefault(name, {})[query] = float(value)
    result = evaluated_run(run, qrels, profile, list(found))
    for name, values in found.items():
        ours = str(measure(name))
        ledger.agree(profile, "its own test", ours, name, result.value(name), values.pop("all"))
        if values:
            each = np.nan_to_num(result[name])
            ledger.agree(profile, "its own test", ours, name, each, in_our_order(result, values))
