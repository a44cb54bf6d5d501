"""What comparisons may be asked for, of rows and of saved states, and how they are printed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from fastrank_eval.options import choice, option, together
from fastrank_eval.shell import rendered

if TYPE_CHECKING:
    from fastrank_eval.comparison.comparison import Comparison

__all__ = ["comparison_options", "comparison_text", "given_options"]

_TESTS = (
    "clustered_t",
    "clustered_z",
    "paired_t",
    "wilcoxon",
    "sign",
    "randomisation",
    "bootstrap",
)

comparison_options = together(
    option(
        "Comparison",
        "--test",
        type=choice(*_TESTS),
        default="clustered_t",
        show_default=True,
        help="Of the difference by its standard error, groups being clusters (t or z); of one "
        "difference for each group (paired_t, wilcoxon, sign); of the measure itself with models "
        "swapped in groups at random (randomisation) or over groups drawn anew (bootstrap). All "
        "but the first two need measures of groups: GAUC, not AUC.",
    ),
    option(
        "Comparison",
        "--correction",
        type=choice("holm", "bh", "none"),
        default="holm",
        show_default=True,
        help="Of p-values for their number, over all measures and candidates: Holm, or Benjamini "
        "and Hochberg.",
    ),
    option(
        "Comparison",
        "--replicates",
        type=int,
        default=10_000,
        show_default=True,
        metavar="N",
        help="Of randomisation and bootstrap.",
    ),
    option(
        "Comparison",
        "--seed",
        type=int,
        default=0,
        show_default=True,
        metavar="N",
        help="Of randomisation and bootstrap; the same seed gives the same numbers.",
    ),
    option(
        "Comparison",
        "--movers",
        type=click.IntRange(0),
        default=5,
        show_default=True,
        metavar="N",
        help="List the N groups that raised the first measure of groups most, and the N that "
        "lowered it most. With 0, and a test that does not need them, values of groups are not "
        "kept: without AUC, of which every row is, memory is bounded.",
    ),
)


def given_options(ctx: click.Context) -> dict[str, str]:
    """Options that were not left to their default: how each is written, by name."""
    default = click.core.ParameterSource.DEFAULT
    return {
        param.name: param.opts[-1]
        for param in ctx.command.params
        if param.name is not None and ctx.get_parameter_source(param.name) not in (None, default)
    }


def comparison_text(
    found: Comparison, form: str, movers: int, width: int | None, csv_safe: bool = False
) -> str:
    """A comparison in a form; tables are as wide as the terminal where no width is given."""
    if form == "json":
        return found.to_json(movers=movers) + "\n"
    if form == "csv":
        return found.to_csv(safe=csv_safe)
    if form == "markdown":
        return found.to_markdown(movers)
    return rendered(found.with_movers(movers), width)
