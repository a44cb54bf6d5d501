"""Define the options that commands share, completion, and gates."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from fastrank_eval._lib.errors import ArgumentError
from fastrank_eval._lib.lexer import quoted
from fastrank_eval.apps.cli.shell import ExitCode, SectionedOption, require_rows
from fastrank_eval.apps.cli.standard_error import note, progress_bar
from fastrank_eval.engine import DEFAULT_MEASURES
from fastrank_eval.engine.options import OPTIONS, options_at

if TYPE_CHECKING:
    import pyarrow as pa

    from fastrank_eval.results.comparison import Comparison
    from fastrank_eval.results.gates import Gate
    from fastrank_eval.results.result import Result

#: A name of a column that no grammar needs in quotes.
_PLAIN = re.compile(r"[^\W\d][\w.\-]*")
#: The end of a list of names, after the last comma or equals sign that is no part of a name.
_LAST_NAME = re.compile(r"(?:\\.|[^\\,=])*\Z", re.DOTALL)
#: The end of an expression, after the last blank, operator or parenthesis.
_LAST_WORD = re.compile(r"[^\s+*/()-]*\Z")


def complete_files(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Let the shell complete a name of a file."""
    return [CompletionItem(incomplete, type="file")]


def complete_measures(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete the name of a measure, also after a comma."""
    from fastrank_eval.measures import registry

    before, comma, begin = incomplete.rpartition(",")
    return [
        CompletionItem(f"{before}{comma}{kind.name}", help=kind.summary)
        for kind in registry.values()
        if kind.name.lower().startswith(begin.lower())
    ]


def complete_profiles(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Complete the name of a profile."""
    from fastrank_eval.engine.conventions import PROFILES

    return [name for name in PROFILES if name.startswith(incomplete)]


def complete_columns(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    r"""Complete the name of a column of SOURCES, also after a comma.

    The schema of the first Parquet or Arrow file is read, and no row. There is no completion for
    other sources, and none after an error.

    Parameters
    ----------
    ctx : click.Context
        Its SOURCES may be incomplete.
    param : click.Parameter
        A list of names, in which ``\,`` is a comma; or slices of ``--by``, in which names with
        special characters are in double quotes.
    incomplete : str
    """
    begin = _LAST_NAME.search(incomplete)[0].lstrip()  # type: ignore[index]  # it always matches
    before = incomplete.removesuffix(begin)
    in_expression = "EXPRESSION" in str(param.metavar) and before.rstrip().endswith("=")
    if in_expression:
        begin = _LAST_WORD.search(begin)[0]  # type: ignore[index]  # it always matches
        before = incomplete.removesuffix(begin)
    schema = _schema([*(ctx.params.get("sources") or ()), *ctx.args])
    return [
        CompletionItem(before + text, help=str(type_))
        for name, type_ in schema.items()
        if (text := _written(name, in_expression or param.name == "by")).startswith(begin)
    ]


def _written(name: str, in_quotes: bool) -> str:
    """Write a name as an option takes it."""
    if in_quotes:
        return name if _PLAIN.fullmatch(name) else quoted(name)
    return name.replace(",", "\\,").replace("=", "\\=")


def _schema(sources: list[Any]) -> dict[str, pa.DataType | str]:
    """Return the columns of the first file of some sources on this machine."""
    with suppress(Exception):
        from fastrank_eval.io.formats import inspect_file
        from fastrank_eval.io.paths import expand

        for source in map(str, sources):
            if source != "-" and "://" not in source:
                file = expand(source, None)[0]
                if file.format in ("parquet", "arrow"):
                    schema, _ = inspect_file(file)
                    partitions = dict.fromkeys(file.partitions, "partition")
                    return {**{field.name: field.type for field in schema}, **partitions}
    return {}


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
    with progress_bar(quiet) as progress:
        result = function(list(sources), progress=progress, **options)
    require_rows(result, options["where"])
    return result


_MOST_REASONS = 20


def _fail_if_option(examples: str) -> Callable[[Any], Any]:
    return option(
        "Output",
        "--fail-if",
        "fail_if",
        multiple=True,
        metavar="CONDITION",
        help=f"Exit with code {ExitCode.GATE_FAILED} if this is true or cannot be computed; "
        f"standard error names the reason: {examples} The report is always written. Repeat the "
        "option for several.",
    )


fail_if_option = _fail_if_option(
    "'GAUC < 0.6', 'score_a:GAUC[slot=feed] ci_low < 0.55 or AUC dropped_share > 0.1'. Without a "
    "model it applies to every model, with [*] to every slice, and always to every label."
)
fail_if_compared_option = _fail_if_option(
    "'worse(GAUC)', 'worse(GAUC[*])', 'GAUC delta_ci_low < -0.001', 'new:AUC < 0.7'. "
    "worse() is significantly worse, corrected over the terms of the gate. Fields of differences "
    "are delta, delta_se, delta_ci_low, delta_ci_high, "
    "relative, p_value, p_adjusted, wins, losses, ties and mdd: without a model they apply to "
    "every candidate, other fields to every model; with [*] to every slice."
)


def read_gates(texts: Sequence[str], options: Mapping[str, Any]) -> list[Gate]:
    """Read gates and refuse those on values that are not computed.

    Parameters
    ----------
    texts : sequence of str
    options : mapping of str to object
        Options of the command: measures, score, group, profile, sampling_rate and baseline.

    Returns
    -------
    list of Gate

    Raises
    ------
    FastRankEvalError
        If a gate cannot be read, names a measure or a score column that is not requested, or reads
        a number of groups of rows without groups.
    """
    if not texts:
        return []
    from fastrank_eval.engine.conventions import profile_of, requested_names, used_measures
    from fastrank_eval.engine.options import OPTIONS
    from fastrank_eval.measures.parser import requested_measures
    from fastrank_eval.results.gates import gate

    gates = [gate(text) for text in texts]
    requested = requested_measures(options["measures"])
    conventions = None if options["profile"] is None else profile_of(options["profile"])
    rate = options["sampling_rate"]
    if rate is not None:
        rate = OPTIONS["sampling_rate"].read("sampling_rate", rate)
    measured = used_measures(requested, conventions, rate, options["baseline"] is not None)
    names = requested_names(requested, measured)
    for each in gates:
        each.require({str(m): m.display_name for m in measured}, list(options["score"]), names)
        if each.counts_groups and not options["group"]:
            raise ArgumentError(
                f'gate "{each}": it counts groups; name the key columns by --group.'
            )
    return gates


def exit_if_failed(result: Result | Comparison, gates: Sequence[Gate], every: bool = False) -> None:
    """Exit with code 3 and print the reasons if a result fails a gate."""
    if not gates:
        return
    from fastrank_eval.results.report import printable

    verdict = result.check(*gates)
    # Lines of gates that passed come last; all of them are written.
    lines, failures = verdict.lines(), len(verdict.failures)
    printed = failures if every else min(failures, _MOST_REASONS)
    for line in lines[:printed]:
        note(printable(line))
    if failures > printed:
        note(f"gate failed: {failures - printed:,} more")
    for line in lines[failures:]:
        note(printable(line))
    if verdict.passed:
        return
    raise click.exceptions.Exit(ExitCode.GATE_FAILED)
