"""Data that every peer is given: random groups with all that is awkward, and real lists."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray


@dataclass(frozen=True)
class Sample:
    """Rows of contiguous groups; scores hold in float32, so every peer reads the same ones."""

    name: str
    group: NDArray[np.int64]
    label: NDArray[np.float64]
    score: NDArray[np.float64]

    @property
    def sizes(self) -> NDArray[np.int64]:
        return np.diff(np.flatnonzero(np.diff(self.group, prepend=-1, append=-1)))

    @property
    def table(self) -> pa.Table:
        """Document ids fall in the input and are of several lengths: "9" stands before "10"."""
        items = [str(len(self.group) - row) for row in range(len(self.group))]
        return pa.table(
            {"group": self.group, "item": items, "label": self.label, "score": self.score}
        )

    def groups(self) -> list[tuple[NDArray[np.float64], NDArray[np.float64]]]:
        """Labels and scores, group by group."""
        ends = np.cumsum(self.sizes)[:-1]
        return list(zip(np.split(self.label, ends), np.split(self.score, ends), strict=True))

    def of_groups(self, chosen: NDArray[np.bool_]) -> Sample:
        rows = np.repeat(chosen, self.sizes)
        return Sample(self.name, self.group[rows], self.label[rows], self.score[rows])


def untied(sample: Sample) -> Sample:
    """The same order of rows, without ties: later rows of a tie come after."""
    order = np.lexsort((np.arange(len(sample.score)), -sample.score, sample.group))
    score = np.empty(len(order))
    score[order] = -np.arange(len(order), dtype=np.float64)
    return Sample(f"{sample.name}, untied", sample.group, sample.label, score)


def random_sample(
    name: str, seed: int, sizes: tuple[int, ...], grades: tuple[float, ...], levels: int
) -> Sample:
    """Groups of random sizes; every fifth without a relevant row, every seventh all of one grade.

    The first group has one relevant row and nothing else, the second one row that is not.
    """
    rng = np.random.default_rng(seed)
    lengths = np.concatenate([[1, 1], rng.choice(sizes, size=90)])
    group = np.repeat(np.arange(len(lengths)), lengths)
    label = rng.choice(grades, size=len(group)).astype(np.float64)
    least, most = min(g for g in grades if g >= 0), max(grades)
    label[group % 5 == 1] = least
    label[group % 7 == 0] = most
    score = rng.integers(-levels, levels, size=len(group)) / 8
    return Sample(name, group, label, score)


SHORT, MIXED, LONG = (1, 2, 3, 5), (1, 3, 8, 20), (40, 120)
SPARSE = (0, 0, 0, 0, 1)

BINARY = (
    random_sample("short lists", 1, SHORT, (0, 0, 1), 2),
    random_sample("mixed lists", 2, MIXED, (0, 0, 1), 4),
    random_sample("long lists", 3, LONG, SPARSE, 30),
    random_sample("nearly untied lists", 4, MIXED, (0, 1), 4_000),
)
GRADED = (
    random_sample("short graded lists", 5, SHORT, (0, 0, 1, 2), 2),
    random_sample("mixed graded lists", 6, MIXED, (0, 0, 1, 2, 3, 4), 4),
    random_sample("long graded lists", 7, LONG, (0, 0, 0, 0, 1, 2, 4), 30),
    random_sample("nearly untied graded lists", 8, MIXED, (0, 1, 2, 3), 4_000),
)
NEGATIVE = (random_sample("negative grades", 9, MIXED, (-2, -1, 0, 1, 3), 4),)
FLOATS = (random_sample("gains of any size", 10, MIXED, (0, 0.25, 0.5, 1.5, 2.75), 4),)
PROBABILITIES = (
    random_sample("labels in [0, 1]", 11, SHORT, (0, 0, 0.25, 0.5, 1), 2),
    random_sample("long labels in [0, 1]", 12, LONG, (0, 0, 0.125, 0.75), 9),
)


def read_sample(path: Path, score: str, name: str) -> Sample:
    """Rows of a file in the order of their groups, which keep the order of their rows."""
    table = pq.read_table(path, columns=["query", "label", score])
    group = table["query"].to_numpy().astype(np.int64)
    order = np.argsort(group, kind="stable")
    # As float32, which some of the peers read.
    scores = table[score].to_numpy().astype(np.float32).astype(np.float64)
    numbers = np.unique(group, return_inverse=True)[1]
    return Sample(
        name,
        numbers[order].astype(np.int64),
        table["label"].to_numpy().astype(np.float64)[order],
        scores[order],
    )


def real_samples(shared: Path) -> dict[str, Sample]:
    """`binary` (0/1), `graded` (0 to 4), and `tied`: the same grades, scores with many ties."""
    judged = shared / "ltr_lightgbm" / "lambdarank_scored.parquet"
    return {
        "binary": read_sample(shared / "rec_ml100k" / "ml100k_oof.parquet", "score_a", "MovieLens"),
        "graded": read_sample(judged, "score_a", "LambdaRank example"),
        "tied": read_sample(judged, "score_c", "LambdaRank example, tied scores"),
    }
