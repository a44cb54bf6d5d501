"""What a threshold is chosen by: a number for each confusion matrix, the higher the better."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fastrank_eval.arguments import check_choice
from fastrank_eval.confusion_matrix import Confusion, f_score, ratio
from fastrank_eval.errors import ArgumentError
from fastrank_eval.measures.base import number

#: Criteria, each with the options it takes.
OPTIONS: dict[str, tuple[str, ...]] = {
    "f1": (),
    "fbeta": ("beta",),
    "youden": (),
    "product": (),
    "closest": (),
    "accuracy": ("pos",),
    "precision": ("target",),
    "recall": ("target",),
    "cost": ("costs", "pos"),
}
#: Options without which a criterion means nothing.
_NEEDED = ("beta", "target", "costs")
_CELLS = ("tp", "fp", "fn", "tn")
_READ = {
    "beta": number(above=0),
    "target": number(above=0, most=1),
    "pos": number(above=0, below=1),
}
#: What leaves a criterion without a value.
_NEEDS_POSITIVES = ("f1", "fbeta", "precision", "recall")


@dataclass(frozen=True)
class Criterion:
    """What the best threshold is best by.

    Parameters
    ----------
    by : str
        * ``"f1"``, ``"fbeta"``: F-beta is highest (`beta`; 1 for f1);
        * ``"youden"``: TPR + 1 - FPR is highest (Youden's J plus 1);
        * ``"product"``: TPR (1 - FPR) is highest;
        * ``"closest"``: the distance of (FPR, TPR) from (0, 1) is lowest;
        * ``"accuracy"``: pos TPR + (1 - pos) (1 - FPR) is highest, `pos` the share of positives
          where the threshold will be used, by default that of the rows: where an iso-accuracy line
          touches the ROC curve;
        * ``"precision"``: TPR is highest where precision is at least `target`;
        * ``"recall"``: precision is highest where TPR is at least `target`;
        * ``"cost"``: the mean cost of a row is lowest (`costs`, `pos` as for accuracy).
    beta : float, optional
        Above 0: the weight of recall.
    target : float, optional
        In ]0, 1].
    pos : float, optional
        In ]0, 1[.
    costs : mapping of str to float, optional
        What a row costs by its cell, ``{"fp": 1, "fn": 5}``; of "tp", "fp", "fn", "tn", those left
        out cost 0. A gain is a cost below 0.

    Raises
    ------
    ArgumentError
        If an option is missing, out of range, or one that the criterion does not take.

    Notes
    -----
    Youden (1950), doi:10.1002/1097-0142(1950)3:1<32::AID-CNCR2820030106>3.0.CO;2-3; Provost &
    Fawcett (2001), doi:10.1023/A:1007601015854, for iso-accuracy lines and costs; Liu (2012),
    doi:10.1002/sim.4509, for the product.
    """

    by: str = "f1"
    beta: float | None = None
    target: float | None = None
    pos: float | None = None
    costs: Mapping[str, float] | None = field(default=None, hash=False)

    def __post_init__(self) -> None:
        check_choice("by", self.by, tuple(OPTIONS))
        for name in ("beta", "target", "pos", "costs"):
            value, taken = getattr(self, name), name in OPTIONS[self.by]
            if value is None:
                if taken and name in _NEEDED:
                    example = {"beta": "beta=2", "target": "target=0.9"}.get(
                        name, "costs={'fp': 1, 'fn': 5}"
                    )
                    raise ArgumentError(f"by={self.by!r} needs {name}: {example}.")
            elif not taken:
                takers = [by for by, names in OPTIONS.items() if name in names]
                raise ArgumentError(
                    f"by={self.by!r} takes no {name}; {', '.join(map(repr, takers))} "
                    f"{'do' if len(takers) > 1 else 'does'}. Leave it out."
                )
            elif name == "costs":
                object.__setattr__(self, name, _read_costs(value))
            else:
                try:
                    object.__setattr__(self, name, float(_READ[name](value)))
                except ValueError as wrong:
                    raise ArgumentError(f"{name}={value!r} is not {wrong}.") from None

    def __str__(self) -> str:
        given: list[str] = []
        for name in OPTIONS[self.by]:
            value = getattr(self, name)
            if name == "costs":
                given += [f"{cell}={cost:g}" for cell, cost in value.items()]
            elif value is not None:
                given.append(f"{name}={value:g}")
        return f"{self.by}({', '.join(given)})" if given else self.by

    @property
    def lowest(self) -> bool:
        """Whether the best value is the lowest."""
        return self.by in ("closest", "cost")

    @property
    def falls_with_fp(self) -> bool:
        """Whether predicting one more negative positive never makes it better."""
        return self.costs is None or self.costs.get("fp", 0.0) >= self.costs.get("tn", 0.0)

    def undefined(self, positive: float, negative: float) -> str | None:
        """Why rows of these classes have no best threshold, or None.

        Parameters
        ----------
        positive, negative : float
            Rows of each class, or their weight.
        """
        if not (positive > 0 or negative > 0):
            return "zero_weight"
        if self.by in _NEEDS_POSITIVES:
            return None if positive > 0 else "all_negative"
        if self.by in ("accuracy", "cost") and self.pos is None:
            return None
        return None if positive > 0 and negative > 0 else "single_class"

    def values(self, confusion: Confusion) -> np.ndarray:
        """The criterion of each matrix of the same rows; NaN where it has none.

        Parameters
        ----------
        confusion : Confusion
            float64, shape (thresholds,).
        """
        c = confusion
        classes = c.positive * c.negative
        if self.by in ("f1", "fbeta"):
            return f_score(c, 1.0 if self.beta is None else self.beta)
        # Products first, quotients last: equal values stay equal, whole numbers being exact.
        if self.by == "youden":
            return ratio(c.tp * c.negative + c.tn * c.positive, classes)
        if self.by == "product":
            return ratio(c.tp * c.tn, classes)
        if self.by == "closest":
            return ratio(
                np.sqrt(np.square(c.fp * c.positive) + np.square(c.fn * c.negative)), classes
            )
        if self.by == "accuracy":
            if self.pos is None:
                return ratio(c.tp + c.tn, c.all)
            right = self.pos * (c.tp * c.negative) + (1 - self.pos) * (c.tn * c.positive)
            return ratio(right, classes)
        if self.by == "cost":
            costs = self.costs or {}
            tp, fp, fn, tn = (costs.get(cell, 0.0) for cell in _CELLS)
            of_positives, of_negatives = tp * c.tp + fn * c.fn, fp * c.fp + tn * c.tn
            if self.pos is None:
                return ratio(of_positives + of_negatives, c.all)
            spent = self.pos * (of_positives * c.negative)
            return ratio(spent + (1 - self.pos) * (of_negatives * c.positive), classes)
        precision, recall = ratio(c.tp, c.predicted), ratio(c.tp, c.positive)
        if self.by == "precision":
            return np.where(precision >= self.target, recall, np.nan)
        return np.where(recall >= self.target, precision, np.nan)


def _read_costs(given: Any) -> dict[str, float]:
    if not isinstance(given, Mapping) or not given:
        raise ArgumentError(
            f"costs={given!r} is not a mapping of cells to numbers, such as {{'fp': 1, 'fn': 5}}."
        )
    read = {}
    for cell, cost in given.items():
        if cell not in _CELLS:
            raise ArgumentError(f"costs: {cell!r} is not one of {', '.join(map(repr, _CELLS))}.")
        try:
            read[cell] = float(number(least=-1e100, most=1e100)(cost))
        except ValueError as wrong:
            raise ArgumentError(f"costs: {cell}={cost!r} is not {wrong}.") from None
    return read
