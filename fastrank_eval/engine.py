"""A chunk of whole groups -> values and sums; threads that do so side by side.

Every way in (a stream of contiguous groups, gathered rows) ends in `evaluate_chunk`. A thread adds
to a tally of its own, and tallies merge in any order: sums are exact, so neither chunks nor threads
show in the result.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from typing import Any, cast

import numpy as np

from fastrank_eval.chunk import Chunk, Scored
from fastrank_eval.coverage import Coverage
from fastrank_eval.exact import NO_SLICES
from fastrank_eval.labels import Labels
from fastrank_eval.plan import GroupValues, Plan
from fastrank_eval.ranking import Ranking, rank, unranked
from fastrank_eval.settling import RankedGroups, Settled, constant_columns, settled
from fastrank_eval.tally import Measured, PoolSet, SharedPools, Sums, Tally

#: Rows from which on threads share what is done once all are added up.
_SHARED = 1 << 17


def evaluate_chunk(
    chunk: Chunk, plan: Plan, tally: Tally, name: Callable[[int], str]
) -> GroupValues:
    """Rank whole groups, compute every measure and add to the tally.

    Parameters
    ----------
    chunk : Chunk
        Whole groups.
    plan : Plan
    tally : Tally
        This thread's own.
    name : callable
        A group's key as a reader would write it, for messages.

    Returns
    -------
    GroupValues
        Empty unless ``plan.per_group``.
    """
    labels = Labels.of(chunk.columns.label, chunk.starts, plan.skip_empty)
    seen = GroupValues.empty(chunk, plan)
    models = measure_chunk(chunk, plan, labels, tally.whole, tally.shared.whole, name, seen=seen)
    if plan.per_group:
        seen.put_positives(labels)
    tally.whole.see(np.diff(chunk.starts), labels.relevant_of_each(1.0))
    if plan.slicings:
        from fastrank_eval.slicing import add_slices

        add_slices(chunk, plan, tally, labels, models, name)
    return seen


def measure_chunk(
    chunk: Chunk,
    plan: Plan,
    labels: Labels,
    sums: Sums,
    pools: PoolSet | None,
    name: Callable[[int], str],
    *,
    lines: np.ndarray = NO_SLICES,
    seen: GroupValues | None = None,
) -> list[Measured]:
    """Compute every measure of whole groups and add it to sums and pools.

    Parameters
    ----------
    chunk : Chunk
    plan : Plan
    labels : Labels
        Of the chunk.
    sums : Sums
    pools : PoolSet or None
        None: they are not added to.
    name : callable
    lines : ndarray of int64, shape (groups,), or (0,)
        The line of the sums that each group is added to; without entries the first.
    seen : GroupValues, optional
        Where values of each group are entered, if the plan asks for them.

    Returns
    -------
    list of Measured
        The measures of groups of each model, where somebody needs them again.
    """
    columns = chunk.columns
    group_weights = constant_columns(chunk, plan, name)
    coverage = Coverage.of(columns.subtopics, chunk.starts, columns.item)
    fields = plan.field_codes(columns.named)
    models: list[Measured] = []
    rows: list[Scored] = []
    for model, score in enumerate(plan.roles.scores):
        scored = Scored.of(chunk, model, labels, fields, plan.roles.epsilons)
        if plan.ranks or plan.presorted:
            in_order = scored.in_order(plan.presorted, score)
        if plan.passes:
            ranking = (
                rank(scored, plan.ties, in_order, coverage) if plan.ranks else unranked(scored)
            )
            positives = ranking.relevant(1.0)
            groups = RankedGroups(chunk.starts, ranking.rows, positives, ranking.ranked)
            found: dict[int, Settled] = {}
            for m, value in _values(plan, ranking):
                one = settled(plan, m, ranking, value, group_weights, name)
                sums.add(model, m, groups, one, lines)
                if seen is not None and plan.per_group:
                    seen.put(model, m, groups, one)
                if plan.keeps_values:
                    found[m] = one
            sums.add_empty(model, groups, lines)
            models.append((groups, found))
        rows.append(scored)
    if pools is not None and plan.pools:
        pools.add(rows)
    pair_models(plan, models, sums, lines)
    return models


def pair_models(
    plan: Plan, models: list[Measured], sums: Sums, lines: np.ndarray = NO_SLICES
) -> None:
    """Add the measures of groups of every model beside those of the baseline."""
    if plan.baseline is None or not models:
        return
    for model in plan.rivals:
        for m in models[model][1]:
            sums.pair(model, m, models[plan.baseline], models[model], lines)


def _values(plan: Plan, ranking: Ranking) -> Iterator[tuple[int, np.ndarray]]:
    """Each measure of groups, by its position in the plan, with its values."""
    for together in plan.passes:
        members = [plan.measures[m] for m in together]
        for measure in members:
            measure.check_grades(ranking)
        values = np.empty((len(members), ranking.groups))
        type(members[0]).compute(members, ranking, values)
        yield from zip(together, values, strict=True)


class Tallies:
    """A tally for each thread."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.tallies: list[Tally] = []
        self._pools = SharedPools(plan)
        self._own = threading.local()
        self._lock = threading.Lock()

    def mine(self) -> Tally:
        """The calling thread's own tally."""
        mine = getattr(self._own, "tally", None)
        if mine is None:
            mine = self._own.tally = Tally(self.plan, self._pools)
            with self._lock:
                self.tallies.append(mine)
        return cast(Tally, mine)

    def merged(self) -> Tally:
        """The sum of all threads' tallies."""
        total = Tally(self.plan, self._pools)
        for tally in self.tallies:
            total.merge(tally)
        return total


def sharing(threads: int, rows: int) -> Callable[..., Iterator[Any]]:
    """What maps work over parts of so many rows: threads, unless starting them takes longer."""
    return partial(in_order, threads) if rows >= _SHARED else map


def in_order(threads: int, work: Callable[[Any], Any], jobs: Iterable[Any]) -> Iterator[Any]:
    """Results of `work` in the order of `jobs`, a few jobs ahead."""
    if threads == 1:
        yield from map(work, jobs)
        return
    waiting: deque[Future[Any]] = deque()
    pool = ThreadPoolExecutor(threads, thread_name_prefix="fastrank")
    try:
        for job in jobs:
            waiting.append(pool.submit(work, job))
            if len(waiting) > threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except GeneratorExit:
        # Who closes what was left in the midst may be a collection of garbage that comes while
        # another thread starts. To wait there for threads to end, which take the lock that a start
        # holds, is to wait for ever (CPython 3.11); jobs end without it.
        pool.shutdown(wait=False, cancel_futures=True)
        wait([job for job in waiting if not job.cancelled()])
        raise
    except BaseException:
        pool.shutdown(cancel_futures=True)
        raise
    pool.shutdown()
