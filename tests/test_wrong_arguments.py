"""Arguments of wrong types end in errors of ours, whichever function takes them."""

from __future__ import annotations

import inspect
import random
from pathlib import Path

import pandas as pd
import pytest

import fastrank_eval as fe
from fastrank_eval.spark import evaluate as spark_evaluate
from tests.support.transcripts import Case, cases
from tests.wrong_arguments import LOG, VALUES, Call, calls, foreign, of_measures

#: Values that are tried for each argument; ``python -m tests.wrong_arguments`` tries all.
TRIED = 8
COLUMNS = {"group": "user", "label": "click", "score": "old", "measures": "GAUC"}
TWO = {**COLUMNS, "score": ["old", "new"], "baseline": "old"}
#: A user has two groups, another one.
NESTED = {
    "user": [1, 1, 2, 2],
    "q": [1, 2, 3, 3],
    "click": [1, 0, 0, 1],
    "old": [0.1, 0.2, 0.3, 0.4],
}
GROUPED = {"group": "q", "label": "click", "score": "old", "measures": "RR"}


@pytest.fixture(scope="module")
def every(tmp_path_factory: pytest.TempPathFactory) -> list[Call]:
    return [*calls(tmp_path_factory.mktemp("files")), *of_measures()]


def test_arguments_that_the_others_replace__are_accepted(
    every: list[Call], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    for call in every:
        if call.arguments and not call.name.startswith(("ClassResult.", "read_config")):
            call.with_argument(*next(iter(call.arguments.items())))


def test_wrong_types_for_every_public_argument__raise_errors_of_ours_only(
    every: list[Call], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    rng = random.Random(18)  # noqa: S311
    tries = 0
    found = []
    for call in every:
        for name in call.names():
            for value in rng.sample(sorted(VALUES), TRIED):
                tries += 1
                error = foreign(call, name, VALUES[value])
                found += [f"{call.name}({name}={value}): {error}"] if error else []
    assert not found
    assert tries > 5500


def right_name(call: Call, name: str) -> str:
    """The error of a call with None for an argument."""
    try:
        call.with_argument(name, None)
    except fe.FastRankEvalError as error:
        return str(error)
    return ""


def test_misspelt_argument_of_every_public_function__names_function_and_nearest_argument(
    every: list[Call], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    tries, found = 0, []
    for call in every:
        kinds = {p.name: p.kind for p in inspect.signature(call.function).parameters.values()}
        variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.POSITIONAL_ONLY)
        own = call.name.split()[0].rpartition(".")[2]
        skipped = own.startswith("__") or call.name.endswith(".get") or "<lambda>" in repr(call)
        if skipped or any(kind in variable for kind in kinds.values()):
            continue
        for name in call.names():
            given = {key: value for key, value in call.arguments.items() if key != name}
            told = "accepted"
            try:
                call.function(**given, **{f"{name}{name[-1]}": given.get(name)})
            except fe.FastRankEvalError as error:
                told = str(error)
            except Exception as error:
                told = f"{type(error).__name__}: {error}"
            if f"takes no {name}." in right_name(call, name):
                continue
            tries += 1
            if own not in told or f"Did you mean '{name}'?" not in told or "TypeError" in told:
                found.append(f"{call.name}({name}): {told}")
    assert not found
    assert tries > 550


def test_every_public_function__is_tried(every: list[Call]) -> None:
    tried = {call.name.split()[0] for call in every}
    classes = {"Measure", "Progress", "Meta", "Provenance", "MeasureValue", "ComparedValue"}
    for name in fe.__all__:
        one = getattr(fe, name)
        if inspect.isfunction(one):
            assert name in tried
        elif inspect.isclass(one) and not issubclass(one, Exception) and name not in classes:
            # Results, which functions return: their methods are tried.
            methods = [m for m in vars(one).values() if inspect.isfunction(m)]
            taking = [m for m in methods if len(inspect.signature(m).parameters) > 1]
            public = [m for m in taking if not m.__name__.startswith("_")]
            assert not public or any(call.startswith(f"{name}.") for call in tried)
        elif isinstance(one, fe.Measure):
            assert one.name in tried


@pytest.mark.parametrize("case", cases("arguments"), ids=lambda case: ascii(str(case)))
def test_argument__of_no_use__is_refused_by_name(case: Case) -> None:
    case.check(case.answer({**globals(), "LOG": LOG, "pd": pd, "spark_evaluate": spark_evaluate}))
