"""Tests of "the models do not differ" by name: on a standard error, or on values of every group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fastrank_eval.comparison.evidence import Evidence
from fastrank_eval.comparison.group_ids import group_ids
from fastrank_eval.comparison.kept_groups import KeptGroups
from fastrank_eval.comparison.paired_tests import (
    PairedTest,
    clustered_t,
    clustered_z,
    group_differences,
    paired_t,
    sign_test,
    wilcoxon,
)
from fastrank_eval.comparison.resampling import bootstrap, swapped
from fastrank_eval.comparison.resampling_inference import (
    bootstrap_error,
    bootstrap_interval,
    bootstrap_p_value,
    randomisation_p_value,
)
from fastrank_eval.elementary import exp_each
from fastrank_eval.errors import ArgumentError
from fastrank_eval.measures import Measure

__all__ = [
    "NEED_GROUPS",
    "RESAMPLING",
    "TESTS",
    "Choices",
    "Tested",
    "by_error",
    "by_groups",
    "refuse_pooled",
]

_BY_ERROR = ("clustered_t", "clustered_z")
_BY_DIFFERENCES = {"paired_t": paired_t, "wilcoxon": wilcoxon, "sign": sign_test}
#: Those that draw replicates.
RESAMPLING = ("randomisation", "bootstrap")
#: Those that read one difference for each group or draw groups: they need values of every group.
NEED_GROUPS = (*_BY_DIFFERENCES, *RESAMPLING)
TESTS = (*_BY_ERROR, *NEED_GROUPS)


@dataclass(frozen=True, slots=True)
class Choices:
    """How models are compared.

    Parameters
    ----------
    test : str
        One of `TESTS`.
    correction : {"holm", "bh", "none"}
    confidence : float
    replicates, seed : int
        Of randomisation and bootstrap.
    threads : int
    """

    test: str
    correction: str
    confidence: float
    replicates: int
    seed: int
    threads: int

    @property
    def needs_groups(self) -> bool:
        """Whether values of every group are needed."""
        return self.test in NEED_GROUPS


@dataclass(frozen=True, slots=True)
class Tested:
    """What a test says of one measure of one candidate.

    Parameters
    ----------
    statistic, p_value : float
    note : str or None
        As of `PairedTest`.
    interval : tuple of float, optional
        Standard error and ends of the interval, where the test has its own.
    """

    statistic: float
    p_value: float
    note: str | None = None
    interval: tuple[float, float, float] | None = None


def refuse_pooled(test: str, measures: Sequence[Measure]) -> None:
    """Refuse measures of all rows together under a test that needs values of every group."""
    pooled = [str(m) for m in measures if m.pooled]
    if test in NEED_GROUPS and pooled:
        kin = " (GAUC is the AUC of each group)" if "AUC" in pooled else ""
        raise ArgumentError(
            f"test={test!r} compares values of every group, and {', '.join(pooled)} "
            f"{'pools' if len(pooled) == 1 else 'pool'} the rows of all groups; leave "
            f"{'it' if len(pooled) == 1 else 'them'} out{kin}, or choose test='clustered_t'."
        )


def by_error(test: str, delta: float, evidence: Evidence) -> Tested:
    """Test a difference by its standard error: ``clustered_z`` if chosen, else ``clustered_t``."""
    support = evidence.support
    if test == "clustered_z":
        return _said(clustered_z(delta, evidence.se, support.groups))
    return _said(clustered_t(delta, evidence.se, support.groups, support.degrees))


def by_groups(
    choices: Choices, kept: KeptGroups, base: int, model: int, deltas: Mapping[int, float]
) -> dict[int, Tested]:
    """Test measures of two models by the values of every group.

    Parameters
    ----------
    choices : Choices
        With a test that needs them.
    kept : KeptGroups
    base, model : int
        Places of the two models.
    deltas : mapping of int to float
        Differences of measures, none of which pools rows, by their places.

    Returns
    -------
    dict of int to Tested
        By place.
    """
    pairs = {
        m: _Pair(kept.measures[m], delta, *_terms(kept, base, model, m))
        for m, delta in deltas.items()
    }
    if choices.test in _BY_DIFFERENCES:
        test = _BY_DIFFERENCES[choices.test]
        return {
            m: _said(test(group_differences(*pair.mine, *pair.theirs))) for m, pair in pairs.items()
        }
    ids = group_ids(kept.keys)
    if choices.test == "randomisation":
        return _by_randomisation(choices, pairs, ids)
    return _by_bootstrap(choices, pairs, ids)


@dataclass(frozen=True, slots=True)
class _Pair:
    """A measure's difference and the terms of two models that it comes of."""

    measure: Measure
    delta: float
    mine: np.ndarray
    theirs: np.ndarray

    def difference(self, mine: np.ndarray, theirs: np.ndarray) -> np.ndarray:
        """Of the values that sums of terms come to, each of shape (replicates, 2)."""
        return _value(self.measure, theirs) - _value(self.measure, mine)

    def differing(self) -> int:
        """Groups of which the models' terms are not the same."""
        return int(np.count_nonzero((self.mine != self.theirs).any(axis=0)))


def _terms(kept: KeptGroups, base: int, model: int, m: int) -> tuple[np.ndarray, np.ndarray]:
    return np.stack(kept.terms(base, m)), np.stack(kept.terms(model, m))


def _value(measure: Measure, sums: np.ndarray) -> np.ndarray:
    """What sums of weighted values and of weights come to; NaN without weight."""
    above, below = sums[:, 0], sums[:, 1]
    found = np.full(len(sums), np.nan)
    there = below > 0
    if measure.aggregate == "sum":
        found[there] = above[there]
        return found
    np.divide(above, below, out=found, where=there)
    return exp_each(found) if measure.aggregate == "geometric mean" else found


def _said(test: PairedTest) -> Tested:
    return Tested(test.statistic, test.p_value, test.note)


def _by_randomisation(
    choices: Choices, pairs: Mapping[int, _Pair], ids: np.ndarray
) -> dict[int, Tested]:
    # A measure whose patterns can all be tried is tried alone: what else is asked for changes
    # nothing.
    differing = {m: pair.differing() for m, pair in pairs.items()}
    alone = [m for m, n in differing.items() if n < 32 and 1 << n <= choices.replicates]
    together = [m for m in pairs if m not in alone]
    found = {}
    for members in [*([m] for m in alone), together]:
        if not members:
            continue
        mine, theirs = (
            np.concatenate([getattr(pairs[m], side) for m in members])
            for side in ("mine", "theirs")
        )
        drawn = swapped(
            mine, theirs, ids, choices.replicates, choices.seed, threads=choices.threads
        )
        for place, m in enumerate(members):
            here = slice(2 * place, 2 * place + 2)
            differences = pairs[m].difference(drawn.sums_a[:, here], drawn.sums_b[:, here])
            p_value = randomisation_p_value(pairs[m].delta, differences, drawn.exact)
            found[m] = Tested(pairs[m].delta, p_value)
    return found


def _by_bootstrap(
    choices: Choices, pairs: Mapping[int, _Pair], ids: np.ndarray
) -> dict[int, Tested]:
    found = {}
    # The number of groups drawn has to be that of the groups where a sum is not divided by it.
    for kind, members in (
        ("poisson", [m for m, pair in pairs.items() if pair.measure.aggregate != "sum"]),
        ("multinomial", [m for m, pair in pairs.items() if pair.measure.aggregate == "sum"]),
    ):
        if not members:
            continue
        sums = bootstrap(
            np.concatenate([side for m in members for side in (pairs[m].mine, pairs[m].theirs)]),
            ids,
            choices.replicates,
            choices.seed,
            kind=kind,
            threads=choices.threads,
        )
        for place, m in enumerate(members):
            at = 4 * place
            values = pairs[m].difference(sums[:, at : at + 2], sums[:, at + 2 : at + 4])
            interval = bootstrap_interval(pairs[m].delta, values, choices.confidence)
            found[m] = Tested(
                pairs[m].delta,
                bootstrap_p_value(pairs[m].delta, values),
                interval=(bootstrap_error(values), *interval),
            )
    return found
