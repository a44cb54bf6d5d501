"""Choose the best threshold; count decisions at thresholds."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from time import perf_counter
from typing import Any, overload

import numpy as np
import pyarrow as pa

from fastrank_eval._lib import __version__
from fastrank_eval._lib.arguments import Reader, checked, number, one_of, typed
from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.elementary import ratio
from fastrank_eval._lib.errors import ArgumentError
from fastrank_eval.engine.options import Options, check_names
from fastrank_eval.engine.plan import Plan
from fastrank_eval.engine.records import JSON_SCHEMAS, Meta, plain_counts, plain_value, score_tables
from fastrank_eval.engine.run import totals_of
from fastrank_eval.engine.totals import Totals
from fastrank_eval.measures import AUC
from fastrank_eval.measures.base import REL
from fastrank_eval.measures.clustered_sums import Confusion, f_score
from fastrank_eval.measures.decisions import PositivePredictiveValue
from fastrank_eval.results.curve_points import Thresholds
from fastrank_eval.results.notes import rows_left_out_notes
from fastrank_eval.results.report import Lines, Report, detail_text, printable
from fastrank_eval.results.views import View
from fastrank_eval.stats.score_runs import ScoreTable

#: Options of each criterion.
OPTIONS: dict[str, tuple[str, ...]] = {
    "f1": (),
    "fbeta": ("beta",),
    "youden": (),
    "product": (),
    "closest": (),
    "accuracy": ("pos",),
    "precision": ("target",),
    "recall": ("target",),
    "cost": ("costs", "pos"),
}
#: An example of each option that a criterion requires.
_REQUIRED = {"beta": "beta=2", "target": "target=0.9", "costs": "costs={'fp': 1, 'fn': 5}"}
_CELLS = ("tp", "fp", "fn", "tn")
#: Criteria that are undefined without positives.
_POSITIVE_CRITERIA = ("f1", "fbeta", "precision", "recall")


@dataclass(frozen=True)
class Criterion:
    """A criterion of the best threshold.

    Parameters
    ----------
    by : str
        * ``"f1"``, ``"fbeta"``: F-beta is highest (`beta`; 1 for f1);
        * ``"youden"``: TPR + 1 - FPR is highest (Youden's J plus 1);
        * ``"product"``: TPR (1 - FPR) is highest;
        * ``"closest"``: the distance of (FPR, TPR) from (0, 1) is lowest;
        * ``"accuracy"``: pos TPR + (1 - pos) (1 - FPR) is highest: an iso-accuracy line touches the
          ROC curve there. `pos` is the share of positives where the threshold will be used, by
          default that of the rows;
        * ``"precision"``: TPR is highest where precision is at least `target`;
        * ``"recall"``: precision is highest where TPR is at least `target`;
        * ``"cost"``: the mean cost of a row is lowest (`costs`, `pos` as for accuracy).
    beta : float, optional
        Above 0: the weight of recall.
    target : float, optional
        In ]0, 1].
    pos : float, optional
        In ]0, 1[.
    costs : mapping of str to float, optional
        Cost of a row by its cell, ``{"fp": 1, "fn": 5}``; cells of "tp", "fp", "fn", "tn" that are
        left out cost 0. A gain is a cost below 0.

    Raises
    ------
    ArgumentError
        If an option is missing, out of range, or does not apply to the criterion.

    Notes
    -----
    Youden (1950), doi:10.1002/1097-0142(1950)3:1<32::AID-CNCR2820030106>3.0.CO;2-3; Provost &
    Fawcett (2001), doi:10.1023/A:1007601015854, for iso-accuracy lines and costs; Liu (2012),
    doi:10.1002/sim.4509, for the product.
    """

    by: str = "f1"
    beta: float | None = None
    target: float | None = None
    pos: float | None = None
    costs: Mapping[str, float] | None = field(default=None, hash=False)

    def __post_init__(self) -> None:
        checked("by", self.by, one_of(*OPTIONS))
        for name, read in _READERS.items():
            value, applies = getattr(self, name), name in OPTIONS[self.by]
            if value is None:
                if applies and name in _REQUIRED:
                    raise ArgumentError(
                        f"{name}: must be given for by={self.by!r}, got None; pass "
                        f"{_REQUIRED[name]}."
                    )
            elif not applies:
                takers = [by for by, names in OPTIONS.items() if name in names]
                raise ArgumentError(
                    f"{name}: must be left out for by={self.by!r}, got {value!r}; it is for "
                    f"{', '.join(map(repr, takers))}."
                )
            else:
                object.__setattr__(self, name, checked(name, value, read))

    def __str__(self) -> str:
        texts: list[str] = []
        for name in OPTIONS[self.by]:
            value = getattr(self, name)
            if name == "costs":
                texts += [f"{cell}={cost:g}" for cell, cost in value.items()]
            elif value is not None:
                texts.append(f"{name}={value:g}")
        return f"{self.by}({', '.join(texts)})" if texts else self.by

    @property
    def lowest(self) -> bool:
        """Whether the lowest value is the best."""
        return self.by in ("closest", "cost")

    @property
    def falls_with_fp(self) -> bool:
        """Whether one more false positive never improves the criterion."""
        return self.costs is None or self.costs.get("fp", 0.0) >= self.costs.get("tn", 0.0)

    def undefined(self, positive: float, negative: float) -> str | None:
        """Return the reason why these rows have no best threshold, or None.

        Parameters
        ----------
        positive, negative : float
            Rows of each class, or their weight.
        """
        if not (positive > 0 or negative > 0):
            return "zero_weight"
        if self.by in _POSITIVE_CRITERIA:
            return None if positive > 0 else "all_negative"
        if self.by in ("accuracy", "cost") and self.pos is None:
            return None
        return None if positive > 0 and negative > 0 else "single_class"

    def values(self, confusion: Confusion) -> np.ndarray:
        """Compute the criterion for confusion matrices, NaN where undefined.

        Parameters
        ----------
        confusion : Confusion
            float64, shape (thresholds,).
        """
        c = confusion
        if self.by in ("f1", "fbeta"):
            return f_score(c, 1.0 if self.beta is None else self.beta)
        # Products first, quotients last: products of counts are exact, so equal values stay equal.
        classes, costs = c.positive * c.negative, self.costs or {"tp": 1.0, "tn": 1.0}
        if self.by == "youden":
            return ratio(c.tp * c.negative + c.tn * c.positive, classes)
        if self.by == "product":
            return ratio(c.tp * c.tn, classes)
        if self.by == "closest":
            distance = np.square(c.fp * c.positive) + np.square(c.fn * c.negative)
            return ratio(np.sqrt(distance), classes)
        if self.by in ("accuracy", "cost"):
            tp, fp, fn, tn = (costs.get(cell, 0.0) for cell in _CELLS)
            of_positives, of_negatives = tp * c.tp + fn * c.fn, fp * c.fp + tn * c.tn
            if self.pos is None:
                return ratio(of_positives + of_negatives, c.all)
            expected = self.pos * (of_positives * c.negative)
            return ratio(expected + (1 - self.pos) * (of_negatives * c.positive), classes)
        precision, recall = ratio(c.tp, c.predicted), ratio(c.tp, c.positive)
        if self.by == "precision":
            return np.where(precision >= self.target, recall, np.nan)
        return np.where(recall >= self.target, precision, np.nan)


def _read_costs(costs: Any) -> dict[str, float]:
    if not isinstance(costs, Mapping) or not costs:
        raise ArgumentError(
            f"costs: must be a mapping of cells to numbers, got {costs!r}; pass "
            f"{{'fp': 1, 'fn': 5}}, for instance."
        )
    for cell in costs:
        if cell not in _CELLS:
            raise ArgumentError(
                f"costs: must name cells out of {', '.join(map(repr, _CELLS))}, got {cell!r}; "
                "name one of them."
            )
    return {
        cell: float(checked(f"costs: {cell}", cost, number(least=-1e100, most=1e100)))
        for cell, cost in costs.items()
    }


_READERS: dict[str, Reader] = {
    "beta": number(above=0),
    "target": number(above=0, most=1),
    "pos": number(above=0, below=1),
    "costs": _read_costs,
}
#: Choices among equally good thresholds.
PREFER = ("highest", "lowest")


@dataclass(frozen=True, repr=False)
class BestThreshold(View):
    """The best threshold of a model, with its confusion matrix.

    A row is predicted positive if its score is at least the threshold.

    Parameters
    ----------
    score : str
        The score column.
    by : str
        The criterion with its options.
    threshold : float or None
        The score of a row. None: it is best to predict no row positive. NaN where undefined.
    value : float
        The criterion at the threshold; NaN where undefined.
    tp, fp, fn, tn : int or float
        Rows in each cell of the confusion matrix, or their weight. If the threshold is undefined,
        no row is predicted positive.
    reason : str or None
        Why there is no threshold.
    meta : Meta or None
        Rows, and those that options have left out.
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
    meta: Meta | None = field(default=None, compare=False, repr=False)

    @property
    def notes(self) -> list[str]:
        """Sentences on rows that options have left out."""
        meta = self.meta
        return [] if meta is None else rows_left_out_notes(meta)

    def _share(self, numerator: float, denominator: float) -> float:
        is_defined = self.reason is None and denominator > 0
        return numerator / denominator if is_defined else math.nan

    @property
    def precision(self) -> float:
        """TP / (TP + FP); NaN where undefined, like all shares below."""
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
        """Share of rows with the right prediction."""
        return self._share(self.tp + self.tn, self.tp + self.fp + self.fn + self.tn)

    def _rows(self) -> list[dict[str, Any]]:
        names = "score", "by", "threshold", "value", *_CELLS, *_SHARES, "reason"
        return [{name: plain_value(getattr(self, name)) for name in names}]

    def records(self) -> pa.Table:
        """Return one row: score, by, threshold, value, cells, shares, reason.

        Returns
        -------
        pyarrow.Table
            An undefined number is null.
        """
        return pa.Table.from_pylist(self._rows())

    def document(self) -> dict[str, Any]:
        """Return plain Python values for JSON: `records`, and counts of rows."""
        left_out = {} if self.meta is None else plain_value(self.meta.conventions)
        return {"schema": JSON_SCHEMAS["threshold"], **self._rows()[0], **left_out}

    @typed
    def report(self, *, wide: bool = False) -> Report:
        """Build the report that people read; `wide` changes nothing."""
        threshold = "no row positive" if self.threshold is None else f"threshold {self.threshold!r}"
        lines = [f"{threshold}, {self.by} {detail_text(self.value)}"]
        for names in (_CELLS, _SHARES):
            titles = [name.upper() if names is _CELLS else name for name in names]
            numbers = [detail_text(getattr(self, name)) for name in names]
            lines.append(", ".join(map(" ".join, zip(titles, numbers, strict=True))))
        if self.reason is not None:
            lines = [f"no threshold by {self.by} ({self.reason})"]
        score, (first, *rest) = printable(self.score), lines
        texts = [f"{score}: {first}", *(f"  {line}" for line in [*rest, *self.notes])]
        return Report(f"Threshold of {score}", [Lines(texts)])


_SHARES = ("precision", "recall", "fpr", "specificity", "f1", "accuracy")


@overload
def best_threshold(source: object, *, label: str, score: str, **options: Any) -> BestThreshold: ...


@overload
def best_threshold(
    source: object,
    *,
    label: str,
    score: list[str] | tuple[str, ...] | Mapping[str, str],
    **options: Any,
) -> dict[str, BestThreshold]: ...


@typed
def best_threshold(
    source: object,
    *,
    label: str,
    score: str | Sequence[str] | Mapping[str, str],
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
    """Find the best threshold by a criterion among all distinct scores.

    The result is exact. Scores of rows of weight 0 are left out.

    Parameters
    ----------
    source : object
        As in `evaluate`; no group is needed.
    label : str
    score : str, sequence of str, or mapping of str to str
        One column or expression for each model, as in `evaluate`; a higher score is more likely
        positive. Scores need not be probabilities.
    by, beta, target, pos, costs
        See `Criterion`.
    prefer : {"highest", "lowest"}
        The choice among equally good thresholds: the highest, which predicts the fewest rows
        positive (to predict none is higher than any score), or the lowest.
    rel : float
        Least label of a positive row, above 0.
    weight : str, optional
        Row weight: 0, or from 1e-30 to 1e30.
    **options
        ``unretrieved``, ``unjudged``, ``score_type``, ``where``, ``limit``, ``threads``,
        ``format``, ``progress``, as in `evaluate`.

    Returns
    -------
    BestThreshold, or dict of str to BestThreshold
        By score column unless `score` is a text.

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
    started = perf_counter()
    criterion = Criterion(by, beta, target, pos, costs)
    checked("prefer", prefer, one_of(*PREFER))
    measure = AUC(rel=checked("rel", rel, REL.read))
    columns = {"label": label, "score": score, "weight": weight}
    plan, found = _totals(best_threshold, source, columns | options, measure, keep="scores")
    tables = score_tables(plan, found)
    left_out: dict[str, object] = {**plain_counts(found.left_out)}
    meta = Meta(__version__, found.overall.rows(), 0, left_out, perf_counter() - started)
    results = {
        name: replace(best_of(table, criterion, prefer, name), meta=meta)
        for (name, _), table in tables.items()
    }
    return results[score] if isinstance(score, str) else results


def best_of(
    table: ScoreTable, criterion: Criterion, prefer: str = "highest", score: str = "score"
) -> BestThreshold:
    """Find the best threshold in a table of scores; see `best_threshold`.

    Parameters
    ----------
    table : ScoreTable
    criterion : Criterion
    prefer : {"highest", "lowest"}
    score : str
        Name of the score in the result.
    """
    thresholds = Thresholds.of(table)
    tp, fp = thresholds.tp, thresholds.fp
    cells = np.stack([tp, fp, tp[-1] - tp, fp[-1] - fp])
    # Rows without a score are not predicted positive at any threshold.
    is_candidate = ~np.isnan(thresholds.threshold)
    if prefer == "highest" and criterion.falls_with_fp:
        # A score without positives is never better than the next higher score.
        is_candidate[1:] &= np.diff(tp) > 0
    candidates = np.flatnonzero(is_candidate)
    index, value = 0, math.nan
    reason: str | None = "no_rows"
    if len(table.score):
        reason = criterion.undefined(float(tp[-1]), float(fp[-1]))
    if reason is None:
        values = criterion.values(Confusion(*cells[:, candidates].astype(np.float64)))
        if np.isnan(values).all():
            reason = "target_not_reached"
        else:
            best = np.nanmin(values) if criterion.lowest else np.nanmax(values)
            ties = candidates[values == best]
            index, value = int(ties[0] if prefer == "highest" else ties[-1]), float(best)
    threshold: float | None = math.nan
    if reason is None:
        threshold = float(thresholds.threshold[index]) if index else None
    chosen = cells[:, index]
    if chosen.dtype.kind == "f":
        chosen = chosen / table.scale
    hit, alarm, miss, rejection = chosen.tolist()
    return BestThreshold(
        score, str(criterion), threshold, value, hit, alarm, miss, rejection, reason
    )


@typed
def confusion(
    source: object,
    *,
    label: str,
    score: str | Sequence[str] | Mapping[str, str],
    threshold: float | Iterable[float] = 0.5,
    rel: float = 1,
    weight: str | None = None,
    **options: Any,
) -> pa.Table:
    """Count decisions: a confusion matrix for each model and threshold.

    Parameters
    ----------
    source, label, score, rel, weight, **options
        As in `best_threshold`.
    threshold : float or iterable of float
        A row is predicted positive if its score is at least this, compared as float64.

    Returns
    -------
    pyarrow.Table
        ``score`` (string), ``threshold`` (float64), ``tp``, ``fp``, ``fn``, ``tn``: int64 rows, or
        with weights their float64 sums, each rounded once. The metadata of its schema count rows
        that options have left out, as JSON: ``rows_left_out``, and those that they read in another
        way: ``rows_noted``.

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
    requested: object = threshold
    if isinstance(requested, str):
        raise ArgumentError(
            f"threshold: must be a number or several, got {requested!r}; pass 0.5, for instance."
        )
    thresholds = threshold if isinstance(threshold, Iterable) else [threshold]
    rel = checked("rel", rel, REL.read)
    measures = [PositivePredictiveValue(threshold=value, rel=rel) for value in thresholds]
    if not measures:
        raise ArgumentError(
            "threshold: must have at least one number, got none; pass 0.5, for instance."
        )
    columns = {"label": label, "score": score, "weight": weight}
    plan, found = _totals(confusion, source, columns | options, measures)
    rows = [
        {
            "score": name,
            "threshold": float(measure.threshold),
            **{cell.lower(): number for cell, number in measure.state_in(states).details().items()},
        }
        for name, states in zip(plan.roles.scores, found.overall_states.models, strict=True)
        for measure in measures
    ]
    number = pa.int64() if weight is None else pa.float64()
    fields = [("score", pa.string()), ("threshold", pa.float64())]
    fields += [(cell, number) for cell in ("tp", "fp", "fn", "tn")]
    left_out = plain_counts(found.left_out)
    metadata = {name: json.dumps(counts) for name, counts in left_out.items()} or None
    return pa.Table.from_pylist(rows, schema=pa.schema(fields, metadata))


def _totals(
    caller: Callable[..., Any],
    source: object,
    options: Mapping[str, Any],
    measures: Any,
    keep: str = "",
) -> tuple[Plan, Totals]:
    """Check options that count rows, and read these."""
    check_names("rows", options, caller)
    return totals_of(Options.read(source, {**options, "measures": measures, "keep": keep}))
