"""Add up the sums of several classes, and compute values of them.

Read rows with a score for each class.
"""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cached_property, partial
from itertools import combinations, permutations
from typing import Any

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arguments import column_name, column_names
from fastrank_eval._lib.arrow import (
    arrow_column,
    as_array,
    bytes_column,
    decode_array,
    frozen,
    is_list,
    plain_type,
)
from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.errors import ArgumentError, ColumnError, MeasureError, UndefinedError
from fastrank_eval._lib.lexer import quoted
from fastrank_eval._lib.threads import map_jobs
from fastrank_eval.engine.chunk_eval import ThreadTotals, evaluate_chunk
from fastrank_eval.engine.plan import Plan
from fastrank_eval.engine.records import MeasureValue, summary_rows
from fastrank_eval.groups.chunk import Chunk, Labels, Scored
from fastrank_eval.io.columns import Columns, Roles
from fastrank_eval.io.computed import parse as parse_expression
from fastrank_eval.io.reader import RowError
from fastrank_eval.io.source import require_columns
from fastrank_eval.io.validate import columns_of
from fastrank_eval.measures import Measure
from fastrank_eval.measures.clustered_sums import least_of
from fastrank_eval.measures.decisions import Decision, GroupDecision
from fastrank_eval.measures.likelihood import LogarithmicLoss
from fastrank_eval.measures.pooled import OrderedMeasure, PooledMeasure, PooledValue, undefined
from fastrank_eval.stats.means import MeanState
from fastrank_eval.stats.row_sums import RowSums

#: What a text has that is an expression, and no name of a column.
_OPERATOR = re.compile("[-+*/()]")


def computed_scores(schema: pa.Schema, scores: Any) -> dict[str, str]:
    """Return the expressions among the scores of classes.

    Parameters
    ----------
    schema : pyarrow.Schema
        Of the rows.
    scores : mapping of class to str, or sequence of str

    Returns
    -------
    dict of str to str
        Expression by its text, which names the computed column. A text without an operator is the
        name of a column, and so is a text that a column has as its name.

    Raises
    ------
    ArgumentError
        If an expression cannot be parsed.
    """
    texts = scores.values() if isinstance(scores, Mapping) else ()
    return {
        text: str(parse_expression(text, text))
        for text in texts
        if isinstance(text, str) and text not in schema.names and _OPERATOR.search(text)
    }


@dataclass(frozen=True)
class ClassRoles:
    """The label and score columns of each class.

    Parameters
    ----------
    classes : tuple of str
        Classes as text.
    values : pyarrow.Array
        Classes in the type of the label column.
    labels : tuple of str
        A column of the class of each row, or of the list of its classes; or a column of 0 and 1
        for each class.
    scores : tuple of str
        A column for each class.
    weight : str or None
        Row weight.
    form : str
        ``"one"``: one class a row; ``"list"``: a list of classes a row; ``"column"``: a label
        column for each class.
    score_kind : str
        How measures interpret scores.
    """

    classes: tuple[str, ...]
    values: pa.Array
    labels: tuple[str, ...]
    scores: tuple[str, ...]
    weight: str | None
    form: str
    score_kind: str = "number"

    @classmethod
    def of(cls, schema: pa.Schema, label: Any, scores: Any, weight: str | None) -> ClassRoles:
        """Read the arguments of `evaluate_classes`."""
        label_by_class, scores_by_class = (
            isinstance(columns, Mapping) for columns in (label, scores)
        )
        columns = column_names("scores", tuple(scores.values()) if scores_by_class else scores)
        weight = None if weight is None else column_name("weight", weight)
        if isinstance(label, str):
            labels: tuple[str, ...] = (column_name("label", label),)
            require_columns(schema, labels, role="label")
            kind = schema.field(label).type
            form = "list" if is_list(kind) else "one"
            kind = plain_type(kind.value_type if form == "list" else kind)
            classes = _texts(scores) if scores_by_class else _default_classes(kind, columns)
            values = _class_values(classes, kind, label)
        else:
            labels = column_names("label", tuple(label.values()) if label_by_class else label)
            form, classes = "column", _texts(label) if label_by_class else labels
            if label_by_class and scores_by_class:
                classes, columns, labels = _pair_columns(label, scores)
            elif label_by_class or scores_by_class:
                raise ArgumentError(
                    "label, scores: must both be mappings of classes, or both lists of columns, "
                    "got one of each; pass the same form."
                )
            if len(labels) != len(columns):
                raise ArgumentError(
                    f"label: must name as many columns as scores, {len(columns)}, got "
                    f"{len(labels)}; pass a label and a score column for each class."
                )
            values = bytes_column([name.encode() for name in classes], pa.string())
        both = set(labels) & {*columns, weight}
        if both:
            raise ArgumentError(
                f"label: must name other columns than scores and weight, got '{min(both)}' in "
                "both; name another column."
            )
        return cls(classes, values, labels, columns, weight, form)

    def by_column(self) -> dict[str, str]:
        """Map each needed column to its role."""
        roles = dict.fromkeys(self.labels, "label") | dict.fromkeys(self.scores, "score")
        return roles if self.weight is None else {**roles, self.weight: "weight"}

    def rows_of(self, batch: pa.RecordBatch, first_row: int) -> ClassRows:
        """Validate a batch.

        Raises
        ------
        ColumnError
            As `columns_of` does; also for a null label, a class without a score, and an indicator
            other than 0 and 1.
        """
        indicators: Iterable[Any] = [batch.column(name) for name in self.labels]
        codes = None
        if self.form == "one":
            codes = self._codes(batch.column(self.labels[0]), None, first_row)
            indicators = (
                arrow_column((codes == k).view(np.uint8)) for k in range(len(self.scores))
            )
        elif self.form == "list":
            indicators = self._members(batch.column(self.labels[0]), first_row)
        columns = []
        for k, (indicator, name) in enumerate(zip(indicators, self.scores, strict=True)):
            label = self.labels[k if self.form == "column" else 0]
            weight = None if k else self.weight
            roles = Roles(
                *((), label, (name,), weight),
                unretrieved="refuse",
                unjudged="refuse",
                score_kind=self.score_kind,
            )
            needed = list(roles.by_column())
            class_batch = pa.RecordBatch.from_arrays(
                [indicator, *(batch.column(other) for other in needed[1:])], needed
            )
            columns.append(columns_of(class_batch, roles, first_row))
            if self.form == "column":
                _refuse_grades(columns[-1].label, label, first_row)
        # Scores of all classes are compared with each other, so they need one type.
        score_type = np.result_type(*(each.scores[0].dtype for each in columns))
        return ClassRows(
            first_row,
            [frozen(np.ascontiguousarray(each.label != 0).view(np.uint8)) for each in columns],
            [frozen(each.scores[0].astype(score_type, copy=False)) for each in columns],
            columns[0].weight,
            codes,
        )

    def _codes(self, column: pa.Array, parents: np.ndarray | None, first_row: int) -> np.ndarray:
        """Find the class index of each value; `parents` has rows of items."""
        import pyarrow.compute as pc

        def class_index(column: pa.Array) -> pa.Array:
            column = decode_array(column)
            if column.type != self.values.type:
                column = column.cast(self.values.type)
            return pc.index_in(column, value_set=self.values)

        def count(column: pa.Array) -> int:
            column = decode_array(column)
            return int(class_index(column.flatten() if self.form == "list" else column).null_count)

        codes = class_index(column)
        if codes.null_count:
            unknown = np.flatnonzero(as_array(codes.is_null()))
            value = column[int(unknown[0])].as_py()
            row = unknown if parents is None else parents[unknown]
            name = self.labels[0]
            fault = f"label column '{name}' "
            if value is None:
                fault += "is null"
                remedy = f"; leave these rows out with where='{quoted(name)} is not null'"
            else:
                fault += "has a class that scores does not name"
                remedy = f", value {value!r}; name the column of its score, or leave these rows out"
                remedy += " with where"
            raise RowError(name, fault, remedy, first_row + int(row[0]), len(np.unique(row)), count)
        return as_array(codes).astype(np.int64)

    def _members(self, column: pa.Array, first_row: int) -> list[pa.Array]:
        import pyarrow.compute as pc

        column = decode_array(column)
        if column.null_count:
            raise RowError(
                self.labels[0],
                f"label column '{self.labels[0]}' is null",
                "; a row without a class has an empty list",
                first_row + int(np.argmax(as_array(column.is_null()))),
                column.null_count,
                lambda column: int(decode_array(column).null_count),
            )
        parents = as_array(pc.list_parent_indices(column)).astype(np.int64)
        codes = self._codes(column.flatten(), parents, first_row)
        member = np.zeros((len(self.scores), len(column)), np.uint8)
        member[codes, parents] = 1
        return [arrow_column(row) for row in member]


@dataclass(frozen=True)
class ClassRows:
    """A batch of rows.

    Parameters
    ----------
    first_row : int
        Index of the first row in the input.
    labels : list of ndarray of uint8, shape (rows,)
        For each class: whether the row belongs to it.
    scores : list of ndarray of float32 or float64, shape (rows,)
        For each class.
    weight : ndarray of float64, shape (rows,), or None
    codes : ndarray of int64, shape (rows,), or None
        The class of each row; None if a row may have several.
    """

    first_row: int
    labels: list[np.ndarray]
    scores: list[np.ndarray]
    weight: np.ndarray | None
    codes: np.ndarray | None

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.labels[0])

    @cached_property
    def best(self) -> np.ndarray:
        """The class of the highest score, the first of ties: int64, shape (rows,)."""
        best = np.zeros(self.rows, np.int64)
        highest = self.scores[0].copy()
        for k, score in enumerate(self.scores):
            best[score > highest] = k
            np.maximum(highest, score, out=highest)
        return best

    def decided(self, k: int) -> np.ndarray:
        """Get 1.0 where a class is `best`, else 0.0: float32, shape (rows,)."""
        return (self.best == k).astype(np.float32)

    @cached_property
    def members(self) -> list[np.ndarray]:
        """Indices of the rows of each class, ascending."""
        return [np.flatnonzero(label) for label in self.labels]


def scored_rows(label: np.ndarray, score: np.ndarray, weight: np.ndarray | None) -> Scored:
    """Build the rows of one class against the others."""
    columns = Columns(0, (), frozen(label), (frozen(score),), (None,), weight, None, ())
    starts = np.array([0, len(label)])
    labels = Labels.of(columns.label, starts, skip_empty=False)
    return Scored.of(Chunk(columns, starts, grouped=False), 0, labels)


def _text(value: object) -> str:
    return str(bool(value)).lower() if isinstance(value, bool | np.bool_) else str(value)


def _texts(by_class: Mapping[Any, str]) -> tuple[str, ...]:
    return tuple(map(_text, by_class))


def _default_classes(kind: pa.DataType, columns: Sequence[str]) -> tuple[str, ...]:
    """Choose default classes: numbers from 0, false and true, or column names."""
    numbers = [str(k) for k in range(len(columns))]
    if pa.types.is_boolean(kind):
        return ("false", "true", *numbers[2:])[: len(columns)]
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return tuple(numbers)
    return tuple(columns)


def _class_values(classes: Sequence[str], kind: pa.DataType, label: str) -> pa.Array:
    values = bytes_column([name.encode() for name in classes], pa.string())
    for k, name in enumerate(classes):
        try:
            values.slice(k, 1).cast(kind)
        except pa.ArrowException:
            raise ArgumentError(
                f"scores: must name classes of the label column '{label}', which is {kind}, got "
                f"{name!r}; pass {{value of that column: score column}}."
            ) from None
    values = values.cast(kind)
    if len(values.unique()) < len(values):
        raise ArgumentError(
            f"scores: must name each class of '{label}' once, got {', '.join(classes)}; leave out "
            "the repeated one."
        )
    return values


def _pair_columns(
    label: Mapping[Any, str], scores: Mapping[Any, str]
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Pair label and score columns by class, in the order of the scores."""
    texts, columns = _texts(scores), dict(zip(_texts(label), label.values(), strict=True))
    single = sorted(set(texts) ^ set(columns))
    if single:
        raise ArgumentError(
            f"label, scores: must name the same classes, got {single[0]!r} in one of them; give "
            "it a column in both."
        )
    return texts, tuple(scores.values()), tuple(columns[text] for text in texts)


def _refuse_grades(label: np.ndarray, name: str, first_row: int) -> None:
    def find(values: np.ndarray) -> np.ndarray:
        return (values != 0) & (values != 1)

    def count(column: pa.Array) -> int:
        return int(np.count_nonzero(find(as_array(column.drop_null().cast(pa.float64())))))

    wrong = find(label)
    if wrong.any():
        first = int(np.argmax(wrong))
        raise RowError(
            name,
            f"label column '{name}' is neither 0 nor 1",
            f", value {label[first]!s}; the column of a class has 1 for its rows, else 0",
            first_row + first,
            int(np.count_nonzero(wrong)),
            lambda column: count(decode_array(column)),
        )


class ClassConfusion:
    """A confusion matrix of several classes: counts, or exact sums of weights.

    Threads may add at the same time; their order does not matter.

    Parameters
    ----------
    classes : int
    weighted : bool

    Examples
    --------
    >>> state = ClassConfusion(2, weighted=False)
    >>> state.add(np.array([0, 1, 1]), np.array([0, 0, 1]), None)
    >>> state.matrix()
    array([[1, 0],
           [1, 1]])
    """

    def __init__(self, classes: int, weighted: bool) -> None:
        self.classes, self.weighted = classes, weighted
        self._sums = RowSums(1)

    def add(self, actual: np.ndarray, predicted: np.ndarray, weight: np.ndarray | None) -> None:
        """Add rows.

        Parameters
        ----------
        actual, predicted : ndarray of int64, shape (rows,)
            Class indices.
        weight : ndarray of float64, shape (rows,), or None
        """
        cells = actual * self.classes + predicted
        if weight is None:
            self._sums.count_keys(0, cells)
        else:
            self._sums.add(0, weight, cells)

    def exact(self) -> Sequence[Sequence[Fraction]]:
        """Get the rows of the matrix as fractions."""
        classes = range(self.classes)
        return [[self._sums.exact(0, i * self.classes + j) for j in classes] for i in classes]

    def matrix(self) -> np.ndarray:
        """Get the rows of class i with prediction j.

        Returns
        -------
        ndarray of int64 or float64, shape (classes, classes)
            Counts, or sums of weights, each rounded once.
        """
        cells = np.array([self._sums.total(0, cell) for cell in range(self.classes**2)])
        kind = np.float64 if self.weighted else np.int64
        return cells.astype(kind).reshape(self.classes, self.classes)


def overall_value(name: str, cells: Sequence[Sequence[Fraction]]) -> PooledValue:
    """Compute a measure of all classes at once from the confusion matrix.

    With s rows, c of them predicted right, t_k rows of class k and p_k rows predicted as k:

    * Accuracy is c / s, ErrorRate 1 - c / s;
    * BalancedAccuracy is the mean recall over the classes that have rows;
    * MCC is Gorodkin's R_K, the correlation of predicted and actual class,
      ``(s c - sum_k p_k t_k) / sqrt((s^2 - sum_k p_k^2) (s^2 - sum_k t_k^2))``.

    References
    ----------
    Gorodkin (2004), doi:10.1016/j.compbiolchem.2004.09.006.
    """
    total = Fraction(sum(map(sum, cells)))
    if not total:
        return undefined("zero_weight")
    right = sum(row[k] for k, row in enumerate(cells)) / total
    if name in ("Accuracy", "ErrorRate"):
        return PooledValue(float(right if name == "Accuracy" else 1 - right))
    if name == "BalancedAccuracy":
        shares = [Fraction(row[k], sum(row)) for k, row in enumerate(cells) if sum(row)]
        return PooledValue(float(sum(shares) / len(shares)))
    actual = [sum(row) / total for row in cells]
    predicted = [sum(column) / total for column in zip(*cells, strict=True)]
    actual_spread, predicted_spread = (
        1 - sum(share * share for share in shares) for shares in (actual, predicted)
    )
    if not actual_spread:
        return undefined("single_class")
    if not predicted_spread:
        return undefined("single_class_predicted")
    covariance = right - sum(p * t for p, t in zip(predicted, actual, strict=True))
    value = float(covariance) / math.sqrt(float(actual_spread) * float(predicted_spread))
    return PooledValue(min(max(value, -1.0), 1.0))


#: Name of the weight column where a row is a group.
ROW_WEIGHT = "row weight"
#: Averages over pairs of classes.
OVER_PAIRS = ("ovo", "ovo_weighted", "mu")


def over_pairs(measure: Measure) -> bool:
    """Return whether a measure has averages over pairs of classes.

    It must depend on the ranking alone: a probability among all classes is not one among two.
    """
    return isinstance(measure, OrderedMeasure) and measure.scores != "probability"


@dataclass(frozen=True)
class ClassPlan:
    """What to compute for rows with several classes.

    Parameters
    ----------
    roles : ClassRoles
    measures : tuple of PooledMeasure
        Measures of each class against the others.
    averages : tuple of str
    by_row : mapping of str to Measure
        Measures of rows as groups, by the text of the requested measure.
    argmax : bool
        Predict the class of the highest score; otherwise all classes at or above a threshold.
    policies : mapping of str to str
        Policies for undefined values, from `undefined_policies`.
    threads : int
    """

    roles: ClassRoles
    measures: tuple[PooledMeasure, ...]
    averages: tuple[str, ...]
    by_row: dict[str, Measure]
    argmax: bool
    policies: dict[str, str]
    threads: int

    @property
    def weighted(self) -> bool:
        """Whether rows have weights."""
        return self.roles.weight is not None

    def overall(self, measure: Measure) -> bool:
        """Return whether a measure is defined for all classes at once."""
        if isinstance(measure, LogarithmicLoss):
            return self.roles.form == "one"
        names = ("Accuracy", "ErrorRate")
        return measure.name in ((*names, "BalancedAccuracy", "MCC") if self.argmax else names)

    @cached_property
    def row_plan(self) -> Plan:
        """Plan of the measures of rows as groups."""
        own = self.policies
        policies = {**own, **{f"Group{name}": own[name] for name in own if name != "*"}}
        if "AUC" in own:
            policies["GAUC"] = own["AUC"]
        return Plan(
            Roles(
                ("row",),
                "label",
                ("score", "decided")[: 1 + self.argmax],
                group_weights=(ROW_WEIGHT,) * self.weighted,
            ),
            tuple(dict.fromkeys(self.by_row.values())),
            undefined=policies,
            per_group=False,
            threads=self.threads,
        )


class States:
    """States of measures; measures with the same key share one."""

    def __init__(self, measures: Sequence[PooledMeasure], plan: ClassPlan) -> None:
        self._plan = plan
        self._measures: dict[Hashable, PooledMeasure] = {}
        for m in measures:
            for shared in m.required_states():
                self._measures.setdefault(shared.state_key(), shared)
        self._states: dict[Hashable, Any] = {
            key: m.new_state(plan.weighted, plan.threads) for key, m in self._measures.items()
        }

    def __getitem__(self, measure: PooledMeasure) -> Any:
        return measure.state_in(self._states)

    def add(self, scored: Scored, decided: Scored | None = None) -> None:
        """Add rows; measures of decisions use `decided`, if any."""
        for key, m in self._measures.items():
            uses_decisions = decided is not None and isinstance(m, Decision)
            m.add_rows(self._states[key], decided if uses_decisions and decided else scored)


class ClassStates:
    """Sums over all rows, by class; threads may add at the same time.

    Parameters
    ----------
    plan : ClassPlan
    """

    def __init__(self, plan: ClassPlan) -> None:
        self.plan = plan
        class_count, averages = len(plan.roles.classes), plan.averages
        self._lock = threading.Lock()
        self.rows = 0
        self.positives = np.zeros(class_count, np.int64)
        self.weights = RowSums(class_count)
        self.each = [States(plan.measures, plan) for _ in range(class_count)]
        self.micro = States(plan.measures if "micro" in averages else (), plan)
        ordered = [m for m in plan.measures if over_pairs(m)]
        numbers = range(class_count)
        ovo = not {"ovo", "ovo_weighted"}.isdisjoint(averages)
        self.pairs = {pair: States(ordered, plan) for pair in permutations(numbers, 2) if ovo}
        self.mu = {
            pair: States(ordered, plan) for pair in combinations(numbers, 2) if "mu" in averages
        }
        self.confusion = ClassConfusion(class_count, plan.weighted) if plan.argmax else None
        overall = [m for m in plan.measures if plan.overall(m)]
        #: By threshold: counts of rows whose classes are all predicted right (second column).
        self.right = {
            float(m.threshold): ClassConfusion(2, plan.weighted)
            for m in overall
            if isinstance(m, Decision) and not plan.argmax
        }
        #: Score of the class of each row, as the probability of a positive.
        self.own = States([m for m in overall if isinstance(m, LogarithmicLoss)], plan)
        self.by_row = ThreadTotals(plan.row_plan)

    def add(self, batch: pa.RecordBatch, first_row: int) -> None:
        """Add the rows of a batch."""
        rows = self.plan.roles.rows_of(batch, first_row)
        classes = range(len(rows.labels))
        for k in classes:
            label, weight = rows.labels[k], rows.weight
            scored = scored_rows(label, rows.scores[k], weight)
            decided = scored_rows(label, rows.decided(k), weight) if self.plan.argmax else None
            self.each[k].add(scored, decided)
            self.micro.add(scored, decided)
            members = rows.members[k]
            if weight is not None:
                self.weights.add(k, weight[members])
            with self._lock:
                self.positives[k] += len(members)
        with self._lock:
            self.rows += rows.rows
        for i, j in self.pairs:
            self._add_pair(self.pairs[i, j], rows, i, j, rows.scores[i])
        for i, j in self.mu:
            with np.errstate(invalid="ignore"):
                difference = rows.scores[i].astype(np.float64) - rows.scores[j]
            if np.isnan(difference).any():
                raise ColumnError(
                    f"score columns '{self.plan.roles.scores[i]}' and "
                    f"'{self.plan.roles.scores[j]}' are both infinite in a row, and AUC-mu takes "
                    "their difference; leave out average 'mu', or give finite scores."
                )
            self._add_pair(self.mu[i, j], rows, i, j, difference)
        self._add_overall(rows)
        if self.plan.by_row and rows.rows:
            self._add_by_row(rows)

    def support(self) -> np.ndarray:
        """Get the rows of each class, or their weight: float64, shape (classes,)."""
        if self.plan.weighted:
            return np.array([self.weights.total(k) for k in range(len(self.positives))])
        return self.positives.astype(np.float64)

    def _add_pair(self, states: States, rows: ClassRows, i: int, j: int, score: np.ndarray) -> None:
        """Add the rows of class i against those of class j."""
        both = np.concatenate([rows.members[i], rows.members[j]])
        label = np.zeros(len(both), np.uint8)
        label[: len(rows.members[i])] = 1
        weight = None if rows.weight is None else frozen(rows.weight[both])
        states.add(scored_rows(label, score[both], weight))

    def _add_overall(self, rows: ClassRows) -> None:
        if self.confusion is not None and rows.codes is not None:
            self.confusion.add(rows.codes, rows.best, rows.weight)
        for threshold, state in self.right.items():
            right = np.ones(rows.rows, np.bool_)
            for label, score in zip(rows.labels, rows.scores, strict=True):
                right &= (score >= least_of(score.dtype, threshold)) == (label != 0)
            state.add(np.ones(rows.rows, np.int64), right.astype(np.int64), rows.weight)
        if rows.codes is not None:
            own = np.empty_like(rows.scores[0])
            for members, score in zip(rows.members, rows.scores, strict=True):
                own[members] = score[members]
            self.own.add(scored_rows(np.ones(rows.rows, np.uint8), own, rows.weight))

    def _add_by_row(self, rows: ClassRows) -> None:
        """Add each row as a group of its classes."""
        class_count = len(rows.labels)
        label = frozen(np.stack(rows.labels, axis=1).ravel())
        scores = [frozen(np.stack(rows.scores, axis=1).ravel())]
        plan = self.plan.row_plan
        if self.plan.argmax:
            scores.append(
                frozen((np.arange(class_count) == rows.best[:, None]).astype(np.float32).ravel())
            )
        weights = () if rows.weight is None else (frozen(np.repeat(rows.weight, class_count)),)
        columns = Columns(0, (), label, tuple(scores), (None,) * len(scores), None, None, weights)
        starts = np.arange(0, len(label) + 1, class_count)

        def name(group: int) -> str:
            return f"row={rows.first_row + group}"

        evaluate_chunk(Chunk(columns, starts), plan, self.by_row.get(), name)


class ClassValues:
    """Values of each class and their averages.

    Parameters
    ----------
    plan : ClassPlan
    states : ClassStates
    name : str
        Name of the model in the values.
    """

    def __init__(self, plan: ClassPlan, states: ClassStates, name: str) -> None:
        self._plan, self._states, self._name = plan, states, name
        self._jobs = partial(map_jobs, plan.threads)
        self._support = states.support()
        #: Values of the classes by measure.
        self.each = {m: [self._value(m, of) for of in states.each] for m in plan.measures}

    def _value(self, measure: PooledMeasure, states: States) -> PooledValue:
        return measure.pooled_value(states[measure], self._jobs)

    def of_classes(self, measure: PooledMeasure) -> np.ndarray:
        """Get the value of each class: float64, shape (classes,)."""
        return np.array([self._apply_policy(measure, value)[0] for value in self.each[measure]])

    def rows(self) -> Iterator[MeasureValue]:
        """Yield the values of all classes at once, then the averages."""
        for measure in self._plan.measures:
            if self._plan.overall(measure):
                yield self._overall_value(measure)
                continue
            for average in self._plan.averages:
                if average == "micro":
                    micro = self._value(measure, self._states.micro)
                    yield self._pooled_value(measure, average, micro)
                elif average in ("macro", "weighted"):
                    weights = self._support if average == "weighted" else None
                    positives = self._states.positives
                    rows = np.full(len(positives), self._states.rows)
                    yield self._mean(measure, average, self.each[measure], weights, rows, positives)
                elif average in OVER_PAIRS and over_pairs(measure):
                    yield self._mean_over_pairs(measure, average)
        yield from self._means_over_rows()

    def _apply_policy(
        self, measure: PooledMeasure, computed: PooledValue
    ) -> tuple[float, str | None]:
        """Apply the policy for undefined values; return value and reason."""
        if not computed.reason:
            return computed.value, None
        policies = self._plan.policies
        policy = policies.get(measure.name, policies["*"])
        if policy == "error":
            raise UndefinedError(
                f"{measure} is undefined ({computed.reason}) for a class, a pair of classes or all "
                "of them, and undefined values are an error; choose undefined='skip', 'zero' or "
                "'one'."
            )
        if policy == "skip":
            return computed.value, computed.reason
        return {"zero": 0.0, "one": 1.0}[policy], None

    def _pooled_value(
        self, measure: PooledMeasure, average: str, computed: PooledValue
    ) -> MeasureValue:
        """Build the value of all classes together."""
        value, reason = self._apply_policy(measure, computed)
        classes = len(self._plan.roles.classes)
        used, dropped = (0, {reason: classes}) if reason else (classes, {})
        rows, positives = self._states.rows, int(self._states.positives.sum())
        shares = _share(rows if used else 0, rows), _share(positives if used else 0, positives)
        return MeasureValue(
            *(self._name, average, str(measure), value, classes, used, dropped, *shares),
            aggregate="pooled",
            details=dict(computed.details),
            warning="classes",
            name=measure.alias or "",
        )

    def _overall_value(self, measure: PooledMeasure) -> MeasureValue:
        states = self._states
        if isinstance(measure, LogarithmicLoss):
            return self._pooled_value(measure, "all", self._value(measure, states.own))
        state = states.confusion or states.right[float(measure.threshold)]
        return self._pooled_value(measure, "all", overall_value(measure.name, state.exact()))

    def _mean_over_pairs(self, measure: PooledMeasure, average: str) -> MeasureValue:
        positives, support, states = self._states.positives, self._support, self._states
        pairs = list(combinations(range(len(support)), 2))
        values = []
        for i, j in pairs:
            if average == "mu":
                values.append(self._value(measure, states.mu[i, j]))
                continue
            left, right = (self._value(measure, states.pairs[pair]) for pair in ((i, j), (j, i)))
            reason = left.reason or right.reason
            values.append(PooledValue((left.value + right.value) / 2, reason))
        rows, both = (np.array([of[i] + of[j] for i, j in pairs]) for of in (positives, support))
        weights = both if average == "ovo_weighted" else None
        return self._mean(measure, average, values, weights, rows, rows)

    def _mean(
        self,
        measure: PooledMeasure,
        average: str,
        computed: Sequence[PooledValue],
        weights: np.ndarray | None,
        rows: np.ndarray,
        positives: np.ndarray,
    ) -> MeasureValue:
        """Average the defined values."""
        state = MeanState(1)
        values = np.empty(len(computed))
        for index, value in enumerate(computed):
            values[index], reason = self._apply_policy(measure, value)
            if reason:
                state.drop(0, reason, 1)
        if weights is not None:
            weightless = (weights == 0) & ~np.isnan(values)
            state.drop(0, "zero_weight", int(np.count_nonzero(weightless)))
            values[weightless] = np.nan
        if not state.add(0, values, weights, rows, positives):
            raise MeasureError(
                f"{measure}: the {average} mean exceeds the largest double; scale weights down, or "
                "choose another average."
            )
        return MeasureValue(
            self._name,
            average,
            str(measure),
            state.mean(0, weights is not None),
            len(computed),
            state.groups_used(0),
            state.dropped(0),
            _share(state.rows(0), int(rows.sum())),
            _share(state.positives(0), int(positives.sum())),
            warning="classes",
            name=measure.alias or "",
        )

    def _means_over_rows(self) -> Iterator[MeasureValue]:
        plan = self._plan
        if not plan.by_row:
            return
        rows = {
            (row.measure, row.score): row
            for row in summary_rows(plan.row_plan, self._states.by_row.merge())
        }
        for text, measure in plan.by_row.items():
            decides = plan.argmax and isinstance(measure, GroupDecision)
            row = rows[str(measure), "decided" if decides else "score"]
            yield replace(row, score=self._name, slice="samples", measure=text)


def _share(count: int, total: int) -> float:
    return count / total if total else float("nan")
