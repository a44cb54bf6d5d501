"""Complete values of options and arguments in a shell."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from fastrank_eval._lib.lexer import quoted

if TYPE_CHECKING:
    import pyarrow as pa

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
