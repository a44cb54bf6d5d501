"""Lay out a comparison as tables: all rows, slices, groups."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import pyarrow as pa

from fastrank_eval.analysis.attribution import Decomposition, mover_rows
from fastrank_eval.analysis.compared_value import (
    ComparedValue,
    difference_interval,
    difference_text,
    digits_of,
    is_tested,
)
from fastrank_eval.engine.records import MeasureValue, Meta
from fastrank_eval.measures import measure as measure_of
from fastrank_eval.results.format import (
    amount,
    half_width_text,
    measure_text,
    number_text,
    p_text,
    percent_text,
    printable,
)
from fastrank_eval.results.report import Best, Lines, Name, Table
from fastrank_eval.results.slice_tables import (
    AT_LEAST,
    FEW,
    FEW_NOTE,
    best_models,
    left_out_notes,
    slice_table,
)

_MAX_NAMED = 3  # slices in a verdict


class ComparedModels(ABC):
    """What tables read of a comparison."""

    values: tuple[ComparedValue, ...]
    meta: Meta
    baseline: str
    scores: tuple[str, ...]
    measures: tuple[str, ...]
    joined: dict[str, int] | None
    evaluated: tuple[MeasureValue, ...]

    @property
    @abstractmethod
    def decompositions(self) -> dict[tuple[str, str, str], Decomposition]:
        """Decompositions by candidate, measure and slicing."""

    @abstractmethod
    def mover_tables(self, top: int) -> dict[tuple[str, str], pa.Table]:
        """List the groups with the largest changes, by candidate and measure."""

    @abstractmethod
    def _changed_slices(self, text: str, score: str | None, top: int) -> list[ComparedValue]:
        """Find the slices with the largest changes of a measure."""

    @property
    def overall(self) -> list[ComparedValue]:
        """The values of all rows."""
        return [v for v in self.values if v.by is None]

    @property
    def confidence(self) -> float:
        """The confidence of the intervals."""
        confidence = self.meta.conventions.get("confidence")
        return confidence if isinstance(confidence, float) else 0.95


def word(value: ComparedValue) -> str:
    """Find the first words of a verdict, without the candidate."""
    return value.verdict.removeprefix(f"{value.score} is ").partition(":")[0]


#: Columns to leave out, and whether intervals are next to differences or under them.
_LAYOUTS: tuple[tuple[tuple[str, ...], bool], ...] = (
    ((), True),
    (("mdd",), True),
    (("mdd", "relative"), True),
    (("mdd", "relative", "p"), True),
    (("mdd", "relative", "p"), False),
    (("mdd", "relative", "p", "wins", "ties", "losses"), False),
)


def overall_tables(comparison: ComparedModels, scores: Sequence[str]) -> Iterator[Table]:
    """Lay out the differences of all rows, several candidates side by side.

    In a narrow terminal the table of one candidate leaves columns out.
    """
    if len(scores) > 1:
        yield slice_table(
            comparison.overall,
            rows=lambda v: measure_text(v.shown, v.aggregate),
            columns=lambda v: v.score,
            cells=lambda v, line: [
                (Name(printable(v.score)), _value_cell(v, line)),
                ("delta", _difference(v)),
            ],
            lead=lambda line: [(Name(printable(line[0].baseline)), _base_cell(line))],
            first="measure",
            title=f"candidates against {comparison.baseline}",
        )
        return
    narrower: tuple[Table, ...] = ()
    for layout in reversed(_LAYOUTS):
        narrower = (_table(comparison, scores[0], *layout)._replace(narrower=narrower),)
    yield from narrower


def _table(
    comparison: ComparedModels, score: str, hidden: Sequence[str], side_by_side: bool
) -> Table:
    """Make the table of all rows for a candidate."""
    values = [v for v in comparison.overall if v.score == score]
    confidence = f"{percent_text(comparison.confidence)} CI"
    correction = comparison.meta.conventions.get("correction") or "none"
    has_intervals = any(map(difference_interval, values))
    under = has_intervals and not side_by_side
    columns: dict[str, Callable[[ComparedValue], str]] = {
        "measure": lambda v: measure_text(v.shown, v.aggregate),
        Name(printable(comparison.baseline)): lambda v: _base_cell([v]),
        Name(printable(score)): lambda v: _value_cell(v, [v]),
        "delta" + f"\n{confidence}" * under: lambda v: (
            _marked(v) + f"\n{_half_width(v)}".rstrip() * under
        ),
        confidence: lambda v: difference_interval(v) or "n/a",
        "relative": lambda v: percent(v.relative),
        "p": lambda v: p_text(v.p_value, ".4f"),
        f"p {correction}": lambda v: p_text(v.p_adjusted, ".4f"),
        "mdd": lambda v: amount(v.mdd, digits_of(v)) if v.mdd > 0 else "n/a",
        "wins": lambda v: _groups(v.wins),
        "ties": lambda v: _groups(v.ties),
        "losses": lambda v: _groups(v.losses),
    }
    excluded = {*hidden, "p none"} if correction == "none" else {*hidden}
    if under or not has_intervals:
        excluded.add(confidence)
    if correction == "none":
        excluded.discard("p")
    shown = {title: cell for title, cell in columns.items() if title not in excluded}
    rows = [[cell(v) for cell in shown.values()] for v in values]
    return Table([*shown], rows, 1, printable(f"{score} against {comparison.baseline}"))


def _marked(value: ComparedValue) -> str:
    """Write a difference with its mark."""
    return f"{_mark(value)} {difference_text(value)}".lstrip()


def _best(row: Sequence[ComparedValue]) -> frozenset[str]:
    """Find the best models of a line, the baseline among them."""
    first = row[0]
    numbers = {first.baseline: first.base_value, **{v.score: v.value for v in row}}
    text_of = partial(number_text, aggregate=first.aggregate)
    return best_models(numbers, measure_of(first.measure), text_of)


def _base_cell(line: Sequence[ComparedValue]) -> str:
    text = number_text(line[0].base_value, line[0].aggregate)
    return Best(text) if line[0].baseline in _best(line) else text


def _value_cell(v: ComparedValue, line: Sequence[ComparedValue]) -> str:
    text = number_text(v.value, v.aggregate)
    return Best(text) if v.score in _best(line) else text


def _difference(value: ComparedValue) -> str:
    """Write a difference with its mark and its interval."""
    if math.isnan(value.delta):
        return "undefined"
    half_width = _half_width(value)
    rough = FEW * (value.caution == "few_groups")
    return f"{_marked(value)} {half_width}{rough}" if half_width else _marked(value)


#: Marks of slices by the first word of their verdict.
_MARKS = {"better": "▲", "worse": "▼"}
_OTHER_MARK = "◆"
_CORRECTIONS = {"holm": "Holm's correction", "bh": "the correction of Benjamini and Hochberg"}
_PARTS = ("within", "mix", "remainder")


def _numbers_of_groups(line: Sequence[ComparedValue]) -> list[tuple[str, str]]:
    """Write the number of groups of the value that uses the fewest."""
    numbers = {v.groups for v in line if v.groups}
    mark = AT_LEAST * (len(numbers) > 1)
    return [("groups", f"{mark}{min(numbers):,}" if numbers else "n/a")]


def _part_rows(
    overall: Sequence[ComparedValue], parts: Sequence[Decomposition | None]
) -> Iterator[list[str]]:
    """Make rows of the decomposition, if mix or remainder is visible."""
    rows = []
    for name in _PARTS:
        numbers = [math.nan if part is None else float(getattr(part, name)) for part in parts]
        texts = (amount(x, digits_of(v), sign=True) for v, x in zip(overall, numbers, strict=True))
        rows.append([text * math.isfinite(x) for text, x in zip(texts, numbers, strict=True)])
    visible = [any(map(_is_nonzero, row)) for row in rows]
    if any(visible[1:]):
        for name, row, is_visible in zip(_PARTS, rows, visible, strict=True):
            yield from [[name, "", *row]] * is_visible


def compared_slices(comparison: ComparedModels, scores: Sequence[str]) -> Iterator[Table]:
    """Lay out the slices of candidates, then the parts of the decomposition.

    Parameters
    ----------
    comparison : ComparedModels
    scores : sequence of str
        For one candidate there is a table with a column for each measure, for several candidates
        one for each measure with a column for each candidate.

    Yields
    ------
    Table
        In order of slicings, then of measures.
    """
    own = [v for v in comparison.values if v.score in scores]
    several = len(scores) > 1

    def name(v: ComparedValue) -> str:
        return v.shown if several else v.score

    tables: dict[str, dict[str, list[ComparedValue]]] = {}
    for v in own:
        if v.by is not None:
            tables.setdefault(v.by, {}).setdefault(name(v), []).append(v)
    for by, title in ((by, title) for by, titles in tables.items() for title in titles):
        overall = [v for v in own if v.by is None and name(v) == title]
        table = slice_table(
            [*overall, *tables[by][title]],
            rows=lambda v: v.slice if v.by else "all",
            columns=lambda v: v.score if several else v.measure,
            cells=lambda v, _: [
                (Name(printable(v.score)) if several else printable(v.shown), _difference(v))
            ],
            lead=_numbers_of_groups,
            title=f"{title} against {comparison.baseline} by {by}",
        )
        parts = [comparison.decompositions.get((v.score, v.measure, by)) for v in overall]
        yield table._replace(rows=[*table.rows, *_part_rows(overall, parts)])


def mover_table(comparison: ComparedModels, score: str, measure: str, table: pa.Table) -> Table:
    """Lay out the groups that changed a measure most."""
    shown = _shown(comparison, measure)
    title = printable(f"groups that changed {shown} most, {score} against {comparison.baseline}")
    names = [printable(name) for name in table.column_names[:-4]]
    rows = [
        [
            *(printable(str(key)) for key in row["group"].values()),
            f"{row['rows']:,}",
            *(number_text(row[side]) for side in ("base", "value")),
            f"{row['contribution']:+.3g}",
        ]
        for row in mover_rows(table)
    ]
    return Table([*names, "rows", "base", "value", "contribution"], rows, len(names), title)


def _shown(comparison: ComparedModels, measure: str) -> str:
    """Return the name of a measure in reports."""
    return next(value.shown for value in comparison.values if value.measure == measure)


def changed_slices(comparison: ComparedModels, score: str, top: int) -> Iterator[Lines]:
    """List the slices with the largest changes of the first measure."""
    measure = comparison.measures[0]
    values = comparison._changed_slices(measure, score, top) if top else []
    if values:
        changes = ", ".join(f"{value.slice} {difference_text(value)}" for value in values)
        shown = _shown(comparison, measure)
        title = f"slices that changed {shown} most, {score} against {comparison.baseline}"
        yield Lines([printable(f"{title}: {changes}")])


def slice_verdicts(
    comparison: ComparedModels, score: str, all_slices: bool = False
) -> Iterator[tuple[str, str]]:
    """Name the slices where a candidate is significantly worse or better.

    Yields
    ------
    tuple of str and str
        ``"worse"`` or ``"better"``, and a line for each measure. Slices with the largest product of
        rows and difference come first: a large difference in few rows hides no slice of many.
    """
    groups: dict[tuple[str, str], list[ComparedValue]] = {}
    for v in comparison.values:
        if v.by is not None and v.score == score and word(v) in _MARKS:
            groups.setdefault((v.measure, word(v)), []).append(v)
    for (_, kind), values in groups.items():
        first = sorted(values, key=lambda v: -abs(v.delta) * (v.rows or v.groups))
        first = first if all_slices else first[:_MAX_NAMED]
        names = [f"{v.slice}: {difference_text(v)} {v.shown}" for v in first]
        more = f", and {len(values) - len(first)} more" if len(values) > len(first) else ""
        yield kind, f"{score} is {kind} in {', '.join(names)}{more}"


def mark_notes(comparison: ComparedModels, by_model: bool) -> Iterator[str]:
    """Explain the marks in tables."""
    slices = [v for v in comparison.values if v.by is not None]
    is_sliced = any(map(is_tested, slices))
    correction = _CORRECTIONS.get(str(comparison.meta.conventions.get("correction")), "")
    after = f" after {correction}{' over all slices' * is_sliced}" if correction else ""
    marks = {mark for v in comparison.values for mark in _mark(v)}
    meanings = {"▲": "better", "▼": "worse", _OTHER_MARK: "other difference"}
    legend = ", ".join(f"{mark} {text}" for mark, text in meanings.items() if mark in marks)
    level = f"{1 - comparison.confidence:.6g}"
    parts = [f"{legend}: significant (p <= {level}{after})", "no mark: not significant"]
    if not legend:
        parts = [f"no mark: not significant (p > {level}{after})"]
    if correction and any(map(_half_width, slices)):
        parts.append("± is not corrected")
    if legend or any(not math.isnan(v.p_value) for v in slices):
        yield "; ".join(parts)
    marked = comparison.values if by_model else slices
    if by_model and any(map(_half_width, marked)):
        yield f"± half of the {percent_text(comparison.confidence)} confidence interval"
    if any(v.caution == "few_groups" for v in marked):
        yield FEW_NOTE
    groups: dict[tuple[str, str | None, str], set[int]] = {}
    for v in slices:
        if v.groups:
            key = v.measure if by_model else v.score, v.by, v.slice
            groups.setdefault(key, set()).add(v.groups)
    if any(len(numbers) > 1 for numbers in groups.values()):
        what = "models" if by_model else "measures"
        yield f"{AT_LEAST} where {what} differ: groups of the one that uses the fewest"
    if any(_visible_parts(comparison)):
        yield "within slices, by their mix, and a remainder add up to the difference of all rows"
    if any(v.caution == "not_paired" for v in slices):
        yield "slices of results are not paired: their differences have no error"
    if slices:
        yield from left_out_notes(comparison.meta)


def _visible_parts(comparison: ComparedModels) -> Iterator[bool]:
    """Tell for each mix and remainder whether it prints as other than 0."""
    overall = {(v.score, v.measure): v for v in comparison.overall}
    for (score, measure, _), decomposition in comparison.decompositions.items():
        digits = digits_of(overall[score, measure])
        for number in (decomposition.mix, decomposition.remainder):
            yield not math.isnan(number) and _is_nonzero(amount(number, digits))


def _mark(v: ComparedValue) -> str:
    """Choose the mark of a difference by its verdict."""
    text = word(v)
    return _MARKS.get(text, _OTHER_MARK if text in ("higher", "lower", "mixed") else "")


def _is_nonzero(cell: str) -> bool:
    return any(digit in cell for digit in "123456789")


def _half_width(value: ComparedValue) -> str:
    return half_width_text((value.ci_high - value.ci_low) / 2, digits_of(value))


def _groups(number: int | None) -> str:
    return "n/a" if number is None else f"{number:,}"


def percent(share: float) -> str:
    """Format a relative change."""
    return "n/a" if math.isnan(share) else f"{share:+.2%}"
