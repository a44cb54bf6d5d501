"""Measures as values: their options, their text, and the registry that everything else reads."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from fastrank_eval._lib.elementary import log_each
from fastrank_eval._lib.errors import MeasureError, near
from fastrank_eval.groups.ranking import Ranking

#: What a measure takes scores for; each kind may be taken for those before it.
SCORE_KINDS = ("order", "number", "finite number", "probability")

#: Group weights every measure understands; any other word names a column.
GROUP_WEIGHTS = ("uniform", "impressions", "positives", "pairs")

#: What a lower value counts as in a geometric mean, which one group of value 0 would make 0.
LEAST_OF_GEOMETRIC = 1e-5

registry: dict[str, type[Measure]] = {}
#: Every spelling in lower case: the measure it names, and the options it stands for.
spelled: dict[str, tuple[str, Mapping[str, Any]]] = {}


@dataclass(frozen=True, slots=True)
class Param:
    """One option of a measure.

    Parameters
    ----------
    name : str
    default : object
    doc : str
        What it does, with its choices.
    read : callable
        Turns what the user wrote into the canonical value, or raises ValueError with the wanted
        form.
    """

    name: str
    default: Any
    doc: str
    read: Callable[[Any], Any]


def one_of(*choices: Any) -> Callable[[Any], Any]:
    """Accept one of `choices`."""

    def read(value: Any) -> Any:
        plain = value is None or isinstance(value, str | int | float | np.number | np.bool_)
        for choice in choices if plain else ():
            if isinstance(value, bool) == isinstance(choice, bool) and value == choice:
                return choice
        raise ValueError("one of " + ", ".join(repr(choice) for choice in choices))

    return read


def number(
    above: float = -np.inf,
    least: float = -np.inf,
    most: float = np.inf,
    below: float = np.inf,
    optional: bool = False,
) -> Callable[[Any], Any]:
    """Accept a finite number in ]above, below[ and [least, most]; integral ones become int."""

    def read(value: Any) -> Any:
        if value is None and optional:
            return None
        if isinstance(value, bool | str | bytes) or value is None:
            raise ValueError("a number")
        try:
            value = float(value)
        except (TypeError, ValueError, OverflowError):
            raise ValueError("a number that a double holds") from None
        if not (np.isfinite(value) and above < value < below and least <= value <= most):
            wanted = [f"above {above:g}"] if above > -np.inf else []
            wanted += [f"at least {least:g}"] if least > -np.inf else []
            wanted += [f"at most {most:g}"] if most < np.inf else []
            wanted += [f"below {below:g}"] if below < np.inf else []
            raise ValueError("a finite number " + " and ".join(wanted))
        return int(value) if value.is_integer() and abs(value) < 2**53 else value

    return read


def whole(least: int, most: float = np.inf, optional: bool = False) -> Callable[[Any], Any]:
    """Accept an integer in [least, most]."""
    as_number = number(least=least, most=most, optional=optional)

    def read(value: Any) -> Any:
        value = as_number(value)
        if isinstance(value, float):
            raise ValueError("a whole number")
        return value

    return read


def group_weight(value: Any) -> str:
    """Accept the name of a group weight or of a column."""
    if not isinstance(value, str) or not value:
        raise ValueError(
            "one of " + ", ".join(repr(name) for name in GROUP_WEIGHTS) + " or a column's name"
        )
    return value


WEIGHT = Param(
    "weight",
    "uniform",
    "what a group counts for in the mean: 'uniform', 'impressions', 'positives', 'pairs' or the "
    "name of a column that is constant inside each group",
    group_weight,
)
REL = Param("rel", 1, "the least grade that is relevant", number(above=0))


class Measure:
    """A measure with its options and cutoff: a value whose text is its identity.

    ``measure(str(m)) == m``; calling one gives a copy with other options, ``@`` one with a cutoff.

    Parameters
    ----------
    **options
        See `options` of each class.

    Examples
    --------
    >>> from fastrank_eval import nDCG
    >>> nDCG(gain="linear") @ 10
    nDCG(gain='linear')@10
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    formula: ClassVar[str]
    reference: ClassVar[str]
    options: ClassVar[tuple[Param, ...]] = ()
    spellings: ClassVar[tuple[str, ...]] = ()
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    takes_cutoff: ClassVar[bool] = True
    pooled: ClassVar[bool] = False
    #: What it takes scores for: one of `SCORE_KINDS`.
    scores: ClassVar[str] = "order"
    uses_row_weights: ClassVar[bool] = False
    needs_relevant: ClassVar[bool] = False
    needs_judgments: ClassVar[bool] = False
    needs_subtopics: ClassVar[bool] = False
    #: Whether it asks where rows stand; otherwise rows need not be ranked for it.
    needs_ranks: ClassVar[bool] = True
    higher_is_better: ClassVar[bool] = True
    range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    #: What the values of the groups become: their "mean", their "sum" or, for a measure that needs
    #: a relevant row, their "geometric mean".
    aggregate: ClassVar[str] = "mean"

    cutoff: int | None
    chosen: dict[str, Any]
    #: Options that were given, be it as their defaults: a profile leaves them alone.
    given: frozenset[str]

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        if "name" in cls.__dict__:
            registry[cls.name] = cls
            for spelling in (cls.name, *cls.spellings):
                spelled[spelling.lower()] = cls.name, {}
            for spelling, preset in cls.presets.items():
                spelled[spelling.lower()] = cls.name, preset

    def __init__(self, cutoff: int | None = None, /, **options: Any) -> None:
        known = {param.name: param for param in self.options}
        for name in options:
            if name not in known:
                raise MeasureError(
                    f"{self.name} has no option '{name}'.{near(name, list(known))} "
                    f"It takes: {', '.join(known) or 'none'}."
                )
        chosen = {}
        for param in self.options:
            value = param.default
            if param.name in options:
                try:
                    value = param.read(options[param.name])
                except ValueError as wrong:
                    raise MeasureError(
                        f"{self.name}: option {param.name}={options[param.name]!r} is not {wrong}."
                    ) from None
            chosen[param.name] = value
        object.__setattr__(self, "chosen", chosen)
        object.__setattr__(self, "given", frozenset(options))
        object.__setattr__(self, "cutoff", self._read_cutoff(cutoff))
        self.check()

    def _read_cutoff(self, cutoff: Any) -> int | None:
        if cutoff is None:
            return None
        if not self.takes_cutoff:
            raise MeasureError(f"{self.name} takes no cutoff; write {self.name} without @{cutoff}.")
        try:
            return int(whole(1, most=2**53)(cutoff))
        except ValueError:
            raise MeasureError(
                f"{self.name}@{cutoff!r}: a cutoff is a whole number of at least 1."
            ) from None

    def check(self) -> None:
        """Refuse options that contradict each other; overridden where there are any."""

    def check_complete(self) -> None:
        """Refuse a measure that lacks something it needs; overridden where there is any."""

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{self} is a value; call it to get one with other options")

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["chosen"][name]
        except KeyError:
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}") from None

    def __call__(self, **options: Any) -> Self:
        return type(self)(self.cutoff, **{**self._given_values(), **options})

    def __matmul__(self, cutoff: int) -> Self:
        return type(self)(cutoff, **self._given_values())

    def _given_values(self) -> dict[str, Any]:
        return {name: self.chosen[name] for name in self.chosen if name in self.given}

    def __str__(self) -> str:
        if "_text" not in self.__dict__:
            object.__setattr__(self, "_text", self._as_text())
        return str(self.__dict__["_text"])

    def _as_text(self) -> str:
        options = ", ".join(
            f"{param.name}={text_of(self.chosen[param.name])}"
            for param in self.options
            if not _same(self.chosen[param.name], param.default)
        )
        text = f"{self.name}({options})" if options else self.name
        return text if self.cutoff is None else f"{text}@{self.cutoff}"

    def __repr__(self) -> str:
        return str(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Measure) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self.name, self.cutoff, self._given_values())

    # ---- what the engine asks -------------------------------------------------------------------

    def undefined_if_empty(self) -> str | None:
        """Why a group whose labels are all 0 is undefined; None: its value is 0."""
        return "no_relevant" if self.needs_relevant else None

    def empty_is_known(self) -> bool:
        """Whether `undefined_if_empty` holds for every such group, whatever its rows."""
        return True

    @property
    def rel_or_default(self) -> float:
        """The relevance threshold group weights count positives by."""
        return float(self.chosen.get("rel") or 1)

    def has_expectation(self) -> bool:
        """Whether its mean over all orders of tied rows has a closed form."""
        return True

    def refuses(self, ties: str) -> str | None:
        """Why this measure cannot be had under a tie policy, or None."""
        if ties != "expected" or self.has_expectation():
            return None
        return (
            f"{self} has no closed form for ties='expected'; choose ties='input', 'item', "
            "'best' or 'worst'"
        )

    def to_summand(self, values: np.ndarray) -> np.ndarray:
        """What is added up over groups: the values, or their logarithm."""
        if self.aggregate == "geometric mean":
            return log_each(np.maximum(values, LEAST_OF_GEOMETRIC))
        return values

    def check_grades(self, ranking: Ranking) -> None:
        """Refuse grades this measure cannot take; overridden where there are any."""

    def options_in_force(self) -> dict[str, Any]:
        """Every option with its value, defaults included, in plain types."""
        return {
            name: {text_of(g): gain for g, gain in value} if isinstance(value, tuple) else value
            for name, value in self.chosen.items()
        }

    def pass_key(self) -> Hashable:
        """Measures with equal keys are computed together, in one pass over the entries."""
        raise NotImplementedError  # pragma: no cover - abstract

    @classmethod
    def compute(cls, measures: Sequence[Any], ranking: Ranking, outs: Iterable[np.ndarray]) -> None:
        """Write each measure's value of each group, NaN where undefined."""
        raise NotImplementedError  # pragma: no cover - abstract

    def reasons(self, ranking: Ranking) -> Iterator[tuple[str, np.ndarray]]:
        """Why groups are undefined: (reason, groups as a mask); the first that holds counts."""
        if self.needs_relevant:
            yield "no_relevant", ranking.relevant(self.rel) == 0


def outside_unit(ranking: Ranking) -> float | None:
    """A label that lies outside [0, 1], where there is one."""
    if ranking.max_grade > 1:
        return ranking.max_grade
    return ranking.min_grade if ranking.min_grade < 0 else None


def distinct_cutoffs(measures: Sequence[Measure]) -> tuple[np.ndarray, list[int]]:
    """Cutoffs of measures computed together.

    Returns
    -------
    cutoffs : ndarray of int64
        Ascending, each once; 0 stands for the whole list.
    at : list of int
        Where each measure's cutoff stands.
    """
    distinct = sorted({m.cutoff or 0 for m in measures})
    return np.array(distinct, np.int64), [distinct.index(m.cutoff or 0) for m in measures]


def _restored(name: str, cutoff: int | None, given: dict[str, Any]) -> Measure:
    return registry[name](cutoff, **given)


def _same(left: Any, right: Any) -> bool:
    return type(left) is type(right) and bool(left == right)


def text_of(value: Any) -> str:
    """The value of an option as it is written."""
    if isinstance(value, tuple):
        return "{" + ", ".join(f"{text_of(grade)}: {text_of(gain)}" for grade, gain in value) + "}"
    return repr(value)
