"""Show a comparison as text, a document, JSON and CSV."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from fastrank_eval._lib.arguments import typed
from fastrank_eval.analysis.attribution import decomposition_rows, mover_rows
from fastrank_eval.analysis.compared_value import (
    DIFFERENCE_SCHEMA,
    ComparedValue,
    is_shown,
    is_undecided,
    undecided_text,
)
from fastrank_eval.analysis.comparison_tables import (
    ComparedModels,
    changed_slices,
    compared_slices,
    mark_notes,
    mover_table,
    overall_tables,
    percent,
    slice_verdicts,
    word,
)
from fastrank_eval.engine.records import JSON_SCHEMAS, record_table
from fastrank_eval.results.format import count_text, percent_text, printable
from fastrank_eval.results.labels import Labelled
from fastrank_eval.results.notes import (
    end_lines,
    meta_with_notes,
    names_of,
    report_notes,
)
from fastrank_eval.results.report import Lines, Report, Table
from fastrank_eval.results.result_view import coverage_tables
from fastrank_eval.results.slice_tables import FEW_NOTE
from fastrank_eval.stats.intervals import FEW_GROUPS


class ReportedComparison(ComparedModels, Labelled):
    """What programs, JSON and people read of a comparison."""

    _schema = DIFFERENCE_SCHEMA

    def records(self) -> pa.Table:
        """Return one row for each candidate, slice and measure.

        Returns
        -------
        pyarrow.Table
            The fields of `ComparedValue`; an undefined number is null. Of a list of labels, label
            comes first.
        """
        return record_table(self.values, self._columns)

    @typed
    def document(self, *, movers: int = 0) -> dict[str, Any]:
        """Return the plain Python values that JSON has.

        Parameters
        ----------
        movers : int
            The largest number of groups to list as ``"movers"`` that raised the first measure of
            groups most, and of groups that lowered it most.

        Returns
        -------
        dict
            ``{"schema", "meta": {...}, "comparisons": [...], "joined": ...,
            "decompositions": [...], "movers": [...]}`` of plain Python values, None for NaN. The
            last three are left out if they are empty. Of a list of labels,
            ``{"schema", "labels": {label: document}}``.
        """
        if self.labels:
            return self._document_of_labels(movers=movers)
        content: dict[str, Any] = {
            "schema": JSON_SCHEMAS["comparison"],
            "meta": meta_with_notes(self.evaluated, self.meta),
            "comparisons": self._rows(),
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
    def report(self, *, wide: bool = False, movers: int = 0, all_slices: bool = False) -> Report:
        """Build the report that people read.

        Parameters
        ----------
        wide : bool
            Make tables for each candidate, with p-values. By default they are columns.
        movers : int
            As in `document`.
        all_slices : bool
            Name every slice where a candidate is significantly better or worse. By default three,
            those with the largest product of rows and difference, and the number of others.

        Returns
        -------
        Report
        """
        if self.labels:
            return self._report_of_labels(wide=wide, movers=movers, all_slices=all_slices)
        parts = [[score] for score in self.scores] if wide else [list(self.scores)]
        blocks = [b for scores in parts for b in self._blocks(scores, movers, all_slices)]
        legend = list(mark_notes(self, not wide and len(self.scores) > 1))
        notes = _notes(self, rough=FEW_NOTE not in legend)
        title = printable(f"Comparison of {', '.join(self.scores)} with {self.baseline}")
        return Report(title, [*blocks, *end_lines(self.meta, legend, notes)])

    def _blocks(
        self, scores: Sequence[str], movers: int, all_slices: bool
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
        for (score, measure), table in self.mover_tables(movers).items():
            if score in scores:
                yield mover_table(self, score, measure, table)
        for score in scores:
            yield from changed_slices(self, score, movers)


_STYLES = {"better": "green", "worse": "red"}


def _verdicts(
    comparison: ReportedComparison, score: str, all_slices: bool
) -> tuple[list[str], list[str]]:
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


def _notes(comparison: ReportedComparison, rough: bool) -> list[str]:
    """Write the notes under a comparison, those on rough intervals if `rough`."""
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
    few = [v for v in comparison.overall if v.caution == "few_groups"]
    if rough and few:
        notes.append(
            f"intervals are rough, with fewer than {FEW_GROUPS} effective groups: "
            + names_of(few, comparison.scores)
        )
    alike = [v for v in comparison.overall if v.caution == "no_variance" and v.groups < FEW_GROUPS]
    if any(v.test == "bootstrap" for v in few + alike):
        notes.append("a bootstrap of few groups finds too much: choose the test randomisation")
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
    return notes


def _rela_impr_text(value: ComparedValue, confidence: float) -> str:
    """Write RelaImpr with its interval and significance."""
    if math.isnan(value.rela_impr):
        return f"undefined, as {value.baseline} is not above 0.5"
    text = percent(value.rela_impr)
    ends = value.rela_impr_ci_low, value.rela_impr_ci_high
    if value.rela_impr_caution:
        text += f" (no interval, as {value.baseline} is too near 0.5)"
    elif all(map(math.isfinite, ends)):
        low, high = map(percent, ends)
        text += f" ({percent_text(confidence)} CI {low} to {high})"
    if math.isnan(value.p_adjusted):
        return f"{text}, not tested"
    return text if is_shown(value, confidence) else f"{text}, not significant"
