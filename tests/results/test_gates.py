"""Gates: what results do not pass, and what they are told."""

import math
import re
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fastrank_eval as fe
from fastrank_eval._lib.errors import ArgumentError
from fastrank_eval.results.gate_judge import AdjustedP, judge
from fastrank_eval.results.gates import FIELDS, VALUE_FIELDS
from fastrank_eval.stats.hypothesis_tests import adjust_p_values

pytestmark = pytest.mark.no_kernels

ROWS = {
    "user": [1, 1, 1, 2, 2, 3],
    "click": [1, 0, 0, 0, 1, 0],
    "pctr": [0.9, 0.5, 0.1, 0.8, 0.7, 0.3],
    "other": [0.1, 0.5, 0.9, 0.7, 0.8, 0.3],
}
GAUC = fe.MeasureValue("pctr", "all", "GAUC", 0.6, 3, 2, {"all_negative": 1}, 5 / 6, 1.0, se=0.1)
AUC = replace(GAUC, measure="AUC", value=0.7, se=math.nan, warning="pooled")


@dataclass(frozen=True)
class Compared:
    """A line of a comparison: what gates read of one."""

    score: str
    delta: float
    ci_low: float
    slice: str = "all"
    measure: str = "GAUC"
    groups_used: int = 50
    groups: int = 60
    p_adjusted: float | None = None
    p_value: float | None = None
    wins: int = 20
    dropped: dict[str, int] = field(default_factory=dict)


def evaluated(**options: Any) -> fe.Result:
    given = {"group": "user", "label": "click", "score": ["pctr", "other"], "measures": "GAUC,AUC"}
    return fe.evaluate(ROWS, **{**given, **options})


def verdict(
    condition: str, *lines: Any, **options: Any
) -> list[tuple[str, str | None, str | None]]:
    found = judge([condition], lines or [GAUC, AUC], **{"rows": 6, "groups": 3, **options})
    assert bool(found) == found.passed == (not found.failures)
    assert all(line.startswith("gate failed: ") for line in str(found).splitlines() if not found)
    return [(failure.kind, failure.score, failure.slice) for failure in found.failures]


# ---- what holds, and what does not ---------------------------------------------------------------

HOLDS, PASSED = [("holds", "pctr", None)], []  # type: ignore[var-annotated]


@pytest.mark.parametrize(
    "condition,expected",
    [
        ("GAUC < 0.6", PASSED),
        ("GAUC <= 0.6", HOLDS),
        ("GAUC = 0.6", HOLDS),
        ("GAUC != 0.6", PASSED),
        ("GAUC > 0.5", HOLDS),
        ("GAUC >= 0.61", PASSED),
        ("GAUC se >= 0.1", HOLDS),
        ("GAUC groups = 3 and GAUC groups_used = 2", HOLDS),
        ("GAUC dropped_share = 1 / 3", HOLDS),
        ("GAUC rows_share < 0.9 and GAUC positives_share = 1", HOLDS),
        ("GAUC < AUC - 0.05", HOLDS),
        ("abs(GAUC - AUC) > 0.2", PASSED),
        ("min(GAUC, AUC) = GAUC and max(GAUC, AUC) = AUC", HOLDS),
        ("-GAUC * 2 + 1 < -0.1", HOLDS),
        ("GAUC / AUC < 0.8", PASSED),
        ("not GAUC > 0.5", PASSED),
        ("GAUC > 0.9 or AUC > 0.6 and not AUC > 0.8", HOLDS),
        ("rows < 7", [("holds", None, None)]),
        ("groups < 3", PASSED),
        ("pctr:GAUC > 0.5", [("holds", None, None)]),
    ],
)
def test_judge__of_a_condition(condition: str, expected: list[Any]) -> None:
    assert verdict(condition) == expected


def test_judge__no_score_named__fails_for_any_model_and_keeps_models_together() -> None:
    other = [replace(GAUC, score="other", value=0.4), replace(AUC, score="other", value=0.3)]
    lines = [GAUC, AUC, *other]
    assert verdict("GAUC > 0.3", *lines) == [*HOLDS, ("holds", "other", None)]
    assert verdict("GAUC < 0.5", *lines) == [("holds", "other", None)]
    assert verdict("GAUC < 0.5 and AUC > 0.6", *lines) == PASSED
    assert verdict("GAUC < pctr:GAUC", *lines) == [("holds", "other", None)]
    assert verdict("other:GAUC < pctr:GAUC", *lines) == [("holds", None, None)]


def test_judge__slices__named_every_and_against_the_whole() -> None:
    lines = [
        GAUC,
        replace(GAUC, slice="slot=1", value=0.5),
        replace(GAUC, slice="slot=2", value=0.7),
    ]
    assert verdict("GAUC[slot=1] < GAUC[slot=2] - 0.1", *lines) == HOLDS
    assert verdict("GAUC[*] < 0.65", *lines) == [("holds", "pctr", "slot=1")]
    assert verdict("GAUC[*] < GAUC - 0.05", *lines) == [("holds", "pctr", "slot=1")]
    assert verdict("pctr:GAUC[*] > 0", *lines) == [("holds", None, s) for s in ("slot=1", "slot=2")]
    assert verdict("GAUC[*] < 0.65 and GAUC[*] > 0.6", *lines) == PASSED


def test_failure__shows_the_digits_that_decide() -> None:
    line = replace(GAUC, value=0.6 - 2**-53)
    (failure,) = judge(["GAUC < 0.6"], [line], rows=6, groups=3).failures
    assert failure.detail == repr(line.value)
    assert str(failure) == f"GAUC value < 0.6: pctr: {line.value!r}"
    (failure,) = judge(["rows < 2000000"], [], rows=1_234_567, groups=2).failures
    assert failure.detail == "1,234,567"


def test_failure__of_several_numbers__names_them() -> None:
    for condition, text in {
        "GAUC < 0.65 and AUC < 0.8 and rows > 1": "GAUC value 0.6, AUC value 0.7, rows 6",
        "rows > 1 and GAUC < 0.65": "rows 6, GAUC value 0.6",
        "GAUC < 0.65 and GAUC se < 1": "value 0.6, se 0.1",
        "confidence < 1": "0.95",
        "confidence < 1 and rows > 1": "6",
    }.items():
        (failure,) = judge([condition], [GAUC, AUC], rows=6, groups=3).failures
        assert failure.detail == text


# ---- what cannot be told -------------------------------------------------------------------------


def test_unknown_slice__value_without_its_column__suggests_the_slice() -> None:
    sliced = replace(GAUC, slice="country=IN")
    lines = [GAUC, sliced, replace(GAUC, slice="region=IN")]
    (failure,) = judge(["GAUC[IN] < 0.6"], lines, rows=6, groups=3).failures
    assert failure.detail.endswith("has no slice 'IN'. Did you mean 'country=IN'?")


@pytest.mark.parametrize(
    "condition,kind,text",
    [
        ("GAUC[slot=1] < 0", "unknown_slice", "the result has no slice 'slot=1'"),
        ("GAUC[al] < 0", "unknown_slice", "Did you mean 'all'?"),
        ("GAUC[*] < 0", "unknown_slice", "the result has no slices"),
        ("RR < 0", "not_computed", "RR is none of the measures GAUC, AUC"),
        ("ptcr:GAUC < 0", "unknown_score", "'ptcr' is none of 'pctr'. Did you mean 'pctr'?"),
        (
            "AUC se < 0",
            "undefined",
            "se of AUC is undefined (1 all_negative, has no standard error)",
        ),
        ("GAUC effective_groups < 0", "undefined", "effective_groups of GAUC is undefined"),
        ("GAUC delta < 0", "no_baseline", "GAUC has no delta: there is no baseline"),
        ("GAUC / (GAUC - GAUC) < 0", "undefined", "is not a finite number"),
        ("1e308 * 10 * GAUC < 0", "undefined", "1e+308 * 10 is not a finite number"),
        (
            "GAUC * 0 + 1e308 * 10 - 1e308 * 10 < 0",
            "undefined",
            "1e+308 * 10 is not a finite number",
        ),
    ],
)
def test_judge__what_cannot_be_told__fails_whatever_stands_around_it(condition, kind, text) -> None:
    other = "ptcr:GAUC > 5" if "ptcr" in condition else "GAUC > 5"
    for whole in (
        condition, f"not {condition}", f"{other} and {condition}", f"{other} and not {condition}",
        f"{other} or not ({condition} or {other})",
    ):  # fmt: skip
        (failure,) = judge([whole], [GAUC, AUC], rows=6, groups=3).failures
        assert failure.kind == kind
        assert text in failure.detail


def test_judge__no_group_behind_a_number__fails() -> None:
    empty = replace(GAUC, groups_used=0, dropped={"all_negative": 3})
    for name in ("value", "groups", "dropped_share", "groups_used"):
        (failure,) = judge([f"GAUC {name} < -1"], [empty], rows=6, groups=3).failures
        assert failure.kind == "no_groups"
        assert failure.detail == "no group stands behind GAUC (3 all_negative)"
    sliced = replace(empty, slice="slot=1")
    assert verdict("GAUC[*] < 0", GAUC, sliced) == [("no_groups", "pctr", None)]
    assert verdict("GAUC[*] groups_used < 1", GAUC, sliced) == [("holds", "pctr", "slot=1")]
    assert verdict("rows > 9", GAUC, rows=0, groups=0) == [("no_groups", None, None)]


def test_judge__rows_without_groups__have_a_number_of_rows_only() -> None:
    assert verdict("rows < 9", groups=0) == [("holds", None, None)]
    for condition in ("groups < 9", "AUC groups < 9"):
        (failure,) = judge([condition], [AUC], rows=6, groups=0).failures
        assert failure.kind == "no_groups"
        assert failure.detail.startswith("rows were not grouped")
    (failure,) = judge(["groups < 9"], [], rows=0, groups=0).failures
    assert failure.detail == "there are no groups"


def test_judge__value_that_needs_no_groups__has_no_dropped_share() -> None:
    of_rows = replace(AUC, groups=0, groups_used=0)
    assert verdict("AUC > 0.6", of_rows) == HOLDS
    (failure,) = judge(["AUC dropped_share >= 0"], [of_rows], rows=6, groups=3).failures
    lacks = "dropped_share of AUC is undefined (1 all_negative, has no standard error)"
    assert (failure.kind, failure.detail) == ("undefined", f"cannot be judged: {lacks}")
    assert verdict("AUC > 0.6", replace(AUC, groups=1, groups_used=0)) == [
        ("no_groups", "pctr", None)
    ]


def test_judge__undefined_value_of_rows_without_groups__is_undefined() -> None:
    log = {"click": [0, 1, 1, 1], "p": [0.1, 0.2, 0.3, 0.4], "slot": ["a", "a", "b", "b"]}
    result = fe.evaluate(log, label="click", score="p", measures="AUC", by="slot")
    (failure,) = result.check("AUC[slot=b] < 3").failures
    assert (failure.kind, failure.detail) == (
        "undefined",
        "cannot be judged: value of AUC[slot=b] is undefined (1 single_class)",
    )


def test_judge__value_missing_for_one_slice__leaves_it_out() -> None:
    lines = [
        GAUC, replace(GAUC, slice="slot=1"), replace(AUC, slice="slot=2"),
        replace(GAUC, slice="slot=3", groups_used=0, warning="one_group"),
        replace(GAUC, slice="slot=4", value=math.nan, warning="no_variance"),
    ]  # fmt: skip
    found = judge(["GAUC[*] < 0"], lines, rows=6, groups=3)
    assert found.passed
    assert str(found) == (
        "gate passed: GAUC[*] value < 0: not judged: slot=2 (no GAUC), slot=3 (all_negative), "
        "slot=4 (no_variance), 3 of 4 slices"
    )
    (failure,) = judge(["GAUC[slot=4] < 0"], lines, rows=6, groups=3).failures
    assert "gate on value, which has a number" in failure.detail


def test_judge__every_slice__leaves_out_those_without_numbers() -> None:
    lines = [
        replace(GAUC, slice=f"slot={n}", score=score, groups_used=used, dropped={"all_negative": 3})
        for n, used in enumerate([2, 0, 0])
        for score in ("pctr", "other")
    ]
    lines[4] = replace(lines[4], groups_used=2, value=0.4)
    found = judge(["GAUC[*] < 0.5"], lines, rows=6, groups=3)
    assert [(one.score, one.slice) for one in found.failures] == [("pctr", "slot=2")]
    assert found.lines() == [
        "gate failed: GAUC[*] value < 0.5: pctr, slot=2: 0.4; not judged: slot=1, slot=2 of other "
        "(all_negative), 2 of 3 slices"
    ]
    # What holds in a slice holds whatever another alternative lacks there.
    silence = verdict("GAUC[*] < 0.5 or GAUC[*] groups_used < 1", *lines)
    assert silence == [
        ("holds", "pctr", "slot=1"), ("holds", "other", "slot=1"), ("holds", "pctr", "slot=2"),
        ("holds", "other", "slot=2"),
    ]  # fmt: skip
    many = [replace(lines[1], slice=f"slot={n}", groups_used=0, groups=n) for n in range(1, 10)]
    for slices, named in {
        5: "slot=5, slot=4, slot=3, slot=2, slot=1 (all_negative)",
        6: "slot=6, slot=5, slot=4, slot=3, slot=2 (all_negative), 1 more",
        9: "slot=9, slot=8, slot=7, slot=6, slot=5 (all_negative), 4 more",
    }.items():
        (failure,) = judge(["GAUC[*] < 0.5"], many[:slices], rows=6, groups=3).failures
        assert (failure.kind, failure.score, failure.slice) == ("no_groups", "other", None)
        assert failure.detail == f"no slice has its numbers: {named}, {slices} of {slices} slices"


def test_judge__nothing_at_all__fails() -> None:
    found = judge(["GAUC < 0"], [], rows=0, groups=0)
    assert [failure.detail for failure in found.failures] == ["the result has no values"]
    assert not judge(["rows < 0"], [], rows=0, groups=0)


def test_judge__no_gate__is_refused() -> None:
    with pytest.raises(ArgumentError, match="no gate is given"):
        evaluated().check()
    with pytest.raises(ArgumentError, match="fail_if: must be text or a Gate, got 3;"):
        evaluated().check(3)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="fail_if: must be text, got 3"):
        fe.gate(3)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match=r"worse\(LogLoss\), .* write worse\(a:LogLoss\)"):
        fe.gate("worse(a:GAUC) and worse(LogLoss)")


# ---- gates before there is a result --------------------------------------------------------------


@pytest.mark.parametrize(
    "condition,counts",
    [
        ("GAUC < 0.6", False),
        ("rows < 6", False),
        ("groups < 6", True),
        ("AUC > 1 or GAUC groups_used < 3", True),
    ],
)
def test_gate__counts_groups__if_it_reads_a_number_of_them(condition: str, counts: bool) -> None:
    assert fe.gate(condition).counts_groups is counts


def test_gate__requires__its_measures_and_scores() -> None:
    names = {"GAUC": "GAUC", "nDCG(gain='linear')@3": "nDCG@3"}
    fe.gate("a:GAUC < 0.6 and rows > 1").require(names, ["a"])
    renamed = {"RR": "GAUC"}
    fe.gate("RR < 0.6").require(names, ["a"], renamed)
    for condition, said in {
        "GAUC < 1 or AP < 0.6": "AP is none of the measures GAUC, nDCG@3. Add it to --measures.",
        "AUC < 1": "AUC is none of the measures GAUC, nDCG@3. Did you mean 'GAUC'? "
        "Add it to --measures.",
        "nDCG@3 < 1": "nDCG@3 is none of the measures GAUC, nDCG(gain='linear')@3",
        "b:GAUC < 0.6": "score column 'b' is none of 'a'. Add it to --score.",
    }.items():
        with pytest.raises(ArgumentError) as refused:
            fe.gate(condition).require(names, ["a"])
        assert said in str(refused.value)
    with pytest.raises(ArgumentError, match="names: must be "):
        fe.gate("GAUC < 1").require(3, ["a"])  # type: ignore[arg-type]


ERROR_FIELDS = (
    "se", "ci_low", "ci_high", "effective_groups", "delta_se", "delta_ci_low", "delta_ci_high",
    "p_value", "p_adjusted", "mdd",
)  # fmt: skip


PAIR_FIELDS = ("wins", "losses", "ties")


@pytest.mark.parametrize("field", [field for field in FIELDS if field not in PAIR_FIELDS])
def test_gate__on_an_error_that_its_measure_lacks__is_refused(field: str) -> None:
    names = dict.fromkeys(["GAUC", "AUC", "LogLoss", "KS"], "")
    fe.gate(f"GAUC {field} < 1 or LogLoss[*] {field} < 1").require(names, ["a"])
    for text, hint in {"AUC": ", or write AUC(se='clustered') in --measures", "KS": ""}.items():
        gate = fe.gate(f"a:GAUC > 1 and a:{text} {field} < 1")
        if field not in ERROR_FIELDS:
            gate.require(names, ["a"])
            continue
        with pytest.raises(ArgumentError) as refused:
            gate.require(names, ["a"])
        assert str(refused.value) == (
            f'gate "{gate}": must be of numbers that the measure has, got {field} of {text}, which '
            f"has no standard error; compare its value{hint}."
        )
        gate.require(names, ["a"], with_errors=[text])
    clustered = "AUC(se='clustered')"
    fe.gate(f"AUC {field} < 1").require({clustered: "AUC"}, ["a"], {"AUC": clustered})


@pytest.mark.parametrize("text", ["AUC", "AUC(se='clustered')", "KS", "LogLoss"])
@pytest.mark.parametrize("field", PAIR_FIELDS)
def test_gate__on_wins_losses_or_ties_of_a_measure_of_all_rows__is_refused(field, text) -> None:
    gate = fe.gate(f"GAUC {field} < 9 and {text}[*] {field} < 1")
    with pytest.raises(ArgumentError) as refused:
        gate.require({"GAUC": "", text: ""}, ["a"], with_errors=[text])
    assert str(refused.value) == (
        f'gate "{gate}": must be of numbers that the measure has, got {field} of {text}, a measure '
        "of all rows, which has no value of a group; compare its value or delta, or use a measure "
        "of groups."
    )


def test_gates_and_verdicts__do_not_change() -> None:
    gate = fe.gate("GAUC < 1")
    found = judge([gate], [GAUC], rows=6, groups=3)
    p_value = AdjustedP(0.5, 0.5)
    for value, name in (
        (gate, "condition"), (found, "failures"), (found.failures[0], "kind"),
        (p_value, "p_adjusted"),
    ):  # fmt: skip
        with pytest.raises(AttributeError):
            setattr(value, name, None)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(
    st.sampled_from(FIELDS),
    st.sampled_from([math.nan, math.inf, -math.inf, None]),
    st.sampled_from(["{} < 0", "not {} < 0", "{} = {}", "not {} != {}", "abs({}) >= 0 or rows > 0",
                     "min({}, 0) > 1", "max(0, {}) < -1", "0 * {} > 1", "1 / {} > 5"]),
)  # fmt: skip
def test_judge__nan_infinity_or_nothing__never_passes(name, number, condition) -> None:
    class Bare:
        score, slice, measure = "pctr", "all", "GAUC"

    line = Bare()
    setattr(line, name, number)
    if name == "dropped_share":
        line.groups, line.groups_used = 0, 0  # type: ignore[attr-defined]
    text = condition.replace("{}", f"GAUC {name}")
    assert not judge([text], [line], rows=6, groups=3, baseline="base")


# ---- comparisons ---------------------------------------------------------------------------------


def test_judge__comparison__is_meant_for_each_candidate() -> None:
    values = [
        replace(GAUC, score=name, value=at) for name, at in (("base", 0.6), ("a", 0.61), ("b", 0.5))
    ]
    lines = [*values, Compared("a", 0.01, -0.001), Compared("b", -0.1, -0.2)]
    options = {"baseline": "base"}
    assert verdict("GAUC delta_ci_low < -0.01", *lines, **options) == [("holds", "b", None)]
    assert verdict("a:GAUC delta_ci_low < -0.01", *lines, **options) == PASSED
    assert verdict("GAUC < 0.55 and GAUC delta < 0", *lines, **options) == [("holds", "b", None)]
    assert verdict("GAUC > 0.55", *lines, **options) == [("holds", s, None) for s in ("base", "a")]
    assert verdict("GAUC wins < 10", *lines, **options) == PASSED
    assert verdict("base:GAUC delta < 0", *lines, **options) == [("no_baseline", None, None)]
    assert verdict("GAUC mdd > 0", *lines, **options) == [("undefined", s, None) for s in "ab"]
    assert verdict("a:GAUC p_adjusted > 0", *lines, **options) == [("undefined", None, None)]
    assert verdict("GAUC delta < 0", values[0], **options) == [("no_baseline", None, None)]
    empty = Compared("a", 0.01, 0.0, groups_used=0)
    assert verdict("GAUC delta < 0", empty, **options) == [("no_groups", "a", None)]


def test_judge__worse__shows_the_p_values_that_decide() -> None:
    def told(p_value: float, *more: Any, **given: Any) -> str:
        lines = [
            replace(GAUC, score="base"),
            Compared("a", -0.01, -0.02, p_value=p_value, p_adjusted=0.5), *more,
        ]  # fmt: skip
        found = judge(["worse(GAUC)"], lines, rows=6, groups=3, baseline="base", conventions=given)
        return str(found).removeprefix("gate failed: worse(GAUC): a: delta -0.01, ")

    assert told(0.2) == told(0.02, confidence=0.99) == "gate passed"
    assert told(0.0123456) == told(0.0123456, correction="none") == "p 0.012"
    assert told(0.04999999) == "p 0.04999999"
    other = Compared("b", 0.1, 0.0, p_value=0.01, p_adjusted=0.5)
    family = "p 0.01, 0.02 over the 2 models"
    assert told(0.01, other) == family
    assert told(0.01, other, replace(other, measure="RR")) == (
        f"{family} (0.5 over the 3 of the table)"
    )


@pytest.mark.parametrize("correction", ["holm", "bh", "none"])
def test_p_adjusted__is_corrected_over_the_terms_of_the_gate(correction: str) -> None:
    draws = np.random.default_rng(3)
    n = 800
    log = {
        "user": np.arange(n) // 8,
        "slot": np.arange(n) // 8 % 4,
        "country": np.arange(n) // 8 % 3,
        "click": draws.integers(0, 2, n),
        **{name: draws.random(n) for name in ("base", "a", "b")},
    }
    found = fe.compare(
        log, group="user", label="click", score=["base", "a", "b"], baseline="base",
        measures="GAUC,RR", by=["slot", "country"], correction=correction,
    )  # fmt: skip

    def expected(models: str, labels: list[str]) -> dict[tuple[str, str], float]:
        keys = [(score, label) for label in labels for score in models]
        raw = np.array([found.find("GAUC", score, label).p_value for score, label in keys])
        return dict(zip(keys, adjust_p_values(raw, correction), strict=True))

    def of_gate(condition: str) -> dict[tuple[str, str], float]:
        failures = found.check(f"{condition} p_adjusted >= 0").failures
        (score, label) = re.fullmatch(r"(?:(\w):)?GAUC(?:\[(.*)\])?", condition).groups()  # type: ignore[union-attr]
        return {
            (one.score or score, one.slice or label or "all"): one.p_adjusted for one in failures
        }  # type: ignore[return-value]

    slots, countries = [f"slot={i}" for i in range(4)], [f"country={i}" for i in range(3)]
    assert of_gate("GAUC") == expected("ab", ["all"])
    assert of_gate("a:GAUC") == expected("a", ["all"])
    assert of_gate("GAUC[*]") == expected("ab", slots) | expected("ab", countries)
    assert of_gate("b:GAUC[*]") == expected("b", slots) | expected("b", countries)
    assert of_gate("GAUC[slot=2]") == expected("ab", ["slot=2"])
    named = "a:GAUC[slot=2] p_adjusted >= 0 and a:GAUC[slot=3] p_adjusted >= 0"
    (failure,) = found.check(named).failures
    assert failure.p_adjusted == expected("a", ["slot=2", "slot=3"])["a", "slot=2"]
    (text,) = {
        str(one).partition("over")[2] for one in found.check("a:GAUC[*] p_adjusted >= 0").failures
        if one.slice == "slot=1"
    } or {""}  # fmt: skip
    assert text.startswith({"none": ""}.get(correction, " the 4 slices of slot ("))
    assert (" by bh over" in str(found.check("GAUC p_adjusted >= 0"))) == (correction == "bh")


# ---- results -------------------------------------------------------------------------------------


def test_check__of_a_result__reads_its_lines() -> None:
    result = evaluated()
    assert result.check("GAUC < 0.3", fe.gate("rows < 6")).passed
    found = result.check("GAUC < 0.5", "auc[all] dropped_share > 0", "RR < 0")
    assert str(found).splitlines() == [
        "gate failed: GAUC value < 0.5: other: 0.4",
        "gate failed: RR value < 0: RR is none of the measures GAUC, AUC",
    ]
    for line in result:  # every field of a value is told as the result has it
        for name in set(VALUE_FIELDS) - {"dropped_share"}:
            number = getattr(line, name)
            whole = 0 if math.isnan(number) else number
            found = result.check(f"{line.score}:{line.measure} {name} != {whole!r}")
            assert [failure.kind for failure in found.failures] == ["undefined"] * math.isnan(
                number
            )


def test_check__measure_that_a_profile_changed__is_found_by_either_name() -> None:
    result = evaluated(
        measures="nDCG,LogLoss", profile="gdeval", ties="expected", sampling_rate=0.5
    )
    assert "LogLoss(sampling_rate=0.5)" in result.measures
    assert result.check("LogLoss < 0", "LogLoss(sampling_rate=0.5) < 0").passed
    for text in (*result.measures, "nDCG"):
        assert result.check(f"{text} < 0").passed, text
    given = result.check("LogLoss(sampling_rate=1) < 0")
    assert [failure.kind for failure in given.failures] == ["not_computed"]


def test_check__of_classes__reads_their_averages() -> None:
    columns = {"kind": ["a", "b", "a"], "p": [0.9, 0.2, 0.4], "q": [0.1, 0.8, 0.6]}
    found = fe.evaluate_classes(columns, label="kind", measures="PPV", scores={"a": "p", "b": "q"})
    assert found.check("PPV[macro] < 0.5").passed
    assert not found.check("PPV[macro] > 0.5")
