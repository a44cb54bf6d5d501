"""Show a result as text, a document, JSON and CSV, with its notes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from fastrank_eval._lib.arguments import typed
from fastrank_eval.engine.records import (
    JSON_SCHEMAS,
    VALUE_SCHEMA,
    MeasureValue,
    Meta,
    record_table,
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
from fastrank_eval.results.labels import Labelled
from fastrank_eval.results.lookup import find_calibration
from fastrank_eval.results.notes import (
    NEGATIVE,
    end_lines,
    meta_with_notes,
    names_of,
    report_notes,
)
from fastrank_eval.results.report import Best, Name, Report, Table
from fastrank_eval.results.slice_tables import (
    AT_LEAST,
    FEW,
    FEW_NOTE,
    best_models,
    left_out_notes,
    slice_rows,
    slice_table,
    worst_slices,
)
from fastrank_eval.stats.intervals import FEW_GROUPS


class Reported(Labelled):
    """What programs, JSON and people read of a result."""

    _schema = VALUE_SCHEMA
    values: tuple[MeasureValue, ...]
    #: The slices of multicalibration errors, by score column and canonical text of the measure.
    calibration: CalibrationTables

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
        self._refuse_labels()
        texts = tuple(dict.fromkeys(text for _, text in self.calibration))
        text = find_calibration(measure, texts, self.names, self.requested)
        return self.calibration[self._find_score(score), text]

    def records(self) -> pa.Table:
        """Return all values: one row a score, slice and measure.

        Returns
        -------
        pyarrow.Table
            score, by (the slicing without its edges; null for all rows), slice, measure, name (the
            name that was asked for, such as MAP for AP), value (null if undefined), se, ci_low,
            ci_high, effective_groups, weight, caution, groups, groups_used, dropped (map of reason
            to count), rows_share, positives_share (null without rows or positives), aggregate
            ("mean", "geometric mean", "sum" or "pooled"), details (map of name to number). Of a
            list of labels, label comes first.
        """
        return record_table(self.values, self._columns)

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
            each. Of a list of labels, ``{"schema", "labels": {label: document}}``.
        """
        if self.labels:
            return self._document_of_labels()
        slices = slice_rows(self.calibration)
        return {
            "schema": JSON_SCHEMAS["evaluation"],
            "meta": meta_with_notes(self.values, self.meta),
            "results": self._rows(),
            **({"worst_slices": slices} if slices else {}),
        }

    @typed
    def report(self, *, wide: bool = False) -> Report:
        """Build the report that people read; see `View.report`."""
        if self.labels:
            return self._report_of_labels(wide=wide)
        by_model = not wide and len(self.scores) > 1
        overall = _of_all_rows(self)
        tables = [_overall(overall, self.meta)]
        if by_model:
            tables = [*_by_model(overall), *coverage_tables(overall, self.meta)]
        notes = *_details(self), *_cautions(self, by_model), *report_notes(self.values, self.meta)
        return Report(
            printable(f"Evaluation of {', '.join(self.scores)}"),
            [
                *tables,
                *_slice_tables(self.values, by_model),
                *worst_slices(self.calibration),
                *end_lines(self.meta, _legend(self, by_model), notes),
            ],
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


def _overall(values: Sequence[MeasureValue], meta: Meta) -> Table:
    """Lay out all rows; in a narrow terminal a table for each model."""
    models: dict[str, list[MeasureValue]] = {}
    for v in values:
        models.setdefault(v.score, []).append(v)
    narrower = tuple(
        _one_model(own, meta, name, narrower=(_one_model(own, meta, name, beside=False),))
        for name, own in models.items()
    )
    return _one_model(values, meta, None, narrower=narrower)


def _one_model(
    values: Sequence[MeasureValue],
    meta: Meta,
    score: str | None,
    beside: bool = True,
    narrower: tuple[Table, ...] = (),
) -> Table:
    """Build the table of all rows.

    Parameters
    ----------
    values : sequence of MeasureValue
    meta : Meta
    score : str or None
        The model, which is the title; None for a column of models.
    beside : bool
        Show intervals next to values, not under them.
    narrower : tuple of Table
    """
    confidence = meta.conventions.get("confidence")
    level = f"{percent_text(confidence)} CI" if isinstance(confidence, float) else "CI"
    has_intervals = any(map(_interval, values))
    names: dict[str, Callable[[MeasureValue], str]] = {"score": lambda v: printable(v.score)}
    if score is not None:
        names = {}
    if any(v.slice != "all" for v in values):
        names["slice"] = lambda v: printable(v.slice)
    names["measure"] = lambda v: measure_text(v.shown, v.aggregate)
    columns: dict[str, Callable[[MeasureValue], str]] = {
        "value": lambda v: number_text(v.value, v.aggregate)
    }
    if has_intervals and beside:
        columns[level] = lambda v: _interval(v) or "n/a"
    elif has_intervals:
        under = f"value\n{level}"
        columns = {
            under: lambda v: f"{number_text(v.value, v.aggregate)}\n{_half_width(v)}".rstrip()
        }
    rows = [
        [*(cell(v) for cell in (names | columns).values()), *_coverage(v, meta).values()]
        for v in values
    ]
    header = [*names, *columns, *_COVERAGE]
    return Table(header, rows, len(names), printable(score or ""), narrower=narrower)


_COVERAGE = ("groups used", "dropped", "rows", "positives")


def _coverage(value: MeasureValue, meta: Meta) -> dict[str, str]:
    """Format the groups and rows behind a value."""
    dropped = [f"{count:,} {reason}" for reason, count in value.dropped.items() if count]
    grouped = meta.groups or not meta.rows
    texts = (
        f"{value.groups_used:,}/{value.groups:,}" if grouped else "none",
        "\n".join(dropped) or "none",
        share_text(value.rows_share),
        share_text(value.positives_share),
    )
    return dict(zip(_COVERAGE, texts, strict=True))


def _by_model(values: Sequence[MeasureValue]) -> Iterator[Table]:
    """Lay out all rows, models side by side."""
    if values:
        yield slice_table(
            values,
            rows=lambda v: measure_text(v.shown, v.aggregate),
            columns=lambda v: v.score,
            cells=_model_cell,
            first="measure",
        )


def coverage_tables(values: Sequence[MeasureValue], meta: Meta) -> Iterator[Table]:
    """Lay out the coverage of values of all rows, once where it is equal."""
    scores = {v.score for v in values}
    owners: dict[tuple[str, ...], list[MeasureValue]] = {}
    for v in values:
        owners.setdefault(tuple(_coverage(v, meta).values()), []).append(v)
    if owners:
        rows = [[printable(names_of(own, scores)), *texts] for texts, own in owners.items()]
        yield Table(["coverage", *_COVERAGE], rows)


def _text(value: MeasureValue) -> str:
    """Format a value and its interval."""
    number, half_width = number_text(value.value, value.aggregate), _half_width(value)
    if value.caution == "one_group":
        return number + _ONE
    rough = FEW * (value.caution == "few_groups")
    return f"{number} {half_width}{rough}" if half_width else number


def _model_cell(value: MeasureValue, line: Sequence[MeasureValue]) -> list[tuple[str, str]]:
    """Write the cell of a model; the best one of the line is bold."""
    numbers = {v.score: v.value for v in line}
    text_of = partial(number_text, aggregate=value.aggregate)
    best = best_models(numbers, measure(value.measure), text_of)
    text = _text(value)
    return [(Name(printable(value.score)), Best(text) if value.score in best else text)]


def _groups(line: Sequence[MeasureValue]) -> list[tuple[str, str]]:
    """Write the groups and rows of the value that uses the fewest."""
    fewest = min(line, key=lambda v: v.groups_used)
    mark = AT_LEAST * (len({v.groups_used for v in line}) > 1)
    used = f"{mark}{fewest.groups_used:,}/{fewest.groups:,}" if fewest.groups else "none"
    share = share_text(fewest.rows_share)
    mark *= share[:1].isdigit() and share != "100%"
    return [("groups used", used), ("rows", mark + share)]


_ONE = "†"


def _slice_tables(values: Sequence[MeasureValue], by_model: bool) -> Iterator[Table]:
    """Lay out the slices, by slicing, then by model or measure."""

    def name(v: MeasureValue) -> str:
        return measure_text(v.shown, v.aggregate)

    def model(v: MeasureValue) -> str:
        return v.score

    table_of, column_of = (name, model) if by_model else (model, name)
    tables: dict[str, dict[str, list[MeasureValue]]] = {}
    for v in values:
        if v.by is not None:
            tables.setdefault(v.by, {}).setdefault(table_of(v), []).append(v)
    for by, title in ((by, title) for by, titles in tables.items() for title in titles):
        overall = [v for v in values if v.by is None and table_of(v) == title]
        own = tables[by][title]
        yield slice_table(
            [*overall, *own],
            rows=lambda v: v.slice,
            columns=column_of,
            cells=_model_cell if by_model else lambda v, _: [(name(v), _text(v))],
            lead=_groups,
            title=f"{title} by {by}",
        )


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
