"""A comparison for people: plain text, markdown and the terminal, from the same cells."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from fastrank_eval.analysis.attribution import movers_lines
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
from fastrank_eval.results.notes import report_notes
from fastrank_eval.results.result_view import size_and_conventions
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

__all__ = ["Printed", "markdown", "plain"]

_NARROW = 12  # least width of names
_ROOM = 80  # columns of text that is printed nobody knows where
#: Tables of movers, by candidate and measure.
TopChanges = Mapping[tuple[str, str], pa.Table]


def plain(comparison: ComparisonRecords) -> str:
    """Lay a comparison out as text without markup: a table, verdicts, size, conventions."""
    size, conventions = size_and_conventions(comparison.meta)
    lines = plain_lines(one_line_each(_table(comparison, _whole(comparison))))
    for score in comparison.scores:
        lines += _named(comparison, score)
    for score in comparison.scores:
        for of in compared_slices(comparison, score, _ROOM):
            lines += ["", of.title, *plain_lines(of.cells)]
    if any(v.by is not None for v in comparison.values):
        lines.append("")
    return "\n".join([*lines, *_notes(comparison), size, conventions])


def markdown(comparison: ComparisonRecords, top_changes: TopChanges, top: int) -> str:
    """Lay a comparison out as markdown, with the groups that moved most."""
    size, conventions = size_and_conventions(comparison.meta)
    blocks = [markdown_lines(_table(comparison, _whole(comparison)))]
    for score in comparison.scores:
        blocks += [[f"* {code_span(said)}" for said in _named(comparison, score)]]
    for score in comparison.scores:
        for table in compared_slices(comparison, score):
            blocks += [[code_span(table.title)], markdown_lines(table.cells)]
    for (score, measure), of_groups in top_changes.items():
        title = code_span(printable(_movers_title(comparison, score, measure)))
        blocks += [[title], markdown_lines(_movers(of_groups))]
    for score in comparison.scores:
        blocks += [[code_span(line)] for line in _changed_slices(comparison, score, top)]
    notes = [*map(code_span, _notes(comparison)), size, code_span(conventions)]
    blocks.append(["  \n".join(notes)])
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


@dataclass(frozen=True)
class Printed:
    """A comparison on a terminal: for each candidate a table, verdicts and movers.

    Parameters
    ----------
    comparison : ComparisonRecords
    moved : mapping of (str, str) to pyarrow.Table
    top : int
        How many slices that moved most are told, of those that rose and of those that fell.
    """

    comparison: ComparisonRecords
    top_changes: TopChanges
    top: int

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.text import Text

        comparison, room = self.comparison, options.max_width
        level = next(
            (
                level
                for level in range(len(_LEVELS))
                if fits(_table(comparison, _whole(comparison), level), room)
            ),
            len(_LEVELS) - 1,
        )
        for score in comparison.scores:
            mine = [v for v in _whole(comparison) if v.score == score]
            content = _table(comparison, mine, level)
            names = dict.fromkeys(content.header[1 : content.names], _NARROW)
            yield from sections(content, room, names, bold="delta")
            for said, style in _verdicts(comparison, score):
                yield Text(said, style=style)
            yield Text()
            for of in compared_slices(comparison, score, room):
                yield Text(of.title, style="bold cyan", overflow="fold")
                yield grid(of.cells)
                yield Text()
            yield from self._largest_changes(score, room)
            for line in _changed_slices(comparison, score, self.top):
                yield Text(line)
                yield Text()
        size, conventions = size_and_conventions(comparison.meta)
        for line in (*_notes(comparison), size):
            yield Text(line)
        yield Text(conventions, style="dim")

    def _largest_changes(self, score: str, room: int) -> Iterator[RenderableType]:
        for (name, measure), table in self.top_changes.items():
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
    """What is said of a candidate over all rows, and in what style; the undecided on one line."""
    mine = [v for v in _whole(comparison) if v.score == score]
    undecided = [v for v in mine if is_undecided(v, _confidence(comparison))]
    for v in mine:
        if len(undecided) == 1 or v not in undecided:
            word = v.verdict.removeprefix(f"{v.score} is ").partition(":")[0]
            yield printable(v.verdict), _STYLES.get(word, "")
    if len(undecided) > 1:
        yield printable(undecided_text(undecided)), ""


def _named(comparison: ComparisonRecords, score: str) -> Iterator[str]:
    """The same where no title says of which candidate."""
    several, name = len(comparison.scores) > 1, printable(score)
    for said, _ in _verdicts(comparison, score):
        yield f"{name}: {said}" if several and not said.startswith(f"{name} ") else said


def _confidence(comparison: ComparisonRecords) -> float:
    confidence = comparison.meta.conventions.get("confidence")
    return confidence if isinstance(confidence, float) else 0.95


def _whole(comparison: ComparisonRecords) -> list[ComparedValue]:
    return [v for v in comparison.values if v.by is None]


def _table(comparison: ComparisonRecords, values: Sequence[ComparedValue], level: int = 0) -> Cells:
    """Lay cells out: the higher the level, the fewer columns."""
    without, beside = _LEVELS[level]
    conventions = comparison.meta.conventions
    confidence = f"{100 * _confidence(comparison):.12g}% CI"
    correction = conventions.get("correction") or "none"
    known = any(map(interval_text, _whole(comparison)))
    under = known and not beside
    columns: dict[str, Callable[[ComparedValue], str]] = {
        "candidate": lambda v: printable(f"{v.score} against {v.baseline}"),
        "measure": lambda v: printable(v.measure) + _aggregate(v),
        "baseline": lambda v: number_text(v.base_value, v.aggregate),
        "value": lambda v: number_text(v.value, v.aggregate),
        f"delta\n{confidence}" if under else "delta": lambda v: _delta(v) + _reach(v) * under,
        confidence: lambda v: interval_text(v) or "n/a",
        "relative": lambda v: _per_cent(v.relative),
        "p": lambda v: _probability(v.p_value),
        f"p {correction}": lambda v: _probability(v.p_adjusted),
        "mdd": _detectable,
        "wins": lambda v: _groups(v.wins),
        "ties": lambda v: _groups(v.ties),
        "losses": lambda v: _groups(v.losses),
    }
    left_out = {*without} | {
        *[confidence] * (under or not known),
        *["p none"] * (correction == "none"),
    }
    if correction == "none":
        left_out -= {"p"}
    shown = {title: cell for title, cell in columns.items() if title not in left_out}
    names = list(shown).index("baseline")
    return Cells(list(shown), names, [[cell(v) for cell in shown.values()] for v in values])


#: Columns left out, and whether intervals stand beside differences or under them.
_LEVELS = (
    ((), True),
    (("mdd",), True),
    (("mdd", "relative"), True),
    (("mdd", "relative", "p"), True),
    (("mdd", "relative", "p"), False),
    (("mdd", "relative", "p", "wins", "ties", "losses"), False),
)


def _movers_title(comparison: ComparisonRecords, score: str, measure: str) -> str:
    return f"groups that moved {measure} most, {score} against {comparison.baseline}"


def _changed_slices(comparison: ComparisonRecords, score: str, top: int) -> Iterator[str]:
    """The slices in which the first measure moved most, on a line."""
    top_changes = comparison._changed_slices(comparison.measures[0], score, top) if top else []
    if top_changes:
        said = ", ".join(f"{value.slice} {_delta(value)}" for value in top_changes)
        title = f"slices that moved {comparison.measures[0]} most, {score} against "
        yield printable(f"{title}{comparison.baseline}: {said}")


def _movers(table: pa.Table) -> Cells:
    """Cells of a table of movers: keys, rows, both values, contribution."""
    names = table.num_columns - 4
    rows = [
        [
            *(printable(str(key)) for key in line["group"].values()),
            f"{line['rows']:,}",
            *(
                "undefined" if line[side] is None else f"{line[side]:#.6g}"
                for side in ("base", "value")
            ),
            f"{line['contribution']:+.3g}",
        ]
        for line in movers_lines(table)
    ]
    titles = [printable(name) for name in table.column_names[:names]]
    return Cells([*titles, "rows", "base", "value", "contribution"], names, rows)


def _notes(comparison: ComparisonRecords) -> list[str]:
    """Tell of RelaImpr, rough intervals, groups not in pairs, and rows that differ."""
    found = []
    if comparison.joined is not None:
        joined = comparison.joined
        found.append(
            f"groups joined by key: {joined['both']:,} in both results, "
            f"{joined['only_base']:,} only in the baseline, "
            f"{joined['only_candidate']:,} only in the candidate"
        )
        if joined["rows_differ"]:
            found.append(
                f"{count_text(joined['rows_differ'], 'group')} with other numbers of rows in the "
                "two results: they may not be of the same rows"
            )
    for score in comparison.scores:
        over_chance = [
            f"{v.measure} {_over_chance(v, _confidence(comparison))}"
            for v in _whole(comparison)
            if v.score == score and (not math.isnan(v.rela_impr) or v.rela_impr_caution)
        ]
        if over_chance:
            found.append(f"RelaImpr of {score}: {'; '.join(over_chance)}")
    found += compared_slices_notes(comparison, str(comparison.meta.conventions.get("correction")))
    few = [v for v in _whole(comparison) if v.caution == "few_groups"]
    if few:
        found.append(
            f"intervals are rough, with fewer than {FEW_GROUPS} effective groups: "
            + ", ".join(dict.fromkeys(_name(v, comparison) for v in few))
        )
    apart: dict[tuple[str, int, int], list[str]] = {}
    for v in _whole(comparison):
        if v.only_base or v.only_candidate:
            key = v.score, v.only_base or 0, v.only_candidate or 0
            apart.setdefault(key, []).append(v.measure)
    for (score, base, candidate), measures in apart.items():
        found.append(
            f"groups with a value under one model only: {base:,} under {comparison.baseline}, "
            f"{candidate:,} under {score}: {', '.join(measures)}"
        )
    found += report_notes(comparison.evaluated, comparison.meta)
    return [printable(line) for line in found]


def _name(value: ComparedValue, comparison: ComparisonRecords) -> str:
    model = f" of {value.score}" if len(comparison.scores) > 1 else ""
    return f"{value.measure}{model}"


def _probability(p_value: float) -> str:
    if math.isnan(p_value):
        return "n/a"
    return "<0.0001" if p_value < 1e-4 else f"{p_value:.4f}"


def _delta(value: ComparedValue) -> str:
    return "n/a" if math.isnan(value.delta) else amount(value.delta, digits_of(value), sign=True)


def _reach(value: ComparedValue) -> str:
    """Half the interval, on a line of its own; nothing where there is none."""
    if not interval_text(value):
        return ""
    return f"\n±{amount((value.ci_high - value.ci_low) / 2, digits_of(value))}"


def _aggregate(value: ComparedValue) -> str:
    return "" if value.aggregate in ("mean", "pooled") else f" ({value.aggregate})"


def _groups(number: int | None) -> str:
    return "n/a" if number is None else f"{number:,}"


def _detectable(value: ComparedValue) -> str:
    return amount(value.mdd, digits_of(value)) if value.mdd > 0 else "n/a"


def _over_chance(value: ComparedValue, confidence: float) -> str:
    """RelaImpr with its interval, and whether the difference is significant."""
    if math.isnan(value.rela_impr):
        return f"undefined, as {value.baseline} is not above 0.5"
    said = _per_cent(value.rela_impr)
    ends = value.rela_impr_ci_low, value.rela_impr_ci_high
    if value.rela_impr_caution:
        said += f" (no interval, as {value.baseline} is too near 0.5)"
    elif all(map(math.isfinite, ends)):
        low, high = map(_per_cent, ends)
        said += f" ({100 * confidence:.12g}% CI {low} to {high})"
    if math.isnan(value.p_adjusted):
        return f"{said}, not tested"
    return said if is_shown(value, confidence) else f"{said}, not significant"


def _per_cent(share: float) -> str:
    return "n/a" if math.isnan(share) else f"{share:+.2%}"
