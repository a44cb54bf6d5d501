"""Make metrics for the training loops of LightGBM, XGBoost and CatBoost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fastrank_eval._lib.arguments import shown, typed
from fastrank_eval._lib.errors import ArgumentError
from fastrank_eval.integrations.grouped_labels import (
    GroupedMeasure,
    Grouping,
    by_data_set,
    groupings,
)
from fastrank_eval.measures import Measure

__all__ = ["CatBoostMetric", "catboost_metric", "lightgbm_metric", "xgboost_metric"]


class _TrainingMetric:
    """A measure and the groups of the data sets of a training loop."""

    def __init__(
        self,
        measure: str | Measure,
        group: object,
        sizes: object,
        weighted: bool,
        name: str | None,
        options: dict[str, Any],
    ) -> None:
        self._measure = GroupedMeasure(measure, options)
        self._groupings = groupings(group, sizes)
        self._own_groupings: dict[int, tuple[np.ndarray, Grouping]] = {}
        self._weighted = weighted
        self.name = str(self._measure.measure) if name is None else name
        self.higher_is_better = self._measure.measure.higher_is_better

    def value(
        self, predicted: object, label: object, weight: object, own: np.ndarray | None
    ) -> float:
        """Compute the measure of a data set.

        Parameters
        ----------
        predicted : array of float, shape (rows,)
        label : array, shape (rows,)
        weight : array, shape (rows,), or None
        own : ndarray of int or None
            Sizes of the groups, if the data set has them.
        """
        score = np.asarray(predicted)
        if score.ndim != 1:
            raise ArgumentError(
                f"the model predicts an array of shape {score.shape}: ranking needs one score a "
                "row. Choose an objective with one."
            )
        if self._weighted and weight is None:
            raise ArgumentError("weighted=True, but the data set has no weights: give it some.")
        grouping = self._grouping(len(score), own)
        return self._measure.value(grouping, label, score, weight if self._weighted else None)

    def _grouping(self, rows: int, own: np.ndarray | None) -> Grouping:
        if self._groupings:
            if rows not in self._groupings:
                row_counts = ", ".join(f"{row_counts:,}" for row_counts in self._groupings)
                raise ArgumentError(
                    f"{self.name}: no groups were given for a data set of {rows:,} rows, only for "
                    f"{row_counts}. Pass those of every data set that is evaluated, training data "
                    "included: group=[of_training, of_validation]."
                )
            return self._groupings[rows]
        if own is None or not len(own):
            raise ArgumentError(
                f"{self.name}: groups are not known. Pass group=, an id a row, or sizes=, the rows "
                "of each group; or give the data set groups of its own."
            )
        cached = self._own_groupings.get(rows)
        if cached is None or not np.array_equal(cached[0], own):
            cached = self._own_groupings[rows] = (own, Grouping.of_sizes(own))
        return cached[1]


class _LightGBMMetric(_TrainingMetric):
    def __call__(self, preds: Any, eval_data: Any) -> tuple[str, float, bool]:
        sizes = eval_data.get_group()
        value = self.value(
            preds,
            eval_data.get_label(),
            eval_data.get_weight(),
            None if sizes is None else np.asarray(sizes, np.int64),
        )
        return self.name, value, self.higher_is_better


class _XGBoostMetric(_TrainingMetric):
    def __call__(self, predt: Any, dmatrix: Any) -> tuple[str, float]:
        ends = np.asarray(dmatrix.get_uint_info("group_ptr"), np.int64)
        weight = dmatrix.get_weight()
        value = self.value(
            predt, dmatrix.get_label(), weight if len(weight) else None, np.diff(ends)
        )
        return self.name, value


class CatBoostMetric(_TrainingMetric):
    """An `eval_metric` of CatBoost, made by `catboost_metric`."""

    labels: dict[int, np.ndarray]

    def is_max_optimal(self) -> bool:
        """Tell whether higher is better."""
        return self.higher_is_better

    def evaluate(self, approxes: Sequence[Any], target: Any, weight: Any) -> tuple[float, float]:
        """Compute the measure of a data set, as an error of weight 1."""
        if len(approxes) != 1:
            raise ArgumentError(
                f"the model predicts {len(approxes)} values a row: ranking needs one. "
                "Choose a loss with one."
            )
        label = np.asarray(target)
        expected = self.labels.get(len(label))
        if expected is not None and not np.array_equal(expected, label):
            raise ArgumentError(
                f"{self.name}: the rows of the data set of {len(label):,} rows do not come in the "
                "order of label. CatBoost shuffles training data where boosting is ordered or "
                "features are categorical: train with has_time=True, or shuffle beforehand."
            )
        return self.value(np.asarray(approxes[0]), label, weight, None), 1.0

    def get_final_error(self, error: float, weight: float) -> float:
        """Return the measure itself."""
        return error


@typed
def lightgbm_metric(
    measure: str | Measure = "GAUC",
    *,
    group: object = None,
    sizes: object = None,
    weighted: bool = False,
    name: str | None = None,
    **options: Any,
) -> _LightGBMMetric:
    """Make a `feval` for ``lightgbm.train``.

    Rows are grouped once, not in every round.

    Parameters
    ----------
    measure : str or Measure
        One measure, such as ``"GAUC"`` or ``"nDCG@10"``.
    group : array of ids, shape (rows,), or list of arrays, optional
        Group id of each row; integers, text, dates or bools, not null; in any order. For several
        data sets a list of arrays; their numbers of rows must differ. Without `group` and `sizes`
        the groups of the data set (``Dataset(group=...)``) are used.
    sizes : sequence of int, or list of sequences, optional
        Instead of ids: the number of rows of each group, one group after the other.
    weighted : bool
        Use the weights of the data set as row weights; otherwise they are ignored.
    name : str, optional
        Name in the report; by default the text of the measure.
    **options
        profile, ties, undefined, groups, weight_rows, score_type and threads, as in
        `evaluate`.

    Returns
    -------
    callable
        ``(preds, dataset) -> (name, value, is_higher_better)``; the value is NaN where undefined.
        It raises `ArgumentError` for a data set without groups.

    Raises
    ------
    ArgumentError
        If there are both `group` and `sizes`, two data sets have the same length, groups are not
        ids, or an option is unknown.
    MeasureError
        If there is no such measure.

    References
    ----------
    https://lightgbm.readthedocs.io/en/stable/pythonapi/lightgbm.train.html

    Examples
    --------
    >>> metric = lightgbm_metric("GAUC", group=["a", "b", "a", "b"])
    >>> metric.name, metric.higher_is_better
    ('GAUC', True)
    """
    return _LightGBMMetric(measure, group, sizes, weighted, name, options)


@typed
def xgboost_metric(
    measure: str | Measure = "GAUC",
    *,
    group: object = None,
    sizes: object = None,
    weighted: bool = False,
    name: str | None = None,
    **options: Any,
) -> _XGBoostMetric:
    """Make a `custom_metric` for ``xgboost.train``.

    XGBoost does not know whether higher is better: early stopping needs ``maximize=True``, except
    for measures that are better when lower (LogLoss, Brier, ECE ...). It rounds to six decimals. A
    blank or a colon ends the name of a metric, so the name has none: blanks are removed, a colon
    becomes ``=``.

    Parameters
    ----------
    measure, group, sizes, weighted, name, **options
        As in `lightgbm_metric`; without `group` and `sizes` the groups of the DMatrix (``qid=``)
        are used. With them, XGBoost's weights are weights of groups, not of rows, and `weighted`
        is an error.

    Returns
    -------
    callable
        ``(predt, dmatrix) -> (name, value)``.

    Raises
    ------
    ArgumentError, MeasureError
        As `lightgbm_metric` does.

    References
    ----------
    https://xgboost.readthedocs.io/en/stable/tutorials/custom_metric_obj.html

    Examples
    --------
    >>> xgboost_metric("nDCG(gain='linear', ideal='retrieved')@10", sizes=[3, 2]).name
    "nDCG(gain='linear',ideal='retrieved')@10"
    """
    metric = _XGBoostMetric(measure, group, sizes, weighted, name, options)
    metric.name = "".join(metric.name.split()).replace(":", "=")
    return metric


@typed
def catboost_metric(
    measure: str | Measure = "GAUC",
    *,
    group: object = None,
    sizes: object = None,
    label: object = None,
    weighted: bool = False,
    **options: Any,
) -> CatBoostMetric:
    """Make an `eval_metric` for CatBoost.

    CatBoost passes no groups to metrics in Python, and evaluates them on the training data too:
    pass the groups of each data set, ``group=[of_training, of_validation]``. It shuffles training
    data if boosting is ordered or features are categorical, unless ``has_time=True``. The groups
    then belong to other rows; only `label` can detect this. CatBoost reports the metric as
    ``CatBoostMetric``. It warns that it cannot compile the metric; this has no effect.

    Parameters
    ----------
    measure, group, sizes, weighted, **options
        As in `lightgbm_metric`; either `group` or `sizes` is required.
    label : array of numbers, shape (rows,), or list of arrays, optional
        The labels of each data set, as passed to CatBoost. If rows come in another order, the
        metric raises `ArgumentError`.

    Returns
    -------
    CatBoostMetric
        With ``is_max_optimal()``, ``evaluate(approxes, target, weight)`` and
        ``get_final_error(error, weight)``.

    Raises
    ------
    ArgumentError, MeasureError
        As `lightgbm_metric` does, and if there are no groups.

    References
    ----------
    https://catboost.ai/docs/en/concepts/python-usages-examples

    Examples
    --------
    >>> metric = catboost_metric("GAUC", group=[1, 2, 1, 2])
    >>> error, weight = metric.evaluate([[0.1, 0.3, 0.2, 0.4]], [0, 1, 1, 0], None)
    >>> metric.get_final_error(error, weight)
    0.5
    """
    if group is None and sizes is None:
        raise ArgumentError(
            "CatBoost hands no groups to a metric: pass group=, an id a row, or sizes=, the rows "
            "of each group, of every data set that is evaluated."
        )
    metric = CatBoostMetric(measure, group, sizes, weighted, None, options)
    try:
        labels = (
            []
            if label is None
            else [np.asarray(values, np.float32) for values in by_data_set(label)]
        )
    except (TypeError, ValueError, OverflowError):
        labels = [np.empty((), np.float32)]
    if any(values.ndim != 1 for values in labels):
        raise ArgumentError(
            "label: must be an array of numbers, one a row, or a list of such, got "
            f"{shown(label)}; pass the labels of each data set."
        )
    metric.labels = {len(values): values for values in labels}
    return metric
