"""List all measures of the registry as JSON, markdown or terminal text."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from fastrank_eval.measures import registry

if TYPE_CHECKING:
    from rich.console import Group


def entries() -> list[dict[str, Any]]:
    """Describe every measure.

    Returns
    -------
    list of dict
        ``name``, ``summary``, ``formula``, ``reference``, ``range`` (two numbers, None for no
        bound), ``pooled``, ``aggregate`` ("mean", "geometric mean" or "sum" of the values of the
        groups; "pooled" if there are none), ``cutoff`` (whether ``@k`` may follow), ``spellings``,
        ``presets`` (spellings that set options, with their values) and ``options`` (``name``,
        ``default``, ``doc``), in the order of the registry.

    Examples
    --------
    >>> [entry["name"] for entry in entries() if entry["name"].endswith("AUC")]
    ['GAUC', 'AUC', 'PRAUC']
    """
    return [
        {
            "name": kind.name,
            "summary": kind.summary,
            "formula": kind.formula,
            "reference": kind.reference,
            "range": [bound if abs(bound) != float("inf") else None for bound in kind.range],
            "pooled": kind.pooled,
            "aggregate": "pooled" if kind.pooled else kind.aggregate,
            "cutoff": kind.takes_cutoff,
            "spellings": list(kind.spellings),
            "presets": {name: dict(preset) for name, preset in kind.presets.items()},
            "options": [
                {"name": option.name, "default": _plain(option.default), "doc": option.doc}
                for option in kind.options
            ],
        }
        for kind in registry.values()
    ]


def to_json() -> str:
    """Write :func:`entries` as JSON.

    Returns
    -------
    str
        A list of objects, strictly valid.
    """
    return json.dumps(entries(), indent=2, allow_nan=False) + "\n"


def to_markdown() -> str:
    """Write the measures as a markdown table.

    Returns
    -------
    str
        One row a measure; options with their defaults.
    """
    lines = ["| measure | what it is | formula | range | options |", "| --- " * 5 + "|"]
    for entry in entries():
        options = ", ".join(
            f"`{option['name']}={option['default']!r}`" for option in entry["options"]
        )
        cells = [f"`{_title(entry)}`", entry["summary"], f"`{entry['formula']}`", _range(entry)]
        lines.append("| " + " | ".join(c.replace("|", "\\|") for c in [*cells, options]) + " |")
    return "\n".join(lines) + "\n"


def renderable() -> Group:
    """Build the list of measures for a terminal.

    Returns
    -------
    rich.console.Group
        A block a measure: name and summary, formula, range, reference, options.
    """
    from rich.console import Group
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    blocks: list[Text | Padding] = []
    for entry in entries():
        blocks.append(
            Text.assemble((_title(entry), "bold cyan"), "  ", _sentence(entry["summary"]))
        )
        facts = Table.grid(padding=(0, 2))
        facts.add_column(style="dim", no_wrap=True)
        facts.add_column(overflow="fold")
        facts.add_row("formula", Text(entry["formula"]))
        facts.add_row("range", Text(_range(entry)))
        facts.add_row("reference", Text(entry["reference"]))
        if entry["aggregate"] not in ("mean", "pooled"):
            facts.add_row("over groups", Text(entry["aggregate"]))
        if entry["spellings"]:
            facts.add_row("also", Text(", ".join(entry["spellings"])))
        for name, preset in entry["presets"].items():
            options = ", ".join(f"{option}={value!r}" for option, value in preset.items())
            facts.add_row(name, Text(f"{entry['name']}({options})"))
        for option in entry["options"]:
            facts.add_row(Text(f"{option['name']}={option['default']!r}"), Text(option["doc"]))
        blocks.append(Padding(facts, (0, 0, 1, 2)))
    return Group(*blocks)


def _title(entry: dict[str, Any]) -> str:
    return f"{entry['name']}@k" if entry["cutoff"] else str(entry["name"])


def _range(entry: dict[str, Any]) -> str:
    low, high = entry["range"]
    left = "]-inf" if low is None else f"[{low:g}"
    right = "inf[" if high is None else f"{high:g}]"
    return f"{left}, {right}"


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
