"""Define the result of a comparison, and show it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from fastrank_eval._lib.arguments import checked, integer, typed
from fastrank_eval.engine.group_table import GroupTable
from fastrank_eval.engine.records import (
    JSON_SCHEMAS,
    MeasureValue,
    Meta,
    record_table,
)
from fastrank_eval.measures import measure as measure_of
from fastrank_eval.results.differences import (
    CLUSTER_SCHEMA,
    DIFFERENCE_SCHEMA,
    ComparedValue,
    Decomposition,
    decompose_by_slices,
    decomposition_rows,
    difference_interval,
    difference_text,
    digits_of,
    is_mean,
    is_shown,
    is_tested,
    is_undecided,
    refuse_without_mean,
    rows_of_largest_changes,
    slicings_of,
    table_of_largest_changes,
    undecided_text,
)
from fastrank_eval.results.labels import Labelled
from fastrank_eval.results.lookup import find_slicing, find_value, refuse_pooled
from fastrank_eval.results.notes import (
    end_lines,
    names_of,
    plain_meta_with,
    report_notes,
    unit_of,
)
from fastrank_eval.results.report import (
    Best,
    Lines,
    Name,
    Report,
    Table,
    amount,
    count_text,
    half_width_text,
    measure_text,
    number_text,
    p_text,
    percent,
    percent_text,
    printable,
)
from fastrank_eval.results.views import (
    AT_LEAST,
    FEW,
    all_rows,
    best_models,
    by_slicing,
    coverage_tables,
    few_note,
    groups_differ,
    left_out_notes,
    slice_table,
)
from fastrank_eval.stats.intervals import FEW_GROUPS

if TYPE_CHECKING:
    from fastrank_eval.measures import Measure


class Comparison(Labelled):
    """The result of :func:`fastrank_eval.compare` and :meth:`Result.compare`.

    Parameters
    ----------
    values : sequence of ComparedValue
        One for each candidate and measure, then one for each slice, candidate and measure.
    meta : Meta
        Provenance and conventions of the values.
    baseline : str
        The score column to compare the others with.
    scores : sequence of str
        The other score columns, in the requested order.
    measures : sequence of str
        Canonical texts of the measures, in the requested order.
    requested : mapping of str to str, optional
        Requested names of measures that a profile gave other options.
    kept : GroupTable or callable, optional
        Values of every group, or a function that collects them.
    joined : mapping of str to int, optional
        For two results: the numbers of groups that both have, that only one has, and whose numbers
        of rows differ.
    evaluated : sequence of MeasureValue, optional
        Values of the baseline and of the others.
    parts : mapping of str to Comparison, optional
        The comparisons of several labels; see `Result`. P-values are corrected for each label by
        itself.

    Examples
    --------
    >>> value = ComparedValue("new", "old", "all", "RR", "mean", 0.5, 0.75, 0.25, 0.5)
    >>> comparison = Comparison([value], Meta("1.0", 5, 2, {}, 0.5), "old", ["new"], ["RR"])
    >>> comparison.find("RR").delta
    0.25
    """

    _schema = DIFFERENCE_SCHEMA
    _keep = "compare() with keep='values' (evaluate() with keep='groups' for those of a state)"

    def __init__(
        self,
        values: Sequence[ComparedValue],
        meta: Meta,
        baseline: str,
        scores: Sequence[str],
        measures: Sequence[str],
        requested: Mapping[str, str] | None = None,
        kept: GroupTable | Callable[[], GroupTable] | None = None,
        joined: Mapping[str, int] | None = None,
        evaluated: Sequence[MeasureValue] = (),
        parts: Mapping[str, Comparison] | None = None,
    ) -> None:
        super().__init__(values, meta, scores, measures, requested, kept, parts)
        self.baseline = baseline
        self.joined = None if joined is None else dict(joined)
        self.evaluated = tuple(evaluated)

    def __getitem__(self, label: str) -> Comparison:
        """Return the part of one of several labels; see `part`."""
        return self.part(label)

    @typed
    def find(
        self,
        measure: str | Measure,
        score: str | None = None,
        slice: str = "all",  # noqa: A002 - the name of the field
    ) -> ComparedValue:
        """Find the comparison of one candidate by one measure.

        Parameters
        ----------
        measure : str or Measure
            By any alias.
        score : str, optional
            Score column of the candidate; may be left out if there is one.
        slice : str

        Returns
        -------
        ComparedValue

        Raises
        ------
        MeasureError
            If the measure was not part of the comparison.
        ArgumentError
            If the score column or the slice was not part of it, or the score column is left out
            where there are several.
        """
        text = str(self._find_measure(measure))
        return find_value(text, self._find_score(score), slice, self.values, None)

    @typed
    def largest_changes(
        self, measure: str | Measure, score: str | None = None, top: int = 10
    ) -> pa.Table:
        """List the groups that raised a measure most, then the opposite.

        Parameters
        ----------
        measure : str or Measure
            A measure of groups; measures of all rows together have no values of groups.
        score : str, optional
            Score column of the candidate; may be left out if there is one.
        top : int
            At most so many of each.

        Returns
        -------
        pyarrow.Table
            Key columns, ``rows``, ``base`` and ``value`` (null where undefined) and
            ``contribution``, what the group adds to the difference, its weight included. In
            descending order of contribution, then in the order of the keys.

        Raises
        ------
        MeasureError
            If the measure was not part of the comparison, or pools all rows.
        ArgumentError
            If values per group were not kept, or the score column is unknown.
        """
        return self._largest_changes_of(self._find_measure(measure), score, top)

    def _largest_changes_of(self, measure: Measure, score: str | None, top: int) -> pa.Table:
        refuse_pooled(measure)
        top = checked("top", top, integer(1))
        name = self._find_score(score)
        records = self.group_table()
        delta = find_value(str(measure), name, "all", self.values, None).delta
        base, model = records.roles.scores.index(self.baseline), records.roles.scores.index(name)
        return table_of_largest_changes(
            records, base, model, records.measures.index(measure), delta, top
        )

    @typed
    def largest_slice_changes(
        self, measure: str | Measure, score: str | None = None, top: int = 10
    ) -> list[ComparedValue]:
        """List the slices in which a measure rose most, then the opposite.

        Parameters
        ----------
        measure : str or Measure
        score : str, optional
            Score column of the candidate; may be left out if there is one.
        top : int
            At most so many of each.

        Returns
        -------
        list of ComparedValue
            In descending order of `delta`, then in the order of the summary.

        Raises
        ------
        MeasureError, ArgumentError
            As `find` does.
        """
        return self._changed_slices(str(self._find_measure(measure)), score, top)

    def _changed_slices(self, text: str, score: str | None, top: int) -> list[ComparedValue]:
        """Find the slices with the largest changes of a measure."""
        name = self._find_score(score)
        top = checked("top", top, integer(1))
        own = [v for v in self.values if (v.measure, v.score) == (text, name)]
        slices = [v for v in own if v.slice != "all"]
        rose = sorted((v for v in slices if v.delta > 0), key=lambda v: -v.delta)[:top]
        fell = sorted((v for v in slices if v.delta < 0), key=lambda v: v.delta)[:top]
        return [*rose, *reversed(fell)]

    @typed
    def decomposition(
        self, measure: str | Measure, score: str | None = None, by: str | None = None
    ) -> Decomposition:
        """Decompose the difference of a mean over groups by slices.

        The difference is the sum of change within slices, of change of the composition of slices,
        and of a remainder. The composition changes between results of different rows, such as two
        nights; for models on the same rows it differs only if they cover different groups. The
        remainder is what slices do not explain: pairs of rows in different slices if groups are
        cut, and slices left out.

        Parameters
        ----------
        measure : str or Measure
            A mean over groups.
        score : str, optional
            Score column of the candidate; may be left out if there is one.
        by : str, optional
            The slicing, as it was requested; may be left out if there is one.

        Returns
        -------
        Decomposition

        Raises
        ------
        MeasureError
            If the measure was not part of the comparison, or is not a mean over groups.
        ArgumentError
            If the rows have no such slicing, or the score column is unknown.

        References
        ----------
        Kitagawa (1955), doi:10.1080/01621459.1955.10501299.
        """
        found = self._find_measure(measure)
        refuse_without_mean(found)
        name, slicing = self._find_score(score), find_slicing(by, self.evaluated)
        return decompose_by_slices(self.evaluated, str(found), self.baseline, name, slicing)

    @cached_property
    def decompositions(self) -> dict[tuple[str, str, str], Decomposition]:
        """Decompositions by candidate, mean over groups and slicing."""
        self._refuse_labels()
        means = [text for text in self.measures if is_mean(measure_of(text))]
        return {
            (score, mean, by): decompose_by_slices(self.evaluated, mean, self.baseline, score, by)
            for by in slicings_of(self.evaluated)
            for score in self.scores
            for mean in means
        }

    @typed
    def tables_of_largest_changes(self, top: int) -> dict[tuple[str, str], pa.Table]:
        """List the largest changes of the first measure of groups, by candidate."""
        first = next((m for m in map(measure_of, self.measures) if not m.pooled), None)
        if not top or first is None or self._kept is None:
            return {}
        changes = {
            (score, str(first)): self._largest_changes_of(first, score, top)
            for score in self.scores
        }
        return {key: table for key, table in changes.items() if table.num_rows}

    @property
    def overall(self) -> list[ComparedValue]:
        """The values of all rows."""
        return [v for v in self.values if v.by is None]

    @property
    def confidence(self) -> float:
        """The confidence of the intervals."""
        return self.meta.confidence or 0.95

    @property
    def _columns(self) -> pa.Schema:
        nested = any(v.cluster_wins is not None for v in self.values)
        return pa.schema([*super()._columns, *(CLUSTER_SCHEMA if nested else ())])

    def records(self) -> pa.Table:
        """Return one row for each candidate, slice and measure.

        Returns
        -------
        pyarrow.Table
            The fields of `ComparedValue`; an undefined number is null. Of a list of labels, label
            comes first. Counts of clusters come last, if these have several groups.
        """
        return record_table(self.values, self._columns)

    @typed
    def document(self, *, largest_changes: int = 0) -> dict[str, Any]:
        """Return the plain Python values that JSON has.

        Parameters
        ----------
        largest_changes : int
            The largest number of groups to list as ``"largest_changes"`` that raised the first
            measure of groups most, and of groups that lowered it most.

        Returns
        -------
        dict
            ``{"schema", "meta": {...}, "comparisons": [...], "joined": ...,
            "decompositions": [...], "largest_changes": [...]}`` of plain Python values, None for
            NaN. The last three are left out if they are empty. Of a list of labels, ``{"schema",
            "labels": {label: document}}``.
        """
        if self.labels:
            return self._document_for_labels(largest_changes=largest_changes)
        content: dict[str, Any] = {
            "schema": JSON_SCHEMAS["comparison"],
            "meta": plain_meta_with(report_notes(self.evaluated, self.meta), self.meta),
            "comparisons": self._rows(),
        }
        if self.joined is not None:
            content["joined"] = self.joined
        if self.decompositions:
            content["decompositions"] = list(decomposition_rows(self.decompositions))
        tables_of_largest_changes = self.tables_of_largest_changes(largest_changes)
        if tables_of_largest_changes:
            content["largest_changes"] = [
                {"score": score, "measure": text, **row}
                for (score, text), table in tables_of_largest_changes.items()
                for row in rows_of_largest_changes(table)
            ]
        return content

    @typed
    def report(
        self, *, wide: bool = False, largest_changes: int = 0, all_slices: bool = False
    ) -> Report:
        """Build the report that people read.

        Parameters
        ----------
        wide : bool
            Make tables for each candidate, with p-values. By default they are columns.
        largest_changes : int
            As in `document`.
        all_slices : bool
            Name every slice where a candidate is significantly better or worse. By default three,
            those with the largest product of rows and difference, and the number of others.

        Returns
        -------
        Report
        """
        if self.labels:
            return self._report_for_labels(
                wide=wide, largest_changes=largest_changes, all_slices=all_slices
            )
        parts = [[score] for score in self.scores] if wide else [list(self.scores)]
        blocks = [b for scores in parts for b in self._blocks(scores, largest_changes, all_slices)]
        legend = list(mark_notes(self, not wide and len(self.scores) > 1))
        notes = _notes(self, rough=few_note(self.meta) not in legend)
        title = printable(f"Comparison of {', '.join(self.scores)} with {self.baseline}")
        return Report(title, [*blocks, *end_lines(self.meta, legend, notes)])

    def _blocks(
        self, scores: Sequence[str], largest_changes: int, all_slices: bool
    ) -> Iterator[Table | Lines]:
        """Lay out some candidates, several side by side."""
        yield from overall_tables(self, scores)
        for score in scores:
            texts, styles = _verdicts(self, score, all_slices)
            if len(scores) > 1:
                name = printable(score)
                texts = [t if t.startswith(f"{name} ") else f"{name}: {t}" for t in texts]
            yield Lines(texts, styles=styles)
        models = (self.baseline, *scores)
        evaluated = [v for v in self.evaluated if v.by is None and v.score in models]
        yield from coverage_tables(evaluated, self.meta)
        yield from compared_slices(self, scores)
        for (score, measure), table in self.tables_of_largest_changes(largest_changes).items():
            if score in scores:
                yield mover_table(self, score, measure, table)
        for score in scores:
            yield from changed_slices(self, score, largest_changes)


_MAX_NAMED = 3  # slices in a verdict
_STYLES = {"better": "green", "worse": "red"}


def _verdicts(comparison: Comparison, score: str, all_slices: bool) -> tuple[list[str], list[str]]:
    """Write the verdicts on a candidate, and their styles."""
    values = [v for v in comparison.overall if v.score == score]
    undecided = [v for v in values if is_undecided(v, comparison.confidence)]
    if len(undecided) > 1:
        values = [v for v in values if v not in undecided]
    texts, styles = [v.verdict for v in values], [_STYLES.get(word(v), "") for v in values]
    if len(undecided) > 1:
        texts, styles = [*texts, undecided_text(undecided)], [*styles, ""]
    for kind, text in slice_verdicts(comparison, score, all_slices):
        texts, styles = [*texts, text], [*styles, _STYLES[kind]]
    return list(map(printable, texts)), styles


def _notes(comparison: Comparison, rough: bool) -> list[str]:
    """Write the notes under a comparison, those on rough intervals if `rough`."""
    notes, unit = [], unit_of(comparison.meta.conventions)
    if comparison.joined is not None:
        joined = comparison.joined
        notes.append(
            f"groups joined by key: {joined['both']:,} in both results, {joined['only_base']:,} "
            f"only in the baseline, {joined['only_candidate']:,} only in the candidate"
        )
        # Two runs retrieve other documents for a query.
        if joined["rows_differ"] and "complete" not in comparison.meta.conventions:
            notes.append(
                f"{count_text(joined['rows_differ'], 'group')} with other numbers of rows in the "
                "two results: they may not have the same rows"
            )
    for score in comparison.scores:
        improvements = [
            f"{v.display_name} {_rela_impr_text(v, comparison.confidence)}"
            for v in comparison.overall
            if v.score == score and (not math.isnan(v.rela_impr) or v.rela_impr_warning)
        ]
        if improvements:
            notes.append(f"RelaImpr of {score}: {'; '.join(improvements)}")
        counts = [
            f"{v.display_name} {v.cluster_wins:,}, {v.cluster_ties:,}, {v.cluster_losses:,}"
            for v in comparison.overall
            if v.score == score and v.test == "sign" and v.cluster_wins is not None
        ]
        if counts:
            better = f"where {score} is better, equal, worse"
            notes.append(f"clusters in the sign test, {better}: {'; '.join(counts)}")
    few = [v for v in comparison.overall if v.warning == "few_groups"]
    if rough and few:
        notes.append(
            f"intervals are rough, with fewer than {FEW_GROUPS} effective {unit}s: "
            + names_of(few, comparison.scores)
        )
    alike = [v for v in comparison.overall if v.warning == "no_variance" and v.groups < FEW_GROUPS]
    if any(v.test == "bootstrap" for v in few + alike):
        notes.append(f"a bootstrap of few {unit}s finds too much: choose the test randomisation")
    unpaired: dict[tuple[str, int, int], list[str]] = {}
    for v in comparison.overall:
        if v.only_base or v.only_candidate:
            key = v.score, v.only_base or 0, v.only_candidate or 0
            unpaired.setdefault(key, []).append(v.display_name)
    for (score, base, candidate), measures in unpaired.items():
        notes.append(
            f"groups with a value under one model only: {base:,} under {comparison.baseline}, "
            f"{candidate:,} under {score}: {', '.join(measures)}"
        )
    notes += report_notes(comparison.evaluated, comparison.meta)
    return notes


def _rela_impr_text(value: ComparedValue, confidence: float) -> str:
    """Write RelaImpr with its interval and significance."""
    if math.isnan(value.rela_impr):
        return f"undefined, as {value.baseline} is not above 0.5"
    text = percent(value.rela_impr)
    ends = value.rela_impr_ci_low, value.rela_impr_ci_high
    if value.rela_impr_warning:
        text += f" (no interval, as {value.baseline} is too near 0.5)"
    elif all(map(math.isfinite, ends)):
        low, high = map(percent, ends)
        text += f" ({percent_text(confidence)} CI {low} to {high})"
    if math.isnan(value.p_adjusted):
        return f"{text}, not tested"
    return text if is_shown(value, confidence) else f"{text}, not significant"


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


def overall_tables(comparison: Comparison, scores: Sequence[str]) -> Iterator[Table]:
    """Lay out the differences of all rows, several candidates side by side.

    In a narrow terminal the table of one candidate leaves columns out.
    """
    if len(scores) > 1:
        yield slice_table(
            comparison.overall,
            rows=lambda v: measure_text(v.display_name, v.aggregate),
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


def _table(comparison: Comparison, score: str, hidden: Sequence[str], side_by_side: bool) -> Table:
    """Make the table of all rows for a candidate."""
    values = [v for v in comparison.overall if v.score == score]
    confidence = f"{percent_text(comparison.confidence)} CI"
    correction = comparison.meta.conventions.get("correction") or "none"
    has_intervals = any(map(difference_interval, values))
    under = has_intervals and not side_by_side
    columns: dict[str, Callable[[ComparedValue], str]] = {
        "measure": lambda v: measure_text(v.display_name, v.aggregate),
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
    rough = FEW * (value.warning == "few_groups")
    return f"{_marked(value)} {half_width}{rough}" if half_width else _marked(value)


#: Marks of slices by the first word of their verdict.
_MARKS = {"better": "▲", "worse": "▼"}
_OTHER_MARK = "◆"
_CORRECTIONS = {"holm": "Holm's correction", "bh": "the correction of Benjamini and Hochberg"}
_PARTS = ("within", "composition", "remainder")


def _numbers_of_groups(line: Sequence[ComparedValue], unit: str) -> list[tuple[str, str]]:
    """Write the number of groups, or clusters, of the smallest value."""
    numbers = {v.groups for v in line if v.groups}
    mark = AT_LEAST * (len(numbers) > 1)
    return [(f"{unit}s", f"{mark}{min(numbers):,}" if numbers else "n/a")]


def _part_rows(
    overall: Sequence[ComparedValue], parts: Sequence[Decomposition | None]
) -> Iterator[list[str]]:
    """Make rows of the decomposition, if composition or remainder is visible."""
    rows = []
    for name in _PARTS:
        numbers = [math.nan if part is None else float(getattr(part, name)) for part in parts]
        texts = (amount(x, digits_of(v), sign=True) for v, x in zip(overall, numbers, strict=True))
        rows.append([text * math.isfinite(x) for text, x in zip(texts, numbers, strict=True)])
    visible = [any(map(_is_nonzero, row)) for row in rows]
    if any(visible[1:]):
        for name, row, is_visible in zip(_PARTS, rows, visible, strict=True):
            yield from [[name, "", *row]] * is_visible


def compared_slices(comparison: Comparison, scores: Sequence[str]) -> Iterator[Table]:
    """Lay out the slices of candidates, then the parts of the decomposition.

    Parameters
    ----------
    comparison : Comparison
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
        return v.display_name if several else v.score

    for by, title, overall, slices in by_slicing(own, name):
        table = slice_table(
            [*overall, *slices],
            rows=lambda v: v.slice if v.by else all_rows(comparison.meta),
            columns=lambda v: v.score if several else v.measure,
            cells=lambda v, _: [
                (Name(printable(v.score)) if several else printable(v.display_name), _difference(v))
            ],
            lead=partial(_numbers_of_groups, unit=unit_of(comparison.meta.conventions)),
            title=f"{title} against {comparison.baseline} by {by}",
        )
        parts = [comparison.decompositions.get((v.score, v.measure, by)) for v in overall]
        yield table._replace(rows=[*table.rows, *_part_rows(overall, parts)])


def mover_table(comparison: Comparison, score: str, measure: str, table: pa.Table) -> Table:
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
        for row in rows_of_largest_changes(table)
    ]
    return Table([*names, "rows", "base", "value", "contribution"], rows, len(names), title)


def _shown(comparison: Comparison, measure: str) -> str:
    """Return the name of a measure in reports."""
    return next(value.display_name for value in comparison.values if value.measure == measure)


def changed_slices(comparison: Comparison, score: str, top: int) -> Iterator[Lines]:
    """List the slices with the largest changes of the first measure."""
    measure = comparison.measures[0]
    values = comparison._changed_slices(measure, score, top) if top else []
    if values:
        changes = ", ".join(f"{value.slice} {difference_text(value)}" for value in values)
        shown = _shown(comparison, measure)
        title = f"slices that changed {shown} most, {score} against {comparison.baseline}"
        yield Lines([printable(f"{title}: {changes}")])


def slice_verdicts(
    comparison: Comparison, score: str, all_slices: bool = False
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
        names = [f"{v.slice}: {difference_text(v)} {v.display_name}" for v in first]
        more = f", and {len(values) - len(first)} more" if len(values) > len(first) else ""
        yield kind, f"{score} is {kind} in {', '.join(names)}{more}"


def mark_notes(comparison: Comparison, by_model: bool) -> Iterator[str]:
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
    if any(v.warning == "few_groups" for v in marked):
        yield few_note(comparison.meta)
    if groups_differ((v for v in slices if v.groups), by_model, lambda v: v.groups):
        what = "models" if by_model else "measures"
        unit = unit_of(comparison.meta.conventions)
        yield f"{AT_LEAST} where {what} differ: {unit}s of the one that uses the fewest"
    if any(_visible_parts(comparison)):
        yield "within slices, by composition, and a remainder add up to the difference of all rows"
    if any(v.warning == "not_paired" for v in slices) and all(math.isnan(v.se) for v in slices):
        yield "slices of results are not paired: their differences have no error"
    if slices:
        yield from left_out_notes(comparison.meta)


def _visible_parts(comparison: Comparison) -> Iterator[bool]:
    """Return for each composition and remainder whether it prints as not 0."""
    overall = {(v.score, v.measure): v for v in comparison.overall}
    for (score, measure, _), decomposition in comparison.decompositions.items():
        digits = digits_of(overall[score, measure])
        for number in (decomposition.composition, decomposition.remainder):
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
