"""What measures of ir_measures are here: which measure, of which rows, by which grades."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fastrank_eval.errors import MeasureError
from fastrank_eval.measures import (
    AP,
    BPM,
    ERR,
    NERR8,
    NERR9,
    NERR10,
    RBP,
    RR,
    SDCG,
    F,
    IPrec,
    Judged,
    Measure,
    NumRel,
    NumRelRet,
    NumRet,
    P,
    R,
    RelP,
    Rprec,
    SetAP,
    Success,
    bpref,
    infAP,
    nDCG,
)

__all__ = ["Wanted", "wanted"]


@dataclass(frozen=True)
class Wanted:
    """A measure of ours, and what it is to be computed on.

    Parameters
    ----------
    measure : Measure
    judged_only : bool
        Leave out documents that nobody judged; later ones move up.
    regrade : tuple or None
        The scale that grades are put on first: ``("gains", grade, gain, ...)`` replaces grades,
        ``("share", least, most)`` maps [least, most] to [0, 1].
    """

    measure: Measure
    judged_only: bool = False
    regrade: tuple[Any, ...] | None = None

    @property
    def rows(self) -> tuple[Any, ...]:
        """Measures with an equal one can be evaluated together."""
        return self.judged_only, self.regrade

    def new_grades(self, grades: np.ndarray) -> np.ndarray:
        """Distinct grades on the other scale."""
        values = grades.astype(np.float64)
        if self.regrade is None:
            return values
        kind, *numbers = self.regrade
        if kind == "share":
            least, most = numbers
            return (np.clip(np.maximum(values, 0), least, most) - least) / (most - least)
        for grade, gain in zip(numbers[::2], numbers[1::2], strict=True):
            values[grades == grade] = gain
        return values


def wanted(measure: Any) -> Wanted | None:
    """What a measure of ir_measures is here.

    Parameters
    ----------
    measure : ir_measures.Measure
        Its parameters being valid.

    Returns
    -------
    Wanted or None
        None if there is no measure here of the same value.
    """
    options = {
        name: measure.params.get(name, param.default)
        for name, param in measure.SUPPORTED_PARAMS.items()
    }
    # A parameter that is not given is a bare object of ir_measures' own.
    options = {name: value for name, value in options.items() if type(value) is not object}
    cutoff = options.pop("cutoff", None)
    judged_only = bool(options.pop("judged_only", False))
    made = _MEASURES.get(measure.NAME)
    if made is None:
        return None
    try:
        found = made(options)
        if found is None:
            return None
        ours = found.measure if cutoff is None else found.measure @ cutoff
        ours.check_complete()
    except MeasureError:
        return None
    return Wanted(ours, judged_only, found.regrade)


def _same(ours: Measure) -> Callable[[dict[str, Any]], Wanted | None]:
    return lambda options: Wanted(ours(**options))


def _user_model(ours: Measure) -> Callable[[dict[str, Any]], Wanted | None]:
    def made(options: dict[str, Any]) -> Wanted | None:
        least, most = options.pop("min_rel"), options.pop("max_rel", None)
        options.pop("dcg", None)
        if most is None or not least < most:
            return None
        return Wanted(ours(gain="label", **options), regrade=("share", least, most))

    return made


def _ndcg(options: dict[str, Any]) -> Wanted | None:
    gains: Mapping[Any, Any] | None = options.pop("gains", None)
    if options.pop("dcg") == "exp-log2":
        return None if gains is not None else Wanted(nDCG)
    if gains is None:
        return Wanted(nDCG(gain="linear"))
    numbers = [number for pair in sorted(gains.items()) for number in pair]
    if not all(isinstance(number, int | np.integer) for number in numbers):
        return None
    return Wanted(nDCG(gain="linear"), regrade=("gains", *numbers))


def _set_precision(options: dict[str, Any]) -> Wanted | None:
    return Wanted((RelP if options.pop("relative") else P)(**options))


def _set_f(options: dict[str, Any]) -> Wanted | None:
    # ir_measures hands its beta to trec_eval, which takes it for the square of beta.
    return Wanted(F(alpha=1 / (1 + options["beta"]), rel=options["rel"]))


def _retrieved(options: dict[str, Any]) -> Wanted | None:
    return Wanted(NumRelRet(**options) if options else NumRet)


def _rbp(options: dict[str, Any]) -> Wanted | None:
    return Wanted(RBP(**options)) if "rel" in options else None


_MEASURES: Mapping[str, Callable[[dict[str, Any]], Wanted | None]] = {
    "AP": _same(AP),
    "BPM": _user_model(BPM),
    "Bpref": _same(bpref),
    "ERR": _same(ERR),
    "IPrec": _same(IPrec(rounding="up")),
    "Judged": _same(Judged),
    "NERR10": _user_model(NERR10),
    "NERR8": _user_model(NERR8),
    "NERR9": _user_model(NERR9),
    "NumRel": _same(NumRel),
    "NumRet": _retrieved,
    "P": _same(P),
    "R": _same(R),
    "RBP": _rbp,
    "RR": _same(RR),
    "Rprec": _same(Rprec),
    "SDCG": _user_model(SDCG),
    "SetAP": _same(SetAP),
    "SetF": _set_f,
    "SetP": _set_precision,
    "SetR": _same(R),
    "Success": _same(Success),
    "infAP": _same(infAP),
    "nDCG": _ndcg,
}
