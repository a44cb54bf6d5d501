"""Show a comparison as text, markdown, JSON and CSV."""

from __future__ import annotations

import json
import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from fastrank_eval._lib.arguments import check_indent, typed
from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval.analysis.attribution import Decomposition, decomposition_rows, mover_rows
from fastrank_eval.analysis.compared_value import (
    DIFFERENCE_SCHEMA,
    ComparedValue,
    difference_interval,
    difference_text,
    digits_of,
    is_shown,
    is_undecided,
    undecided_text,
)
from fastrank_eval.engine.records import MeasureValue, Meta, record_csv, record_rows
from fastrank_eval.results.format import (
    amount,
    count_text,
    half_width_text,
    list_text,
    measure_text,
    number_text,
    p_text,
    percent_text,
    printable,
)
from fastrank_eval.results.result_view import meta_with_notes, report_notes, size_and_conventions
from fastrank_eval.results.slice_view import (
    AT_LEAST,
    Layout,
    SliceSheet,
    left_out_notes,
    slice_tables,
)
from fastrank_eval.results.tables import (
    TEXT_WIDTH,
    Lines,
    Report,
    Table,
    Tabular,
    first_that_fits,
    sections,
)
from fastrank_eval.stats.intervals import FEW_GROUPS

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

_NARROW = 12  # least width of names


class ReportedComparison(Tabular):
    """The output formats of `Comparison`."""

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

    @typed
    def to_dict(self, movers: int = 0) -> dict[str, Any]:
        """Build the content of the JSON report.

        Parameters
        ----------
        movers : int
            The largest number of groups to list as ``"movers"`` that raised the first measure of
            groups most, and of groups that lowered it most.

        Returns
        -------
        dict
            ``{"meta": {...}, "comparisons": [...], "joined": ..., "decompositions": [...],
            "movers": [...]}`` of plain Python values, None for NaN. The last three are left out if
            they are empty.
        """
        content: dict[str, Any] = {
            "meta": meta_with_notes(self.evaluated, self.meta),
            "comparisons": record_rows(self.values, DIFFERENCE_SCHEMA),
        }
        if self.joined is not None:
            content["joined"] = self.joined
        if self.decompositions:
            content["decompositions"] = list(decomposition_rows(self.decompositions))
        mover_tables = self.mover_tables(movers)
        if mover_tables:
            content["movers"] = [
                {"score": score, "measure": text, **row}
                for (score, text), table in mover_tables.items()
                for row in mover_rows(table)
            ]
        return content

    @typed
    def to_json(self, indent: int | None = 2, movers: int = 0) -> str:
        """Write :meth:`to_dict` as JSON.

        Parameters
        ----------
        indent : int or None
            Spaces a level; None for one line.
        movers : int
            As in `to_dict`.

        Returns
        -------
        str
            Strictly valid JSON in ASCII; an undefined number is null.
        """
        return json.dumps(self.to_dict(movers), indent=check_indent(indent), allow_nan=False)

    @typed
    def to_csv(self, *, safe: bool = False) -> str:
        """Write the summary as CSV with all digits, empty where undefined.

        Parameters
        ----------
        safe : bool
            Put an apostrophe before text that begins with ``=``, ``+``, ``-``, ``@``, a tab or a
            carriage return, so that a spreadsheet does not read it as a formula.

        Returns
        -------
        str
        """
        return record_csv(self.values, DIFFERENCE_SCHEMA, safe)

    @typed
    def to_markdown(self, movers: int = 0) -> str:
        """Write the report as markdown.

        Parameters
        ----------
        movers : int
            As in `to_dict`.

        Returns
        -------
        str
            Names from data are in code spans, so nothing in them is markup.
        """
        return self._report(self._flat_blocks(None, movers)).to_markdown()

    @typed
    def with_movers(self, movers: int) -> Any:
        """Show the report on a terminal, with the groups that changed most.

        Parameters
        ----------
        movers : int
            As in `to_dict`.

        Returns
        -------
        rich renderable
        """
        return _TerminalView(self, movers)

    def __repr__(self) -> str:
        return self._report(self._flat_blocks(TEXT_WIDTH)).to_text()

    def _html_report(self) -> Report:
        return self._report(self._flat_blocks(None))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield self.with_movers(0)

    @property
    def overall(self) -> list[ComparedValue]:
        """The values of all rows."""
        return [v for v in self.values if v.by is None]

    @property
    def confidence(self) -> float:
        """The confidence of the intervals."""
        confidence = self.meta.conventions.get("confidence")
        return confidence if isinstance(confidence, float) else 0.95

    def _report(self, blocks: Iterable[Table | Lines]) -> Report:
        return Report(list(blocks), [], _notes(self), *size_and_conventions(self.meta))

    def _flat_blocks(self, width: int | None, top: int = 0) -> Iterator[Table | Lines]:
        """Lay out what is of one kind together, for text and markdown."""
        yield _table(self)
        for score in self.scores:
            texts, styles = _verdicts(self, score)
            if len(self.scores) > 1:
                name = printable(score)
                texts = [t if t.startswith(f"{name} ") else f"{name}: {t}" for t in texts]
            yield Lines(texts, styles, "* ")
        for score in self.scores:
            yield from compared_slices(self, score, width)
        for (score, measure), movers in self.mover_tables(top).items():
            yield from _mover_sections(self, score, measure, movers, TEXT_WIDTH)
        for score in self.scores:
            yield from _changed_slices(self, score, top)

    def _blocks_by_score(self, width: int, top: int) -> Iterator[Table | Lines]:
        """Lay out candidate by candidate, for a terminal."""
        fitting = (_table(self, layout) for layout in _LAYOUTS)
        table = first_that_fits(fitting, width)
        names = dict.fromkeys(table.header[1 : table.names], _NARROW)
        mover_tables = self.mover_tables(top)
        for score in self.scores:
            pairs = zip(self.overall, table.rows, strict=True)
            own = replace(table, rows=[row for value, row in pairs if value.score == score])
            yield from sections(own, width, names)
            yield Lines(*_verdicts(self, score))
            yield from compared_slices(self, score, width)
            for (name, measure), movers in mover_tables.items():
                if name == score:
                    yield from _mover_sections(self, score, measure, movers, width)
            yield from _changed_slices(self, score, top)


@dataclass(frozen=True)
class _TerminalView:
    """A comparison for a terminal, with a number of movers."""

    comparison: ReportedComparison
    movers: int

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        blocks = self.comparison._blocks_by_score(options.max_width, self.movers)
        yield from self.comparison._report(blocks).to_terminal()


_STYLES = {"better": "green", "worse": "red"}


def _word(value: ComparedValue) -> str:
    """Find the first words of a verdict, without the candidate."""
    return value.verdict.removeprefix(f"{value.score} is ").partition(":")[0]


def _verdicts(comparison: ReportedComparison, score: str) -> tuple[list[str], list[str]]:
    """Write the verdicts on a candidate, and their styles."""
    values = [v for v in comparison.overall if v.score == score]
    undecided = [v for v in values if is_undecided(v, comparison.confidence)]
    if len(undecided) > 1:
        values = [v for v in values if v not in undecided]
    texts, styles = [v.verdict for v in values], [_STYLES.get(_word(v), "") for v in values]
    if len(undecided) > 1:
        texts, styles = [*texts, undecided_text(undecided)], [*styles, ""]
    return list(map(printable, texts)), styles


#: Columns to leave out, and whether intervals are next to differences or under them.
_LAYOUTS = (
    ((), True),
    (("mdd",), True),
    (("mdd", "relative"), True),
    (("mdd", "relative", "p"), True),
    (("mdd", "relative", "p"), False),
    (("mdd", "relative", "p", "wins", "ties", "losses"), False),
)


def _table(
    comparison: ReportedComparison, layout: tuple[tuple[str, ...], bool] = _LAYOUTS[0]
) -> Table:
    """Make the table of all rows."""
    hidden, side_by_side = layout
    confidence = f"{percent_text(comparison.confidence)} CI"
    correction = comparison.meta.conventions.get("correction") or "none"
    has_intervals = any(map(difference_interval, comparison.overall))
    under = has_intervals and not side_by_side
    columns: dict[str, Callable[[ComparedValue], str]] = {
        "candidate": lambda v: printable(f"{v.score} against {v.baseline}"),
        "measure": lambda v: measure_text(v.shown, v.aggregate),
        "baseline": lambda v: number_text(v.base_value, v.aggregate),
        "value": lambda v: number_text(v.value, v.aggregate),
        "delta" + f"\n{confidence}" * under: lambda v: (
            difference_text(v) + f"\n{_half_width(v)}".rstrip() * under
        ),
        confidence: lambda v: difference_interval(v) or "n/a",
        "relative": lambda v: _percent(v.relative),
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
    rows = [[cell(v) for cell in shown.values()] for v in comparison.overall]
    return Table(list(shown), list(shown).index("baseline"), rows, bold="delta")


#: Marks of slices by the first word of their verdict.
_MARKS = {"better": "▲", "worse": "▼"}
_OTHER_MARK, _ROUGH = "◆", "~"
_PARTS = ("within", "mix", "remainder")


@dataclass(frozen=True)
class _ComparedSheet(SliceSheet[ComparedValue]):
    """The differences of one candidate by slice, with their decompositions."""

    decompositions: Mapping[str, Decomposition]

    @property
    def labels(self) -> list[str]:
        return [*self.rows, *_PARTS]

    def group_titles(self, layout: Layout) -> list[str]:
        return ["groups"]

    def group_cells(
        self, row: Mapping[str, ComparedValue], measures: Sequence[str], layout: Layout
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
        text = f"{_mark(value)} {difference_text(value)}".lstrip()
        half_width = _half_width(value)
        if not half_width:
            return text
        rough = _ROUGH * (value.caution == "few_groups")
        return text + (" " if layout.side_by_side else "\n") + rough + half_width

    def parts(self, measures: Sequence[str]) -> list[list[str]]:
        """Make rows of the decomposition, if mix or remainder is visible."""
        rows = []
        for name in _PARTS:
            cells = []
            for measure in measures:
                decomposition, value = self.decompositions.get(measure), self.rows["all"][measure]
                number = math.nan if decomposition is None else getattr(decomposition, name)
                text = amount(number, digits_of(value), sign=True)
                cells.append("" if math.isnan(number) else text)
            rows.append([name, "", *cells])
        visible = [any(map(_is_nonzero, row[2:])) for row in rows]
        if not any(visible[1:]):
            return []
        return [row for row, is_visible in zip(rows, visible, strict=True) if is_visible]


def compared_slices(
    comparison: ReportedComparison, score: str, width: int | None = None
) -> Iterator[Table]:
    """Lay out the slices of a candidate, then the parts of the decomposition.

    Parameters
    ----------
    comparison : ReportedComparison
    score : str
    width : int, optional
        As in `slice_tables`.

    Yields
    ------
    Table
        In order of slicings, then of measures.
    """
    own = [v for v in comparison.values if v.score == score]
    for by in dict.fromkeys(v.by for v in own if v.by is not None):
        rows: dict[str, dict[str, ComparedValue]] = {}
        for v in own:
            if v.by in (None, by):
                rows.setdefault(v.slice if v.by else "all", {})[v.measure] = v
        decompositions = {
            measure: decomposition
            for (name, measure, slicing), decomposition in comparison.decompositions.items()
            if (name, slicing) == (score, by)
        }
        title = f"{score} against {comparison.baseline} by {by}"
        yield from slice_tables([_ComparedSheet((title,), rows, decompositions)], width)


def _mover_sections(
    comparison: ReportedComparison, score: str, measure: str, table: pa.Table, width: int
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


def _shown(comparison: ReportedComparison, measure: str) -> str:
    """Return the name of a measure in reports."""
    return next(value.shown for value in comparison.values if value.measure == measure)


def _changed_slices(comparison: ReportedComparison, score: str, top: int) -> Iterator[Lines]:
    """List the slices with the largest changes of the first measure."""
    measure = comparison.measures[0]
    values = comparison._changed_slices(measure, score, top) if top else []
    if values:
        changes = ", ".join(f"{value.slice} {difference_text(value)}" for value in values)
        shown = _shown(comparison, measure)
        title = f"slices that changed {shown} most, {score} against {comparison.baseline}"
        yield Lines([printable(f"{title}: {changes}")], [""])


def _notes(comparison: ReportedComparison) -> list[str]:
    """Write the notes under a comparison."""
    notes = []
    if comparison.joined is not None:
        joined = comparison.joined
        notes.append(
            f"groups joined by key: {joined['both']:,} in both results, "
            f"{joined['only_base']:,} only in the baseline, "
            f"{joined['only_candidate']:,} only in the candidate"
        )
        if joined["rows_differ"]:
            notes.append(
                f"{count_text(joined['rows_differ'], 'group')} with other numbers of rows in the "
                "two results: they may not have the same rows"
            )
    for score in comparison.scores:
        improvements = [
            f"{v.shown} {_rela_impr_text(v, comparison.confidence)}"
            for v in comparison.overall
            if v.score == score and (not math.isnan(v.rela_impr) or v.rela_impr_caution)
        ]
        if improvements:
            notes.append(f"RelaImpr of {score}: {'; '.join(improvements)}")
    notes += _slice_notes(comparison)
    rough = [v for v in comparison.overall if v.caution == "few_groups"]
    if rough:
        notes.append(
            f"intervals are rough, with fewer than {FEW_GROUPS} effective groups: "
            + list_text(_name(v, comparison) for v in rough)
        )
    unpaired: dict[tuple[str, int, int], list[str]] = {}
    for v in comparison.overall:
        if v.only_base or v.only_candidate:
            key = v.score, v.only_base or 0, v.only_candidate or 0
            unpaired.setdefault(key, []).append(v.shown)
    for (score, base, candidate), measures in unpaired.items():
        notes.append(
            f"groups with a value under one model only: {base:,} under {comparison.baseline}, "
            f"{candidate:,} under {score}: {', '.join(measures)}"
        )
    notes += report_notes(comparison.evaluated, comparison.meta)
    return [printable(note) for note in notes]


def _name(value: ComparedValue, comparison: ReportedComparison) -> str:
    model = f" of {value.score}" if len(comparison.scores) > 1 else ""
    return f"{value.shown}{model}"


def _slice_notes(comparison: ReportedComparison) -> Iterator[str]:
    """Explain the marks in tables of slices."""
    slices = [v for v in comparison.values if v.by is not None]
    if not slices:
        return
    correction = comparison.meta.conventions.get("correction")
    marks = {mark for v in comparison.values for mark in _mark(v)}
    suffix = "" if correction == "none" else f", p {correction} over all slices of a slicing"
    meanings = {"▲": "better", "▼": "worse", _OTHER_MARK: "other difference that is shown"}
    legend = [f"{mark} {word}" for mark, word in meanings.items() if mark in marks]
    if legend:
        yield f"{', '.join(legend)}{suffix}; no mark: no difference is shown"
    elif any(not math.isnan(v.p_value) for v in slices):
        yield f"no mark: no difference is shown{suffix}"
    if any(v.caution == "few_groups" for v in slices):
        yield f"{_ROUGH} fewer than {FEW_GROUPS} effective groups: the interval is rough"
    groups_by_slice: dict[tuple[str, str | None, str], set[int]] = {}
    for v in slices:
        if v.groups:
            groups_by_slice.setdefault((v.score, v.by, v.slice), set()).add(v.groups)
    if any(len(numbers) > 1 for numbers in groups_by_slice.values()):
        yield f"{AT_LEAST} where measures differ: groups of the one that uses the fewest"
    if any(_visible_parts(comparison)):
        yield "within slices, by their mix, and a remainder add up to the difference of all rows"
    if any(v.caution == "not_paired" for v in slices):
        yield "slices of results are not paired: their differences have no error"
    yield from left_out_notes(comparison.meta)


def _visible_parts(comparison: ReportedComparison) -> Iterator[bool]:
    """Tell for each mix and remainder whether it prints as other than 0."""
    overall = {(v.score, v.measure): v for v in comparison.overall}
    for (score, measure, _), decomposition in comparison.decompositions.items():
        digits = digits_of(overall[score, measure])
        for number in (decomposition.mix, decomposition.remainder):
            yield not math.isnan(number) and _is_nonzero(amount(number, digits))


def _mark(v: ComparedValue) -> str:
    """Choose the mark of a difference by its verdict."""
    word = _word(v)
    return _MARKS.get(word, _OTHER_MARK if word in ("higher", "lower", "mixed") else "")


def _is_nonzero(cell: str) -> bool:
    return any(digit in cell for digit in "123456789")


def _half_width(value: ComparedValue) -> str:
    return half_width_text((value.ci_high - value.ci_low) / 2, digits_of(value))


def _groups(number: int | None) -> str:
    return "n/a" if number is None else f"{number:,}"


def _rela_impr_text(value: ComparedValue, confidence: float) -> str:
    """Write RelaImpr with its interval and significance."""
    if math.isnan(value.rela_impr):
        return f"undefined, as {value.baseline} is not above 0.5"
    text = _percent(value.rela_impr)
    ends = value.rela_impr_ci_low, value.rela_impr_ci_high
    if value.rela_impr_caution:
        text += f" (no interval, as {value.baseline} is too near 0.5)"
    elif all(map(math.isfinite, ends)):
        low, high = map(_percent, ends)
        text += f" ({percent_text(confidence)} CI {low} to {high})"
    if math.isnan(value.p_adjusted):
        return f"{text}, not tested"
    return text if is_shown(value, confidence) else f"{text}, not significant"


def _percent(share: float) -> str:
    return "n/a" if math.isnan(share) else f"{share:+.2%}"
