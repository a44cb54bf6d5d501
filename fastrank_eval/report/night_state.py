"""What a night keeps so that nights are merged, not averaged: exact sums over groups.

Of every mean and sum over groups of all rows these are its `Moments`, whole numbers that add up. A
group of a merged number is a user's rows of one night, and groups are independent clusters.
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from fastrank_eval.errors import HistoryError
from fastrank_eval.evaluation import Evaluation
from fastrank_eval.plain_values import plain_value
from fastrank_eval.report.nights import NightValue
from fastrank_eval.uncertainty import Moments, Uncertainty, around, of_geometric_mean

__all__ = ["merged", "state_of"]

_FORMAT, _VERSION = "fastrank_eval night sums", 1
_COUNTS = ("groups", "groups_used", "rows", "rows_used", "positives", "positives_used")
_MOMENTS = tuple(field.name for field in fields(Moments))
#: What may differ between nights that are merged: how rows were read, and which.
_FREE = ("order", "spilled", "where", "limit", "by", "min_groups", "slices_left_out", "measures")


@dataclass(frozen=True)
class _Sums:
    """What one measure of one model came to on a night."""

    aggregate: str
    weighted: bool
    counts: tuple[int, ...]
    dropped: Mapping[str, int]
    moments: Moments


def state_of(done: Evaluation, hidden: frozenset[str]) -> bytes:
    """Keep the sums of a run.

    Parameters
    ----------
    done : Evaluation
    hidden : frozenset of str
        Measures that are left out.

    Returns
    -------
    bytes
        Compressed JSON; `merged` reads it.
    """
    plan, whole = done.plan, done.tally.whole
    lines = []
    for model, score in enumerate(plan.roles.scores):
        state = whole.means[model]
        for m, measure in enumerate(plan.measures):
            if measure.pooled or str(measure) in hidden:
                continue
            weighted = measure.weight != "uniform"
            moments = state.moments(m, weighted)
            counts = (
                whole.groups(), state.used(m), whole.rows(), state.rows(m), whole.positives(),
                state.positives(m),
            )  # fmt: skip
            lines.append(
                {
                    "score": score,
                    "measure": str(measure),
                    "aggregate": measure.aggregate,
                    "weighted": weighted,
                    "counts": counts,
                    "dropped": state.dropped(m),
                    "moments": [_hexadecimal(getattr(moments, name)) for name in _MOMENTS],
                }
            )
    told = {k: v for k, v in done.meta.conventions.items() if k not in _FREE}
    content = {
        "format": _FORMAT,
        "version": _VERSION,
        "conventions": plain_value(told),
        "lines": lines,
    }
    return zlib.compress(json.dumps(content).encode())


def merged(states: Sequence[bytes], confidence: float) -> tuple[NightValue, ...]:
    """The values of several nights together, as of one run over the rows of all.

    Parameters
    ----------
    states : sequence of bytes
        Of `state_of`, the latest last. Nights of other conventions than the latest are left out,
        and so are measures and models that not all the others have.
    confidence : float

    Returns
    -------
    tuple of NightValue
        Of all rows; to the eighth digit what one run would give.

    Raises
    ------
    HistoryError
        A state is damaged, or of a later version.
    """
    if not states:
        return ()
    read = [_read(state) for state in states]
    told = read[-1][0]
    nights = [lines for conventions, lines in read if conventions == told]
    return tuple(
        _value(score, measure, [lines[score, measure] for lines in nights], confidence)
        for score, measure in nights[-1]
        if all((score, measure) in lines for lines in nights)
    )


def _read(state: bytes) -> tuple[object, dict[tuple[str, str], _Sums]]:
    try:
        content = json.loads(zlib.decompress(state))
        if content["format"] != _FORMAT or content["version"] > _VERSION:
            raise HistoryError(
                f"a night's state is {content['format']!r} of version {content['version']}; this "
                f"fastrank_eval reads {_FORMAT!r} up to {_VERSION}. Update it, or run the night "
                "again."
            )
        lines = {(line["score"], line["measure"]): _sums(line) for line in content["lines"]}
    except (zlib.error, ValueError, KeyError, TypeError) as error:
        if isinstance(error, HistoryError):
            raise
        raise HistoryError(
            "a night's state is damaged; run the night again, which replaces it."
        ) from error
    return content["conventions"], lines


def _sums(line: Mapping[str, Any]) -> _Sums:
    moments = [None if text is None else int(text, 16) for text in line["moments"]]
    numbers: dict[str, Any] = dict(zip(_MOMENTS, moments, strict=True))
    return _Sums(
        line["aggregate"],
        line["weighted"],
        tuple(map(int, line["counts"])),
        line["dropped"],
        Moments(**numbers),
    )


def _value(score: str, measure: str, nights: Sequence[_Sums], confidence: float) -> NightValue:
    first = nights[0]
    moments = _added([night.moments for night in nights])
    counts = [sum(numbers) for numbers in zip(*(night.counts for night in nights), strict=True)]
    of = dict(zip(_COUNTS, counts, strict=True))
    value, sure = _found(first.aggregate, moments, confidence)
    dropped: dict[str, int] = {}
    for night in nights:
        for reason, groups in night.dropped.items():
            dropped[reason] = dropped.get(reason, 0) + groups
    return NightValue(
        score, "", "all", measure, value, sure.se, sure.low, sure.high, sure.effective_groups,
        of["groups"], of["groups_used"], _share(of["rows_used"], of["rows"]),
        _share(of["positives_used"], of["positives"]), dropped, sure.caution,
    )  # fmt: skip


def _found(aggregate: str, moments: Moments, confidence: float) -> tuple[float, Uncertainty]:
    if not moments.groups:
        return math.nan, Uncertainty()
    if aggregate == "sum":
        total = moments.values / (1 << moments.unit)
        error = moments.error_of_sum()
        return total, around(total, error, moments.groups, confidence, float(moments.groups))
    if not moments.weights:
        return math.nan, Uncertainty()
    mean = moments.values / moments.weights
    sure = around(
        mean, moments.error_of_mean(), moments.groups, confidence, moments.effective_groups
    )
    if aggregate == "geometric mean":
        return math.exp(mean), of_geometric_mean(sure, mean)
    return mean, sure


def _added(moments: Sequence[Moments]) -> Moments:
    def total(name: str) -> int | None:
        numbers = [getattr(each, name) for each in moments]
        return None if numbers[0] is None else sum(numbers)

    numbers: dict[str, Any] = {name: total(name) for name in _MOMENTS if name != "unit"}
    return Moments(**numbers, unit=moments[0].unit)


def _hexadecimal(number: int | None) -> str | None:
    return None if number is None else f"{number:x}"


def _share(part: int, whole: int) -> float:
    return part / whole if whole else math.nan
