"""Print a comparison as plain text, as markdown and on a terminal."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from fastrank_eval.analysis.attribution import mover_rows
from fastrank_eval.analysis.compared_value import ComparedValue
from fastrank_eval.analysis.comparison_slices import (
    amount,
    compared_slices,
    compared_slices_notes,
    digits_of,
    interval_text,
    is_shown,
    is_undecided,
    undecided_text,
)
from fastrank_eval.results.format import count_text, number_text, printable
from fastrank_eval.results.result_view import report_notes, size_and_conventions
from fastrank_eval.results.tables import (
    Cells,
    code_span,
    fits,
    grid,
    markdown_lines,
    one_line_each,
    plain_lines,
    sections,
)
from fastrank_eval.stats.intervals import FEW_GROUPS

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult

    from fastrank_eval.analysis.compared_value import ComparisonRecords

__all__ = ["TerminalView", "markdown", "plain"]

_NARROW = 12  # least width of names
_ROOM = 80  # width of plain text, whose output device is unknown
#: Tables of movers, by candidate and measure.
MoverTables = Mapping[tuple[str, str], pa.Table]


def plain(comparison: ComparisonRecords) -> str:
    """Write a comparison as plain text: a table, verdicts, size, conventions."""
    size, conventions = size_and_conventions(comparison.meta)
    lines = plain_lines(one_line_each(_table(comparison, _overall(comparison))))
    for score in comparison.scores:
        lines += _verdict_lines(comparison, score)
    for score in comparison.scores:
        for table in compared_slices(comparison, score, _ROOM):
            lines += ["", table.title, *plain_lines(table.cells)]
    if any(v.by is not None for v in comparison.values):
        lines.append("")
    return "\n".join([*lines, *_notes(comparison), size, conventions])


def markdown(comparison: ComparisonRecords, mover_tables: MoverTables, top: int) -> str:
    """Write a comparison as markdown, with the groups that changed most."""
    size, conventions = size_and_conventions(comparison.meta)
    blocks = [markdown_lines(_table(comparison, _overall(comparison)))]
    for score in comparison.scores:
        blocks += [[f"* {code_span(verdict)}" for verdict in _verdict_lines(comparison, score)]]
    for score in comparison.scores:
        for table in compared_slices(comparison, score):
            blocks += [[code_span(table.title)], markdown_lines(table.cells)]
    for (score, measure), group_table in mover_tables.items():
        title = code_span(printable(_movers_title(comparison, score, measure)))
        blocks += [[title], markdown_lines(_movers(group_table))]
    for score in comparison.scores:
        blocks += [[code_span(line)] for line in _changed_slices(comparison, score, top)]
    notes = [*map(code_span, _notes(comparison)), size, code_span(conventions)]
    blocks.append(["  \n".join(notes)])
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


@dataclass(frozen=True)
class TerminalView:
    """A comparison for a terminal, by candidate.

    Parameters
    ----------
    comparison : ComparisonRecords
    mover_tables : mapping of (str, str) to pyarrow.Table
        Tables of movers by candidate and measure.
    top : int
        The largest number of slices to list, for rises and for falls each.
    """

    comparison: ComparisonRecords
    mover_tables: MoverTables
    top: int

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.text import Text

        comparison, room = self.comparison, options.max_width
        level = next(
            (
                level
                for level in range(len(_LEVELS))
                if fits(_table(comparison, _overall(comparison), level), room)
            ),
            len(_LEVELS) - 1,
        )
        for score in comparison.scores:
            own = [v for v in _overall(comparison) if v.score == score]
            content = _table(comparison, own, level)
            names = dict.fromkeys(content.header[1 : content.names], _NARROW)
            yield from sections(content, room, names, bold="delta")
            for verdict, style in _verdicts(comparison, score):
                yield Text(verdict, style=style)
            yield Text()
            for slice_table in compared_slices(comparison, score, room):
                yield Text(slice_table.title, style="bold cyan", overflow="fold")
                yield grid(slice_table.cells)
                yield Text()
            yield from self._movers_of(score, room)
            for line in _changed_slices(comparison, score, self.top):
                yield Text(line)
                yield Text()
        size, conventions = size_and_conventions(comparison.meta)
        for line in (*_notes(comparison), size):
            yield Text(line)
        yield Text(conventions, style="dim")

    def _movers_of(self, score: str, room: int) -> Iterator[RenderableType]:
        for (name, measure), table in self.mover_tables.items():
            if name != score:
                continue
            title = printable(_movers_title(self.comparison, score, measure))
            content = _movers(table)
            cells = Cells(
                ["", *content.header], content.names + 1, [[title, *row] for row in content.rows]
            )
            names = dict.fromkeys(content.header[: content.names], _NARROW)
            yield from sections(cells, room, names, bold="contribution")


_STYLES = {"better": "green", "worse": "red"}


def _verdicts(comparison: ComparisonRecords, score: str) -> Iterator[tuple[str, str]]:
    """Write the verdicts on a candidate with their styles."""
    values = [v for v in _overall(comparison) if v.score == score]
    undecided = [v for v in values if is_undecided(v, _confidence(comparison))]
    for v in values:
        if len(undecided) == 1 or v not in undecided:
            word = v.verdict.removeprefix(f"{v.score} is ").partition(":")[0]
            yield printable(v.verdict), _STYLES.get(word, "")
    if len(undecided) > 1:
        yield printable(undecided_text(undecided)), ""


def _verdict_lines(comparison: ComparisonRecords, score: str) -> Iterator[str]:
    """Write the verdicts on a candidate, with its name if there are several."""
    several, name = len(comparison.scores) > 1, printable(score)
    for verdict, _ in _verdicts(comparison, score):
        yield f"{name}: {verdict}" if several and not verdict.startswith(f"{name} ") else verdict


def _confidence(comparison: ComparisonRecords) -> float:
    confidence = comparison.meta.conventions.get("confidence")
    return confidence if isinstance(confidence, float) else 0.95


def _overall(comparison: ComparisonRecords) -> list[ComparedValue]:
    return [v for v in comparison.values if v.by is None]


def _table(comparison: ComparisonRecords, values: Sequence[ComparedValue], level: int = 0) -> Cells:
    """Make the table of a comparison: the higher the level, the fewer columns."""
    hidden, side_by_side = _LEVELS[level]
    conventions = comparison.meta.conventions
    confidence = f"{100 * _confidence(comparison):.12g}% CI"
    correction = conventions.get("correction") or "none"
    has_intervals = any(map(interval_text, _overall(comparison)))
    under = has_intervals and not side_by_side
    columns: dict[str, Callable[[ComparedValue], str]] = {
        "candidate": lambda v: printable(f"{v.score} against {v.baseline}"),
        "measure": lambda v: printable(v.measure) + _aggregate(v),
        "baseline": lambda v: number_text(v.base_value, v.aggregate),
        "value": lambda v: number_text(v.value, v.aggregate),
        f"delta\n{confidence}" if under else "delta": lambda v: (
            _delta_text(v) + _half_width_text(v) * under
        ),
        confidence: lambda v: interval_text(v) or "n/a",
        "relative": lambda v: _percent(v.relative),
        "p": lambda v: _p_text(v.p_value),
        f"p {correction}": lambda v: _p_text(v.p_adjusted),
        "mdd": _mdd_text,
        "wins": lambda v: _groups(v.wins),
        "ties": lambda v: _groups(v.ties),
        "losses": lambda v: _groups(v.losses),
    }
    excluded = {*hidden} | {
        *[confidence] * (under or not has_intervals),
        *["p none"] * (correction == "none"),
    }
    if correction == "none":
        excluded -= {"p"}
    shown = {title: cell for title, cell in columns.items() if title not in excluded}
    names = list(shown).index("baseline")
    return Cells(list(shown), names, [[cell(v) for cell in shown.values()] for v in values])


#: Columns to leave out, and whether intervals are next to differences or under them.
_LEVELS = (
    ((), True),
    (("mdd",), True),
    (("mdd", "relative"), True),
    (("mdd", "relative", "p"), True),
    (("mdd", "relative", "p"), False),
    (("mdd", "relative", "p", "wins", "ties", "losses"), False),
)


def _movers_title(comparison: ComparisonRecords, score: str, measure: str) -> str:
    return f"groups that changed {measure} most, {score} against {comparison.baseline}"


def _changed_slices(comparison: ComparisonRecords, score: str, top: int) -> Iterator[str]:
    """List the slices with the largest changes of the first measure."""
    mover_tables = comparison._changed_slices(comparison.measures[0], score, top) if top else []
    if mover_tables:
        changes = ", ".join(f"{value.slice} {_delta_text(value)}" for value in mover_tables)
        title = f"slices that changed {comparison.measures[0]} most, {score} against "
        yield printable(f"{title}{comparison.baseline}: {changes}")


def _movers(table: pa.Table) -> Cells:
    """Make the cells of a table of movers."""
    names = table.num_columns - 4
    rows = [
        [
            *(printable(str(key)) for key in row["group"].values()),
            f"{row['rows']:,}",
            *(
                "undefined" if row[side] is None else f"{row[side]:#.6g}"
                for side in ("base", "value")
            ),
            f"{row['contribution']:+.3g}",
        ]
        for row in mover_rows(table)
    ]
    key_titles = [printable(name) for name in table.column_names[:names]]
    return Cells([*key_titles, "rows", "base", "value", "contribution"], names, rows)


def _notes(comparison: ComparisonRecords) -> list[str]:
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
            f"{v.measure} {_rela_impr_text(v, _confidence(comparison))}"
            for v in _overall(comparison)
            if v.score == score and (not math.isnan(v.rela_impr) or v.rela_impr_caution)
        ]
        if improvements:
            notes.append(f"RelaImpr of {score}: {'; '.join(improvements)}")
    notes += compared_slices_notes(comparison, str(comparison.meta.conventions.get("correction")))
    rough = [v for v in _overall(comparison) if v.caution == "few_groups"]
    if rough:
        notes.append(
            f"intervals are rough, with fewer than {FEW_GROUPS} effective groups: "
            + ", ".join(dict.fromkeys(_name(v, comparison) for v in rough))
        )
    unpaired: dict[tuple[str, int, int], list[str]] = {}
    for v in _overall(comparison):
        if v.only_base or v.only_candidate:
            key = v.score, v.only_base or 0, v.only_candidate or 0
            unpaired.setdefault(key, []).append(v.measure)
    for (score, base, candidate), measures in unpaired.items():
        notes.append(
            f"groups with a value under one model only: {base:,} under {comparison.baseline}, "
            f"{candidate:,} under {score}: {', '.join(measures)}"
        )
    notes += report_notes(comparison.evaluated, comparison.meta)
    return [printable(note) for note in notes]


def _name(value: ComparedValue, comparison: ComparisonRecords) -> str:
    model = f" of {value.score}" if len(comparison.scores) > 1 else ""
    return f"{value.measure}{model}"


def _p_text(p_value: float) -> str:
    if math.isnan(p_value):
        return "n/a"
    return "<0.0001" if p_value < 1e-4 else f"{p_value:.4f}"


def _delta_text(value: ComparedValue) -> str:
    return "n/a" if math.isnan(value.delta) else amount(value.delta, digits_of(value), sign=True)


def _half_width_text(value: ComparedValue) -> str:
    """Write half the interval on a line of its own, or nothing."""
    if not interval_text(value):
        return ""
    return f"\n±{amount((value.ci_high - value.ci_low) / 2, digits_of(value))}"


def _aggregate(value: ComparedValue) -> str:
    return "" if value.aggregate in ("mean", "pooled") else f" ({value.aggregate})"


def _groups(number: int | None) -> str:
    return "n/a" if number is None else f"{number:,}"


def _mdd_text(value: ComparedValue) -> str:
    return amount(value.mdd, digits_of(value)) if value.mdd > 0 else "n/a"


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
        text += f" ({100 * confidence:.12g}% CI {low} to {high})"
    if math.isnan(value.p_adjusted):
        return f"{text}, not tested"
    return text if is_shown(value, confidence) else f"{text}, not significant"


def _percent(share: float) -> str:
    return "n/a" if math.isnan(share) else f"{share:+.2%}"
