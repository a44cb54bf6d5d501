"""Compute and print the report of trec_eval."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain

import numpy as np

from fastrank_eval._lib.arguments import shown, typed
from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.errors import ArgumentError, near
from fastrank_eval._lib.files import csv_text
from fastrank_eval.integrations.trec.join import RankedQueries, rank_documents
from fastrank_eval.integrations.trec.lines import QRELS, RUN
from fastrank_eval.integrations.trec.pairs import Common
from fastrank_eval.integrations.trec.tables import read_pairs
from fastrank_eval.measures import Measure, measure
from fastrank_eval.results.evaluate import evaluate

VERSIONS = (9, 10)

_CUTS = ("5", "10", "15", "20", "30", "100", "200", "500", "1000")
_TENTHS = tuple(f"{i / 10:.2f}" for i in range(11))
_FIFTHS = tuple(f"{i / 5:.2f}" for i in range(1, 11))
_CUTOFF = re.compile(r"(\d+)(\.\d*)?", re.ASCII)


@dataclass(frozen=True)
class Line:
    """One line of the output.

    Parameters
    ----------
    name : str
        Printed name.
    measures : tuple of Measure
        The value is their mean: usually one measure; none for ``runid``, ``num_q`` and
        ``relstring``.
    count : bool
        Whether it is printed as a whole number.
    by_query : bool
        Whether there is a line for every query.
    summary : bool
        Whether there is a line for all queries.
    depth : int
        Documents of a ``relstring``.
    """

    name: str
    measures: tuple[Measure, ...] = ()
    count: bool = False
    by_query: bool = True
    summary: bool = True
    depth: int = 0

    def for_grades(self, grades: Iterable[float]) -> Line:
        """Use grades as their own gains where a table of gains has no entry."""
        return replace(self, measures=tuple(_with_gains(m, grades) for m in self.measures))

    @property
    def has_gains(self) -> bool:
        """Whether a measure has a table of gains."""
        return any(isinstance(m.chosen.get("gain"), tuple) for m in self.measures)


@dataclass(frozen=True)
class _TrecMeasure:
    """A measure of trec_eval, with or without parameters.

    `text` is the text of our measure, with ``{}`` for a parameter; each parameter has a line. If a
    single line depends on all parameters, `parse` converts them to texts of our measures, whose
    mean is the value; it raises ValueError with the expected form.
    """

    text: str
    defaults: tuple[str, ...] = ()
    has_integers: bool = True
    count: bool = False
    by_query: bool = True
    since: int = 9
    parse: Callable[[str], tuple[str, ...]] | None = None


def _set_f(parameter: str) -> tuple[str, ...]:
    try:
        recall = float(parameter)
    except ValueError:
        recall = -1.0
    if not 0 <= recall < 1e9:
        raise ValueError("one number, what recall is worth, as in 'set_F.2.0'")
    return (f"F(alpha={1 / (1 + recall)!r})",)


def _utility(parameter: str) -> tuple[str, ...]:
    try:
        hit, miss, missed, last = map(float, parameter.split(","))
    except ValueError:
        last = 1.0
    if last != 0:
        # Its factor is the size of the collection, which is in no file.
        raise ValueError("four numbers, the last of them 0, as in 'utility.2,-1,0,0'")
    return (f"Utility(rel_ret={hit!r}, nonrel_ret={miss!r}, rel_missed={missed!r})",)


def _recall_levels(parameter: str) -> tuple[str, ...]:
    try:
        levels = [float(level) for level in parameter.split(",")]
    except ValueError:
        levels = [-1.0]
    # For levels in another order, trec_eval adds up precisions at other levels.
    if not all(0 <= level <= 1 for level in levels) or levels != sorted(levels):
        raise ValueError("ascending recall levels from 0 to 1, as in '11pt_avg..25,.5,.75'")
    return tuple(f"IPrec(recall={level!r})" for level in levels)


def _gains(measure_name: str) -> Callable[[str], tuple[str, ...]]:
    def parse(parameter: str) -> tuple[str, ...]:
        pairs = [pair.split("=") for pair in parameter.split(",")]
        try:
            table = {int(grade): float(gain) for grade, gain in pairs}
        except ValueError:
            table = {}
        # Gains of grade 0 and negative gains are not supported here.
        if len(table) != len(pairs) or not all(
            0 <= gain < math.inf and (gain == 0 or grade > 0) for grade, gain in table.items()
        ):
            raise ValueError("gains of at least 0, each of one grade above 0, as in 'ndcg.1=3,2=9'")
        return (f"{measure_name}(gain={table})",)

    return parse


def _persistence(template: str) -> Callable[[str], tuple[str, ...]]:
    def parse(parameter: str) -> tuple[str, ...]:
        try:
            name, value = parameter.split("=")
            p = float(value)
        except ValueError:
            name, p = "", 0.0
        if name != "p" or not 0 < p < 1:
            raise ValueError("a persistence between 0 and 1, as in 'rbp.p=0.8'")
        return (template.format(repr(p)),)

    return parse


_TREC_MEASURES: Mapping[str, _TrecMeasure] = {
    "runid": _TrecMeasure(""),
    "num_q": _TrecMeasure(""),
    "num_ret": _TrecMeasure("NumRet", count=True),
    "num_rel": _TrecMeasure("NumRel", count=True),
    "num_rel_ret": _TrecMeasure("NumRelRet", count=True),
    "map": _TrecMeasure("AP"),
    "gm_map": _TrecMeasure("GMAP", by_query=False),
    "Rprec": _TrecMeasure("Rprec"),
    "bpref": _TrecMeasure("bpref"),
    "recip_rank": _TrecMeasure("RR"),
    "iprec_at_recall": _TrecMeasure("IPrec(recall={})", _TENTHS, has_integers=False),
    "P": _TrecMeasure("P@{}", _CUTS),
    "relstring": _TrecMeasure("", ("10",)),
    "recall": _TrecMeasure("R@{}", _CUTS),
    "infAP": _TrecMeasure("infAP"),
    "gm_bpref": _TrecMeasure("GMbpref", by_query=False),
    "Rprec_mult": _TrecMeasure("Rprec(mult={})", _FIFTHS, has_integers=False),
    "utility": _TrecMeasure("Utility", parse=_utility),
    "11pt_avg": _TrecMeasure("IPrec11", parse=_recall_levels),
    "binG": _TrecMeasure("binG"),
    "G": _TrecMeasure("G", parse=_gains("G")),
    "ndcg": _TrecMeasure("nDCG", parse=_gains("nDCG")),
    "ndcg_rel": _TrecMeasure("nDCGrel", parse=_gains("nDCGrel")),
    "Rndcg": _TrecMeasure("RnDCG", parse=_gains("RnDCG")),
    "ndcg_cut": _TrecMeasure("nDCG@{}", _CUTS),
    "map_cut": _TrecMeasure("AP@{}", _CUTS),
    "relative_P": _TrecMeasure("RelP@{}", _CUTS),
    "success": _TrecMeasure("Success@{}", ("1", "5", "10")),
    "set_P": _TrecMeasure("P"),
    "set_relative_P": _TrecMeasure("RelP"),
    "set_recall": _TrecMeasure("R"),
    "set_map": _TrecMeasure("SetAP"),
    "set_F": _TrecMeasure("F", parse=_set_f),
    "num_nonrel_judged_ret": _TrecMeasure("NumNonrelRet", count=True),
    "rbp": _TrecMeasure("RBP(p=0.9)", since=10, parse=_persistence("RBP(p={})")),
    "rbp_resid": _TrecMeasure(
        "RBPres(p=0.9, tail='if_unjudged')",
        since=10,
        parse=_persistence("RBPres(p={}, tail='if_unjudged')"),
    ),
    "unj": _TrecMeasure("Unjudged@{}", ("5", "10", "20"), since=10),
}
_OFFICIAL_NAMES = (
    *("runid", "num_q", "num_ret", "num_rel", "num_rel_ret", "map", "gm_map", "Rprec", "bpref"),
    *("recip_rank", "iprec_at_recall", "P"),
)
_SET_NAMES = (
    *("runid", "num_q", "num_ret", "num_rel", "num_rel_ret", "utility", "set_P", "set_recall"),
    *("set_relative_P", "set_map", "set_F"),
)
_NICKNAMES: Mapping[str, Sequence[str]] = {
    "official": _OFFICIAL_NAMES,
    "set": _SET_NAMES,
    "all_trec": tuple(_TREC_MEASURES),
}


def report_lines(requests: Iterable[str], version: int = 10, level: float = 1) -> tuple[Line, ...]:
    """List the lines of a request ``-m``, in the order of trec_eval.

    Parameters ascend. If a request names a measure several times, its first parameters count.

    Parameters
    ----------
    requests : iterable of str
        ``"map"``, ``"P.5,10"``, or a nickname: ``"official"``, ``"set"``, ``"all_trec"``.
    version : {9, 10}
        Version 9 has fewer measures.
    level : float
        Least relevant grade, trec_eval's ``-l``.

    Raises
    ------
    ArgumentError
        If a name is unknown, or its parameters are not numbers.

    Examples
    --------
    >>> [line.name for line in report_lines(["P.5,10", "map"])]
    ['map', 'P_5', 'P_10']
    """
    requested: dict[str, tuple[str, ...]] = {}
    explicit: dict[str, tuple[str, ...]] = {}
    for request in requests:
        if not isinstance(request, str):
            raise ArgumentError(
                f"measures: must be names of trec_eval, got {shown(request)}; pass text."
            )
        if request in _NICKNAMES:
            for root in _NICKNAMES[request]:
                if _TREC_MEASURES[root].since <= version:
                    requested[root] = _TREC_MEASURES[root].defaults
            continue
        name, dot, text = request.partition(".")
        trec_measure = _TREC_MEASURES.get(name)
        if trec_measure is None or trec_measure.since > version:
            names = [root for root in _TREC_MEASURES if _TREC_MEASURES[root].since <= version]
            raise ArgumentError(
                f"-m {request!r}: trec_eval {version} has no measure '{name}'."
                f"{near(name, [*names, *_NICKNAMES])} "
                f"Known: {', '.join(names)}; {', '.join(_NICKNAMES)}."
            )
        requested[name] = trec_measure.defaults
        if dot:
            explicit.setdefault(name, _parameters(request, trec_measure, text))
    requested |= explicit
    if not requested:
        raise ArgumentError("-m names no measure; leave it out for the official ones.")
    return tuple(
        line
        for name, root in _TREC_MEASURES.items()
        if name in requested
        for line in _lines_of(name, root, requested[name], name in explicit, level)
    )


def _parameters(request: str, trec_measure: _TrecMeasure, given: str) -> tuple[str, ...]:
    if trec_measure.parse is not None:
        try:
            trec_measure.parse(given)
        except ValueError as error:
            raise ArgumentError(f"-m {request!r}: its parameter must be {error}.") from None
        return (given,)
    if not trec_measure.defaults:
        raise ArgumentError(f"-m {request!r}: this measure takes no parameters here.")
    values: set[float] = set()
    for text in given.split(","):
        try:
            # trec_eval reads a cutoff up to the point.
            cutoff = _CUTOFF.fullmatch(text) if trec_measure.has_integers else None
            value = float(text if cutoff is None else cutoff[1])
        except ValueError:
            value = -1.0
        if not 0 <= value < 1e9 or (trec_measure.has_integers and (cutoff is None or value < 1)):
            form = "whole numbers of at least 1" if trec_measure.has_integers else "numbers"
            raise ArgumentError(f"-m {request!r}: parameters are {form}, as in 'P.5,10'.")
        values.add(value)
    if not trec_measure.text and len(values) > 1:
        raise ArgumentError(f"-m {request!r}: a relstring has one length, as in 'relstring.20'.")
    return tuple(
        str(int(value)) if trec_measure.has_integers else repr(value) for value in sorted(values)
    )


def _lines_of(
    name: str,
    trec_measure: _TrecMeasure,
    parameters: tuple[str, ...],
    has_parameters: bool,
    level: float,
) -> Iterable[Line]:
    if name in ("runid", "num_q"):
        yield Line(name, by_query=False, count=name == "num_q")
    elif name == "relstring":
        title = f"{name}_{parameters[0]}" if has_parameters else name
        yield Line(title, summary=False, depth=int(parameters[0]))
    else:
        for parameter in parameters or ("",):
            texts: tuple[str, ...] = (trec_measure.text.format(parameter),)
            if has_parameters and trec_measure.parse is not None:
                texts = trec_measure.parse(parameter)
            measures = tuple(_at_level(measure(text), level) for text in texts)
            # A level is printed with two decimals, but all of its decimals count.
            suffix = parameter if trec_measure.has_integers else f"{float(parameter):.2f}"
            yield Line(
                f"{name}_{suffix}" if suffix else name,
                measures,
                trec_measure.count,
                trec_measure.by_query,
            )


def _at_level(original: Measure, level: float) -> Measure:
    return original(rel=level) if level != 1 and "rel" in original.chosen else original


def _with_gains(original: Measure, grades: Iterable[float]) -> Measure:
    gains = original.chosen.get("gain")
    if not isinstance(gains, tuple):
        return original
    return original(gain={**{grade: grade for grade in grades}, **dict(gains)})


#: Value of one line: a number, or text.
_Value = float | str


@dataclass(frozen=True)
class TrecReport:
    """The report of trec_eval on one run.

    Parameters
    ----------
    run : str
        Tag of the run, from its last line.
    lines : tuple of Line
    summary : tuple of (float or str)
        The value of each line for all queries.
    queries : tuple of str
        Queries with lines of their own, in order of their bytes.
    columns : tuple of (ndarray or sequence of str)
        For each line of single queries, the values of the queries.
    """

    run: str
    lines: tuple[Line, ...]
    summary: tuple[_Value, ...]
    queries: tuple[str, ...]
    columns: tuple[np.ndarray | Sequence[str], ...]

    @property
    def by_query(self) -> tuple[tuple[_Value, ...], ...]:
        """Values of the lines of single queries, by query."""
        columns = [c.tolist() if isinstance(c, np.ndarray) else c for c in self.columns]
        return tuple(zip(*columns, strict=True)) if columns else ((),) * len(self.queries)

    def rows(self, single: bool, summary: bool) -> Iterator[tuple[Line, str, _Value]]:
        """Yield lines, queries and values in the order of trec_eval."""
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
        """Write the lines like trec_eval, with four decimals."""
        return "".join(
            f"{line.name:<22}\t{query}\t{_value_text(line, value)}\n"
            for line, query, value in self.rows(single, summary)
        )

    @typed
    def to_csv(self, single: bool = False, summary: bool = True, *, safe: bool = False) -> str:
        """Write run, measure, query and value as CSV, with all digits.

        With `safe` an apostrophe precedes text that a spreadsheet would read as a formula.
        """
        rows = self.rows(single, summary)
        return csv_text(
            ["run", "measure", "query", "value"],
            ([self.run, line.name, query, _plain(line, value)] for line, query, value in rows),
            safe,
        )

    def to_dict(self, single: bool = False, summary: bool = True) -> dict[str, object]:
        """Convert to plain values by query and name; ``"all"`` is for all queries."""
        values_by_query: dict[str, dict[str, object]] = {}
        for line, query, value in self.rows(single, summary):
            values_by_query.setdefault(query, {})[line.name] = _plain(line, value)
        return {"run": self.run, "queries": values_by_query}


@typed
def trec_report(
    qrels: object,
    run: object,
    *,
    measures: Sequence[str] = ("official",),
    version: int = 10,
    complete: bool = False,
    level: float = 1,
    most: int | None = None,
    judged_only: bool = False,
    duplicates: str = "error",
) -> TrecReport:
    r"""Evaluate a run like trec_eval.

    Documents rank by descending score, tied ones by descending id; the rank column is ignored. A
    query without a relevant document counts 0. Fractional grades keep their value; trec_eval
    truncates them.

    Parameters
    ----------
    qrels, run : object
        Sources of `read_qrels` and `read_run`, or their results.
    measures : sequence of str
        Names of trec_eval: ``"map"``, ``"P.5,10"``, or a nickname: ``"official"``, ``"set"``,
        ``"all_trec"``.
    version : {9, 10}
        Version 9 rounds scores to float32 and has another rule for recall levels. Version 10 raises
        an error if the run does not have a judged query, unless `complete`.
    complete : bool
        Judged queries that the run does not have count 0 (``-c``).
    level : float
        Least relevant grade, above 0 (``-l``).
    most : int, optional
        The largest number of documents of each query that count (``-M``).
    judged_only : bool
        Leave unjudged documents, and those with a negative grade, out of the ranking, after `most`
        (``-J``).
    duplicates : {"error", "first", "last", "max"}
        What to do with a document that a query has twice, as in `read_run` and `read_qrels`.

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
    if version not in VERSIONS:
        raise ArgumentError(f"trec_eval version {version!r} is not one of {VERSIONS}.")
    if most is not None and not 1 <= most < 1 << 63:
        raise ArgumentError(f"-M {most}: from 1 to 2^63 - 1 documents of each query must count.")
    if not 0 < level < np.inf:
        raise ArgumentError(f"-l {level:g}: the least relevant grade must be a number above 0.")
    lines = report_lines(measures, version, level)
    retrieved = read_pairs(run, RUN, duplicates)
    judgements = read_pairs(qrels, QRELS, duplicates)
    both = Common(retrieved, judgements, complete)
    if version == 10 and both.only_in_judged and not complete:
        raise ArgumentError(
            f"the run lacks {both.only_in_judged:,} judged queries, which trec_eval 10 refuses; "
            "pass -c to count them as 0, or --as 9 to leave them out."
        )
    if not both.wanted.any():
        raise ArgumentError(
            "no query has both a run and judgements; do the files name the same queries?"
        )
    tags = retrieved.encoded["run"] if "run" in retrieved.encoded.column_names else []
    # trec_eval prints the tag of the last line.
    tag = str(tags[len(tags) - 1].as_py()) if len(tags) else "run"
    ranked = rank_documents(
        both,
        as_float32=version == 9,
        most=most,
        judged_only=judged_only,
        depth=max((line.depth for line in lines), default=0),
    )
    # Their memory serves the evaluation.
    del retrieved, both
    return _report(tag, lines, ranked, version)


def _report(tag: str, lines: tuple[Line, ...], ranked: RankedQueries, version: int) -> TrecReport:
    if any(line.has_gains for line in lines):
        grades = ranked.table["grade"].unique().drop_null().to_pylist()
        lines = tuple(line.for_grades(grades) for line in lines)
    # `evaluate` needs at least one measure.
    measures = dict.fromkeys(chain.from_iterable(line.measures for line in lines))
    result = evaluate(
        ranked.table,
        group="query",
        label="grade",
        score="score",
        measures=list(measures) or "NumRet",
        profile=f"trec_eval_{version}",
        # Rows are in the order of ranks, tied ones by id.
        ties="input",
        presorted=True,
        # A fifth of the rows is judged: full batches took 40 MB more.
        batch_rows=min(max(ranked.table.num_rows // 4, 1 << 18), 1 << 19),
    )
    names = ranked.queries
    order = sorted(range(len(names)), key=lambda index: names[index].encode())
    if version == 9:
        # Version 9 counts queries that the run does not have, but does not print them.
        order = [index for index in order if ranked.has_documents[index]]
    columns: list[np.ndarray | Sequence[str]] = []
    summary: list[_Value] = []
    for line in lines:
        if line.depth:
            columns.append([f"'{ranked.strings[index]}'" for index in order])
        elif line.measures and line.by_query:
            columns.append(np.mean([result[m][order] for m in line.measures], axis=0))
        if line.name == "runid":
            summary.append(tag)
        elif line.name == "num_q":
            summary.append(float(len(names)))
        elif line.measures:
            summary.append(sum(result.value(m) for m in line.measures) / len(line.measures))
    return TrecReport(
        tag, lines, tuple(summary), tuple(names[index] for index in order), tuple(columns)
    )


def _value_text(line: Line, value: _Value) -> str:
    if isinstance(value, str):
        return value
    return str(int(value)) if line.count else f"{value:.4f}"


def _plain(line: Line, value: _Value) -> _Value | int:
    return int(value) if line.count and not isinstance(value, str) else value
