"""Plan a run, and apply its policies to the values of groups."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from fastrank_eval._lib.arguments import checked, column_name, one_of
from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.errors import ArgumentError, ColumnError, MeasureError, near
from fastrank_eval.engine.program import Program, policy_of
from fastrank_eval.groups.chunk import Chunk
from fastrank_eval.io.columns import CodedColumn, Roles
from fastrank_eval.measures.base import Measure, find_name, of_package, registry
from fastrank_eval.measures.names import refuse_plain_f1
from fastrank_eval.measures.pooled import PooledMeasure
from fastrank_eval.stats.tally import Units

if TYPE_CHECKING:
    from fastrank_eval.slicing.slicer import SliceEncoder, Slicings


#: Rows of a batch, and the fewest rows of a batch where threads outnumber full batches.
BATCH_ROWS = 1 << 20
_FEWEST_BATCH_ROWS = 1 << 18
#: Rows of a slice in memory if only its labelled rows are copied.
SLICE_ROWS = 1 << 21
#: Batches and slices are this many times longer if few rows are labelled.
LONGEST = 8


def batch_rows_of(rows: int | None, threads: int, most: int = BATCH_ROWS) -> int:
    """Choose the rows of a batch so that all threads get equal work."""
    if rows is None:
        return most
    rounds = -(-rows // (threads * most))
    return max(-(-rows // (threads * max(rounds, 1))), _FEWEST_BATCH_ROWS)


def stream_rows_of(
    rows: int | None, threads: int, copies_few: bool, labelled: float = 1.0
) -> tuple[int, int]:
    """Choose the rows of a batch of files, and of a slice in memory.

    Groups are contiguous. Threads wait for each other in Python, and caches are cold after it: of
    10^8 rows in memory, 16 threads take 114 ms for GAUC in slices of 2^21 rows, and 60 in slices of
    2^23; one thread takes 7 to 9 % less time, too, and in one slice of 10^7 rows holds the lock for
    a third less time than in two. A larger share of labelled rows makes them
    shorter, because these are copied. Few rows in memory occupy few threads: two threads take
    5.2 ms for GAUC of 10^6 rows, one thread 3.0 (seven measures: 12 and 5). From 2 * 10^6 unsorted
    rows on, two are faster.
    """
    longer = 1
    if copies_few and rows is not None:
        longer = LONGEST if labelled * LONGEST <= 1 else max(int(1 / labelled), 1)
    # Decoded rows need memory: two threads take 120 MB more in batches of 2^22 rows than of 2^20.
    of_files = batch_rows_of(rows, threads, BATCH_ROWS * min(longer, max(threads // 4, 2), 4))
    if rows is not None:
        threads = min(threads, max(-(-rows // BATCH_ROWS), 1))
    return of_files, batch_rows_of(rows, threads, SLICE_ROWS * longer if copies_few else BATCH_ROWS)


@dataclass(frozen=True)
class Plan:
    """What to compute, and by which conventions.

    Parameters
    ----------
    roles : Roles
    measures : tuple of Measure
    ties, groups : str
        As `evaluate` takes them.
    policies : mapping of str to str
        For undefined values of each measure, as `undefined_policies` returns them.
    presorted : bool
        Refuse scores that rise inside a group.
    per_group : bool
        Keep the values of every group.
    threads : int
    confidence : float
        Of intervals, in ]0, 1[.
    baseline : int or None
        The model that every other is compared with; None: nothing is compared.
    slicings : Slicings or None
        How rows are divided into slices. Each slice has values of its own.
    min_groups : int
        Slices with fewer groups are left out.
    buckets : bool
        Keep sums by a hash of the clusters' keys.
    errors : bool
        Whether an error that takes time is computed.
    choices : mapping of str to str
        Conventions by name, from the caller, a profile or the defaults.
    requested : mapping of str to str
        By requested name the text of the computed measure, where a profile set other options.
    """

    roles: Roles
    measures: tuple[Measure, ...]
    ties: str = "expected"
    policies: Mapping[str, str] = field(default_factory=lambda: {"*": "skip"})
    groups: str = "all"
    presorted: bool = False
    per_group: bool = True
    threads: int = 1
    confidence: float = 0.95
    baseline: int | None = None
    slicings: Slicings | None = None
    min_groups: int = 1
    buckets: bool = False
    errors: bool = True
    choices: Mapping[str, str] = field(default_factory=dict)
    requested: Mapping[str, str] = field(default_factory=dict)

    @property
    def grouped(self) -> bool:
        """Whether rows have groups. Otherwise a chunk is one batch."""
        return bool(self.roles.group)

    @property
    def weighted(self) -> bool:
        """Whether row weights are used."""
        return self.roles.weight is not None

    @cached_property
    def skip_empty(self) -> bool:
        """Whether groups with only labels of 0 need no ranks."""
        return self._skips_empty(self.measures)

    @cached_property
    def skip_empty_in_slices(self) -> bool:
        """Whether parts of groups in slices need no ranks then."""
        return self._skips_empty([m for m in self.measures if m.in_slices])

    def _skips_empty(self, measures: Sequence[Measure]) -> bool:
        if self.weighted or self.roles.judgments or self.roles.subtopics:
            return False
        for m in measures:
            if m.pooled:
                continue
            if not m.empty_is_known() or (m.weight != "uniform" and not m.undefined_if_empty()):
                return False
            if m.undefined_if_empty() and policy_of(self.policies, m, "no_relevant") != "skip":
                return False
        return True

    @cached_property
    def ranks(self) -> bool:
        """Whether a measure, row weights or unretrieved rows need ranks."""
        of_groups = [m for m in self.measures if not m.pooled]
        if self.weighted or self.roles.unretrieved == "allow":
            return bool(of_groups)
        return any(m.needs_ranks for m in of_groups)

    @cached_property
    def counts_unretrieved(self) -> bool:
        """Whether rows without a score are the last ones of a measure."""
        every_row = any(m.ranks_every_row or m.pooled for m in self.measures)
        return self.roles.unretrieved == "allow" and every_row

    @property
    def takes_ranks(self) -> bool:
        """Whether ranks of labelled rows by item are all that measures need."""
        roles = self.roles
        reads_rows = roles.weight or roles.group_weights or roles.fields or roles.subtopics
        if self.ties != "item" or reads_rows or roles.drops_rows:
            return False
        return all(
            m.scores == "order" and not (m.pooled or m.ranks_every_row) and of_package(type(m))
            for m in self.measures
        )

    @property
    def copies_few(self) -> bool:
        """Whether of a batch only labelled rows and codes of slices are copied."""
        sums_rows = any(measure.uses_groups for measure in self.pooled_states.values())
        return self.grouped and self.skip_empty and not sums_rows

    @property
    def candidates(self) -> list[int]:
        """The models that are compared with the baseline."""
        models = range(len(self.roles.scores))
        return [] if self.baseline is None else [m for m in models if m != self.baseline]

    def field_codes(self, named: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
        """Map each field of a measure to its codes in `Columns.named_columns`."""
        fields = self.measured_fields
        coded = named[len(self.roles.group_weights) :]
        return {field.name: codes for field, codes in zip(fields, coded, strict=False)}

    @property
    def measured_fields(self) -> tuple[CodedColumn, ...]:
        """The columns by whose values measures divide rows."""
        slices = 0 if self.slicings is None else len(self.slicings.columns)
        return self.roles.fields[: len(self.roles.fields) - slices]

    @property
    def slice_encoders(self) -> tuple[SliceEncoder, ...]:
        """The slicings: each maps rows to slice indices."""
        return () if self.slicings is None else self.slicings.encoders

    @property
    def keeps_order(self) -> bool:
        """Whether the input order of rows decides ties of scores or item ids."""
        return self.ties in ("input", "item")

    @cached_property
    def program(self) -> Program:
        """The measures of groups."""
        return Program(self.measures, self.policies, self.groups == "with_relevant")

    @cached_property
    def units(self) -> Units:
        """What is added of each chunk."""
        lines = range(len(self.program.measures))
        units = [
            self.program.unit(line, empty_reason(self, self.program.measures[line]))
            for line in lines
        ]
        return Units(units, len(self.roles.scores), self.baseline, self.roles.nested)

    @cached_property
    def pooled_states(self) -> dict[Hashable, PooledMeasure]:
        """One measure for each state of all rows, by the key of the state."""
        by_key: dict[Hashable, PooledMeasure] = {}
        for measure in self.measures:
            if isinstance(measure, PooledMeasure):
                for owner in measure.required_states():
                    by_key.setdefault(owner.state_key(), owner)
        return by_key


def empty_reason(plan: Plan, measure: Measure) -> str | None:
    """Return why unranked groups are left out; None: their value is 0."""
    return "no_relevant" if plan.groups == "with_relevant" else measure.undefined_if_empty()


def constant_columns(chunk: Chunk, plan: Plan, name: Callable[[int], str]) -> dict[str, np.ndarray]:
    """Read one group weight a group; refuse columns that vary in a group."""
    weights = {}
    firsts = chunk.starts[:-1]
    for title, column in zip(plan.roles.group_weights, chunk.columns.named_columns, strict=False):
        varies = column[1:] != column[:-1]
        varies[firsts[1:] - 1] = False
        if varies.any():
            row = int(np.argmax(varies)) + 1
            group = int(np.searchsorted(chunk.starts, row, side="right")) - 1
            raise ColumnError(
                f"group weight column '{title}' is not constant inside the group "
                f"{name(group)}: {column[row - 1]:g} is followed by "
                f"{column[row]:g}; a group weight has one value a group."
            )
        weights[title] = column[firsts]
    return weights


_POLICIES = ("skip", "zero", "one", "error")
_REST = "*"


def undefined_policies(undefined: str | Mapping[str, str]) -> dict[str, str]:
    """Map measures to their policies, and ``"*"`` to that of the others.

    Parameters
    ----------
    undefined : str or mapping
        ``"skip"``, ``"skip,nDCG=one,R=one"``, or ``{"*": "skip", "nDCG": "one", "R": "one"}``.

    Raises
    ------
    ArgumentError
        The argument names no policy or no measure; the message shows which.

    Examples
    --------
    >>> undefined_policies("zero,ndcg=one")
    {'*': 'zero', 'nDCG': 'one'}
    """
    pairs: list[tuple[Any, Any]] = [(_REST, undefined)]
    if isinstance(undefined, str):
        parts = [part.partition("=") for part in undefined.split(",")]
        pairs = [(name if sign else _REST, rest if sign else name) for name, sign, rest in parts]
    elif isinstance(undefined, Mapping):
        pairs = list(undefined.items())
    policies = {_REST: "skip"}
    for measure, policy in pairs:
        of = measure.strip() if isinstance(measure, str) else measure
        value = policy.strip() if isinstance(policy, str) else policy
        value = checked("undefined", value, one_of(*_POLICIES))
        if of != _REST:
            if isinstance(of, str):
                _check_f1(of)
            match = find_name(of) if isinstance(of, str) else None
            if match is None or match[1]:
                raise ArgumentError(
                    f"undefined: must name measures without options, as in 'skip,nDCG=one', got "
                    f"{of!r}.{near(str(of), list(registry))}"
                )
            of = match[0]
        policies[of] = value
    return policies


def _check_f1(name: str) -> None:
    try:
        refuse_plain_f1(name)
    except MeasureError:
        raise ArgumentError(
            f"undefined: must name a measure, got {name!r}; write F for rankings, or FScore for "
            "decisions at a threshold."
        ) from None


def undefined_text(policies: Mapping[str, str]) -> str:
    """Write policies in the form that `undefined_policies` reads."""
    rest = policies[_REST]
    single = (f"{name}={policy}" for name, policy in policies.items() if name != _REST)
    return ",".join([rest, *single])


def subtopics_used(subtopics: str | None, measures: tuple[Measure, ...]) -> str | None:
    """Return the column of subtopics, if a measure needs it.

    Raises
    ------
    ArgumentError
        A measure needs it, and there is none.
    """
    name = None if subtopics is None else column_name("subtopics", subtopics)
    users = [str(m) for m in measures if m.needs_subtopics]
    if users and name is None:
        raise ArgumentError(
            f"subtopics: must be a column of lists of whole numbers for {', '.join(users)}, got "
            "None; name it."
        )
    return name if users else None
