"""Read names of measures as trec_eval does, and those of other tools.

Read judgements by subtopic.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import chain
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arguments import checked, is_list_like, number, typed
from fastrank_eval._lib.arrow import arrow_column, as_array
from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.errors import ArgumentError, SourceError
from fastrank_eval._lib.lexer import shorten
from fastrank_eval.integrations.trec.columns import SUBTOPICS
from fastrank_eval.integrations.trec.lines import DIVERSITY_QRELS
from fastrank_eval.integrations.trec.pairs import decoded
from fastrank_eval.integrations.trec.tables import read_rows
from fastrank_eval.io.columns import MAX_SUBTOPICS
from fastrank_eval.io.keys import encode_keys
from fastrank_eval.measures import Measure, measure
from fastrank_eval.measures.base import of_package
from fastrank_eval.measures.parser import (
    commas_hint,
    names_measure,
    no_text,
    similar_names,
    split_measures,
)
from fastrank_eval.measures.user_models import UserModel

_CUTS = ("5", "10", "15", "20", "30", "100", "200", "500", "1000")
_TENTHS = tuple(f"{i / 10:.2f}" for i in range(11))
_FIFTHS = tuple(f"{i / 5:.2f}" for i in range(1, 11))
_CUTOFF = re.compile(r"(\d+)(\.\d*)?", re.ASCII)
#: What follows a comma among the parameters of trec_eval: a number, or a grade and its gain.
_MORE_PARAMETERS = re.compile(r"\s*(?!11pt_avg)[-+.\d]")
#: A name of ir_measures that is no measure here.
_COUNTS_OF_RUN = {"runid": "runid", "num_q": "num_q", "NumQ": "num_q"}


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
    depth : int
        Documents of a ``relstring``.
    fact : {"", "runid", "num_q"}
        What is printed instead of a measure.
    request : str
        The request that this line is for.
    """

    name: str
    measures: tuple[Measure, ...] = ()
    depth: int = 0
    fact: str = ""
    request: str = ""

    def for_grades(self, grades: Iterable[float]) -> Line:
        """Use grades as their own gains where a table of gains has no entry."""
        return replace(self, measures=tuple(with_gains(m, grades) for m in self.measures))

    @property
    def is_count(self) -> bool:
        """Whether it is printed as a whole number."""
        return self.fact == "num_q" or any(one.aggregate == "sum" for one in self.measures)

    @property
    def by_query(self) -> bool:
        """Whether there is a line for every query."""
        of_all = (one.pooled or one.aggregate == "geometric mean" for one in self.measures)
        return not (self.fact or any(of_all))

    @property
    def has_gains(self) -> bool:
        """Whether a measure has a table of gains."""
        return have_gains(self.measures)


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


TREC_MEASURES: Mapping[str, _TrecMeasure] = {
    "runid": _TrecMeasure(""),
    "num_q": _TrecMeasure(""),
    "num_ret": _TrecMeasure("NumRet"),
    "num_rel": _TrecMeasure("NumRel"),
    "num_rel_ret": _TrecMeasure("NumRelRet"),
    "map": _TrecMeasure("AP"),
    "gm_map": _TrecMeasure("GMAP"),
    "Rprec": _TrecMeasure("Rprec"),
    "bpref": _TrecMeasure("bpref"),
    "recip_rank": _TrecMeasure("RR"),
    "iprec_at_recall": _TrecMeasure("IPrec(recall={})", _TENTHS, has_integers=False),
    "P": _TrecMeasure("P@{}", _CUTS),
    "relstring": _TrecMeasure("", ("10",)),
    "recall": _TrecMeasure("R@{}", _CUTS),
    "infAP": _TrecMeasure("infAP"),
    "gm_bpref": _TrecMeasure("GMbpref"),
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
    "num_nonrel_judged_ret": _TrecMeasure("NumNonrelRet"),
    # The profile of version 10 sets p and tail.
    "rbp": _TrecMeasure("RBP", since=10, parse=_persistence("RBP(p={})")),
    "rbp_resid": _TrecMeasure("RBPres", since=10, parse=_persistence("RBPres(p={})")),
    "unj": _TrecMeasure("Unjudged@{}", ("5", "10", "20"), since=10),
}
#: The names that sentence-transformers and, in lower case, MTEB have for measures.
LONG_NAMES = {"nDCG": "NDCG", "AP": "MAP", "R": "Recall", "P": "Precision", "RR": "MRR"}
_OFFICIAL_NAMES = (
    *("runid", "num_q", "num_ret", "num_rel", "num_rel_ret", "map", "gm_map", "Rprec", "bpref"),
    *("recip_rank", "iprec_at_recall", "P"),
)
_SET_NAMES = (
    *("runid", "num_q", "num_ret", "num_rel", "num_rel_ret", "utility", "set_P", "set_recall"),
    *("set_relative_P", "set_map", "set_F"),
)
NICKNAMES: Mapping[str, Sequence[str]] = {
    "official": _OFFICIAL_NAMES,
    "set": _SET_NAMES,
    "all_trec": tuple(TREC_MEASURES),
}


def report_lines(
    requests: str | Measure | Sequence[str | Measure], version: int = 10, level: float = 1
) -> tuple[Line, ...]:
    """List the lines of requests ``-m``, first those of trec_eval.

    Those of trec_eval are in its order. A name of trec_eval means what it means there: ``P`` has
    nine cutoffs, while ``P@10`` is a measure of this package. Parameters ascend. If a request names
    a measure several times, its first parameters count; names as they are printed (``P_5``) are
    added to each other.

    Parameters
    ----------
    requests : str, Measure or sequence of them
        ``"map"``, ``"P.5,10"``, ``"P_5"``, a nickname (``"official"``, ``"set"``,
        ``"all_trec"``), or a measure of this package or ir_measures, ``"nDCG@10"``, which keeps
        this name. Commas separate requests.
    version : {9, 10}
        Version 9 has fewer measures.
    level : float
        Least relevant grade, trec_eval's ``-l``, of measures that do not set ``rel``.

    Raises
    ------
    ArgumentError
        If a name is unknown, or its parameters are not numbers.
    MeasureError
        If a measure of this package has a wrong option or cutoff.

    Examples
    --------
    >>> [line.name for line in report_lines("nDCG@10,P.5,10,map")]
    ['map', 'P_5', 'P_10', 'nDCG@10']
    """
    chosen: dict[str, _ByKind] = {}
    others: dict[str, Line] = {}
    for request in _split_requests(requests):
        trec_names = None if isinstance(request, Measure) else _find_trec(request, version)
        if trec_names is None:
            line = _line_of_measure(request, version, level)
            others.setdefault(line.name, line)
        for name, kind, parameters in trec_names or ():
            by_kind = chosen.setdefault(name, {})
            by_kind.setdefault(kind, []).append((parameters, str(request)))
    lines = {
        line.name: line
        for name, trec_measure in TREC_MEASURES.items()
        if name in chosen
        for line in _lines_of_kinds(name, trec_measure, chosen[name], level)
    }
    if not lines and not others:
        raise ArgumentError(
            "measures: must name at least one, got none; leave it out for official."
        )
    return (*lines.values(), *(line for line in others.values() if line.name not in lines))


def without_defaults(requests: Iterable[str], version: int) -> list[str]:
    """Drop names without parameters where another request has parameters."""
    found = {request: _find_trec(request, version) or [] for request in requests}
    given = {name for names in found.values() for name, kind, _ in names if kind != "name"}
    return [request for request in found if request not in given]


def single_measures(
    requests: str | Measure | Sequence[str | Measure], version: int
) -> list[Measure]:
    """List the measures of requests, in the order of the requests.

    Names have the meaning that `report_lines` gives them.

    Raises
    ------
    ArgumentError
        If a name is unknown or stands for no measure or a mean of several, as ``runid``; those of
        a nickname are left out.
    """
    texts = tuple(requests) if is_list_like(requests) else (requests,)
    if all(type(text) is str for text in texts):
        known = _single_measures(texts, version)
        if all(of_package(type(m)) for m in known):  # others may be defined anew
            return [*known]
    return _single_measures.__wrapped__(texts, version)


@lru_cache(64)
def _single_measures(requests: Sequence[str | Measure], version: int) -> list[Measure]:
    split = _split_requests(requests)
    order = {str(request): number for number, request in reversed(list(enumerate(split)))}
    measures = []
    for line in sorted(report_lines(split, version), key=lambda line: order[line.request]):
        if len(line.measures) == 1:
            measures.append(line.measures[0].with_display_name(line.name))
        elif line.request not in NICKNAMES:
            raise ArgumentError(
                f"measures: must be measures, got {line.request!r}; take trec_report for this line "
                "of trec_eval."
            )
    return measures


def _split_requests(
    requests: str | Measure | Sequence[str | Measure],
) -> list[str | Measure]:
    """Split requests at commas, but not the parameters of one."""
    several = list(requests) if is_list_like(requests) else [requests]
    split: list[str | Measure] = []
    for item in several:
        if isinstance(item, Measure):
            split.append(item)
            continue
        if not isinstance(item, str):
            raise ArgumentError(no_text(item))
        parts: list[str | Measure] = []
        for part in split_measures(item):
            if parts and _MORE_PARAMETERS.match(part):
                parts[-1] = f"{parts[-1]},{part}"
            else:
                parts.append(part.strip())
        split += parts or [item]
    return split


#: The parameters of one measure of trec_eval and their requests: of a name alone, after a point, or
#: of a printed name.
_ByKind: TypeAlias = dict[str, list[tuple[tuple[str, ...], str]]]


def _lines_of_kinds(
    name: str, trec_measure: _TrecMeasure, by_kind: _ByKind, level: float
) -> list[Line]:
    """List the lines, by ascending parameters if there are several."""
    points, printed = by_kind.get("point", []), by_kind.get("printed", [])
    first = (points or by_kind.get("name", []))[:1]
    lines = [
        (parameter, replace(line, request=request))
        for entries, has_parameters in ((first, bool(points)), (printed, True))
        for parameters, request in entries
        for parameter, line in _lines_of(name, trec_measure, parameters, has_parameters, level)
    ]
    if printed and trec_measure.defaults and trec_measure.text:
        lines.sort(key=lambda line: float(line[0]))
    return [line for _, line in lines]


@lru_cache(256)
def _find_trec(request: str, version: int) -> list[tuple[str, str, tuple[str, ...]]] | None:
    """Find names, kinds and parameters of a request to trec_eval, or None.

    Raises
    ------
    ArgumentError
        If parameters are wrong.
    """
    known = {name: one for name, one in TREC_MEASURES.items() if one.since <= version}
    if request in NICKNAMES:
        names = [name for name in NICKNAMES[request] if name in known]
        return [(name, "name", known[name].defaults) for name in names]
    name, point, text = request.partition(".")
    if name in TREC_MEASURES and name not in known:
        raise ArgumentError(
            f"measures: must be in trec_eval {version}, got {request!r}; take version="
            f"{TREC_MEASURES[name].since}, or a measure of this package."
        )
    if name in known and point:
        return [(name, "point", _parameters(request, known[name], text))]
    if name in known:
        return [(name, "name", known[name].defaults)]
    for name, trec_measure in sorted(known.items(), key=lambda item: -len(item[0])):
        if request.startswith(f"{name}_"):
            try:
                parameters = _parameters(request, trec_measure, request[len(name) + 1 :])
            except ArgumentError:
                continue
            return [(name, "printed", parameters)]
    return None


def _line_of_measure(request: str | Measure, version: int, level: float) -> Line:
    """Make the line of a measure of this package; it keeps its name."""
    text = request.display_name if isinstance(request, Measure) else request
    if text in _COUNTS_OF_RUN:
        return Line(text, fact=_COUNTS_OF_RUN[text], request=text)
    if isinstance(request, str) and not names_measure(request):
        known = {name: one for name, one in TREC_MEASURES.items() if one.since <= version}
        number = re.sub(r".*\D", "", request)
        cut = [f"{name}_{number}" for name, one in known.items() if number and "@{}" in one.text]
        hint = commas_hint(request) or similar_names(request, (*known, *NICKNAMES, *cut))
        raise ArgumentError(
            f"measures: must name a measure of trec_eval {version} or of this package, got "
            f"{request!r}.{hint} 'fastrank-eval measures' lists those of this package."
        )
    one = measure(request)
    return Line(text, (at_level(one, level),), request=str(request))


def _parameters(request: str, trec_measure: _TrecMeasure, given: str) -> tuple[str, ...]:
    if trec_measure.parse is not None:
        try:
            trec_measure.parse(given)
        except ValueError as error:
            raise ArgumentError(f"measures: must have {error}, got {request!r}.") from None
        return (given,)
    if not trec_measure.defaults:
        raise ArgumentError(
            f"measures: must have no parameters here, got {request!r}; leave them out."
        )
    values: set[float] = set()
    for text in given.split(","):
        try:
            # trec_eval reads a cutoff up to the point.
            cutoff = _CUTOFF.fullmatch(text) if trec_measure.has_integers else None
            value = float(text if cutoff is None else cutoff[1])
        except ValueError:
            value = -1.0
        if not 0 <= value < 1e9 or (trec_measure.has_integers and (cutoff is None or value < 1)):
            form = (
                "whole numbers of at least 1, as in 'P.5,10'"
                if trec_measure.has_integers
                else "numbers, as in 'iprec_at_recall.0.1,0.5'"
            )
            raise ArgumentError(f"measures: must have {form}, got {request!r}.")
        values.add(value)
    if not trec_measure.text and len(values) > 1:
        raise ArgumentError(f"measures: must have one length, got {request!r}.")
    return tuple(
        str(int(value)) if trec_measure.has_integers else repr(value) for value in sorted(values)
    )


def _lines_of(
    name: str,
    trec_measure: _TrecMeasure,
    parameters: tuple[str, ...],
    has_parameters: bool,
    level: float,
) -> Iterator[tuple[str, Line]]:
    if name in _COUNTS_OF_RUN:
        yield "", Line(name, fact=name)
    elif name == "relstring":
        title = f"{name}_{parameters[0]}" if has_parameters else name
        yield "", Line(title, depth=int(parameters[0]))
    else:
        for parameter in parameters or ("",):
            texts: tuple[str, ...] = (trec_measure.text.format(parameter),)
            if has_parameters and trec_measure.parse is not None:
                texts = trec_measure.parse(parameter)
            measures = tuple(at_level(measure(text), level) for text in texts)
            # A level is printed with two decimals, but all of its decimals count.
            suffix = parameter if trec_measure.has_integers else f"{float(parameter):.2f}"
            yield parameter, Line(f"{name}_{suffix}" if suffix else name, measures)


def at_level(original: Measure, level: float) -> Measure:
    """Set the least relevant grade of a measure that does not set it."""
    if "rel" in original.explicit_options:
        return original
    return original(rel=level) if level != 1 and "rel" in original.option_values else original


def have_gains(measures: Iterable[Measure]) -> bool:
    """Return whether a measure has a table of gains."""
    return any(isinstance(m.option_values.get("gain"), tuple) for m in measures)


def with_gains(original: Measure, grades: Iterable[float]) -> Measure:
    """Use grades as their own gains where a table of gains has no entry."""
    gains = original.option_values.get("gain")
    if not isinstance(gains, tuple) or isinstance(original, UserModel):
        return original
    result = original(gain={**{grade: grade for grade in grades if grade > 0}, **dict(gains)})
    return result.with_display_name(original.display_name)


def check_level(level: float) -> None:
    """Check the argument of ``-l``."""
    checked("level", level, number(above=0))


def measures_of(lines: Iterable[Line]) -> list[Measure]:
    """List the measures of lines, or one where there is none."""
    return list(chain.from_iterable(line.measures for line in lines)) or [measure("NumRet")]


def label_of(one: Measure) -> str:
    """Return the column of labels that a measure reads."""
    return one.label_column() or "grade"


def by_label(measures: Iterable[Measure]) -> dict[str, list[Measure]]:
    """Group measures by the column of labels that they read."""
    found: dict[str, list[Measure]] = {}
    for one in measures:
        found.setdefault(label_of(one), []).append(one)
    return found


@typed
def read_diversity_qrels(
    source: object,
    *,
    query: str | None = None,
    subtopic: str | None = None,
    doc: str | None = None,
    grade: str | None = None,
    rel: float = 1,
    format: str | None = None,  # noqa: A002 - the name of this option everywhere
) -> pa.Table:
    r"""Read judgements by subtopic in the format of ndeval.

    Sources are TREC files or columns. A line is ``qid subtopic docno rel``. If all subtopics are
    whole numbers below 64, they keep their numbers. Otherwise (texts, or greater numbers) subtopics
    are numbered from 0 in each query, in the order of the lines. Pass the table to `join`, and its
    result to ``evaluate(..., label="grade", subtopics="subtopics")``.

    Parameters
    ----------
    source : object
        As in `read_run`, but not dicts.
    query, subtopic, doc, grade : str, optional
        Names of the columns of a source with columns. By default those of `read_qrels`, and
        ``subtopic`` or ``iteration``.
    rel : float
        Least grade of a document that covers a subtopic.
    format : str, optional
        As in `read_run`.

    Returns
    -------
    pyarrow.Table
        One row for each judged document of a query, in the order of first appearance: ``query`` and
        ``doc``, string; ``grade``, int64 or float64, the greatest grade of its subtopics;
        ``subtopics``, list of int64, ascending, the subtopics that it covers. A repeated judgement
        counts once; the greater grade wins.

    Raises
    ------
    SourceError, ColumnError, ArgumentError
        As `read_qrels` does; also if documents of a query cover more than 64 subtopics.

    References
    ----------
    Clarke et al. (2009), Overview of the TREC 2009 Web Track

    Examples
    --------
    >>> table = read_diversity_qrels(b"q1 0 d3 1\nq1 2 d3 1\nq1 1 d5 0\n")
    >>> table["doc"].to_pylist(), table["subtopics"].to_pylist()
    (['d3', 'd5'], [[0, 2], []])
    """
    names = {"query": query, "subtopic": subtopic, "doc": doc, "grade": grade}
    rows = decoded(read_rows(source, DIVERSITY_QRELS, names, format).rows, pa.string())
    pair, first = encode_keys([rows[name].combine_chunks() for name in ("query", "doc")])
    grades = as_array(rows["grade"].combine_chunks())
    best = np.full(len(first), grades.min(initial=0))
    np.maximum.at(best, pair, grades)

    covering = np.flatnonzero(grades >= rel)
    covering_rows = rows.take(arrow_column(covering))
    covered = np.unique(pair[covering] * MAX_SUBTOPICS + _subtopic_numbers(covering_rows))
    ends = np.searchsorted(covered, np.arange(len(first) + 1) * MAX_SUBTOPICS).astype(np.int32)
    lists = pa.ListArray.from_arrays(arrow_column(ends), arrow_column(covered % MAX_SUBTOPICS))
    judged = rows.select(["query", "doc"]).take(arrow_column(first))
    judged = judged.append_column("grade", arrow_column(best))
    return judged.append_column("subtopics", lists.cast(SUBTOPICS))


def _subtopic_numbers(rows: pa.Table) -> np.ndarray:
    """Number the subtopics of rows from 0 to 63."""
    subtopic, query = (
        rows[name].combine_chunks().dictionary_encode() for name in ("subtopic", "query")
    )
    texts = subtopic.dictionary.to_pylist()
    text_of_row = as_array(subtopic.indices).astype(np.int64)
    if all(text.isascii() and text.isdigit() and int(text) < MAX_SUBTOPICS for text in texts):
        return np.array([int(text) for text in texts], np.int64)[text_of_row]
    queries = as_array(query.indices).astype(np.int64)
    pair, first = encode_keys([query.indices, subtopic.indices])
    order = np.lexsort((first, queries[first]))
    starts = np.searchsorted(queries[first][order], queries[first][order])
    number = np.empty(len(first), np.int64)
    number[order] = np.arange(len(first)) - starts
    if number.max(initial=0) >= MAX_SUBTOPICS:
        index = int(queries[first[int(number.argmax())]])
        raise SourceError(
            f"Query {shorten(query.dictionary[index].as_py(), 100)!r} has "
            f"{int(number.max()) + 1} subtopics or more that a document covers; {MAX_SUBTOPICS} "
            "are the most."
        )
    return number[pair]
