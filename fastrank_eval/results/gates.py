"""Judge a result by gates: conditions that must not hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from fastrank_eval._lib.arguments import typed
from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.errors import ArgumentError, MeasureError, near
from fastrank_eval._lib.lexer import Operation
from fastrank_eval.measures import Measure
from fastrank_eval.measures.names import ERROR_FIELDS, PAIR_FIELDS
from fastrank_eval.measures.parser import find_computed, measure
from fastrank_eval.results.gate_parser import (
    GROUP_FIELDS,
    Count,
    Term,
    comparisons_of,
    of_score,
    parse,
    terms_of,
)


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
        (the number rests on no group), ``"no_baseline"``, ``"undefined"``. ``"not_judged"`` stands
        in `Verdict.not_judged` only.
    score, slice : str or None
        Model and slice, if the condition is judged for each of them.
    detail : str
        The numbers, or the missing part.
    label : str or None
        The label column, where results of several labels are judged.
    p_adjusted : float or None
        The first corrected p-value of a condition that holds, if it reads one.
    """

    condition: str
    kind: str
    score: str | None
    slice: str | None
    detail: str
    label: str | None = None
    p_adjusted: float | None = None

    def __str__(self) -> str:
        parts = (self.label, self.score, self.slice)
        names = ", ".join(name for name in parts if name is not None)
        return ": ".join(filter(None, [self.condition, names, self.detail]))


@dataclass(frozen=True)
class Verdict:
    """The verdict of gates on a result; true if it passes all of them.

    Parameters
    ----------
    failures : tuple of GateFailure
        By gate, then slice, then model.
    not_judged : tuple of GateFailure
        One for each condition with ``[*]`` that left out slices without its numbers. Its detail
        names them and their reasons. They fail nothing.

    Examples
    --------
    >>> verdict = Verdict((GateFailure("GAUC value < 0.6", "holds", "pctr", None, "0.5931"),))
    >>> bool(verdict)
    False
    >>> print(verdict)
    gate failed: GAUC value < 0.6: pctr: 0.5931
    """

    failures: tuple[GateFailure, ...]
    not_judged: tuple[GateFailure, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether nothing failed."""
        return not self.failures

    def __bool__(self) -> bool:
        return self.passed

    def __str__(self) -> str:
        return "\n".join(self.lines()) or "gate passed"

    def lines(self) -> list[str]:
        """List the failures, and the slices that a gate left out.

        Returns
        -------
        list of str
            A line for each failure. The first line of a gate ends with the slices left out; a gate
            that passed has a line for them.
        """
        left_out = {(one.condition, one.label): one for one in self.not_judged}
        lines = []
        for failure in self.failures:
            one = left_out.pop((failure.condition, failure.label), None)
            end = "" if one is None else f"; {one.detail}"
            lines.append(f"gate failed: {failure}{end}")
        return [*lines, *(f"gate passed: {one}" for one in left_out.values())]


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
            for kind, detail in absent(term, names, scores, requested or {}):
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

    ``worse(GAUC)`` is short for ``GAUC delta < 0 and GAUC p_adjusted <= 1 - confidence``, or
    ``delta > 0`` where lower values are better. ``confidence`` is that of the intervals.
    ``p_adjusted`` is corrected over the terms of the gate: its measure, its slicing (all rows,
    or the slices that the gate names), its candidates.

    A term without a score column stands for each model (with a field of comparisons, for each
    candidate), a term with ``[*]`` for each slice. The result fails if the condition holds for any
    of them. All terms without a score column take the same model, all terms with ``[*]`` the same
    slice. A gate also fails if a slice, a baseline, a group or a defined value is missing in any
    of its terms. With ``[*]``, a slice without one of these numbers is left out and listed; the
    gate fails if no slice is left.

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
        The text does not follow the grammar, or a measure or field is unknown, with the position;
        or only some of its comparisons name a model.

    Examples
    --------
    >>> print(gate("gauc<.6"))
    GAUC value < 0.6
    """
    condition = parse(fail_if)
    _require_models(condition)
    return Gate(condition)


def _require_models(condition: Operation) -> None:
    """Refuse a condition that names a model in some comparisons only."""
    of_models: dict[bool, Operation] = {}
    for each in comparisons_of(condition, written_out=False):
        scores = [term.score for term in terms_of(each) if isinstance(term, Term)]
        if scores:
            of_models.setdefault(None not in scores, each)
    if len(of_models) == 2:
        named, open_one = of_models[True], of_models[False]
        score = next(str(t.score) for t in terms_of(named) if isinstance(t, Term))
        raise ArgumentError(
            f'gate "{condition}": must name a model in all of its comparisons or in none, got '
            f"{named} beside {open_one}, which is of every model; write "
            f"{of_score(open_one, score)}, or two gates."
        )


def absent(
    term: Term, names: Mapping[str, str], scores: Sequence[str], requested: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """Yield kind and detail of a missing measure or score column.

    `names` are those of the measures in messages, by text.
    """
    if term.score is not None and term.score not in scores:
        text = f"score column {term.score!r} is none of {', '.join(map(repr, scores))}"
        yield "unknown_score", with_hint(text, term.score, scores)
    if find_computed(measure(term.measure), names, requested) is None:
        # A profile may have computed another measure under the name of the term.
        shown = list(names if term.display_name in names.values() else names.values())
        text = f"{term.display_name} is none of the measures {', '.join(shown)}"
        yield "not_computed", with_hint(text, term.display_name, shown)


def _remedy(without_error: Measure, option: str) -> str:
    """Say what a gate on a measure without standard error can be."""
    try:
        clustered = without_error(se="clustered")
    except MeasureError:
        return "compare its value."
    return f"compare its value, or write {clustered} in {option}."


def with_hint(text: str, name: str, names: Sequence[str]) -> str:
    """Add the nearest of some names to a text."""
    hint = near(name, names)
    return f"{text}.{hint}" if hint else text
