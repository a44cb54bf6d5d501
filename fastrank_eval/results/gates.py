"""Gates: whether a result is good enough to go on with, and the reasons where it is not."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Protocol

from fastrank_eval._lib.arguments import typed
from fastrank_eval._lib.errors import ArgumentError, near
from fastrank_eval.measures.parser import computed, measure
from fastrank_eval.results.gate_parser import (
    ALL,
    COMPARISON_FIELDS,
    Condition,
    Count,
    Number,
    Term,
    holds,
    leaves,
    parse,
    terms_of,
)

__all__ = ["Gate", "GateFailure", "Line", "Verdict", "gate", "judge"]


class Line(Protocol):
    """A record of a result; the fields of gates that it has are read as its attributes."""

    @property
    def score(self) -> str:
        """Score column, that is, the model; of a comparison, the candidate."""

    @property
    def slice(self) -> str:
        """Part of the rows; ``"all"`` for all of them."""

    @property
    def measure(self) -> str:
        """Canonical text."""


@dataclass(frozen=True)
class GateFailure:
    """Why a result does not pass a gate.

    Parameters
    ----------
    condition : str
        Canonical text of the gate.
    kind : str
        ``"holds"``: the condition is met. Otherwise it cannot be told: ``"unknown_score"``,
        ``"not_computed"`` (the measure), ``"unknown_slice"``, ``"no_groups"`` (none stands behind
        the number), ``"no_baseline"``, ``"undefined"``.
    score, slice : str or None
        Model and slice, where the condition is meant for each of them.
    detail : str
        The numbers, or what is missing.
    """

    condition: str
    kind: str
    score: str | None
    slice: str | None
    detail: str

    def __str__(self) -> str:
        place = ", ".join(part for part in (self.score, self.slice) if part is not None)
        return (
            f"{self.condition}: {place}: {self.detail}"
            if place
            else (f"{self.condition}: {self.detail}")
        )


@dataclass(frozen=True)
class Verdict:
    """What gates say of a result; true where it passes all of them.

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
    """A condition that a result must not meet; :func:`gate` reads one from its text.

    Parameters
    ----------
    condition : Condition
        The tree of the text.
    """

    condition: Condition

    def __str__(self) -> str:
        return str(self.condition)

    @typed
    def require(
        self,
        measures: Sequence[str],
        scores: Sequence[str],
        requested: Mapping[str, str] | None = None,
    ) -> None:
        """Refuse a gate on what an evaluation is not going to have.

        Parameters
        ----------
        measures : sequence of str
            Texts of the measures it will compute.
        scores : sequence of str
            Its score columns.
        asked : mapping of str to str, optional
            What measures were called that a profile gives other options.

        Raises
        ------
        ArgumentError
            If the gate names a measure or a score column that is not among them.
        """
        for term in _terms(self.condition):
            for kind, detail in _absent(term, measures, scores, requested or {}):
                option = "--score" if kind == "unknown_score" else "--measures"
                end = "" if detail.endswith("?") else "."
                raise ArgumentError(f'gate "{self}": {detail}{end} Add it to {option}.')


@typed
def gate(fail_if: str) -> Gate:
    """Read a gate: a condition on a result for which the result is not to pass.

    ``[score:]MEASURE[slice] FIELD OP NUMBER``, joined by ``and``, ``or``, ``not``, parentheses.
    Either side of ``= != < <= > >=`` may reckon: ``+ - * /``, ``abs(x)``, ``min(x, y)``,
    ``max(x, y)``, and ``rows``, ``groups`` that were read. Fields of a value: ``value`` (which may
    be left out), ``se``, ``ci_low``, ``ci_high``, ``effective_groups``, ``weight``, ``groups``,
    ``groups_used``, ``dropped_share``, ``rows_share``, ``positives_share``; of a comparison:
    ``delta``, ``delta_se``, ``delta_ci_low``, ``delta_ci_high``, ``relative``, ``p_value``,
    ``p_adjusted``, ``wins``, ``losses``, ``ties``, ``mdd``.

    Without a score column it is meant for each model (with a field of comparisons, each
    candidate), with ``[*]`` for each slice: a result fails if it holds for any. All terms without
    a score column are then of the same model, all ``[*]`` of the same slice. What cannot be told
    for want of a slice, a baseline, a group or a defined value fails too, whatever stands around
    it.

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
        The text does not follow the grammar, or a measure or field is unknown; tells where.

    Examples
    --------
    >>> print(gate("gauc<.6"))
    GAUC value < 0.6
    """
    if not isinstance(fail_if, str):
        raise ArgumentError(f"a gate is a text or a Gate, not {type(fail_if).__name__}.")
    return Gate(parse(fail_if))


def judge(
    gates: Iterable[str | Gate],
    lines: Iterable[Line],
    *,
    rows: int,
    groups: int,
    baseline: str | None = None,
    requested: Mapping[str, str] | None = None,
) -> Verdict:
    """Tell whether a result passes gates.

    Parameters
    ----------
    gates : iterable of str or Gate
        At least one.
    lines : iterable of Line
        Records of the result; of several with the same score, slice and measure, each field is
        read from the first that has it.
    rows, groups : int
        Read, and found.
    baseline : str, optional
        Score column that the others are compared with.
    asked : mapping of str to str, optional
        What measures were called that a profile gave other options.

    Returns
    -------
    Verdict

    Raises
    ------
    ArgumentError
        No gate is given, or one cannot be read.
    """
    read = [found if isinstance(found, Gate) else gate(found) for found in gates]
    if not read:
        raise ArgumentError("no gate is given: pass a condition such as 'GAUC < 0.6'.")
    record = _Record(lines, {"rows": rows, "groups": groups}, baseline, requested or {})
    failures = (failure for each in read for failure in record.failures(each))
    return Verdict(tuple(dict.fromkeys(failures)))


class _Unknown(Exception):
    """A number cannot be told: of what kind the failure is, and the reason."""

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(kind, detail)
        self.kind, self.detail = kind, detail


class _Record:
    """The lines of a result by what they speak of."""

    def __init__(
        self,
        lines: Iterable[Line],
        counts: Mapping[str, int],
        baseline: str | None,
        requested: Mapping[str, str],
    ) -> None:
        self._lines: dict[tuple[str, str, str], list[Line]] = {}
        for line in lines:
            self._lines.setdefault((line.score, line.slice, line.measure), []).append(line)
        self._scores, self._slices, self._measures = (
            list(dict.fromkeys(key[at] for key in self._lines)) for at in range(3)
        )
        self._counts, self._baseline, self._requested = counts, baseline, requested

    def failures(self, each: Gate) -> Iterator[GateFailure]:
        terms = _terms(each.condition)
        missing = [found for term in terms for found in self._missing(term)]
        if missing:
            for kind, detail in missing:
                yield GateFailure(str(each), kind, None, None, detail)
            return
        scores: list[str | None] = [None]
        if any(term.score is None for term in terms):
            compares = any(t.score is None and t.field in COMPARISON_FIELDS for t in terms)
            scores = [s for s in self._scores if not (compares and s == self._baseline)]
            if not scores:
                yield GateFailure(
                    str(each), "no_baseline", None, None, "there is no model but the baseline"
                )
        slices: list[str | None] = [None]
        if any(term.slice is None for term in terms):
            slices = [part for part in self._slices if part != ALL]
        for part, score in product(slices, scores):
            found = self._judged(each.condition, score, part)
            if found is not None:
                yield GateFailure(str(each), found[0], score, part, found[1])

    def _missing(self, term: Term) -> Iterator[tuple[str, str]]:
        """What no model and no slice has."""
        if not self._lines:
            yield "undefined", "the result has no values"
            return
        yield from _absent(term, self._measures, self._scores, self._requested)
        if term.slice is None and set(self._slices) <= {ALL}:
            yield "unknown_slice", "the result has no slices"
        elif term.slice is not None and term.slice not in self._slices:
            text = f"the result has no slice {term.slice!r}"
            yield "unknown_slice", _hinting(text, term.slice, self._slices)

    def _judged(
        self, condition: Condition, score: str | None, part: str | None
    ) -> tuple[str, str] | None:
        """Kind and detail of the failure of one model and slice, if it is one."""
        numbers: dict[Term | Count, float] = {}
        try:
            for term in terms_of(condition):
                if isinstance(term, Count):
                    numbers[term] = self._count(term)
                else:
                    model = score if term.score is None else term.score
                    piece = part if term.slice is None else term.slice
                    numbers[term] = self._number(term, str(model), str(piece))
            return ("holds", _shown(condition, numbers)) if holds(condition, numbers) else None
        except _Unknown as unknown:
            return unknown.kind, unknown.detail
        except ArithmeticError as undefined:
            return "undefined", str(undefined)

    def _count(self, count: Count) -> float:
        number = self._counts[count.of]
        if not number:
            raise _Unknown("no_groups", f"there are no {count.of}")
        return float(number)

    def _number(self, term: Term, score: str, part: str) -> float:
        text = str(computed(measure(term.measure), self._measures, self._requested))
        lines = self._lines.get((score, part, text))
        if lines is None:
            raise _Unknown("undefined", f"there is no {text} of {score!r} for {part!r}")
        of = text if part == ALL else f"{text}[{part}]"
        if any(getattr(line, "groups_used", None) == 0 for line in lines):
            raise _Unknown("no_groups", f"no group stands behind {of}{_why(lines)}")
        found = next(
            (n for n in (_field(line, term.field) for line in lines) if n is not None), None
        )
        if found is None and term.field in COMPARISON_FIELDS and self._baseline in (None, score):
            why = "there is no baseline" if self._baseline is None else "it is the baseline"
            raise _Unknown("no_baseline", f"{of} has no {term.field}: {why}")
        if found is None or not math.isfinite(found):
            raise _Unknown("undefined", f"{term.field} of {of} is undefined{_why(lines)}")
        return found


def _terms(condition: Condition) -> list[Term]:
    return [term for term in terms_of(condition) if isinstance(term, Term)]


def _absent(
    term: Term, measures: Sequence[str], scores: Sequence[str], requested: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """Measure and score column of a term, where a result has not got them."""
    if term.score is not None and term.score not in scores:
        text = f"score column {term.score!r} is none of {', '.join(map(repr, scores))}"
        yield "unknown_score", _hinting(text, term.score, scores)
    if computed(measure(term.measure), measures, requested) is None:
        text = f"{term.measure} is none of the measures {', '.join(measures)}"
        yield "not_computed", _hinting(text, term.measure, measures)


def _hinting(text: str, name: str, known: Sequence[str]) -> str:
    hint = near(name, known)
    return f"{text}.{hint}" if hint else text


def _field(line: Line, field: str) -> float | None:
    if field == "dropped_share":
        groups, used = getattr(line, "groups", None), getattr(line, "groups_used", None)
        return (groups - used) / groups if groups and used is not None else None
    found = getattr(line, field, None)
    return None if found is None else float(found)


def _why(lines: Iterable[Line]) -> str:
    """Reasons that lines tell: groups left out, why there is no standard error."""
    reasons: list[str] = []
    for line in lines:
        reasons += [f"{n} {why}" for why, n in (getattr(line, "dropped", None) or {}).items() if n]
        if getattr(line, "caution", None):
            reasons.append(str(getattr(line, "caution", "")))
    return f" ({', '.join(dict.fromkeys(reasons))})" if reasons else ""


def _shown(condition: Condition, numbers: Mapping[Term | Count, float]) -> str:
    """The numbers, with all digits where fewer would hide what differs."""
    compared = {n.value if isinstance(n, Number) else numbers[n] for n in leaves(condition)}
    rounded = {f"{number:.6g}" for number in compared}
    form = repr if len(rounded) < len(compared) else "{:.6g}".format
    if len(numbers) == 1:
        return form(next(iter(numbers.values())))
    return ", ".join(f"{term} {form(number)}" for term, number in numbers.items())
