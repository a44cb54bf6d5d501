"""Make metrics of arrays for scikit-learn, LightGBM, XGBoost and CatBoost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arguments import shown, typed
from fastrank_eval._lib.arrow import arrow_column, as_array, decode_array
from fastrank_eval._lib.errors import ArgumentError
from fastrank_eval.engine.options import check_names
from fastrank_eval.io.reader import open_source
from fastrank_eval.measures import Measure
from fastrank_eval.measures import measure as measure_of
from fastrank_eval.results.evaluate import evaluate


class Grouping:
    """The groups of rows; rows of scattered groups are sorted once.

    Parameters
    ----------
    number : ndarray of int64, shape (rows,)
        Group index of each row.
    """

    def __init__(self, number: np.ndarray) -> None:
        self.rows = len(number)
        runs = int(np.count_nonzero(number[1:] != number[:-1])) + (self.rows > 0)
        self._order = None
        if runs != len(np.unique(number)):
            # Stable, because ties="input" means the order of the rows.
            self._order = np.argsort(number, kind="stable")
            number = number[self._order]
        self.number = arrow_column(np.ascontiguousarray(number))

    @classmethod
    def of_ids(cls, group: object) -> Grouping:
        """Group rows by an id for each row.

        Raises
        ------
        ArgumentError
            If the ids are not an array, not of a type of ids, or null.
        """
        batches = list(open_source({"group": group}).batches(["group"]))
        columns = [decode_array(batch.column("group")) for batch in batches]
        ids = pa.chunked_array(columns) if columns else pa.nulls(0, pa.int64())
        if pa.types.is_floating(ids.type) or pa.types.is_nested(ids.type):
            raise ArgumentError(
                f"group: must have ids, got {ids.type}; pass integers, text, dates or bools."
            )
        if ids.null_count:
            raise ArgumentError(
                f"group: must have an id for every row, got null for {ids.null_count:,} of "
                f"{len(ids):,} rows; leave these rows out."
            )
        codes = ids.dictionary_encode()
        if isinstance(codes, pa.ChunkedArray):
            codes = codes.unify_dictionaries().combine_chunks()
        return cls(as_array(codes.indices).astype(np.int64))

    @classmethod
    def of_sizes(cls, sizes: object) -> Grouping:
        """Group contiguous rows by the sizes of groups.

        Raises
        ------
        ArgumentError
            If a size is not a whole number of at least 0.
        """
        counts = np.asarray(sizes)
        if counts.ndim != 1 or counts.dtype.kind not in "iu" or (counts < 0).any():
            raise ArgumentError(
                f"sizes: must be whole numbers of at least 0, got {sizes!r}; pass one for each "
                "group."
            )
        return cls(np.repeat(np.arange(len(counts)), counts))

    def sort(self, values: np.ndarray) -> np.ndarray:
        """Sort values of rows by group."""
        return values if self._order is None else values[self._order]


class GroupedMeasure:
    """A measure with options, for rows with known groups.

    Parameters
    ----------
    measure : str or Measure
    options : dict
        Arguments of `evaluate`.

    Raises
    ------
    ArgumentError
        If an option does not apply to arrays.
    MeasureError
        If there is no such measure.
    """

    def __init__(self, measure: str | Measure, options: dict[str, Any]) -> None:
        self.measure = measure_of(measure)
        #: make_scorer prints this name.
        self.__name__ = self.measure.display_name
        self.options = options

    def grouped_value(
        self, grouping: Grouping, label: object, score: object, weight: object = None
    ) -> float:
        """Compute the measure over all groups, NaN where undefined."""
        columns = {"label": label, "score": score}
        if weight is not None:
            columns["weight"] = weight
        source: dict[str, object] = {"group": grouping.number}
        for name, values in columns.items():
            array = np.asarray(values)
            if array.shape != (grouping.rows,):
                raise ArgumentError(
                    f"{name}: must have {grouping.rows:,} rows, as the groups have, got shape "
                    f"{array.shape}; pass one {name} for each row."
                )
            source[name] = grouping.sort(array)
        result = evaluate(
            source,
            group="group",
            label="label",
            score="score",
            weight=None if weight is None else "weight",
            measures=self.measure,
            order="grouped",
            keep="",
            **self.options,
        )
        return result.value(self.measure)


class GroupScore(GroupedMeasure):
    """A picklable metric in the signature of scikit-learn.

    Parameters
    ----------
    measure : str or Measure
    options : dict
        Arguments of `evaluate`.
    """

    def __call__(
        self, y_true: Any, y_score: Any, *, groups: Any = None, sample_weight: Any = None
    ) -> float:
        """Compute the measure over all groups, NaN where undefined."""
        label, score = np.asarray(y_true), np.asarray(y_score)
        for name, values in (("y_true", label), ("y_score", score)):
            if values.ndim != 1:
                raise ArgumentError(
                    f"{name}: must be one number for each row, got shape {values.shape}; of class "
                    "probabilities, pass the column of the relevant class."
                )
        if groups is None:
            if not self.measure.pooled:
                raise ArgumentError(
                    f"groups: must be given for {self.__name__}, got None; pass an id for each "
                    "row. With make_scorer use metadata routing: set_score_request(groups=True)."
                )
            grouping = Grouping(np.zeros(len(label), np.int64))
        else:
            grouping = Grouping.of_ids(groups)
        return self.grouped_value(grouping, label, score, sample_weight)


@typed
def group_score(
    y_true: Any,
    y_score: Any,
    groups: Any,
    measure: str | Measure = "GAUC",
    *,
    sample_weight: Any = None,
    **options: Any,
) -> float:
    """Compute a measure over groups of rows, as metrics of scikit-learn do.

    Parameters
    ----------
    y_true : array of shape (rows,)
        Labels: bool, integer grades or finite gains, not null.
    y_score : array of shape (rows,)
        Scores, not NaN; the highest score ranks first.
    groups : array of ids, shape (rows,)
        Integers, text, dates or bools, not null; in any order.
    measure : str or Measure
    sample_weight : array of shape (rows,), optional
        Row weights, 0 or from 1e-30 to 1e30; measures of rank positions refuse them.
    **options
        profile, ties, undefined, weight_rows, score_type and threads, as in `evaluate`.

    Returns
    -------
    float
        NaN where undefined.

    Raises
    ------
    ArgumentError
        If arrays differ in length, groups are not ids, or an option is unknown.
    FastRankEvalError
        As `evaluate` does.

    References
    ----------
    https://scikit-learn.org/stable/modules/model_evaluation.html

    Examples
    --------
    >>> group_score([0, 1, 1, 0], [0.1, 0.3, 0.2, 0.4], groups=["a", "b", "a", "b"])
    0.5
    """
    check_names("metrics", options, group_score)
    score = scorer(measure, **options)
    return score(y_true, y_score, groups=groups, sample_weight=sample_weight)


@typed
def scorer(measure: str | Measure = "GAUC", **options: Any) -> GroupScore:
    """Make a metric of a measure.

    Its signature is ``(y_true, y_score, *, groups=None, sample_weight=None) -> float``.

    With ``sklearn.set_config(enable_metadata_routing=True)`` it works in cross-validation::

        gauc = make_scorer(scorer("GAUC"), response_method="predict_proba")
        cross_validate(model, X, y, cv=GroupKFold(), params={"groups": users},
                       scoring=gauc.set_score_request(groups=True))

    Measures whose lower values are better (LogLoss, Brier, ECE ...) need
    ``make_scorer(..., greater_is_better=False)``.

    Parameters
    ----------
    measure : str or Measure
    **options
        profile, ties, undefined, groups, weight_rows, score_type and threads, as in `evaluate`.

    Returns
    -------
    GroupScore
        It raises `ArgumentError` without groups, except for measures that pool all rows (AUC).

    Raises
    ------
    ArgumentError, MeasureError
        If an option or the measure is unknown.

    References
    ----------
    https://scikit-learn.org/stable/metadata_routing.html

    Examples
    --------
    >>> scorer("nDCG@2")([0, 1, 1], [0.3, 0.2, 0.1], groups=[7, 7, 8])
    0.8154648767857288
    """
    check_names("metrics", options, scorer)
    return GroupScore(measure, options)


class _TrainingMetric(GroupedMeasure):
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
        super().__init__(measure, options)
        self._groupings = _groupings(group, sizes)
        self._own_groupings: dict[int, tuple[np.ndarray, Grouping]] = {}
        self._weighted = weighted
        self.name = self.__name__ if name is None else name
        self.higher_is_better = self.measure.higher_is_better

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
        return self.grouped_value(grouping, label, score, weight if self._weighted else None)

    def _grouping(self, rows: int, own: np.ndarray | None) -> Grouping:
        if self._groupings:
            if rows not in self._groupings:
                row_counts = ", ".join(f"{row_counts:,}" for row_counts in self._groupings)
                raise ArgumentError(
                    f"group: must have the groups of every data set, got those of {row_counts} "
                    f"rows and a data set of {rows:,} rows for {self.name}; pass those of the "
                    "training data too: group=[of_training, of_validation]."
                )
            return self._groupings[rows]
        if own is None or not len(own):
            raise ArgumentError(
                f"group: must be given for {self.name}, got None; pass group= (an id for each row) "
                "or sizes= (the rows of each group), or set the groups of the data set."
            )
        cached = self._own_groupings.get(rows)
        if cached is None or not np.array_equal(cached[0], own):
            cached = self._own_groupings[rows] = (own, Grouping.of_sizes(own))
        return cached[1]


def _groupings(group: object, sizes: object) -> dict[int, Grouping]:
    """Build the groups of each data set, by its number of rows."""
    if group is not None and sizes is not None:
        raise ArgumentError("group, sizes: must not both be given; leave one of them out.")
    if group is None and sizes is None:
        return {}
    groupings_by_rows: dict[int, Grouping] = {}
    for item in _by_data_set(group if sizes is None else sizes):
        grouping = Grouping.of_ids(item) if sizes is None else Grouping.of_sizes(item)
        if grouping.rows in groupings_by_rows:
            raise ArgumentError(
                f"group: must have data sets of different lengths, got two of {grouping.rows:,} "
                "rows, which cannot be distinguished; make a metric for each and train with one "
                "of them."
            )
        groupings_by_rows[grouping.rows] = grouping
    return groupings_by_rows


def _by_data_set(argument: Any) -> list[Any]:
    """Split an argument by data set: a list of items with a length is several."""
    if (
        isinstance(argument, list | tuple)
        and len(argument) > 0
        and all(hasattr(item, "__len__") and not isinstance(item, str | bytes) for item in argument)
    ):
        return list(argument)
    return [argument]


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
        """Return whether higher is better."""
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
        profile, ties, undefined, groups, weight_rows, score_type and threads, as in `evaluate`.

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
    check_names("metrics", options, lightgbm_metric)
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
    check_names("metrics", options, xgboost_metric)
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
    check_names("metrics", options, catboost_metric)
    if group is None and sizes is None:
        raise ArgumentError(
            "group: must be given, because CatBoost passes no groups to a metric, got None; pass "
            "group= (an id for each row) or sizes= (the rows of each group) for every data set."
        )
    metric = CatBoostMetric(measure, group, sizes, weighted, None, options)
    columns = [] if label is None else _by_data_set(label)
    try:
        labels = [np.asarray(values, np.float32) for values in columns]
    except (TypeError, ValueError, OverflowError):
        labels = [np.empty((), np.float32)]
    if any(values.ndim != 1 for values in labels):
        raise ArgumentError(
            "label: must be an array of numbers, one a row, or a list of such, got "
            f"{shown(label)}; pass the labels of each data set."
        )
    metric.labels = {len(values): values for values in labels}
    return metric
