"""Nights run one after the other without a trace."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from fastrank_eval.errors import OutputError
from fastrank_eval.report.config import NightlyConfig
from fastrank_eval.report.history import History

__all__ = ["check_folder", "rehearsed"]


def check_folder(history: Path) -> None:
    """Refuse a history whose folder is not there.

    Raises
    ------
    OutputError
    """
    if not history.parent.is_dir():
        raise OutputError(
            f"cannot write {str(history)!r}: folder {str(history.parent)!r} does not exist; "
            "create it first."
        )


@contextmanager
def rehearsed(config: NightlyConfig) -> Iterator[NightlyConfig]:
    """Give a configuration whose history is a copy, gone afterwards, and that has no pages.

    Nights that are kept by it see each other as they would in the history itself.

    Parameters
    ----------
    config : NightlyConfig

    Raises
    ------
    HistoryError, OutputError
        The history cannot be read, or could not be made.
    """
    with TemporaryDirectory() as folder:
        copy = Path(folder) / "history.db"
        check_folder(config.history)
        if config.history.exists():
            with History(config.history, readonly=True) as history:
                history.copy(copy)
        yield replace(config, history=copy, folder=None)
