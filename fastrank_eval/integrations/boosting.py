"""Metrics for the training loops of LightGBM, XGBoost and CatBoost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fastrank_eval._lib.arguments import shown, typed
from fastrank_eval._lib.errors import ArgumentError
from fastrank_eval.integrations.grouped_labels import Grouped, Grouping, groupings, several
from fastrank_eval.measures import Measure

__all__ = ["CatBoostMetric", "catboost_metric", "lightgbm_metric", "xgboost_metric"]


class _Training:
    """A measure, and the groups of the data sets that a training loop evaluates it on."""

    def __init__(
        self,
        measure: str | Measure,
        group: object,
        sizes: object,
        weighted: bool,
        name: str | None,
        options: dict[str, Any],
    ) -> None:
        self._grouped = Grouped(measure, options)
        self._given = groupings(group, sizes)
        self._own: dict[int, tuple[np.ndarray, Grouping]] = {}
        self._weighted = weighted
        self.name = str(self._grouped.measure) if name is None else name
        self.higher_is_better = self._grouped.measure.higher_is_better

    def value(
        self, predicted: object, label: object, weight: object, own: np.ndarray | None
    ) -> float:
        """The measure of a data set.

        Parameters
        ----------
        predicted : array of float, shape (rows,)
        label : array, shape (rows,)
        weight : array, shape (rows,), or None
        own : ndarray of int or None
            Sizes of the groups that the data set itself knows.
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
        return self._grouped.value(grouping, label, score, weight if self._weighted else None)

    def _grouping(self, rows: int, own: np.ndarray | None) -> Grouping:
        if self._given:
            if rows not in self._given:
                known = ", ".join(f"{known:,}" for known in self._given)
                raise ArgumentError(
                    f"{self.name}: no groups were given for a data set of {rows:,} rows, only for "
                    f"{known}. Pass those of every data set that is evaluated, training data "
                    "included: group=[of_training, of_validation]."
                )
            return self._given[rows]
        if own is None or not len(own):
            raise ArgumentError(
                f"{self.name}: groups are not known. Pass group=, an id a row, or sizes=, the rows "
                "of each group; or give the data set groups of its own."
            )
        kept = self._own.get(rows)
        if kept is None or not np.array_equal(kept[0], own):
            kept = self._own[rows] = (own, Grouping.of_sizes(own))
        return kept[1]


class _LightGBMMetric(_Training):
    def __call__(self, preds: Any, eval_data: Any) -> tuple[str, float, bool]:
        sizes = eval_data.get_group()
        value = self.value(
            preds,
            eval_data.get_label(),
            eval_data.get_weight(),
            None if sizes is None else np.asarray(sizes, np.int64),
        )
        return self.name, value, self.higher_is_better


class _XGBoostMetric(_Training):
    def __call__(self, predt: Any, dmatrix: Any) -> tuple[str, float]:
        ends = np.asarray(dmatrix.get_uint_info("group_ptr"), np.int64)
        weight = dmatrix.get_weight()
        value = self.value(
            predt, dmatrix.get_label(), weight if len(weight) else None, np.diff(ends)
        )
        return self.name, value


class CatBoostMetric(_Training):
    """What CatBoost takes as an `eval_metric`; made by `catboost_metric`."""

    labels: dict[int, np.ndarray]

    def is_max_optimal(self) -> bool:
        """Whether more is better."""
        return self.higher_is_better

    def evaluate(self, approxes: Sequence[Any], target: Any, weight: Any) -> tuple[float, float]:
        """The measure of one data set, as an error of weight 1."""
        if len(approxes) != 1:
            raise ArgumentError(
                f"the model predicts {len(approxes)} values a row: ranking needs one. "
                "Choose a loss with one."
            )
        label = np.asarray(target)
        wanted = self.labels.get(len(label))
        if wanted is not None and not np.array_equal(wanted, label):
            raise ArgumentError(
                f"{self.name}: the rows of the data set of {len(label):,} rows do not come in the "
                "order of label. CatBoost shuffles training data where boosting is ordered or "
                "features are categorical: train with has_time=True, or shuffle beforehand."
            )
        return self.value(np.asarray(approxes[0]), label, weight, None), 1.0

    def get_final_error(self, error: float, weight: float) -> float:
        """The measure itself."""
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
    """A measure as `feval` of ``lightgbm.train``.

    Groups are found once, not in every round.

    Parameters
    ----------
    measure : str or Measure
        One measure, such as ``"GAUC"`` or ``"nDCG@10"``.
    group : array of ids, shape (rows,), or list of such, optional
        The group of each row; integers, text, dates or bools, not null; in any order. For several
        data sets a list of arrays, told apart by their number of rows. Without `group` and `sizes`
        the groups of the data set (``Dataset(group=...)``) hold.
    sizes : sequence of int, or list of such, optional
        Instead: the rows of each group, one group after the other.
    weighted : bool
        Take the weights of the data set as row weights; otherwise they are left out.
    name : str, optional
        What to report the measure as; its text by default.
    **options
        profile, ties, undefined, groups, weight_rows, score_type and threads, as `evaluate` has
        them.

    Returns
    -------
    callable
        ``(preds, dataset) -> (name, value, is_higher_better)``; the value is NaN where undefined.
        It raises `ArgumentError` where no groups of as many rows are known.

    Raises
    ------
    ArgumentError
        If both `group` and `sizes` are given, two data sets are of one length, groups are no ids,
        or an option is unknown.
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
    """A measure as `custom_metric` of ``xgboost.train``.

    XGBoost does not ask which way is better: early stopping needs ``maximize=True``, but for
    measures that are better the lower they are (LogLoss, Brier, ECE ...). It keeps six decimals.
    It takes blanks and colons in the name of a metric for the end of it, so the name has none:
    blanks are left out, a colon becomes ``=``.

    Parameters
    ----------
    measure, group, sizes, weighted, name, **options
        As of `lightgbm_metric`; without `group` and `sizes` the groups of the DMatrix (``qid=``)
        hold. Where it has such, XGBoost's weights are those of groups, not of rows: `weighted`
        refuses them.

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
    """A measure as `eval_metric` of CatBoost.

    CatBoost hands no groups to metrics in Python, and evaluates them on the training data too:
    give the groups of each data set, ``group=[of_training, of_validation]``. It shuffles training
    data where boosting is ordered or features are categorical, unless ``has_time=True``; the groups
    then belong to other rows, which only `label` can tell. It reports the metric as
    ``CatBoostMetric``, and warns that it cannot compile it, which does not matter.

    Parameters
    ----------
    measure, group, sizes, weighted, **options
        As of `lightgbm_metric`; one of `group` and `sizes` is needed.
    label : array of numbers, shape (rows,), or list of such, optional
        The labels of each data set, as CatBoost is given them: if its rows come in another order,
        the metric raises `ArgumentError`.

    Returns
    -------
    CatBoostMetric
        With ``is_max_optimal()``, ``evaluate(approxes, target, weight)`` and
        ``get_final_error(error, weight)``.

    Raises
    ------
    ArgumentError, MeasureError
        As `lightgbm_metric` does, and if no groups are given.

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
        given = [] if label is None else [np.asarray(one, np.float32) for one in several(label)]
    except (TypeError, ValueError, OverflowError):
        given = [np.empty((), np.float32)]
    if any(one.ndim != 1 for one in given):
        raise ArgumentError(
            "label: must be an array of numbers, one a row, or a list of such, got "
            f"{shown(label)}; pass the labels of each data set."
        )
    metric.labels = {len(one): one for one in given}
    return metric
