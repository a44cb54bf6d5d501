"""Compute and print the report of trec_eval."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arguments import checked, one_of, typed
from fastrank_eval._lib.arrow import as_array
from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.errors import ArgumentError
from fastrank_eval.engine.records import JSON_SCHEMAS
from fastrank_eval.engine.run import Evaluation, run
from fastrank_eval.integrations.trec.join import (
    RankedQueries,
    no_common_query,
    rank_documents,
    read_both,
    reading_notes,
)
from fastrank_eval.integrations.trec.measures import (
    Line,
    by_label,
    check_level,
    label_of,
    measures_of,
    report_lines,
)
from fastrank_eval.integrations.trec.pairs import Common, Cuts
from fastrank_eval.measures import Measure
from fastrank_eval.measures.judged import ANYWHERE
from fastrank_eval.results.notes import no_judged_document, queries_without_result, zeros_of_grades
from fastrank_eval.results.report import Best, Lines, Name, Report, Table, printable
from fastrank_eval.results.result import result_of
from fastrank_eval.results.views import View, best_models

VERSIONS = (9, 10)

#: Value of one line: a number, or text.
_Value = float | str


@dataclass(frozen=True, repr=False)
class TrecReport(View):
    """The report of trec_eval on one run.

    Parameters
    ----------
    run : str
        Name of the run: the tag of its last line.
    lines : tuple of Line
    summary : tuple of (float or str)
        The value of each line for all queries.
    queries : tuple of str
        Queries with lines of their own, in order of their bytes.
    columns : tuple of (ndarray or sequence of str)
        For each line of single queries, the values of the queries.
    notes : tuple of str
        What was left out, and what makes values 0 although nothing is wrong with the ranking.
    """

    run: str
    lines: tuple[Line, ...]
    summary: tuple[_Value, ...]
    queries: tuple[str, ...]
    columns: tuple[np.ndarray | Sequence[str], ...]
    notes: tuple[str, ...] = ()

    @property
    def by_query(self) -> tuple[tuple[_Value, ...], ...]:
        """Values of the lines of single queries, by query."""
        columns = [c.tolist() if isinstance(c, np.ndarray) else c for c in self.columns]
        return tuple(zip(*columns, strict=True)) if columns else ((),) * len(self.queries)

    @typed
    def rows(
        self, single: bool = False, summary: bool = True
    ) -> Iterator[tuple[Line, str, _Value]]:
        """Yield lines, queries and values in the order of trec_eval."""
        if single:
            lines = [line for line in self.lines if line.by_query]
            for query, values in zip(self.queries, self.by_query, strict=True):
                for line, value in zip(lines, values, strict=True):
                    yield line, query, value
        if summary:
            lines = [line for line in self.lines if not line.depth]
            for line, value in zip(lines, self.summary, strict=True):
                yield line, "all", value

    @typed
    def to_text(self, single: bool = False, summary: bool = True, *, name_run: bool = False) -> str:
        """Write the lines like trec_eval, with four decimals.

        With `name_run` each line ends with a tab and the name of the run.
        """
        end = f"\t{self.run}\n" if name_run else "\n"
        return "".join(
            f"{line.name:<22}\t{query}\t{_value_text(line, value)}{end}"
            for line, query, value in self.rows(single, summary)
        )

    def _rows(self, *, single: bool = False, summary: bool = True) -> list[dict[str, Any]]:
        return [
            {"run": self.run, "measure": line.name, "query": query, "value": _plain(line, value)}
            for line, query, value in self.rows(single, summary)
        ]

    def records(self) -> pa.Table:
        """Return one row for each line, those of single queries first.

        Returns
        -------
        pyarrow.Table
            run, measure, query (``"all"`` for all queries), value; null if it is text.
        """
        texts = [pa.field(name, pa.string()) for name in ("run", "measure", "query")]
        rows = self._rows(single=True)
        values = [None if isinstance(row["value"], str) else row["value"] for row in rows]
        numbers = [{**row, "value": value} for row, value in zip(rows, values, strict=True)]
        return pa.Table.from_pylist(numbers, pa.schema([*texts, ("value", pa.float64())]))

    @typed
    def document(self, *, single: bool = False, summary: bool = True) -> dict[str, object]:
        """Return plain values by query and name; ``"all"`` is for all queries."""
        values_by_query: dict[str, dict[str, object]] = {}
        for row in self._rows(single=single, summary=summary):
            values_by_query.setdefault(row["query"], {})[row["measure"]] = row["value"]
        return {"schema": JSON_SCHEMAS["trec"], "run": self.run, "queries": values_by_query}

    @typed
    def report(self, *, wide: bool = False, single: bool = False, summary: bool = True) -> Report:
        """Build the report that people read; `wide` changes nothing."""
        return side_by_side([self], (), single, summary)


@typed
def trec_report(
    qrels: object,
    run: object,
    *,
    measures: str | Measure | Sequence[str | Measure] = "official",
    version: int = 10,
    complete: bool = False,
    level: float = 1,
    drop_self: bool = False,
    skip_first: bool = False,
    most: int | None = None,
    judged_only: bool = False,
    duplicates: str = "error",
    query: str | None = None,
    doc: str | None = None,
    grade: str | None = None,
    score: str | None = None,
) -> TrecReport:
    r"""Evaluate a run like trec_eval.

    Documents rank by descending score, tied ones by descending id; the rank column is ignored. A
    query without a relevant document counts 0. Fractional grades keep their value; trec_eval
    truncates them.

    Parameters
    ----------
    qrels, run : object
        Sources of `read_qrels` and `read_run`, or their results.
    measures : str, Measure or sequence of them
        Names of trec_eval: ``"map"``, ``"P.5,10"``, ``"P_5"``, or a nickname: ``"official"``,
        ``"set"``, ``"all_trec"``; or measures of this package and of ir_measures: ``"nDCG@10"``.
        Their conventions are those of trec_eval, and they follow its lines under the name given
        here. What both name (``"P"``, ``"recall"``) is trec_eval's.
    version : {9, 10}
        Version 9 rounds scores to float32 and has another rule for recall levels. Version 10 raises
        an error if the run does not have a judged query, unless `complete`.
    complete : bool
        Judged queries that the run does not have count 0 (``-c``).
    level : float
        Least relevant grade, above 0 (``-l``).
    drop_self : bool
        Leave out a document that has the id of its query, as where queries are documents.
    skip_first : bool
        Then leave out the document of the highest score, of equal ones that of the highest id.
    most : int, optional
        Then the largest number of documents of each query that count (``-M``).
    judged_only : bool
        Leave unjudged documents, and those with a negative grade, out of the ranking, after `most`
        (``-J``).
    duplicates : {"error", "first", "last", "max"}
        What to do with a document that a query has twice, as in `read_run` and `read_qrels`.
    query, doc, grade, score : str, optional
        Names of the columns of tables, as in `read_run` and `read_qrels`.

    Raises
    ------
    ArgumentError
        If a measure or version is unknown, `level` or `most` is out of range, or the run does not
        have a judged query.

    References
    ----------
    trec_eval 10, https://github.com/usnistgov/trec_eval

    Examples
    --------
    >>> run = b"q1 Q0 d7 1 2.5 bm25\nq1 Q0 d3 2 1.5 bm25"
    >>> report = trec_report(b"q1 0 d3 1", run, measures=["map", "P.5"])
    >>> print(report.to_text(), end="")
    map                   	all	0.5000
    P_5                   	all	0.2000
    """
    checked("version", version, one_of(*VERSIONS))
    cuts = Cuts(drop_self, skip_first, most, judged_only)
    check_level(level)
    lines = report_lines(measures, version, level)
    for line in lines:
        if any(one.needs_subtopics for one in line.measures):
            raise ArgumentError(
                f"measures: must be measures without subtopics, got {line.name!r}; take "
                "fastrank_eval.trec.evaluate and read_diversity_qrels."
            )
    names = {"query": query, "doc": doc, "grade": grade, "score": score}
    judgements, (retrieved,) = read_both(qrels, [run], names, duplicates)
    as_float32 = version == 9
    both = Common([retrieved], judgements, complete)
    read, known = (int(both.have(i).sum()) for i in (0, 1))
    if not both.wanted.any():
        raise no_common_query(known, read)
    lacking = int((both.is_judged & ~both.answered).sum())
    if version == 10 and lacking and not complete:
        raise ArgumentError(
            "run: must have every judged query, as for trec_eval 10, got a run that lacks "
            f"{lacking:,} of {known:,}; pass complete=True to count "
            "them as 0, or version=9 to leave them out."
        )
    tag = retrieved.tag
    notes = [*reading_notes(judgements, [retrieved])]
    if lacking:
        notes.append(f"{tag}: {queries_without_result(lacking, known, complete=complete)}")
    notes += cuts.note(tag, *both.cut(0, cuts, as_float32=as_float32))
    depth = max((line.depth for line in lines), default=0)
    anywhere = ANYWHERE in by_label(measures_of(lines))
    ranked = rank_documents(both, as_float32=as_float32, depth=depth, anywhere=anywhere)
    # Their memory serves the evaluation.
    del retrieved, judgements, both
    pa.default_memory_pool().release_unused()
    report = _report(tag, lines, ranked, version)
    return replace(report, notes=(*notes, *report.notes))


#: How rows are evaluated that stand in the order of ranks, tied ones by id.
RANKED: Mapping[str, Any] = {"score": "score", "ties": "input", "order": "sorted"}


def evaluate_ranked(
    lines: tuple[Line, ...], ranked: RankedQueries, version: int
) -> tuple[tuple[Line, ...], dict[str, Evaluation]]:
    """Evaluate lines by column of labels; give gains to all grades."""
    if any(line.has_gains for line in lines):
        grades = ranked.table["grade"].unique().drop_null().to_pylist()
        lines = tuple(line.for_grades(grades) for line in lines)
    evaluations = {
        label: run(
            ranked.table,
            group="query",
            label=label,
            measures=measures,
            profile=f"trec_eval_{version}",
            **RANKED,
            # A fifth of the rows is judged: full batches took 40 MB more.
            batch_rows=min(max(ranked.table.num_rows // 4, 1 << 18), 1 << 19),
        )
        for label, measures in by_label(measures_of(lines)).items()
    }
    return lines, evaluations


def _report(tag: str, lines: tuple[Line, ...], ranked: RankedQueries, version: int) -> TrecReport:
    lines, evaluations = evaluate_ranked(lines, ranked, version)
    results = {label: result_of(evaluation) for label, evaluation in evaluations.items()}
    names = ranked.queries
    order = sorted(range(len(names)), key=lambda index: names[index].encode())
    if version == 9:
        # Version 9 counts queries that the run does not have, but does not print them.
        order = [index for index in order if ranked.has_query[index]]
    columns: list[np.ndarray | Sequence[str]] = []
    summary: list[_Value] = []
    for line in lines:
        if line.depth:
            columns.append([f"'{ranked.strings[index]}'" for index in order])
        elif line.measures and line.by_query:
            values = [results[label_of(m)][m][order] for m in line.measures]
            columns.append(np.mean(values, axis=0))
        if line.fact == "runid":
            summary.append(tag)
        elif line.fact == "num_q":
            summary.append(float(len(names)))
        elif line.measures:
            total = sum(results[label_of(m)].value(m) for m in line.measures)
            summary.append(total / len(line.measures))
    queries = tuple(names[index] for index in order)
    named = [one.with_display_name(line.name) for line in lines for one in line.measures]
    notes = tuple(_notes(tag, named, ranked.table))
    return TrecReport(tag, lines, tuple(summary), queries, tuple(columns), notes)


def _notes(tag: str, measures: Sequence[Measure], table: pa.Table) -> Iterator[str]:
    retrieved, judged = (
        as_array(table[name].is_valid().combine_chunks()) for name in ("score", "grade")
    )
    if retrieved.any() and not (retrieved & judged).any():
        yield no_judged_document(tag)
    grades = as_array(table["grade"].drop_null().combine_chunks())
    if len(grades):
        yield from zeros_of_grades(measures, grades.max().item())


def with_distinct_names(reports: Sequence[TrecReport], names: Sequence[str]) -> list[TrecReport]:
    """Replace tags that several runs have by other names, such as their files."""
    tags = [report.run for report in reports]
    return [
        replace(report, run=name) if tags.count(report.run) > 1 else report
        for report, name in zip(reports, names, strict=True)
    ]


def side_by_side(
    reports: Sequence[TrecReport],
    conventions: Sequence[str] = (),
    single: bool = False,
    summary: bool = True,
) -> Report:
    """Build a report of several runs, with a column for each run.

    Parameters
    ----------
    reports : sequence of TrecReport
    conventions : sequence of str
    single, summary : bool
        As in `TrecReport.rows`.
    """
    found = [{(q, line.name): value for line, q, value in r.rows(single, summary)} for r in reports]
    rows = (row for report in reports for row in report.rows(single, summary))
    lines = {(query, line.name): line for line, query, _ in rows if line.fact != "runid"}
    tables: dict[str, list[list[str]]] = {}
    for (query, name), line in lines.items():
        # Empty text if the run does not have the query.
        values = [of_run.get((query, name), "") for of_run in found]
        tables.setdefault(query, []).append([printable(name), *_cells(line, values)])
    header = ["measure", *(Name(printable(report.run)) for report in reports)]
    blocks = [
        Table(header, rows_of, title=printable(query) if single else "", fixed=1)
        for query, rows_of in tables.items()
    ]
    runs = printable(", ".join(report.run for report in reports))
    ends = Lines([], "legend"), Lines(conventions, "conventions")
    return Report(f"Evaluation of {runs}", [*blocks, *ends])


def _cells(line: Line, values: Sequence[_Value]) -> list[str]:
    """Write the values of the runs; the best one of the line is bold."""
    texts = [printable(_value_text(line, value)) for value in values]
    if not line.measures:
        return texts
    numbers = {str(i): value for i, value in enumerate(values) if not isinstance(value, str)}
    best = best_models(numbers, line.measures[0], partial(_value_text, line))
    return [Best(text) if str(i) in best else text for i, text in enumerate(texts)]


def _value_text(line: Line, value: _Value) -> str:
    if isinstance(value, str):
        return value
    return str(int(value)) if line.is_count else f"{value:.4f}"


def _plain(line: Line, value: _Value) -> _Value | int:
    return int(value) if line.is_count and not isinstance(value, str) else value
