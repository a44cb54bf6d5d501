"""List measures of the registry as JSON, markdown or terminal text."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fastrank_eval._lib.errors import MeasureError
from fastrank_eval.engine.records import JSON_SCHEMAS
from fastrank_eval.measures import registry
from fastrank_eval.measures.base import Measure, find_name
from fastrank_eval.measures.parser import similar_names

if TYPE_CHECKING:
    from rich.console import Group

#: What the measures of a file are for.
_PURPOSES = {
    "auc": "Positives above negatives",
    "precision": "Relevant rows in the first ranks",
    "average_precision": "Average precision",
    "gain": "Gains of graded rows",
    "user_models": "Models of users who stop",
    "judged": "Partial judgments",
    "diversity": "Subtopics",
    "likelihood": "Probabilities: loss and mean",
    "calibration": "Probabilities: calibration",
    "decisions": "Decisions at a threshold",
}


def find(words: Sequence[str]) -> list[type[Measure]]:
    """Find measures by name, or by a word of their name or description.

    Parameters
    ----------
    words : sequence of str
        Names (``"ndcg"``) or words (``"calibration"``); none means all measures.

    Returns
    -------
    list of type
        In the order of the registry.

    Raises
    ------
    MeasureError
        A word that no measure has.

    Examples
    --------
    >>> [kind.name for kind in find(["MAP", "reciprocal"])]
    ['AP', 'RR', 'ERR']
    """
    kinds: set[type[Measure]] = set()
    for word in words:
        if not word.strip():
            raise MeasureError("measures: must be a measure or a word, got ''; leave it out.")
        named = find_name(word.partition("@")[0])
        matches = {kind for kind in registry.values() if word.lower() in _searched(kind)}
        if named is not None:
            matches = {registry[named[0]]}
        if not matches:
            raise MeasureError(
                f"measures: must be a measure or a word of its description, got {word!r}."
                f"{similar_names(word)} 'fastrank-eval measures' lists all."
            )
        kinds |= matches
    return [kind for kind in registry.values() if kind in kinds or not words]


def _searched(kind: type[Measure]) -> str:
    names = (kind.name, *kind.spellings, *kind.presets)
    return " ".join((*names, kind.summary, _purpose(kind))).lower()


def _purpose(kind: type[Measure]) -> str:
    return _PURPOSES.get(kind.__module__.rpartition(".")[2], "Of other packages")


def entries(kinds: Sequence[type[Measure]] | None = None) -> list[dict[str, Any]]:
    """Describe measures; by default all.

    Parameters
    ----------
    kinds : sequence of type, optional

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
        for kind in (registry.values() if kinds is None else kinds)
    ]


def to_json(kinds: Sequence[type[Measure]] | None = None) -> str:
    """Write `entries` as JSON: a strictly valid list of objects."""
    versioned = [{"schema": JSON_SCHEMAS["measures"], **entry} for entry in entries(kinds)]
    return json.dumps(versioned, indent=2, allow_nan=False) + "\n"


def to_markdown(kinds: Sequence[type[Measure]] | None = None) -> str:
    """Write measures as a markdown table; options with their defaults."""
    lines = ["| measure | what it is | formula | range | options |", "| --- " * 5 + "|"]
    for entry in entries(kinds):
        options = ", ".join(
            f"`{option['name']}={option['default']!r}`" for option in entry["options"]
        )
        cells = [f"`{_title(entry)}`", entry["summary"], f"`{entry['formula']}`", _range(entry)]
        lines.append("| " + " | ".join(c.replace("|", "\\|") for c in [*cells, options]) + " |")
    return "\n".join(lines) + "\n"


def overview(terminal: bool) -> Group:
    """Build one line for each measure, by purpose; a terminal shows its begin."""
    from rich.console import Group
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    width = max(len(_title(entry)) for entry in entries())
    blocks: list[Text | Padding] = []
    purposes = dict.fromkeys(map(_purpose, registry.values()))
    for purpose in purposes:
        blocks.append(Text(purpose, "bold"))
        lines = Table.grid(padding=(0, 2))
        lines.add_column(style="cyan", no_wrap=True, min_width=width)
        lines.add_column(overflow="ellipsis" if terminal else "ignore", no_wrap=True)
        for entry in entries([kind for kind in registry.values() if _purpose(kind) == purpose]):
            lines.add_row(_title(entry), Text(entry["summary"]))
        blocks.append(Padding(lines, (0, 0, 1, 2)))
    blocks.append(Text("'fastrank-eval measures NAME' shows formula, options and reference."))
    return Group(*blocks)


def details(kinds: Sequence[type[Measure]]) -> Group:
    """Build a block for each measure, for a terminal.

    Parameters
    ----------
    kinds : sequence of type

    Returns
    -------
    rich.console.Group
        Name and summary, formula, range, reference and options of each.
    """
    from rich.console import Group
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    blocks: list[Text | Padding] = []
    for entry in entries(kinds):
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
