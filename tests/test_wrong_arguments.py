"""Arguments of wrong types end in errors of ours, whichever function takes them."""

from __future__ import annotations

import inspect
import random
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import fastrank_eval as fe
from fastrank_eval.spark import evaluate as spark_evaluate
from tests.wrong_arguments import LOG, VALUES, Call, calls, foreign, of_measures

#: Values that are tried for each argument; ``python -m tests.wrong_arguments`` tries all.
TRIED = 8
COLUMNS = {"group": "user", "label": "click", "score": "old", "measures": "GAUC"}


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


@pytest.mark.parametrize(
    "function,keep",
    [(fe.evaluate, "values,no"), (fe.evaluate, ["no"]), (fe.partial, "no"), (fe.compare, "state")],
)
def test_what_a_function_does_not_keep__is_refused(function: Any, keep: object) -> None:
    options = {**COLUMNS, "score": ["old", "new"], "baseline": "old"}
    with pytest.raises(fe.ArgumentError, match=r"^keep: must be .*'values'.*, got"):
        function(LOG, **options, keep=keep)


@pytest.mark.parametrize(
    "options, told",
    [
        ({"keep_groups": True}, "takes no keep_groups. Did you mean 'keep'?"),
        ({"keep_scores": True}, "takes no keep_scores. Did you mean 'keep'?"),
        ({"per_group": True}, "takes no per_group. It takes"),
        ({"keep": 3}, "got 3; pass keep='values', for instance."),
        ({"weight": 3}, "got 3; pass 'weight', for instance."),
    ],
)
def test_a_remedy__names_what_fits_and_no_nonsense(options: dict[str, Any], told: str) -> None:
    for function, more in ((fe.evaluate, {}), (fe.compare, {"baseline": "new"})):
        with pytest.raises(fe.ArgumentError, match=re.escape(told)):
            function(LOG, **{**COLUMNS, **more, **options})  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["group", "label", "score", "weight", "item"])
def test_half_a_surrogate_as_a_column__is_refused_by_name(name: str) -> None:
    told = rf"^{name}: must be text .*without lone surrogates, got '\\ud800'; "
    with pytest.raises(fe.ArgumentError, match=told):
        fe.evaluate(LOG, **{**COLUMNS, name: "\ud800"})


@pytest.mark.parametrize(
    "name,value",
    [
        *[(name, {"click"}) for name in ("group", "label", "score", "by")],
        *[(name, {"click": 1}) for name in ("group", "label", "by")],  # scores: expressions
        ("label", frozenset({"click"})),
    ],
)
def test_mapping_or_set_of_names__is_refused_by_name(name: str, value: object) -> None:
    told = rf"^{name}: must be text or .*a list, each item .*, got .*(click|frozenset).*; "
    arguments = {**COLUMNS, name: value}
    with pytest.raises(fe.ArgumentError, match=told):
        fe.evaluate(LOG, **arguments)
    with pytest.raises(fe.ArgumentError, match=told):
        fe.compare(LOG, **arguments, baseline="new")
    if name != "by":
        with pytest.raises(fe.ArgumentError, match=told):
            spark_evaluate(pd.DataFrame(LOG), **arguments)


def test_progress_that_raises_stop_iteration__is_refused() -> None:
    def stop(now: fe.Progress) -> None:
        raise StopIteration

    with pytest.raises(fe.ArgumentError, match="progress: must not raise StopIteration"):
        fe.evaluate(LOG, **COLUMNS, progress=stop)


def test_more_rows_than_a_file_can_hold__is_refused_by_name() -> None:
    with pytest.raises(fe.ArgumentError, match=r"^min_groups: must be at most 9,223,.*, got"):
        fe.evaluate(LOG, **COLUMNS, min_groups=2**70)
