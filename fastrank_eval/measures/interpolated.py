"""Precision as a function of recall, interpolated: IPrec at one level, IPrec11 over eleven."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any, Self

import numpy as np

from fastrank_eval.errors import MeasureError
from fastrank_eval.kernel import kernel
from fastrank_eval.measures.base import REL, WEIGHT, Measure, Param, number, one_of
from fastrank_eval.ranking import Ranking

ROUNDING = Param(
    "rounding",
    "nearest",
    "relevant rows at recall r: 'nearest': r R rounded, halves up, as trec_eval 10 does; 'up': "
    "floor(r R + 0.9), as trec_eval 9 does",
    one_of("nearest", "up"),
)

_ELEVEN = tuple(level / 10 for level in range(11))


class _Interpolated(Measure):
    """What both share: the best precision at or beyond some numbers of relevant rows."""

    needs_relevant = True
    takes_cutoff = False

    def levels(self) -> tuple[float, ...]:
        """The recall levels whose mean is taken."""
        raise NotImplementedError  # pragma: no cover - abstract

    def has_expectation(self) -> bool:
        return False  # a maximum over ranks

    def pass_key(self) -> Hashable:
        return "interpolated precision", self.rel

    @classmethod
    def compute(
        cls,
        measures: Sequence[_Interpolated],
        ranking: Ranking,
        outs: Iterable[np.ndarray],
    ) -> None:
        rel = float(measures[0].rel)
        relevant = ranking.relevant(rel)
        wanted = sorted({(level, m.rounding) for m in measures for level in m.levels()})
        needed = np.empty((len(wanted), ranking.groups), np.int64)
        for (level, rounding), row in zip(wanted, needed, strict=True):
            row[:] = relevant_at(level, relevant, rounding)
        found = np.empty((len(wanted), ranking.groups))
        _best_precisions(
            ranking.offsets,
            ranking.above,
            ranking.grade,
            rel,
            ranking.retrieved,
            needed,
            found,
        )
        for m, out in zip(measures, outs, strict=True):
            levels = m.levels()
            out[:] = 0.0
            for level in levels:
                out += found[wanted.index((level, m.rounding))]
            out /= len(levels)
            out[relevant == 0] = np.nan


class InterpolatedPrecision(_Interpolated):
    """IPrec@r, the best precision at any rank whose recall is at least r; 0 if none is.

    A recall level r of R relevant rows is reached with round(r R) of them, as trec_eval counts.
    """

    name = "IPrec"
    summary = "best precision at any rank that reaches a recall level; written IPrec@0.1 too"
    formula = "max of hits@i / i over ranks i with hits@i >= round(recall R)"
    reference = "Salton & McGill (1983); trec_eval: iprec_at_recall"
    options = (
        Param(
            "recall",
            None,
            "the recall level, in [0, 1]; it must be given",
            number(least=0, most=1, optional=True),
        ),
        ROUNDING,
        REL,
        WEIGHT,
    )
    spellings = ("InterpolatedPrecision", "iprec_at_recall")

    def __init__(self, recall: Any = None, /, **options: Any) -> None:
        if recall is not None:
            if options.get("recall") is not None:
                raise MeasureError(f"IPrec: the recall level is given twice, in @{recall!r} too.")
            options["recall"] = recall
        super().__init__(**options)

    def __matmul__(self, recall: float) -> Self:
        return type(self)(**{**self._given_values(), "recall": recall})

    def check_complete(self) -> None:
        if self.recall is None:
            raise MeasureError("IPrec needs a recall level in [0, 1], as in IPrec@0.1.")

    def levels(self) -> tuple[float, ...]:
        return (float(self.recall),)


class ElevenPointPrecision(_Interpolated):
    """IPrec11, the mean of IPrec at recall 0, 0.1, ... 1."""

    name = "IPrec11"
    summary = "mean of the interpolated precision at recall 0, 0.1, ... 1 (11-point average)"
    formula = "1/11 sum over r = 0, 0.1, ... 1 of IPrec@r"
    reference = "Salton & McGill (1983); trec_eval: 11pt_avg"
    options = (ROUNDING, REL, WEIGHT)
    spellings = ("eleven_point_average",)

    def levels(self) -> tuple[float, ...]:
        return _ELEVEN


def relevant_at(recall: float, relevant: np.ndarray, rounding: str) -> np.ndarray:
    """Relevant rows that reach a recall level.

    Parameters
    ----------
    recall : float
        In [0, 1].
    relevant : ndarray of int64, shape (groups,)
        R of each group.
    rounding : str
        ``"nearest"`` or ``"up"``, see `ROUNDING`.

    Returns
    -------
    ndarray of int64, shape (groups,)
    """
    exact = recall * relevant
    if rounding == "up":
        return np.floor(exact + 0.9).astype(np.int64)
    # Not floor(x + 0.5): that sum may itself round up to the next whole number.
    whole = np.floor(exact)
    return whole.astype(np.int64) + (exact - whole >= 0.5)


IPrec = InterpolatedPrecision()
IPrec11 = ElevenPointPrecision()


@kernel
def _best_precisions(  # type: ignore[no-untyped-def]
    offsets, above, grade, rel, retrieved, needed, out
):
    """From the last relevant row to the first: the best precision with as many hits or more."""
    for g in range(offsets.shape[0] - 1):
        for k in range(needed.shape[0]):
            out[k, g] = 0.0
        hits = 0
        for e in range(offsets[g], offsets[g + 1]):
            if above[e] < retrieved[g] and grade[e] >= rel:
                hits += 1
        best = 0.0
        e = offsets[g + 1] - 1
        while hits > 0:
            if above[e] < retrieved[g] and grade[e] >= rel:
                best = max(best, hits / (above[e] + 1))
                for k in range(needed.shape[0]):
                    if max(needed[k, g], 1) == hits:
                        out[k, g] = best
                hits -= 1
            e -= 1
