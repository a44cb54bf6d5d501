"""Look up measures, score columns and slices of a result by name.

List measures of the registry as JSON, markdown or terminal text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from fastrank_eval._lib.errors import ArgumentError, MeasureError, near
from fastrank_eval.engine.records import JSON_SCHEMAS
from fastrank_eval.measures import measure, registry
from fastrank_eval.measures.base import Measure, find_name
from fastrank_eval.measures.parser import find_computed, similar_names
from fastrank_eval.slicing.spec import parse

if TYPE_CHECKING:
    from rich.console import Group
    from rich.padding import Padding

#: A value, or a difference.
_Record = TypeVar("_Record", bound=Any)


def find_measure(
    name: str | Measure, names: Mapping[str, str], requested: Mapping[str, str]
) -> Measure:
    """Look up a measure by any alias, or by its requested or display name.

    Parameters
    ----------
    name : str or Measure
    names : mapping of str to str
        The name that reports show by canonical text of each measure of the result.
    requested : mapping of str to str
        By requested name the computed measure, where a profile set other options.

    Raises
    ------
    MeasureError
        If the result does not have it.
    """
    try:
        parsed = measure(name)
    except MeasureError:  # such as trec_eval's "ndcg_1=3"
        texts = [text for text, shown in names.items() if isinstance(name, str) and shown == name]
        if not texts:
            raise
        return measure(texts[0])
    result = find_computed(parsed, names, requested)
    if result is None:
        # A profile may have computed another measure under the name that is looked up.
        shown = list(names if parsed.display_name in names.values() else names.values())
        raise MeasureError(
            f"measure {parsed.display_name} was not part of this evaluation, which has "
            f"{', '.join(shown)}.{near(parsed.display_name, shown)}"
        )
    return result


def find_calibration(
    name: str | Measure | None,
    measures: Sequence[str],
    names: Mapping[str, str],
    requested: Mapping[str, str],
) -> str:
    """Look up a measure of multicalibration; by default the only one.

    Raises
    ------
    MeasureError
        If the result does not have it, or several and no name is given.
    """
    wanted = None if name is None else measure(name)
    if wanted is not None and measures:
        return str(find_measure(wanted, {text: names[text] for text in measures}, requested))
    if len(measures) == 1:
        return measures[0]
    remedy = "name one" if measures else "add MultiECCE(columns='country') to the measures"
    shown = ", ".join(names[text] for text in measures) or "none"
    raise MeasureError(
        "measure: must be one of the evaluation's measures of multicalibration, got "
        f"{'none' if wanted is None else wanted.display_name}; it has {shown}: {remedy}."
    )


def find_score(name: str | None, scores: Sequence[str], names: Mapping[str, str]) -> str:
    """Look up a score column; by default the only one.

    Parameters
    ----------
    name : str or None
    scores : sequence of str
    names : mapping of str to str
        As in `find_measure`.

    Raises
    ------
    ArgumentError
        If it is unknown, or left out where there are several.
    """
    if name is None and len(scores) == 1:
        return scores[0]
    columns = ", ".join(map(repr, scores))
    if name is None:
        raise ArgumentError(
            f"this evaluation has several score columns ({columns}): name the one you mean, "
            f"as in result.value({next(iter(names.values()))!r}, {scores[0]!r})."
        )
    if name not in scores:
        raise ArgumentError(
            f"score column {name!r} was not part of this evaluation, which has "
            f"{columns}.{near(name, scores)}"
        )
    return name


def refuse_swapped(score: object, name: object, scores: Sequence[str]) -> None:
    """Raise ArgumentError if the key of a result has the measure first."""
    if score is not None and score not in scores and isinstance(name, str) and name in scores:
        raise ArgumentError(
            f"key: must be a score column and a measure, got ({str(score)!r}, {name!r}); write "
            f"result[{name!r}, {str(score)!r}]."
        )


def find_slicing(by: str | None, values: Sequence[Any]) -> str:
    """Look up the canonical text of a slicing; by default the only one.

    Raises
    ------
    ArgumentError
        If the rows were not sliced by `by`, or it is None where there are several or none.
    """
    slicings = list(dict.fromkeys(v.by for v in values if v.by is not None))
    names = ", ".join(map(repr, slicings))
    if by is None:
        if len(slicings) == 1:
            return slicings[0]
        which = f"by {names}: name one, by=..." if slicings else "by nothing"
        raise ArgumentError(f"the rows of this evaluation were sliced {which}.")
    text = str(parse(by))
    if text not in slicings:
        which = f"but by {names}" if slicings else "nor by anything else"
        raise ArgumentError(
            f"the rows of this evaluation were not sliced by {text!r}, {which}."
            f"{near(text, slicings)}"
        )
    return text


def find_slices(by: str | None, values: Sequence[Any]) -> tuple[str, ...]:
    """List the labels of the slices of one slicing, or of all, in their order.

    Raises
    ------
    ArgumentError
        If the rows were not sliced by `by`.
    """
    if by is not None:
        by = find_slicing(by, values)
    slices = (v.slice for v in values if v.by is not None and by in (None, v.by))
    return tuple(dict.fromkeys(slices))


def find_value(
    text: str, score: str, label: str, values: Sequence[_Record], min_groups: object
) -> _Record:
    """Look up the value, or difference, of a measure and a model.

    Parameters
    ----------
    text, score, label : str
        Measure, score column, label of the slice.
    values : sequence of MeasureValue or ComparedValue
    min_groups : object
        The fewest groups of a slice that was not left out; not an int if that is unknown.

    Raises
    ------
    ArgumentError
        If there is no such slice.
    MeasureError
        If there is no such value of all rows.
    """
    for v in values:
        if (v.measure, v.score, v.slice) == (text, score, label):
            return v
    if label == "all":
        raise MeasureError(f"no value of {text} for score column {score!r} in this result.")
    labels = find_slices(None, values)
    if not labels:
        raise ArgumentError(
            f"slice {label!r} was not part of this evaluation, which has no slices: ask for them "
            "by by=... (--by)."
        )
    few = ""
    if isinstance(min_groups, int) and min_groups > 1:
        few = f", nor any of fewer than {min_groups:,} groups"
    some = ", ".join(map(repr, labels[:5])) + f" and {len(labels) - 5:,} more" * (len(labels) > 5)
    raise ArgumentError(
        f"slice {label!r} was not part of this evaluation{few}; it has {some}.{near(label, labels)}"
    )


def refuse_pooled(measure: Measure) -> None:
    """Refuse a measure without values per group, and name its variant."""
    if measure.pooled:
        variant = "GAUC" if measure.name == "AUC" else f"Group{measure.name}"
        raise MeasureError(
            f"{measure.display_name} pools the rows of all groups and has no value per group"
            + (f"; {variant} is the {measure.name} of each group." if variant in registry else ".")
        )


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
