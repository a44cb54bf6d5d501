"""Define kernels that compute a measure of one group."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple, cast

import numpy as np

from fastrank_eval._lib.arrow import frozen
from fastrank_eval._lib.errors import MeasureError
from fastrank_eval._lib.jit import NativeKernel, inlined


class Group(NamedTuple):
    """A group; its labelled rows are `first` to `end` - 1 of `Rows`.

    `relevant` counts rows of grade >= rel, and `hits` those with a score. `zeros` is the weight of
    the rows with a score and label 0, and `ideal` its `Measure.ideals`.
    """

    first: int
    end: int
    rows: int
    retrieved: int
    relevant: int
    hits: int
    zeros: float
    ideal: float


class Rows(NamedTuple):
    """Labelled rows of all groups, best first; see `ranking.Ranking`.

    `gain` has the measure's gain of each row, and `best` those of the group in descending order.
    The weights are empty without row weights. A measure that needs judgments or subtopics has rows
    of `Ranking.judged` or `Ranking.covering` instead, with `above`, `size` and `grade` alone.
    """

    above: np.ndarray
    size: np.ndarray
    block_above: np.ndarray
    block_size: np.ndarray
    grade: np.ndarray
    gain: np.ndarray
    best: np.ndarray
    weight: np.ndarray
    zeros_above: np.ndarray
    zeros_tied: np.ndarray


class Options(NamedTuple):
    """Options of a measure.

    `cutoff` is 0 if all ranks count. `parameters` has its `Measure.numbers`. `discount` and
    `summed` are its `discount_table`. `scratch` has an item for each row of the group,
    and one more.
    """

    cutoff: int
    rel: float
    parameters: np.ndarray
    weighted: bool
    discount: np.ndarray
    summed: np.ndarray
    scratch: np.ndarray


@inlined
def no_relevant(group, rows, options):  # type: ignore[no-untyped-def]
    """Return the first reason."""
    return 1


def _loop_of(
    value: Callable[..., Any], why: Callable[..., Any], needs_relevant: bool
) -> Callable[..., Any]:
    """Make the loop over groups; see `GroupFunction`."""

    def loop(  # type: ignore[no-untyped-def]
        offsets, all_rows, retrieved, relevant, hits, zeros,
        above, size, block_above, block_size, grade, gain, best, weight, zeros_above, zeros_tied,
        cutoff, rel, parameters, weighted, discount, summed, scratch, out, reason,
    ):  # fmt: skip
        rows = Rows(
            above, size, block_above, block_size, grade, gain, best, weight, zeros_above, zeros_tied
        )
        options = Options(cutoff, rel, parameters, weighted, discount, summed, scratch)
        for g in range(all_rows.shape[0]):
            group = Group(
                offsets[g], offsets[g + 1], all_rows[g], retrieved[g], relevant[g], hits[g],
                zeros[g] if weighted else 0.0, out[g],
            )  # fmt: skip
            lacks = needs_relevant and group.relevant == 0
            out[g] = np.nan if lacks else value(group, rows, options)
            reason[g] = 0 if out[g] == out[g] else why(group, rows, options)

    loop.__name__ = f"{value.__name__}_of_groups"
    return loop


_INTEGERS, _NUMBERS = frozen(np.zeros(1, np.int64)), frozen(np.zeros(1))
#: Arguments of the types of every loop.
_ARGUMENTS = (
    *(_INTEGERS,) * 5, _NUMBERS, *(_INTEGERS,) * 4, *(_NUMBERS,) * 6,
    0, 0.0, _NUMBERS, True, _NUMBERS, _NUMBERS, np.zeros(1), np.zeros(1), np.zeros(1, np.uint8),
)  # fmt: skip


class GroupFunction:
    """A kernel that computes a measure of one group, and the loop over groups.

    Parameters
    ----------
    value : kernel
        Maps a `Group`, `Rows` and `Options` to the value: NaN if undefined, inf if a sum passes the
        largest double.
    reasons : tuple of str
        Why a group may be undefined.
    why : kernel, optional
        Maps the same to the reason of an undefined group, the first being 1.
    needs_relevant : bool
        Whether a group without a relevant row is undefined; then `value` is not called.
    uses_scratch : bool
        Whether it uses `Options.scratch`.
    """

    def __init__(
        self,
        value: Callable[..., Any],
        reasons: tuple[str, ...] = ("no_relevant",),
        why: Callable[..., Any] = no_relevant,
        *,
        needs_relevant: bool = False,
        uses_scratch: bool = False,
    ) -> None:
        if not reasons:
            raise MeasureError("reasons: must be one text or more, got none; name why.")
        self.value, self.reasons, self.why = value, reasons, why
        self.needs_relevant, self.uses_scratch = needs_relevant, uses_scratch

    @cached_property
    def loop(self) -> NativeKernel:
        """The loop over groups."""
        return NativeKernel(
            cast(Any, _loop_of(self.value, self.why, self.needs_relevant)), _ARGUMENTS
        )

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the loop."""
        return {name: value for name, value in vars(self).items() if name != "loop"}


@inlined
def at_most(value, top):  # type: ignore[no-untyped-def]
    """Return the value; `top` if rounding alone made it larger."""
    return top if top < value <= top + 1e-9 else value


@inlined
def next_block(rows, e, end):  # type: ignore[no-untyped-def]
    """Return ranks above the tie block of row `e`, its rows, and its end."""
    above = rows.above[e]
    size = rows.size[e]
    while e < end and rows.above[e] == above:
        e += 1
    return above, size, e


@inlined
def relevant_block(rows, rel, e, end):  # type: ignore[no-untyped-def]
    """Return a tie block as `next_block`, and its relevant rows."""
    above = rows.above[e]
    size = rows.size[e]
    relevant = 0
    while e < end and rows.above[e] == above:
        relevant += rows.grade[e] >= rel
        e += 1
    return above, size, e, relevant


@inlined
def gaining_block(rows, e, end):  # type: ignore[no-untyped-def]
    """Return a tie block as `next_block`, its gain, and its rows with one."""
    above = rows.above[e]
    size = rows.size[e]
    gain = 0.0
    gaining = 0
    while e < end and rows.above[e] == above:
        gain += rows.gain[e]
        gaining += rows.gain[e] > 0.0
        e += 1
    return above, size, e, gain, gaining


@inlined
def discounted(options, gain, above, ranks, size):  # type: ignore[no-untyped-def]
    """Return the expected gain of the first ranks of a tie block."""
    if size == 1:
        return gain * options.discount[above]
    return gain * ((options.summed[above + ranks] - options.summed[above]) / size)


@inlined
def best_with_gain(group, rows):  # type: ignore[no-untyped-def]
    """Count the rows with a gain above 0 in the best order."""
    count = 0
    while group.first + count < group.end and rows.best[group.first + count] > 0.0:
        count += 1
    return count


@inlined
def ranks_that_count(ranks, mean):  # type: ignore[no-untyped-def]
    """Leave out ranks t of a tie block with mean^t below 1e-22."""
    if mean <= 0.0:
        return min(ranks, 1)
    if mean < 1.0:
        deepest = 25.35 * (1.0 + mean) / (1.0 - mean)
        if deepest < ranks:
            return np.int64(deepest) + 1
    return ranks


@inlined
def ranks_in_sight(options, above, size):  # type: ignore[no-untyped-def]
    """Count the ranks of a tie block above the cutoff, at most 0 if none is."""
    return size if options.cutoff == 0 else min(options.cutoff - above, size)
