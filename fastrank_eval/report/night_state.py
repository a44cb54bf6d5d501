"""What a night keeps so that nights are merged, not averaged: its saved states.

A group of a merged number is a user's rows of one night, and groups are independent clusters.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from dataclasses import replace

from fastrank_eval.evaluation import Evaluation
from fastrank_eval.measures import Measure
from fastrank_eval.measures.pooled_measure import ClusteredMeasure
from fastrank_eval.plan import Plan
from fastrank_eval.report.nights import KeptStates
from fastrank_eval.saved_states import State
from fastrank_eval.state_of_run import state_of_run
from fastrank_eval.tally import SharedPools, Tally

__all__ = ["KINDS", "STATES", "states_of"]

#: What may be kept: everything; of slices only what is summed over groups; nothing of slices; of
#: all rows only what is summed over groups.
STATES = ("everything", "slices", "rows", "groups")
#: The states of a night: of measures of groups, of measures of all rows that are a few sums, and of
#: those that are read from the score of every row, which grow with the rows.
KINDS = ("groups", "sums", "scores")


def states_of(
    done: Evaluation, source: object, hidden: Collection[str], keep: str = "slices"
) -> KeptStates:
    """Keep what a run has added up.

    Parameters
    ----------
    done : Evaluation
    source : object
        As `run` was given it.
    hidden : collection of str
        Measures of groups that are left out: no other run knows them.
    keep : str
        One of `STATES`.
    """
    told = [m for m in done.plan.measures if str(m) not in hidden]
    chosen: dict[str, list[Measure]] = {kind: [] for kind in KINDS}
    for measure in told:
        chosen[_kind(measure)].append(measure)
    sliced = {"groups": ("everything", "slices")}
    states = {
        kind: _state(done, source, measures, keep in sliced.get(kind, ("everything",)))
        for kind, measures in chosen.items()
        if measures and (keep != "groups" or kind == "groups")
    }
    prints = [seen.fingerprint for state in states.values() for seen in state.seen if seen.rows]
    fingerprint = hashlib.sha256("".join(prints).encode()).hexdigest() if prints else ""
    return KeptStates({kind: state.to_bytes() for kind, state in states.items()}, fingerprint)


def _kind(measure: Measure) -> str:
    if not measure.pooled:
        return "groups"
    return "sums" if isinstance(measure, ClusteredMeasure) else "scores"


def _state(done: Evaluation, source: object, measures: list[Measure], sliced: bool) -> State:
    chosen = [done.plan.measures.index(m) for m in measures]
    plan = replace(done.plan, measures=tuple(measures))
    if not sliced:
        plan = replace(plan, slicing=None)
    tally = Tally(plan, done.tally.shared if sliced else _of_all_rows(done, plan))
    tally.whole = done.tally.whole.of_measures(plan, chosen)
    if sliced:
        tally.slices = [sums.of_measures(plan, chosen) for sums in done.tally.slices]
    texts = set(map(str, measures))
    asked = {name: text for name, text in done.asked.items() if text in texts}
    state = state_of_run(replace(done, plan=plan, tally=tally, asked=asked), source)
    return state if sliced else state.without_slices()


def _of_all_rows(done: Evaluation, plan: Plan) -> SharedPools:
    pools = SharedPools(plan)
    pools.whole = done.tally.shared.whole
    return pools
