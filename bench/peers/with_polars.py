"""polars: rank expressions in group_by, for the users with a click.

`python -m bench.peers.with_polars FILE` prints the GAUC of a Parquet file, from a fresh process.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    import pyarrow as pa

_CLICK = pl.col("click") == 1
_USER = "user_id"


def gauc(table: pa.Table, presorted: bool) -> list[float]:
    return [_gauc(_frame(table, presorted))]


def seven(table: pa.Table, presorted: bool) -> list[float]:
    frame = _frame(table, presorted)
    users = frame.select(pl.col(_USER).n_unique()).collect().item()
    found = _CLICK.arg_true() + 1 if presorted else _places("score_a")
    lists = _lists(_clicked(frame), "score_a", found)
    values = lists.select(
        gauc=_mean_auc(),
        ndcg=(pl.col("dcg") / pl.col("ideal")).mean(),
        mean_ap=pl.col("ap").mean(),
        mean_rr=pl.col("rr").sum() / users,
        mean_err=pl.col("err").sum() / users,
        precision=pl.col("hits").sum() / (10 * users),
        recall=(pl.col("hits") / pl.col("clicks")).mean(),
    )
    return list(values.collect().row(0))


def paired(table: pa.Table, presorted: bool) -> list[float]:
    """Difference of two models and its standard error, by user: GAUC, nDCG@10, AP."""
    clicked = _clicked(_frame(table, False))
    users: pl.LazyFrame | None = None
    for model in ("score_a", "score_b"):
        lists = _lists(clicked, model, _places(model))
        values = lists.select(
            _USER,
            "rows",
            (pl.col("clicks") < pl.col("rows")).alias("both"),
            _auc().alias(f"auc_{model}"),
            (pl.col("dcg") / pl.col("ideal")).alias(f"ndcg_{model}"),
            pl.col("ap").alias(f"ap_{model}"),
        )
        users = values if users is None else users.join(values.drop("rows", "both"), on=_USER)
    assert users is not None
    numbers = []
    weights = {"auc": pl.col("rows") * pl.col("both"), "ndcg": pl.lit(1.0), "ap": pl.lit(1.0)}
    for name, weight in weights.items():
        difference = pl.col(f"{name}_score_b") - pl.col(f"{name}_score_a")
        numbers += [difference.alias(name), weight.alias(f"{name}_weight")]
    frame = users.select(*numbers).collect()
    return [number for name in ("auc", "ndcg", "ap") for number in _difference(frame, name)]


def _places(score: str) -> pl.Expr:
    """Ranks of the clicks; of equal scores the first row stands first."""
    return pl.col(score).rank("ordinal", descending=True).filter(_CLICK).sort()


def _lists(clicked: pl.LazyFrame, score: str, found: pl.Expr) -> pl.LazyFrame:
    """Sum up each list; measures need only where its clicks stand, so one row a click."""
    place, i = pl.col("place"), pl.col("i")
    top = place <= 10
    return (
        clicked.group_by(_USER)
        .agg(*_counts(score), place=found)
        .explode("place")
        .with_columns(pl.col("place").cast(pl.Int64))
        .with_columns(i=pl.int_range(1, pl.len() + 1, dtype=pl.Int64).over(_USER))
        .group_by(_USER)
        .agg(
            pl.col("rows", "clicks", "ranks").first(),
            dcg=(1 / (place + 1).log(2)).filter(top).sum(),
            ideal=(1 / (i + 1).log(2)).filter(i <= 10).sum(),
            ap=(i / place).mean(),
            rr=1 / place.min(),
            err=(pl.lit(0.5).pow(i) / place).filter(top).sum(),
            hits=top.sum(),
        )
    )


def _difference(frame: pl.DataFrame, name: str) -> list[float]:
    used = frame.filter(pl.col(f"{name}_weight") > 0)
    difference, weight = used[name], used[f"{name}_weight"]
    total = float(weight.sum())
    mean = float((difference * weight).sum()) / total
    squares = float((((difference - mean) * weight) ** 2).sum())
    groups = len(used)
    return [mean, (squares * groups / (groups - 1)) ** 0.5 / total]


def auc(table: pa.Table, presorted: bool) -> list[float]:
    """Over all rows."""
    lists = pl.DataFrame(table.select(["click", "score_a"])).lazy().select(*_counts())
    return [float(lists.select(_auc()).collect().item())]


def _frame(table: pa.Table, presorted: bool) -> pl.LazyFrame:
    frame = pl.DataFrame(table).lazy()
    return frame.with_columns(pl.col(_USER).set_sorted()) if presorted else frame


def _gauc(frame: pl.LazyFrame) -> float:
    lists = _clicked(frame).group_by(_USER).agg(*_counts())
    return float(lists.select(_mean_auc()).collect().item())


def _clicked(frame: pl.LazyFrame) -> pl.LazyFrame:
    """Rows of users with a click; ranking the others is wasted."""
    return frame.join(frame.filter(_CLICK).select(_USER).unique(), on=_USER, how="semi")


def _counts(score: str = "score_a") -> list[pl.Expr]:
    return [
        pl.len().cast(pl.Int64).alias("rows"),
        _CLICK.sum().cast(pl.Int64).alias("clicks"),
        pl.col(score).rank().filter(_CLICK).sum().alias("ranks"),
    ]


def _mean_auc() -> pl.Expr:
    rows, clicks = pl.col("rows"), pl.col("clicks")
    both = clicks < rows
    return (_auc() * rows).filter(both).sum() / rows.filter(both).sum()


def _auc() -> pl.Expr:
    rows, clicks = pl.col("rows"), pl.col("clicks")
    return (pl.col("ranks") - clicks * (clicks + 1) / 2) / (clicks * (rows - clicks))


if __name__ == "__main__":
    print(_gauc(pl.scan_parquet(sys.argv[1]).select(_USER, "click", "score_a")))
