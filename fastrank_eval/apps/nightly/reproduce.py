"""Write the command that shows the numbers of a failed gate, or drift."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import suppress

from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.errors import ArgumentError, FastRankEvalError
from fastrank_eval._lib.lexer import quoted
from fastrank_eval.apps.nightly.night import EARLIER, Finding, Night
from fastrank_eval.apps.nightly.periods import fill_date
from fastrank_eval.engine.conventions import profile_of
from fastrank_eval.engine.options import DEFAULTS
from fastrank_eval.io.filter_parser import Literal, Predicate
from fastrank_eval.io.filter_parser import parse as parse_condition
from fastrank_eval.measures.parser import measure as measure_of
from fastrank_eval.results.gates import ALL
from fastrank_eval.slicing.spec import parse as parse_slicing
from fastrank_eval.stats.drift import FEW_VALUES, QUANTILES

#: The most commands for gates, unless more conditions fail, and for drift.
MAX_STEPS, MAX_DRIFT_STEPS = 5, 3
_LARGEST_CHANGES = "20"
#: Options that choose and read rows.
_OF_ROWS = ("weight", "unretrieved", "unjudged", "nan", "null_groups", "score_type", "format")
_QUOTED = r'"(?:[^"]|"")*"'
#: A column of the label of a slice with its value or bin; counts of groups and periods do not fit.
_PART = re.compile(
    rf"""(?P<column>{_QUOTED}|[^\W\d][\w.\-]*)
    (?:=\[(?P<low>[^,)]*),(?P<high>[^)]*)\)
    |(?P<operator><|>=|=)(?P<value>{_QUOTED}|[^,"]*))
    (?:,(?=.)|$)""",
    re.VERBOSE | re.DOTALL,
)
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?(e-?[0-9]+)?")
#: Texts of values that a condition cannot compare: bytes, floats that are no numbers, durations,
#: times of day, and "any", which is a text or the only bin of a column.
_WITHOUT_LITERAL = re.compile(
    r"0x[0-9a-f]*|-?inf|nan|any|-?[0-9]+(s|ms|us|ns)|[0-9]{2}(:[0-9]{2}){2}(\.[0-9]+)?"
)
#: Blanks between the tokens of a condition, also line breaks.
_BLANKS = re.compile(rf"""('(?:[^']|'')*'|{_QUOTED})|\s+""")


@dataclass(frozen=True)
class NextStep:
    """A failed gate with the command that reproduces or shows its numbers.

    Parameters
    ----------
    finding : Finding
    command : str
    """

    finding: Finding
    command: str


def next_steps(night: Night) -> list[NextStep]:
    """Return the commands for the failed gates of a night.

    Parameters
    ----------
    night : Night

    Returns
    -------
    list of NextStep
        With distinct commands, the most important first: at most `MAX_STEPS` of gates, or one of
        each condition that fails; of drift the same with `MAX_DRIFT_STEPS`. A gate on the number of
        rows or groups has none, and drift of a night without labels has none.
    """
    failed = [one for one in night.findings if one.condition and one.score]
    gates = [one for one in failed if one.kind != "drift" and one.measure]
    drift = [one for one in failed if one.kind == "drift" and night.has_labels]
    steps = {
        **_steps(night, gates, reproduction, MAX_STEPS),
        **_steps(night, drift, drift_command, MAX_DRIFT_STEPS),
    }
    return sorted(steps.values(), key=lambda step: night.findings.index(step.finding))


def _steps(
    night: Night,
    findings: Sequence[Finding],
    command_of: Callable[[Night, Finding], str],
    most: int,
) -> dict[str, NextStep]:
    """Return steps by command: one of each condition, then others."""
    steps: dict[str, NextStep] = {}
    conditions: set[tuple[str, str]] = set()
    for fill in (False, True):
        for finding in findings:
            condition = finding.condition, finding.compared
            if len(steps) >= most if fill else condition in conditions:
                continue
            try:
                command = command_of(night, finding)
            except FastRankEvalError:  # written by another version
                continue
            conditions.add(condition)
            steps.setdefault(command, NextStep(finding, command))
    return steps


def reproduction(night: Night, finding: Finding) -> str:
    """Return the command that reproduces the value of a finding.

    Parameters
    ----------
    night : Night
    finding : Finding
        With a model and a measure.

    Returns
    -------
    str
        ``fastrank-eval compare`` where the baseline is another model, else ``evaluate``. A slice
        is selected by ``--where``; a slice that no condition can select is one of those of
        ``--by``. Every argument is quoted for a shell.
    """
    paired = is_paired(night, finding)
    scores = [night.baseline or "", finding.score] if paired else [finding.score]
    words = ["--baseline", scores[0]] if paired else []
    words += ["--measures", night.name_of(finding.measure)]
    words += [*_options(night), *_rows(night, finding)]
    if paired and not measure_of(finding.measure).pooled:
        words += ["--largest-changes", _LARGEST_CHANGES]
    return _command(night, "compare" if paired else "evaluate", scores, words)


def drift_command(night: Night, finding: Finding) -> str:
    """Return the command that shows drift.

    Parameters
    ----------
    night : Night
    finding : Finding
        Of kind ``"drift"``.

    Returns
    -------
    str
        The deciles of a model with their click rates (``curve calibration``), the rows with scores
        outside [0, 1], or a measure of the baseline by the deciles or values of a column. Nulls of
        a model are shown as those of a column, with a measure of the model.

    Raises
    ------
    ArgumentError
        If no condition on rows selects the slice, if a computed model has no column to show, or if
        there are no numbers.
    """
    if finding.field == "nulls":
        raise ArgumentError(f"{finding.score!r} has no numbers.")
    name, where = finding.score, rows_condition(night, finding)
    model = name if name in night.models else night.baseline or night.models[0]
    by_column = name not in night.models or finding.field == "null_share"
    of_rows = finding.field == "out_of_range" or by_column
    if of_rows and name in night.expressions:
        raise ArgumentError(f"no column has the scores of {name!r}.")
    words: list[str] = []
    if finding.field == "out_of_range":
        outside = f"{_column_text(name)} < 0 or {_column_text(name)} > 1"
        where = outside if where is None else f"({where}) and ({outside})"
        words += ["--measures", "AUC"]
    elif by_column:
        few = any(one.distinct <= FEW_VALUES for one in night.drift if one.name == name)
        words += ["--measures", night.name_of(night.measures[0])]
        words += ["--by", _column_text(name) + ("" if few else f":quantile{QUANTILES}")]
    words += _options(night, _OF_ROWS)
    words += [] if where is None else ["--where", where]
    return _command(night, "evaluate" if of_rows else "curve calibration", [model], words)


def _command(night: Night, command: str, models: Sequence[str], words: Sequence[str]) -> str:
    """Write a command on the rows of a night and the scores of models."""
    start = ["fastrank-eval", *command.split(), *night.sources, *_columns(night)]
    scores = [word for model in models for word in ("--score", _score(night, model))]
    return " ".join(map(_shell_word, [*start, *scores, *words]))


def is_paired(night: Night, finding: Finding) -> bool:
    """Return whether a finding is about a model beside the baseline."""
    return night.baseline not in (None, finding.score) and finding.compared not in EARLIER


def slice_condition(label: str) -> str | None:
    """Return the condition on rows that selects a slice.

    Parameters
    ----------
    label : str
        The label of a slice.

    Returns
    -------
    str or None
        None if the slice depends on a count of its group, on a period of time, or on a value
        without a literal or with characters that cannot be printed.

    Examples
    --------
    >>> slice_condition('slot=feed,age=[18,25)')
    "slot = 'feed' and age >= 18 and age < 25"
    >>> print(slice_condition('"ad type"="a,b"'))
    "ad type" = 'a,b'
    >>> slice_condition("country=null")
    'country is null'
    >>> slice_condition("@rows>=20") is None
    True
    """
    conditions: list[str] = []
    parts = list(_parts(label))
    if not parts or parts[-1].end() < len(label):
        return None
    for match in parts:
        column, value = _column_text(_plain(match["column"])), match["value"]
        if value is None:
            conditions.append(f"{column} >= {_edge(match['low'])}")
            conditions.append(f"{column} < {_edge(match['high'])}")
        elif match["operator"] != "=":
            conditions.append(f"{column} {match['operator']} {_edge(value)}")
        elif value == "null":
            conditions.append(f"{column} is null")
        elif _WITHOUT_LITERAL.fullmatch(value):
            return None
        else:
            conditions.append(f"{column} = {Literal('text', _plain(value))}")
    condition = " and ".join(conditions)
    return condition if condition.isprintable() else None


def rows_condition(night: Night, finding: Finding) -> str | None:
    """Return the condition on the rows of a finding and its night.

    Returns
    -------
    str or None
        None if all rows of the sources count.

    Raises
    ------
    ArgumentError
        If no condition selects the slice.
    """
    where = _where(night)
    conditions = [] if where is None else [where]
    if finding.slice not in ("", ALL):
        condition = slice_condition(finding.slice)
        if condition is None or _may_have_nan(night, finding):
            raise ArgumentError(f"no condition on rows selects the slice {finding.slice!r}.")
        conditions = [f"({each})" for each in conditions] + [condition]
    return " and ".join(conditions) or None


def _where(night: Night) -> str | None:
    """Return the condition of the configuration in one line."""
    where = night.conventions.get("where")
    if not isinstance(where, str):
        return None
    return _BLANKS.sub(lambda match: match[1] or " ", fill_date(where, night.date)).strip()


def _may_have_nan(night: Night, finding: Finding) -> bool:
    """Return whether the slice is null in a column of numbers.

    Slices count NaN as null, and conditions do not.
    """
    nulls = {match["column"] for match in _parts(finding.slice) if match["value"] == "null"}
    others: dict[str, list[bool]] = {column: [] for column in nulls}
    for label in {value.slice for value in night.values if value.by == finding.by}:
        for match in _parts(label):
            text = match["value"] if match["high"] is None else match["high"]
            if match["column"] in nulls and text != "null":
                others[match["column"]].append(bool(_NUMBER.fullmatch(text) or "inf" in text))
    return any(all(numbers) for numbers in others.values())


def _parts(label: str) -> Iterator[re.Match[str]]:
    """Yield the columns of the label of a slice, up to one that has no value."""
    position = 0
    while match := _PART.match(label, position):
        yield match
        position = match.end()


def _shell_word(word: str) -> str:
    """Quote a word for a shell, a condition with text in double quotes."""
    if "'" in word and not re.search(r'["$`!\\]', word):
        return f'"{word}"'
    return shlex.quote(word)


def _plain(text: str) -> str:
    return text[1:-1].replace('""', '"') if text.startswith('"') else text


def _column_text(column: str) -> str:
    """Write a column for a condition, in quotes where it needs them."""
    with suppress(ArgumentError):
        if parse_condition(f"{column} is null") == Predicate(column, "is null"):
            return column
    return quoted(column)


def _edge(text: str) -> str:
    return text if _NUMBER.fullmatch(text) else str(Literal("text", text))


def _columns(night: Night) -> Iterator[str]:
    columns = night.conventions.get("columns", {})
    for option in ("group", "cluster"):
        for column in columns.get(option, ()):
            yield from (f"--{option}", column.replace(",", "\\,"))
    for name in ("label", "item"):
        if name in columns:
            yield from (f"--{name}", columns[name])


def _score(night: Night, model: str) -> str:
    """Write the score of a model, with its expression if it is computed."""
    text = model.replace("=", "\\=")
    if model in night.expressions:
        text += f" = {night.expressions[model]}"
    return text.replace(",", "\\,")


def _options(night: Night, names: Container[str] = ()) -> Iterator[str]:
    """Yield the options that differ from the defaults; only `names`, if any."""
    conventions = night.conventions
    profile = None if names else conventions.get("profile")
    choices = dict(DEFAULTS)
    if isinstance(profile, str):
        yield from ("--profile", profile)
        choices |= profile_of(profile).choices
    defaults = {**choices, "weight": None, "subtopics": None, "nan": None,
                "null_groups": None, "sampling_rate": 1, "confidence": 0.95,
                "format": None}  # fmt: skip
    for name, default in defaults.items():
        value = conventions.get(name, default)
        if value != default and (not names or name in names):
            option = "input-format" if name == "format" else name.replace("_", "-")
            yield from (f"--{option}", str(value))


def _rows(night: Night, finding: Finding) -> Iterator[str]:
    try:
        condition = rows_condition(night, finding)
    except ArgumentError:
        condition = _where(night)
        yield from ("--by", _slicing(night, finding.by))
        yield from ("--min-groups", str(night.conventions.get("min_groups", 1)))
    if condition is not None:
        yield from ("--where", condition)


def _slicing(night: Night, by: str) -> str:
    """Return a slicing with its edges."""
    slicings = night.conventions.get("by")
    for slicing in slicings if isinstance(slicings, list | tuple) else ():
        if by in (slicing, parse_slicing(slicing).short):
            return str(slicing)
    return by
