"""Write impressions to Parquet: ``python -m fastrank_eval.apps.demo``.

The command says what was written.
"""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, get_args

import click

from fastrank_eval._lib.errors import FastRankEvalError
from fastrank_eval.apps.demo.parquet import Compression, write_parquet
from fastrank_eval.apps.demo.rows import LARGEST_GROUP, Ids, IdStyle, Labels, Order, ScoreType


class _Failure(click.ClickException):
    exit_code = 2


def _count(text: str) -> int:
    """Read a whole number; 1e6 and 10_000_000 are fine."""
    try:
        number = Decimal(text.replace("_", ""))
        if number.is_finite() and abs(number) < 10**30 and number == int(number):
            return int(number)
    except InvalidOperation:
        pass
    raise click.BadParameter(f"{text!r} is not a whole number such as 1000, 1e6 or 10_000_000")


def _decimals(text: str) -> int | None:
    """Read a number of decimals, or 'none'."""
    if text == "none":
        return None
    if not text.isdecimal():
        raise click.BadParameter(f"{text!r} is neither 'none' nor a number of decimals")
    return int(text)


_COUNT = click.types.FuncParamType(_count)
_DIGITS = click.types.FuncParamType(_decimals)
_COUNT.name, _DIGITS.name = "count", "digits"


def _choice(alias: Any) -> click.Choice[str]:
    return click.Choice(get_args(alias))


@click.command(
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
    epilog="The same seed gives the same rows for any number of files and row groups.",
)
@click.argument("output", type=click.Path(path_type=Path))
@click.option("--rows", type=_COUNT, default="1e6", help="Rows; 1e6 and 10_000_000 are fine.")
@click.option("--seed", type=_COUNT, default="0", help="Random seed, 0 to 2**64 - 1.")
@click.option("--ids", type=_choice(Ids), default="int", help="Type of user_id.")
@click.option(
    "--id-style",
    type=_choice(IdStyle),
    default=None,
    help="0, 1, 2, ... or hash-like.  [default: dense for int, random64 for string]",
)
@click.option("--labels", type=_choice(Labels), default="click", help="0 / 1, or grades 0 to 4.")
@click.option("--order", type=_choice(Order), default="sorted", help="Order of the rows.")
@click.option("--score-type", type=_choice(ScoreType), default="float32", help="Type of scores.")
@click.option("--auc-a", type=float, default=0.75, help="AUC of score_a, 0.51 to 0.99.")
@click.option("--auc-b", type=float, default=0.72, help="AUC of score_b, 0.51 to 0.99.")
@click.option("--rho", type=float, default=0.6, help="Correlation of the models' errors.")
@click.option("--click-rate", type=float, default=0.03, help="Expected share of clicks.")
@click.option(
    "--decimals-a",
    type=_decimals,
    metavar="DIGITS",
    default="none",
    help="Round score_a: makes ties.",
)
@click.option("--decimals-b", type=_DIGITS, default="4", help="Round score_b: makes ties.")
@click.option("--median-size", type=_COUNT, default="20", help="Median group size.")
@click.option(
    "--max-size",
    type=_count,
    metavar="COUNT",
    default=str(LARGEST_GROUP),
    help="Largest group size.",
)
@click.option("--days", type=_COUNT, default="7", help="Number of distinct days.")
@click.option("--files", type=_COUNT, default=None, help="Write a folder of so many files.")
@click.option("--compression", type=_choice(Compression), default="snappy", help="Codec.")
@click.option("--row-group-rows", type=_COUNT, default=str(1 << 18), help="Rows a row group.")
@click.option("--overwrite", is_flag=True, help="Replace the output if it exists.")
def main(output: Path, **options: Any) -> None:
    """Write synthetic impressions of known quality to OUTPUT.

    OUTPUT is a Parquet file or folder.
    """
    try:
        written = write_parquet(output, options.pop("rows"), **options)
    except FastRankEvalError as error:
        hint = " (--overwrite)" if "be overwritten" in str(error) else ""
        raise _Failure(f"{error}{hint}") from error
    click.echo(str(written))


if __name__ == "__main__":
    main()
