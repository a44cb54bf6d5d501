"""Show a comparison as text, a document, JSON and CSV."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from typing import Any

from fastrank_eval._lib.arguments import check_indent, typed
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
    mover_sections,
    overall_tables,
    percent,
    slice_verdicts,
    word,
)
from fastrank_eval.engine.records import JSON_SCHEMAS, record_csv, record_rows
from fastrank_eval.results.format import count_text, percent_text, printable
from fastrank_eval.results.notes import (
    meta_with_notes,
    names_of,
    report_notes,
    size_and_conventions,
)
from fastrank_eval.results.result_view import coverage_tables
from fastrank_eval.results.slice_view import FEW_NOTE
from fastrank_eval.results.tables import TEXT_WIDTH, Lines, Report, Table
from fastrank_eval.results.views import ReportView, TerminalView
from fastrank_eval.stats.intervals import FEW_GROUPS


class ReportedComparison(ComparedModels, ReportView):
    """The output formats of `Comparison`."""

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
            ``{"schema", "meta": {...}, "comparisons": [...], "joined": ...,
            "decompositions": [...], "movers": [...]}`` of plain Python values, None for NaN. The
            last three are left out if they are empty.
        """
        content: dict[str, Any] = {
            "schema": JSON_SCHEMAS["comparison"],
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
    def to_markdown(self, movers: int = 0, *, wide: bool = False, all_slices: bool = False) -> str:
        """Write the report as markdown.

        Parameters
        ----------
        movers : int
            As in `to_dict`.
        wide : bool
            Write tables for each candidate, with p-values. By default models are columns.
        all_slices : bool
            Name every slice where a candidate is significantly better or worse. By default three,
            those with the largest product of rows and difference, and the number of others.

        Returns
        -------
        str
            Names from data are in code spans, so nothing in them is markup.
        """
        return self._document("markdown", wide=wide, movers=movers, all_slices=all_slices)

    @typed
    def to_latex(self, movers: int = 0, *, wide: bool = False, all_slices: bool = False) -> str:
        r"""Write the report as LaTeX, for ``\input`` into a document with booktabs.

        Parameters
        ----------
        movers, wide, all_slices
            As in :meth:`to_markdown`.

        Returns
        -------
        str
            Names from data are escaped.
        """
        return self._document("latex", wide=wide, movers=movers, all_slices=all_slices)

    @typed
    def to_html(self, movers: int = 0, *, wide: bool = False, all_slices: bool = False) -> str:
        """Write the report as a page of HTML, which needs no other file.

        Parameters
        ----------
        movers, wide, all_slices
            As in :meth:`to_markdown`.

        Returns
        -------
        str
            Names from data are escaped.
        """
        return self._document("html", wide=wide, movers=movers, all_slices=all_slices)

    @property
    def _title(self) -> str:
        names = ", ".join(map(printable, self.scores))
        return f"Comparison of {names} with {printable(self.baseline)}"

    @typed
    def view(self, movers: int = 0, *, wide: bool = False, all_slices: bool = False) -> Any:
        """Choose what a terminal shows.

        Parameters
        ----------
        movers, wide, all_slices
            As in :meth:`to_markdown`.

        Returns
        -------
        rich renderable
        """
        return TerminalView(lambda width: self._report(width, wide, movers, all_slices))

    def _report(
        self,
        width: int | None,
        wide: bool = False,
        movers: int = 0,
        all_slices: bool = False,
        *,
        plain: bool = False,
    ) -> Report:
        parts = [[score] for score in self.scores] if wide else [list(self.scores)]
        by_model = not wide and (width is None or len(self.scores) > 1)
        blocks = [
            b
            for scores in parts
            for b in self._blocks(scores, width, movers, plain, by_model, all_slices)
        ]
        legend = list(mark_notes(self, by_model))
        notes = _notes(self, rough=FEW_NOTE not in legend)
        return Report(blocks, legend, notes, *size_and_conventions(self.meta, width))

    def _html_report(self) -> Report:
        # A notebook has room for all columns of one candidate.
        return self._report(None, wide=len(self.scores) == 1)

    def _blocks(
        self,
        scores: Sequence[str],
        width: int | None,
        top: int,
        plain: bool,
        by_model: bool,
        all_slices: bool,
    ) -> Iterator[Table | Lines]:
        """Lay out some candidates, side by side if `by_model`."""
        yield from overall_tables(self, scores, width, plain, by_model)
        for score in scores:
            texts, styles = _verdicts(self, score, all_slices)
            if len(scores) > 1:
                name = printable(score)
                texts = [t if t.startswith(f"{name} ") else f"{name}: {t}" for t in texts]
            yield Lines(texts, styles, "* ")
        models = (self.baseline, *scores)
        evaluated = [v for v in self.evaluated if v.by is None and v.score in models]
        if evaluated:
            yield from coverage_tables(evaluated, self.meta, width)
        yield from compared_slices(self, scores, width)
        for (score, measure), movers in self.mover_tables(top).items():
            if score in scores:
                yield from mover_sections(self, score, measure, movers, width or TEXT_WIDTH)
        for score in scores:
            yield from changed_slices(self, score, top)


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
    return [printable(note) for note in notes]


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
