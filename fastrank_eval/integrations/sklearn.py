"""Make metrics and scorers of scikit-learn from measures of groups."""

from __future__ import annotations

from typing import Any

import numpy as np

from fastrank_eval._lib.arguments import typed
from fastrank_eval._lib.errors import ArgumentError
from fastrank_eval.integrations.grouped_labels import GroupedMeasure, Grouping
from fastrank_eval.measures import Measure

__all__ = ["GroupScore", "group_score", "scorer"]


class GroupScore:
    """A picklable metric in the signature of scikit-learn.

    Parameters
    ----------
    measure : str or Measure
    options : dict
        Arguments of `evaluate`.
    """

    def __init__(self, measure: str | Measure, options: dict[str, Any]) -> None:
        self._measure = GroupedMeasure(measure, options)
        #: make_scorer prints this name.
        self.__name__ = str(self._measure.measure)

    def __call__(
        self, y_true: Any, y_score: Any, *, groups: Any = None, sample_weight: Any = None
    ) -> float:
        """Compute the measure over all groups, NaN where undefined."""
        label, score = np.asarray(y_true), np.asarray(y_score)
        for name, values in (("y_true", label), ("y_score", score)):
            if values.ndim != 1:
                raise ArgumentError(
                    f"{name} has shape {values.shape}: pass one number a row. Of class "
                    "probabilities that is the column of the relevant class."
                )
        if groups is None:
            if not self._measure.measure.pooled:
                raise ArgumentError(
                    f"{self.__name__} got no groups. Pass groups=, an id a row; behind "
                    "make_scorer they come by metadata routing: set_score_request(groups=True)."
                )
            grouping = Grouping(np.zeros(len(label), np.int64))
        else:
            grouping = Grouping.of_ids(groups)
        return self._measure.value(grouping, label, score, sample_weight)


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
        profile, ties, undefined, groups, weight_rows, score_type and threads, as in
        `evaluate`.

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
    return GroupScore(measure, options)
