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
    from rich.padding import Padding

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
    names = (kind.name, *kind.aliases, *kind.presets)
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
        groups; "pooled" if there are none), ``cutoff`` (whether ``@k`` may follow), ``aliases``,
        ``presets`` (aliases that set options, with their values) and ``options`` (``name``,
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
            "aliases": list(kind.aliases),
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
    from rich.text import Text

    blocks: list[Any] = []
    width = max(len(_title(entry)) for entry in entries())
    for purpose in dict.fromkeys(map(_purpose, registry.values())):
        own = entries([kind for kind in registry.values() if _purpose(kind) == purpose])
        rows = [(_title(entry), entry["summary"]) for entry in own]
        names = {"style": "cyan", "min_width": width}
        texts = {"overflow": "ellipsis" if terminal else "ignore", "no_wrap": True}
        blocks += [Text(purpose, "bold"), _grid(rows, names, texts)]
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
    from rich.text import Text

    blocks: list[Any] = []
    for entry in entries(kinds):
        rows = [("formula", entry["formula"]), ("range", _range(entry))]
        rows.append(("reference", entry["reference"]))
        if entry["aggregate"] not in ("mean", "pooled"):
            rows.append(("over groups", entry["aggregate"]))
        if entry["aliases"]:
            rows.append(("also", ", ".join(entry["aliases"])))
        for name, preset in entry["presets"].items():
            options = ", ".join(f"{option}={value!r}" for option, value in preset.items())
            rows.append((name, f"{entry['name']}({options})"))
        rows += [(f"{each['name']}={each['default']!r}", each["doc"]) for each in entry["options"]]
        summary = entry["summary"][:1].upper() + entry["summary"][1:]
        blocks.append(Text.assemble((_title(entry), "bold cyan"), "  ", summary))
        blocks.append(_grid(rows, {"style": "dim"}, {"overflow": "fold"}))
    return Group(*blocks)


def _grid(rows: Sequence[tuple[str, str]], names: dict[str, Any], texts: dict[str, Any]) -> Padding:
    """Build the lines of a block; `names` and `texts` are options of columns."""
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    lines = Table.grid(padding=(0, 2))
    lines.add_column(no_wrap=True, **names)
    lines.add_column(**texts)
    for name, text in rows:
        lines.add_row(Text(name), Text(text))
    return Padding(lines, (0, 0, 1, 2))


def _title(entry: dict[str, Any]) -> str:
    return f"{entry['name']}@k" if entry["cutoff"] else str(entry["name"])


def _range(entry: dict[str, Any]) -> str:
    low, high = entry["range"]
    left = "]-inf" if low is None else f"[{low:g}"
    right = "inf[" if high is None else f"{high:g}]"
    return f"{left}, {right}"


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
