"""What trec_eval prints of a run, computed here."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from fastrank_eval.arrow_values import column_with_nulls
from fastrank_eval.columns import frozen, row_column
from fastrank_eval.errors import ArgumentError
from fastrank_eval.evaluate import evaluate
from fastrank_eval.groups import group_starts
from fastrank_eval.ties import order_by_item
from fastrank_eval.trec.joining import join
from fastrank_eval.trec.lines_printed import VERSIONS, Line, wanted_lines
from fastrank_eval.validation import as_array

__all__ = ["TrecReport", "trec_report"]

#: Value of one line: a number, or text.
_Value = float | str


@dataclass(frozen=True, slots=True)
class TrecReport:
    """What trec_eval prints of one run.

    Parameters
    ----------
    run : str
        Its tag.
    lines : tuple of Line
    summary : tuple of (float or str)
        The value of each line that sums up all queries.
    queries : tuple of str
        Queries that have lines of their own, in order of their bytes.
    by_query : tuple of tuple of (float or str)
        For each of them, the value of each line of single queries.
    """

    run: str
    lines: tuple[Line, ...]
    summary: tuple[_Value, ...]
    queries: tuple[str, ...]
    by_query: tuple[tuple[_Value, ...], ...]

    def rows(self, single: bool, summary: bool) -> Iterator[tuple[Line, str, _Value]]:
        """Lines with their query (``"all"`` sums up) and value, as trec_eval orders them."""
        if single:
            lines = [line for line in self.lines if line.by_query]
            for query, values in zip(self.queries, self.by_query, strict=True):
                for line, value in zip(lines, values, strict=True):
                    yield line, query, value
        if summary:
            lines = [line for line in self.lines if line.summary]
            for line, value in zip(lines, self.summary, strict=True):
                yield line, "all", value

    def to_text(self, single: bool = False, summary: bool = True) -> str:
        """The lines as trec_eval prints them, four decimals a number."""
        return "".join(
            f"{line.name:<22}\t{query}\t{_printed(line, value)}\n"
            for line, query, value in self.rows(single, summary)
        )

    def to_csv(self, single: bool = False, summary: bool = True) -> str:
        """Columns run, measure, query, value, with a header; numbers with all their digits."""
        sheet = io.StringIO()
        writer = csv.writer(sheet, lineterminator="\n")
        writer.writerow(["run", "measure", "query", "value"])
        for line, query, value in self.rows(single, summary):
            writer.writerow([self.run, line.name, query, _plain(line, value)])
        return sheet.getvalue()

    def to_dict(self, single: bool = False, summary: bool = True) -> dict[str, object]:
        """Values by query and name, in plain types; ``"all"`` sums up."""
        found: dict[str, dict[str, object]] = {}
        for line, query, value in self.rows(single, summary):
            found.setdefault(query, {})[line.name] = _plain(line, value)
        return {"run": self.run, "queries": found}


def trec_report(
    run: pa.Table,
    qrels: pa.Table,
    *,
    measures: Sequence[str] = ("official",),
    version: int = 10,
    complete: bool = False,
    level: float = 1,
    most: int | None = None,
    judged_only: bool = False,
) -> TrecReport:
    r"""Evaluate a run as trec_eval does.

    Documents rank by score, tied ones by id, descending; the rank column does not matter. A query
    without a relevant document counts 0.

    Parameters
    ----------
    run, qrels : pyarrow.Table
        As `read_run` and `read_qrels` give them.
    measures : sequence of str
        As `wanted_lines` takes them.
    version : {9, 10}
        Version 9 rounds scores to float32 and reaches recall levels by another rule; version 10
        refuses a run that lacks a judged query, unless `complete`.
    complete : bool
        Judged queries that the run lacks count 0 (``-c``).
    level : float
        The least grade that is relevant (``-l``).
    most : int, optional
        Only so many documents of each query count (``-M``).
    judged_only : bool
        Documents that nobody judged are left out of the ranking (``-J``).

    Raises
    ------
    ArgumentError
        Unknown measure or version, or a query that the run lacks.

    References
    ----------
    trec_eval 10, https://github.com/usnistgov/trec_eval

    Examples
    --------
    >>> from fastrank_eval.trec import read_qrels, read_run
    >>> run = read_run(b"q1 Q0 d7 1 2.5 bm25\nq1 Q0 d3 2 1.5 bm25")
    >>> report = trec_report(run, read_qrels(b"q1 0 d3 1"), measures=["map", "P.5"])
    >>> print(report.to_text(), end="")
    map                   	all	0.5000
    P_5                   	all	0.2000
    """
    if version not in VERSIONS:
        raise ArgumentError(f"trec_eval version {version!r} is not one of {VERSIONS}.")
    if most is not None and most < 1:
        raise ArgumentError(f"-M {most}: at least one document of each query must count.")
    lines = wanted_lines(measures, version, level)
    joined = join(run, qrels, complete=complete)
    if version == 10 and joined.only_in_qrels and not complete:
        raise ArgumentError(
            f"the run lacks {joined.only_in_qrels:,} judged queries, which trec_eval 10 refuses; "
            "pass -c to count them as 0, or --as 9 to leave them out."
        )
    if not joined.queries:
        raise ArgumentError(
            "no query has both a run and judgements; do the files name the same queries?"
        )
    table = joined.table
    if judged_only:
        table = table.filter(table["grade"].is_valid())
    strings: dict[str, str] = {}
    depth = max((line.depth for line in lines), default=0)
    if most is not None or depth:
        ranked, starts = _ranked(table, single=version == 9)
        strings = _relevance_strings(table, ranked, starts, min(depth, most or depth))
        if most is not None:
            table = _cut(table, ranked, starts, most)
    tag = str(run["run"][0]) if "run" in run.column_names and run.num_rows else "run"
    return _report(tag, lines, table, strings, version, joined.queries)


def _report(
    tag: str,
    lines: tuple[Line, ...],
    table: pa.Table,
    strings: Mapping[str, str],
    version: int,
    queries: int,
) -> TrecReport:
    wanted = dict.fromkeys(line.measure for line in lines if line.measure is not None)
    result = evaluate(
        table,
        group="query",
        item="doc",
        label="grade",
        score="score",
        measures=[*wanted, "NumRet"],
        profile=f"trec_eval_{version}",
        order="grouped",
    )
    names = result.per_group["query"].to_pylist()
    order = sorted(range(len(names)), key=lambda at: names[at].encode())
    if version == 9:
        # Queries that the run lacks are counted there, but not printed.
        retrieved = result["NumRet"]
        order = [at for at in order if retrieved[at] > 0]
    columns: list[Sequence[_Value]] = []
    for line in lines:
        if not line.by_query:
            continue
        if line.measure is None:
            columns.append([f"'{strings.get(name, '')}'" for name in names])
        else:
            columns.append(result[line.measure].tolist())
    summary: list[_Value] = []
    for line in lines:
        if line.name == "runid":
            summary.append(tag)
        elif line.name == "num_q":
            summary.append(float(queries))
        elif line.measure is not None:
            summary.append(result.value(line.measure))
    return TrecReport(
        tag,
        lines,
        tuple(summary),
        tuple(names[at] for at in order),
        tuple(tuple(column[at] for column in columns) for at in order),
    )


def _ranked(table: pa.Table, single: bool) -> tuple[np.ndarray, np.ndarray]:
    """Retrieved rows by query and rank, and where each query begins among them."""
    score = table["score"].combine_chunks()
    kept = np.flatnonzero(as_array(score.is_valid()).view(np.bool_))
    if not len(kept):
        return kept, np.zeros(1, np.int64)
    rows = row_column(kept)
    values = as_array(score.take(rows))
    if single:
        with np.errstate(over="ignore"):
            values = frozen(values.astype(np.float32))
    queries = table["query"].combine_chunks().take(rows)
    starts = np.concatenate([[0], group_starts((queries,)), [len(kept)]])
    docs = table["doc"].combine_chunks().take(rows)
    return kept[order_by_item(values, starts, docs)], starts


def _cut(table: pa.Table, ranked: np.ndarray, starts: np.ndarray, most: int) -> pa.Table:
    """The same rows, of which only the first `most` of each query are retrieved."""
    rank = np.arange(len(ranked)) - np.repeat(starts[:-1], np.diff(starts))
    retrieved = np.zeros(table.num_rows, np.bool_)
    retrieved[ranked[rank < most]] = True
    score = table["score"].combine_chunks()
    values = np.zeros(table.num_rows)
    there = as_array(score.is_valid()).view(np.bool_)
    values[there] = as_array(score.take(row_column(np.flatnonzero(there))))
    cut = table.set_column(
        table.column_names.index("score"), "score", column_with_nulls(values, ~retrieved)
    )
    # What nobody judged and is not retrieved any more is no row of its query.
    judged = as_array(table["grade"].combine_chunks().is_valid()).view(np.bool_)
    return cut.take(row_column(np.flatnonzero(retrieved | judged)))


def _relevance_strings(
    table: pa.Table, ranked: np.ndarray, starts: np.ndarray, depth: int
) -> dict[str, str]:
    """The grades of each query's first documents, a sign each."""
    if not len(ranked) or not depth:
        return {}
    firsts = ranked[starts[:-1]]
    names = table["query"].combine_chunks().take(row_column(firsts)).to_pylist()
    shown = np.concatenate(
        [ranked[lo : min(lo + depth, hi)] for lo, hi in pairwise(starts.tolist())]
    )
    grades = table["grade"].combine_chunks().take(row_column(shown)).to_pylist()
    ends = np.cumsum(np.minimum(np.diff(starts), depth)).tolist()
    return {
        name: "".join(map(_sign, grades[lo:hi]))
        for name, lo, hi in zip(names, [0, *ends[:-1]], ends, strict=True)
    }


def _sign(grade: float | None) -> str:
    if grade is None or grade == -1:
        return "-"
    if grade < 0:
        return "." if grade == -2 else "<"
    return ">" if grade > 9 else str(int(grade))


def _printed(line: Line, value: _Value) -> str:
    if isinstance(value, str):
        return value
    return str(int(value)) if line.count else f"{value:.4f}"


def _plain(line: Line, value: _Value) -> _Value | int:
    return int(value) if line.count and not isinstance(value, str) else value
