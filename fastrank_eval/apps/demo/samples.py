"""Write small files for commands that read no impressions.

`animals.parquet` has rows of three classes with a score for each, `qrels.txt` and `bm25.run` the
judgements and a run of TREC.
"""

from __future__ import annotations

import os
from pathlib import Path

import click
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fastrank_eval._lib.errors import FastRankEvalError, OutputError

__all__ = ["main", "write_samples"]

_KINDS = ("cat", "dog", "owl")
_ROWS, _QUERIES, _DOCUMENTS = 300, 20, 50


def write_samples(folder: str | os.PathLike[str]) -> list[Path]:
    """Write the files, in place of those that are there.

    Parameters
    ----------
    folder : path
        Made if it is not there.

    Returns
    -------
    list of Path

    Raises
    ------
    OutputError
        Something cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [path.name for path in write_samples(folder)]
    ['animals.parquet', 'qrels.txt', 'bm25.run']
    """
    random = np.random.default_rng(1)
    paths = [Path(folder, name) for name in ("animals.parquet", "qrels.txt", "bm25.run")]
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        pq.write_table(_animals(random), paths[0])
        for path, lines in zip(paths[1:], _trec(random), strict=True):
            path.write_text("".join(f"{line}\n" for line in lines), encoding="ascii")
    except OSError as error:
        raise OutputError(f"{folder} cannot be written: {error}") from error
    return paths


def _animals(random: np.random.Generator) -> pa.Table:
    """Make rows of three classes with a probability of each class.

    The probabilities are right more often than not.
    """
    kind = random.integers(0, len(_KINDS), _ROWS)
    odds = random.exponential(size=(_ROWS, len(_KINDS)))
    odds[np.arange(_ROWS), kind] *= 3
    shares = odds / odds.sum(axis=1, keepdims=True)
    columns = {f"p_{name}": shares[:, index] for index, name in enumerate(_KINDS)}
    return pa.table({"kind": [_KINDS[index] for index in kind.tolist()], **columns})


def _trec(random: np.random.Generator) -> tuple[list[str], list[str]]:
    """Make the lines of TREC judgements and of a run.

    Every other document of a query has a judgement; the run has all of them.
    """
    qrels, run = [], []
    for query in range(1, _QUERIES + 1):
        grade = random.choice([0, 0, 0, 1, 2], _DOCUMENTS)
        score = np.round(np.sort(random.normal(grade, 1.0) + 10)[::-1], 4)
        order = np.argsort(-(random.normal(grade, 1.0)))
        qrels += [f"q{query} 0 d{d} {grade[d]}" for d in range(0, _DOCUMENTS, 2)]
        run += [
            f"q{query} Q0 d{d} {rank} {score[rank - 1]} bm25" for rank, d in enumerate(order, 1)
        ]
    return qrels, run


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("folder", type=click.Path(path_type=Path))
def main(folder: Path) -> None:
    """Write animals.parquet, qrels.txt and bm25.run to FOLDER."""
    try:
        written = write_samples(folder)
    except FastRankEvalError as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"wrote {', '.join(path.name for path in written)} to {folder}")


if __name__ == "__main__":
    main()
