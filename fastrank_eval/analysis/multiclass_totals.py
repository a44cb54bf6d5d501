"""Add up the sums of several classes, and compute values of them.

Read rows with a score for each class.
"""

from __future__ import annotations

import math
import re
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from fastrank_eval.engine.program import policy_of
from fastrank_eval.engine.records import MeasureValue, summary_rows
from fastrank_eval.engine.totals import PooledStates
from fastrank_eval.groups.chunk import Chunk, Scored
from fastrank_eval.groups.scan import find_labels
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
        if self.form != "column":
            found, row = self._codes(batch.column(self.labels[0]), first_row)
            member = np.zeros((len(self.scores), batch.num_rows), np.uint8)
            member[found, row] = 1
            indicators = map(arrow_column, member)
            codes = found if self.form == "one" else None
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

    def _codes(self, column: pa.Array, first_row: int) -> tuple[np.ndarray, np.ndarray]:
        """Find the class index of each value, and its row in the batch."""
        import pyarrow.compute as pc

        name = self.labels[0]

        def items(column: pa.Array) -> pa.Array:
            column = decode_array(column)
            return decode_array(column.flatten()) if self.form == "list" else column

        def class_index(column: pa.Array) -> pa.Array:
            values = items(column)
            if values.type != self.values.type:
                values = values.cast(self.values.type)
            return pc.index_in(values, value_set=self.values)

        rows = np.arange(len(column))
        if self.form == "list":
            if column.null_count:
                raise RowError(
                    name,
                    f"label column '{name}' is null",
                    "; a row without a class has an empty list",
                    first_row + int(np.argmax(as_array(column.is_null()))),
                    column.null_count,
                    lambda column: int(decode_array(column).null_count),
                )
            rows = as_array(pc.list_parent_indices(decode_array(column))).astype(np.int64)
        codes = class_index(column)
        if codes.null_count:
            unknown = np.flatnonzero(as_array(codes.is_null()))
            value, row = items(column)[int(unknown[0])].as_py(), rows[unknown]
            fault = f"label column '{name}' "
            if value is None:
                fault += "is null"
                remedy = f"; leave these rows out with where='{quoted(name)} is not null'"
            else:
                fault += "has a class that scores does not name"
                remedy = f", value {value!r}; name the column of its score, or leave these rows out"
                remedy += " with where"
            count = lambda column: int(class_index(column).null_count)  # noqa: E731
            raise RowError(name, fault, remedy, first_row + int(row[0]), len(np.unique(row)), count)
        return as_array(codes).astype(np.int64), rows


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

    @cached_property
    def members(self) -> list[np.ndarray]:
        """Indices of the rows of each class, ascending."""
        return [np.flatnonzero(label) for label in self.labels]


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

    def decides(self, measure: Measure) -> bool:
        """Return whether the highest score decides the predictions of a measure."""
        return self.argmax and isinstance(measure, Decision | GroupDecision)

    def of_rows(self, measures: Iterable[Measure]) -> Plan:
        """Plan measures of all rows of two classes."""
        roles = Roles((), "label", ("score",), self.roles.weight)
        return Plan(roles, tuple(measures), per_group=False, threads=self.threads)

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
            policies=policies,
            per_group=False,
            threads=self.threads,
        )


class ClassTotals:
    """Sums over all rows, and the values of classes.

    Threads may add at the same time. Each problem of two classes has its plan and pooled states: a
    class against the others, by scores and as predicted, and two classes. The states of all
    classes are merged for ``"micro"``.

    Parameters
    ----------
    plan : ClassPlan
    name : str
        Name of the model in the values.
    """

    def __init__(self, plan: ClassPlan, name: str) -> None:
        self._plan, self._name, self._jobs = plan, name, partial(map_jobs, plan.threads)
        self._classes = range(len(plan.roles.classes))
        self._lock = threading.Lock()
        self.rows = 0
        self.positives = np.zeros(len(self._classes), np.int64)
        self._weights = RowSums(len(self._classes))
        scored = plan.of_rows(m for m in plan.measures if not plan.decides(m))
        decided = plan.of_rows(filter(plan.decides, plan.measures))
        ordered = plan.of_rows(filter(over_pairs, plan.measures))
        overall = list(filter(plan.overall, plan.measures))
        plans: dict[tuple[Any, ...], Plan] = {
            (kind, k): each
            for kind, each in (("class", scored), ("decided", decided))
            for k in self._classes
            if each.measures
        }
        if not {"ovo", "ovo_weighted"}.isdisjoint(plan.averages):
            plans |= {("ovo", *pair): ordered for pair in permutations(self._classes, 2)}
        if "mu" in plan.averages:
            plans |= {("mu", *pair): ordered for pair in combinations(self._classes, 2)}
        if any(isinstance(m, LogarithmicLoss) for m in overall):
            plans["own",] = plan.of_rows(m for m in overall if isinstance(m, LogarithmicLoss))
        self._states = {problem: PooledStates(each) for problem, each in plans.items()}
        self._by_row = ThreadTotals(plan.row_plan)
        self.confusion = ClassConfusion(len(self._classes), plan.weighted) if plan.argmax else None
        #: By threshold: counts of rows whose classes are all predicted right (second column).
        self._right = {
            float(m.threshold): ClassConfusion(2, plan.weighted)
            for m in overall
            if isinstance(m, Decision) and not plan.argmax
        }

    def add(self, batch: pa.RecordBatch, first_row: int) -> None:
        """Add the rows of a batch."""
        rows = self._plan.roles.rows_of(batch, first_row)
        with self._lock:
            self.rows += rows.rows
            self.positives += [len(members) for members in rows.members]
        if rows.weight is not None:
            for k, members in enumerate(rows.members):
                self._weights.add(k, rows.weight[members])
        for problem, states in self._states.items():
            chunk = self._chunk(rows, *problem)
            labels = find_labels(chunk.columns.label, chunk.starts, skip=False)
            states.add([Scored.of(chunk, 0, labels)])
        if self._plan.by_row and rows.rows:
            row_plan, name = self._plan.row_plan, lambda group: f"row={rows.first_row + group}"
            evaluate_chunk(self._chunk(rows, "row"), row_plan, self._by_row.get(), name)
        if self.confusion is not None and rows.codes is not None:
            self.confusion.add(rows.codes, rows.best, rows.weight)
        for threshold, state in self._right.items():
            right = np.ones(rows.rows, np.bool_)
            for label, score in zip(rows.labels, rows.scores, strict=True):
                right &= (score >= least_of(score.dtype, threshold)) == (label != 0)
            state.add(np.ones(rows.rows, np.int64), right.astype(np.int64), rows.weight)

    def _chunk(self, rows: ClassRows, kind: str, *classes: int) -> Chunk:
        """Return the rows of a problem, or rows as groups of their classes."""
        weight, of_groups = rows.weight, list[np.ndarray]()
        if kind == "row":
            count = len(rows.labels)
            label, scores = np.stack(rows.labels, axis=1), [np.stack(rows.scores, axis=1)]
            if self._plan.argmax:
                scores.append((np.arange(count) == rows.best[:, None]).astype(np.float32))
            if weight is not None:
                of_groups, weight = [np.repeat(weight, count)], None
        elif kind == "own":
            # The score of the class of each row is the probability of a positive.
            label = np.ones(rows.rows, np.uint8)
            scores = [np.stack(rows.scores, axis=1)[np.arange(rows.rows), rows.codes]]
        elif len(classes) == 1:
            (k,) = classes
            label = rows.labels[k]
            scores = [rows.scores[k] if kind == "class" else (rows.best == k).astype(np.float32)]
        else:
            i, j = classes
            both = np.concatenate([rows.members[i], rows.members[j]])
            label = (np.arange(len(both)) < len(rows.members[i])).view(np.uint8)
            scores = [(rows.scores[i] if kind == "ovo" else self._difference(rows, i, j))[both]]
            weight = None if weight is None else frozen(weight[both])
        named = [frozen(column.ravel()) for column in (*scores, *of_groups)]
        models, size = len(scores), len(rows.labels) if kind == "row" else label.size
        none = [None] * models
        arrays = frozen(label.ravel()), weight, None, None, *named[:models], *none, *named[models:]
        columns = Columns(0, label.size, (), arrays, models=models)
        starts = np.array([0, size]) if kind != "row" else np.arange(0, label.size + 1, size)
        return Chunk(columns, starts, grouped=kind == "row")

    def _difference(self, rows: ClassRows, i: int, j: int) -> np.ndarray:
        """Subtract the scores of two classes, for AUC-mu."""
        with np.errstate(invalid="ignore"):
            difference = rows.scores[i].astype(np.float64) - rows.scores[j]
        if np.isnan(difference).any():
            scores = self._plan.roles.scores
            raise ColumnError(
                f"score columns '{scores[i]}' and '{scores[j]}' are both infinite in a row, and "
                "AUC-mu takes their difference; leave out average 'mu', or give finite scores."
            )
        return difference

    @cached_property
    def _support(self) -> np.ndarray:
        """The rows of each class, or their weight: float64, shape (classes,)."""
        if self._plan.weighted:
            return np.array([self._weights.total(k) for k in self._classes])
        return self.positives.astype(np.float64)

    def _value(self, measure: PooledMeasure, states: PooledStates) -> PooledValue:
        return measure.pooled_value(measure.state_in(states.models[0]), self._jobs)

    def _of_problem(self, measure: PooledMeasure, *problem: Any) -> PooledValue:
        return self._value(measure, self._states[problem])

    def _kind(self, measure: PooledMeasure) -> str:
        return "decided" if self._plan.decides(measure) else "class"

    @cached_property
    def _each(self) -> dict[PooledMeasure, list[PooledValue]]:
        """Values of the classes by measure."""
        return {
            m: [self._of_problem(m, self._kind(m), k) for k in self._classes]
            for m in self._plan.measures
        }

    @cached_property
    def _together(self) -> dict[str, PooledStates]:
        """States of the rows of all classes together."""
        self._each  # noqa: B018 -- a merge ends the use of the states of classes
        merged: dict[str, PooledStates] = {}
        for (kind, *_), states in self._states.items():
            if kind not in merged:
                merged[kind] = states
            elif kind in ("class", "decided"):
                merged[kind].merge(states)
        return merged

    def of_classes(self, measure: PooledMeasure) -> np.ndarray:
        """Get the value of each class: float64, shape (classes,)."""
        return np.array([self._apply_policy(measure, value)[0] for value in self._each[measure]])

    def values(self) -> Iterator[MeasureValue]:
        """Yield the values of all classes at once, then the averages."""
        for measure in self._plan.measures:
            if self._plan.overall(measure):
                yield self._measure_value(measure, "all", self._overall(measure))
                continue
            for average in self._plan.averages:
                computed: PooledValue | Sequence[PooledValue] = self._each[measure]
                if average == "micro":
                    computed = self._value(measure, self._together[self._kind(measure)])
                elif average in OVER_PAIRS:
                    if not over_pairs(measure):
                        continue
                    computed = self._over_pairs(measure, average)
                if average != "samples":
                    yield self._measure_value(measure, average, computed)
        yield from self._means_over_rows()

    def _apply_policy(
        self, measure: PooledMeasure, computed: PooledValue
    ) -> tuple[float, str | None]:
        """Apply the policy for undefined values; return value and reason."""
        if not computed.reason:
            return computed.value, None
        policy = policy_of(self._plan.row_plan.policies, measure, computed.reason)
        if policy == "error":
            raise UndefinedError(
                f"{measure} is undefined ({computed.reason}) for a class, a pair of classes or all "
                "of them, and undefined values are an error; choose undefined='skip', 'zero' or "
                "'one'."
            )
        return (computed.value, computed.reason) if policy == "skip" else (policy, None)

    def _overall(self, measure: PooledMeasure) -> PooledValue:
        if isinstance(measure, LogarithmicLoss):
            return self._of_problem(measure, "own")
        state = self.confusion or self._right[float(measure.threshold)]
        return overall_value(measure.name, state.exact())

    def _over_pairs(self, measure: PooledMeasure, average: str) -> list[PooledValue]:
        values = []
        for i, j in combinations(self._classes, 2):
            if average == "mu":
                values.append(self._of_problem(measure, "mu", i, j))
                continue
            left, right = (self._of_problem(measure, "ovo", *pair) for pair in ((i, j), (j, i)))
            values.append(PooledValue((left.value + right.value) / 2, left.reason or right.reason))
        return values

    def _measure_value(
        self, measure: PooledMeasure, average: str, computed: PooledValue | Sequence[PooledValue]
    ) -> MeasureValue:
        """Average the defined values; one is that of all classes together."""
        rows, positives = np.full_like(self.positives, self.rows), self.positives
        support, more = self._support, dict[str, Any]()
        if isinstance(computed, PooledValue):
            more = {"aggregate": "pooled", "details": dict(computed.details)}
            computed = [computed] * len(rows)
        elif average in OVER_PAIRS:
            pairs = np.array([*combinations(self._classes, 2)], np.int64).reshape(-1, 2).T
            rows = positives = positives[pairs].sum(axis=0)
            support = support[pairs[0]] + support[pairs[1]]
        applied = [self._apply_policy(measure, value) for value in computed]
        values = np.array([value for value, _ in applied])
        dropped = Counter(reason for _, reason in applied if reason)
        used, weights = ~np.isnan(values), np.ones(len(values))
        if average in ("weighted", "ovo_weighted"):
            weights = support
            dropped["zero_weight"] += int(np.count_nonzero(used & (weights == 0)))
            used &= weights > 0
        value = float(values[0]) if more else _mean(measure, average, values[used], weights[used])
        return MeasureValue(
            self._name,
            average,
            str(measure),
            value,
            len(values),
            int(np.count_nonzero(used)),
            {reason: dropped[reason] for reason in sorted(dropped) if dropped[reason]},
            _share(rows, used),
            _share(positives, used),
            warning="classes",
            name=measure.alias or "",
            **more,
        )

    def _means_over_rows(self) -> Iterator[MeasureValue]:
        plan = self._plan
        if not plan.by_row:
            return
        rows = {
            (row.measure, row.score): row
            for row in summary_rows(plan.row_plan, self._by_row.merge())
        }
        for text, measure in plan.by_row.items():
            row = rows[str(measure), "decided" if plan.decides(measure) else "score"]
            yield replace(row, score=self._name, slice="samples", measure=text)


def _mean(measure: Measure, average: str, values: np.ndarray, weights: np.ndarray) -> float:
    """Average values: sums are exact, and their quotient is rounded once."""
    with np.errstate(over="ignore"):
        products = values * weights
    if not np.isfinite(products).all():
        raise MeasureError(
            f"{measure}: the {average} mean exceeds the largest double; scale weights down, or "
            "choose another average."
        )
    total, weight = (sum(map(Fraction, numbers.tolist())) for numbers in (products, weights))
    return float(total / weight) if weight else math.nan


def _share(counts: np.ndarray, used: np.ndarray) -> float:
    return float(counts[used].sum() / counts.sum()) if counts.any() else math.nan
