"""Show a result as text, markdown, JSON and CSV, with its notes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from fastrank_eval._lib.arguments import check_indent, typed
from fastrank_eval.engine.records import (
    VALUE_SCHEMA,
    MeasureValue,
    Meta,
    plain_meta,
    record_csv,
    record_rows,
)
from fastrank_eval.engine.slice_calibration import CalibrationTables
from fastrank_eval.measures import Measure, measure
from fastrank_eval.measures.decisions import Decision, GroupDecision
from fastrank_eval.measures.options import text_of
from fastrank_eval.results.format import (
    count_text,
    decimals,
    detail_text,
    half_width_text,
    interval_text,
    list_text,
    measure_text,
    number_text,
    percent_text,
    printable,
    share_text,
    speed_text,
)
from fastrank_eval.results.lookup import find_calibration, find_score
from fastrank_eval.results.slice_view import (
    AT_LEAST,
    LAYOUTS,
    Layout,
    SliceSheet,
    left_out_notes,
    slice_rows,
    slice_tables,
    worst_slices,
)
from fastrank_eval.results.tables import (
    TEXT_WIDTH,
    Report,
    Table,
    Tabular,
    first_that_fits,
    sections,
)
from fastrank_eval.stats.intervals import FEW_GROUPS

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

#: Reasons of groups that ``groups='with_relevant'`` leaves out for every measure.
_NO_RELEVANT = ("no_relevant", "all_negative")

#: The mean over groups if no relevant row, and if every other row, is predicted positive.
_NO_HIT = {"PPV": 0.0, "TPR": 0.0, "FNR": 1.0, "FScore": 0.0}
_ALL_FALSE = {"FPR": 1.0, "TNR": 0.0}


def report_notes(values: Iterable[MeasureValue], meta: Meta) -> list[str]:
    """Write the notes on values that their numbers do not show.

    Parameters
    ----------
    values : iterable of MeasureValue
        Of all rows and of slices.
    meta : Meta

    Returns
    -------
    list of str
        One sentence each, without line breaks.
    """
    values = list(values)
    return [
        *_names(values, meta.requested),
        *_left_out(meta.conventions),
        *_populations(values, meta.conventions),
        *_thresholds(values),
    ]


def meta_with_notes(values: Iterable[MeasureValue], meta: Meta) -> dict[str, Any]:
    """Convert metadata to plain Python values, and add the notes."""
    notes = report_notes(values, meta)
    return {**plain_meta(meta), **({"notes": notes} if notes else {})}


def _names(values: Sequence[MeasureValue], requested: Mapping[str, str]) -> Iterator[str]:
    """Note which measure each name stands for, if names are ambiguous."""
    if not requested:
        return
    texts = {v.measure for v in values}
    names = [str(measure(name)) for name in requested]
    twice = len(set(names)) < len(names)
    if twice or any(name in texts and text != name for name, text in requested.items()):
        yield f"requested: {', '.join(f'{name} is {text}' for name, text in requested.items())}"


def _left_out(conventions: Mapping[str, object]) -> Iterator[str]:
    """Note rows that were left out, because they have no group key."""
    rows = conventions.get("rows_without_group")
    if isinstance(rows, int) and rows:
        yield f"{count_text(rows, 'row')} without a group key left out"


def _populations(
    values: Sequence[MeasureValue], conventions: Mapping[str, object]
) -> Iterator[str]:
    """Note means of one table over different groups, with the remedy."""
    groups = conventions.get("groups")
    if groups is None:
        return
    tables: dict[tuple[str | None, str], list[MeasureValue]] = {}
    for v in values:
        if v.aggregate in ("mean", "geometric mean") and v.groups_used:
            tables.setdefault((v.by, v.slice), []).append(v)
    unequal = {
        key: means for key, means in tables.items() if len({v.groups_used for v in means}) > 1
    }
    if not unequal:
        return
    # All rows come first.
    (by, label), means = next(iter(unequal.items()))
    where = "" if by is None else f" in the slice {label}"
    remedy = _remedy([v for group in unequal.values() for v in group], groups)
    yield f"means are over different groups{where}: {_denominators(means)}; {remedy}"


def _thresholds(values: Sequence[MeasureValue]) -> Iterator[str]:
    """Note thresholds that predict no row or every row positive."""
    measures_of: dict[tuple[str, str, str], list[str]] = {}
    for v in values:
        if v.by is not None or v.slice != "all":
            continue
        parsed = measure(v.measure)
        if isinstance(parsed, Decision):
            rows = _predicted_rows(v.details)
        elif isinstance(parsed, GroupDecision):
            rows = _predicted_rows_in_groups(v, parsed.of.name)
        else:
            continue
        if rows:
            threshold = text_of(parsed.chosen["threshold"])
            measures_of.setdefault((rows, v.score, threshold), []).append(v.shown)
    for (rows, score, threshold), measures in measures_of.items():
        yield (
            f"{rows} of {score} is predicted positive at threshold={threshold}: "
            f"{list_text(measures)}; name a threshold among the scores, as in FScore(threshold=0.1)"
        )


def _predicted_rows(cells: Mapping[str, float]) -> str:
    """Return "no row" or "every row" if that is predicted positive, else ""."""
    if "TP" not in cells:  # a measure of all classes: each row is predicted one of them
        return ""
    predicted, others = cells["TP"] + cells["FP"], cells["FN"] + cells["TN"]
    if not predicted:
        return "no row" if others else ""
    return "" if others else "every row"


def _predicted_rows_in_groups(value: MeasureValue, name: str) -> str:
    """Return as `_predicted_rows`, as far as means over groups show it."""
    for reason, rows in (("none_predicted", "no row"), ("all_predicted", "every row")):
        if value.dropped.get(reason) == value.groups > 0:
            return rows
    if value.value == _NO_HIT.get(name):
        return "no relevant row"
    return "every row that is not relevant" if value.value == _ALL_FALSE.get(name) else ""


def _denominators(means: Sequence[MeasureValue]) -> str:
    """List the numbers of groups of means, with their measures."""
    of_measure: dict[str, set[int]] = {}
    for v in means:
        of_measure.setdefault(v.measure, set()).add(v.groups_used)
    by_number: dict[int, list[str]] = {}
    for v in means:
        model = f" of {v.score}" if len(of_measure[v.measure]) > 1 else ""
        by_number.setdefault(v.groups_used, []).append(v.shown + model)
    return ", ".join(
        f"{number:,} ({list_text(names)})" for number, names in sorted(by_number.items())
    )


def _remedy(means: Sequence[MeasureValue], groups: object) -> str:
    """Name the option that gives means one population."""
    helps, other_reasons = False, dict[str, list[str]]()
    for v in means:
        for reason, number in v.dropped.items():
            if not number:
                continue
            if reason in _NO_RELEVANT and measure(v.measure).rel_or_default <= 1:
                helps = True
            else:
                other_reasons.setdefault(reason, []).append(v.shown)
    if groups != "with_relevant" and helps:
        option = "groups='with_relevant' (--groups with_relevant) gives them one population"
        exceptions = [
            f"{list_text(measures)} still leaves out {reason}"
            for reason, measures in other_reasons.items()
        ]
        return "; ".join([option, *exceptions])
    if other_reasons.keys() <= {"zero_weight"}:
        return "groups of weight 0 are left out"
    return "undefined='zero' (--undefined zero) counts groups without a value as 0"


_NARROW, _REASON = 12, 13  # least widths of names and of reasons ("few_positives")


class Reported(Tabular):
    """The output formats of a result: JSON, CSV, markdown and text."""

    values: tuple[MeasureValue, ...]
    scores: tuple[str, ...]
    measures: tuple[str, ...]
    requested: Mapping[str, str]
    meta: Meta
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
            observed (clicks, weighted), error (ECCE), sigmas (ECCE in standard deviations under
            calibration), p_value, p_adjusted (Holm, over all slices). The most sigmas come first.
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
        text = find_calibration(measure, texts, self.requested)
        return self.calibration[find_score(score, self.scores, texts), text]

    def to_dict(self) -> dict[str, Any]:
        """Build the plain Python values that :meth:`to_json` writes.

        Returns
        -------
        dict
            ``{"meta": {"version", "rows", "groups", "conventions", "seconds"}, "results":
            [{"score", "by", "slice", "measure", "name", "value", "se", "ci_low", "ci_high",
            "effective_groups", "weight", "caution", "groups", "groups_used", "dropped",
            "rows_share", "positives_share", "aggregate", "details"}]}`` of plain Python values;
            None for NaN. The meta has ``"requested"`` too where names of measures stand for other
            texts, and ``"notes"``, a list of sentences, where there are any. With a measure of
            multicalibration there is ``"worst_slices"`` too: score, measure and the columns of
            :meth:`multicalibration`, the ten worst slices of each.
        """
        slices = slice_rows(self.calibration)
        return {
            "meta": meta_with_notes(self.values, self.meta),
            "results": record_rows(self.values, VALUE_SCHEMA),
            **({"worst_slices": slices} if slices else {}),
        }

    @typed
    def to_json(self, indent: int | None = 2) -> str:
        """Write :meth:`to_dict` as JSON.

        Parameters
        ----------
        indent : int or None
            Spaces a level; None for one line.

        Returns
        -------
        str
            Strictly valid JSON in ASCII; a value that is undefined is null.
        """
        return json.dumps(self.to_dict(), indent=check_indent(indent), allow_nan=False)

    @typed
    def to_csv(self, *, safe: bool = False) -> str:
        """Write the summary as CSV.

        Parameters
        ----------
        safe : bool
            Put an apostrophe before text that begins with ``=``, ``+``, ``-``, ``@``, a tab or a
            carriage return, so that no spreadsheet reads it as a formula.

        Returns
        -------
        str
            A header and one row a score, slice and measure; values with all their digits, empty
            where undefined; ``dropped`` and ``details`` as ``name=number`` joined by semicolons.
        """
        return record_csv(self.values, VALUE_SCHEMA, safe)

    def to_markdown(self) -> str:
        """Write the report as markdown tables, followed by the conventions.

        Returns
        -------
        str
            Names from the data stand in code spans, so that nothing in them is markup.
        """
        return self._html_report().to_markdown()

    def __repr__(self) -> str:
        return self._report(_overall(self).one_line(), width=TEXT_WIDTH).to_text()

    def _html_report(self) -> Report:
        return self._report(_overall(self), width=None)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Render for a terminal, in whose width no digit is cut off.

        In a narrow terminal group totals stand only in the footer, intervals as a distance under
        their value, and names and reasons are folded.
        """
        width = options.max_width
        table = first_that_fits((_overall(self, *layout) for layout in LAYOUTS), width)
        foldable = {table.header[1]: _NARROW, "dropped": _REASON}
        yield from self._report(*sections(table, width, foldable), width=width).to_terminal()

    def _report(self, *overall: Table, width: int | None) -> Report:
        """Build the report below some tables of all rows."""
        size, conventions = size_and_conventions(self.meta)
        notes = map(printable, report_notes(self.values, self.meta))
        return Report(
            [*overall, *_slice_tables(self, width), *worst_slices(self.calibration, width)],
            list(_legend(self)),
            [*_details(self), *_cautions(self), *notes],
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
            f"{v.groups_used:,}" + f"/{v.groups:,}" * totals
            if result.meta.groups or not result.meta.rows
            else "none",
            "\n".join(f"{count:,} {reason}" for reason, count in v.dropped.items() if count)
            or "none",
            share_text(v.rows_share),
            share_text(v.positives_share),
        ]
        for v in values
    ]
    names = ["score", *["slice"] * has_slices, "measure"]
    numbers = ["value" + f"\n{level}" * under, *[level] * beside]
    used = "groups used" if totals else "groups\nused"
    header = [*names, *numbers, used, "dropped", "rows", "positives"]
    return Table(header, len(names), rows, bold="value")


class _ResultSheet(SliceSheet[MeasureValue]):
    """The slices of one slicing for one model."""

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
        return number + separator + half_width + _FEW * (value.caution == "few_groups")


_FEW, _ONE = "*", "†"

_Values = dict[str, dict[str, dict[str, MeasureValue]]]


def _slice_tables(result: Reported, width: int | None) -> Iterator[Table]:
    """Lay out the slices, by slicing, then model."""
    slicings: dict[str | None, _Values] = {None: {}}
    for v in result.values:
        models = slicings.setdefault(v.by, {})
        models.setdefault(v.score, {}).setdefault(v.slice, {})[v.measure] = v
    overall = slicings.pop(None)
    for by, models in slicings.items():
        sheets = [
            _ResultSheet((score, str(by)), overall[score] | slices)
            for score, slices in models.items()
        ]
        yield from slice_tables(sheets, width)


def _legend(result: Reported) -> Iterator[str]:
    """Explain marks in tables of slices, and note slices that are left out."""
    has_slices = any(v.by is not None for v in result.values)
    values = result.values if has_slices else ()
    used: dict[tuple[str, str | None, str], set[int]] = {}
    for v in values:
        used.setdefault((v.score, v.by, v.slice), set()).add(v.groups_used)
    if any(len(groups) > 1 for groups in used.values()):
        yield f"{AT_LEAST} where measures differ: groups and rows of the one that uses the fewest"
    if any(v.caution == "few_groups" for v in values):
        yield f"{_FEW} fewer than {FEW_GROUPS} effective groups: the interval is rough"
    if any(v.caution == "one_group" for v in values):
        yield f"{_ONE} one group tells no standard error"
    yield from left_out_notes(result.meta)


def size_and_conventions(meta: Meta) -> tuple[str, str]:
    """Format the size and speed of an evaluation, and its conventions."""
    compiled = ""
    if meta.compiled:
        stored = f", {meta.stored}" if meta.stored else ""
        compiled = f" (first run: {count_text(meta.compiled, 'kernel')} compiled{stored})"
    if meta.rows == 0:
        size = "no rows, no groups: no value is defined"
    else:
        groups = count_text(meta.groups, "group") if meta.groups else "not grouped"
        size = (
            f"{count_text(meta.rows, 'row')}, {groups}, "
            f"{meta.seconds:.3g} s, {speed_text(meta.rows, meta.seconds)}{compiled}"
        )
    conventions = [
        f"{name}={_convention(value)}"
        for name, value in meta.conventions.items()
        if value is not None and name not in ("measures", "slices_left_out")
    ]
    options = meta.conventions.get("measures")
    if isinstance(options, Mapping):
        conventions += _measure_options(options)
    return size, printable(", ".join(conventions))


def _details(result: Reported) -> Iterator[str]:
    """Yield the details of values, one line for equal details of a model."""
    lines: dict[tuple[str, str], list[str]] = {}
    for v in _of_all_rows(result):
        if v.details:
            details = ", ".join(
                f"{name} {detail_text(number)}" for name, number in v.details.items()
            )
            lines.setdefault((v.score, details), []).append(v.shown)
    for (score, details), measures in lines.items():
        model = f" of {score}" if len(result.scores) > 1 else ""
        yield printable(f"{', '.join(measures)}{model}: {details}")


def _cautions(result: Reported) -> Iterator[str]:
    """Yield cautions: rough intervals, values of one group."""
    values = _of_all_rows(result)
    few = [v for v in values if v.caution == "few_groups"]
    one = [v for v in values if v.caution == "one_group"]
    several = len(result.scores) > 1

    def name(value: MeasureValue) -> str:
        return value.shown + f" of {value.score}" * several

    if few:
        by_number: dict[str, list[str]] = {}
        for v in few:
            by_number.setdefault(f"{v.effective_groups:.3g}", []).append(name(v))
        numbers = "; ".join(f"{number} of {', '.join(of)}" for number, of in by_number.items())
        yield printable(
            f"intervals are rough, with fewer than {FEW_GROUPS} effective groups: {numbers}"
        )
    if one:
        yield printable(f"one group tells no standard error: {', '.join(map(name, one))}")
    none = [v for v in values if v.caution == "no_groups"]
    if none:
        yield printable(f"no standard error without groups: {', '.join(map(name, none))}")


#: Options whose defaults differ most between tools. JSON has all options.
_MAIN_OPTIONS = ("weight", "rel", "gain", "discount", "max_grade", "threshold")


def _measure_options(measures: Mapping[str, Mapping[str, object]]) -> list[str]:
    """List the main options of measures, each once."""
    texts: dict[str, None] = {}
    for text, options in measures.items():
        name = text.partition("(")[0].partition("@")[0]
        for option in _MAIN_OPTIONS:
            value = options.get(option)
            if value in (None, "uniform", "reciprocal"):
                continue
            owner = f"{name} " if option == "weight" else ""
            texts[f"{owner}{option}={_convention(value)}"] = None
    return list(texts)


def _convention(value: object) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{k}: {_convention(v)}" for k, v in value.items()) + "}"
    if isinstance(value, Iterable) and not isinstance(value, str):
        return "+".join(map(_convention, value))
    return str(value)
