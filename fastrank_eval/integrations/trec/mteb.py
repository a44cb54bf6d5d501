"""Compute what MTEB prints beside measures of rankings.

How well a run knows which of its rankings are good, and how an instruction moves documents.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from fastrank_eval._lib.arguments import shown, typed
from fastrank_eval._lib.errors import ArgumentError, MeasureError
from fastrank_eval._lib.lexer import shorten
from fastrank_eval.integrations.trec.lines import RUN
from fastrank_eval.integrations.trec.pairs import Common, Cuts, Pairs
from fastrank_eval.integrations.trec.tables import read_pairs
from fastrank_eval.measures import Measure
from fastrank_eval.results.lookup import find_measure
from fastrank_eval.results.result import Result

#: Shares of the groups that are left out, as MTEB computes them.
_RATES = np.linspace(0, 1, 11)[:-1]


@typed
def confidences(
    run: object,
    *,
    drop_self: bool = False,
    skip_first: bool = False,
    most: int | None = None,
    query: str | None = None,
    doc: str | None = None,
    score: str | None = None,
) -> dict[str, dict[str, float]]:
    """Compute how sure a run is of each query, from its scores alone.

    ``"max"`` is the highest score, ``"std"`` the standard deviation of the scores (divided by their
    number), ``"diff1"`` the difference between the two highest scores, 0 for a single document. For
    a query without documents all are 0.

    Parameters
    ----------
    run : object
        A source of `read_run`.
    drop_self, skip_first, most
        Documents that do not count, as in `evaluate`.
    query, doc, score : str, optional
        Names of the columns of a table, as in `read_run`.

    Returns
    -------
    dict of str to (dict of str to float)
        For ``"max"``, ``"std"`` and ``"diff1"`` the number of each query, in the order of the run.

    Raises
    ------
    SourceError, ColumnError
        As `read_run` does.

    References
    ----------
    Gisserot-Boukhlef et al. (2024), arXiv:2402.12997; MTEB.

    Examples
    --------
    >>> found = confidences({"q1": {"d3": 0.75, "d5": 0.5}, "q2": {"d1": 0.25}})
    >>> found["max"], found["diff1"]
    ({'q1': 0.75, 'q2': 0.25}, {'q1': 0.25, 'q2': 0.0})
    """
    read = read_pairs(run, RUN, names={"query": query, "doc": doc, "score": score})
    # Every query of the run counts, so the run takes the place of the judgements.
    both = Common([read], read, complete=True)
    both.cut(0, Cuts(drop_self, skip_first, most), as_float32=False)
    _, scores, bounds = both.ranked(0, as_float32=False)
    found: dict[str, dict[str, float]] = {kind: {} for kind in ("max", "std", "diff1")}
    edges = zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)
    for name, (first, end) in zip(both.queries.to_pylist(), edges, strict=True):
        own = scores[first:end].astype(np.float64)
        found["max"][name] = float(own[0]) if len(own) else 0.0
        found["std"][name] = float(own.std()) if len(own) else 0.0
        found["diff1"][name] = float(own[0] - own[1]) if len(own) > 1 else 0.0
    for name in read.empty:
        for numbers in found.values():
            numbers.setdefault(name, 0.0)
    return found


@typed
def nauc(
    result: Result,
    measure: str | Measure,
    confidence: Mapping[str, float] | Sequence[float] | np.ndarray,
    score: str | None = None,
) -> float:
    """Compute how much a measure gains where a run may leave out queries.

    At the rates r = 0, 0.1 ... 0.9 the share r of the queries is left out, those of lowest
    confidence first. A is the area under the mean of the measure over the others, F that of the
    mean over all queries, and B that of an oracle, which leaves out the queries of the lowest
    values. nAUC is (A - F) / (B - F): 1 if the confidence is as good as the oracle, about 0 if it
    says nothing, negative if it misleads. Each query counts once, and equal confidences keep the
    order of the queries, as in MTEB.

    Parameters
    ----------
    result : Result
        Of `evaluate`, or of `fastrank_eval.evaluate`, with the values of groups.
    measure : str or Measure
        A measure of groups for which higher values are better.
    confidence : mapping of str to float, or sequence of float
        The confidence of each query, as `confidences` has it; or numbers in the order of
        `Result.per_group`. Only their order counts.
    score : str, optional
        The run; not needed if there is only one.

    Returns
    -------
    float
        At most 1; NaN if all values are equal. Queries without a value are left out.

    Raises
    ------
    MeasureError
        If lower values of the measure are better, or it was not part of the evaluation.
    ArgumentError
        If a query with a value has no confidence, or the confidence is NaN.

    References
    ----------
    Gisserot-Boukhlef et al. (2024), arXiv:2402.12997; MTEB.

    Examples
    --------
    >>> import fastrank_eval as fe
    >>> qrels = {"q1": {"d1": 1}, "q2": {"d1": 1}, "q3": {"d1": 1}}
    >>> run = {"q1": {"d1": 0.9, "d2": 0.1}, "q2": {"d2": 0.3, "d1": 0.2}, "q3": {"d1": 0.6}}
    >>> result = fe.trec.evaluate(qrels, run, "nDCG@10", profile="mteb")
    >>> nauc(result, "nDCG@10", confidences(run)["max"])
    1.0
    """
    found = find_measure(measure, result.names, result.requested)
    if not found.higher_is_better or not found.has_direction:
        raise MeasureError(
            f"measure: must be one for which higher is better, got {found.display_name}; take "
            "nDCG@10, say."
        )
    values = result[found] if score is None else result[score, found]
    keys = result.per_group.column(0).to_pylist()
    defined = np.flatnonzero(~np.isnan(values))
    if isinstance(confidence, Mapping):
        if len(result.group_table().keys) > 1:
            raise ArgumentError(
                "confidence: must be numbers in the order of per_group for groups with several "
                "key columns, got a mapping; of several data sets, pass the result of one."
            )
        given = [confidence.get(keys[i], math.nan) for i in defined.tolist()]
    elif len(confidence) == len(keys):
        given = [confidence[i] for i in defined.tolist()]
    else:
        raise ArgumentError(
            f"confidence: must be a number for each of {len(keys):,} groups, got "
            f"{len(confidence):,}; pass what fastrank_eval.trec.confidences returns."
        )
    sure = np.array(given, np.float64)
    if np.isnan(sure).any():
        lacking = keys[int(defined[np.isnan(sure).argmax()])]
        raise ArgumentError(
            "confidence: must be a number for each group with a value, got none for "
            f"{shorten(repr(lacking), 100)}; "
            "leave out queries without a result by complete=False, or give it one."
        )
    return _normalised_area(values[defined], sure)


def _normalised_area(values: np.ndarray, confidence: np.ndarray) -> float:
    """Compute nAUC of values and their confidences."""
    if not len(values) or values.min() == values.max():
        return math.nan
    own, best = (
        _area(values[np.argsort(numbers, kind="stable")]) for numbers in (confidence, values)
    )
    flat = float(values.mean()) * float(_RATES[-1] - _RATES[0])
    return (own - flat) / (best - flat)


def _area(values: np.ndarray) -> float:
    """Compute the area under the mean of the values that are left, by rate."""
    count = len(values)
    left_out = [min(round(float(rate) * count), count - 1) for rate in _RATES]
    means = np.array([values[first:].mean() for first in left_out])
    return float(((means[1:] + means[:-1]) / 2 * np.diff(_RATES)).sum())


@typed
def p_mrr(original: object, changed: object, docs: Mapping[str, Sequence[str]]) -> dict[str, float]:
    """Compute how an instruction moves documents that it makes irrelevant.

    A document of rank a in the original run and b in the changed one counts b/a - 1 if a >= b, and
    1 - a/b otherwise: -1 to 1, above 0 if the instruction moves it down. The value of a query is
    the mean over its documents; MTEB prints the mean over the queries. Tied documents rank by
    descending id; a document that a run lacks has the rank after its last.

    Parameters
    ----------
    original, changed : object
        Sources of `read_run`: the runs without and with the instruction. A query may have the end
        of MTEB's names, ``-og`` in the first and ``-changed`` in the second.
    docs : mapping of str to sequence of str
        For each query the documents that are relevant without the instruction alone.

    Returns
    -------
    dict of str to float
        p-MRR of each query, in the order of `docs`.

    Raises
    ------
    ArgumentError
        If a run lacks a query of `docs`, or a query has no document there.

    References
    ----------
    Weller et al. (2024), FollowIR, arXiv:2403.15246; MTEB.

    Examples
    --------
    >>> original = {"q1": {"d1": 0.9, "d2": 0.8, "d3": 0.7, "d4": 0.6}}
    >>> changed = {"q1": {"d4": 0.9, "d2": 0.8, "d3": 0.7, "d1": 0.6}}
    >>> p_mrr(original, changed, {"q1": ["d1"]})
    {'q1': 0.75}
    """
    sides = [
        (name, end, _Ranks(run))
        for name, end, run in (("original", "-og", original), ("changed", "-changed", changed))
    ]
    found: dict[str, float] = {}
    for query, moved in docs.items():
        if not moved:
            raise ArgumentError(
                f"docs: must name documents of each query, got none for {shown(query)}; leave it "
                "out."
            )
        ranks = []
        for name, end, of_run in sides:
            key = query if query in of_run.queries else f"{query}{end}"
            if key not in of_run.queries:
                raise ArgumentError(
                    f"docs: must name queries of both runs, got {shown(query)}, which {name} "
                    "lacks; leave it out."
                )
            ranks.append(of_run.of(key, moved))
        changes = [b / a - 1 if a >= b else 1 - a / b for a, b in zip(*ranks, strict=True)]
        found[query] = sum(changes) / len(changes)
    return found


class _Ranks:
    """The ranks of the documents of a run."""

    def __init__(self, run: object) -> None:
        read = read_pairs(run, RUN)
        self._pairs = Pairs([read])
        self._ranked, _, self._bounds = self._pairs.ranked(0, as_float32=False)
        self.queries = {name: i for i, name in enumerate(self._pairs.queries.to_pylist())}
        self.queries |= dict.fromkeys(set(read.empty) - self.queries.keys(), -1)

    def of(self, query: str, docs: Sequence[str]) -> list[int]:
        """Return the ranks of documents, one after the last if there is none."""
        place = self.queries[query]
        first, end = (0, 0) if place < 0 else self._bounds[place : place + 2].tolist()
        names = self._pairs.docs(self._ranked[first:end]).to_pylist()
        rank_of = {name: rank for rank, name in enumerate(names, 1)}
        return [rank_of.get(doc, len(names) + 1) for doc in docs]
