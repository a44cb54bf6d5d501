"""Evaluate runs against judgements in one call."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple, TypeGuard, cast

import pyarrow as pa

from fastrank_eval._lib.arguments import typed
from fastrank_eval._lib.arrow import mask_column
from fastrank_eval._lib.errors import ArgumentError, FastRankEvalError, MeasureError
from fastrank_eval.engine.conventions import Profile, profile_of
from fastrank_eval.engine.group_table import GroupTable
from fastrank_eval.engine.options import DEFAULTS, OPTIONS, Options, check_names
from fastrank_eval.engine.run import plan_of
from fastrank_eval.integrations.trec.benchmark import Benchmark
from fastrank_eval.integrations.trec.join import (
    Joined,
    join_runs,
    name_runs,
    no_common_query,
    read_runs,
)
from fastrank_eval.integrations.trec.measures import (
    at_level,
    check_level,
    have_gains,
    label_of,
    single_measures,
    with_gains,
)
from fastrank_eval.integrations.trec.nested import is_ranked
from fastrank_eval.integrations.trec.pairs import Cuts, are_dicts
from fastrank_eval.integrations.trec.ranked import RankedDicts, no_rows
from fastrank_eval.measures import Measure
from fastrank_eval.measures.judged import ANYWHERE
from fastrank_eval.measures.parser import requested_measures, text_with_options
from fastrank_eval.results.evaluate import evaluate_options
from fastrank_eval.results.lookup import find_measure
from fastrank_eval.results.report import list_text
from fastrank_eval.results.result import Result

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

    The values are those of the table of `join` with ``group="query"``, ``item="doc"`` and
    ``label="grade"``. The numbers are those of trec_eval 10, unless `profile` is another.

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
    dicts, used = None, [_at_level(one, level) for one in asked]
    by_ranks = all(part.counts_absent(complete) == is_complete for part in parts)
    by_ranks &= options.keys() <= _OF_RANKS and cuts.by_document
    if by_ranks and are_dicts([judged, *runs.values()]):
        empty = no_rows((*runs,), judged.numbers.dtype)
        plans = [plan_of(_request(part, empty, (*runs,), used, options)) for part in parts]
        if all(plan.takes_ranks for plan in plans):
            dicts = RankedDicts(judged, runs, cuts, is_complete)
    if dicts is None:
        joined = join_runs(
            judged, runs, is_complete, cuts, as_float32=as_float32, anywhere=anywhere
        )
    else:
        joined = dicts.joined()
    common = joined.queries - joined.only_in_qrels * is_complete
    if not (joined.queries if complete else common):
        known = joined.queries + joined.only_in_qrels * (not is_complete)
        raise no_common_query(known, joined.only_in_run, are_lists=is_ranked(run))
    if not all(part.counts_absent(complete) for part in parts):
        _refuse_different_queries(joined, joined.only_in_qrels * is_complete)
    if version is not None and have_gains(asked):
        grades = joined.table["grade"].unique().drop_null().to_pylist()
        of_grades = _with_all_gains(asked, grades if dicts is None else dicts.grades)
        used = [_at_level(one, level) for one in of_grades]
    results: dict[int, Result] = {}
    for part in parts:
        ranked, table = None, joined.table
        if is_complete and not part.counts_absent(complete) and joined.answered is not None:
            table = table.filter(mask_column(joined.answered))
        request = _request(part, table, joined.scores, used, options)
        if dicts is not None:
            ranked = dicts.table(plan_of(request).roles)
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
        "judged_documents": joined.judged_documents,
        **({} if joined.largest_grade is None else {"largest_grade": joined.largest_grade}),
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


def _at_level(one: Measure, level: float) -> Measure:
    """Set the least relevant grade; the name in reports stays."""
    return at_level(one, level).with_display_name(one.display_name)


def _request(
    part: _Part,
    table: pa.Table,
    scores: Sequence[str],
    used: Sequence[Measure],
    options: Mapping[str, Any],
) -> Options:
    """Check the options of the evaluation of a part."""
    given = {
        "group": "query",
        "label": part.label,
        "score": scores,
        "item": "doc",
        "subtopics": "subtopics" if "subtopics" in table.column_names else None,
        "measures": [used[place] for place in part.places],
        **_JOINED,
        **part.choices,
        **options,
    }
    return Options.read(table, given)


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
        key = label_of(one), is_apart
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
