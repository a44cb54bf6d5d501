"""Show a result as text, a document, JSON and CSV, with its notes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Any

import pyarrow as pa

from fastrank_eval._lib.arguments import typed
from fastrank_eval.engine.records import (
    JSON_SCHEMAS,
    VALUE_SCHEMA,
    MeasureValue,
    Meta,
    record_rows,
    record_table,
    shown_names,
)
from fastrank_eval.engine.slice_calibration import CalibrationTables
from fastrank_eval.measures import Measure, measure
from fastrank_eval.results.format import (
    decimals,
    detail_text,
    half_width_text,
    interval_text,
    measure_text,
    number_text,
    percent_text,
    printable,
    share_text,
)
from fastrank_eval.results.lookup import find_calibration, find_score
from fastrank_eval.results.notes import (
    NEGATIVE,
    meta_with_notes,
    names_of,
    report_notes,
    size_and_conventions,
)
from fastrank_eval.results.slice_view import (
    AT_LEAST,
    FEW,
    FEW_NOTE,
    LAYOUTS,
    Layout,
    SliceSheet,
    best_models,
    left_out_notes,
    slice_rows,
    slice_tables,
    worst_slices,
)
from fastrank_eval.results.tables import (
    TEXT_WIDTH,
    Name,
    Report,
    Table,
    first_that_fits,
    sections,
)
from fastrank_eval.results.views import View
from fastrank_eval.stats.intervals import FEW_GROUPS

_NARROW, _REASON = 12, 13  # least widths of names and of reasons ("few_positives")


class Reported(View):
    """What programs, JSON and people read of a result."""

    values: tuple[MeasureValue, ...]
    scores: tuple[str, ...]
    measures: tuple[str, ...]
    requested: Mapping[str, str]
    meta: Meta
    #: The slices of multicalibration errors, by score column and canonical text of the measure.
    calibration: CalibrationTables

    @cached_property
    def names(self) -> dict[str, str]:
        """The names that reports show, by canonical text of the measure."""
        return shown_names(self.measures, self.values)

    @typed
    def multicalibration(
        self, measure: str | Measure | None = None, score: str | None = None
    ) -> pa.Table:
        """Return the calibration of each slice of MultiECCE, worst first.

        Parameters
        ----------
        measure : str or Measure, optional
            MultiECCE with its options; not needed if there is only one.
        score : str, optional
            Score column; not needed if there is only one.

        Returns
        -------
        pyarrow.Table
            slice (``"all"``, ``"country=DE"``, ``"country=DE,slot=1"``), rows, expected and
            observed (positives, weighted), error (ECCE), sigmas (ECCE over the standard deviation
            of observed less expected positives per row of a calibrated model),
            p_value, p_adjusted (Holm, over all slices). The most sigmas come first.
            Empty where the measure is undefined.

        Raises
        ------
        MeasureError
            If no measure of multicalibration was part of the evaluation, or not this one.
        ArgumentError
            If the score column was not part of it, or is left out where there are several.

        References
        ----------
        Guy et al. (2025), arXiv:2506.11251.
        """
        texts = tuple(dict.fromkeys(text for _, text in self.calibration))
        text = find_calibration(measure, texts, self.names, self.requested)
        return self.calibration[find_score(score, self.scores, self.names), text]

    def records(self) -> pa.Table:
        """Return all values: one row a score, slice and measure.

        Returns
        -------
        pyarrow.Table
            score, by (the slicing without its edges; null for all rows), slice, measure, name (the
            name that was asked for, such as MAP for AP), value (null if undefined), se, ci_low,
            ci_high, effective_groups, weight, caution, groups, groups_used, dropped (map of reason
            to count), rows_share, positives_share (null without rows or positives), aggregate
            ("mean", "geometric mean", "sum" or "pooled"), details (map of name to number).
        """
        return record_table(self.values, VALUE_SCHEMA)

    def _rows(self) -> list[dict[str, Any]]:
        return record_rows(self.values, VALUE_SCHEMA)

    def document(self) -> dict[str, Any]:
        """Return the plain Python values that JSON has.

        Returns
        -------
        dict
            ``{"schema", "meta": {"version", "rows", "groups", "conventions", "seconds"},
            "results"}``: the rows of `records`; None for NaN. The meta has ``"requested"`` too
            where names of measures stand for other texts, and ``"notes"``, a list of sentences,
            where there are any. With a measure of multicalibration there is ``"worst_slices"`` too:
            score, measure and the columns of :meth:`multicalibration`, the ten worst slices of
            each.
        """
        slices = slice_rows(self.calibration)
        return {
            "schema": JSON_SCHEMAS["evaluation"],
            "meta": meta_with_notes(self.values, self.meta),
            "results": self._rows(),
            **({"worst_slices": slices} if slices else {}),
        }

    @typed
    def report(self, width: int | None = None, *, wide: bool = False) -> Report:
        """Build the report that people read; see `View.report`."""
        by_model = not wide and len(self.scores) > 1
        if by_model:
            coverage = coverage_tables(_of_all_rows(self), self.meta, width)
            overall = [*_overall_by_model(self, width), *coverage]
        else:
            overall = list(_overall_tables(self, width))
        size, conventions = size_and_conventions(self.meta, width)
        notes = map(printable, report_notes(self.values, self.meta))
        return Report(
            f"Evaluation of {', '.join(map(printable, self.scores))}",
            [
                *overall,
                *_slice_tables(self, width, by_model),
                *worst_slices(self.calibration, width),
            ],
            list(_legend(self, by_model)),
            [*_details(self), *_cautions(self, by_model), *notes],
            size,
            conventions,
        )


def _of_all_rows(result: Reported) -> list[MeasureValue]:
    return [v for v in result.values if v.by is None]


def _interval(value: MeasureValue) -> str:
    """Format the interval to two digits of its half width, or as ""."""
    digits = decimals((value.ci_high - value.ci_low) / 2)
    return interval_text(value.ci_low, value.ci_high, digits, spare="#.6g")


def _half_width(value: MeasureValue) -> str:
    """Format the larger half of the interval to two digits, or as ""."""
    half_width = max(value.ci_high - value.value, value.value - value.ci_low)
    return half_width_text(half_width, decimals(half_width))


def _overall_tables(result: Reported, width: int | None) -> Iterator[Table]:
    """Lay out all rows, model by model.

    For a narrow terminal group totals are left out, intervals stand as a distance under their
    value, and names and reasons are folded. No digit is cut off.
    """
    if width is None:
        yield _overall(result)
        return
    table = first_that_fits((_overall(result, *layout) for layout in LAYOUTS), width)
    yield from sections(table, width, {table.header[1]: _NARROW, "dropped": _REASON})


def _overall(result: Reported, totals: bool = True, side_by_side: bool = True) -> Table:
    """Build the table of all rows.

    Parameters
    ----------
    result : Reported
    totals : bool
        Show the totals of groups.
    side_by_side : bool
        Show intervals next to values, not under them.
    """
    values = _of_all_rows(result)
    has_intervals = any(map(_interval, values))
    has_slices = any(v.slice != "all" for v in values)
    confidence = result.meta.conventions.get("confidence")
    level = f"{percent_text(confidence)} CI" if isinstance(confidence, float) else "CI"
    under, beside = has_intervals and not side_by_side, has_intervals and side_by_side
    rows = [
        [
            printable(v.score),
            *[printable(v.slice)] * has_slices,
            measure_text(v.shown, v.aggregate),
            number_text(v.value, v.aggregate) + f"\n{_half_width(v)}".rstrip() * under,
            *[_interval(v) or "n/a"] * beside,
            *_coverage(v, result.meta, totals),
        ]
        for v in values
    ]
    names = ["score", *["slice"] * has_slices, "measure"]
    numbers = ["value" + f"\n{level}" * under, *[level] * beside]
    return Table([*names, *numbers, *_coverage_titles(totals)], len(names), rows, bold="value")


def _coverage_titles(totals: bool) -> list[str]:
    return ["groups used" if totals else "groups\nused", "dropped", "rows", "positives"]


def _coverage(value: MeasureValue, meta: Meta, totals: bool) -> list[str]:
    """Format the groups and rows behind a value."""
    dropped = [f"{count:,} {reason}" for reason, count in value.dropped.items() if count]
    return [
        f"{value.groups_used:,}" + f"/{value.groups:,}" * totals
        if meta.groups or not meta.rows
        else "none",
        "\n".join(dropped) or "none",
        share_text(value.rows_share),
        share_text(value.positives_share),
    ]


def _overall_by_model(result: Reported, width: int | None) -> Iterator[Table]:
    """Lay out all rows, models side by side."""
    rows: dict[str, dict[str, MeasureValue]] = {}
    for v in _of_all_rows(result):
        rows.setdefault(measure_text(v.shown, v.aggregate), {})[v.score] = v
    return slice_tables([_MeasureSheet((), rows)] if rows else [], width)


def coverage_tables(
    values: Sequence[MeasureValue], meta: Meta, width: int | None
) -> Iterator[Table]:
    """Lay out the coverage of values of all rows, once where it is equal.

    Parameters
    ----------
    values : sequence of MeasureValue
    meta : Meta
    width : int, optional
        As in `slice_tables`.

    Yields
    ------
    Table
        One, if there are values.
    """
    scores = {v.score for v in values}
    owners: dict[tuple[str, ...], list[MeasureValue]] = {}
    for v in values:
        owners.setdefault(tuple(_coverage(v, meta, totals=True)), []).append(v)

    def table(totals: bool) -> Table:
        label = Layout(totals, True, width).label
        rows = [
            [
                "",
                label(names_of(own, scores)).replace("\n ", "\n"),
                *_coverage(own[0], meta, totals),
            ]
            for own in owners.values()
        ]
        return Table(["", "coverage", *_coverage_titles(totals)], 2, rows)

    fitting = table(True) if width is None else first_that_fits(map(table, (True, False)), width)
    yield from sections(fitting, width or TEXT_WIDTH, {"coverage": _NARROW, "dropped": _REASON})


class _ResultSheet(SliceSheet[MeasureValue]):
    """The slices of one slicing, for a model by measure."""

    mark_width = len(AT_LEAST)

    def group_titles(self, layout: Layout) -> list[str]:
        return ["groups used" if layout.width is None else "groups\nused", "rows"]

    def group_cells(
        self, row: Mapping[str, MeasureValue], measures: Sequence[str], layout: Layout
    ) -> list[str]:
        values = [row[measure] for measure in measures]
        fewest = min(values, key=lambda v: v.groups_used)
        mark = AT_LEAST * (len({v.groups_used for v in values}) > 1)
        used = f"{mark}{fewest.groups_used:,}" + f"/{fewest.groups:,}" * layout.totals
        used = used if fewest.groups else "none"
        share = share_text(fewest.rows_share)
        return [used, mark * (share[:1].isdigit() and share != "100%") + share]

    def heading(self, value: MeasureValue) -> str:
        return measure_text(value.shown, value.aggregate)

    def cell(self, value: MeasureValue, layout: Layout) -> str:
        number, half_width = number_text(value.value, value.aggregate), _half_width(value)
        if value.caution == "one_group":
            return number + _ONE
        if not half_width:
            return number
        separator = " " if layout.side_by_side else "\n"
        return number + separator + half_width + FEW * (value.caution == "few_groups")


class _ModelSheet(_ResultSheet):
    """The slices of one slicing, for a measure by model."""

    def heading(self, value: MeasureValue) -> str:
        return Name(printable(value.score))

    def best(self, row: Mapping[str, MeasureValue]) -> frozenset[str]:
        value = next(iter(row.values()))
        numbers = {model: v.value for model, v in row.items()}
        return best_models(
            numbers, measure(value.measure), partial(number_text, aggregate=value.aggregate)
        )


class _MeasureSheet(_ModelSheet):
    """All rows, by measure and model."""

    lines = "measure"

    def group_titles(self, layout: Layout) -> list[str]:
        return []

    def group_cells(
        self, row: Mapping[str, MeasureValue], columns: Sequence[str], layout: Layout
    ) -> list[str]:
        return []


_ONE = "†"

_Values = dict[str, dict[str, dict[str, MeasureValue]]]


def _slice_tables(result: Reported, width: int | None, by_model: bool) -> Iterator[Table]:
    """Lay out the slices, by slicing, then by model or measure."""
    slicings: dict[str | None, _Values] = {None: {}}
    for v in result.values:
        text = measure_text(v.shown, v.aggregate)
        title, column = (text, v.score) if by_model else (v.score, text)
        rows = slicings.setdefault(v.by, {}).setdefault(title, {})
        rows.setdefault(v.slice, {})[column] = v
    overall = slicings.pop(None)
    sheet = _ModelSheet if by_model else _ResultSheet
    for by, tables in slicings.items():
        sheets = [sheet((title, str(by)), overall[title] | rows) for title, rows in tables.items()]
        yield from slice_tables(sheets, width)


def _legend(result: Reported, by_model: bool) -> Iterator[str]:
    """Explain marks in tables, and note slices that are left out."""
    has_slices = any(v.by is not None for v in result.values)
    values = result.values if has_slices or by_model else ()
    used: dict[tuple[str, str | None, str], set[int]] = {}
    for v in values if has_slices else ():
        key = v.measure if by_model else v.score, v.by, v.slice
        used.setdefault(key, set()).add(v.groups_used)
    if any(len(groups) > 1 for groups in used.values()):
        what = "models" if by_model else "measures"
        yield f"{AT_LEAST} where {what} differ: groups and rows of the one that uses the fewest"
    confidence = result.meta.conventions.get("confidence")
    if by_model and isinstance(confidence, float) and any(map(_half_width, values)):
        yield f"± half of the {percent_text(confidence)} confidence interval"
    if any(v.caution == "few_groups" for v in values):
        yield FEW_NOTE
    if any(v.caution == "one_group" for v in values):
        yield f"{_ONE} one group has no standard error"
    yield from left_out_notes(result.meta)


def _details(result: Reported) -> Iterator[str]:
    """Yield the details of values, one line for equal details of a model."""
    lines: dict[tuple[str, str], list[str]] = {}
    for v in _of_all_rows(result):
        if v.details.keys() - {NEGATIVE}:
            details = ", ".join(
                f"{name} {detail_text(number)}"
                for name, number in v.details.items()
                if name != NEGATIVE  # a note has it
            )
            lines.setdefault((v.score, details), []).append(v.shown)
    for (score, details), measures in lines.items():
        model = f" of {score}" if len(result.scores) > 1 else ""
        yield printable(f"{', '.join(measures)}{model}: {details}")


def _cautions(result: Reported, by_model: bool) -> Iterator[str]:
    """Yield cautions: rough intervals without a mark, values of one group."""
    values = _of_all_rows(result)
    few = [v for v in values if v.caution == "few_groups"]
    one = [v for v in values if v.caution == "one_group"]
    if few and not by_model:
        by_number: dict[str, list[MeasureValue]] = {}
        for v in few:
            by_number.setdefault(f"{v.effective_groups:.3g}", []).append(v)
        numbers = "; ".join(
            f"{number} of {names_of(own, result.scores)}" for number, own in by_number.items()
        )
        yield printable(
            f"intervals are rough, with fewer than {FEW_GROUPS} effective groups: {numbers}"
        )
    if one:
        yield printable(f"one group has no standard error: {names_of(one, result.scores)}")
    alike = [v for v in values if v.caution == "no_variance"]
    if alike:
        names = names_of(alike, result.scores)
        yield printable(f"groups do not vary, so there is no standard error: {names}")
    none = [v for v in values if v.caution == "no_groups"]
    if none:
        yield printable(f"no standard error without groups: {names_of(none, result.scores)}")
