"""Evaluate dicts of dicts under the names of pytrec_eval.

::

    import fastrank_eval.pytrec_eval as pytrec_eval

    evaluator = pytrec_eval.RelevanceEvaluator(qrels, {"ndcg_cut_10", "map"})
    values = evaluator.evaluate(run)

Values are those of pytrec_eval-terrier, which has the code of trec_eval 9, in every call. In
addition ids may be integers, grades may be fractions, and numbers may be those of NumPy. `iprec` of
a query without results is 0 here, and NaN there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np

from fastrank_eval._lib.arguments import typed
from fastrank_eval._lib.elementary import exp
from fastrank_eval._lib.errors import ArgumentError
from fastrank_eval.engine.group_table import GroupTable
from fastrank_eval.engine.options import Options
from fastrank_eval.engine.plan import Plan
from fastrank_eval.engine.run import plan_of
from fastrank_eval.integrations.trec.dicts import dicts_of
from fastrank_eval.integrations.trec.join import rank_documents
from fastrank_eval.integrations.trec.lines import (
    QRELS,
    RUN,
    FileColumns,
    is_stream,
    text_of_bytes,
)
from fastrank_eval.integrations.trec.measures import (
    NICKNAMES,
    TREC_MEASURES,
    by_label,
    check_level,
    measures_of,
    report_lines,
    without_defaults,
)
from fastrank_eval.integrations.trec.pairs import Common, Cuts, PairTable, are_dicts
from fastrank_eval.integrations.trec.ranked import RankedDicts
from fastrank_eval.integrations.trec.report import evaluate_ranked
from fastrank_eval.integrations.trec.tables import Judgments, read_pairs
from fastrank_eval.measures.judged import ANYWHERE
from fastrank_eval.measures.parser import text_with_options

__all__ = [
    "RelevanceEvaluator",
    "compute_aggregated_measure",
    "parse_qrel",
    "parse_run",
    "supported_measures",
    "supported_nicknames",
]

_VERSION = 9
#: Names of measures without parameters.
supported_measures = {name for name, one in TREC_MEASURES.items() if one.since <= _VERSION}
#: Names that stand for several measures.
supported_nicknames = {
    name: [one for one in names if one in supported_measures] for name, names in NICKNAMES.items()
}


class RelevanceEvaluator:
    """Evaluate runs against the same judgements.

    Parameters
    ----------
    query_relevance : mapping of str to (mapping of str to number)
        The grade of each judged document by query; finite, may be negative or a fraction. Any other
        source of `fastrank_eval.trec.read_qrels` too. They are copied.
    measures : iterable of str
        Names of trec_eval, with parameters after ``_`` or ``.``: ``"map"``, ``"ndcg_cut_10"``,
        ``"P.5,10"``, or a nickname; also measures of this package: ``"nDCG@10"``.
    relevance_level : float
        Least relevant grade, above 0.
    judged_docs_only_flag : bool
        Leave unjudged documents out of the rankings.

    Raises
    ------
    ArgumentError
        If a measure is unknown. It is a ValueError.
    SourceError
        If a grade is no finite number, or an id is neither text nor an integer.

    References
    ----------
    Van Gysel and de Rijke (2018), Pytrec_eval: An Extremely Fast Python Interface to trec_eval,
    https://doi.org/10.1145/3209978.3210065

    Examples
    --------
    >>> evaluator = RelevanceEvaluator({"q1": {"d3": 1, "d5": 0}}, {"map", "P_5"})
    >>> evaluator.evaluate({"q1": {"d5": 2.5, "d3": 1.5}})
    {'q1': {'map': 0.5, 'P_5': 0.2}}
    """

    @typed
    def __init__(
        self,
        query_relevance: Any,
        measures: Iterable[str],
        relevance_level: float = 1,
        judged_docs_only_flag: bool = False,
    ) -> None:
        check_level(relevance_level)
        asked = [one for name in measures for one in supported_nicknames.get(name, [name])]
        # As there: a name without parameters adds nothing to the same one with some.
        asked = without_defaults(asked, _VERSION)
        lines, judged = report_lines(asked, _VERSION, relevance_level), Judgments(query_relevance)
        if any(line.has_gains for line in lines):
            grades = np.unique(judged.pairs.numbers).tolist()
            lines = tuple(line.for_grades(grades) for line in lines)
        self._lines, self._judged = lines, judged.pairs
        self._cuts = Cuts(judged_only=judged_docs_only_flag)

    @typed
    def evaluate(self, scores: Any) -> dict[str, dict[str, float]]:
        """Compute the measures of a run for each query.

        Parameters
        ----------
        scores : mapping of str to (mapping of str to number)
            The score of each retrieved document by query; not NaN. Any other source of
            `fastrank_eval.trec.read_run` too. ``{}`` is a query without results: it counts 0.

        Returns
        -------
        dict of str to dict of str to float
            By query and name of the measure. Queries that are not judged, and those that the run
            does not have, are left out. ``gm_map`` and ``gm_bpref`` are logarithms.

        Raises
        ------
        SourceError
            If a score is no number, or an id is neither text nor an integer.
        """
        if isinstance(scores, Mapping) and not scores:
            return {}
        judged = self._judged.dicts
        retrieved = read_pairs(scores, RUN, asked=judged.by_query if judged else {})
        by_rows = self._reads_rows or not are_dicts([retrieved, self._judged])
        queries, measured = (self._by_rows if by_rows else self._by_ranks)(retrieved)
        if not queries:
            return {}
        columns = []
        for line in self._lines:
            values = []
            for one in line.measures:
                text = text_with_options(one)
                values.append(one.to_summand(measured[text if text in measured else str(one)]))
            if not values:  # texts count 0
                values = [np.full(len(queries), float(line.fact == "num_q"))]
            columns.append(np.mean(values, axis=0) if values[1:] else values[0])
        names = [line.name for line in self._lines]
        rows = zip(queries, np.array(columns).T.tolist(), strict=True)
        found = {query: dict(zip(names, values, strict=True)) for query, values in rows}
        if not (retrieved.empty and isinstance(scores, Mapping)):
            return found
        # Queries without a document come last above, and have their place in dicts.
        asked = chain(map(str, scores), found)
        return {query: found[query] for query in dict.fromkeys(asked) if query in found}

    @cached_property
    def _plans(self) -> dict[str, Plan]:
        """Plan the measures of each column of labels."""
        return {
            label: plan_of(
                Options.read(
                    None,
                    {
                        "group": "query",
                        "item": "doc",
                        "label": label,
                        "score": "score",
                        "measures": measures,
                        "profile": "trec_eval_9",
                    },
                )
            )
            for label, measures in by_label(measures_of(self._lines)).items()
        }

    @cached_property
    def _reads_rows(self) -> bool:
        """Whether a measure needs more than the ranks of judged documents."""
        return not all(plan.takes_ranks for plan in self._plans.values())

    def _by_ranks(self, retrieved: PairTable) -> tuple[list[str], dict[str, np.ndarray]]:
        """Measure ranks of judged documents; return queries, values by text."""
        dicts = RankedDicts(self._judged, {"score": retrieved}, self._cuts, complete=False)
        queries, measured = dicts.queries, dict[str, np.ndarray]()
        for plan in self._plans.values() if queries else ():
            (ranking,) = dicts.rank(plan.roles)
            values = plan.program.measure(ranking, None, 0, False, {}, queries.__getitem__)[0]
            measured |= _by_text(plan, values[: len(plan.measures), : len(queries)].copy())
        return queries, measured

    def _by_rows(self, retrieved: PairTable) -> tuple[list[str], dict[str, np.ndarray]]:
        """Evaluate a table of all documents; return as `_by_ranks` does."""
        both = Common([retrieved], self._judged, complete=False)
        if not both.wanted.any():
            return [], {}
        both.cut(0, self._cuts, as_float32=True)
        anywhere, measured = ANYWHERE in self._plans, dict[str, np.ndarray]()
        ranked = rank_documents(both, as_float32=True, depth=0, anywhere=anywhere)
        for evaluation in evaluate_ranked(self._lines, ranked, _VERSION)[1].values():
            values = GroupTable.concat(evaluation.groups).values[0]
            measured |= _by_text(evaluation.plan, values)
        return ranked.queries, measured


def _by_text(plan: Plan, values: np.ndarray) -> dict[str, np.ndarray]:
    """Name values of measures by their texts and requested names."""
    found = dict(zip(map(str, plan.measures), values, strict=True))
    return found | {requested: found[text] for requested, text in plan.requested.items()}


@typed
def compute_aggregated_measure(measure: str, values: Sequence[float]) -> float:
    """Aggregate the values of a measure over queries.

    Sums for names with ``num_``, exp of the mean for those with ``gm_``, means for the others.

    Parameters
    ----------
    measure : str
    values : sequence of float
        Of `RelevanceEvaluator.evaluate`; at least one for a mean.

    Returns
    -------
    float

    Raises
    ------
    ArgumentError
        If there is no value to take the mean of; pytrec_eval returns NaN.

    Examples
    --------
    >>> compute_aggregated_measure("map", [0.5, 1.0])
    0.75
    """
    if measure.startswith("num_"):
        return float(np.sum(values))
    if not len(values):
        raise ArgumentError(
            f"values: must have a value for the mean of {measure}, got none; check that the run "
            "has a judged query."
        )
    mean = float(np.mean(values))
    return exp(mean) if measure.startswith("gm_") else mean


def parse_run(f_run: Iterable[str]) -> dict[str, dict[str, float]]:
    """Read a run of TREC as a dict of dicts.

    Parameters
    ----------
    f_run : iterable of str
        An open file, or lines: ``qid Q0 docno rank score tag``.

    Returns
    -------
    dict of str to dict of str to float
        An empty dict for a query that it does not have.

    Raises
    ------
    SourceError
        If a line has too few fields or a score that is no number, or a query a document twice.

    Examples
    --------
    >>> dict(parse_run(["q1 Q0 d7 1 2.5 bm25"]))
    {'q1': {'d7': 2.5}}
    """
    return _parse(f_run, RUN)


def parse_qrel(f_qrel: Iterable[str]) -> dict[str, dict[str, float]]:
    """Read judgements of TREC as a dict of dicts.

    Parameters
    ----------
    f_qrel : iterable of str
        An open file, or lines: ``qid iter docno rel``.

    Returns
    -------
    dict of str to dict of str to (int or float)
        Integers if all grades are. An empty dict for a query that is not judged.

    Raises
    ------
    SourceError
        If a line has not four fields or a grade that is no number, or a query a document twice.

    Examples
    --------
    >>> dict(parse_qrel(["q1 0 d3 1"]))
    {'q1': {'d3': 1}}
    """
    return _parse(f_qrel, QRELS)


def _parse(lines: Iterable[str], columns: FileColumns) -> dict[str, dict[str, float]]:
    source: object = lines
    if not is_stream(lines):
        text = "\n".join(line.rstrip("\r\n") for line in lines)
        source = text_of_bytes(text.encode(), "the lines passed")
    remedy = f"read it by fastrank_eval.trec.read_{columns.kind}(..., duplicates='first')."
    return dicts_of(read_pairs(source, columns, remedy=remedy).table, columns.number)
