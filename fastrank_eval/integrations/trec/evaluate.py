"""Evaluate runs against judgements in one call.

Compute and print the report of trec_eval.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any, NamedTuple, TypeGuard, cast

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arguments import checked, number, one_of, typed
from fastrank_eval._lib.arrow import as_array, mask_column
from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.errors import ArgumentError, FastRankEvalError, MeasureError
from fastrank_eval.engine.conventions import Profile, profile_of
from fastrank_eval.engine.group_table import GroupTable
from fastrank_eval.engine.options import DEFAULTS, OPTIONS, Options, check_names
from fastrank_eval.engine.records import JSON_SCHEMAS
from fastrank_eval.engine.run import Evaluation, plan_of, run
from fastrank_eval.integrations.trec.benchmark import Benchmark
from fastrank_eval.integrations.trec.join import (
    Joined,
    RankedQueries,
    join_runs,
    name_runs,
    no_common_query,
    rank_documents,
    read_both,
    read_runs,
    reading_notes,
)
from fastrank_eval.integrations.trec.measures import (
    Line,
    at_level,
    have_gains,
    report_lines,
    single_measures,
    with_gains,
)
from fastrank_eval.integrations.trec.nested import is_ranked
from fastrank_eval.integrations.trec.pairs import Common, Cuts, are_dicts
from fastrank_eval.integrations.trec.ranked import RankedDicts
from fastrank_eval.measures import Measure, measure
from fastrank_eval.measures.judged import ANYWHERE
from fastrank_eval.measures.parser import requested_measures, text_with_options
from fastrank_eval.results.evaluate import evaluate_options
from fastrank_eval.results.lookup import find_measure
from fastrank_eval.results.notes import no_judged_document, queries_without_result, zeros_of_grades
from fastrank_eval.results.report import Best, Lines, Name, Report, Table, list_text, printable
from fastrank_eval.results.result import Result, result_of
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


def check_level(level: float) -> None:
    """Check the argument of ``-l``."""
    checked("level", level, number(above=0))


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
            values = [results[_label_of(m)][m][order] for m in line.measures]
            columns.append(np.mean(values, axis=0))
        if line.fact == "runid":
            summary.append(tag)
        elif line.fact == "num_q":
            summary.append(float(len(names)))
        elif line.measures:
            total = sum(results[_label_of(m)].value(m) for m in line.measures)
            summary.append(total / len(line.measures))
    queries = tuple(names[index] for index in order)
    named = [one.with_display_name(line.name) for line in lines for one in line.measures]
    notes = tuple(_notes(tag, named, ranked.table))
    return TrecReport(tag, lines, tuple(summary), queries, tuple(columns), notes)


def measures_of(lines: Iterable[Line]) -> list[Measure]:
    """List the measures of lines, or one where there is none."""
    return list(chain.from_iterable(line.measures for line in lines)) or [measure("NumRet")]


def _label_of(one: Measure) -> str:
    return one.label_column() or "grade"


def by_label(measures: Iterable[Measure]) -> dict[str, list[Measure]]:
    """Group measures by the column of labels that they read."""
    found: dict[str, list[Measure]] = {}
    for one in measures:
        found.setdefault(_label_of(one), []).append(one)
    return found


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


#: How the table of `join_runs` is evaluated.
_JOINED = {"order": "grouped", "unretrieved": "allow", "unjudged": "allow"}
#: Options with which ranks of judged documents may be all that is needed of the rows.
_OF_RANKS = {"baseline", "confidence", "min_groups", "score_type", "threads", "undefined"}
#: The command line's measures, without those that compare all rows.
_DEFAULT_MEASURES = "nDCG@10,AP,RR,P@10,R@10"
#: Profiles in which names have the meaning that trec_eval gives them.
_VERSIONS = {"trec_eval_9": 9, "trec_eval_10": 10}


@typed
def evaluate(
    qrels: object,
    run: object = None,
    measures: str | Measure | Sequence[str | Measure] = _DEFAULT_MEASURES,
    *,
    complete: bool | None = None,
    level: float = 1,
    drop_self: bool | None = None,
    skip_first: bool = False,
    most: int | None = None,
    judged_only: bool = False,
    query: str | None = None,
    doc: str | None = None,
    grade: str | None = None,
    score: str | None = None,
    profile: str | None = "trec_eval_10",
    **options: Any,
) -> Result:
    """Evaluate one or several runs against judgements.

    It joins them as `join` does, and evaluates the table with ``group="query"``, ``item="doc"``
    and ``label="grade"``. The numbers are those of trec_eval 10, unless `profile` is another.

    Parameters
    ----------
    qrels : object
        Judgements: a TREC or JSON file, ``{query: {doc: grade}}``, ``{query: {doc, ...}}``, or a
        table, frame or file with the columns of this package (``query, doc, grade``), PyTerrier
        (``qid, docno, label``), ir_measures (``query_id, doc_id, relevance``), ranx (``q_id,
        doc_id, score``) or BEIR (``query-id, corpus-id, score``). See `read_qrels`. Or, without
        `run`, several data sets: ``{"scifact": (qrels, run), "nq": (qrels, run)}``.
    run : object
        A run of the same forms, with the column ``score``; ``{query: [doc, ...]}``, best first; or
        a mapping of names to runs, ``{"bm25": "bm25.run", "ours": frame}``, which are the models
        of the result. A mapping of names to lists of texts is one run of documents, unless local
        files have these names. See `read_run`.
    measures : str, Measure or sequence of them
        Names of this package, trec_eval and ir_measures, as `trec_report` reads them: under a
        profile of trec_eval, ``"P"`` has nine cutoffs. By default nDCG@10, AP, RR, P@10 and R@10.
    complete : bool, optional
        Whether a judged query that a run lacks counts 0, as with ``-c`` of trec_eval, or is left
        out. By default it counts 0, unless the tool of `profile` leaves it out: trec_eval 9,
        gdeval, ndeval, MTEB, and BEIR for nDCG, AP, R and P. A query of a run whose dict or list of
        documents is empty is not lacking: it counts 0. If queries are left out, several runs must
        have the same judged queries, so that the value of a run does not depend on the others.
    level : float
        Least relevant grade, above 0, of measures that do not set `rel` (``-l``).
    drop_self : bool, optional
        Leave out a document that has the id of its query, as in ArguAna and Quora, where queries
        are documents. If it is judged, it still counts in R and in the ideal ranking. By default
        only if the tool of `profile` does: beir.
    skip_first : bool
        Then leave out the document of the highest score, of equal ones that of the highest id.
    most : int, optional
        Then the largest number of documents of each query that count (``-M``): those of the highest
        scores, of equal ones those with the highest ids.
    judged_only : bool
        Leave unjudged documents, and those with a negative grade, out of the rankings, after `most`
        (``-J``). ``unjudged="drop"`` keeps documents with a negative grade.
    query, doc, grade, score : str, optional
        Names of the columns of all tables, if they are others than those above.
    profile : str or None
        The conventions. None: those of this package, where equal scores count as the mean over
        their orders, nDCG has the gain ``2^grade - 1``, and queries without a relevant document are
        left out.
    **options
        Any other argument of `fastrank_eval.evaluate`, such as `confidence` and `threads`.

    Returns
    -------
    Result
        Its models are the names of the runs, ``"score"`` for a single one. ``result["bm25", "AP"]``
        has a value for each query, and ``result.compare(baseline="bm25")`` tests the differences.
        Of several data sets a `Benchmark`, with their means.
        `Meta.conventions` has `complete` and the numbers of queries that are judged
        (``judged_queries``), that only runs or judgements have (``only_in_run``,
        ``only_in_qrels``), and for which each run has no document (``unanswered``).

    Raises
    ------
    ArgumentError
        If no run has a judged query, unless ``complete=True`` is given; if runs lack different
        queries, and these are left out.
    FastRankEvalError
        As `join` and `fastrank_eval.evaluate` do.

    References
    ----------
    trec_eval 10, https://github.com/usnistgov/trec_eval

    Examples
    --------
    >>> qrels = {"q1": {"d3": 1, "d5": 0}, "q2": {"d1": 2}}
    >>> runs = {"bm25": {"q1": {"d5": 2.5, "d3": 1.5}, "q2": {"d1": 0.5}},
    ...         "ours": {"q1": {"d3": 0.9, "d5": 0.2}, "q2": {"d1": 0.7}}}
    >>> result = evaluate(qrels, runs, "nDCG@10,MAP")
    >>> result.value("MAP", "bm25"), result.value("MAP", "ours")
    (0.75, 1.0)
    >>> result["bm25", "MAP"]
    array([0.5, 1. ])
    """
    check_names("trec", options, evaluate, "trec.evaluate")
    if run is None:
        given = {**locals(), **options}
        del given["options"], given["qrels"], given["run"]
        return _evaluate_data_sets(qrels, given)
    if isinstance(run, str | Measure) and _are_data_sets(qrels) and not _have_ids(qrels):
        raise ArgumentError(
            f"run: must be left out for several data sets, got {str(run)!r}; pass measures="
            f"{str(run)!r}."
        )
    tool = None if profile is None else profile_of(profile)
    if drop_self is None:
        drop_self = tool is not None and tool.drop_self
    cuts = Cuts(drop_self, skip_first, most, judged_only)
    check_level(level)
    score_type = options.get("score_type") or (tool and tool.choices.get("score_type"))
    columns = {"query": query, "doc": doc, "grade": grade, "score": score}
    as_float32 = score_type == "float32"
    version = None if profile is None else _VERSIONS.get(profile)
    asked = (
        list(requested_measures(measures))
        if version is None
        else single_measures(measures, version)
    )
    parts = _parts(asked, tool)
    if len(parts) > 1:
        _refuse_sums(options)
    is_complete = any(part.counts_absent(complete) for part in parts)
    anywhere = any(part.label == ANYWHERE for part in parts)
    judged, runs = read_runs(qrels, run, columns)

    def join() -> Joined:
        """Make the rows of all documents."""
        float32 = {"as_float32": as_float32, "anywhere": anywhere}
        return join_runs(judged, runs, is_complete, cuts, **float32)

    dicts = None
    if options.keys() <= _OF_RANKS and cuts.by_document and are_dicts([judged, *runs.values()]):
        dicts = RankedDicts(judged, runs, cuts, is_complete)
    joined = join() if dicts is None else dicts.joined()
    common = joined.queries - joined.only_in_qrels * is_complete
    if not (joined.queries if complete else common):
        known = joined.queries + joined.only_in_qrels * (not is_complete)
        raise no_common_query(known, joined.only_in_run, are_lists=is_ranked(run))
    if not all(part.counts_absent(complete) for part in parts):
        _refuse_different_queries(joined, joined.only_in_qrels * is_complete)
    used = asked
    if version is not None and have_gains(asked):
        grades = joined.table["grade"].unique().drop_null().to_pylist()
        used = _with_all_gains(asked, grades if dicts is None else dicts.grades)
    used = [at_level(one, level).with_display_name(one.display_name) for one in used]
    requests = [_request(part, joined, used, options) for part in parts]
    plans = [] if dicts is None else [plan_of(request) for request in requests]
    if not all(plan.takes_ranks and plan.ties == "item" for plan in plans):
        dicts, joined = None, join()
        requests = [_request(part, joined, used, options) for part in parts]
    results: dict[int, Result] = {}
    for place, (part, request) in enumerate(zip(parts, requests, strict=True)):
        ranked, absent = None, is_complete and not part.counts_absent(complete)
        if dicts is not None:
            kept = RankedDicts(judged, runs, cuts, False) if absent else dicts
            ranked = kept.table(
                as_float32=as_float32,
                anywhere=part.label == ANYWHERE,
                with_unjudged=plans[place].roles.judgments,
            )
        elif absent and joined.answered is not None:
            request = request.replace(source=joined.table.filter(mask_column(joined.answered)))
        of_part = evaluate_options(request, ranked)
        results |= dict.fromkeys(part.places, of_part)
    result = _beside([results[place] for place in range(len(used))], used)
    notes = [*joined.notes, *_differences(parts, results, used)]
    counted = sorted(
        place for part in parts if part.counts_absent(complete) for place in part.places
    )
    of_some = [used[place].display_name for place in counted]
    conventions = {
        **results[parts[0].places[0]].meta.conventions,
        "measures": result.meta.conventions["measures"],
        **({} if profile is None else {"profile": profile}),
        "complete": of_some if 0 < len(counted) < len(used) else is_complete,
        "judged_queries": joined.queries + joined.only_in_qrels * (not is_complete),
        "only_in_run": joined.only_in_run,
        "only_in_qrels": joined.only_in_qrels,
        "unanswered": joined.unanswered,
        **({} if level == 1 else {"level": level}),
        **cuts.chosen(),
        **({"reading_notes": tuple(notes)} if notes else {}),
        **(_facts(joined) if dicts is None else dicts.facts()),
    }
    # A measure is found by the name that was asked for, without the level and other gains.
    requested = dict(result.requested) | {
        text_with_options(one): result.requested.get(text_with_options(other), str(other))
        for one, other in zip(asked, used, strict=True)
        if one != other
    }
    result.requested = requested
    result.meta = replace(result.meta, conventions=conventions, requested=requested)
    return result


def _request(
    part: _Part, joined: Joined, used: Sequence[Measure], options: Mapping[str, Any]
) -> Options:
    """Check the options of the evaluation of a part."""
    given = {
        "group": "query",
        "label": part.label,
        "score": joined.scores,
        "item": "doc",
        "subtopics": "subtopics" if "subtopics" in joined.table.column_names else None,
        "measures": [used[place] for place in part.places],
        **_JOINED,
        **part.choices,
        **options,
    }
    return Options.read(joined.table, given)


def _with_all_gains(measures: Sequence[Measure], grades: Iterable[float]) -> list[Measure]:
    """Give gains to all grades; refuse two measures that become one."""
    found: dict[str, str] = {}
    for one in measures:
        text = str(with_gains(one, grades))
        if found.setdefault(text, str(one)) != str(one):
            raise MeasureError(
                f"measures: must have different gains for the judged grades, got {found[text]} and "
                f"{one}, which are {text}; leave one out."
            )
    return [with_gains(one, grades) for one in measures]


def _are_data_sets(source: object) -> TypeGuard[Mapping[object, Sequence[Any]]]:
    """Return whether these are pairs of judgements and runs."""
    return isinstance(source, Mapping) and all(
        isinstance(pair, tuple | list) and len(pair) == 2 and pair[1] is not None
        for pair in source.values()
    )


def _have_ids(source: Mapping[object, Sequence[Any]]) -> bool:
    """Return whether lists have ids of documents, or paths."""
    return all(isinstance(one, str | int) for pair in source.values() for one in pair)


def _evaluate_data_sets(source: object, options: Mapping[str, Any]) -> Benchmark:
    """Evaluate pairs of judgements and runs by data set."""
    if not _are_data_sets(source):
        raise ArgumentError(
            "run: must be given, or pairs of judgements and runs by data set, as in "
            "evaluate({'scifact': (qrels, {'bm25': run})}); pass the run second."
        )
    if not source:
        raise ArgumentError("qrels: must have data sets, got none; name one.")
    baseline, columns = options.get("baseline"), {n: options[n] for n in ("query", "doc", "score")}
    is_compared: dict[str, bool] = {}
    for name, (_, given) in zip(map(str, source), source.values(), strict=True):
        if name in is_compared:
            raise ArgumentError(
                f"qrels: must have data sets of different names, got {name!r} twice; rename one."
            )
        with _named_in_errors(name):
            runs = name_runs(given, columns) if baseline is not None else {}
        is_compared[name] = len(runs) > 1 and baseline in runs
    results: dict[str, Result] = {}
    for (name, has_both), pair in zip(is_compared.items(), source.values(), strict=True):
        # A data set without the baseline or another system has no difference.
        leave_out = {"baseline": None} if any(is_compared.values()) and not has_both else {}
        with _named_in_errors(name):
            results[name] = evaluate(*pair, **{**options, **leave_out})
    return Benchmark(results)


@contextmanager
def _named_in_errors(name: str) -> Iterator[None]:
    """Name the data set in errors; some are made of other arguments."""
    try:
        yield
    except FastRankEvalError as error:
        error.args = (f"data set {name!r}: {error}",)
        raise


class _Part(NamedTuple):
    """Measures of one evaluation.

    Parameters
    ----------
    label : str
        The column of labels that they read.
    tool : Profile or None
        The conventions of these measures.
    is_apart : bool
        Whether they are not those of the other measures of the tool.
    places : list of int
        Positions of the measures among all.
    """

    label: str
    tool: Profile | None
    is_apart: bool
    places: list[int]

    @property
    def choices(self) -> Mapping[str, str]:
        """Arguments of `evaluate`."""
        if self.tool is None:
            return {}
        return self.tool.choices if self.is_apart else {"profile": self.tool.name}

    def counts_absent(self, complete: bool | None) -> bool:
        """Return whether a judged query without results counts 0."""
        if complete is not None:
            return complete
        return self.tool is None or self.tool.complete


def _parts(measures: Sequence[Measure], tool: Profile | None) -> list[_Part]:
    """Divide measures by the labels and conventions that they need."""
    parts: dict[tuple[str, bool], _Part] = {}
    apart = None if tool is None else tool.apart
    for place, one in enumerate(measures):
        is_apart = apart is not None and one.name in apart.options
        key = _label_of(one), is_apart
        part = parts.setdefault(key, _Part(key[0], apart if is_apart else tool, is_apart, []))
        part.places.append(place)
    return sorted(parts.values(), key=lambda part: part.is_apart)


def _differences(
    parts: Sequence[_Part], results: Mapping[int, Result], measures: Sequence[Measure]
) -> Iterator[str]:
    """Note the conventions of measures that a tool computes by others."""
    first, last = (results[part.places[0]].meta.conventions for part in (parts[0], parts[-1]))
    changed = [f"{name}={last[name]}" for name in DEFAULTS if last[name] != first[name]]
    if changed and parts[-1].tool is not None:
        apart = sorted(place for part in parts if part.is_apart for place in part.places)
        names = list_text(measures[place].display_name for place in apart)
        yield f"{names}: {', '.join(changed)}, as in {parts[-1].tool.tool}"


def _beside(results: Sequence[Result], measures: Sequence[Measure]) -> Result:
    """Return the only result, or put the measures of several into one.

    Parameters
    ----------
    results : sequence of Result
        For each measure the one that has it. They have the same queries, or one has all.
    measures : sequence of Measure
    """
    distinct = list({id(result): result for result in results}.values())
    if len(distinct) == 1:
        return distinct[0]
    pairs = zip(measures, results, strict=True)
    texts = list(dict.fromkeys(str(find_measure(one, r.names, r.requested)) for one, r in pairs))
    whole = max(distinct, key=lambda result: result.meta.groups)
    others = [result for result in distinct if result is not whole]
    values = [value for result in (whole, *others) for value in result]
    places = {of: n for n, of in enumerate(dict.fromkeys((v.by, v.slice, v.score) for v in values))}
    values.sort(key=lambda v: (places[v.by, v.slice, v.score], texts.index(v.measure)))
    options: dict[str, object] = {}
    requested: dict[str, str] = {}
    for result in distinct:
        options |= cast(dict[str, object], result.meta.conventions["measures"])
        requested |= result.requested
    conventions = {
        **whole.meta.conventions,
        "measures": {text: options[text] for text in texts},
    }
    seconds = sum(result.meta.seconds for result in distinct)

    def groups() -> GroupTable:
        return whole.group_table().beside([one.group_table() for one in others], texts)

    return Result(
        values,
        groups if whole.keeps_groups else None,
        replace(whole.meta, conventions=conventions, seconds=seconds, requested=requested),
        whole.scores,
        texts,
        requested,
    )


def _refuse_sums(options: Mapping[str, Any]) -> None:
    """Raise if options ask for the sums of one pass, where there are several."""
    kept = OPTIONS["keep"].read("keep", options.get("keep")) - {"values"}
    for name, given, remedy in (
        ("keep", ",".join(sorted(kept)), "leave it out"),
        ("baseline", options.get("baseline"), "pass it to result.compare()"),
    ):
        if given:
            raise ArgumentError(
                f"{name}: must not be given for measures of several passes, such as Hole@10 beside "
                f"nDCG@10, got {given!r}; {remedy}, or evaluate each kind by itself."
            )


def _facts(joined: Joined) -> dict[str, object]:
    """Find the largest grade, and the judged documents of each run."""
    grades = joined.table["grade"]
    is_judged = grades.is_valid().combine_chunks()
    judged = {}
    for name in joined.scores:
        is_retrieved = joined.table[name].is_valid().combine_chunks()
        if is_retrieved.true_count:
            judged[name] = int((as_array(is_retrieved) & as_array(is_judged)).sum())
    known = as_array(grades.drop_null().combine_chunks())
    largest = {"largest_grade": known.max().item()} if len(known) else {}
    return {"judged_documents": judged, **largest}


def _refuse_different_queries(joined: Joined, absent: int) -> None:
    """Raise if a run lacks a query that another one has.

    `absent` is the number of queries of the table that no run has.
    """
    for name, lacking in joined.lacking.items():
        if lacking > absent:
            raise ArgumentError(
                f"run: must be runs with the same judged queries if complete is False, but {name} "
                f"lacks {lacking - absent:,} of {joined.queries - absent:,}; pass complete=True to "
                "count 0, or evaluate each run by itself."
            )
