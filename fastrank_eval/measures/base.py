"""Define the base class and the registry of measures.

Define the options of measures, and kernels that compute a measure of one group.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Self, TypeVar, cast

import numpy as np

from fastrank_eval._lib.arguments import Unfit, integer, number, typed
from fastrank_eval._lib.arrow import frozen
from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.elementary import log_each
from fastrank_eval._lib.errors import MeasureError, near
from fastrank_eval._lib.jit import NativeKernel, inlined
from fastrank_eval.groups.ranking import Ranking
from fastrank_eval.measures.names import entry_point, is_word, package_of, reserved_for


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


#: Group weights of every measure. Any other word is the name of a column.
GROUP_WEIGHTS = ("uniform", "impressions", "positives", "pairs")


@dataclass(frozen=True)
class Param:
    """One option of a measure.

    Parameters
    ----------
    name : str
    default : object
    doc : str
        What the option does, with its choices.
    read : callable
        Converts an argument to the canonical value, or raises ValueError with the expected form.
    """

    name: str
    default: Any
    doc: str
    read: Callable[[Any], Any]


def group_weight(value: Any) -> str:
    """Read the name of a group weight or of a column."""
    if not isinstance(value, str) or not value:
        raise Unfit(f"one of {', '.join(map(repr, GROUP_WEIGHTS))} or a column's name", "name one")
    return value


def word_or(word: str, read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Make a reader of a word, or of what another reader takes."""

    def read_either(value: Any) -> Any:
        if isinstance(value, str) and value == word:
            return word
        try:
            return read(value)
        except ValueError as wrong:
            raise ValueError(f"{word!r} or {wrong}") from None

    return read_either


WEIGHT = Param(
    "weight",
    "uniform",
    "weight of a group in the mean: 'uniform', 'impressions', 'positives', 'pairs' or the "
    "name of a column that is constant inside each group",
    group_weight,
)
#: Reads a number between 0 and 1.
PROBABILITY = number(above=0, below=1)
REL = Param("rel", 1, "the least grade that is relevant", number(above=0))


def text_of(value: Any) -> str:
    """Format the value of an option."""
    if isinstance(value, tuple):
        return "{" + ", ".join(f"{text_of(grade)}: {text_of(gain)}" for grade, gain in value) + "}"
    return repr(value)


def of_package(kind: type) -> bool:
    """Return whether a class belongs to this package."""
    return kind.__module__.startswith("fastrank_eval.")


AnyMeasure = TypeVar("AnyMeasure", bound="Measure")

#: How a measure uses scores. Scores of one kind may be used as any earlier kind.
SCORE_KINDS = ("order", "number", "finite number", "probability")

#: The least value in a geometric mean. Lower values are raised to it: a value of 0 would make the
#: mean 0.
LEAST_OF_GEOMETRIC = 1e-5

registry: dict[str, type[Measure]] = {}
#: For every alias in lower case: the name of the measure, and the preset options.
aliases: dict[str, tuple[str, Mapping[str, Any]]] = {}

#: Classes of these modules register when they are defined.
_FAMILIES = "fastrank_eval.measures."
#: What precedes the summary in a docstring: "P@k, the ".
_NAME = re.compile(r"(\w+)(?:@\w)?, (?:the )?")
_AGGREGATES = ("mean", "sum", "geometric mean")


class Measure:
    """A measure with its options and cutoff, identified by its text.

    ``measure(str(m)) == m``. A call returns a copy with other options, ``@`` a copy with a cutoff.

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
    #: By default the first line of the docstring, after the name.
    summary: ClassVar[str]
    formula: ClassVar[str]
    reference: ClassVar[str]
    options: ClassVar[tuple[Param, ...]] = ()
    aliases: ClassVar[tuple[str, ...]] = ()
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    takes_cutoff: ClassVar[bool] = True
    pooled: ClassVar[bool] = False
    #: How it uses scores: one of `SCORE_KINDS`.
    scores: ClassVar[str] = "order"
    uses_row_weights: ClassVar[bool] = False
    needs_relevant: ClassVar[bool] = False
    needs_judgments: ClassVar[bool] = False
    needs_subtopics: ClassVar[bool] = False
    #: Whether it uses the ranks of rows. Otherwise rows need not be ranked for it.
    needs_ranks: ClassVar[bool] = True
    #: Whether slices and differences have it. Otherwise its value is that of all rows alone.
    in_slices: ClassVar[bool] = True
    #: Whether rows without a score come last, tied. Otherwise they are not in the list.
    ranks_every_row: ClassVar[bool] = False
    #: Whether the kernel of one group needs the gains in descending order: of all rows of the group
    #: ("judged"), or of those with a score ("retrieved").
    best_gains: str = ""
    #: Whether every grade must be one that an option names.
    names_grades: bool = False
    higher_is_better: ClassVar[bool] = True
    #: Whether a higher, or a lower, value is better at all: not if the best one lies between.
    has_direction: ClassVar[bool] = True
    range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    #: How the values of groups are combined: "mean", "sum" or, if the measure needs a relevant row,
    #: "geometric mean".
    aggregate: ClassVar[str] = "mean"
    #: The kernel of one group; None if Python computes the values.
    group_function: GroupFunction | None = None

    @property
    def needs_groups(self) -> bool:
        """Whether it has no value without groups."""
        return not self.pooled

    @property
    def uses_groups(self) -> bool:
        """Whether its value or its error depends on groups."""
        return self.needs_groups

    @property
    def has_error(self) -> bool:
        """Whether its values have a standard error, with groups as clusters."""
        return not self.pooled

    cutoff: int | None
    option_values: dict[str, Any]
    #: Options that were passed, even with their defaults. A profile does not change them.
    explicit_options: frozenset[str]
    #: The text that was asked for, if it is another one: ``"MAP@10"``, ``"ndcg_cut_10"``.
    alias: str | None
    _text: str

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        for kind in cls.__mro__[:-1]:
            if "group_function" in kind.__dict__:
                break
            if {"shared_values", "compute"} & set(kind.__dict__):
                cls.group_function = None
                break
        if "name" in cls.__dict__:
            if "summary" not in cls.__dict__:  # python -OO strips docstrings
                line = (cls.__doc__ or cls.name).strip().partition("\n")[0]
                found = _NAME.match(line)
                known = found is not None and found[1] in (cls.name, *cls.aliases)
                cls.summary = line[found.end() if found and known else 0 :].removesuffix(".")
            if cls.__module__.startswith(_FAMILIES):
                _add(cls)

    def __init__(self, cutoff: int | None = None, /, **options: Any) -> None:
        names = [param.name for param in self.options]
        for name in options:
            if name not in names:
                raise MeasureError(
                    f"{self.name} has no option '{name}'.{near(name, names)} "
                    f"It takes: {', '.join(names) or 'none'}."
                )
        values = {}
        for param in self.options:
            value = param.default
            if param.name in options:
                try:
                    value = param.read(options[param.name])
                except (TypeError, ValueError) as wrong:
                    raise MeasureError(
                        f"{self.name}: {param.name} must be {wrong}, got {options[param.name]!r}."
                    ) from None
            values[param.name] = value
        # An option of the name of a method is read from `option_values` alone.
        self.__dict__.update({n: v for n, v in values.items() if not hasattr(type(self), n)})
        self.__dict__.update(option_values=values, explicit_options=frozenset(options), alias=None)
        self.__dict__["cutoff"] = self._read_cutoff(cutoff)
        self.check()

    def _read_cutoff(self, cutoff: Any) -> int | None:
        if cutoff is None:
            return None
        if not self.takes_cutoff:
            raise MeasureError(f"{self.name} takes no cutoff; write {self.name} without @{cutoff}.")
        try:
            return int(integer(1, most=2**53)(cutoff))
        except ValueError:
            raise MeasureError(
                f"{self.name}@{cutoff!r}: a cutoff is a whole number of at least 1."
            ) from None

    def check(self) -> None:
        """Raise MeasureError if options contradict each other."""

    def check_complete(self) -> None:
        """Raise MeasureError if a required option or cutoff is missing."""

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{self} is a value; call it to get one with other options")

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    def __call__(self, **options: Any) -> Self:
        result = type(self)(self.cutoff, **{**self._explicit_values(), **options})
        return result.with_alias(self._alias())

    def __matmul__(self, cutoff: int) -> Self:
        return type(self)(cutoff, **self._explicit_values()).with_alias(self._alias())

    def _explicit_values(self) -> dict[str, Any]:
        return {n: v for n, v in self.option_values.items() if n in self.explicit_options}

    def __str__(self) -> str:
        if "_text" not in self.__dict__:
            self.__dict__["_text"] = self._as_text()
        return self._text

    @property
    def display_name(self) -> str:
        """The text for reports, with the name that the caller used."""
        return self.alias or str(self)

    def with_alias(self, name: str) -> Self:
        """Return the same measure, which reports show by a name of `aliases`.

        Options and cutoff follow the name. It is dropped if an option contradicts it.
        """
        preset = aliases[name.lower()][1]
        if name == self.name or any(self.option_values[key] != preset[key] for key in preset):
            return self
        return self.with_display_name(self._as_text(name))

    def with_display_name(self, text: str) -> Self:
        """Return the same measure, which reports show by a text."""
        if text == self.display_name:
            return self
        result = type(self)(self.cutoff, **self._explicit_values())
        object.__setattr__(result, "alias", None if text == str(self) else text)
        return result

    def _alias(self) -> str:
        """Return the name in `alias` that takes other options, or the own one."""
        word = (self.alias or "").partition("(")[0].partition("@")[0]
        return word if word.lower() in aliases else self.name

    def _as_text(self, name: str = "") -> str:
        name = name or self.name
        preset = aliases.get(name.lower(), ("", {}))[1]
        options = ", ".join(
            f"{param.name}={text_of(self.option_values[param.name])}"
            for param in self.options
            if not _same(self.option_values[param.name], preset.get(param.name, param.default))
        )
        text = f"{name}({options})" if options else name
        return text if self.cutoff is None else f"{text}@{self.cutoff}"

    def __repr__(self) -> str:
        return str(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Measure) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (self.name, self.cutoff, self._explicit_values(), self.alias)

    # ---- called by the engine -------------------------------------------------------------------

    def undefined_if_empty(self) -> str | None:
        """Return why a group is undefined if all labels are 0, else None.

        None: the value of such a group is 0.
        """
        return "no_relevant" if self.needs_relevant else None

    def label_column(self) -> str | None:
        """Return the only label column that it can read, or None for any."""
        return None

    def empty_is_known(self) -> bool:
        """Return whether `undefined_if_empty` holds for all such groups.

        These are the groups without a nonzero label.
        """
        return True

    def ignores_negative(self) -> bool:
        """Return whether rows of negative grade gain 0 because `negative` says so."""
        return False

    @property
    def rel_or_default(self) -> float:
        """The least grade of a positive row in group weights."""
        return float(self.option_values.get("rel") or 1)

    def has_expectation(self) -> bool:
        """Return whether its mean over all orders of tied rows has a closed form."""
        return True

    def refuses(self, ties: str) -> str | None:
        """Return why a tie policy is not supported, or None."""
        if ties != "expected" or self.has_expectation():
            return None
        return (
            f"{self.display_name} has no closed form for ties='expected'; choose ties='input', "
            "'item', 'best' or 'worst'"
        )

    def to_summand(self, values: np.ndarray) -> np.ndarray:
        """Convert values of groups to terms of the sum: values or logarithms."""
        if self.aggregate == "geometric mean":
            return log_each(np.maximum(values, LEAST_OF_GEOMETRIC))
        return values

    def check_grades(self, ranking: Ranking) -> None:
        """Raise MeasureError if the measure does not support a grade."""

    def used_options(self) -> dict[str, Any]:
        """Return every option with its value, defaults included, in plain types."""
        return {
            name: {text_of(g): gain for g, gain in value} if isinstance(value, tuple) else value
            for name, value in self.option_values.items()
        }

    def last_rank(self) -> int:
        """Return the last rank that counts, 0 if all do."""
        return self.cutoff or 0

    def shared_key(self) -> Hashable:
        """Return a key; measures with equal keys share one computation."""
        return self.name, *(v for n, v in self.option_values.items() if n != "weight")

    def numbers(self) -> tuple[float, ...]:
        """Return the numbers that the kernel of one group reads."""
        return ()

    def discounts(self) -> tuple[str, float] | None:
        """Return the discount of ranks, as `discount_table` names it, or None."""
        return None

    def gain_key(self) -> Hashable:
        """Return a key of the options that gains depend on; None without gains."""
        return None

    def gains_of(self, grades: np.ndarray) -> np.ndarray:
        """Compute the gain of each grade. float64, shape (grades,)."""
        return grades

    def ideals(self, ranking: Ranking) -> np.ndarray:
        """Compute a number of each group that its kernel reads.

        float64, shape (groups,).
        """
        raise NotImplementedError  # pragma: no cover - few measures have any

    @classmethod
    def compute(cls, measures: Sequence[Any], ranking: Ranking, outs: Iterable[np.ndarray]) -> None:
        """Write the value of each measure for each group; NaN if undefined.

        The measures have equal `shared_key`.
        """
        ranks = [m.last_rank() for m in measures]
        cutoffs = np.unique(np.array(ranks, np.int64))
        values = np.asarray(measures[0].shared_values(ranking, cutoffs))
        shape = len(cutoffs), ranking.groups
        fits = values.shape == shape or (not cls.takes_cutoff and values.shape == shape[1:])
        if not fits or values.dtype.kind not in "biuf":
            raise MeasureError(
                f"{', '.join(map(str, measures))}: shared_values must return float64 of shape "
                f"{shape}, got {values.dtype} of shape {values.shape}; return a row for each "
                "cutoff, or set takes_cutoff = False."
            )
        shared = values.reshape(shape).astype(np.float64, copy=False)
        for m, out, rank in zip(measures, outs, ranks, strict=True):
            value, top = shared[np.searchsorted(cutoffs, rank)], m.range[1]
            # Rounding in a block may exceed the largest value by one unit in the last place.
            out[:] = np.where(value > top + 1e-9, value, np.minimum(value, top))

    def shared_values(self, ranking: Ranking, cutoffs: np.ndarray) -> np.ndarray:
        """Compute what measures of one shared computation share, for each group.

        Parameters
        ----------
        ranking : Ranking
        cutoffs : ndarray of int64
            Distinct, ascending; 0 means all ranks.

        Returns
        -------
        ndarray of float64, shape (cutoffs, groups)
            Shape (groups,) for measures that take no cutoff.
        """
        raise NotImplementedError(f"{type(self).__name__} must define shared_values")

    def reasons(self, ranking: Ranking) -> Iterator[tuple[str, np.ndarray]]:
        """Yield reasons for undefined groups, with masks; the first counts."""
        if self.needs_relevant:
            yield "no_relevant", ranking.relevant(self.rel) == 0


def _add(kind: type[Measure]) -> None:
    registry[kind.name] = kind
    for word in (kind.name, *kind.aliases, *kind.presets):
        aliases[word.lower()] = kind.name, kind.presets.get(word, {})


@typed
def register(kind: type[AnyMeasure]) -> AnyMeasure:
    """Add a measure of your own to those that can be named in text.

    States and tables name measures by their text, so another process that reads them registers the
    measure too, or finds it by an entry point ``fastrank_eval.measures``. `register` can decorate
    the class; ``docs/how-to/own-measures.md`` has an example.

    Parameters
    ----------
    kind : type
        A subclass of `Measure` with names of its own. Its new definition replaces the old one.

    Returns
    -------
    Measure
        The measure with default options, as `AUC` is one.

    Raises
    ------
    MeasureError
        If `kind` is no complete subclass of `Measure`, or its name is taken.
    """
    _check_class(kind)
    for word in _words(kind):
        _check_name(kind, word)
    _check_options(kind)
    measure = kind()
    old = aliases.get(kind.name.lower(), (kind.name,))[0]
    if old != kind.name:  # in another case
        del registry[old]
    for word in [word for word, (name, _) in aliases.items() if name == old]:
        del aliases[word]
    _add(kind)
    return measure


def _words(kind: type[Measure]) -> tuple[str, ...]:
    return kind.name, *kind.aliases, *kind.presets


def _check_class(kind: type[Measure]) -> None:
    """Raise MeasureError if an attribute of a class is missing or wrong."""
    if not (isinstance(kind, type) and issubclass(kind, Measure)):
        raise MeasureError(f"measure: must be a subclass of Measure, got {kind!r}.")
    texts = isinstance(kind.aliases, tuple) and all(isinstance(s, str) for s in kind.aliases)
    presets = isinstance(kind.presets, Mapping) and all(isinstance(s, str) for s in kind.presets)
    bounds = isinstance(kind.range, tuple) and all(isinstance(x, int | float) for x in kind.range)
    derived = not kind.pooled or hasattr(kind, "pooled_value")
    own = (kind.shared_values, kind.compute.__func__)  # type: ignore[attr-defined]
    computes = kind.pooled or own != (Measure.shared_values, Measure.compute.__func__)  # type: ignore[attr-defined]
    computes |= kind.group_function is not None
    function_of_group = isinstance(kind.group_function, GroupFunction | property | None)
    function = "a method (self, ranking, cutoffs), or pass a function of a query to measure_of"
    for name, right, wanted in (
        *(
            (text, isinstance(getattr(kind, text, None), str), "a text")
            for text in ("name", "summary", "formula", "reference")
        ),
        ("pooled", derived, "False, but for a subclass of SummedMeasure or SteppedMeasure"),
        ("aliases", texts, "a tuple of texts"),
        ("presets", presets, "a dict of names and their options"),
        ("options", isinstance(kind.options, tuple), "a tuple of Param"),
        ("range", bounds and len(kind.range) == 2, "(low, high) of numbers"),
        ("scores", kind.scores in SCORE_KINDS, f"one of {SCORE_KINDS}"),
        ("aggregate", kind.aggregate in _AGGREGATES, f"one of {_AGGREGATES}"),
        ("group_function", function_of_group, "a GroupFunction"),
        ("shared_values", computes, function),
    ):
        if not right:
            raise MeasureError(
                f"{kind.__name__}: {name} must be {wanted}, got {getattr(kind, name, None)!r}; "
                "set it in the class."
            )


def _check_name(kind: type[Measure], word: str) -> None:
    """Raise MeasureError if a name is no identifier, or is taken."""
    other = registry.get(aliases.get(word.lower(), ("",))[0], kind)
    own, others = ((k.__module__, k.__qualname__, k.name.lower()) for k in (kind, other))
    taken = reserved_for(word)
    if not is_word(word):
        taken = "which is no identifier of letters a to z, digits and _, or is a keyword"
    elif own != others:
        taken = f"a name of {other.__module__}.{other.__qualname__}"
    if taken is not None:
        raise MeasureError(
            f"{kind.__name__}: must have names of its own, got {word!r}, {taken}; choose another."
        )


def _check_options(kind: type[Measure]) -> None:
    """Raise MeasureError if options or presets of a class are wrong."""
    names = [getattr(param, "name", None) for param in kind.options]
    wrong: tuple[object, object] | None = None
    if not kind.pooled and WEIGHT.name not in names:
        wrong = kind.options, "add WEIGHT"
    in_python = kind.group_function is None
    reads_rel = kind.needs_relevant and in_python and kind.reasons is Measure.reasons
    if reads_rel and REL.name not in names:
        wrong = kind.options, "add REL, which needs_relevant reads"
    attributes = {*dir(kind), *Measure.__annotations__}
    for param in kind.options:
        try:
            if not _same(param.read(param.default), param.default):
                wrong = param, "give it a default that it takes"
            if param.name in attributes or not is_word(param.name):
                wrong = param, "name it by an identifier that is no attribute of measures"
            hash(param.default)
        except (AttributeError, TypeError, ValueError) as error:
            wrong = param, error
    for word, options in kind.presets.items() if wrong is None else ():
        try:
            kind(**options)
        except (TypeError, ValueError) as error:
            wrong = {word: options}, error
    if wrong is not None:
        raise MeasureError(
            f"{kind.__name__}: must have valid options and presets, got {wrong[0]!r}; {wrong[1]}."
        )


def find_name(alias: str) -> tuple[str, Mapping[str, Any]] | None:
    """Find the name and the preset options behind a alias, or None.

    Entry points of other packages are read only if no registered measure has the alias.
    """
    word = alias.lower()
    point = None if word in aliases or not is_word(word) else entry_point(word)
    if point is not None:
        try:
            loaded = point.load()
            kind = type(loaded) if isinstance(loaded, Measure) else loaded
            _check_class(kind)
            if word not in map(str.lower, _words(kind)):
                raise MeasureError(f"its name must be {point.name!r}, got {_words(kind)}.")
            register(kind)
        except Exception as error:  # the code of another package may raise any
            raise MeasureError(
                f"measure: the package {package_of(point)} cannot provide {alias!r}: "
                f"{type(error).__name__}: {error} Repair or uninstall it."
            ) from error
    return aliases.get(word)


def outside_unit(ranking: Ranking) -> float | None:
    """Return a label outside [0, 1], or None."""
    if ranking.max_grade > 1:
        return ranking.max_grade
    return ranking.min_grade if ranking.min_grade < 0 else None


def _restore(
    name: str, cutoff: int | None, options: dict[str, Any], alias: str | None = None
) -> Measure:
    if find_name(name) is None:
        raise MeasureError(f"measure: must be registered, got {name!r}; register it here too.")
    result = registry[name](cutoff, **options)
    object.__setattr__(result, "alias", alias)
    return result


def _same(left: Any, right: Any) -> bool:
    return type(left) is type(right) and bool(left == right)
