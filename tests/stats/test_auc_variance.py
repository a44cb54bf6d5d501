"""Standard errors of AUC: DeLong's and Obuchowski's, by definition, formula and simulation."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from fractions import Fraction

import numpy as np
import pytest

import fastrank_eval
from fastrank_eval import MeasureError, measure
from fastrank_eval.measures.auc import CLUSTERS, SE_OF_CLUSTERS, SE_OF_ROWS
from fastrank_eval.stats.auc_variance import row_variance
from fastrank_eval.stats.clustered_scores import ClusteredScores
from fastrank_eval.stats.weighted_scores import WeightedScores
from tests.support import batched

CLUSTERED = "AUC(se='clustered')"


def log_of(seed: int, rows: int, groups: int, levels: int, kind=np.float64) -> dict:
    rng = np.random.default_rng(seed)
    group = np.sort(rng.integers(0, groups, rows))
    shift = rng.normal(size=groups)[group] / 4
    label = (rng.random(rows) < np.clip(0.3 + shift / 2, 0.02, 0.9)).astype(np.int8)
    score = np.round((label * 0.4 + shift + rng.normal(size=rows)) * levels) / levels
    weight = rng.choice([0.0, 0.1, 1.0, 1 / 3, 2.5e3], rows) * rng.random(rows)
    return {"group": group, "label": label, "score": score.astype(kind), "weight": weight}


def details_of(log, weighted=False, measures=CLUSTERED, **options) -> dict[str, float]:
    (found,) = batched.evaluate(
        log,
        group="group",
        label="label",
        score="score",
        measures=measures,
        weight="weight" if weighted else None,
        **options,
    )
    return found.details


def placements(log, weight=None):
    """(own weight, placement value, group) of each positive and of each other; their mean."""
    weight = np.ones(len(log["label"])) if weight is None else weight
    sides = [[], []]
    rows = list(
        zip(log["score"].tolist(), log["label"], weight.tolist(), log["group"], strict=True)
    )
    classes = [[row for row in rows if bool(row[1]) is side] for side in (True, False)]
    for side in (0, 1):
        against = classes[1 - side]
        total = math.fsum(w for _, _, w, _ in against)
        for score, _, own, group in classes[side]:
            won = [
                w * (0.5 if other == score else float((other < score) == (side == 0)))
                for other, _, w, _ in against
            ]
            sides[side].append((own, math.fsum(won) / total, group))
    own = math.fsum(w for w, _, _ in sides[0])
    return sides, math.fsum(w * v for w, v, _ in sides[0]) / own


def delong(log, weight=None) -> float:
    sides, area = placements(log, weight)
    variance = 0.0
    for side in sides:
        n = sum(w > 0 for w, _, _ in side)
        total = math.fsum(w for w, _, _ in side)
        variance += n / (n - 1) * math.fsum((w * (v - area)) ** 2 for w, v, _ in side) / total**2
    return math.sqrt(variance)


def obuchowski(log, weight=None) -> tuple[float, int]:
    """As published: S10 / M + S01 / N + 2 S11 / (M N), from sums over clusters."""
    sides, area = placements(log, weight)
    sums = [defaultdict(list), defaultdict(list)]
    for side in (0, 1):
        for own, value, group in sides[side]:
            if own > 0:
                sums[side][group].append((own, value))
    deviation = [
        {
            group: math.fsum(w * v for w, v in rows) - area * math.fsum(w for w, _ in rows)
            for group, rows in of_class.items()
        }
        for of_class in sums
    ]
    m, n = (math.fsum(w for w, _, _ in side) for side in sides)
    i10, i01, both = (len(part) for part in (*deviation, deviation[0] | deviation[1]))
    s10 = i10 / ((i10 - 1) * m) * math.fsum(d * d for d in deviation[0].values())
    s01 = i01 / ((i01 - 1) * n) * math.fsum(d * d for d in deviation[1].values())
    s11 = both / (both - 1) * math.fsum(d * deviation[1].get(g, 0) for g, d in deviation[0].items())
    return math.sqrt(s10 / m + s01 / n + 2 * s11 / (m * n)), both


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("levels", [1, 8, 10**6])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("groups", [3, 60])
def test_standard_errors__equal_their_definitions(kind, levels, weighted, groups):
    log = log_of(levels, 400, groups, levels, kind)
    found = details_of(log, weighted)
    weight = log["weight"] if weighted else None
    clustered, clusters = obuchowski(log, weight)
    assert found[SE_OF_ROWS] == pytest.approx(delong(log, weight), rel=1e-9)
    assert found[SE_OF_CLUSTERS] == pytest.approx(clustered, rel=1e-9)
    assert found[CLUSTERS] == clusters
    alone = details_of(log, weighted, "AUC(se='delong')")
    assert alone == {SE_OF_ROWS: found[SE_OF_ROWS]}


def test_delong__equals_the_midranks_of_sun_and_xu():
    log = log_of(9, 1000, 10, 5)
    positive, other = log["score"][log["label"] == 1], log["score"][log["label"] == 0]

    def midranks(values):
        _, at, number = np.unique(values, return_inverse=True, return_counts=True)
        return (np.cumsum(number) - (number - 1) / 2)[at]

    m, n = len(positive), len(other)
    ranks = midranks(np.concatenate([positive, other]))
    v10 = (ranks[:m] - midranks(positive)) / n
    v01 = 1 - (ranks[m:] - midranks(other)) / m
    wanted = math.sqrt(np.var(v10, ddof=1) / m + np.var(v01, ddof=1) / n)
    assert details_of(log)[SE_OF_ROWS] == pytest.approx(wanted, rel=1e-10)


@pytest.mark.parametrize("weighted", [False, True])
def test_clusters_of_one_row__are_independent_rows(weighted):
    log = log_of(4, 700, 5, 20)
    found = details_of({**log, "group": np.arange(700)}, weighted)
    assert found[SE_OF_CLUSTERS] == pytest.approx(found[SE_OF_ROWS], rel=1e-12)


def test_rows_repeated_in_their_group__leave_the_clustered_error_as_it_was():
    """Copies tell nothing new: rows taken for independent would halve their error."""
    log = log_of(5, 500, 80, 10**6)
    copies = {name: np.repeat(column, 4) for name, column in log.items()}
    once, again = details_of(log), details_of(copies)
    assert again[SE_OF_CLUSTERS] == pytest.approx(once[SE_OF_CLUSTERS], rel=1e-9)
    assert again[SE_OF_ROWS] == pytest.approx(once[SE_OF_ROWS] / 2, rel=5e-3)


@pytest.mark.parametrize("weighted", [False, True])
def test_standard_errors__have_the_same_bits_however_rows_come(weighted):
    log = log_of(6, 3000, 200, 50)
    once = details_of(log, weighted, threads=1)
    order = np.random.default_rng(0).permutation(3000)
    shuffled = {name: column[order] for name, column in log.items()}
    for source in (log, shuffled):
        for threads, rows in ((1, 100), (3, 64), (2, 1 << 20)):
            found = details_of(source, weighted, threads=threads, batch_rows=rows)
            assert found == once, (threads, rows)


@pytest.mark.parametrize("weighted", [False, True])
def test_states__merge_to_the_same_bits(weighted):
    log = log_of(7, 1000, 40, 30)
    starts = np.flatnonzero(np.diff(log["group"], prepend=-1))
    edges = [0, int(starts[7]), int(starts[20]), 1000]

    def state_of(spans) -> ClusteredScores:
        state = ClusteredScores(weighted)
        for lo, hi in spans:
            inside = starts[(starts >= lo) & (starts < hi)] - lo
            state.add(
                log["score"][lo:hi],
                np.flatnonzero(log["label"][lo:hi]),
                log["weight"][lo:hi] if weighted else None,
                np.append(inside, hi - lo),
            )
        return state

    spans = list(itertools.pairwise(edges))
    whole, left = state_of(spans), state_of(spans[1:])
    left.merge(state_of(spans[:1]))
    area = whole.scores.auc()
    assert left.scores.auc() == area
    assert left.variance(area) == whole.variance(area)


def test_difference_where_two_groups_have_positives__has_two_degrees_of_freedom():
    log = log_of(3, 900, 60, 50)
    log["label"][:] = 0
    log["label"][[100, 700, 701]] = 1
    log["other"] = log["score"][::-1].copy()
    (row,) = fastrank_eval.compare(
        log, group="group", label="label", score=["score", "other"], baseline="score",
        measures=CLUSTERED,
    )  # fmt: skip
    assert row.groups == len(np.unique(log["group"]))
    assert row.degrees == pytest.approx(2 / (1 - 1 / row.groups), rel=1e-12)


def test_clustered_error__is_that_of_repeated_experiments():
    """Users with a bias of their own, in score and in label, drawn anew 300 times."""
    rng = np.random.default_rng(12)
    users, rows = 60, 12
    area, of_rows, of_clusters = [], [], []
    for _ in range(300):
        user = np.repeat(np.arange(users), rows)
        bias = rng.normal(size=users)[user]
        label = (rng.random(len(user)) < 1 / (1 + np.exp(1 - 1.5 * bias))).astype(int)
        score = bias + label * 0.5 + rng.normal(size=len(user)) / 2
        state = ClusteredScores(weighted=False)
        starts = np.arange(0, len(user) + 1, rows)
        state.add(score, np.flatnonzero(label), None, starts)
        area.append(state.scores.auc())
        of_clusters.append(state.variance(area[-1]).variance ** 0.5)
        of_rows.append(row_variance(state.scores, area[-1], map) ** 0.5)
    truth = np.std(area)
    assert np.mean(of_clusters) == pytest.approx(truth, rel=0.12)
    assert np.mean(of_rows) < 0.8 * truth, "rows are not independent here"


def test_weights__are_exact_in_scale_and_in_rows_that_weigh_nothing():
    log = log_of(8, 600, 50, 40)
    once = details_of(log, weighted=True)
    scaled = details_of({**log, "weight": log["weight"] * 2.0**40}, weighted=True)
    assert scaled == once
    weighs = log["weight"] > 0
    assert details_of({name: column[weighs] for name, column in log.items()}, weighted=True) == once


@pytest.mark.parametrize("weighted", [False, True])
def test_too_few_rows_or_clusters__have_no_standard_error(weighted):
    log = {
        "group": np.array([1, 1, 1, 1]),
        "label": np.array([1, 0, 0, 1]),
        "score": np.array([0.3, 0.1, 0.2, 0.15]),
        "weight": np.ones(4),
    }
    found = details_of(log, weighted)
    assert found[SE_OF_ROWS] > 0
    assert math.isnan(found[SE_OF_CLUSTERS])
    found = details_of({name: column[:3] for name, column in log.items()}, weighted)
    assert math.isnan(found[SE_OF_ROWS])
    (line,) = fastrank_eval.evaluate(
        {name: column[1:3] for name, column in log.items()},
        group="group",
        label="label",
        score="score",
        measures=CLUSTERED,
    )
    assert math.isnan(line.value)
    assert (line.dropped, line.details) == ({"single_class": 1}, {})


def test_standard_error__of_a_part_of_the_area_or_of_bins_is_refused():
    for options in ("se='delong', max_fpr=0.2", "se='clustered', bins=64", "max_fpr=0.2, bins=64"):
        with pytest.raises(MeasureError, match=r"leave (one of them )?out"):
            measure(f"AUC({options})")


def test_delong__of_weights_counts_only_rows_that_weigh():
    state = WeightedScores()
    state.add(np.array([0.1, 0.2, 0.3]), np.array([2]), np.array([1.0, 0.0, 2.0]))
    assert state.counts_table().positive == state.counts_table().other == 1
    assert Fraction(state.squares_table().positive) == Fraction(state.table().positive) ** 2
