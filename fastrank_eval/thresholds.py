"""Thresholds: the best by a criterion, and what any of them decides."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
import pyarrow as pa

from fastrank_eval.arguments import check_choice, check_options
from fastrank_eval.cell_texts import printable
from fastrank_eval.confusion_matrix import Confusion
from fastrank_eval.criteria import Criterion
from fastrank_eval.errors import ArgumentError
from fastrank_eval.measures.base import REL
from fastrank_eval.measures.decisions import PositivePredictiveValue
from fastrank_eval.score_table import ScoreTable
from fastrank_eval.typed_arguments import typed
from fastrank_eval.ungrouped import score_tables, states_of

#: Which of equally good thresholds is taken.
PREFER = ("highest", "lowest")


@dataclass(frozen=True, slots=True)
class BestThreshold:
    """The best threshold of a model: a row is predicted positive if its score is at least that.

    Parameters
    ----------
    score : str
        The score column.
    by : str
        The criterion with its options.
    threshold : float or None
        A score of some row. None: it is best to predict no row positive; NaN where undefined.
    value : float
        What the criterion comes to there; NaN where undefined.
    tp, fp, fn, tn : int or float
        Rows in each cell of the confusion matrix, or their weight. Where undefined, as if no row
        were predicted positive.
    reason : str or None
        Why there is none.
    """

    score: str
    by: str
    threshold: float | None
    value: float
    tp: float
    fp: float
    fn: float
    tn: float
    reason: str | None = None

    def _share(self, above: float, below: float) -> float:
        defined = self.reason is None and below > 0
        return above / below if defined else math.nan

    @property
    def precision(self) -> float:
        """TP / (TP + FP); NaN where undefined, as are all that follow."""
        return self._share(self.tp, self.tp + self.fp)

    @property
    def recall(self) -> float:
        """TP / (TP + FN): TPR."""
        return self._share(self.tp, self.tp + self.fn)

    @property
    def fpr(self) -> float:
        """FP / (FP + TN)."""
        return self._share(self.fp, self.fp + self.tn)

    @property
    def specificity(self) -> float:
        """TN / (FP + TN)."""
        return self._share(self.tn, self.fp + self.tn)

    @property
    def f1(self) -> float:
        """2 TP / (2 TP + FP + FN)."""
        return self._share(2 * self.tp, 2 * self.tp + self.fp + self.fn)

    @property
    def accuracy(self) -> float:
        """Share of the rows that are predicted right."""
        return self._share(self.tp + self.tn, self.tp + self.fp + self.fn + self.tn)

    def to_dict(self) -> dict[str, Any]:
        """Plain Python values, for JSON: NaN is None."""
        numbers = {
            "threshold": self.threshold,
            "value": self.value,
            "tp": self.tp,
            "fp": self.fp,
            "fn": self.fn,
            "tn": self.tn,
            **{name: getattr(self, name) for name in _SHARES},
        }
        plain = {
            name: None if value is None or math.isnan(value) else value
            for name, value in numbers.items()
        }
        return {"score": self.score, "by": self.by, **plain, "reason": self.reason}

    def __str__(self) -> str:
        score = printable(self.score)
        if self.reason is not None:
            return f"{score}: no threshold by {self.by} ({self.reason})"
        at = "no row positive" if self.threshold is None else f"threshold {self.threshold!r}"
        shares = ", ".join(f"{name} {getattr(self, name):.6g}" for name in _SHARES)
        cells = ", ".join(
            f"{name} {value:,}" if isinstance(value, int) else f"{name} {value:.6g}"
            for name, value in (
                ("TP", self.tp), ("FP", self.fp), ("FN", self.fn), ("TN", self.tn),
            )
        )  # fmt: skip
        return f"{score}: {at}, {self.by} {self.value:.6g}\n  {cells}\n  {shares}"


_SHARES = ("precision", "recall", "fpr", "specificity", "f1", "accuracy")


@overload
def best_threshold(source: object, *, label: str, score: str, **options: Any) -> BestThreshold: ...


@overload
def best_threshold(
    source: object, *, label: str, score: list[str] | tuple[str, ...], **options: Any
) -> dict[str, BestThreshold]: ...


@typed
def best_threshold(
    source: object,
    *,
    label: str,
    score: str | Sequence[str],
    by: str = "f1",
    beta: float | None = None,
    target: float | None = None,
    pos: float | None = None,
    costs: Mapping[str, float] | None = None,
    prefer: str = "highest",
    rel: float = 1,
    weight: str | None = None,
    **options: Any,
) -> BestThreshold | dict[str, BestThreshold]:
    """The threshold that is best by a criterion, exactly: every distinct score is tried.

    Scores of rows that weigh nothing are left out.

    Parameters
    ----------
    source : object
        As `evaluate` takes it; no group is needed.
    label : str
    score : str or sequence of str
        One column a model; higher is more likely positive. Scores are taken for numbers.
    by, beta, target, pos, costs
        See `Criterion`.
    prefer : {"highest", "lowest"}
        Which of equally good thresholds is taken: the highest, which predicts the fewest rows
        positive (none at all is higher than any score), or the lowest.
    rel : float
        The least label of a positive row, above 0.
    weight : str, optional
        Row weight: 0, or from 1e-30 to 1e30.
    **options
        ``unretrieved``, ``unjudged``, ``score_type``, ``where``, ``limit``, ``threads``,
        ``format``, ``allow_unfinished``, ``progress``, as `evaluate` takes them.

    Returns
    -------
    BestThreshold, or dict of str to BestThreshold
        By score column where `score` is a sequence.

    Raises
    ------
    FastRankEvalError
        As `evaluate` does.

    Examples
    --------
    >>> import fastrank_eval as fr
    >>> log = {"click": [1, 0, 1, 0, 0], "pctr": [0.9, 0.8, 0.7, 0.4, 0.1]}
    >>> best = fr.best_threshold(log, label="click", score="pctr", by="youden")
    >>> best.threshold, best.tp, best.fp
    (0.7, 2, 1)
    """
    criterion = Criterion(by, beta, target, pos, costs)
    check_choice("prefer", prefer, PREFER)
    check_options("best_threshold", {"label", "score", "weight", *options}, states_of)
    tables = score_tables(source, label=label, score=score, weight=weight, rel=_rel(rel), **options)
    found = {name: best_of(table, criterion, prefer, name) for name, table in tables.items()}
    return found[score] if isinstance(score, str) else found


def best_of(
    table: ScoreTable, criterion: Criterion, prefer: str = "highest", score: str = "score"
) -> BestThreshold:
    """The best threshold of a table of scores; see `best_threshold`.

    Parameters
    ----------
    table : ScoreTable
    criterion : Criterion
    prefer : {"highest", "lowest"}
    score : str
        What the result calls the score.
    """
    check_choice("prefer", prefer, PREFER)
    tp, fp = (
        np.concatenate([[0], np.cumsum(part, dtype=part.dtype)])
        for part in (table.positives, table.others)
    )
    tried = None
    if prefer == "highest" and criterion.falls_with_fp:
        # Where a score has no positive, the next higher one is at least as good.
        tried = np.append(0, np.flatnonzero(table.positives) + 1)
    elif tp.dtype.kind == "f":
        # What weighs nothing is no threshold, or rows of weight 0 would move the lowest one.
        tried = np.append(0, np.flatnonzero(table.positives + table.others) + 1)
    at, value = 0, math.nan
    positive, negative = tp[-1], fp[-1]
    reason: str | None = "no_rows"
    if len(table.score):
        reason = criterion.undefined(float(positive), float(negative))
    if reason is None:
        hits, false = (part if tried is None else part[tried] for part in (tp, fp))
        cells = (hits, false, positive - hits, negative - false)
        values = criterion.values(Confusion(*(cell.astype(np.float64) for cell in cells)))
        if np.isnan(values).all():
            reason = "target_not_reached"
        else:
            best = np.nanmin(values) if criterion.lowest else np.nanmax(values)
            ties = np.flatnonzero(values == best)
            at, value = int(ties[0] if prefer == "highest" else ties[-1]), float(best)
            at = at if tried is None else int(tried[at])
    threshold: float | None = math.nan
    if reason is None:
        threshold = float(table.score[at - 1]) if at else None
    return BestThreshold(
        score,
        str(criterion),
        threshold,
        value,
        _plain(tp[at], table.scale),
        _plain(fp[at], table.scale),
        _plain(positive - tp[at], table.scale),
        _plain(negative - fp[at], table.scale),
        reason,
    )


def _plain(cell: Any, scale: float) -> float:
    return int(cell) if isinstance(cell, np.integer) else float(cell) / scale


@typed
def confusion(
    source: object,
    *,
    label: str,
    score: str | Sequence[str],
    threshold: float | Iterable[float] = 0.5,
    rel: float = 1,
    weight: str | None = None,
    **options: Any,
) -> pa.Table:
    """Count what thresholds decide: a confusion matrix for each model and threshold.

    Parameters
    ----------
    source, label, score, rel, weight, **options
        As `best_threshold` takes them.
    threshold : float or iterable of float
        A row is predicted positive if its score is at least this, compared as float64.

    Returns
    -------
    pyarrow.Table
        ``score`` (string), ``threshold`` (float64), ``tp``, ``fp``, ``fn``, ``tn``: int64 rows, or
        with weights their float64 sums, exact but for one rounding.

    Raises
    ------
    FastRankEvalError
        As `evaluate` does.

    Examples
    --------
    >>> import fastrank_eval as fr
    >>> log = {"click": [1, 0, 1, 0, 0], "pctr": [0.9, 0.8, 0.7, 0.4, 0.1]}
    >>> fr.confusion(log, label="click", score="pctr", threshold=[0.5, 0.75]).to_pylist()[1]
    {'score': 'pctr', 'threshold': 0.75, 'tp': 1, 'fp': 1, 'fn': 1, 'tn': 2}
    """
    given: object = threshold
    if isinstance(given, str):
        raise ArgumentError(f"threshold={given!r} is not a number, nor several.")
    several = threshold if isinstance(threshold, Iterable) else [threshold]
    measures = [PositivePredictiveValue(threshold=one, rel=_rel(rel)) for one in several]
    if not measures:
        raise ArgumentError("threshold names none: give a number, or several.")
    check_options("confusion", {"label", "score", "weight", *options}, states_of)
    found = states_of(source, measures, label=label, score=score, weight=weight, **options)
    rows = [
        {
            "score": name,
            "threshold": float(measure.threshold),
            **{cell.lower(): number for cell, number in state.details().items()},
        }
        for name, states in found.items()
        for measure, state in zip(measures, states, strict=True)
    ]
    number = pa.int64() if weight is None else pa.float64()
    fields = [("score", pa.string()), ("threshold", pa.float64())]
    fields += [(cell, number) for cell in ("tp", "fp", "fn", "tn")]
    return pa.Table.from_pylist(rows, schema=pa.schema(fields))


def _rel(given: Any) -> Any:
    try:
        return REL.read(given)
    except ValueError as wrong:
        raise ArgumentError(f"rel={given!r} is not {wrong}.") from None
