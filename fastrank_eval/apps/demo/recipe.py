"""Describe what to generate, in one frozen value that is checked once."""

from __future__ import annotations

import json
from dataclasses import asdict
from functools import cached_property
from typing import Literal, TypedDict, get_args

from fastrank_eval._lib.arguments import Reader, checked, integer, number, one_of
from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.elementary import log
from fastrank_eval._lib.errors import ArgumentError
from fastrank_eval.apps.demo.numbers import binormal_shift, graded_shift, rounded_auc

Ids = Literal["int", "string"]
IdStyle = Literal["dense", "random64"]
Labels = Literal["click", "grade"]
Order = Literal["sorted", "grouped", "shuffled"]
ScoreType = Literal["float32", "float64"]

LARGEST_GROUP = 100_000
RELEVANT_SHARE = 0.48
GRADE_SHARES = (0.665, 0.27, 0.045, 0.02)
"""Shares of grades 1 to 4 among relevant rows, close to those of web-search judgements."""


_READERS: dict[str, Reader] = {
    "rows": integer(0, 10**12),
    "seed": integer(0, 2**64 - 1),
    "ids": one_of(*get_args(Ids)),
    "id_style": one_of(None, *get_args(IdStyle)),
    "labels": one_of(*get_args(Labels)),
    "order": one_of(*get_args(Order)),
    "score_type": one_of(*get_args(ScoreType)),
    "decimals_a": integer(1, 6, optional=True),
    "decimals_b": integer(1, 6, optional=True),
    "max_size": integer(1, LARGEST_GROUP),
    "median_size": integer(1),
    "days": integer(1, 3650),
    "auc_a": number(least=0.51, most=0.99),
    "auc_b": number(least=0.51, most=0.99),
    "rho": number(least=-1.0, most=1.0),
    "click_rate": number(least=0.0001, most=0.5),
}


class Choices(TypedDict, total=False):
    """Keyword options of `impressions` and `write_parquet`.

    See `Recipe` for their meaning.
    """

    seed: int
    ids: Ids
    id_style: IdStyle | None
    labels: Labels
    order: Order
    score_type: ScoreType
    auc_a: float
    auc_b: float
    rho: float
    click_rate: float
    decimals_a: int | None
    decimals_b: int | None
    median_size: int
    max_size: int
    days: int


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

    rows: int
    seed: int = 0
    ids: Ids = "int"
    id_style: IdStyle | None = None
    labels: Labels = "click"
    order: Order = "sorted"
    score_type: ScoreType = "float32"
    auc_a: float = 0.75
    auc_b: float = 0.72
    rho: float = 0.6
    click_rate: float = 0.03
    decimals_a: int | None = None
    decimals_b: int | None = 4
    median_size: int = 20
    max_size: int = LARGEST_GROUP
    days: int = 7

    def __post_init__(self) -> None:
        for name, reader in _READERS.items():
            vars(self)[name] = checked(name, getattr(self, name), reader)
        checked("median_size", self.median_size, integer(1, self.max_size))
        if self.median_size == 1 and self.max_size > 1:
            raise ArgumentError(
                "median_size is 1 but max_size is larger; use a median_size of 2 or more, "
                "or max_size=1 for groups of one row"
            )

    @property
    def style(self) -> IdStyle:
        """The id style used."""
        return self.id_style or ("dense" if self.ids == "int" else "random64")

    @property
    def label(self) -> str:
        """Name of the label column."""
        return self.labels

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
