"""Evaluate runs against judgements in one call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fastrank_eval._lib.arguments import typed
from fastrank_eval._lib.arrow import as_array
from fastrank_eval._lib.errors import ArgumentError
from fastrank_eval.engine.conventions import profile_of
from fastrank_eval.engine.options import check_names
from fastrank_eval.integrations.trec.join import Joined, cut_run, join_runs, no_common_query
from fastrank_eval.integrations.trec.measures import at_level, single_measures
from fastrank_eval.integrations.trec.report import check_cuts, documents_left_out
from fastrank_eval.measures.parser import requested_measures, text_with_options
from fastrank_eval.results.evaluate import evaluate as evaluate_table

if TYPE_CHECKING:
    from fastrank_eval.integrations.trec.pairs import PairTable
    from fastrank_eval.measures import Measure
    from fastrank_eval.results.result import Result

#: The command line's measures, without those that compare all rows.
_DEFAULT_MEASURES = "nDCG@10,AP,RR,P@10,R@10"
#: Profiles in which names have the meaning that trec_eval gives them.
_VERSIONS = {"trec_eval_9": 9, "trec_eval_10": 10}


@typed
def evaluate(
    qrels: object,
    run: object,
    measures: str | Measure | Sequence[str | Measure] = _DEFAULT_MEASURES,
    *,
    complete: bool | None = None,
    level: float = 1,
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
        Judgements: a TREC file, ``{query: {doc: grade}}``, or a table, frame or file with the
        columns of this package (``query, doc, grade``), PyTerrier (``qid, docno, label``),
        ir_measures (``query_id, doc_id, relevance``), ranx (``q_id, doc_id, score``) or BEIR
        (``query-id, corpus-id, score``). See `read_qrels`.
    run : object
        A run of the same forms, with the column ``score``; or a mapping of names to runs,
        ``{"bm25": "bm25.run", "ours": frame}``, which are the models of the result. See `read_run`.
    measures : str, Measure or sequence of them
        Names of this package, trec_eval and ir_measures, as `trec_report` reads them: under a
        profile of trec_eval, ``"P"`` has nine cutoffs. By default nDCG@10, AP, RR, P@10 and R@10.
    complete : bool, optional
        Whether a judged query that a run lacks counts 0, as with ``-c`` of trec_eval, or is left
        out. By default it counts 0, unless the tool of `profile` leaves it out: trec_eval 9,
        gdeval, ndeval. In a dict, ``{}`` is a query with results: it counts 0. If it is left out,
        several runs must have the same judged queries, so that the value of a run does not depend
        on the others.
    level : float
        Least relevant grade, above 0, of measures that do not set `rel` (``-l``).
    most : int, optional
        The largest number of documents of each query that count (``-M``): those of the highest
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
    check_cuts(most, level)
    tool = None if profile is None else profile_of(profile)
    is_complete = complete
    if is_complete is None:
        is_complete = tool is None or tool.complete
    score_type = options.get("score_type") or (tool and tool.choices.get("score_type"))
    columns = {"query": query, "doc": doc, "grade": grade, "score": score}
    is_float32 = score_type == "float32"
    documents: list[tuple[int, int]] = []

    def change(of_run: PairTable, judged: PairTable) -> PairTable:
        cut = cut_run(of_run, judged, as_float32=is_float32, most=most, judged_only=judged_only)
        documents.append((of_run.encoded.num_rows, cut.encoded.num_rows))
        return cut

    joined = join_runs(qrels, run, is_complete, columns, change)
    common = joined.queries - joined.only_in_qrels * is_complete
    if not (joined.queries if complete else common):
        judged = joined.queries + joined.only_in_qrels * (not is_complete)
        raise no_common_query(judged, joined.only_in_run)
    if not is_complete:
        _refuse_different_queries(joined)
    names = joined.table.column_names
    if profile in _VERSIONS:
        grades = joined.table["grade"].unique().drop_null().to_pylist()
        asked = single_measures(measures, _VERSIONS[profile], grades)
    else:
        asked = list(requested_measures(measures))
    used = [at_level(one, level).with_display_name(one.display_name) for one in asked]
    result = evaluate_table(
        joined.table,
        group="query",
        label="grade",
        score=joined.scores,
        item="doc",
        subtopics="subtopics" if "subtopics" in names else None,
        measures=used,
        profile=profile,
        **{"unretrieved": "allow", "unjudged": "allow", **options},
    )
    chosen: dict[str, object] = {} if level == 1 else {"level": level}
    chosen |= {} if most is None else {"most": most}
    chosen |= {"judged_only": True} if judged_only else {}
    runs = joined.scores if len(joined.scores) > 1 else ["the run"]
    notes = [
        *joined.notes,
        *(
            documents_left_out(name, *numbers, most=most, judged_only=judged_only)
            for name, numbers in zip(runs, documents, strict=True)
            if numbers[0] > numbers[1]
        ),
    ]
    conventions = {
        **result.meta.conventions,
        "complete": is_complete,
        "judged_queries": joined.queries + joined.only_in_qrels * (not is_complete),
        "only_in_run": joined.only_in_run,
        "only_in_qrels": joined.only_in_qrels,
        "unanswered": joined.unanswered,
        **chosen,
        **({"reading_notes": tuple(notes)} if notes else {}),
        **_facts(joined),
    }
    # A measure is found by the name that was asked for, without the level.
    requested = dict(result.requested) | {
        text_with_options(one): result.requested.get(text_with_options(other), str(other))
        for one, other in zip(asked, used, strict=True)
        if one != other
    }
    result.requested = requested
    result.meta = replace(result.meta, conventions=conventions, requested=requested)
    return result


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


def _refuse_different_queries(joined: Joined) -> None:
    """Raise if a run lacks a query that another one has."""
    for name, number in joined.lacking.items():
        if number:
            raise ArgumentError(
                f"run: must be runs with the same judged queries if complete is False, but {name} "
                f"lacks {number:,} of {joined.queries:,}; pass complete=True to count 0, or "
                "evaluate each run by itself."
            )
