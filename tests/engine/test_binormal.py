"""The engine against a formula: scores from a binormal model have a known AUC."""

import math

import pytest

from fastrank_eval import evaluate
from fastrank_eval.apps import demo
from fastrank_eval.apps.demo import Recipe


def standard_error(auc: float, positives: int, negatives: int) -> float:
    """Hanley and McNeil's standard error of an AUC."""
    both_higher = auc / (2 - auc) - auc**2
    both_lower = 2 * auc**2 / (1 + auc) - auc**2
    spread = (positives - 1) * both_higher + (negatives - 1) * both_lower
    return math.sqrt((auc * (1 - auc) + spread) / (positives * negatives))


def test_auc_and_gauc__two_million_binormal_rows__meet_the_closed_form():
    rows = 2_000_000
    recipe = Recipe(rows, seed=5, order="sorted")
    result = evaluate(
        demo.impressions(rows, seed=5, order="sorted"),
        group="user_id",
        label="click",
        score=["score_a", "score_b"],
        measures="AUC,GAUC",
        keep="",
    )
    assert result.meta.rows == rows
    positives = round(rows * 0.03)
    error = standard_error(0.75, positives, rows - positives)
    for score, model in (("score_a", recipe.model_a), ("score_b", recipe.model_b)):
        assert result.value("AUC", score) == pytest.approx(model.auc, abs=4 * error)
        # Pairs inside groups are fewer than pairs of the whole, and weigh by impressions.
        assert result.value("GAUC", score) == pytest.approx(model.auc, abs=8 * error)
