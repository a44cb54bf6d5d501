"""One look at every row finds edges, labelled rows, tie blocks and faults of the order."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastrank_eval._lib.arrow import frozen
from fastrank_eval.groups.scan import scan

pytestmark = pytest.mark.kernels

LABELS = ("u1", "i1", "i4", "i8", "f4", "f8")
NAN = float("nan")


def rows_of(draw: st.DrawFn) -> tuple[list[int], list[float], list[float]]:
    """Sizes of groups, and the labels and scores of their rows."""
    sizes = draw(st.lists(st.integers(1, 90), min_size=1, max_size=8))
    count = sum(sizes)
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    share = draw(st.sampled_from([0.0, 0.02, 0.3, 1.0]))
    label = np.where(rng.random(count) < share, rng.choice([1, 2, -1], count), -0.0)
    levels = draw(st.sampled_from([1, 5, 10**6]))
    score = rng.integers(-levels, levels, count) / levels
    for lo, hi in pairwise(np.cumsum([0, *sizes])):
        score[lo:hi] = -np.sort(-score[lo:hi])
    for fault in draw(st.lists(st.sampled_from([NAN, 2.0, -2.0]), max_size=2)):
        score[rng.integers(count)] = fault
    return sizes, label.tolist(), score.tolist()


@given(st.data(), st.sampled_from(LABELS), st.booleans(), st.booleans(), st.booleans())
def test_scan__equals_that_of_plain_loops(data, kind, whole, skip, known_edges):
    sizes, labels, scores = rows_of(data.draw)
    unsigned = kind == "u1"
    label = np.array([abs(x) if unsigned else x for x in labels]).astype(kind)
    score = np.array(scores, data.draw(st.sampled_from(["f4", "f8"])))
    edges = np.cumsum([0, *sizes])
    if not whole:
        edges = edges[1:-1]
    starts = edges.astype(np.int64)
    distinct = data.draw(st.permutations(range(-1, len(sizes) - 1)))
    keys = np.repeat(distinct, sizes).astype("i8")
    given = {"starts": starts} if known_edges else {"words": frozen(keys), "whole": whole}
    found = scan(frozen(label), frozen(score), skip, **given)
    assert found.starts.tolist() == edges.tolist()
    if not known_edges:
        run = keys[edges[:-1] if whole else [0, *edges]]
        assert found.directions == ((np.diff(run) > 0).all(), (np.diff(run) < 0).all())
    groups = list(pairwise(edges.tolist()))
    ranked = [g for g, (lo, hi) in enumerate(groups) if not skip or label[lo:hi].any()]
    rows = [[i for i in range(*groups[g]) if label[i]] for g in ranked]
    first = edges[0] if len(edges) else 0
    labelled = found.labels
    assert labelled.indices.tolist() == ranked
    assert labelled.offsets.tolist() == np.cumsum([0, *map(len, rows)]).tolist()
    marked = (label[first : edges[-1] if len(edges) else 0] != 0).tolist()
    assert (labelled.label != 0).tolist() == marked
    assert labelled.row.tolist() == [i - first for of_group in rows for i in of_group]
    grades = [label[i] for of_group in rows for i in of_group]
    assert labelled.grade.tolist() == grades
    assert labelled.rows.tolist() == [groups[g][1] - groups[g][0] for g in ranked]
    assert labelled.positives.tolist() == [sum(label[i] >= 1 for i in of) for of in rows]
    bounds = labelled.min_grade, labelled.max_grade
    assert bounds == (min(grades, default=np.inf), max(grades, default=-np.inf))
    descends = all((np.diff(score[lo:hi]) <= 0).all() for lo, hi in groups)
    ends = [0, *edges, len(score)]
    all_descend = all((np.diff(score[lo:hi]) <= 0).all() for lo, hi in pairwise(ends))
    assert found.passed == (all_descend and not np.isnan(score).any())
    if len(edges) and not np.isnan(score).any():
        assert (found.ranked_rows is not None) == descends
    if found.ranked_rows is None:
        return
    ranked_rows = [(g, i) for g, of_group in zip(ranked, rows, strict=True) for i in of_group]
    position = [i - groups[g][0] for g, i in ranked_rows]
    above = [int((score[slice(*groups[g])] > score[i]).sum()) for g, i in ranked_rows]
    size = [int((score[slice(*groups[g])] == score[i]).sum()) for g, i in ranked_rows]
    assert found.ranked_rows.positions(found.starts - first).tolist() == position
    assert found.ranked_rows.above.tolist() == above
    assert found.ranked_rows.size.tolist() == size


@pytest.mark.parametrize("rows", [0, 1, 63, 64, 65, (1 << 14) - 1, (1 << 14) + 64, 40_000])
def test_scan__of_one_group_of_any_length(rows):
    label, score = frozen(np.ones(rows, np.int8)), frozen(np.zeros(rows, np.float32))
    found = scan(label, score, False, starts=np.array([0, 0, rows, rows]))
    assert found.labels.offsets.tolist() == [0, 0, rows, rows]
    assert found.passed
    assert found.ranked_rows is not None
    assert (found.ranked_rows.size == rows).all()
    assert (found.ranked_rows.above == 0).all()
    assert (found.ranked_rows.positions(found.starts) == np.arange(rows)).all()


@pytest.mark.parametrize("row", [0, 1, 2, 3, 4])
def test_scan__one_nan__is_no_sound_score(row):
    score = np.array([3, 2, 1, 9, 8], np.float32)
    score[row] = NAN
    label = frozen(np.zeros(5, np.int8))
    for sizes in ([5], [1] * 5, [3, 2], [1, 2, 1, 1]):
        starts = np.cumsum([0, *sizes])
        assert not scan(label, frozen(score), True, starts=starts).passed
        words = frozen(np.repeat(np.arange(len(sizes)), sizes).astype(np.uint64))
        assert not scan(label, frozen(score), True, words=words, whole=False).passed
