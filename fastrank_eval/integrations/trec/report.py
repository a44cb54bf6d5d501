"""Print what trec_eval prints."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np

from fastrank_eval._lib.arguments import shown, typed
from fastrank_eval._lib.csv_text import csv_text
from fastrank_eval._lib.errors import ArgumentError, near
from fastrank_eval.integrations.trec.join import match
from fastrank_eval.integrations.trec.pairs import Keyed
from fastrank_eval.integrations.trec.rank import Ranked, rank_documents
from fastrank_eval.integrations.trec.tables import keyed_qrels, keyed_run
from fastrank_eval.measures import Measure, measure
from fastrank_eval.results.evaluate import evaluate

__all__ = ["VERSIONS", "Line", "TrecReport", "trec_report", "wanted_lines"]


VERSIONS = (9, 10)

_CUTS = ("5", "10", "15", "20", "30", "100", "200", "500", "1000")
_TENTHS = tuple(f"{i / 10:.2f}" for i in range(11))
_FIFTHS = tuple(f"{i / 5:.2f}" for i in range(1, 11))
_CUTOFF = re.compile(r"(\d+)(\.\d*)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the output.

    Parameters
    ----------
    name : str
        As it is printed.
    measures : tuple of Measure
        What it is the mean of: one measure, as a rule; none for ``runid``, ``num_q`` and
        ``relstring``.
    count : bool
        Printed as a whole number.
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
        """The same line, where each of these grades without a gain of its own gains its value."""
        return replace(self, measures=tuple(_with_gains(m, grades) for m in self.measures))

    @property
    def has_gains(self) -> bool:
        """Whether grades have gains of their own."""
        return any(isinstance(m.chosen.get("gain"), tuple) for m in self.measures)


@dataclass(frozen=True, slots=True)
class _Root:
    """A measure of trec_eval, which takes parameters or does not.

    `ours` is its text here, with ``{}`` for the parameter, of which it has a line each. One whose
    single line depends on parameters has `chosen`, which makes texts here of theirs, whose mean it
    is, or raises ValueError with the wanted form.
    """

    ours: str
    defaults: tuple[str, ...] = ()
    whole: bool = True
    count: bool = False
    by_query: bool = True
    since: int = 9
    chosen: Callable[[str], tuple[str, ...]] | None = None


def _set_f(given: str) -> tuple[str, ...]:
    try:
        recall = float(given)
    except ValueError:
        recall = -1.0
    if not 0 <= recall < 1e9:
        raise ValueError("one number, what recall is worth, as in 'set_F.2.0'")
    return (f"F(alpha={1 / (1 + recall)!r})",)


def _utility(given: str) -> tuple[str, ...]:
    try:
        hit, miss, lost, rest = map(float, given.split(","))
    except ValueError:
        rest = 1.0
    if rest != 0:
        # Its factor is the size of the collection, which no file tells.
        raise ValueError("four numbers, the last of them 0, as in 'utility.2,-1,0,0'")
    return (f"Utility(rel_ret={hit!r}, nonrel_ret={miss!r}, rel_missed={lost!r})",)


def _recall_levels(given: str) -> tuple[str, ...]:
    try:
        levels = [float(level) for level in given.split(",")]
    except ValueError:
        levels = [-1.0]
    # Of levels in another order, trec_eval adds up precisions at other levels.
    if not all(0 <= level <= 1 for level in levels) or levels != sorted(levels):
        raise ValueError("ascending recall levels from 0 to 1, as in '11pt_avg..25,.5,.75'")
    return tuple(f"IPrec(recall={level!r})" for level in levels)


def _gains(ours: str) -> Callable[[str], tuple[str, ...]]:
    def texts(given: str) -> tuple[str, ...]:
        pairs = [pair.split("=") for pair in given.split(",")]
        try:
            table = {int(grade): float(gain) for grade, gain in pairs}
        except ValueError:
            table = {}
        # A gain of documents of grade 0, or one that takes from a value, is not to be had here.
        if len(table) != len(pairs) or not all(
            0 <= gain < math.inf and (gain == 0 or grade > 0) for grade, gain in table.items()
        ):
            raise ValueError("gains of at least 0, each of one grade above 0, as in 'ndcg.1=3,2=9'")
        return (f"{ours}(gain={table})",)

    return texts


def _persistence(ours: str) -> Callable[[str], tuple[str, ...]]:
    def texts(given: str) -> tuple[str, ...]:
        try:
            name, value = given.split("=")
            p = float(value)
        except ValueError:
            name, p = "", 0.0
        if name != "p" or not 0 < p < 1:
            raise ValueError("a persistence between 0 and 1, as in 'rbp.p=0.8'")
        return (ours.format(repr(p)),)

    return texts


_ROOTS: Mapping[str, _Root] = {
    "runid": _Root(""),
    "num_q": _Root(""),
    "num_ret": _Root("NumRet", count=True),
    "num_rel": _Root("NumRel", count=True),
    "num_rel_ret": _Root("NumRelRet", count=True),
    "map": _Root("AP"),
    "gm_map": _Root("GMAP", by_query=False),
    "Rprec": _Root("Rprec"),
    "bpref": _Root("bpref"),
    "recip_rank": _Root("RR"),
    "iprec_at_recall": _Root("IPrec(recall={})", _TENTHS, whole=False),
    "P": _Root("P@{}", _CUTS),
    "relstring": _Root("", ("10",)),
    "recall": _Root("R@{}", _CUTS),
    "infAP": _Root("infAP"),
    "gm_bpref": _Root("GMbpref", by_query=False),
    "Rprec_mult": _Root("Rprec(mult={})", _FIFTHS, whole=False),
    "utility": _Root("Utility", chosen=_utility),
    "11pt_avg": _Root("IPrec11", chosen=_recall_levels),
    "binG": _Root("binG"),
    "G": _Root("G", chosen=_gains("G")),
    "ndcg": _Root("nDCG", chosen=_gains("nDCG")),
    "ndcg_rel": _Root("nDCGrel", chosen=_gains("nDCGrel")),
    "Rndcg": _Root("RnDCG", chosen=_gains("RnDCG")),
    "ndcg_cut": _Root("nDCG@{}", _CUTS),
    "map_cut": _Root("AP@{}", _CUTS),
    "relative_P": _Root("RelP@{}", _CUTS),
    "success": _Root("Success@{}", ("1", "5", "10")),
    "set_P": _Root("P"),
    "set_relative_P": _Root("RelP"),
    "set_recall": _Root("R"),
    "set_map": _Root("SetAP"),
    "set_F": _Root("F", chosen=_set_f),
    "num_nonrel_judged_ret": _Root("NumNonrelRet", count=True),
    "rbp": _Root("RBP(p=0.9)", since=10, chosen=_persistence("RBP(p={})")),
    "rbp_resid": _Root(
        "RBPres(p=0.9, tail='if_unjudged')",
        since=10,
        chosen=_persistence("RBPres(p={}, tail='if_unjudged')"),
    ),
    "unj": _Root("Unjudged@{}", ("5", "10", "20"), since=10),
}
_OFFICIAL = (
    *("runid", "num_q", "num_ret", "num_rel", "num_rel_ret", "map", "gm_map", "Rprec", "bpref"),
    *("recip_rank", "iprec_at_recall", "P"),
)
_OF_SET = (
    *("runid", "num_q", "num_ret", "num_rel", "num_rel_ret", "utility", "set_P", "set_recall"),
    *("set_relative_P", "set_map", "set_F"),
)
_NICKNAMES: Mapping[str, Sequence[str]] = {
    "official": _OFFICIAL,
    "set": _OF_SET,
    "all_trec": tuple(_ROOTS),
}


def wanted_lines(requests: Iterable[str], version: int = 10, level: float = 1) -> tuple[Line, ...]:
    """The lines that ``-m`` asks for, in the order in which trec_eval prints them.

    Parameters ascend; where a measure is asked for more than once, the first that are given count.

    Parameters
    ----------
    requests : iterable of str
        ``"map"``, ``"P.5,10"``, or a nickname: ``"official"``, ``"set"``, ``"all_trec"``.
    version : {9, 10}
        Version 9 lacks a few.
    level : float
        The least grade that is relevant, trec_eval's ``-l``.

    Raises
    ------
    ArgumentError
        If a name is unknown, or its parameters are no numbers.

    Examples
    --------
    >>> [line.name for line in wanted_lines(["P.5,10", "map"])]
    ['map', 'P_5', 'P_10']
    """
    requested: dict[str, tuple[str, ...]] = {}
    given: dict[str, tuple[str, ...]] = {}
    for request in requests:
        if not isinstance(request, str):
            raise ArgumentError(
                f"measures: must be names of trec_eval, got {shown(request)}; pass text."
            )
        if request in _NICKNAMES:
            for root in _NICKNAMES[request]:
                if _ROOTS[root].since <= version:
                    requested[root] = _ROOTS[root].defaults
            continue
        name, sign, text = request.partition(".")
        found = _ROOTS.get(name)
        if found is None or found.since > version:
            known = [root for root in _ROOTS if _ROOTS[root].since <= version]
            raise ArgumentError(
                f"-m {request!r}: trec_eval {version} has no measure '{name}'."
                f"{near(name, [*known, *_NICKNAMES])} "
                f"Known: {', '.join(known)}; {', '.join(_NICKNAMES)}."
            )
        requested[name] = found.defaults
        if sign:
            given.setdefault(name, _parameters(request, found, text))
    requested |= given
    if not requested:
        raise ArgumentError("-m names no measure; leave it out for the official ones.")
    return tuple(
        line
        for name, root in _ROOTS.items()
        if name in requested
        for line in _lines(name, root, requested[name], name in given, level)
    )


def _parameters(request: str, root: _Root, given: str) -> tuple[str, ...]:
    if root.chosen is not None:
        try:
            root.chosen(given)
        except ValueError as wrong:
            raise ArgumentError(f"-m {request!r}: its parameter must be {wrong}.") from None
        return (given,)
    if not root.defaults:
        raise ArgumentError(f"-m {request!r}: this measure takes no parameters here.")
    found: set[float] = set()
    for text in given.split(","):
        try:
            # Of a cutoff, trec_eval reads what stands before the point.
            cutoff = _CUTOFF.fullmatch(text) if root.whole else None
            value = float(text if cutoff is None else cutoff[1])
        except ValueError:
            value = -1.0
        if not 0 <= value < 1e9 or (root.whole and (cutoff is None or value < 1)):
            form = "whole numbers of at least 1" if root.whole else "numbers"
            raise ArgumentError(f"-m {request!r}: parameters are {form}, as in 'P.5,10'.")
        found.add(value)
    if not root.ours and len(found) > 1:
        raise ArgumentError(f"-m {request!r}: a relstring has one length, as in 'relstring.20'.")
    return tuple(str(int(value)) if root.whole else repr(value) for value in sorted(found))


def _lines(
    name: str, root: _Root, parameters: tuple[str, ...], given: bool, level: float
) -> Iterable[Line]:
    if name in ("runid", "num_q"):
        yield Line(name, by_query=False, count=name == "num_q")
    elif name == "relstring":
        title = f"{name}_{parameters[0]}" if given else name
        yield Line(title, summary=False, depth=int(parameters[0]))
    else:
        for parameter in parameters or ("",):
            ours: tuple[str, ...] = (root.ours.format(parameter),)
            if given and root.chosen is not None:
                ours = root.chosen(parameter)
            found = tuple(_at_level(measure(text), level) for text in ours)
            # Two decimals of a level are shown; all of them count.
            shown = parameter if root.whole else f"{float(parameter):.2f}"
            yield Line(f"{name}_{shown}" if shown else name, found, root.count, root.by_query)


def _at_level(found: Measure, level: float) -> Measure:
    return found(rel=level) if level != 1 and "rel" in found.chosen else found


def _with_gains(found: Measure, grades: Iterable[float]) -> Measure:
    gains = found.chosen.get("gain")
    if not isinstance(gains, tuple):
        return found
    return found(gain={**{grade: grade for grade in grades}, **dict(gains)})


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
