"""Write impressions to Parquet: ``python -m data_gen``.

The command says what was written.
"""

from __future__ import annotations

from dataclasses import MISSING, fields
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

import click

from fastrank_eval._lib.errors import FastRankEvalError
from fastrank_eval.apps.demo.rows import Recipe, write_parquet


def _value(text: str) -> object:
    """Read a number, none or a word; 1e6 and 10_000_000 are numbers."""
    try:
        number = Decimal(text)
    except InvalidOperation:
        return None if text == "none" else text
    is_whole = number.is_finite() and abs(number.adjusted()) < 30 and number == int(number)
    return int(number) if is_whole else float(number)


@click.command(
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="The same seed gives the same rows for any size of row groups.",
)
@click.argument("output", type=click.Path(path_type=Path))
@click.option("--row-group-rows", type=_value, default="262144", help="Rows of a row group.")
@click.option("--overwrite", is_flag=True, help="Replace the output if it exists.")
def main(output: Path, **options: Any) -> None:
    """Write synthetic impressions of known quality to the Parquet file OUTPUT."""
    try:
        written = write_parquet(output, options.pop("rows"), **options)
    except FastRankEvalError as error:
        raise click.UsageError(str(error)) from error
    click.echo(str(written))


for _each in fields(Recipe):
    _default = {MISSING: "1e6", None: "none"}.get(_each.default, str(_each.default))
    click.option(
        f"--{_each.name.replace('_', '-')}",
        type=_value,
        metavar="VALUE",
        default=_default,
        help=f"{_each.metadata['help']}; by default {_default}.",
    )(main)

if __name__ == "__main__":
    main()
