"""evaluate(): arguments in, Result out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from fastrank_eval import __version__
from fastrank_eval.arguments import (
    CHOICES,
    at_least_one,
    check_choice,
    column_name,
    column_names,
    open_share,
    processors,
)
from fastrank_eval.batches import Reading
from fastrank_eval.columns import Roles
from fastrank_eval.errors import ArgumentError, ColumnError, OrderError, near
from fastrank_eval.faults import BadRows, explained
from fastrank_eval.groups import (
    Keys,
    KeyWatch,
    ReturningKey,
    group_starts,
    key_integers,
    key_text,
    keys_at,
)
from fastrank_eval.kernel import compilations
from fastrank_eval.measures import Measure
from fastrank_eval.measures.base import GROUP_WEIGHTS, SCORE_KINDS
from fastrank_eval.measures.pooled_measure import PooledMeasure
from fastrank_eval.measures.probabilities import sampling_rate_of
from fastrank_eval.measures.text import measures_asked
from fastrank_eval.memory import Budget, budget
from fastrank_eval.plan import STRETCH, GroupValues, Plan, stretch_of
from fastrank_eval.profiles import DEFAULTS, profile_of, with_options
from fastrank_eval.progress import Progress, reporting_to
from fastrank_eval.result import Meta, Result
from fastrank_eval.sources import open_source, require_columns
from fastrank_eval.stream import evaluate_stream
from fastrank_eval.summary import per_group_table, score_tables, summary_lines
from fastrank_eval.ties import TIES
from fastrank_eval.undefined import undefined_policies, undefined_text
from fastrank_eval.validation import keys_of

if TYPE_CHECKING:
    import pyarrow.compute as pc

    from fastrank_eval.fields import FieldCodes
    from fastrank_eval.tally import Tally

#: Rows looked at to see whether keys are scattered.
_PEEK = 1 << 16
_COUNTING = "counting bad rows"

_CHOICES = {"ties": TIES, **CHOICES}


def evaluate(
    source: object,
    *,
    group: str | Sequence[str],
    label: str,
    score: str | Sequence[str],
    measures: str | Measure | Sequence[str | Measure],
    weight: str | None = None,
    item: str | None = None,
    subtopics: str | None = None,
    profile: str | None = None,
    ties: str | None = None,
    undefined: str | Mapping[str, str] | None = None,
    groups: str | None = None,
    unretrieved: str | None = None,
    unjudged: str | None = None,
    weight_rows: str | None = None,
    score_type: str | None = None,
    sampling_rate: float | None = None,
    confidence: float = 0.95,
    order: str = "auto",
    presorted: bool = False,
    threads: int | None = None,
    per_group: bool = True,
    keep_scores: bool = False,
    where: str | pc.Expression | None = None,
    limit: int | None = None,
    batch_rows: int | None = None,
    memory: str | int | None = None,
    spill_dir: str | None = None,
    format: str | None = None,  # noqa: A002 - what the option is called everywhere
    progress: Callable[[Progress], object] | None = None,
) -> Result:
    """Rank the rows of every group by score and average ranking measures over groups.

    Parameters
    ----------
    source : object
        One row per shown or judged item: a pyarrow Table, RecordBatch, RecordBatchReader or
        Dataset, a path, folder, glob or list of them (Parquet, Arrow IPC, CSV), anything with
        ``__arrow_c_stream__`` (pandas, polars, DuckDB), or a mapping of one-dimensional arrays.
    group : str or sequence of str
        Key columns of any integer, string, binary, dictionary, date, timestamp, decimal or bool
        type. A null is an error.
    label : str
        Bool, integer grade or finite float gain. A null means unjudged: see `unjudged`.
    score : str or sequence of str
        float16, float32, float64 or integer; higher ranks first; one column a model. NaN is an
        error. A null means relevant but not retrieved: see `unretrieved`.
    measures : str, Measure or sequence of them
        ``"GAUC,AUC,nDCG@10"`` or values such as ``nDCG @ 10``.
    weight : str, optional
        Row weight, finite and at least 0: of the pairs of GAUC and of measures of all rows (AUC,
        LogLoss, PPV ...). Measures of rank positions have no weighted form: see `weight_rows`.
    item : str, optional
        Item id, for ``ties="item"``.
    subtopics : str, optional
        What each row covers, for measures of diversity: a list of whole numbers from 0 to 63, or a
        single one. Null and the empty list cover nothing. These measures look at nothing else: a
        row counts by what it covers, whatever its label, and `unjudged` goes by the label alone.
    profile : str, optional
        The conventions of another tool: ``"trec_eval_9"``, ``"catboost"`` ... (see `PROFILES`). It
        sets the choices below, and the options of measures, that are not given.
    ties : {"expected", "input", "item", "best", "worst"}
        Tied scores: the exact mean over all their orders, the order of the input, item id
        descending, or the best or worst case. AUC counts a tied pair one half in each.
    undefined : {"skip", "zero", "one", "error"} or mapping
        Value of a group for which a measure is undefined; ``"skip,nDCG=one"``, or a mapping of
        measures with ``"*"`` for the others, names single measures.
    groups : {"all", "with_relevant"}
        ``"with_relevant"`` leaves out groups without a row of grade >= 1, for every measure but
        those that pool all rows (AUC).
    unretrieved : {"error", "allow"}
        Rows without a score: ``"allow"`` counts them in R and in the ideal.
    unjudged : {"error", "allow", "drop"}
        Rows without a label: ``"allow"`` lets them take a rank without gain, ``"drop"`` moves later
        rows up.
    weight_rows : {"refuse", "ignore"}
        What measures of rank positions, which have no weighted form, do with `weight`.
    score_type : {"given", "float32"}
        ``"float32"`` rounds scores before they are compared.
    sampling_rate : float
        In ]0, 1]: the share of the negatives that the models were trained on. Measures of
        probability take p / (p + (1 - p) / rate) for p, but those that say otherwise themselves;
        no other measure changes.
    confidence : float
        In ]0, 1[: of the intervals about the values, with groups as independent clusters.
    order : {"auto", "sorted", "grouped", "scattered"}
        ``"sorted"``: groups contiguous and scores descending inside them, verified. ``"grouped"``:
        groups contiguous, verified. ``"scattered"``: rows are gathered, in memory if they fit.
        ``"auto"`` finds out.
    presorted : bool
        The same as ``order="sorted"``.
    threads : int, optional
        Default: the processors this process may use. The result has the same bits for any number.
    per_group : bool
        Keep every group's values for `Result.per_group`; False bounds memory for endless groups.
    keep_scores : bool
        Keep every distinct score with its positives and others for `Result.curve`, as AUC among the
        measures finds them; ``AUC(rel=2)`` counts as positives the rows of grade 2 or more.
    where : str or pyarrow.compute.Expression, optional
        Evaluate only the rows for which this holds: ``"day = '2026-11-19' and slot in (1, 2)"``.
        Comparisons, ``in``, ``between``, ``is null``, ``and``, ``or``, ``not``, parentheses; text
        in single quotes, column names bare or in double quotes. A row for which it is null is
        left out. Literals take the type of their column. Files and Parquet row groups that it
        rules out are not read.
    limit : int, optional
        Read only the first rows (that `where` selects): a quick look, in which groups may be cut.
    batch_rows : int, optional
        Rows a thread takes at a time. The result has the same bits for any number.
    memory : str or int, optional
        What the process may take, as ``"4GB"`` or bytes; by default a share of what is free.
        Scattered rows that do not fit are sorted on disk, which needs DuckDB (extra
        ``[outofcore]``). Half a GB to one is needed in any case. The result has the same bits.
    spill_dir : str, optional
        Folder for rows that do not fit; by default that of temporary files. Nothing is left there.
    format : {"parquet", "arrow", "csv", "tsv"}, optional
        Format of the files, where their names do not tell.
    progress : callable, optional
        Called with a `Progress` now and then, at most some ten times a second, by the thread that
        called `evaluate`. What it raises ends the run.

    Returns
    -------
    Result

    Raises
    ------
    FastRankEvalError
        Its children say what is wrong, where, and what to do: `ArgumentError`, `MeasureError`,
        `SourceError`, `ColumnError`, `OrderError`, `UndefinedError`.

    Examples
    --------
    >>> import fastrank_eval as fr
    >>> log = {"user": [1, 1, 2, 2, 2], "click": [0, 1, 1, 0, 0], "pctr": [0.1, 0.4, 0.2, 0.3, 0.1]}
    >>> result = fr.evaluate(log, group="user", label="click", score="pctr", measures="GAUC,RR")
    >>> result.value("GAUC")
    0.7
    """
    started, compiled = perf_counter(), compilations()
    chosen = None if profile is None else profile_of(profile)
    given: dict[str, Any] = {
        "ties": ties,
        "undefined": undefined,
        "groups": groups,
        "unretrieved": unretrieved,
        "unjudged": unjudged,
        "weight_rows": weight_rows,
        "score_type": score_type,
    }
    for name, value in given.items():
        if value is None:
            given[name] = DEFAULTS[name] if chosen is None else chosen.choice(name)
    policies = undefined_policies(given["undefined"])
    given["undefined"] = undefined_text(policies)
    given["order"] = order
    for name, value in given.items():
        if name != "undefined":
            check_choice(name, value, _CHOICES[name])
    if progress is not None and not callable(progress):
        raise ArgumentError(f"progress={progress!r} is not callable; pass a function or None.")
    if presorted:
        if order not in ("auto", "sorted"):
            raise ArgumentError(f"presorted=True contradicts order={order!r}; give one of them.")
        order = "sorted"
    asked = measures_asked(measures)
    measured = asked if chosen is None else chosen.measured(asked)
    rate = sampling_rate_of(sampling_rate)
    if rate != 1:
        measured = tuple(with_options(m, {"sampling_rate": rate}) for m in measured)
    wanted = tuple(dict.fromkeys(measured))
    roles = Roles(
        group=column_names("group", group),
        label=column_name("label", label),
        scores=column_names("score", score),
        weight=None if weight is None else column_name("weight", weight),
        item=None if item is None else column_name("item", item),
        group_weights=tuple(
            dict.fromkeys(
                m.weight for m in wanted if not m.pooled and m.weight not in GROUP_WEIGHTS
            )
        ),
        fields=_fields(wanted),
        unretrieved=given["unretrieved"],
        unjudged=given["unjudged"],
        single_precision=given["score_type"] == "float32",
        judgments=any(m.needs_judgments for m in wanted),
        score_kind=max(
            # Thresholds are read as numbers.
            ["number" if keep_scores else "order", *(m.scores for m in wanted)],
            key=SCORE_KINDS.index,
        ),
        subtopics=_subtopics(subtopics, wanted),
    )
    _check_measures(wanted, given["ties"], roles, given["weight_rows"])
    plan = Plan(
        roles=roles,
        measures=wanted,
        ties=given["ties"],
        undefined=policies,
        groups=given["groups"],
        presorted=order == "sorted",
        per_group=per_group,
        threads=at_least_one("threads", threads, processors()),
        stretch=at_least_one("batch_rows", batch_rows, STRETCH),
        confidence=open_share("confidence", confidence),
    )
    allowed = budget(memory, plan.threads, bool(plan.pools), spill_dir)
    opened = open_source(source, format=format, where=where)
    parts = roles.by_column()
    for name, part in parts.items():
        hint = near(name, GROUP_WEIGHTS) if part == "group weight" else ""
        if hint and name not in opened.schema.names:
            raise ColumnError(
                f"group weight '{name}' is no column and none of {', '.join(GROUP_WEIGHTS)}.{hint}"
            )
        require_columns(opened.schema, [name], role=part)
    if subtopics is not None:
        require_columns(opened.schema, [subtopics], role="subtopics")
    reading = Reading(opened, tuple(parts), at_least_one("limit", limit, None))
    if batch_rows is None:
        plan = replace(plan, stretch=stretch_of(reading.rows, plan.threads))
    with reporting_to(progress):
        try:
            tally, keys, values, way = _run(reading, plan, order, allowed)
        except (BadRows, OrderError) as fault:
            raise explained(
                fault,
                opened,
                lambda columns: Reading(opened, columns, reading.limit, _COUNTING).batches(),
            ) from None
    conventions: dict[str, object] = {**given, "weight": weight, **way}
    if subtopics is not None:
        conventions["subtopics"] = subtopics
    if chosen is not None:
        conventions["profile"] = chosen.name
    conventions["sampling_rate"] = rate
    conventions["confidence"] = plan.confidence
    conventions["measures"] = {str(m): m.options_in_force() for m in wanted}
    if where is not None:
        conventions["where"] = str(where)
    if limit is not None:
        conventions["limit"] = limit
    table = per_group_table(plan, keys, values, opened.schema) if per_group else None
    lines = summary_lines(plan, tally)
    seconds, fresh = perf_counter() - started, compilations() - compiled
    return Result(
        lines,
        table,
        Meta(__version__, tally.whole.rows(), tally.whole.groups(), conventions, seconds, fresh),
        roles.scores,
        [str(m) for m in wanted],
        {str(m): str(used) for m, used in zip(asked, measured, strict=True) if m != used},
        score_tables(plan, tally) if keep_scores else None,
    )


def _subtopics(given: str | None, wanted: tuple[Measure, ...]) -> str | None:
    """The column of subtopics, if a measure asks for it."""
    name = None if given is None else column_name("subtopics", given)
    asking = [str(m) for m in wanted if m.needs_subtopics]
    if asking and name is None:
        raise ArgumentError(
            f"{', '.join(asking)} must know which subtopics a row covers: name a column of lists "
            "of whole numbers, subtopics=... (--subtopics)."
        )
    return name if asking else None


def _fields(wanted: tuple[Measure, ...]) -> tuple[FieldCodes, ...]:
    names = (name for m in wanted if isinstance(m, PooledMeasure) for name in m.columns_named())
    distinct = tuple(dict.fromkeys(names))
    if not distinct:
        return ()
    from fastrank_eval.fields import FieldCodes

    return tuple(FieldCodes(name) for name in distinct)


def _check_measures(wanted: tuple[Measure, ...], ties: str, roles: Roles, weight_rows: str) -> None:
    for m in wanted:
        refusal = m.refuses(ties)
        if refusal:
            raise ArgumentError(f"{refusal}.")
    if ties == "item" and roles.item is None:
        raise ArgumentError("ties='item' needs the column of item ids: item=...")
    unweighted = [str(m) for m in wanted if not m.uses_row_weights]
    if roles.weight is not None and unweighted and weight_rows == "refuse":
        raise ArgumentError(
            f"row weights ('{roles.weight}') have no meaning for measures of rank positions: "
            f"{', '.join(unweighted)}; leave them out, or pass weight_rows='ignore' to compute "
            "them without weights."
        )


def _run(
    reading: Reading, plan: Plan, order: str, allowed: Budget
) -> tuple[Tally, list[Keys], list[GroupValues], dict[str, object]]:
    """Evaluate by the way that `order` says, or that the keys call for; and tell which it was."""
    if order == "auto":
        first = reading.peek(_PEEK)
        if first is not None and _scattered(first, plan):
            order = "scattered"
    keep = not reading.rereadable
    while order != "scattered":
        try:
            tally, pieces = evaluate_stream(reading.parts(plan.stretch), plan, KeyWatch(keep))
        except ReturningKey as returning:
            if returning.keys is None and reading.rereadable:
                keep = True
            elif order == "auto" and reading.rereadable:
                order = "scattered"
            else:
                raise _returned(returning, plan, order) from None
        else:
            keys = [piece.keys for piece in pieces]
            values = [piece.values for piece in pieces if piece.values is not None]
            return tally, keys, values, {"order": "grouped" if order == "auto" else order}
    from fastrank_eval.scattered import Scattered, in_order_of_appearance

    scattered = Scattered(plan, allowed)
    tally, pieces = scattered.evaluate(reading)
    way: dict[str, object] = {"order": order}
    if scattered.spilled:
        way["spilled"] = True
    return tally, *in_order_of_appearance(pieces), way


def _returned(returning: ReturningKey, plan: Plan, order: str) -> OrderError:
    which = key_text(returning.keys, plan.roles.group, 0) if returning.keys is not None else "?"
    promise = "" if order == "auto" else f", but order={order!r} promises contiguous groups"
    return OrderError(
        f"the group {which} comes back after other groups{promise}; pass order='scattered' "
        "(--order scattered) to gather rows, or sort the input by group."
    )


def _scattered(batch: pa.RecordBatch, plan: Plan) -> bool:
    keys = keys_of(batch, plan.roles, 0)
    starts = np.concatenate([[0], group_starts(keys)])
    at_starts = keys_at(keys, starts)
    integers = np.sort(key_integers(at_starts))  # np.unique() would hash them: 20 times slower
    return bool((integers[1:] == integers[:-1]).any())
