"""ROC and calibration of a night, at few enough points to be kept."""

from __future__ import annotations

from collections.abc import Iterator

from fastrank_eval.curves import calibration, classification
from fastrank_eval.curves.points import Thresholds
from fastrank_eval.errors import ColumnError
from fastrank_eval.evaluation import Evaluation
from fastrank_eval.report.nights import CurveLine
from fastrank_eval.score_table import ScoreTable
from fastrank_eval.summary import score_tables

__all__ = ["curves_of"]

_POINTS, _BINS, _DIGITS = 100, 20, 6


def curves_of(done: Evaluation) -> dict[str, tuple[CurveLine, ...]]:
    """The curves of every model, of the scores that AUC has kept.

    Parameters
    ----------
    done : Evaluation
        Without AUC among its measures there are no curves; nor is there one of calibration of a
        model whose scores are no probabilities.

    Returns
    -------
    dict of str to tuple of CurveLine
        ``"roc"``: true over false positive rate; ``"calibration"``: observed rate over mean
        prediction, in bins of equally many rows.
    """
    if "AUC" not in map(str, done.plan.measures):
        return {}
    kept = score_tables(done.plan, done.tally)
    tables = {score: table for (score, rel), table in kept.items() if rel == 1}
    lines = {
        "roc": [_roc(score, table, done) for score, table in tables.items() if not table.missing],
        "calibration": [_calibration(score, table, done) for score, table in tables.items()],
    }
    found = {kind: tuple(line for line in of if line is not None) for kind, of in lines.items()}
    return {kind: of for kind, of in found.items() if of}


def _roc(score: str, table: ScoreTable, done: Evaluation) -> CurveLine | None:
    if not len(table.score):
        return None
    points = classification.of_thresholds("roc", Thresholds.of(table), _POINTS)
    label = f"AUC {next(_aucs(done, score)):.4f}"
    return CurveLine(score, label, _rounded(points["fpr"]), _rounded(points["tpr"]))


def _aucs(done: Evaluation, score: str) -> Iterator[float]:
    for line in done.lines:
        if (line.score, line.slice, line.measure) == (score, "all", "AUC"):
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
