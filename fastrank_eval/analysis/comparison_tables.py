"""Lay out a comparison as tables: all rows, slices, groups."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import pyarrow as pa

from fastrank_eval._lib.dataclass import dataclass
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
from fastrank_eval.results.slice_view import (
    AT_LEAST,
    FEW,
    FEW_NOTE,
    Layout,
    SliceSheet,
    best_models,
    left_out_notes,
    slice_tables,
)
from fastrank_eval.results.tables import (
    TEXT_WIDTH,
    Best,
    Lines,
    Name,
    Table,
    first_that_fits,
    sections,
)

_NARROW = 12  # least width of names
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


def overall_tables(
    comparison: ComparedModels,
    scores: Sequence[str],
    width: int | None,
    by_model: bool,
) -> Iterator[Table]:
    """Lay out the differences of all rows.

    Parameters
    ----------
    comparison : ComparedModels
    scores : sequence of str
        Candidates; one unless `by_model`.
    width : int, optional
        As in `slice_tables`.
    by_model : bool
        Show the models side by side.
    """
    if by_model:
        rows: dict[str, dict[str, ComparedValue]] = {}
        for v in comparison.overall:
            rows.setdefault(measure_text(v.shown, v.aggregate), {})[v.score] = v
        names = "candidates" if len(scores) > 1 else printable(scores[0])
        title = f"{names} against {printable(comparison.baseline)}"
        yield from slice_tables([_ModelSheet((title,), rows, {})] if rows else [], width)
        return
    (score,) = scores
    layouts = _LAYOUTS[:1] if width is None else _LAYOUTS
    table = first_that_fits((_table(comparison, score, each) for each in layouts), width or 0)
    yield from sections(table, width or TEXT_WIDTH, dict.fromkeys(["measure"], _NARROW))


def _table(comparison: ComparedModels, score: str, layout: tuple[tuple[str, ...], bool]) -> Table:
    """Make the table of all rows for a candidate."""
    hidden, side_by_side = layout
    values = [v for v in comparison.overall if v.score == score]
    confidence = f"{percent_text(comparison.confidence)} CI"
    correction = comparison.meta.conventions.get("correction") or "none"
    has_intervals = any(map(difference_interval, values))
    under = has_intervals and not side_by_side
    columns: dict[str, Callable[[ComparedValue], str]] = {
        "measure": lambda v: measure_text(v.shown, v.aggregate),
        Name(printable(comparison.baseline)): _base_cell,
        Name(printable(score)): _value_cell,
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
    title = printable(f"{score} against {comparison.baseline}")
    rows = [[title, *(cell(v) for cell in shown.values())] for v in values]
    return Table(["", *shown], 2, rows)


def _marked(value: ComparedValue) -> str:
    """Write a difference with its mark."""
    return f"{_mark(value)} {difference_text(value)}".lstrip()


def _best(row: Sequence[ComparedValue]) -> frozenset[str]:
    """Find the best models of a line, the baseline among them."""
    first = row[0]
    numbers = {first.baseline: first.base_value, **{v.score: v.value for v in row}}
    text_of = partial(number_text, aggregate=first.aggregate)
    return best_models(numbers, measure_of(first.measure), text_of)


def _base_cell(v: ComparedValue, *others: ComparedValue) -> str:
    text = number_text(v.base_value, v.aggregate)
    return Best(text) if v.baseline in _best([v, *others]) else text


def _value_cell(v: ComparedValue, *others: ComparedValue) -> str:
    text = number_text(v.value, v.aggregate)
    return Best(text) if v.score in _best([v, *others]) else text


#: Marks of slices by the first word of their verdict.
_MARKS = {"better": "▲", "worse": "▼"}
_OTHER_MARK = "◆"
_CORRECTIONS = {"holm": "Holm's correction", "bh": "the correction of Benjamini and Hochberg"}
_PARTS = ("within", "mix", "remainder")


@dataclass(frozen=True)
class _ComparedSheet(SliceSheet[ComparedValue]):
    """The differences of one candidate by slice and measure."""

    decompositions: Mapping[str, Decomposition]

    @property
    def labels(self) -> list[str]:
        return [*self.rows, *_PARTS]

    def group_titles(self, layout: Layout) -> list[str]:
        return ["groups"]

    def group_cells(
        self, row: Mapping[str, ComparedValue], columns: Sequence[str], layout: Layout
    ) -> list[str]:
        numbers = {v.groups for v in row.values() if v.groups}
        if not numbers:
            return ["n/a"]
        return [AT_LEAST * (len(numbers) > 1) + f"{min(numbers):,}"]

    def heading(self, value: ComparedValue) -> str:
        return printable(value.shown)

    def cell(self, value: ComparedValue, layout: Layout) -> str:
        if math.isnan(value.delta):
            return "undefined"
        text, half_width = _marked(value), _half_width(value)
        if not half_width:
            return text
        rough = FEW * (value.caution == "few_groups")
        return text + (" " if layout.side_by_side else "\n") + half_width + rough

    def parts(self, columns: Sequence[str]) -> list[list[str]]:
        """Make rows of the decomposition, if mix or remainder is visible."""
        rows = []
        for name in _PARTS:
            cells = []
            for column in columns:
                decomposition, value = self.decompositions.get(column), self.rows["all"][column]
                number = math.nan if decomposition is None else getattr(decomposition, name)
                text = amount(number, digits_of(value), sign=True)
                cells.append("" if math.isnan(number) else text)
            rows.append([name, "", *cells])
        visible = [any(map(_is_nonzero, row[2:])) for row in rows]
        if not any(visible[1:]):
            return []
        return [row for row, is_visible in zip(rows, visible, strict=True) if is_visible]


class _SlicesByModel(_ComparedSheet):
    """The differences of a measure by slice and candidate."""

    def heading(self, value: ComparedValue) -> str:
        return Name(printable(value.score))


class _ModelSheet(_ComparedSheet):
    """The values of all rows by measure and model, and their differences."""

    lines = "measure"

    def group_titles(self, layout: Layout) -> list[str]:
        baseline = next(v.baseline for row in self.rows.values() for v in row.values())
        return [layout.heading(Name(printable(baseline)), [""])]

    def group_cells(
        self, row: Mapping[str, ComparedValue], columns: Sequence[str], layout: Layout
    ) -> list[str]:
        return [_base_cell(*row.values())]

    def parts(self, columns: Sequence[str]) -> list[list[str]]:
        return []

    def formatted(self, column: str, layout: Layout) -> list[list[str]]:
        values = [_value_cell(row[column], *row.values()) for row in self.rows.values()]
        _, *differences = super().formatted(column, layout)[0]
        name = layout.heading(Name(printable(column)), values)
        return [[name, *values], ["delta", *differences]]


def compared_slices(
    comparison: ComparedModels, scores: Sequence[str], width: int | None = None
) -> Iterator[Table]:
    """Lay out the slices of candidates, then the parts of the decomposition.

    Parameters
    ----------
    comparison : ComparedModels
    scores : sequence of str
        For one candidate there is a table with a column for each measure, for several candidates
        one for each measure with a column for each candidate.
    width : int, optional
        As in `slice_tables`.

    Yields
    ------
    Table
        In order of slicings, then of measures.
    """
    own = [v for v in comparison.values if v.score in scores]
    several, against = len(scores) > 1, f"against {comparison.baseline}"
    for by in dict.fromkeys(v.by for v in own if v.by is not None):
        sheets: dict[str, dict[str, dict[str, ComparedValue]]] = {}
        parts: dict[str, dict[str, Decomposition]] = {}
        for v in own:
            if v.by not in (None, by):
                continue
            title, column = (v.shown, v.score) if several else (v.score, v.measure)
            rows = sheets.setdefault(title, {})
            rows.setdefault(v.slice if v.by else "all", {})[column] = v
            decomposition = comparison.decompositions.get((v.score, v.measure, by))
            if decomposition is not None:
                parts.setdefault(title, {})[column] = decomposition
        kind = _SlicesByModel if several else _ComparedSheet
        yield from slice_tables(
            [
                kind((f"{title} {against} by {by}",), rows, parts.get(title, {}))
                for title, rows in sheets.items()
            ],
            width,
        )


def mover_sections(
    comparison: ComparedModels, score: str, measure: str, table: pa.Table, width: int
) -> Iterator[Table]:
    """Lay out the groups that changed a measure most."""
    shown = _shown(comparison, measure)
    title = printable(f"groups that changed {shown} most, {score} against {comparison.baseline}")
    names = [printable(name) for name in table.column_names[:-4]]
    rows = [
        [
            title,
            *(printable(str(key)) for key in row["group"].values()),
            f"{row['rows']:,}",
            *(number_text(row[side]) for side in ("base", "value")),
            f"{row['contribution']:+.3g}",
        ]
        for row in mover_rows(table)
    ]
    header = ["", *names, "rows", "base", "value", "contribution"]
    content = Table(header, len(names) + 1, rows, bold="contribution")
    yield from sections(content, width, dict.fromkeys(names, _NARROW))


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
        yield Lines([printable(f"{title}: {changes}")], [""])


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
