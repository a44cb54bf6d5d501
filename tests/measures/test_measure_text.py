"""A measure is a value whose text is its identity; text that makes no sense is refused."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fastrank_eval
from fastrank_eval import AP, RR, F, IPrec, MeasureError, P, nDCG
from fastrank_eval.measures import Measure, measure, parse_measures, registry
from fastrank_eval.measures.user_models import UserModel
from tests.support.transcripts import answers, cases

pytestmark = pytest.mark.no_kernels

# ---- any measure of the registry -----------------------------------------------------------------

POSITIVE = st.one_of(
    st.integers(1, 10**6), st.floats(0, 1e12, exclude_min=True), st.sampled_from([0.1, 1e-300])
)
SHARE = st.one_of(st.just(1), st.floats(0, 1, exclude_min=True))
GRADE = st.one_of(st.integers(-5, 100), st.floats(-1e6, 1e6))
TABLE = st.dictionaries(GRADE.filter(bool), GRADE, min_size=1, max_size=4)
COLUMN = st.text(min_size=1, max_size=8) | st.sampled_from(["a'b", 'a"b', "a'b\",c", "x\\", "a,b)"])
WORTH = st.integers(-9, 9) | st.floats(-1e100, 1e100)
VALUES: dict[str, st.SearchStrategy] = {
    "rel": POSITIVE,
    "short": st.sampled_from(["k", "length"]),
    "judged": st.sampled_from(["query", "anywhere"]),
    "weight": st.sampled_from(["uniform", "impressions", "positives", "pairs"]) | COLUMN,
    "beta": st.floats(0.01, 100) | st.integers(1, 9),
    "alpha": st.none() | SHARE,
    "over": st.sampled_from(["relevant", "retrieved"]),
    "interpolated": st.booleans(),
    "gain": st.sampled_from(["exp", "linear"]) | TABLE,
    "negative": st.sampled_from(["zero", "keep"]),
    "discount": st.sampled_from(["log2"]),
    "base": st.integers(2, 20) | st.floats(1.001, 50),
    "ideal": st.sampled_from(["judged", "retrieved"]),
    "max_grade": st.integers(1, 1000) | st.floats(0.5, 1000),
    "stop": st.sampled_from(["grade", "label"]),
    "normalize": st.booleans(),
    "single_class": st.sampled_from([None, "skip", 0, 0.5, 1, "error"]),
    "min_rows": st.integers(0, 10**9),
    "min_positives": st.integers(0, 10**9),
    "max_fpr": st.none() | SHARE,
    "se": st.sampled_from([None, "delong", "clustered"]),
    "interpolation": st.sampled_from(["davis", "linear"]),
    "p": st.floats(0, 1, exclude_min=True, exclude_max=True),
    "patience": SHARE,
    "depth": st.just("lists") | st.integers(1, 10**7),
    "horizon": st.none() | st.integers(1, 2**14),
    "tail": st.sampled_from(["always", "if_unjudged"]),
    "T": st.integers(1, 9) | st.floats(0.5, 1e6),
    "mult": st.integers(1, 9) | st.floats(0.01, 100),
    "recall": st.sampled_from([0, 1]) | st.floats(0, 1),
    "rounding": st.sampled_from(["nearest", "up"]),
    "sampling_rate": SHARE,
    "clamp": st.just("type") | st.floats(0, 0.5, exclude_min=True, exclude_max=True),
    "threshold": st.floats(-1e3, 1e3) | st.integers(-5, 5),
    "top": SHARE,
    "background": st.just("slice") | st.floats(0, 1, exclude_min=True, exclude_max=True),
    "bins": st.integers(2, 10**6),
    "by": st.sampled_from(["width", "count"]),
    "statistic": st.sampled_from(["range", "max"]),
    "field": COLUMN,
    "columns": st.lists(
        COLUMN.map(lambda name: name.replace(",", "").strip()).filter(bool),
        min_size=1,
        max_size=3,
        unique=True,
    ).map(",".join),
    "most_columns": st.integers(1, 64),
    "min_clicks": st.integers(0, 10**9) | st.floats(0, 1e9),
    "smoothing": st.integers(0, 9) | st.floats(0, 100),
    "rel_ret": WORTH,
    "nonrel_ret": WORTH,
    "rel_missed": WORTH,
    "nonrel_missed": WORTH,
}
NEED_OPTION = {
    "IPrec": ("recall",),
    "ECE": ("bins",),
    "MCE": ("bins",),
    "FieldRCE": ("field",),
    "FieldECE": ("field",),
    "MultiECCE": ("columns",),
}
NEED_CUTOFF = ("SDCG", "NERR8", "NERR9", "BPM")


UNIT_GAIN = st.sampled_from(["binary", "label"]) | st.dictionaries(
    GRADE.filter(bool), st.floats(0, 1), min_size=1, max_size=4
)


@st.composite
def measures(draw: st.DrawFn) -> Measure:
    kind = registry[draw(st.sampled_from(sorted(registry)))]
    options = {
        param.name: draw(VALUES[param.name]) for param in kind.options if draw(st.booleans())
    }
    if issubclass(kind, UserModel) and "gain" in options:
        options["gain"] = draw(UNIT_GAIN)
    if kind.needs_subtopics:
        options |= {name: draw(VALUES["p"]) for name in ("alpha", "beta") if name in options}
    elif options.get("alpha") is not None:
        options.pop("beta", None)
    for needed in NEED_OPTION.get(kind.name, ()):
        options.setdefault(needed, draw(VALUES[needed]))
    if kind.name == "nDCG":
        options.pop("max_grade", None)
        if options.get("gain") in (None, "exp", "linear") and draw(st.booleans()):
            options |= {"ideal": "perfect", "max_grade": draw(VALUES["max_grade"])}
    if kind.name == "AUC":
        kept = draw(st.sampled_from(["max_fpr", "se", "bins"]))
        options = {name: options[name] for name in options if name in ("rel", kept)}
    if kind.name in ("DCG", "nDCG") and draw(st.booleans()):
        options["discount"] = "jarvelin"
    found = kind(**options)
    if kind.takes_cutoff and (kind.name in NEED_CUTOFF or draw(st.booleans())):
        found = found @ draw(st.integers(1, 10**6))
        if kind.name in ("AP", "GMAP") and draw(st.booleans()):
            found = found(over="min")
    return found


def test_registry__every_option_has_a_strategy_here():
    assert {param.name for kind in registry.values() for param in kind.options} <= set(VALUES)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(measures())
def test_text__reads_back_as_the_same_measure(m):
    again = measure(str(m))
    assert again == m
    assert type(again) is type(m)
    assert (str(again), hash(again), again.cutoff) == (str(m), hash(m), m.cutoff)
    assert again.option_values == m.option_values
    assert repr(m) == str(m)


@settings(max_examples=80, deadline=None, derandomize=True)
@given(st.lists(measures(), min_size=1, max_size=4))
def test_list_of_texts__is_split_only_between_measures(several):
    assert parse_measures(",".join(map(str, several))) == tuple(dict.fromkeys(several))
    assert parse_measures(several) == tuple(dict.fromkeys(several))
    assert parse_measures([" , ".join(map(str, several)), several[0]]) == tuple(
        dict.fromkeys(several)
    )


@settings(max_examples=50, deadline=None, derandomize=True)
@given(measures())
def test_copies__are_equal_and_hash_alike(m):
    pickled = pickle.loads(pickle.dumps(m))  # noqa: S301
    for again in (copy.copy(m), copy.deepcopy(m), pickled, m(), measure(m)):
        assert again == m
        assert hash(again) == hash(m)
        assert again.option_values == m.option_values


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.text(max_size=20) | st.text(alphabet="nDCGAP@10(){}[]=:,.' -*rel_", max_size=20))
def test_any_text__is_read_or_refused_in_our_words(text):
    try:
        found = measure(text)
    except MeasureError:
        return
    assert measure(str(found)) == found


# ---- alias ------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", cases("measure_texts"), ids=str)
def test_text__is_written_shortest_or_told_what_is_wrong(case):
    (text,) = case.given
    try:
        found = str(measure(text))
    except MeasureError as error:
        found = str(error)
    case.check([found])


def test_alias__every_one_a_class_lists_is_read():
    for name, kind in registry.items():
        for alias in (name, *kind.aliases):
            for case in (alias, alias.lower(), alias.upper()):
                if name == "IPrec":
                    assert measure(f"{case}@0.5") == kind(0.5), case
                elif name in NEED_OPTION:
                    (needed,) = NEED_OPTION[name]
                    options = {needed: 15 if needed == "bins" else "a,b"}
                    inside = ", ".join(f"{key}={given!r}" for key, given in options.items())
                    assert measure(f"{case}({inside})") == kind(**options), case
                elif name in NEED_CUTOFF:
                    assert measure(f"{case}@5") == kind() @ 5, case
                else:
                    assert measure(case) == kind(), case


def test_alias__one_that_sets_options__is_the_measure_with_them():
    for kind in registry.values():
        for alias, preset in kind.presets.items():
            for case in (alias, alias.lower(), alias.upper()):
                assert measure(case) == kind(**preset), case
                for option, value in preset.items():
                    with pytest.raises(MeasureError, match=f"already sets {option}=.*{kind.name}"):
                        measure(f"{case}({option}={value!r})")


def test_operators__build_what_the_text_says():
    assert nDCG @ 10 == measure("nDCG@10")
    assert nDCG(gain="linear") @ 10 == measure("nDCG(gain='linear')@10")
    assert AP(over="min") @ 10 == measure("AP(over='min')@10")
    assert (nDCG @ 10)(gain="linear") == measure("nDCG(gain='linear')@10")
    assert nDCG(gain={2: 3, 1: 1})(discount="jarvelin") == measure(
        "nDCG(gain={1: 1, 2: 3}, discount='jarvelin')"
    )
    assert (P(rel=2) @ 5) @ 10 == measure("P(rel=2)@10")
    assert P(rel=2)(rel=1) == P
    assert RR(weight="w") != RR
    assert P @ np.int64(3) == P @ 3
    assert P(rel=np.float32(2)) == P(rel=2)
    assert IPrec @ 0.1 == measure("IPrec(recall=0.1)")
    assert (IPrec @ 0.1)(rel=2) @ 0.3 == measure("IPrec(rel=2)@0.3")
    assert AP(rel=2).rel == 2
    assert (F(beta=0.5) @ 3).cutoff == 3


def test_value__cannot_be_changed_and_has_no_other_attribute():
    with pytest.raises(AttributeError):
        nDCG.cutoff = 10
    with pytest.raises(AttributeError):
        nDCG.gain = "linear"
    with pytest.raises(AttributeError, match="grain"):
        _ = nDCG.grain


def test_value__is_usable_as_a_key():
    kept = {nDCG @ 10: 1, measure("ndcg_cut_10"): 2, nDCG @ 5: 3}
    assert kept == {nDCG @ 10: 2, nDCG @ 5: 3}
    assert nDCG != "nDCG"


# ---- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        *(f"{name}@{2**52}" for name in ("P", "R", "AP", "RR", "Success", "DCG", "nDCG")),
        f"AP(over='min')@{2**52}",
        f"nDCG(ideal='perfect', max_grade=3)@{2**52}",
        f"ERR(max_grade=1000)@{2**52}",
        f"SDCG@{2**52}",
        f"BPM@{2**52}",
        f"RBP(p=1e-300)@{2**52}",
        f"RBP(p={1 - 2**-53!r})@{2**52}",
        f"INSQ(T=1e-300)@{2**52}",
        "INSQ(T=1e9)",
        "pFound(patience=1e-320)",
        f"GAUC(min_rows={2**52})",
        "F(beta=1e200)",
        "F(beta=1e10)",
        "F(beta=1e-200)",
        "F(alpha=1e-320)",
        "R(rel=1e308)",
        "Rprec(mult=1e-300)",
        f"Rprec(mult={2**20})",
        f"RelP@{2**52}",
        "Utility(rel_ret=1e100, nonrel_ret=-1e100)",
        "GMAP(rel=2)@1",
        "nDCGrel(gain={1: 1e308, 2: 1e308})",
        "RnDCG(gain={1: 1e-308, 2: 1e308})",
    ],
)
def test_extreme_option__gives_a_value_in_range_or_a_clear_error(text):
    source = {"g": [1, 1, 1], "l": [0, 1, 2], "s": [0.3, 0.2, 0.1]}
    try:
        result = fastrank_eval.evaluate(source, group="g", label="l", score="s", measures=text)
    except MeasureError:
        return
    low, high = measure(text).range
    (line,) = result.document()["results"]
    assert line["value"] is None or low <= line["value"] <= high
    assert line["groups_used"] + sum(line["dropped"].values()) == 1


def test_measure__endless_text__is_not_repeated_whole():
    with pytest.raises(MeasureError) as refused:
        measure("(" * 5000)
    assert len(str(refused.value)) < 300


test_answers = answers(globals())
