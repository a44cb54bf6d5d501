"""Define the options that commands share."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import click

from fastrank_eval._lib.lexer import quoted
from fastrank_eval.apps.cli.completion import (
    complete_columns,
    complete_files,
    complete_measures,
    complete_profiles,
)
from fastrank_eval.apps.cli.shell import SectionedOption, require_rows
from fastrank_eval.engine import DEFAULT_MEASURES
from fastrank_eval.engine.options import OPTIONS, options_at


def option(section: str, *names: str, **keywords: Any) -> Callable[[Any], Any]:
    """Make an option that ``--help`` lists under a heading."""
    keywords["show_default"] = keywords.get("default") is not None
    kind = keywords.get("type")
    if kind is int or isinstance(kind, click.Path):
        keywords.setdefault("metavar", "N" if kind is int else "FILE")
    return click.option(*names, cls=SectionedOption, section=section, **keywords)


def format_option(*choices: str, default: str | None = None, help: str) -> Callable[[Any], Any]:  # noqa: A002 - click's word
    """Make the option ``--format`` of a report."""
    return option(
        "Output",
        "-f",
        "--format",
        "report_format",
        type=click.Choice(choices),
        default=default,
        help=help,
    )


def overwrite_option(text: str) -> Callable[[Any], Any]:
    """Make the option ``--overwrite``."""
    return option("Output", "--overwrite", is_flag=True, help=text)


def quiet_option(text: str = "No progress bar on a terminal.") -> Callable[[Any], Any]:
    """Make the option ``--quiet``."""
    return option("Output", "-q", "--quiet", is_flag=True, help=text)


def split_commas(values: Iterable[str]) -> list[str]:
    r"""Split texts at commas; ``\,`` is a comma in a name."""
    parts = [part for text in values for part in re.split(r"(?<!\\),", text)]
    return [part.replace("\\,", ",").strip() for part in parts]


def _read_scores(
    ctx: click.Context, param: click.Parameter, values: Sequence[str]
) -> list[str] | dict[str, str]:
    r"""Read columns and ``NAME=EXPRESSION``; ``\=`` is an equals sign."""
    parts = [re.split(r"(?<!\\)=", text, maxsplit=1) for text in _split_names(ctx, param, values)]
    names = [part[0].replace("\\=", "=").strip() for part in parts]
    if all(len(part) == 1 for part in parts):
        return names
    for name in names:
        if not name:
            hint = "write 'NAME = EXPRESSION', or '\\=' in the name of a column"
            raise click.BadParameter(f"a score has no name before '='; {hint}.")
        if names.count(name) > 1:
            raise click.BadParameter(f"the score {name!r} is there twice; name it once.")
    texts = [part[1].strip() if len(part) > 1 else quoted(name)
             for name, part in zip(names, parts, strict=True)]  # fmt: skip
    return dict(zip(names, texts, strict=True))


def _split_names(ctx: click.Context, param: click.Parameter, values: Sequence[str]) -> list[str]:
    """Split comma-separated column names."""
    names = split_commas(values)
    if not all(names):
        raise click.BadParameter("a column name is empty.")
    return names


def join_lists(ctx: click.Context, param: click.Parameter, values: Sequence[str]) -> str:
    """Join the lists of a repeated option to one."""
    return ",".join(values)


def combine(*options: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Combine options into one decorator; ``--help`` keeps their order."""

    def apply(command: Any) -> Any:
        for add in reversed(options):
            command = add(command)
        return command

    return apply


sources_argument = click.argument(
    "sources", nargs=-1, required=True, metavar="SOURCES...", shell_complete=complete_files
)


def _read_group(*parameters: Any) -> list[str] | None:
    return _split_names(*parameters) or None


def _read_labels(*parameters: Any) -> str | list[str]:
    names = _split_names(*parameters)
    return names[0] if len(names) == 1 else names


_REQUIRED: dict[str, Any] = {"required": True}
_SEVERAL_LABELS: dict[str, Any] = {
    "multiple": True,
    "callback": _read_labels,
    "help": f"{OPTIONS['label'].help} Repeat the option, or separate names by commas, for several "
    "labels: rows are read once, and each label has tables of its own.",
}
#: What the command line adds to options of `evaluate`, by name.
_OWN: dict[str, dict[str, Any]] = {
    "group": {"multiple": True, "callback": _read_group},
    "cluster": {"multiple": True, "callback": _read_group},
    "score": {"multiple": True, "callback": _read_scores},
    "measures": {
        "multiple": True,
        "default": [DEFAULT_MEASURES],
        "callback": join_lists,
        "shell_complete": complete_measures,
    },
    "profile": {"shell_complete": complete_profiles},
    "by": {"multiple": True, "shell_complete": complete_columns},
}


def of(name: str, profiles: bool = True, **keywords: Any) -> Callable[[Any], Any]:
    """Make an option of `evaluate`, for a command with --profile or without."""
    one = OPTIONS[name]
    kind, text = one.type.partition(" ")[0], one.help
    given: dict[str, Any] = {**_OWN.get(name, {}), **keywords}
    if one.metavar:
        given.setdefault("metavar", one.metavar)
    if one.choices:
        given["type"] = click.Choice(one.choices)
    elif kind in ("int", "float"):
        given["type"] = {"int": int, "float": float}[kind]
    if one.metavar and one.metavar.startswith("COLUMN"):
        given["shell_complete"] = complete_columns
    if one.convention:
        text += f"; by default {'from --profile, else ' * profiles}{one.convention}."
    flags = [f"-{one.short}"] * bool(one.short)
    flags += ["--input-format", name] if name == "format" else [f"--{name.replace('_', '-')}"]
    default = None if one.default is ... else one.default
    return option(one.section, *flags, **{"default": default, "help": text, **given})


def options_of(door: str, *sections: str, **own: Mapping[str, Any]) -> Callable[[Any], Any]:
    """Make the options of a function under some headings.

    Parameters
    ----------
    door : str
        As in `Option.refused`; ``""`` for `evaluate`.
    *sections : str
    **own
        By option what this command adds.
    """
    taken = options_at(door)
    names = [name for name in taken if OPTIONS[name].section in sections]
    return combine(*(of(name, "profile" in taken, **own.get(name, {})) for name in names))


column_options = options_of("", "Columns", label=_REQUIRED, score=_REQUIRED)
labels_and_columns = options_of("", "Columns", label=_REQUIRED | _SEVERAL_LABELS, score=_REQUIRED)
#: For commands whose SOURCES may be saved states, which hold their columns.
optional_column_options = options_of("", "Columns", label=_SEVERAL_LABELS)
measure_options = options_of("", "Measures")
slice_options = options_of("", "Slices")
convention_options = options_of("", "Conventions")
reading_options = options_of("", "Reading")
csv_safe_option = option(
    "Output",
    "--csv-safe",
    is_flag=True,
    help="In CSV, put ' before text that begins with = + - @, a tab or a carriage return: a "
    "spreadsheet would read it as a formula.",
)

_TESTS = (
    "clustered_t",
    "clustered_z",
    "paired_t",
    "wilcoxon",
    "sign",
    "randomisation",
    "bootstrap",
)

comparison_options = combine(
    option(
        "Comparison",
        "--test",
        type=click.Choice(_TESTS),
        default="clustered_t",
        help="clustered_t, clustered_z: the difference over its standard error, with groups (or "
        "those of --cluster) as clusters. paired_t, wilcoxon, sign: one difference for each "
        "cluster. randomisation: models swapped at random in each cluster. bootstrap: clusters "
        "resampled. All but the first two need measures of groups: GAUC, not AUC.",
    ),
    option(
        "Comparison",
        "--correction",
        type=click.Choice(["holm", "bh", "none"]),
        default="holm",
        help="Correct p-values for the number of tests, over all measures and candidates: Holm, or "
        "Benjamini and Hochberg.",
    ),
    option(
        "Comparison",
        "--replicates",
        type=int,
        default=10_000,
        help="Replicates of randomisation and bootstrap.",
    ),
    option(
        "Comparison",
        "--seed",
        type=int,
        default=0,
        help="Seed of randomisation and bootstrap; the same seed gives the same numbers.",
    ),
    option(
        "Comparison",
        "--largest-changes",
        type=click.IntRange(0),
        metavar="N",
        help="List the N groups that raised the first measure of groups most, and the N that "
        "lowered it most; by default 5, and 0 in Markdown, LaTeX and HTML. With 0, values of "
        "groups are kept only if the test needs them. Memory is then bounded, unless AUC keeps "
        "the score of every row.",
    ),
    option(
        "Comparison",
        "--all-slices",
        is_flag=True,
        help="Name every slice that is significantly better or worse, not the three of the largest "
        "product of rows and difference; print every reason of --fail-if, not 20.",
    ),
)


def explicit_options(*sections: str) -> dict[str, str]:
    """Return the options that the user has set: text of the option by name.

    Parameters
    ----------
    *sections : str
        Their headings; by default all.
    """
    ctx, default = click.get_current_context(), click.core.ParameterSource.DEFAULT
    return {
        param.name: param.opts[-1]
        for param in ctx.command.params
        if param.name is not None
        and ctx.get_parameter_source(param.name) not in (None, default)
        and (not sections or getattr(param, "section", "") in sections)
    }


def compute(
    function: Callable[..., Any], sources: Sequence[str], quiet: bool, **options: Any
) -> Any:
    """Call a function of the package on sources, with a progress bar.

    No rows are an error.
    """
    from fastrank_eval.apps.cli.progress_bar import progress_bar

    with progress_bar(quiet) as progress:
        result = function(list(sources), progress=progress, **options)
    require_rows(result, options["where"])
    return result
