"""Make rows as columns, and stream them to a Parquet file.

They are pure functions of seed, row number and group number.

Describe what to generate, in one frozen value that is checked once.
"""

from __future__ import annotations

import datetime as dt
import json
import os
from collections.abc import Iterator
from dataclasses import MISSING, asdict, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from fastrank_eval._lib.arguments import Reader, checked, integer, number, one_of
from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.elementary import exp_each, log
from fastrank_eval._lib.errors import ArgumentError
from fastrank_eval._lib.files import atomic_path, check_writable
from fastrank_eval.apps.demo.numbers import (
    Floats,
    Permutation,
    Uint64s,
    binormal_shift,
    bits,
    graded_shift,
    inverse_normal,
    rounded_auc,
    stream_key,
    uniform,
)

LARGEST_GROUP = 100_000
RELEVANT_SHARE = 0.48
GRADE_SHARES = (0.665, 0.27, 0.045, 0.02)
"""Shares of grades 1 to 4 among relevant rows, close to those of web-search judgements."""


def _choice(reader: Reader, default: object, help: str) -> Any:  # noqa: A002
    """Make a field with what checks it and the help of the command."""
    return field(default=default, metadata={"reader": reader, "help": help})


@dataclass(frozen=True)
class ScoreModel:
    """Scores of one model.

    The latent score N(grade * shift, 1) is written as ``logistic(intercept + slope z)``.

    Attributes
    ----------
    shift : float
        Step of the latent mean per grade (a click counts as grade 1).
    slope, intercept : float
        Of the logistic map. For clicks the score is the exact click probability given z and the
        overall rate, so mean score and click rate agree.
    auc : float
        AUC in closed form, rounding of the score included.
    """

    shift: float
    slope: float
    intercept: float
    auc: float


@dataclass(frozen=True)
class Recipe:
    """Everything that decides the rows.

    Parameters
    ----------
    rows : int
        0 to 10**12.
    seed : int
        0 to 2**64 - 1.
    ids : {'int', 'string'}
        Type of `user_id`.
    id_style : {'dense', 'random64'} or None
        'dense': 0, 1, 2, ... or 'u_0', 'u_1', ...; 'random64': any int64, negative ones too, or
        'u_' and 16 hexadecimal digits. None: dense for int, random64 for string. The order of
        string ids is not the order of group numbers in either style.
    labels : {'click', 'grade'}
        Column `click` 0 / 1, or column `grade` 0 to 4.
    order : {'sorted', 'grouped', 'shuffled'}
        Groups contiguous and `score_a` descending inside them; groups contiguous; or all rows in
        random order. The three hold the same rows.
    score_type : {'float32', 'float64'}
        Type of `score_a` and `score_b`.
    auc_a, auc_b : float
        AUC of the two models before rounding, 0.51 to 0.99.
    rho : float
        Correlation of the two latent scores given the label, -1 to 1.
    click_rate : float
        Expected share of clicks, 0.0001 to 0.5; with ``labels='grade'`` it is not used.
    decimals_a, decimals_b : int or None
        Round the score to so many decimals, 1 to 6, which makes ties; None leaves it as it is.
    median_size, max_size : int
        Median and largest group size; 2 <= median < max <= 100,000, or equal for one size.
    days : int
        Number of distinct days, 1 to 3650.

    Raises
    ------
    ArgumentError
        An option outside its range.

    Examples
    --------
    >>> round(Recipe(1000).model_a.auc, 6)
    0.75
    """

    rows: int = _choice(integer(0, 10**12), MISSING, "Rows")
    seed: int = _choice(integer(0, 2**64 - 1), 0, "Random seed")
    ids: str = _choice(one_of("int", "string"), "int", "Type of user_id")
    id_style: str | None = _choice(one_of(None, "dense", "random64"), None, "0, 1, ... or hashes")
    labels: str = _choice(one_of("click", "grade"), "click", "0 / 1, or grades 0 to 4")
    order: str = _choice(one_of("sorted", "grouped", "shuffled"), "sorted", "Order of the rows")
    score_type: str = _choice(one_of("float32", "float64"), "float32", "Type of scores")
    auc_a: float = _choice(number(least=0.51, most=0.99), 0.75, "AUC of score_a")
    auc_b: float = _choice(number(least=0.51, most=0.99), 0.72, "AUC of score_b")
    rho: float = _choice(number(least=-1.0, most=1.0), 0.6, "Correlation of the models' errors")
    click_rate: float = _choice(number(least=0.0001, most=0.5), 0.03, "Expected share of clicks")
    decimals_a: int | None = _choice(integer(1, 6, optional=True), None, "Round score_a: ties")
    decimals_b: int | None = _choice(integer(1, 6, optional=True), 4, "Round score_b: ties")
    median_size: int = _choice(integer(1), 20, "Median size of groups")
    max_size: int = _choice(integer(1, LARGEST_GROUP), LARGEST_GROUP, "Largest size of groups")
    days: int = _choice(integer(1, 3650), 7, "Number of distinct days")

    def __post_init__(self) -> None:
        for each in fields(self):
            reader = each.metadata["reader"]
            vars(self)[each.name] = checked(each.name, getattr(self, each.name), reader)
        checked("median_size", self.median_size, integer(1, self.max_size))
        if self.median_size == 1 and self.max_size > 1:
            raise ArgumentError(
                "median_size is 1 but max_size is larger; use a median_size of 2 or more, "
                "or max_size=1 for groups of one row"
            )

    @property
    def style(self) -> str:
        """The id style used."""
        return self.id_style or ("dense" if self.ids == "int" else "random64")

    @property
    def positive_rate(self) -> float:
        """Expected share of rows with a label of 1 or above."""
        return self.click_rate if self.labels == "click" else RELEVANT_SHARE

    @cached_property
    def model_a(self) -> ScoreModel:
        """The model behind `score_a`."""
        return self._model(self.auc_a, self.decimals_a)

    @cached_property
    def model_b(self) -> ScoreModel:
        """The model behind `score_b`."""
        return self._model(self.auc_b, self.decimals_b)

    def _model(self, auc: float, decimals: int | None) -> ScoreModel:
        slope = binormal_shift(auc)
        odds = self.positive_rate / (1.0 - self.positive_rate)
        intercept = log(odds) - 0.5 * slope * slope
        shares = (1.0,) if self.labels == "click" else GRADE_SHARES
        shift = slope if self.labels == "click" else graded_shift(auc, shares)
        shifts = [grade * shift for grade in range(1, len(shares) + 1)]
        if decimals is not None:
            auc = rounded_auc(decimals, intercept, slope, shifts, shares)
        return ScoreModel(shift, slope, intercept, auc)

    def to_json(self) -> str:
        """Return the options as JSON text.

        The Arrow schema stores it under the key `data_gen`.
        """
        return json.dumps(asdict(self), sort_keys=True)


_WIDEST = 16
_MOST_ROWS = 1 << 23


def group_sizes(width: int, median: int, largest: int, key: int) -> NDArray[np.int64]:
    """Compute the sizes of 2**width groups.

    They are evenly spaced quantiles of a generalised Pareto law.

    ``size(u) = 1 + (median - 1) (x**t - 1) / (x - 1)`` with ``t = -log2(1 - u)``; x is such that
    the top quantile equals `largest`. For median 20 and largest 10**5 the tail is
    ``P(size > s) ~ s**-1.46``. The first 2**j groups hold evenly spaced quantiles for every j, so a
    short log has the same median and a tail in proportion; within that, `key` decides the order.

    Parameters
    ----------
    width : int
        1 to 16.
    median, largest : int
        1 < median < largest, or both equal: then every group has that size.
    key : int
        From `fastrank_eval.apps.demo.numbers.stream_key`.

    Returns
    -------
    int64 array of length 2**width
        Sizes, 1 and above.

    References
    ----------
    Pickands. Statistical inference using extreme order statistics. Annals of Statistics 3(1), 1975.
    doi:10.1214/aos/1176343003

    Examples
    --------
    >>> sizes = group_sizes(10, 20, 5000, key=1)
    >>> int(sizes.max()), int(sizes.min())
    (5000, 1)
    """
    count = 1 << width
    if median == largest:
        return np.full(count, median, dtype=np.int64)
    target = (largest - 1) / (median - 1)
    low, high = 0.0, target
    for _ in range(100):
        base = 0.5 * (low + high)
        total = 0.0
        for _ in range(width + 1):  # (x**(width + 1) - 1) / (x - 1), sound at x = 1
            total = total * base + 1.0
        low, high = (base, high) if total < target else (low, base)

    # Odd multiples of 1/2, 1/4, 1/8, ...: each doubling fills the gaps of the one before, in an
    # order drawn at random so that a size cannot be read off the group's number.
    chance = bits(key, np.arange(count, dtype=np.uint64))
    rank = np.zeros(count, dtype=np.int64)
    for level in range(width):
        first = 1 << level
        order = np.argsort(chance[first : 2 * first], kind="stable")
        rank[first : 2 * first] = (2 * order + 1) << (width - 1 - level)

    depth = -np.log2(1.0 - (rank + 0.5) / count)
    spread = depth if base == 1.0 else (base**depth - 1.0) / (base - 1.0)
    sizes = np.rint(1.0 + (median - 1) * spread).astype(np.int64)
    return np.clip(sizes, 1, largest)


class GroupLayout:
    """Which rows belong to which group, for any number of rows.

    Parameters
    ----------
    median, largest : int
        As for `group_sizes`.
    key : int
        From `fastrank_eval.apps.demo.numbers.stream_key`.

    Attributes
    ----------
    block_groups, block_rows : int
        Groups and rows of one block; group ``b * block_groups + g`` has the size of group g.
    sizes : int64 array of length block_groups
        Group sizes of a block.

    Examples
    --------
    >>> import numpy as np
    >>> layout = GroupLayout(3, 3, key=0)
    >>> layout.group_of(np.array([0, 2, 3, 3_000_000_000])).tolist()
    [0, 0, 1, 1000000000]
    >>> layout.groups(7)
    3
    """

    def __init__(self, median: int, largest: int, key: int) -> None:
        width = _WIDEST
        sizes = group_sizes(width, median, largest, key)
        while width > 6 and int(sizes.sum()) > _MOST_ROWS:
            width -= 1
            sizes = group_sizes(width, median, largest, key)
        self.sizes = sizes
        self._starts = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(sizes)))
        self.block_groups = int(sizes.size)
        self.block_rows = int(self._starts[-1])
        self._group = np.repeat(np.arange(sizes.size, dtype=np.uint16), sizes)

    def group_of(self, row: NDArray[np.int64]) -> NDArray[np.int64]:
        """Look up the group number of each row number, in any order.

        Returns a new int64 array.
        """
        block = np.floor_divide(row, self.block_rows, dtype=np.int64)
        group: NDArray[np.int64] = self._group[row - block * self.block_rows].astype(np.int64)
        block *= self.block_groups
        group += block
        return group

    def groups(self, rows: int) -> int:
        """Count the groups that the first `rows` rows touch.

        The last one may be touched in part.
        """
        block, rest = divmod(rows, self.block_rows)
        started = int(np.searchsorted(self._starts[:-1], rest, side="left"))
        return block * self.block_groups + started

    def next_start(self, row: int) -> int:
        """Find the row number of the first group that starts at `row` or later."""
        block, rest = divmod(row, self.block_rows)
        start = self._starts[np.searchsorted(self._starts, rest, side="left")]
        return block * self.block_rows + int(start)


BATCH_ROWS = 1 << 17
MOST_BATCH_ROWS = 1 << 24
_CHUNK_ROWS = 1 << 14

# Numbers of the random streams. A change here changes every generated row.
_SIZES, _SHUFFLE, _IDS, _GROUP, _LABEL, _SHARED, _OWN, _SHOWN = range(8)

_SLOTS = (("feed", 128, 1.0), ("top", 64, 1.5), ("side", 32, 0.75), ("footer", 32, 0.25))
_COUNTRIES = (
    ("US", 64), ("IN", 48), ("BR", 32), ("DE", 24), ("GB", 24),
    ("JP", 20), ("FR", 16), ("ID", 12), ("MX", 8), ("NL", 8),
)  # fmt: skip
_SLOT_NAMES = [name for name, _, _ in _SLOTS]
_SLOT_OF = np.repeat(np.arange(len(_SLOTS), dtype=np.int32), [share for _, share, _ in _SLOTS])
_PULL_OF = np.repeat([pull for _, _, pull in _SLOTS], [share for _, share, _ in _SLOTS])
_COUNTRY_NAMES = [name for name, _ in _COUNTRIES]
_COUNTRY_OF = np.repeat(
    np.arange(len(_COUNTRIES), dtype=np.int32), [share for _, share in _COUNTRIES]
)
_FIRST_DAY = (dt.date(2024, 1, 1) - dt.date(1970, 1, 1)).days

Columns: TypeAlias = dict[str, NDArray[Any]]


def impressions(rows: int, *, batch_rows: int = BATCH_ROWS, **choices: Any) -> pa.RecordBatchReader:
    """Stream impressions with a label and the scores of two models.

    They tell what users saw, what they clicked and how two models scored it.

    Given the label y, the latent scores are ``z ~ N(d y, 1)``, independent of user and slot, so the
    pooled AUC and the AUC inside every group have the same closed form, ``Phi(d / sqrt(2))``. The
    score is ``logistic(log(rate / (1 - rate)) + d z - d**2 / 2)``, a strictly increasing map of z.
    How often a user clicks varies (``3 u**2`` times the rate) and so does it by slot.

    Parameters
    ----------
    rows : int
        Number of rows, 0 to 10**12.
    batch_rows : int, default 131072
        Rows of a batch, 1 to 2**24, the last one shorter. It never changes a row.
    **choices
        See `Recipe`. Rounding lowers the AUC a little; ``Impressions.recipe.model_b.auc`` is exact.

    Returns
    -------
    pyarrow.RecordBatchReader
        Columns, none with nulls: `user_id` int64 or string; `click` or `grade` int8; `score_a`,
        `score_b` float32 or float64, from 0 to 1; `weight` float32, multiples of 1/64 from 0.25
        to 4; `slot` dictionary of string; `country` string, one a user; `day` date32.

    Raises
    ------
    ArgumentError
        An option outside its range.

    Examples
    --------
    >>> table = impressions(1000, seed=1).read_all()
    >>> table.num_rows
    1000
    >>> table.equals(impressions(1000, seed=1, batch_rows=7).read_all())
    True
    """
    return Impressions(Recipe(rows, **choices)).reader(batch_rows)


class Impressions:
    """The rows of a recipe.

    Parameters
    ----------
    recipe : Recipe
        What to generate.

    Attributes
    ----------
    schema : pyarrow.Schema
        Of the batches; its metadata holds the recipe as JSON under the key `data_gen`.
    groups : int
        Number of groups.

    Examples
    --------
    >>> Impressions(Recipe(0)).groups
    0
    """

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self._layout = GroupLayout(recipe.median_size, recipe.max_size, self._key(_SIZES))
        self._permutation = Permutation(recipe.rows, self._key(_SHUFFLE))
        self.groups = self._layout.groups(recipe.rows)
        self.schema = self._schema()

    def _key(self, stream: int) -> int:
        return stream_key(self.recipe.seed, stream)

    def _schema(self) -> pa.Schema:
        recipe = self.recipe
        score = pa.float32() if recipe.score_type == "float32" else pa.float64()
        fields = [
            ("user_id", pa.int64() if recipe.ids == "int" else pa.string()),
            (recipe.labels, pa.int8()),
            ("score_a", score),
            ("score_b", score),
            ("weight", pa.float32()),
            ("slot", pa.dictionary(pa.int32(), pa.string())),
            ("country", pa.string()),
            ("day", pa.date32()),
        ]
        return pa.schema(
            [pa.field(name, kind, nullable=False) for name, kind in fields],
            metadata={"data_gen": recipe.to_json()},
        )

    def reader(self, batch_rows: int = BATCH_ROWS) -> pa.RecordBatchReader:
        """Start a new stream over all rows; parameters as for `impressions`."""
        batch_rows = checked("batch_rows", batch_rows, integer(1, MOST_BATCH_ROWS))
        return pa.RecordBatchReader.from_batches(self.schema, self._batches(batch_rows))

    def _batches(self, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Cut the chunks, which are the same for every batch size, into batches."""
        rows = self.schema.empty_table()
        for columns in self._chunks():
            rows = pa.concat_tables([rows, self._table(columns)])
            while rows.num_rows >= batch_rows:
                yield from rows.slice(0, batch_rows).combine_chunks().to_batches()
                rows = rows.slice(batch_rows)
        yield from rows.combine_chunks().to_batches()

    def _table(self, columns: Columns) -> pa.Table:
        arrays = [
            self._user_ids(columns["group"]),
            pa.array(columns["label"]),
            pa.array(columns["score_a"]),
            pa.array(columns["score_b"]),
            pa.array(columns["weight"]),
            pa.DictionaryArray.from_arrays(pa.array(columns["slot"]), pa.array(_SLOT_NAMES)),
            pa.array(_COUNTRY_NAMES).take(pa.array(columns["country"])),
            pa.array(columns["day"]).view(pa.date32()),
        ]
        return pa.Table.from_arrays(arrays, schema=self.schema)

    def _chunks(self) -> Iterator[Columns]:
        rows, order = self.recipe.rows, self.recipe.order
        start = 0
        while start < rows:
            stop = min(rows, start + _CHUNK_ROWS)
            if order == "sorted":
                stop = min(rows, self._layout.next_start(stop))
            row = np.arange(start, stop, dtype=np.uint64)
            if order == "shuffled":
                row = self._permutation(row)
            chunk = self._columns(row)
            yield _sorted_by_score(chunk) if order == "sorted" else chunk
            start = stop

    def _columns(self, row: Uint64s) -> Columns:
        recipe = self.recipe
        group = self._layout.group_of(row.view(np.int64))
        member = bits(self._key(_GROUP), group.view(np.uint64))
        slot, day, weight = self._shown(row)
        label = self._labels(row, uniform(member), _PULL_OF[slot])
        # Country takes the low byte of the word whose high bits are the user's propensity.
        country = _COUNTRY_OF[(member & np.uint64(255)).view(np.int64)]

        shared = inverse_normal(uniform(bits(self._key(_SHARED), row)))
        own = inverse_normal(uniform(bits(self._key(_OWN), row)))
        own = own * np.sqrt(1.0 - recipe.rho * recipe.rho) + recipe.rho * shared
        return {
            "group": group,
            "label": label,
            "score_a": self._scores(shared, label, recipe.model_a, recipe.decimals_a),
            "score_b": self._scores(own, label, recipe.model_b, recipe.decimals_b),
            "weight": weight,
            "slot": _SLOT_OF[slot],
            "country": country,
            "day": day,
        }

    def _shown(
        self, row: Uint64s
    ) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]:
        """Cut slot byte, day and weight from one random word of a row."""
        words = bits(self._key(_SHOWN), row)
        slot = (words & np.uint64(255)).view(np.int64)
        day = ((words >> np.uint64(8)) & np.uint64(0xFFFF)).view(np.int64)
        day = (day * self.recipe.days >> 16) + _FIRST_DAY
        # weight = 1/4 + 15/4 u**2, cut to multiples of 1/64, exact in float32 and in any sum
        share = (words >> np.uint64(40)).view(np.int64)
        share = ((share * share >> 24) * 241 >> 24) + 16
        return slot, day.astype(np.int32), share.astype(np.float32) / np.float32(64)

    def _labels(self, row: Uint64s, propensity: Floats, pull: Floats) -> NDArray[np.int8]:
        """Draw labels that are positive at the rate of the recipe.

        The probability is ``rate (1 + s (3 u**2 pull - 1))``, whose mean is the rate.
        """
        rate = self.recipe.positive_rate
        highest = 3.0 * max(pull for _, _, pull in _SLOTS) - 1.0
        spread = min(1.0, (1.0 / rate - 1.0) / highest)
        chance = propensity * propensity * pull * (3.0 * spread * rate) + rate * (1.0 - spread)
        draw = uniform(bits(self._key(_LABEL), row))
        label = (draw < chance).view(np.int8)
        if self.recipe.labels == "grade":
            (relevant,) = np.nonzero(label)
            quantile = draw[relevant] / chance[relevant]
            steps = np.cumsum(GRADE_SHARES)[:-1]
            label[relevant] += np.searchsorted(steps, quantile, side="right").astype(np.int8)
        return label

    def _scores(
        self, noise: Floats, label: NDArray[np.int8], model: ScoreModel, decimals: int | None
    ) -> NDArray[Any]:
        z = (label * model.shift + noise) * model.slope + model.intercept
        score = 1.0 / (1.0 + exp_each(-z))
        if decimals is not None:
            score = np.rint(score * 10**decimals) / 10**decimals
        return score.astype(self.recipe.score_type)

    def _user_ids(self, group: NDArray[np.int64]) -> pa.Array:
        recipe = self.recipe
        if recipe.ids == "int":
            if recipe.style == "dense":
                return pa.array(group)
            return pa.array(bits(self._key(_IDS), group.view(np.uint64)).view(np.int64))
        if recipe.order == "shuffled":
            return self._names(group)
        edges = np.concatenate(([True], group[1:] != group[:-1]))
        return self._names(group[edges]).take(pa.array(np.cumsum(edges) - 1))

    def _names(self, group: NDArray[np.int64]) -> pa.Array:
        if self.recipe.style == "dense":
            return pa.array(["u_" + str(number) for number in group.tolist()], type=pa.string())
        words = bits(self._key(_IDS), group.view(np.uint64))
        return pa.array([f"u_{word:016x}" for word in words.tolist()], type=pa.string())


def _sorted_by_score(chunk: Columns) -> Columns:
    """Order a chunk of whole groups by `score_a` inside groups.

    Descending; ties by row number.
    """
    order = np.lexsort((-chunk["score_a"], chunk["group"]))
    return {
        name: values if name in ("group", "country") else values[order]
        for name, values in chunk.items()
    }


@dataclass(frozen=True)
class Written:
    """What was written.

    Attributes
    ----------
    path : Path
        The file.
    rows, groups, positives : int
        Counts; a positive has a label of 1 or above.
    auc_a, auc_b : float
        AUC of the two scores in closed form, rounding included.
    bytes : int
        Size on disk.
    """

    path: Path
    rows: int
    groups: int
    positives: int
    auc_a: float
    auc_b: float
    bytes: int

    def __str__(self) -> str:
        share = f"{100.0 * self.positives / self.rows:.2f} %" if self.rows else "none"
        return (
            f"wrote {self.path}: {self.rows:,} rows, {self.groups:,} groups, positives {share}, "
            f"AUC in closed form: score_a {self.auc_a:.6f}, score_b {self.auc_b:.6f}, "
            f"{self.bytes / 1e6:,.1f} MB"
        )


def write_parquet(
    path: str | os.PathLike[str],
    rows: int,
    *,
    overwrite: bool = False,
    row_group_rows: int = 1 << 18,
    **choices: Any,
) -> Written:
    """Write impressions to a Parquet file.

    Parameters
    ----------
    path : path
        The output; its folder must exist.
    rows : int
        Number of rows, 0 to 10**12.
    overwrite : bool, default False
        Replace an existing file.
    row_group_rows : int
        Rows of a row group, 1 to 2**24; memory is proportional to it.
    **choices
        Options of `Recipe`.

    Returns
    -------
    Written
        Path, counts and the closed-form AUC of both scores.

    Raises
    ------
    ArgumentError
        An option outside its range.
    OutputError
        The output exists, or cannot be written. Nothing is left behind.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     written = write_parquet(pathlib.Path(folder) / "log.parquet", 1000, seed=3)
    >>> written.rows
    1000
    """
    target = Path(path)
    row_group_rows = checked("row_group_rows", row_group_rows, integer(1, MOST_BATCH_ROWS))
    log = Impressions(Recipe(rows, **choices))
    recipe, positives = log.recipe, 0
    check_writable(target, overwrite)
    with (
        atomic_path(target, overwrite=overwrite) as part,
        part.open("wb") as sink,  # Arrow reads the name `s3:x` as an address
        pq.ParquetWriter(sink, log.schema, **_storage(log)) as writer,
    ):
        for batch in log.reader(row_group_rows):
            positives += int((batch.column(1).to_numpy() > 0).sum())
            writer.write_batch(batch, row_group_size=batch.num_rows)
    auc_a, auc_b, size = recipe.model_a.auc, recipe.model_b.auc, target.stat().st_size
    return Written(target, rows, log.groups, positives, auc_a, auc_b, size)


def _storage(log: Impressions) -> dict[str, object]:
    """Choose the columns that get dictionary pages and statistics.

    Those for which they are worth their time.
    """
    recipe = log.recipe
    repeating = [recipe.labels, "weight", "slot", "country", "day"]
    if recipe.order != "shuffled":
        repeating.append("user_id")
    for name, decimals in (("score_a", recipe.decimals_a), ("score_b", recipe.decimals_b)):
        repeating += [name] * (decimals is not None and decimals <= 4)
    measured = [name for name in log.schema.names if name not in ("slot", "country")]
    return {"use_dictionary": repeating, "write_statistics": measured}
