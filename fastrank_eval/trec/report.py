"""What trec_eval prints of a run, computed here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from fastrank_eval.csv_text import csv_text
from fastrank_eval.errors import ArgumentError
from fastrank_eval.evaluate import evaluate
from fastrank_eval.trec.keyed import Keyed
from fastrank_eval.trec.lines_printed import VERSIONS, Line, wanted_lines
from fastrank_eval.trec.matching import match
from fastrank_eval.trec.ranked import Ranked, rank_documents
from fastrank_eval.trec.reading import keyed_qrels, keyed_run
from fastrank_eval.typed_arguments import typed

__all__ = ["TrecReport", "trec_report"]

#: Value of one line: a number, or text.
_Value = float | str


@dataclass(frozen=True, slots=True)
class TrecReport:
    """What trec_eval prints of one run.

    Parameters
    ----------
    run : str
        Its tag, that of its last line.
    lines : tuple of Line
    summary : tuple of (float or str)
        The value of each line that sums up all queries.
    queries : tuple of str
        Queries that have lines of their own, in order of their bytes.
    columns : tuple of (ndarray or sequence of str)
        For each line of single queries, the value of each of them.
    """

    run: str
    lines: tuple[Line, ...]
    summary: tuple[_Value, ...]
    queries: tuple[str, ...]
    columns: tuple[np.ndarray | Sequence[str], ...]

    @property
    def by_query(self) -> tuple[tuple[_Value, ...], ...]:
        """For each query, the value of each line of single queries."""
        columns = [c.tolist() if isinstance(c, np.ndarray) else c for c in self.columns]
        return tuple(zip(*columns, strict=True)) if columns else ((),) * len(self.queries)

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

    @typed
    def to_csv(self, single: bool = False, summary: bool = True, *, safe: bool = False) -> str:
        """Columns run, measure, query, value, with a header; numbers with all their digits.

        With `safe` an apostrophe stands before text that a spreadsheet takes for a formula.
        """
        rows = self.rows(single, summary)
        return csv_text(
            ["run", "measure", "query", "value"],
            ([self.run, line.name, query, _plain(line, value)] for line, query, value in rows),
            safe,
        )

    def to_dict(self, single: bool = False, summary: bool = True) -> dict[str, object]:
        """Values by query and name, in plain types; ``"all"`` sums up."""
        found: dict[str, dict[str, object]] = {}
        for line, query, value in self.rows(single, summary):
            found.setdefault(query, {})[line.name] = _plain(line, value)
        return {"run": self.run, "queries": found}


@typed
def trec_report(
    run: object,
    qrels: object,
    *,
    measures: Sequence[str] = ("official",),
    version: int = 10,
    complete: bool = False,
    level: float = 1,
    most: int | None = None,
    judged_only: bool = False,
    duplicates: str = "error",
) -> TrecReport:
    r"""Evaluate a run as trec_eval does.

    Documents rank by score, tied ones by id, descending; the rank column does not matter. A query
    without a relevant document counts 0. Grades that are no whole numbers count as they are, where
    trec_eval leaves out what follows the point.

    Parameters
    ----------
    run, qrels : object
        What `read_run` and `read_qrels` take, or what they give.
    measures : sequence of str
        As `wanted_lines` takes them.
    version : {9, 10}
        Version 9 rounds scores to float32 and reaches recall levels by another rule; version 10
        refuses a run that lacks a judged query, unless `complete`.
    complete : bool
        Judged queries that the run lacks count 0 (``-c``).
    level : float
        The least grade that is relevant, above 0 (``-l``).
    most : int, optional
        Only so many documents of each query count (``-M``).
    judged_only : bool
        Documents that nobody judged, or that have a negative grade, are left out of the ranking,
        after `most` (``-J``).
    duplicates : {"error", "first", "last", "max"}
        A document that a query has twice, as `read_run` and `read_qrels` take it.

    Raises
    ------
    ArgumentError
        Unknown measure or version, a `level` or `most` out of range, or a query that the run lacks.

    References
    ----------
    trec_eval 10, https://github.com/usnistgov/trec_eval

    Examples
    --------
    >>> run = b"q1 Q0 d7 1 2.5 bm25\nq1 Q0 d3 2 1.5 bm25"
    >>> report = trec_report(run, b"q1 0 d3 1", measures=["map", "P.5"])
    >>> print(report.to_text(), end="")
    map                   	all	0.5000
    P_5                   	all	0.2000
    """
    if version not in VERSIONS:
        raise ArgumentError(f"trec_eval version {version!r} is not one of {VERSIONS}.")
    if most is not None and not 1 <= most < 1 << 63:
        raise ArgumentError(f"-M {most}: from 1 to 2^63 - 1 documents of each query must count.")
    if not 0 < level < np.inf:
        raise ArgumentError(f"-l {level:g}: the least relevant grade must be a number above 0.")
    lines = wanted_lines(measures, version, level)
    tag, ranked = _ranked(
        keyed_run(run, duplicates),
        keyed_qrels(qrels, duplicates),
        version=version,
        complete=complete,
        most=most,
        judged_only=judged_only,
        depth=max((line.depth for line in lines), default=0),
    )
    return _report(tag, lines, ranked, version)


def _ranked(
    run: Keyed,
    qrels: Keyed,
    *,
    version: int,
    complete: bool,
    most: int | None,
    judged_only: bool,
    depth: int,
) -> tuple[str, Ranked]:
    """The tag of a run, and its documents ranked; texts of documents are not needed after it."""
    matched = match(run, qrels, complete)
    if version == 10 and matched.only_in_qrels and not complete:
        raise ArgumentError(
            f"the run lacks {matched.only_in_qrels:,} judged queries, which trec_eval 10 refuses; "
            "pass -c to count them as 0, or --as 9 to leave them out."
        )
    if not matched.wanted.any():
        raise ArgumentError(
            "no query has both a run and judgements; do the files name the same queries?"
        )
    tags = run.encoded["run"] if "run" in run.encoded.column_names else []
    # As trec_eval prints it: that of the last line.
    tag = str(tags[len(tags) - 1].as_py()) if len(tags) else "run"
    ranked = rank_documents(
        run,
        qrels,
        matched,
        single=version == 9,
        most=most,
        judged_only=judged_only,
        depth=depth,
    )
    return tag, ranked


def _report(tag: str, lines: tuple[Line, ...], ranked: Ranked, version: int) -> TrecReport:
    if any(line.has_gains for line in lines):
        grades = ranked.table["grade"].unique().drop_null().to_pylist()
        lines = tuple(line.for_grades(grades) for line in lines)
    # Whatever is asked, there is a measure to evaluate.
    wanted = dict.fromkeys(chain.from_iterable(line.measures for line in lines))
    result = evaluate(
        ranked.table,
        group="query",
        label="grade",
        score="score",
        measures=list(wanted) or "NumRet",
        profile=f"trec_eval_{version}",
        # Rows stand as documents rank, tied ones by id.
        ties="input",
        presorted=True,
    )
    names = ranked.queries.to_pylist()
    order = sorted(range(len(names)), key=lambda at: names[at].encode())
    if version == 9:
        # Queries that the run lacks are counted there, but not printed.
        order = [at for at in order if ranked.answered[at]]
    columns: list[np.ndarray | Sequence[str]] = []
    summary: list[_Value] = []
    for line in lines:
        if line.depth:
            columns.append([f"'{ranked.strings[at]}'" for at in order])
        elif line.measures and line.by_query:
            columns.append(np.mean([result[m][order] for m in line.measures], axis=0))
        if line.name == "runid":
            summary.append(tag)
        elif line.name == "num_q":
            summary.append(float(len(names)))
        elif line.measures:
            summary.append(sum(result.value(m) for m in line.measures) / len(line.measures))
    return TrecReport(tag, lines, tuple(summary), tuple(names[at] for at in order), tuple(columns))


def _printed(line: Line, value: _Value) -> str:
    if isinstance(value, str):
        return value
    return str(int(value)) if line.count else f"{value:.4f}"


def _plain(line: Line, value: _Value) -> _Value | int:
    return int(value) if line.count and not isinstance(value, str) else value
