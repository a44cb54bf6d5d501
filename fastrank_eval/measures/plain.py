"""Make a measure of a plain function of one query."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from inspect import Parameter, signature
from itertools import groupby, product
from typing import Any, ClassVar

import numpy as np

from fastrank_eval._lib.arguments import typed
from fastrank_eval._lib.errors import MeasureError
from fastrank_eval.groups.ranking import Ranking
from fastrank_eval.measures.base import Measure, register
from fastrank_eval.measures.options import WEIGHT

#: The most orders of tied rows of a group that are tried.
_MOST_ORDERS = 10_000


class PlainMeasure(Measure):
    """A measure whose value of a group is a plain function of its labels."""

    reference = "none"
    options = (WEIGHT,)
    range = (-math.inf, math.inf)
    ranks_every_row = True
    function: ClassVar[Callable[..., Any]]

    def empty_is_known(self) -> bool:
        """Return False: the function may have any value without a label."""
        return False

    def reasons(self, ranking: Ranking) -> Iterator[tuple[str, np.ndarray]]:
        """Yield the groups for which the function returns NaN."""
        yield "undefined", np.isnan(self._values(ranking, self.cutoff or 0))

    def shared_values(self, ranking: Ranking, cutoffs: np.ndarray) -> np.ndarray:
        """Call the function for each group and cutoff, and each order of ties."""
        values = np.stack([self._values(ranking, cutoff) for cutoff in cutoffs.tolist()])
        return values if self.takes_cutoff else values[0]

    def _values(self, ranking: Ranking, cutoff: int) -> np.ndarray:
        """Compute the value of each group once."""
        return ranking.cached((type(self), cutoff), lambda: self._computed(ranking, cutoff))

    def _computed(self, ranking: Ranking, cutoff: int) -> np.ndarray:
        values = np.empty(ranking.groups)
        for group in range(ranking.groups):
            orders = [self._value(each, cutoff) for each in self._orders(ranking, group)]
            values[group] = math.fsum(orders) / len(orders)
        return values

    def _orders(self, ranking: Ranking, group: int) -> Iterator[list[float]]:
        """Yield the labels in rank order, for each order of tied rows."""
        first, last = ranking.offsets[group : group + 2].tolist()
        entries = zip(
            *(each[first:last].tolist() for each in (ranking.above, ranking.size, ranking.grade)),
            strict=True,
        )
        blocks = []
        number = 1
        for (above, size), members in groupby(entries, key=lambda entry: entry[:2]):
            labels = [grade for _, _, grade in members]
            counts = Counter([*labels, *[0.0] * (size - len(labels))])
            ways = math.factorial(size) // math.prod(map(math.factorial, counts.values()))
            number *= ways
            if number > _MOST_ORDERS:
                raise MeasureError(
                    f"{self.name}: must have at most {_MOST_ORDERS:,} orders of tied rows in a "
                    "group, whose mean is its value, got more; choose ties='input', 'item', "
                    "'best' or 'worst'."
                )
            blocks.append([(above, order) for order in _arrangements(counts)])
        for choice in product(*blocks):
            ranked = [0.0] * int(ranking.retrieved[group])
            for above, order in choice:
                ranked[above : above + len(order)] = order
            yield ranked

    def _value(self, labels: list[float], cutoff: int) -> float:
        """Call the function, and check what it returns."""
        arguments = [list(labels), cutoff or None] if self.takes_cutoff else [list(labels)]
        try:
            value = type(self).function(*arguments)
            number = math.nan if value is None else float(value)
            if math.isinf(number):
                raise ValueError(f"{value!r} is not finite")
        except Exception as error:
            raise MeasureError(
                f"{self.name}: its function must return a finite number or NaN, got "
                f"{type(error).__name__}: {error} for the labels {_shown(labels)}; return "
                "float('nan') where it is undefined."
            ) from error
        return number


def _shown(labels: Sequence[float]) -> str:
    return f"[{', '.join(f'{label:g}' for label in labels[:10])}{', ...' * (len(labels) > 10)}]"


def _arrangements(counts: Counter[float]) -> Iterator[list[float]]:
    """Yield the distinct orders of some labels."""
    if not counts.total():
        yield []
        return
    for label in [label for label, count in counts.items() if count]:
        counts[label] -= 1
        for others in _arrangements(counts):
            yield [label, *others]
        counts[label] += 1


@typed
def measure_of(
    function: Callable[..., Any],
    name: str | None = None,
    *,
    higher_is_better: bool = True,
) -> Measure:
    """Make a measure of a plain function of one query, and register it.

    It is slow: Python calls the function for each group, model and cutoff. A class with
    `shared_values` is the fast way; ``docs/how-to/own-measures.md`` has both. The values of groups
    are averaged.

    Parameters
    ----------
    function : callable
        ``function(labels)`` returns the value of a group: a number, or NaN or None where it is
        undefined. `labels` is a list of float: the labels of the rows, the highest score first; a
        row without a label has 0. With tied scores, ``ties="expected"`` averages over their orders.
        With a second parameter `k`, ``function(labels, k)``, the measure takes a cutoff; k is None
        without one.
    name : str, optional
        Name of the measure; by default that of the function.
    higher_is_better : bool
        Whether a higher value is better.

    Returns
    -------
    Measure
        As `register` returns it. Texts name it too: ``"Hits@3"``.

    Raises
    ------
    MeasureError
        If the name is taken or is no identifier, or the function takes other arguments. An
        evaluation raises it if the function fails, a row has no score, or a group has more than
        10,000 orders of tied rows.

    Examples
    --------
    >>> import fastrank_eval as fe
    >>> hits = fe.measure_of(lambda labels, k: sum(label > 0 for label in labels[:k]), name="Hits")
    >>> log = {"user": [1, 1, 1], "click": [1, 0, 1], "pctr": [0.9, 0.5, 0.1]}
    >>> result = fe.evaluate(log, group="user", label="click", score="pctr", measures="Hits@2")
    >>> result.value(hits @ 2)
    1.0
    """
    called = name or str(getattr(function, "__name__", type(function).__name__))
    try:
        parameters = list(signature(function).parameters.values())
    except (TypeError, ValueError):  # a builtin function without a signature
        parameters = []
    required = [p for p in parameters if p.default is Parameter.empty]
    kinds = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    takes_cutoff = len(parameters) > 1 and parameters[1].name == "k"
    if len(required) > 1 + takes_cutoff or any(p.kind not in kinds for p in required[:2]):
        raise MeasureError(
            f"{called}: function must take labels, or labels and k, got "
            f"{', '.join(p.name for p in parameters)}; wrap it in such a function."
        )
    kind = type(
        called,
        (PlainMeasure,),
        {
            "__module__": str(getattr(function, "__module__", __name__)),
            "__qualname__": called,
            "name": called,
            "summary": (function.__doc__ or "a function of the labels of a group").split("\n")[0],
            "formula": f"{called}(labels{', k' * takes_cutoff})",
            "higher_is_better": higher_is_better,
            "takes_cutoff": takes_cutoff,
            "function": staticmethod(function),
        },
    )
    return register(kind)
