"""pandas: groupby.rank over the users with a click."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa


def auc(table: pa.Table, presorted: bool) -> list[float]:
    """Over all rows."""
    frame = table.select(["click", "score_a"]).to_pandas()
    clicked = frame["click"] == 1
    rows, clicks = len(frame), int(clicked.sum())
    ranks = frame["score_a"].rank()[clicked].sum()
    return [float((ranks - clicks * (clicks + 1) / 2) / (clicks * (rows - clicks)))]


def gauc(table: pa.Table, presorted: bool) -> list[float]:
    frame = table.to_pandas()
    clicked = _clicked(frame)
    clicked["rank"] = clicked.groupby("user_id", sort=False)["score_a"].rank()
    return [_mean_auc(_lists(clicked))]


def seven(table: pa.Table, presorted: bool) -> list[float]:
    frame = table.to_pandas()
    users = frame["user_id"].nunique()
    clicked = _clicked(frame)
    grouped = clicked.groupby("user_id", sort=False)
    clicked["rank"] = grouped["score_a"].rank()
    if presorted:
        clicked["place"] = grouped.cumcount() + 1
    else:
        clicked["place"] = grouped["score_a"].rank(method="first", ascending=False)
    lists = _lists(clicked)
    hits = clicked[clicked["click"] == 1].sort_values("place")
    i = hits.groupby("user_id", sort=False).cumcount() + 1
    place = hits["place"]
    top = place <= 10
    hits = hits[["user_id"]].assign(
        dcg=top / np.log2(place + 1),
        ideal=(i <= 10) / np.log2(i + 1),
        ap=i / place,
        rr=(i == 1) / place,
        err=top * 0.5**i / place,
        hits=top,
    )
    sums = hits.groupby("user_id", sort=False).sum()
    clicks = lists["clicks"].reindex(sums.index)
    return [
        _mean_auc(lists),
        float((sums["dcg"] / sums["ideal"]).mean()),
        float((sums["ap"] / clicks).mean()),
        float(sums["rr"].sum() / users),
        float(sums["err"].sum() / users),
        float(sums["hits"].sum() / 10 / users),
        float((sums["hits"] / clicks).mean()),
    ]


def _clicked(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows of users with a click; ranking the others is wasted."""
    users = frame.loc[frame["click"] == 1, "user_id"].unique()
    return frame[frame["user_id"].isin(users)].copy()


def _lists(clicked: pd.DataFrame) -> pd.DataFrame:
    rows = clicked.groupby("user_id", sort=False).size()
    hits = clicked[clicked["click"] == 1].groupby("user_id", sort=False)["rank"]
    return pd.DataFrame({"rows": rows, "clicks": hits.size(), "ranks": hits.sum()})


def _mean_auc(lists: pd.DataFrame) -> float:
    both = lists[lists["clicks"] < lists["rows"]]
    rows, clicks = both["rows"], both["clicks"]
    auc = (both["ranks"] - clicks * (clicks + 1) / 2) / (clicks * (rows - clicks))
    return float((auc * rows).sum() / rows.sum())
