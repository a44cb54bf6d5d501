"""What the type checker of a user says about calls of the package."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest

import fastrank_eval as fe
from fastrank_eval.engine.options import OPTIONS
from tests.public_names import TYPES, option_types

#: A file of a user. Each line with a comment has the error that the comment names.
USER_FILE = """
import fastrank_eval as fe

log = {"user_id": [1, 1], "click": [1, 0], "score_a": [0.5, 0.2], "score_b": [0.1, 0.3]}
result: fe.Result = fe.evaluate(
    log, group="user_id", label="click", score="score_a", measures=[fe.GAUC, fe.MAP @ 10, "RR"],
    by=["user_id"], null_groups="drop",
)
value: float = result.value("MAP@10")
results: fe.Result = fe.evaluate(
    log, group="user_id", label=["click", "user_id"], score="score_a", threads=1,
    measures={"click": [fe.GAUC, "RR"], "user_id": "nDCG@10"}, unjudged="allow",
)
of_click: fe.Result = results["click"]
comparison: fe.Comparison = fe.compare(
    log, group="user_id", label="click", score=["score_a", "score_b"], baseline="score_a",
    test="bootstrap", ties="best", limit=5,
)
comparisons: fe.Comparison = fe.compare(
    log, group="user_id", label=["click", "user_id"], score=["score_a", "score_b"],
    baseline="score_a", measures={"click": [fe.GAUC, "RR"], "user_id": "nDCG@10"}, by="click",
)
for_label: fe.Comparison = comparisons["click"]
state: fe.State = fe.partial(log, group="user_id", label="click", score="score_a", confidence=0.9)
fe.trec.evaluate({"q": {"d": 1}}, {"bm25": {"q": {"d": 1.0}}}, "nDCG@10,AP").value("AP", "bm25")

fe.evaluate(log, grup="user_id", label="click", score="score_a")  # call-arg
fe.evaluate(log, group="user_id", label="click")  # call-arg
fe.evaluate(log, label="click", score="score_a", limit="5")  # arg-type
fe.evaluate(log, label="click", score=["score_a", 2])  # list-item
fe.compare(log, group="user_id", label="click", score="score_a")  # call-arg
fe.compare(log, group="user_id", label="click", score="a", baseline="b", tyes="b")  # call-arg
fe.compare(log, group="user_id", label="click", score="a", baseline="b", limit="5")  # arg-type
fe.compare(log, group="user_id", label="click", score="a", baseline="b", tests="z")  # call-arg
fe.partial(log, group="user_id", label="click", score="score_a", thread=2)  # call-arg
fe.partial(log, group="user_id", label="click", score="score_a", by=3)  # arg-type
result.value(3)  # arg-type
text: int = comparison.to_json()  # assignment
"""


@pytest.mark.slow("starts mypy")
@pytest.mark.no_kernels
def test_mypy__over_a_file_of_a_user__finds_wrong_arguments_and_no_others(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    (tmp_path / "user.py").write_text(USER_FILE)
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--no-incremental"]
    # The types of other packages take ten seconds to read, and no line here needs them.
    command += ["--no-site-packages", "--ignore-missing-imports", "--follow-imports=silent"]
    found = subprocess.run(
        [*command, "--hide-error-context", "--no-pretty", "user.py"],
        cwd=tmp_path, env={**os.environ, "MYPYPATH": str(Path(fe.__file__).parent.parent)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    errors = [line for line in found.stdout.splitlines() if ": error:" in line]
    assert found.stderr == ""
    # A wrong name of an overloaded function is two errors.
    places = dict.fromkeys((int(line.split(":")[1]), line.split("[")[-1][:-1]) for line in errors)
    assert list(places) == [
        (number, line.rpartition("  # ")[2])
        for number, line in enumerate(USER_FILE.splitlines(), 1)
        if "  # " in line
    ]


def test_options__of_the_table__are_the_parameters_of_evaluate() -> None:
    source, *parameters = inspect.signature(fe.evaluate).parameters.values()
    assert source.name == "source"
    assert [(p.name, p.annotation) for p in parameters] == [
        (name, option.type) for name, option in OPTIONS.items()
    ]
    required = {p.name for p in parameters if p.default is p.empty}
    assert required == {name for name, option in OPTIONS.items() if option.default is ...}
    for p in parameters:
        assert p.name in required or p.default == OPTIONS[p.name].default


def test_types_of_options__are_written_from_the_table() -> None:
    assert TYPES.read_text(encoding="utf-8") == option_types()
