"""Other names of a file, and readers of several files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from click.testing import CliRunner
from pyarrow import parquet

import fastrank_eval as fe
from fastrank_eval.apps.cli.main import cli

LOG = pa.table({"user": [1, 1], "click": [0, 1], "score": [0.2, 0.4]})
OPTIONS: dict[str, Any] = {
    "group": "user", "label": "click", "score": "score", "measures": "GAUC",
}  # fmt: skip
NIGHT = """
[source]
path = PATHS
format = "parquet"
[columns]
group = "user"
label = "click"
[models]
scores = ["score"]
[evaluate]
measures = ["GAUC"]
"""


def _linked(file: Path, make: Callable[[Path, Path], None]) -> Path:
    link = file.with_name(f"link{file.suffix}")
    make(link, file)
    return link


#: Each makes another name of a file in the current folder.
NAMES: dict[str, Callable[[Path], object]] = {
    "the same": lambda file: file,
    "relative": lambda file: file.name,
    "two slashes": lambda file: f"{file.parent}//{file.name}",
    "round about": lambda file: f"{file.parent}/../{file.parent.name}/{file.name}",
    "symbolic link": lambda file: _linked(file, Path.symlink_to),
    "hard link": lambda file: _linked(file, Path.hardlink_to),
}

Reader = Callable[[Sequence[str]], object]


def _evaluate(paths: Sequence[str]) -> object:
    return fe.evaluate(list(paths), **OPTIONS)


def _run(*arguments: str) -> None:
    outcome = CliRunner().invoke(cli, list(arguments))
    if outcome.exit_code == 2:
        raise fe.SourceError(outcome.output)


def _merge(paths: Sequence[str]) -> None:
    _run("merge", *paths, "--allow-repeated")


def _night(paths: Sequence[str]) -> None:
    listed = str(list(paths)).replace("2026-11-19", "{date}")
    Path("nightly.toml").write_text(NIGHT.replace("PATHS", listed))
    _run("nightly", "nightly.toml", "--date", "2026-11-19")


#: Each kind of source of several files: the name of a file, and a reader of paths.
SOURCES: dict[str, tuple[str, Reader]] = {
    "Parquet": ("log.parquet", _evaluate),
    "CSV": ("log.csv", _evaluate),
    "Arrow": ("log.arrow", _evaluate),
    "TREC": ("bm25.run", lambda paths: fe.trec.read_run(list(paths))),
    "state": ("log.state", _merge),
    "night": ("2026-11-19.parquet", _night),
}


def write_source(kind: str, folder: Path) -> tuple[Path, Reader]:
    """Write a file of a kind; return it with the reader of such files."""
    name, read = SOURCES[kind]
    file = folder / name
    if file.suffix == ".parquet":
        parquet.write_table(LOG, file)
    elif file.suffix == ".csv":
        file.write_text("user,click,score\n1,0,0.2\n1,1,0.4\n")
    elif file.suffix == ".arrow":
        with pa.ipc.new_file(file, LOG.schema) as writer:
            writer.write_table(LOG)
    elif file.suffix == ".run":
        file.write_text("q Q0 d1 1 0.5 tag\n")
    else:
        fe.partial(LOG, **OPTIONS).save(file)
    return file, read
