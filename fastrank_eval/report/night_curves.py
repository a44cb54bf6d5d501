"""ROC and calibration of a night, at few enough points to be kept."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from fastrank_eval.curves import calibration, classification
from fastrank_eval.curves.points import Thresholds
from fastrank_eval.engine import in_order
from fastrank_eval.errors import ColumnError
from fastrank_eval.evaluation import Evaluation
from fastrank_eval.measures import Measure
from fastrank_eval.measures.pooled_auc import PooledAUC
from fastrank_eval.report.nights import CurveLine
from fastrank_eval.score_table import ScoreTable

__all__ = ["curves_of"]

_POINTS, _BINS, _DIGITS = 100, 20, 6


def draws_curves(measure: Measure) -> bool:
    """Whether it keeps the score of every row, and which rows are of grade 1 or more."""
    return isinstance(measure, PooledAUC) and measure.bins is None and measure.rel == 1


def curves_of(done: Evaluation) -> dict[str, tuple[CurveLine, ...]]:
    """The curves of every model, of the scores that AUC has kept.

    Parameters
    ----------
    done : Evaluation
        Without AUC among its measures, or with AUC in bins only, there are no curves; nor is there
        one of calibration of a model whose scores are no probabilities.

    Returns
    -------
    dict of str to tuple of CurveLine
        ``"roc"``: true over false positive rate; ``"calibration"``: observed rate over mean
        prediction, in bins of equally many rows.
    """
    drawing = [m for m in done.plan.measures if isinstance(m, PooledAUC) and draws_curves(m)]
    if not drawing:
        return {}
    # The area under the curve drawn, if there is one of all of it.
    auc = min(drawing, key=lambda m: m.max_fpr is not None)
    tables = dict(_tables(done, auc))
    lines = {
        "roc": [
            _roc(score, table, done, auc) for score, table in tables.items() if not table.missing
        ],
        "calibration": [_calibration(score, table, done) for score, table in tables.items()],
    }
    found = {kind: tuple(line for line in of if line is not None) for kind, of in lines.items()}
    return {kind: of for kind, of in found.items() if of}


def _tables(done: Evaluation, auc: PooledAUC) -> Iterator[tuple[str, ScoreTable]]:
    for score, pools in zip(done.plan.roles.scores, done.tally.pools, strict=True):
        state = pools[auc.state_key()]
        scores = state.scores if auc.se == "clustered" else state
        yield score, scores.table(partial(in_order, done.plan.threads))


def _roc(score: str, table: ScoreTable, done: Evaluation, auc: PooledAUC) -> CurveLine | None:
    if not len(table.score):
        return None
    points = classification.of_thresholds("roc", Thresholds.of(table), _POINTS)
    called = "AUC" if auc.max_fpr is None else f"AUC(max_fpr={auc.max_fpr:g})"
    label = f"{called} {next(_aucs(done, score, auc)):.4f}"
    return CurveLine(score, label, _rounded(points["fpr"]), _rounded(points["tpr"]))


def _aucs(done: Evaluation, score: str, auc: PooledAUC) -> Iterator[float]:
    for line in done.lines:
        if (line.score, line.slice, line.measure) == (score, "all", str(auc)):
            yield line.value


def _calibration(score: str, table: ScoreTable, done: Evaluation) -> CurveLine | None:
    if not len(table.score) or not table.positive + table.other > 0:
        return None
    rate = done.meta.conventions["sampling_rate"]
    try:
        bins = calibration.of_bins(
            table, score, bins=_BINS, binning="equal-count", confidence=0.95,
            sampling_rate=float(rate) if isinstance(rate, int | float) else 1.0,
        )  # fmt: skip
    except ColumnError:  # scores that are no probabilities
        return None
    many = len(bins["mean_prediction"])
    label = f"ECE {calibration.expected_error(bins):.4f} ({many} bins of equal count)"
    return CurveLine(
        score, label, _rounded(bins["mean_prediction"]), _rounded(bins["observed_rate"])
    )


def _rounded(values: object) -> tuple[float, ...]:
    return tuple(float(f"{value:.{_DIGITS}g}") for value in values)  # type: ignore[attr-defined]
