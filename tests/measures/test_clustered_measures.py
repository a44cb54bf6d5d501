"""Standard errors of measures of all rows, with groups as independent clusters."""

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from numba import config
from scipy import stats

import fastrank_eval
from fastrank_eval.measures import measure
from fastrank_eval.measures.clustered_sums import Confusion
from fastrank_eval.measures.decisions import Decision
from fastrank_eval.measures.pooled import ClusteredMeasure, SummedMeasure
from tests.measures.test_pooled import CASES, ORDERED, WEIGHTED_CASES, evaluate
from tests.oracles.means import degrees_of, effective_groups
from tests.oracles.measures import Row
from tests.oracles.pooled import oracle_of
from tests.strategies import POOLED_VARIANTS
from tests.support import batched
from tests.support.tables import table_of

pytestmark = pytest.mark.kernels

TEXTS = tuple(
    text
    for texts in POOLED_VARIANTS.values()
    for text in texts
    if isinstance(measure(text), ClusteredMeasure)
)


SUMS = {"loss": 21.0, "weight": 60.5, "positive": 17.25, "predicted": 19.5, "deviation": 8.5}


@pytest.mark.parametrize("text", TEXTS)
def test_gradient__equals_finite_differences(text):
    of = measure(text)
    if isinstance(of, SummedMeasure):
        sums = {name: SUMS.get(name, 0.0) for name in of.terms}
        found = of.gradient(sums)
        assert set(found) <= set(of.terms[: len(of.terms) - of.detail_terms])

        def value(at) -> float:
            return of.from_sums(at).value
    else:
        assert isinstance(of, Decision)
        sums = {"tp": 21.0, "fp": 9.5, "fn": 13.0, "tn": 40.25}
        cells = Confusion(*(np.array([cell]) for cell in sums.values()))
        slopes = of.slopes(cells, of.option_values)
        found = {name: slope[0] for name, slope in zip(sums, slopes, strict=True)}

        def value(at) -> float:
            return of.from_confusion(Confusion(*map(np.atleast_1d, at.values())), of.option_values)[
                0
            ]

    for name, at in sums.items():
        step = 1e-5 * max(at, 1.0)
        rise = value({**sums, name: at + step}) - value({**sums, name: at - step})
        assert found.get(name, 0.0) == pytest.approx(rise / (2 * step), rel=1e-6, abs=1e-9), name
    # Rows counted twice change no value: the gradient is square to the sums.
    assert sum(found.get(name, 0.0) * at for name, at in sums.items()) == pytest.approx(0, abs=1e-9)


def by_weighing(text: str, groups: Sequence[Sequence[Row]]) -> tuple[float, int]:
    """The variance from what a little more and a little less weight of each group does."""
    held = [group for group in groups if any(row.weight > 0 for row in group)]
    squares, step = [], 1e-4
    for at in range(len(held)):
        ends = []
        for factor in (1 + step, 1 - step):
            weighed = [row._replace(weight=row.weight * factor) for row in held[at]]
            ends.append(
                oracle_of(text, list(itertools.chain(*held[:at], weighed, *held[at + 1 :])))
            )
        squares.append(((ends[0] - ends[1]) / (2 * step)) ** 2)
    many = len(held)
    error = math.sqrt(many / (many - 1) * math.fsum(squares)) if many > 1 else math.nan
    return error, many


def shares_of(text: str, groups: Sequence[Sequence[Row]]) -> list[list[float]]:
    """Each group's share of what the measure divides by; of each of these if there are several."""
    of = measure(text)
    chosen = {
        "positive": lambda row: (row.label or 0) >= of.rel,
        "negative": lambda row: (row.label or 0) < of.rel,
        # A row without a score is not predicted positive.
        "predicted": lambda row: row.score is not None and row.score >= of.threshold,
        "rejected": lambda row: row.score is None or row.score < of.threshold,
        "not tn": lambda row: chosen["positive"](row) or chosen["predicted"](row),
        "all": lambda row: True,
    }
    names = {
        **dict.fromkeys(("PCOC", "TPR", "FNR"), ("positive",)),
        **dict.fromkeys(("TNR", "FPR"), ("negative",)),
        "PPV": ("predicted",),
        "NPV": ("rejected",),
        "FScore": ("not tn",),
        "BalancedAccuracy": ("positive", "negative"),
        "MCC": ("positive", "negative", "predicted", "rejected"),
    }.get(of.name, ("all",))
    return [
        [math.fsum(row.weight for row in rows if chosen[name](row)) for rows in groups]
        for name in names
    ]


def groups_behind_entropy(text: str, groups: Sequence[Sequence[Row]]) -> float:
    """1 / sum of squares of the shares of groups in the entropy of the rows."""
    (positive,) = shares_of(f"TPR(rel={measure(text).rel})", groups)
    (rows,) = shares_of("LogLoss", groups)
    rate = math.fsum(positive) / math.fsum(rows)
    parts = [
        -p * math.log(rate) - (w - p) * math.log1p(-rate)
        for p, w in zip(positive, rows, strict=True)
    ]
    return math.fsum(parts) ** 2 / math.fsum(part * part for part in parts)


@pytest.mark.compiled
@pytest.mark.parametrize("case", [*CASES, *WEIGHTED_CASES])
def test_error__is_what_weighing_each_group_tells(case):
    groups = (CASES | WEIGHTED_CASES)[case][:20]
    weight = "weight" if case in WEIGHTED_CASES else None
    texts = [text for text in TEXTS if text in ORDERED] if case.startswith("null scores") else TEXTS
    for line in evaluate(table_of(groups), texts, weight=weight):
        if math.isnan(line.value):
            assert math.isnan(line.se), line
            assert line.warning is None
            continue
        wanted, _ = by_weighing(line.measure, groups)
        shares = [[w for w in of_one if w] for of_one in shares_of(line.measure, groups)]
        clusters, carrying = (min(map(of, shares)) for of in (len, effective_groups))
        if (
            line.measure.split("(")[0] in ("NE", "RIG", "NEPos")
            and "background" not in line.measure
        ):
            carrying = min(carrying, groups_behind_entropy(line.measure, groups))
        assert line.effective_groups == pytest.approx(min(carrying, clusters), rel=1e-12), line
        if clusters < 2:
            assert (math.isnan(line.se), line.warning) == (True, "one_group"), line
            continue
        if line.warning == "no_variance":
            assert math.isnan(line.se)
            assert line.value == 0 or wanted == pytest.approx(0, abs=1e-9), line
            continue
        # A mean of differences of second order beside.
        assert line.se == pytest.approx(wanted, rel=2e-6, abs=1e-9), line
        reach = stats.t.ppf(0.975, degrees_of(carrying, clusters)) * line.se
        assert line.value - line.ci_low == pytest.approx(reach, rel=1e-9, abs=1e-12)
        assert line.ci_high == pytest.approx(line.value + reach, rel=1e-9, abs=1e-12)
        assert line.warning == ("few_groups" if line.effective_groups < 40 else None)


def clicks(groups: int, seed: int, giant: int = 0) -> dict[str, np.ndarray]:
    """Users of differing sizes and tastes, one of them of as many rows as asked."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 16, groups)
    sizes[groups // 2] += giant
    chance = rng.beta(1, 6, sizes.sum())
    taste = np.exp(np.repeat(rng.normal(-0.08, 0.4, groups), sizes))
    return {
        "group": np.repeat(np.arange(groups), sizes),
        "label": (rng.random(len(chance)) < np.minimum(chance * taste, 1)).astype(np.int8),
        "score": chance,
        "w": rng.integers(0, 4, len(chance)) / 3,
    }


@pytest.mark.parametrize("weight", [None, "w"])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_error__equals_the_sandwich_of_a_regression_on_a_constant(weight, kind):
    """A group of more rows than are added at a time is among them."""
    log = clicks(300, 1, giant=0 if config.DISABLE_JIT else 70_000)
    log["score"] = log["score"].astype(kind)
    p, y = log["score"].astype(np.float64), log["label"]
    w = np.ones(len(p)) if weight is None else log["w"]
    rows = {
        "LogLoss": -np.log(np.where(y == 1, p, 1 - p)),
        "Brier": (p - y) ** 2,
        "Bias": p - y,
        "Accuracy": (p >= 0.5) == y,
    }
    found = {line.measure: line for line in evaluate(pa.table(log), [*rows, "PCOC"], weight=weight)}

    def meat(residual) -> float:
        scores = np.bincount(log["group"], w * residual)
        clusters = np.count_nonzero(np.bincount(log["group"], w))
        return math.sqrt(clusters / (clusters - 1) * math.fsum(scores**2))

    for text, term in rows.items():
        error = meat(term - np.average(term, weights=w)) / w.sum()
        assert found[text].se == pytest.approx(error, rel=1e-9), text
    ratio = np.sum(w * p) / np.sum(w * y)
    assert found["PCOC"].se == pytest.approx(meat(p - ratio * y) / np.sum(w * y), rel=1e-9)


def test_policy_for_undefined_values__leaves_no_error():
    groups = [[Row(0.25, 0), Row(0.5, 0)], [Row(0.75, 0)]]
    for line in evaluate(table_of(groups), ["PCOC", "TPR", "NE"], undefined="zero"):
        assert (line.value, math.isnan(line.se), line.warning) == (0, True, "pooled")


def test_chunk_without_a_scored_row__is_no_cluster() -> None:
    # What lies in memory where nothing was added must not pass for a group.
    log = {
        "group": np.repeat(np.arange(40), 2),
        "label": np.tile([0, 1], 40),
        "score": [None if row >= 40 else row / 64 for row in range(80)],
    }
    options = {"group": "group", "label": "label", "score": "score", "unretrieved": "drop"}
    for rows in (4, 80):
        for line in batched.evaluate(
            log, measures="Brier,LogLoss,PCOC,MAE", batch_rows=rows, threads=1, **options
        ):
            assert line.effective_groups == 20, (rows, line.measure)


def few_clicks(groups: int, rows: int = 8) -> dict[str, np.ndarray]:
    """Groups of as many rows; every fifth has a click."""
    random_ = np.random.default_rng(groups)
    user = np.repeat(np.arange(groups), rows)
    click = (user % 5 == 0) & (np.arange(len(user)) % rows == 0)
    scores = {name: random_.uniform(0.01, 0.4, len(user)) for name in "ab"}
    return {"user": user, "click": click, **scores}


@pytest.mark.parametrize("text", ["NE", "RIG"])
def test_difference__of_ne_in_few_groups__is_tested_as_that_of_logloss(text):
    for groups, is_few in ((10, True), (400, False)):
        comparison = fastrank_eval.compare(
            few_clicks(groups), group="user", label="click", score=["a", "b"], baseline="a",
            measures=[text, "LogLoss", f"{text}(background=0.1)"], correction="none",
        )  # fmt: skip
        found, loss, fixed = comparison.values
        assert fixed.p_value == pytest.approx(loss.p_value, rel=1e-9)
        assert (found.p_value == pytest.approx(loss.p_value, rel=1e-9)) == is_few


def test_difference__of_auc__has_at_most_the_degrees_of_the_groups_with_positives():
    lines = few_clicks(40)
    comparison = fastrank_eval.compare(
        lines, group="user", label="click", score=["a", "b"], baseline="a", measures="AUC"
    )
    groups = 8
    assert comparison.find("AUC").degrees <= 2 / (1 / groups - 1 / 40) * (1 + 1e-12)
