"""Judge a result by gates: conditions that must not hold."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from operator import attrgetter
from typing import Protocol

from fastrank_eval._lib.arguments import typed
from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.errors import ArgumentError, MeasureError, near
from fastrank_eval._lib.lexer import Number, Operation, leaves
from fastrank_eval.measures import Measure
from fastrank_eval.measures.names import COMPARISON_FIELDS, ERROR_FIELDS, PAIR_FIELDS
from fastrank_eval.measures.parser import find_computed, measure
from fastrank_eval.results.format import detail_text
from fastrank_eval.results.gate_parser import (
    ALL,
    GROUP_FIELDS,
    Count,
    Term,
    holds,
    parse,
    terms_of,
)


class GateRow(Protocol):
    """A row of a result. Gates read their fields from its attributes."""

    @property
    def score(self) -> str:
        """Score column: the model, in a comparison the candidate."""

    @property
    def slice(self) -> str:
        """Label of the slice; ``"all"`` for all rows."""

    @property
    def measure(self) -> str:
        """Canonical text of the measure."""


class DifferenceFields:
    """The names of the fields of a difference in gates."""

    delta_se = property(attrgetter("se"))
    delta_ci_low = property(attrgetter("ci_low"))
    delta_ci_high = property(attrgetter("ci_high"))


@dataclass(frozen=True)
class GateFailure:
    """The reason why a result does not pass a gate.

    Parameters
    ----------
    condition : str
        Text of the gate, with measures as it names them.
    kind : str
        ``"holds"``: the condition holds. With any other kind it cannot be judged:
        ``"unknown_score"``, ``"not_computed"`` (the measure), ``"unknown_slice"``, ``"no_groups"``
        (the number rests on no group), ``"no_baseline"``, ``"undefined"``.
    score, slice : str or None
        Model and slice, if the condition is judged for each of them.
    detail : str
        The numbers, or the missing part.
    label : str or None
        The label column, where results of several labels are judged.
    """

    condition: str
    kind: str
    score: str | None
    slice: str | None
    detail: str
    label: str | None = None

    def __str__(self) -> str:
        parts = (self.label, self.score, self.slice)
        names = ", ".join(name for name in parts if name is not None)
        return (
            f"{self.condition}: {names}: {self.detail}"
            if names
            else (f"{self.condition}: {self.detail}")
        )


@dataclass(frozen=True)
class Verdict:
    """The verdict of gates on a result; true if it passes all of them.

    Parameters
    ----------
    failures : tuple of GateFailure
        By gate, then slice, then model.

    Examples
    --------
    >>> verdict = Verdict((GateFailure("GAUC value < 0.6", "holds", "pctr", None, "0.5931"),))
    >>> bool(verdict)
    False
    >>> print(verdict)
    gate failed: GAUC value < 0.6: pctr: 0.5931
    """

    failures: tuple[GateFailure, ...]

    @property
    def passed(self) -> bool:
        """Whether nothing failed."""
        return not self.failures

    def __bool__(self) -> bool:
        return self.passed

    def __str__(self) -> str:
        return "\n".join(f"gate failed: {failure}" for failure in self.failures) or "gate passed"


@dataclass(frozen=True)
class Gate:
    """A condition that must not hold; :func:`gate` parses its text.

    Parameters
    ----------
    condition : Operation
        The syntax tree.
    """

    condition: Operation

    def __str__(self) -> str:
        return str(self.condition)

    @property
    def terms(self) -> list[Term]:
        """The numbers of a result that the condition reads, without counts."""
        return [term for term in terms_of(self.condition) if isinstance(term, Term)]

    @property
    def counts_groups(self) -> bool:
        """Whether the condition reads a number of groups."""
        return any(
            leaf.of == "groups" if isinstance(leaf, Count) else leaf.field in GROUP_FIELDS
            for leaf in terms_of(self.condition)
        )

    @typed
    def require(
        self,
        names: Mapping[str, str],
        scores: Sequence[str],
        requested: Mapping[str, str] | None = None,
        *,
        options: tuple[str, str] = ("--measures", "--score"),
        with_errors: Sequence[str] = (),
    ) -> None:
        """Refuse a gate on measures, scores or errors that an evaluation lacks.

        Parameters
        ----------
        names : mapping of str to str
            By text of each measure of the evaluation the name that reports show.
        scores : sequence of str
            Its score columns.
        requested : mapping of str to str, optional
            By requested name the computed measure, where a profile sets other options.
        options : tuple of str
            The options that name measures and score columns, for the message.
        with_errors : sequence of str
            Texts of measures that have a standard error although their options do not say so.

        Raises
        ------
        ArgumentError
            If the gate names a measure or a score column that is not among them, a field of the
            standard error of a measure without one, or wins, losses or ties of a measure of all
            rows.
        """
        for term in self.terms:
            for kind, detail in _absent(term, names, scores, requested or {}):
                option = options[kind == "unknown_score"]
                end = "" if detail.endswith("?") else "."
                raise ArgumentError(f'gate "{self}": {detail}{end} Add it to {option}.')
            computed = find_computed(measure(term.measure), names, requested or {})
            if computed is None:
                continue
            if term.field in PAIR_FIELDS and computed.pooled:
                raise ArgumentError(
                    f'gate "{self}": must be of numbers that the measure has, got {term.field} of '
                    f"{computed}, a measure of all rows, which has no value of a group; compare "
                    "its value or delta, or use a measure of groups."
                )
            if computed.has_error or str(computed) in with_errors:
                continue
            if term.field in ERROR_FIELDS:
                raise ArgumentError(
                    f'gate "{self}": must be of numbers that the measure has, got {term.field} of '
                    f"{computed}, which has no standard error; {_remedy(computed, options[0])}"
                )


@typed
def gate(fail_if: str) -> Gate:
    """Parse a gate: a condition that fails a result if it holds.

    ``[score:]MEASURE[slice] FIELD OP NUMBER``, joined by ``and``, ``or``, ``not``, parentheses.
    Both sides of ``= != < <= > >=`` may contain ``+ - * /``, ``abs(x)``, ``min(x, y)``,
    ``max(x, y)``, and the numbers ``rows`` and ``groups`` that were read. Fields of a value:
    ``value`` (the default), ``se``, ``ci_low``, ``ci_high``, ``effective_groups``, ``weight``,
    ``groups``, ``groups_used``, ``dropped_share``, ``rows_share``, ``positives_share``. Fields of
    a comparison: ``delta``, ``delta_se``, ``delta_ci_low``, ``delta_ci_high``, ``relative``,
    ``p_value``, ``p_adjusted``, ``wins``, ``losses``, ``ties``, ``mdd``.

    A term without a score column stands for each model (with a field of comparisons, for each
    candidate), a term with ``[*]`` for each slice. The result fails if the condition holds for any
    of them. All terms without a score column take the same model, all terms with ``[*]`` the same
    slice. A gate also fails if a slice, a baseline, a group or a defined value is missing in any
    of its terms.

    Parameters
    ----------
    fail_if : str
        ``"GAUC < 0.6"``, ``"GAUC[slot=1] ci_low < 0.55 or AUC dropped_share > 0.1"``,
        ``"new:GAUC < old:GAUC - 0.001"``.

    Returns
    -------
    Gate

    Raises
    ------
    ArgumentError
        The text does not follow the grammar, or a measure or field is unknown. With the position.

    Examples
    --------
    >>> print(gate("gauc<.6"))
    GAUC value < 0.6
    """
    return Gate(parse(fail_if))


def judge(
    gates: Iterable[str | Gate],
    values: Iterable[GateRow],
    *,
    rows: int,
    groups: int,
    baseline: str | None = None,
    requested: Mapping[str, str] | None = None,
) -> Verdict:
    """Judge a result by gates.

    Parameters
    ----------
    gates : iterable of str or Gate
        At least one.
    values : iterable of GateRow
        Rows of the result. If several have the same score, slice and measure, each field is read
        from the first row that has it.
    rows, groups : int
        Numbers of rows and groups that were read.
    baseline : str, optional
        Score column that the others are compared with.
    requested : mapping of str to str, optional
        By requested name the computed measure, where a profile sets other options.

    Returns
    -------
    Verdict

    Raises
    ------
    ArgumentError
        No gate is given, or one cannot be parsed.
    """
    parsed = [one if isinstance(one, Gate) else gate(one) for one in gates]
    if not parsed:
        raise ArgumentError("no gate is given: pass a condition such as 'GAUC < 0.6'.")
    table = _Table(values, {"rows": rows, "groups": groups}, baseline, requested or {})
    failures = (failure for each in parsed for failure in table.failures(each))
    return Verdict(tuple(dict.fromkeys(failures)))


class _Unknown(Exception):
    """A number is missing or undefined: kind and detail of the failure."""

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(kind, detail)
        self.kind, self.detail = kind, detail


class _Table:
    """The rows of a result by score column, slice and measure."""

    def __init__(
        self,
        values: Iterable[GateRow],
        counts: Mapping[str, int],
        baseline: str | None,
        requested: Mapping[str, str],
    ) -> None:
        self._rows: dict[tuple[str, str, str], list[GateRow]] = {}
        self._names: dict[str, str] = {}
        for row in values:
            self._rows.setdefault((row.score, row.slice, row.measure), []).append(row)
            self._names.setdefault(row.measure, getattr(row, "shown", row.measure))
        self._scores, self._slices = (
            list(dict.fromkeys(key[i] for key in self._rows)) for i in range(2)
        )
        self._counts, self._baseline, self._requested = counts, baseline, requested

    def failures(self, each: Gate) -> Iterator[GateFailure]:
        missing = [failure for term in each.terms for failure in self._missing(term)]
        if missing:
            for kind, detail in missing:
                yield GateFailure(str(each), kind, None, None, detail)
            return
        scores: list[str | None] = [None]
        if any(term.score is None for term in each.terms):
            compares = any(t.score is None and t.field in COMPARISON_FIELDS for t in each.terms)
            scores = [s for s in self._scores if not (compares and s == self._baseline)]
            if not scores:
                yield GateFailure(
                    str(each), "no_baseline", None, None, "there is no model but the baseline"
                )
        slices: list[str | None] = [None]
        if any(term.slice is None for term in each.terms):
            slices = [label for label in self._slices if label != ALL]
        for label, score in product(slices, scores):
            failure = self._judge(each.condition, score, label)
            if failure is not None:
                yield GateFailure(str(each), failure[0], score, label, failure[1])

    def _missing(self, term: Term) -> Iterator[tuple[str, str]]:
        """Yield kind and detail of parts that are missing in all rows."""
        if not self._rows:
            yield "undefined", "the result has no values"
            return
        yield from _absent(term, self._names, self._scores, self._requested)
        if term.slice is None and set(self._slices) <= {ALL}:
            yield "unknown_slice", "the result has no slices"
        elif term.slice is not None and term.slice not in self._slices:
            text = f"the result has no slice {term.slice!r}"
            values = [name for name in self._slices if name.endswith(f"={term.slice}")]
            hint = f"{text}. Did you mean {values[0]!r}?" if values else ""
            yield "unknown_slice", hint or _with_hint(text, term.slice, self._slices)

    def _judge(
        self, condition: Operation, score: str | None, label: str | None
    ) -> tuple[str, str] | None:
        """Return kind and detail of the failure for a model and a slice."""
        numbers: dict[Term | Count, float] = {}
        try:
            for term in terms_of(condition):
                if isinstance(term, Count):
                    numbers[term] = self._count(term)
                else:
                    model = score if term.score is None else term.score
                    in_slice = label if term.slice is None else term.slice
                    numbers[term] = self._number(term, str(model), str(in_slice))
            return ("holds", _format(condition, numbers)) if holds(condition, numbers) else None
        except _Unknown as unknown:
            return unknown.kind, unknown.detail
        except ArithmeticError as undefined:
            return "undefined", str(undefined)

    def _count(self, count: Count) -> float:
        number = self._counts[count.of]
        if count.of == "groups":
            self._require_groups()
        if not number:
            raise _Unknown("no_groups", f"there are no {count.of}")
        return float(number)

    def _number(self, term: Term, score: str, label: str) -> float:
        text = str(find_computed(measure(term.measure), self._names, self._requested))
        name = term.name or text
        rows = self._rows.get((score, label, text))
        if rows is None:
            raise _Unknown("undefined", f"there is no {name} of {score!r} for {label!r}")
        title = name if label == ALL else f"{name}[{label}]"
        if term.field in GROUP_FIELDS:
            self._require_groups()
        ungrouped = self._counts["rows"] and not self._counts["groups"]
        if not ungrouped and any(_lacks_groups(row) for row in rows):
            raise _Unknown("no_groups", f"no group stands behind {title}{_reasons(rows)}")
        number = next((n for n in (_field(row, term.field) for row in rows) if n is not None), None)
        if number is None and term.field in COMPARISON_FIELDS and self._baseline in (None, score):
            reason = "there is no baseline" if self._baseline is None else "it is the baseline"
            raise _Unknown("no_baseline", f"{title} has no {term.field}: {reason}")
        if number is None or not math.isfinite(number):
            raise _Unknown("undefined", f"{term.field} of {title} is undefined{_reasons(rows)}")
        return number

    def _require_groups(self) -> None:
        if self._counts["rows"] and not self._counts["groups"]:
            raise _Unknown(
                "no_groups",
                "rows were not grouped, because no measure needs groups: evaluate with group=... "
                "and per_group=True",
            )


def _lacks_groups(row: object) -> bool:
    """Tell whether a value needs groups and has none."""
    ungrouped = getattr(row, "groups", None) == 0 and math.isfinite(getattr(row, "value", math.nan))
    return getattr(row, "groups_used", None) == 0 and not ungrouped


def _absent(
    term: Term, names: Mapping[str, str], scores: Sequence[str], requested: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """Yield kind and detail of a missing measure or score column.

    `names` are those of the measures in messages, by text.
    """
    if term.score is not None and term.score not in scores:
        text = f"score column {term.score!r} is none of {', '.join(map(repr, scores))}"
        yield "unknown_score", _with_hint(text, term.score, scores)
    if find_computed(measure(term.measure), names, requested) is None:
        # A profile may have computed another measure under the name of the term.
        shown = list(names if term.shown in names.values() else names.values())
        text = f"{term.shown} is none of the measures {', '.join(shown)}"
        yield "not_computed", _with_hint(text, term.shown, shown)


def _remedy(without_error: Measure, option: str) -> str:
    """Say what a gate on a measure without standard error can be."""
    try:
        clustered = without_error(se="clustered")
    except MeasureError:
        return "compare its value."
    return f"compare its value, or write {clustered} in {option}."


def _with_hint(text: str, name: str, names: Sequence[str]) -> str:
    hint = near(name, names)
    return f"{text}.{hint}" if hint else text


def _field(row: GateRow, field: str) -> float | None:
    if field == "dropped_share":
        groups, used = getattr(row, "groups", None), getattr(row, "groups_used", None)
        return (groups - used) / groups if groups and used is not None else None
    number = getattr(row, field, None)
    return None if number is None else float(number)


def _reasons(rows: Iterable[GateRow]) -> str:
    """List why groups of rows are left out, and their cautions."""
    reasons: list[str] = []
    for row in rows:
        dropped = getattr(row, "dropped", None) or {}
        reasons += [f"{count} {reason}" for reason, count in dropped.items() if count]
        caution = getattr(row, "caution", None)
        if caution:
            reasons.append("has no standard error" if caution == "pooled" else str(caution))
    return f" ({', '.join(dict.fromkeys(reasons))})" if reasons else ""


def _format(condition: Operation, numbers: Mapping[Term | Count, float]) -> str:
    """Format numbers, with all digits if fewer would make them equal."""
    compared = {n.value if isinstance(n, Number) else numbers[n] for n in leaves(condition)}
    rounded = set(map(detail_text, compared))
    to_text = repr if len(rounded) < len(compared) else detail_text
    if len(numbers) == 1:
        return to_text(next(iter(numbers.values())))
    return ", ".join(f"{term} {to_text(number)}" for term, number in numbers.items())
