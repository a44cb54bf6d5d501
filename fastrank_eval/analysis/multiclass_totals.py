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
from fastrank_eval.engine.program import policy_of
from fastrank_eval.engine.records import MeasureValue, summary_rows
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
from fastrank_eval.stats.means import MeanState
from fastrank_eval.stats.row_sums import RowSums
from fastrank_eval.stats.tally import add_groups

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
    rows, arrays = len(label), (frozen(label), weight, None, None, frozen(score), None)
    columns, starts = Columns(0, rows, (), arrays, models=1), np.array([0, rows])
    labels = find_labels(columns.label, starts, skip=False)
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
            policies=policies,
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


class ClassTotals:
    """Sums over all rows, and the values of classes.

    Threads may add at the same time. Each problem of two classes has its states: a class against
    the others, the rows of all classes
    together, two classes.

    Parameters
    ----------
    plan : ClassPlan
    name : str
        Name of the model in the values.
    """

    def __init__(self, plan: ClassPlan, name: str) -> None:
        self._plan, self._name, self._jobs = plan, name, partial(map_jobs, plan.threads)
        classes = range(len(plan.roles.classes))
        self._lock = threading.Lock()
        self.rows = 0
        self.positives = np.zeros(len(classes), np.int64)
        self._weights = RowSums(len(classes))
        measures: dict[tuple[Any, ...], Sequence[PooledMeasure]] = {
            ("class", k): plan.measures for k in classes
        }
        if "micro" in plan.averages:
            measures["micro",] = plan.measures
        ordered = [m for m in plan.measures if over_pairs(m)]
        if not {"ovo", "ovo_weighted"}.isdisjoint(plan.averages):
            measures |= {("ovo", *pair): ordered for pair in permutations(classes, 2)}
        if "mu" in plan.averages:
            measures |= {("mu", *pair): ordered for pair in combinations(classes, 2)}
        overall = [m for m in plan.measures if plan.overall(m)]
        measures["own",] = [m for m in overall if isinstance(m, LogarithmicLoss)]
        self._states = {problem: States(some, plan) for problem, some in measures.items()}
        self.confusion = ClassConfusion(len(classes), plan.weighted) if plan.argmax else None
        #: By threshold: counts of rows whose classes are all predicted right (second column).
        self._right = {
            float(m.threshold): ClassConfusion(2, plan.weighted)
            for m in overall
            if isinstance(m, Decision) and not plan.argmax
        }
        self._by_row = ThreadTotals(plan.row_plan)

    def add(self, batch: pa.RecordBatch, first_row: int) -> None:
        """Add the rows of a batch."""
        rows = self._plan.roles.rows_of(batch, first_row)
        with self._lock:
            self.rows += rows.rows
            self.positives += [len(members) for members in rows.members]
        if rows.weight is not None:
            for k, members in enumerate(rows.members):
                self._weights.add(k, rows.weight[members])
        for problem, label, score, weight in self._problems(rows):
            states, decided = self._states[problem], None
            scored = scored_rows(label, score, weight)
            if self._plan.argmax and problem[0] == "class":
                decided = scored_rows(label, rows.decided(problem[1]), weight)
            states.add(scored, decided)
            if problem[0] == "class" and ("micro",) in self._states:
                self._states["micro",].add(scored, decided)
        if self.confusion is not None and rows.codes is not None:
            self.confusion.add(rows.codes, rows.best, rows.weight)
        for threshold, state in self._right.items():
            right = np.ones(rows.rows, np.bool_)
            for label, score in zip(rows.labels, rows.scores, strict=True):
                right &= (score >= least_of(score.dtype, threshold)) == (label != 0)
            state.add(np.ones(rows.rows, np.int64), right.astype(np.int64), rows.weight)
        if self._plan.by_row and rows.rows:
            self._add_by_row(rows)

    def _problems(self, rows: ClassRows) -> Iterator[tuple[Any, ...]]:
        """Yield each problem of two classes with its labels, scores and weights."""
        for problem in self._states:
            kind, *classes = problem
            if kind == "class":
                yield problem, rows.labels[classes[0]], rows.scores[classes[0]], rows.weight
            elif kind == "own" and rows.codes is not None:
                # The score of the class of each row is the probability of a positive.
                own = np.empty_like(rows.scores[0])
                for members, score in zip(rows.members, rows.scores, strict=True):
                    own[members] = score[members]
                yield problem, np.ones(rows.rows, np.uint8), own, rows.weight
            elif classes:
                i, j = classes
                score = rows.scores[i] if kind == "ovo" else self._difference(rows, i, j)
                both = np.concatenate([rows.members[i], rows.members[j]])
                label = (np.arange(len(both)) < len(rows.members[i])).view(np.uint8)
                weight = None if rows.weight is None else frozen(rows.weight[both])
                yield problem, label, score[both], weight

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

    def _add_by_row(self, rows: ClassRows) -> None:
        """Add each row as a group of its classes."""
        class_count = len(rows.labels)
        label = frozen(np.stack(rows.labels, axis=1).ravel())
        scores = [frozen(np.stack(rows.scores, axis=1).ravel())]
        plan = self._plan.row_plan
        if self._plan.argmax:
            scores.append(
                frozen((np.arange(class_count) == rows.best[:, None]).astype(np.float32).ravel())
            )
        weights = () if rows.weight is None else (frozen(np.repeat(rows.weight, class_count)),)
        arrays = label, None, None, None, *scores, *[None] * len(scores), *weights
        columns = Columns(0, len(label), (), arrays, models=len(scores))
        starts = np.arange(0, len(label) + 1, class_count)

        def name(group: int) -> str:
            return f"row={rows.first_row + group}"

        evaluate_chunk(Chunk(columns, starts), plan, self._by_row.get(), name)

    def _value(self, measure: PooledMeasure, *problem: Any) -> PooledValue:
        return measure.pooled_value(self._states[problem][measure], self._jobs)

    @cached_property
    def _each(self) -> dict[PooledMeasure, list[PooledValue]]:
        """Values of the classes by measure."""
        classes = range(len(self.positives))
        return {m: [self._value(m, "class", k) for k in classes] for m in self._plan.measures}

    @cached_property
    def _support(self) -> np.ndarray:
        """The rows of each class, or their weight: float64, shape (classes,)."""
        if self._plan.weighted:
            return np.array([self._weights.total(k) for k in range(len(self.positives))])
        return self.positives.astype(np.float64)

    def of_classes(self, measure: PooledMeasure) -> np.ndarray:
        """Get the value of each class: float64, shape (classes,)."""
        return np.array([self._apply_policy(measure, value)[0] for value in self._each[measure]])

    def values(self) -> Iterator[MeasureValue]:
        """Yield the values of all classes at once, then the averages."""
        for measure in self._plan.measures:
            if self._plan.overall(measure):
                yield self._overall_value(measure)
                continue
            for average in self._plan.averages:
                if average == "micro":
                    yield self._pooled_value(measure, average, self._value(measure, "micro"))
                elif average in ("macro", "weighted"):
                    weights = self._support if average == "weighted" else None
                    rows, computed = np.full_like(self.positives, self.rows), self._each[measure]
                    yield self._mean(measure, average, computed, weights, rows, self.positives)
                elif average in OVER_PAIRS and over_pairs(measure):
                    yield self._mean_over_pairs(measure, average)
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

    def _pooled_value(
        self, measure: PooledMeasure, average: str, computed: PooledValue
    ) -> MeasureValue:
        """Build the value of all classes together."""
        value, reason = self._apply_policy(measure, computed)
        classes = len(self._plan.roles.classes)
        used, dropped = (0, {reason: classes}) if reason else (classes, {})
        rows, positives = self.rows, int(self.positives.sum())
        shares = _share(rows if used else 0, rows), _share(positives if used else 0, positives)
        return MeasureValue(
            *(self._name, average, str(measure), value, classes, used, dropped, *shares),
            aggregate="pooled",
            details=dict(computed.details),
            warning="classes",
            name=measure.alias or "",
        )

    def _overall_value(self, measure: PooledMeasure) -> MeasureValue:
        if isinstance(measure, LogarithmicLoss):
            return self._pooled_value(measure, "all", self._value(measure, "own"))
        state = self.confusion or self._right[float(measure.threshold)]
        return self._pooled_value(measure, "all", overall_value(measure.name, state.exact()))

    def _mean_over_pairs(self, measure: PooledMeasure, average: str) -> MeasureValue:
        pairs = list(combinations(range(len(self.positives)), 2))
        values = []
        for i, j in pairs:
            if average == "mu":
                values.append(self._value(measure, "mu", i, j))
                continue
            left, right = (self._value(measure, "ovo", *pair) for pair in ((i, j), (j, i)))
            values.append(PooledValue((left.value + right.value) / 2, left.reason or right.reason))
        rows, both = (
            np.array([of[i] + of[j] for i, j in pairs]) for of in (self.positives, self._support)
        )
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
        if not add_groups([state], 0, [values], [weights], rows, positives):
            raise MeasureError(
                f"{measure}: the {average} mean exceeds the largest double; scale weights down, or "
                "choose another average."
            )
        found = state.moments(0, weights is not None)
        used, used_rows, used_positives = found.coverage
        return MeasureValue(
            self._name,
            average,
            str(measure),
            found.value,
            len(computed),
            used,
            state.dropped(0),
            _share(used_rows, int(rows.sum())),
            _share(used_positives, int(positives.sum())),
            warning="classes",
            name=measure.alias or "",
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
            decides = plan.argmax and isinstance(measure, GroupDecision)
            row = rows[str(measure), "decided" if decides else "score"]
            yield replace(row, score=self._name, slice="samples", measure=text)


def _share(count: int, total: int) -> float:
    return count / total if total else float("nan")
