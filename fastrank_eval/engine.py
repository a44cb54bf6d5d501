"""A chunk of whole groups -> values and sums; threads that do so side by side.

Every way in (a stream of contiguous groups, gathered rows) ends in `evaluate_chunk`. A thread adds
to a tally of its own, and tallies merge in any order: sums are exact, so neither chunks nor threads
show in the result.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, cast

import numpy as np

from fastrank_eval.chunk import Chunk, Scored
from fastrank_eval.coverage import Coverage
from fastrank_eval.errors import ColumnError, MeasureError, UndefinedError
from fastrank_eval.labels import Labels
from fastrank_eval.mean_state import MeanState
from fastrank_eval.measures.auc import class_weights
from fastrank_eval.measures.base import GROUP_WEIGHTS, Measure
from fastrank_eval.plan import GroupValues, Plan, Tally, new_pools
from fastrank_eval.ranking import Ranking, rank, unranked


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
    columns = chunk.columns
    group_weights = _constant_columns(chunk, plan, name)
    labels = Labels.of(columns.label, chunk.starts, plan.skip_empty)
    coverage = Coverage.of(columns.subtopics, chunk.starts, columns.item)
    coded = columns.named[len(plan.roles.group_weights) :]
    fields = {field.name: codes for field, codes in zip(plan.roles.fields, coded, strict=True)}
    seen = GroupValues.empty(chunk, plan)
    for model, score in enumerate(plan.roles.scores):
        scored = Scored.of(chunk, model, labels, fields)
        if plan.ranks or plan.presorted:
            in_order = scored.in_order(plan.presorted, score)
        if plan.passes:
            ranking = (
                rank(scored, plan.ties, in_order, coverage) if plan.ranks else unranked(scored)
            )
            for m, value in _values(plan, ranking):
                _settle(plan, m, ranking, value, group_weights, tally.means[model], name)
                if plan.per_group:
                    seen.put(model, m, ranking, value)
            if ranking.ranked is not None:
                _settle_empty(plan, chunk, labels, tally.means[model])
        for key, pool in tally.pools[model].items():
            plan.pools[key].add_rows(pool, scored)
    if plan.per_group:
        seen.put_positives(labels)
    tally.positives += int(labels.relevant(1.0).sum())
    tally.rows += columns.rows
    tally.groups += chunk.groups
    return seen


def _values(plan: Plan, ranking: Ranking) -> Iterator[tuple[int, np.ndarray]]:
    """Each measure of groups, by its position in the plan, with its values."""
    for together in plan.passes:
        members = [plan.measures[m] for m in together]
        for measure in members:
            measure.check_grades(ranking)
        values = np.empty((len(members), ranking.groups))
        type(members[0]).compute(members, ranking, values)
        yield from zip(together, values, strict=True)


def _settle_empty(plan: Plan, chunk: Chunk, labels: Labels, state: MeanState) -> None:
    """Count the groups that were not ranked because their labels are all 0."""
    groups = chunk.groups - len(labels.rows)
    rows = chunk.columns.rows - labels.rows_ranked
    for m, measure in enumerate(plan.measures):
        if measure.pooled:
            continue
        reason = "no_relevant" if plan.groups == "with_relevant" else measure.undefined_if_empty()
        if reason:
            state.drop(m, reason, groups)
        else:
            state.add_zeros(m, groups, rows)


def _settle(
    plan: Plan,
    m: int,
    ranking: Ranking,
    value: np.ndarray,
    group_weights: dict[str, np.ndarray],
    state: MeanState,
    name: Callable[[int], str],
) -> None:
    """Apply the policy for undefined groups, weigh the groups and add them to the state."""
    measure = plan.measures[m]
    positives = ranking.relevant(1.0)
    if plan.groups == "with_relevant":
        left_out = positives == 0
        state.drop(m, "no_relevant", int(np.count_nonzero(left_out)))
        value[left_out] = np.nan
        unsettled = np.isnan(value) & ~left_out
    else:
        unsettled = np.isnan(value)
    if unsettled.any():
        for reason, holds in measure.reasons(ranking):
            mine = unsettled & holds
            count = int(np.count_nonzero(mine))
            if not count:
                continue
            unsettled &= ~holds
            policy = plan.policy(measure, reason)
            if policy == "error":
                at = int(np.argmax(mine))
                group = at if ranking.ranked is None else int(ranking.ranked[at])
                raise UndefinedError(
                    f"{measure} is undefined for the group "
                    f"{name(group)} ({reason}), and undefined groups "
                    "are an error; choose undefined='skip', 'zero' or 'one'."
                )
            if policy == "skip":
                state.drop(m, reason, count)
            else:
                value[mine] = policy
    weights = _group_weights(measure, ranking, group_weights)
    used = measure.settled(value)
    if weights is not None:
        weightless = (weights == 0) & ~np.isnan(value)
        if weightless.any():
            state.drop(m, "zero_weight", int(np.count_nonzero(weightless)))
            used = np.where(weightless, np.nan, used)
    if unsettled.any() or not state.add(m, used, weights, ranking.rows, positives):
        remedy = ", or take gain='linear' or a table of gains" if "gain" in measure.chosen else ""
        raise MeasureError(
            f"{measure}: grades or weights are so large that a sum passes the largest double; "
            f"scale them down{remedy}."
        )


def _group_weights(
    measure: Measure, ranking: Ranking, columns: dict[str, np.ndarray]
) -> np.ndarray | None:
    """What each group counts for; None where each counts 1."""
    kind = measure.weight
    if kind == "uniform":
        return None
    if kind not in GROUP_WEIGHTS:
        column = columns[kind]
        if ranking.ranked is None:
            return column
        ranked = ranking.ranked
        return ranking.once_for_all(("column", kind), lambda: column[ranked])
    rel = measure.rel_or_default

    def weigh() -> np.ndarray:
        if measure.uses_row_weights:
            positive, negative = class_weights(ranking, rel)
        else:
            positive = ranking.relevant(rel)
            negative = ranking.retrieved - ranking.relevant_retrieved(rel)
            if kind == "impressions":
                return ranking.retrieved.astype(np.float64)
        if kind == "impressions":
            return (positive + negative).astype(np.float64)
        if kind == "positives":
            return positive.astype(np.float64)
        return positive.astype(np.float64) * negative

    if ranking.weights is not None:
        # Sums of row weights in the order of the scores: their last bits are the model's own.
        return weigh()
    return ranking.once_for_all(("group weight", measure.uses_row_weights, kind, rel), weigh)


def _constant_columns(
    chunk: Chunk, plan: Plan, name: Callable[[int], str]
) -> dict[str, np.ndarray]:
    """Columns used as group weights, one value a group; refuse one that varies inside a group."""
    found = {}
    firsts = chunk.starts[:-1]
    for title, column in zip(plan.roles.group_weights, chunk.columns.named, strict=False):
        varies = column[1:] != column[:-1]
        varies[firsts[1:] - 1] = False
        if varies.any():
            row = int(np.argmax(varies)) + 1
            group = int(np.searchsorted(chunk.starts, row, side="right")) - 1
            raise ColumnError(
                f"group weight column '{title}' is not constant inside the group "
                f"{name(group)}: {column[row - 1]:g} is followed by "
                f"{column[row]:g}; a group weight has one value a group."
            )
        found[title] = column[firsts]
    return found


class Tallies:
    """A tally for each thread."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.tallies: list[Tally] = []
        self._pools = new_pools(plan)
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
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
