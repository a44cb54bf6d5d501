"""Draw the ROC and calibration curves of a night from its run."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from fastrank_eval._lib.errors import ColumnError
from fastrank_eval._lib.threads import map_jobs
from fastrank_eval.analysis import curve_points
from fastrank_eval.analysis.curve_points import Thresholds
from fastrank_eval.apps.nightly.night import CurveLine
from fastrank_eval.engine.run import Evaluation
from fastrank_eval.measures import Measure
from fastrank_eval.measures.auc import PooledAUC
from fastrank_eval.results.format import legend_text
from fastrank_eval.stats.score_table import ScoreTable

_POINTS, _BINS, _DIGITS = 100, 20, 6


def has_curves(measure: Measure) -> bool:
    """Return whether a measure keeps all scores, with grade 1 as positive.

    Parameters
    ----------
    measure : Measure
    """
    return isinstance(measure, PooledAUC) and measure.bins is None and measure.rel == 1


def curves_of(evaluation: Evaluation) -> dict[str, tuple[CurveLine, ...]]:
    """Return the curves of every model from the scores that AUC keeps.

    Parameters
    ----------
    evaluation : Evaluation
        There are no curves without AUC, or with AUC in bins only. A model has no calibration curve
        if its scores are no probabilities.

    Returns
    -------
    dict of str to tuple of CurveLine
        ``"roc"``: true over false positive rate; ``"calibration"``: observed rate over mean
        prediction, in bins of equally many rows.
    """
    drawing = [m for m in evaluation.plan.measures if isinstance(m, PooledAUC) and has_curves(m)]
    if not drawing:
        return {}
    # Label the curve with the full area, if it is among the measures.
    auc = min(drawing, key=lambda m: m.max_fpr is not None)
    tables = dict(_tables(evaluation, auc))
    curves: dict[str, list[CurveLine | None]] = {
        "roc": [
            _roc(score, table, evaluation, auc)
            for score, table in tables.items()
            if not table.missing
        ],
        "calibration": [_calibration(score, table, evaluation) for score, table in tables.items()],
    }
    result = {
        kind: tuple(line for line in lines if line is not None) for kind, lines in curves.items()
    }
    return {kind: lines for kind, lines in result.items() if lines}


def _tables(evaluation: Evaluation, auc: PooledAUC) -> Iterator[tuple[str, ScoreTable]]:
    models = evaluation.totals.overall_states.models
    for score, states in zip(evaluation.plan.roles.scores, models, strict=True):
        state = auc.state_in(states)
        scores = state.scores if auc.se == "clustered" else state
        yield score, scores.table(partial(map_jobs, evaluation.plan.threads))


def _roc(score: str, table: ScoreTable, evaluation: Evaluation, auc: PooledAUC) -> CurveLine:
    points = curve_points.curve_columns("roc", Thresholds.of(table), _POINTS)
    name = "AUC" if auc.max_fpr is None else f"AUC(max_fpr={auc.max_fpr:g})"
    key = score, "all", str(auc)
    areas = (v.value for v in evaluation.summary if (v.score, v.slice, v.measure) == key)
    label = f"{name} {legend_text(next(areas))}"
    return CurveLine(score, label, _rounded(points["fpr"]), _rounded(points["tpr"]))


def _calibration(score: str, table: ScoreTable, evaluation: Evaluation) -> CurveLine | None:
    if not len(table.score) or not table.positive + table.other > 0:
        return None
    rate = evaluation.meta.conventions["sampling_rate"]
    try:
        bins = curve_points.calibration_bins(
            table, score, bins=_BINS, binning="equal-count", confidence=0.95,
            sampling_rate=float(rate) if isinstance(rate, int | float) else 1.0,
        )  # fmt: skip
    except ColumnError:  # scores that are no probabilities
        return None
    count = len(bins["mean_prediction"])
    label = f"ECE {legend_text(curve_points.expected_error(bins))} ({count} bins of equal count)"
    return CurveLine(
        score, label, _rounded(bins["mean_prediction"]), _rounded(bins["observed_rate"])
    )


def _rounded(values: object) -> tuple[float, ...]:
    return tuple(float(f"{value:.{_DIGITS}g}") for value in values)  # type: ignore[attr-defined]
