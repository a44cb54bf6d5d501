"""Write example data: a click log, TREC files and a month of nights."""

from __future__ import annotations

from pathlib import Path

import click

from fastrank_eval._lib.errors import OutputError
from fastrank_eval.apps.cli.options import option
from fastrank_eval.apps.cli.shell import SectionedCommand, check_standard_output, emit

#: Rows of the click log, and of a working day of the month.
_ROWS, _NIGHT_ROWS = 100_000, 20_000


@click.command(
    cls=SectionedCommand,
    epilog="""\b
Files in DIR:
  impressions.parquet   a click log with two models, score_a and score_b
  animals.parquet       rows of three classes with their probabilities
  qrels.txt             judgements of TREC
  bm25.run, ours.run    two runs of TREC; ours.run lacks a query
  month/logs            30 nights of two models, some with faults
  month/nightly.toml    the nightly report of this month

\b
Examples:
  fastrank-eval demo demo
  fastrank-eval evaluate demo/impressions.parquet -g user_id -l click \\
      -s score_a,score_b
  fastrank-eval nightly demo/month/nightly.toml --date 2026-11-19""",
)
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@option(
    "Files",
    "--rows",
    type=int,
    default=_ROWS,
    help="Rows of impressions.parquet.",
)
@option(
    "Files",
    "--night-rows",
    type=int,
    default=_NIGHT_ROWS,
    help="Rows of a working day of the month.",
)
@option(
    "Files",
    "--late",
    is_flag=True,
    help="Write only the rows of 2026-11-24 that come late.",
)
@option(
    "Files",
    "--overwrite",
    is_flag=True,
    help="Write to a folder that has files, and replace those of the same names.",
)
def demo(folder: Path, rows: int, night_rows: int, late: bool, overwrite: bool) -> None:
    """Write example data to the folder DIR.

    The data are simulated: clicks of users, and the scores of two models of known AUC. A call with
    the same options writes the same files.
    """
    check_standard_output()
    from fastrank_eval.apps.demo.examples import (
        write_late,
        write_month,
        write_month_report,
        write_samples,
    )
    from fastrank_eval.apps.demo.rows import write_parquet
    from fastrank_eval.results.report import printable

    _check_folder(folder, overwrite=overwrite or late)
    nights = folder / "month" / "logs"
    if late:
        emit(f"{printable(f'wrote {write_late(nights, rows=night_rows)}')}\n")
        return
    samples = write_samples(folder)
    log = write_parquet(folder / "impressions.parquet", rows, seed=1, overwrite=overwrite)
    written = write_month(nights, rows=night_rows)
    write_month_report(nights.parent / "nightly.toml", rows=night_rows)
    lines = [
        f"{log}",
        f"wrote {', '.join(path.name for path in samples)} to {folder}",
        f"wrote {len(written)} nights to {nights}, and their nightly.toml",
    ]
    emit("".join(f"{printable(line)}\n" for line in lines))


def _check_folder(folder: Path, *, overwrite: bool) -> None:
    shown = str(folder)
    try:
        if folder.exists() and not folder.is_dir():
            raise OutputError(
                f"DIR: must be a folder, got the file {shown!r}; name another folder, which is "
                "made if it is not there."
            )
        if not overwrite and folder.is_dir() and any(folder.iterdir()):
            raise OutputError(
                f"DIR: must be a new or an empty folder, got {shown!r} with files; name another "
                "one, or add --overwrite."
            )
    except OSError as error:  # a name that is too long, a folder of another user
        raise OutputError(
            f"DIR: must be a folder that can be written, got {shown[:100]!r} ({error.strerror}); "
            "name another one."
        ) from error
