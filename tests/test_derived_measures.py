"""Measures of users: derived from those of the package, or kernels of one group."""

from typing import Any

import numpy as np
import pytest

import fastrank_eval as fe
from fastrank_eval.measures import REL, WEIGHT, GroupFunction, inlined
from fastrank_eval.measures.average_precision import AveragePrecision
from fastrank_eval.measures.gain import DiscountedGain
from fastrank_eval.measures.precision import Precision

LOG = {"user": [1, 1, 1, 2, 2], "grade": [0, 2, 1, 0, 3], "score": [0.1, 0.9, 0.5, 0.4, 0.6]}
ROLES: dict[str, Any] = {"group": "user", "label": "grade", "score": "score"}


def value_of(measure: Any, *others: Any, log: Any = LOG, **options: Any) -> float:
    result = fe.evaluate(log, measures=[measure, *others], **{**ROLES, **options})
    return result.values[0].value


class Own(fe.Measure):
    name = "Own"
    summary = formula = reference = "none"
    options = (REL, WEIGHT)


@inlined
def one_half(group, rows, options):  # type: ignore[no-untyped-def]
    return 0.5


@inlined
def three_quarters(group, rows, options):  # type: ignore[no-untyped-def]
    return 0.75


@inlined
def undefined(group, rows, options):  # type: ignore[no-untyped-def]
    return np.nan


@inlined
def second_reason(group, rows, options):  # type: ignore[no-untyped-def]
    return 2


def own(value: GroupFunction) -> fe.Measure:
    class OfGroup(Own):
        name = "OfGroup"
        group_function = value

    return fe.register(OfGroup)


def test_gains_of_a_derived_class__are_not_those_of_its_base():
    class Squares(DiscountedGain):
        name = "Squares"
        aliases = ()

        def gains_of(self, grades: np.ndarray) -> np.ndarray:
            return grades**2

    squares = fe.register(Squares)
    alone = value_of(squares), value_of("DCG")
    assert alone[0] != alone[1]
    assert (value_of(squares, "DCG"), value_of("DCG", squares)) == alone


@pytest.mark.parametrize("text", ["CG", "DCG", "nDCG"])
def test_sums_that_pass_the_largest_double_both_ways__are_refused(text):
    big = 1.2e308
    log = {"user": [1] * 4, "grade": [big, big, -big, -big], "score": [4.0, 4.0, 3.0, 3.0]}
    with pytest.raises(fe.MeasureError, match="so large"):
        value_of(f"{text}(gain='linear',negative='keep')", log=log)


@pytest.mark.parametrize("derived", [False, True])
def test_own_measure_that_evaluates_other_rows__changes_no_value_beside_it(derived):
    class Constant(Own):
        name = "Constant"

        def shared_values(self, ranking, cutoffs):
            return np.full((len(cutoffs), ranking.groups), 0.125)

    def inner(labels: list[float]) -> float:
        fe.evaluate(LOG, measures=["GAUC", "nDCG", "AP"], **ROLES, threads=1)
        return 0.5

    class Calls(Constant):
        name = "Calls"

        def shared_values(self, ranking, cutoffs):
            return super().shared_values(ranking, cutoffs) * 8 * inner([])

    calls = fe.register(Calls) if derived else fe.measure_of(inner, name="Inner")
    result = fe.evaluate(LOG, measures=[fe.register(Constant), calls], **ROLES, threads=1)
    assert [line.value for line in result] == [0.125, 0.5]


@pytest.mark.parametrize("batch_rows", [3, 10**6])
def test_own_check_of_grades__sees_every_grade(batch_rows):
    from fastrank_eval.engine.run import run

    class Whole(Own):
        name = "Whole"

        def check_grades(self, ranking):
            if (ranking.grade % 1 != 0).any():
                raise fe.MeasureError("Whole: whole grades only.")

        group_function = GroupFunction(one_half)

    whole = fe.register(Whole)
    log = {"user": [1, 1, 2, 2], "grade": [1.0, 3.0, 1.5, 0.0], "score": [4.0, 3.0, 2.0, 1.0]}
    good = {**log, "grade": [1.0, 3.0, 2.0, 0.0]}
    for _ in range(2):
        run(good, measures=whole, **ROLES, batch_rows=batch_rows, threads=1)
        with pytest.raises(fe.MeasureError, match="whole grades only"):
            run(log, measures=whole, **ROLES, batch_rows=batch_rows, threads=1)


def test_kernel_that_is_defined_anew__is_used_by_the_next_call():
    functions = [GroupFunction(one_half)]

    class Anew(Own):
        name = "Anew"

        @property
        def group_function(self):
            return functions[-1]

    anew = fe.register(Anew)
    assert value_of(anew) == 0.5
    functions.append(GroupFunction(three_quarters))
    assert value_of(anew) == 0.75


def test_reason_without_a_name__is_refused():
    assert np.isnan(value_of(own(GroupFunction(undefined, ("few",)))))
    for others in ((), ("GAUC",)):
        with pytest.raises(fe.MeasureError, match="NaN with a reason"):
            value_of(own(GroupFunction(undefined, ("few",), second_reason)), *others)
    with pytest.raises(fe.MeasureError, match="one text or more"):
        GroupFunction(undefined, ())


def test_shared_values_of_a_nearer_class__are_used():
    class Mixed:
        def shared_values(self, ranking, cutoffs):
            return np.full((len(cutoffs), ranking.groups), 0.25)

    class MixedPrecision(Mixed, Precision):
        name = "MixedPrecision"
        aliases = ()

    assert value_of(fe.register(MixedPrecision)) == 0.25


@pytest.mark.parametrize("method", ["to_summand", "reasons"])
def test_methods_that_a_kernel_does_not_call__are_refused(method):
    kind = type("Derived", (AveragePrecision,), {"name": "Derived", "aliases": (), method: max})
    with pytest.raises(fe.MeasureError, match=f"must not define {method}"):
        value_of(fe.register(kind))


def test_undefined_groups__name_the_first_measure_wherever_it_is_computed():
    log = {"user": [1, 1], "grade": [0, 0], "score": [0.1, None]}
    options = {"undefined": "error", "unretrieved": "allow", "groups": "all"}
    for measures in (["GAUC", "R@1"], ["R@1", "GAUC"], ["AP", "Compat"], ["Compat", "AP"]):
        with pytest.raises(fe.UndefinedError, match=f"^{measures[0]} is undefined"):
            value_of(*measures, log=log, ties="input", **options)
