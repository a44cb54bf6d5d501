"""Lay out the values of a result as a report, with its notes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from fastrank_eval.engine.records import CalibrationTables, MeasureValue, Meta
from fastrank_eval.measures import measure
from fastrank_eval.measures.pooled import CLUSTERS
from fastrank_eval.results.notes import NEGATIVE, end_lines, names_of, report_notes, unit_of
from fastrank_eval.results.report import (
    Best,
    Name,
    Report,
    Table,
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
from fastrank_eval.results.views import (
    AT_LEAST,
    FEW,
    all_rows,
    best_models,
    by_slicing,
    few_note,
    groups_differ,
    left_out_notes,
    slice_table,
    worst_slices,
)
from fastrank_eval.stats.intervals import FEW_GROUPS


def report_of(
    values: Sequence[MeasureValue],
    meta: Meta,
    scores: Sequence[str],
    calibration: CalibrationTables,
    wide: bool,
) -> Report:
    """Build the report of values that people read.

    Parameters
    ----------
    values : sequence of MeasureValue
    meta : Meta
    scores : sequence of str
        All models.
    calibration : mapping of (str, str) to pyarrow.Table
        As `calibration_tables` returns them.
    wide : bool
        As for `View.report`.
    """
    by_model = not wide and len(scores) > 1
    overall = [v for v in values if v.by is None]
    tables = [_overall(overall, meta)]
    if by_model:
        tables = [*_by_model(overall), *coverage_tables(overall, meta)]
    notes = (
        *_details(overall, scores, meta),
        *_warnings(overall, scores, by_model, unit_of(meta.conventions)),
    )
    legend = _legend(values, meta, by_model)
    return Report(
        printable(f"Evaluation of {', '.join(scores)}"),
        [
            *tables,
            *_slice_tables(values, meta, by_model),
            *worst_slices(calibration),
            *end_lines(meta, legend, [*notes, *report_notes(values, meta)]),
        ],
    )


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
    level = f"{percent_text(meta.confidence)} CI" if meta.confidence else "CI"
    has_intervals = any(map(_interval, values))
    names: dict[str, Callable[[MeasureValue], str]] = {"score": lambda v: printable(v.score)}
    if score is not None:
        names = {}
    if any(v.slice != "all" for v in values):
        names["slice"] = lambda v: printable(v.slice)
    names["measure"] = lambda v: measure_text(v.display_name, v.aggregate)
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
            rows=lambda v: measure_text(v.display_name, v.aggregate),
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
    if value.warning == "one_group":
        return number + _ONE
    rough = FEW * (value.warning == "few_groups")
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


def _slice_tables(values: Sequence[MeasureValue], meta: Meta, by_model: bool) -> Iterator[Table]:
    """Lay out the slices, by slicing, then by model or measure."""

    def name(v: MeasureValue) -> str:
        return measure_text(v.display_name, v.aggregate)

    def model(v: MeasureValue) -> str:
        return v.score

    table_of, column_of = (name, model) if by_model else (model, name)
    for by, title, overall, own in by_slicing(values, table_of):
        yield slice_table(
            [*overall, *own],
            rows=lambda v: v.slice if v.by else all_rows(meta),
            columns=column_of,
            cells=_model_cell if by_model else lambda v, _: [(name(v), _text(v))],
            lead=_groups,
            title=f"{title} by {by}",
        )


def _legend(values: Sequence[MeasureValue], meta: Meta, by_model: bool) -> Iterator[str]:
    """Explain marks in tables, and note slices that are left out."""
    has_slices = any(v.by is not None for v in values)
    values = values if has_slices or by_model else ()
    if has_slices and groups_differ(values, by_model, lambda v: v.groups_used):
        what = "models" if by_model else "measures"
        yield f"{AT_LEAST} where {what} differ: groups and rows of the one that uses the fewest"
    if by_model and meta.confidence and any(map(_half_width, values)):
        yield f"± half of the {percent_text(meta.confidence)} confidence interval"
    if any(v.warning == "few_groups" for v in values):
        yield few_note(meta)
    if any(v.warning == "one_group" for v in values):
        yield f"{_ONE} one {unit_of(meta.conventions)} has no standard error"
    yield from left_out_notes(meta)


def _details(values: Sequence[MeasureValue], scores: Sequence[str], meta: Meta) -> Iterator[str]:
    """Yield the details of values, one line for equal details of a model."""
    noted = {NEGATIVE, *([CLUSTERS] if CLUSTERS in meta.conventions else [])}
    lines: dict[tuple[str, str], list[str]] = {}
    for v in values:
        if v.details.keys() - noted:
            details = ", ".join(
                f"{name} {detail_text(number)}"
                for name, number in v.details.items()
                if name not in noted  # a note has it
            )
            lines.setdefault((v.score, details), []).append(v.display_name)
    for (score, details), measures in lines.items():
        model = f" of {score}" if len(scores) > 1 else ""
        yield printable(f"{', '.join(measures)}{model}: {details}")


def _warnings(
    values: Sequence[MeasureValue], scores: Sequence[str], by_model: bool, unit: str
) -> Iterator[str]:
    """Yield warnings: rough intervals without a mark, values of one group."""
    few = [v for v in values if v.warning == "few_groups"]
    if few and not by_model:
        by_number: dict[str, list[MeasureValue]] = {}
        for v in few:
            by_number.setdefault(f"{v.effective_groups:.3g}", []).append(v)
        numbers = "; ".join(
            f"{number} of {names_of(own, scores)}" for number, own in by_number.items()
        )
        yield printable(
            f"intervals are rough, with fewer than {FEW_GROUPS} effective {unit}s: {numbers}"
        )
    reasons = {
        "one_group": f"one {unit} has no standard error",
        "no_variance": f"{unit}s do not vary, so there is no standard error",
        "no_groups": "no standard error without groups",
        "merged": "merged states do not keep what the standard error needs",
    }
    for warning, reason in reasons.items():
        own = [v for v in values if v.warning == warning]
        if own:
            yield printable(f"{reason}: {names_of(own, scores)}")
