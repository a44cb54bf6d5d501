"""Judge a result by gates: conditions that must not hold.

Parse conditions on a result.
"""

from __future__ import annotations

import dataclasses
import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import ClassVar, TypeAlias

from fastrank_eval._lib.arguments import typed
from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.errors import ArgumentError, MeasureError, near
from fastrank_eval._lib.lexer import (
    BARE,
    LEAF_RANK,
    NUMBER,
    Number,
    Operation,
    TokenReader,
    leaves,
    quoted,
    token_pattern,
)
from fastrank_eval.measures import Measure
from fastrank_eval.measures.base import registry
from fastrank_eval.measures.names import (
    COMPARISON_FIELDS,
    COUNTS,
    ERROR_FIELDS,
    FUNCTIONS,
    GATE_WORDS,
    KEYWORDS,
    PAIR_FIELDS,
    VALUE_FIELDS,
)
from fastrank_eval.measures.parser import find_computed, measure, names_measure, text_with_options

#: The label of all rows.
ALL = "all"
FIELDS = VALUE_FIELDS + COMPARISON_FIELDS
#: Fields that count groups.
GROUP_FIELDS = ("groups", "groups_used", "dropped_share")


@dataclass(frozen=True)
class Term:
    """A number of a result.

    Parameters
    ----------
    measure : str
        With the options of the text.
    name : str
        The measure as the text names it, if that is another tool's name; see `display_name`.
    field : str
        One of `FIELDS`.
    score : str or None
        None: every model.
    slice : str or None
        None: every slice.
    """

    measure: str
    field: str = "value"
    score: str | None = None
    slice: str | None = ALL
    name: str = dataclasses.field(default="", compare=False)

    @property
    def display_name(self) -> str:
        """The name of the measure in messages: the one that was asked for."""
        return self.name or self.measure

    def __str__(self) -> str:
        score = "" if self.score is None else f"{_quote_if_needed(self.score)}:"
        in_slice = "" if self.slice == ALL else _in_brackets(self.slice)
        return f"{score}{self.display_name}{in_slice} {self.field}"


@dataclass(frozen=True)
class Count:
    """A number of the whole result, as `of` names.

    ``rows`` and ``groups`` were read; ``confidence`` is that of the intervals.
    """

    of: str

    def __str__(self) -> str:
        return self.of


Node: TypeAlias = Number | Term | Count | Operation


class Worse(Operation):
    """The condition that a model is significantly worse, as one word."""

    @property
    def _rank(self) -> int:
        return LEAF_RANK

    @classmethod
    def of(cls, value: Term) -> Worse:
        """Write out the condition for the value of a measure."""
        sign = "<" if measure(value.measure).higher_is_better else ">"
        delta, p_adjusted = (
            dataclasses.replace(value, field=field) for field in ("delta", "p_adjusted")
        )
        alpha = Operation("-", (Number(1), Count("confidence")))
        return cls(
            "and",
            (Operation(sign, (delta, Number(0))), Operation("<=", (p_adjusted, alpha))),
        )

    def __str__(self) -> str:
        return f"worse({str(next(terms_of(self))).removesuffix(' delta')})"


def comparisons_of(node: Operation, written_out: bool = True) -> Iterator[Operation]:
    """Yield what ``and``, ``or`` and ``not`` join; `worse` may be one."""
    if node.operator in KEYWORDS and (written_out or not isinstance(node, Worse)):
        for part in node.parts:
            yield from comparisons_of(part, written_out)
    else:
        yield node


def of_score(node: Node, score: str) -> Node:
    """Write a score column before the terms that have none."""
    if isinstance(node, Operation):
        parts = tuple(of_score(part, score) for part in node.parts)
        return dataclasses.replace(node, parts=parts)
    if isinstance(node, Term) and node.score is None:
        return dataclasses.replace(node, score=score)
    return node


def terms_of(node: Node) -> Iterator[Term | Count]:
    """Yield the terms and counts of an expression, from left to right."""
    return (leaf for leaf in leaves(node) if not isinstance(leaf, Number))


_COMPUTE: dict[str, Callable[..., float]] = {
    "or": lambda *parts: any(parts),
    "and": lambda *parts: all(parts),
    "not": operator.not_,
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "+": operator.add,
    "-": lambda *parts: operator.sub(*parts) if len(parts) > 1 else -parts[0],
    "*": operator.mul,
    "/": lambda left, right: left / right if right else math.nan,
    "abs": abs,
    "min": lambda *parts: min(parts),
    "max": lambda *parts: max(parts),
}


def holds(node: Node, numbers: Mapping[Term | Count, float]) -> float:
    """Evaluate a condition, or a part of it.

    Parameters
    ----------
    node : Node
    numbers : mapping of Term or Count to float
        A finite number for each of `terms_of`.

    Raises
    ------
    ArithmeticError
        An intermediate result is not finite, even if another part decides the condition.
    """
    if isinstance(node, Number):
        return node.value
    if not isinstance(node, Operation):
        return numbers[node]
    # Evaluate all parts: a part that raises must not hide behind a part that decides.
    result = _COMPUTE[node.operator](*[holds(part, numbers) for part in node.parts])
    if not math.isfinite(result):
        raise ArithmeticError(f"{node} is not a finite number")
    return result


def _quote_if_needed(score: str) -> str:
    bare = BARE.fullmatch(score) and score.lower() not in KEYWORDS
    return score if bare else quoted(score)


def _in_brackets(label: str | None) -> str:
    if label is None:
        return "[*]"
    bare = label.strip() == label and label not in ("", "*") and not {"]", '"'} & {*label}
    return f"[{label}]" if bare else f"[{quoted(label)}]"


#: Forms of names of measures, the longest first: alpha-nDCG, iprec_at_recall_0.10, GAUC.
_NAMES = tuple(re.compile(name) for name in (r"\w+-\w+", r"\w+\.[0-9]+", r"\w+"))
_OPTIONS = re.compile(
    rf"""(?:\s*\((?:[^()'"]|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")*\))?(?:\s*@\s*{NUMBER})?"""
)


def parse(text: str) -> Operation:
    """Parse the condition of a gate.

    Parameters
    ----------
    text : str

    Returns
    -------
    Operation
        `str` of it parses to the same tree.

    Raises
    ------
    ArgumentError
        The text does not follow the grammar. With the position, and what was expected there.

    Examples
    --------
    >>> str(parse("gauc<.6 and pctr:ndcg_cut_10[slot=1] se > 1e-3"))
    'GAUC value < 0.6 and pctr:ndcg_cut_10[slot=1] se > 0.001'
    >>> parse("GAUC vaule < 0.6")
    Traceback (most recent call last):
    fastrank_eval.ArgumentError: gate "GAUC vaule < 0.6": expected a field or a comparison \
at character 6, found vaule. Did you mean 'value'?
    """
    return _Parser(text).parse()


class _Parser(TokenReader):
    """A parser of conditions on numbers of a result."""

    name = "gate"
    pattern = token_pattern(
        "==|!=|<>|<=|>=|[=<>(),:+*/-]", r'(?P<slice>\[\s*"(?:[^"]|"")*"\s*\]|\[[^\]]*\])'
    )
    expected = "a measure, a number or an operator"
    keywords = KEYWORDS
    closing_signs: ClassVar = {"[": "]", '"': '"'}
    max_depth = 30
    closing = "')', 'and', 'or' or a comparison"

    def parse(self) -> Operation:
        condition: Operation = self._condition(self._either())
        self._end()
        if next(terms_of(condition), None) is None:
            self._refuse(
                "nothing in it is of a result.", "Name a measure, rows or groups: GAUC < 0.6."
            )
        return condition

    def _token_at(self, position: int) -> tuple[str, int] | None:
        token = super()._token_at(position)
        if token is None or token[0] == "word":
            for pattern in _NAMES:
                name = pattern.match(self._text, position)
                # Unknown names are looked up in packages: only those at the place of a measure.
                if not name or name.group().lower() in GATE_WORDS or self._is_score(name.end()):
                    continue
                if names_measure(name.group()):
                    options = _OPTIONS.match(self._text, name.end())
                    return "measure", options.end() if options else name.end()
        return token

    def _is_score(self, end: int) -> bool:
        return self._text[end:].lstrip().startswith(":")

    def _atom(self) -> Node:
        token = self._next
        if self._second.text == ":":
            return self._term(self._score())
        word = token.text.lower() if token.kind == "word" else ""
        if word in FUNCTIONS:
            return self._function(word)
        if word in COUNTS:
            self._position += 1
            return Count(word)
        return self._term(None)

    def _function(self, name: str) -> Node:
        start = self._next.position
        self._position += 1
        self._require("(", f"'(' after {name}")
        self._enter()
        if name == "worse":
            return self._worse(start)
        parts = [self._quantity_of(self._sum)]
        while name != "abs" and self._skip(","):
            parts.append(self._quantity_of(self._sum))
        self._require(")", "')'" if name == "abs" else "',' or ')'")
        self._depth -= 1
        return Operation(name, tuple(parts))

    def _worse(self, start: int) -> Node:
        score = self._score() if self._second.text == ":" else None
        value = self._measure(score)
        self._require(")", "')' after the measure", "worse() takes no field: worse(GAUC[*]).")
        self._depth -= 1
        if not measure(value.measure).has_direction:
            self._refuse(
                f"at character {start + 1}: neither a higher nor a lower {value.display_name} is "
                "worse;",
                "compare its value, or its delta.",
                start,
            )
        return Worse.of(value)

    def _score(self) -> str:
        name = self._next.column_name
        if not name:
            self._fail("a score column before the colon", "Odd names stand in double quotes.")
        self._position += 2
        return name

    def _term(self, score: str | None) -> Term:
        term = self._measure(score)
        return dataclasses.replace(term, field=self._field())

    def _measure(self, score: str | None) -> Term:
        """Read a term without its field."""
        token = self._next
        if token.kind == "quoted" and score is None:
            self._position += 1
            self._fail("':' and a measure after the score column")
        if token.kind != "measure":
            words = () if score is not None else (*COUNTS, *FUNCTIONS)
            others = f", a number, {', '.join(words)}, not or '('" if words else ""
            hint = near(token.text, [*registry, *words]) if token.kind == "word" else ""
            if score is not None and token.text.lower() == "worse":
                hint = "The score column stands in the parentheses: worse(score:GAUC)."
            self._fail(f"a measure{others}", hint.strip())
        try:
            parsed = measure(token.text)
        except MeasureError as error:
            self._refuse(f"at character {token.position + 1}: {error}", "", token.position)
        self._position += 1
        label = self._slice() if self._next.kind == "slice" else ALL
        word, _, _ = re.split("([(@])", token.text, maxsplit=1)[0].partition(" ")
        name = "" if word.lower() == parsed.name.lower() else " ".join(token.text.split())
        return Term(text_with_options(parsed), "value", score, label, name)

    def _slice(self) -> str | None:
        label = self._next.text[1:-1].strip()
        if not label:
            self._fail("a slice such as [slot=1], or [*] for every slice")
        self._position += 1
        if label == "*":
            return None
        if len(label) > 1 and label[0] == label[-1] == '"':
            label = label[1:-1].replace('""', '"')
        return label

    def _field(self) -> str:
        token = self._next
        if token.kind not in ("word", "measure") or token.keyword:
            return "value"
        field = token.text.lower()
        if field not in FIELDS:
            hint = near(token.text, FIELDS).strip()
            self._fail("a field or a comparison", hint or f"Fields are {', '.join(FIELDS)}.")
        self._position += 1
        return field


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
            if term.field in PAIR_FIELDS and computed is not None and computed.pooled:
                raise ArgumentError(
                    f'gate "{self}": must be of numbers that the measure has, got {term.field} of '
                    f"{computed}, a measure of all rows, which has no value of a group; compare "
                    "its value or delta, or use a measure of groups."
                )
            if computed is None or computed.has_error or str(computed) in with_errors:
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
