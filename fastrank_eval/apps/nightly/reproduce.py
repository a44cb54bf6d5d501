"""Write the command that shows the numbers of a failed gate, or drift.

Write the worst groups of failed gates as Parquet.
"""

from __future__ import annotations

import datetime as dt
import math
import re
import shlex
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fastrank_eval import Measure
from fastrank_eval import measure as measure_of
from fastrank_eval._lib.arrow import arrow_column, arrow_value, column_with_nulls
from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.errors import ArgumentError, FastRankEvalError, OutputError
from fastrank_eval._lib.files import atomic_path
from fastrank_eval._lib.lexer import quoted
from fastrank_eval.apps.nightly.config import NightlyConfig
from fastrank_eval.apps.nightly.drift import FEW_VALUES, QUANTILES
from fastrank_eval.apps.nightly.night import EARLIER, Finding, Key, Night
from fastrank_eval.apps.nightly.periods import fill_date
from fastrank_eval.apps.nightly.run import free_name
from fastrank_eval.engine.conventions import profile_of
from fastrank_eval.engine.group_table import GroupTable
from fastrank_eval.engine.options import DEFAULTS
from fastrank_eval.engine.run import run
from fastrank_eval.io.filters import Literal, Predicate
from fastrank_eval.io.filters import parse as parse_condition
from fastrank_eval.results.differences import contributions, direction_of, is_mean, largest_changes
from fastrank_eval.results.gates import ALL
from fastrank_eval.slicing.spec import parse as parse_slicing

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
    words += ["--measures", _requested(night, finding.measure)]
    words += [*_options(night), *_rows(night, finding)]
    if paired and not measure_of(finding.measure).pooled:
        words += ["--largest-changes", _LARGEST_CHANGES]
    return _command(night, "compare" if paired else "evaluate", scores, words)


def _requested(night: Night, measure: str) -> str:
    """Return the name by which a measure can be requested: a heading is none."""
    with suppress(FastRankEvalError):
        return measure_of(night.name_of(measure)).display_name
    return measure


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
        words += ["--measures", _requested(night, night.measures[0])]
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


#: Marks a file of this module in the metadata of its schema.
_MARK = {b"fastrank_eval": b"worst groups"}
_KEYS = ("score", "slice", "measure", "compared", "against")


def groups_file(folder: Path, date: dt.date) -> Path:
    """Return the path of the worst groups of a night."""
    return folder / f"{date}-groups.parquet"


def check_groups_file(config: NightlyConfig, date: dt.date) -> None:
    """Refuse a file of groups that replaces another file or joins the rows.

    Raises
    ------
    OutputError
    """
    if config.folder is None or not config.groups:
        return
    path = groups_file(config.folder, date)
    remedy = "read the groups of failed gates, so name another folder, or write groups = 0"
    config.check_outside(path, "[output] folder", str(config.folder), remedy)
    check_groups(path)


def write_groups(config: NightlyConfig, night: Night) -> Path | None:
    """Write the groups behind the failed gates of a night, the worst first.

    Each gate of `next_steps` reads its rows once more. A measure of all rows has no values of
    groups: the first measure of groups stands in for it.

    Parameters
    ----------
    config : NightlyConfig
    night : Night

    Returns
    -------
    Path or None
        The file. None without a folder, without a failed gate, or if no gate has groups; then the
        file of an earlier run of the night is removed.

    Raises
    ------
    FastRankEvalError
        If the rows cannot be read again, or the file cannot be written.
    """
    if config.folder is None or not config.groups:
        return None
    path = groups_file(config.folder, night.date)
    check_groups(path)
    tables = list(_tables(config, night)) if night.quality.rows else []
    tables = [table for table in tables if table.num_rows]
    if not tables:
        path.unlink(missing_ok=True)
        return None
    table = pa.concat_tables(tables).replace_schema_metadata(_MARK)
    make_folder(config, config.folder)
    with atomic_path(path) as part:
        pq.write_table(table, part)
    return path


def _tables(config: NightlyConfig, night: Night) -> Iterator[pa.Table]:
    seen = set()
    for step in next_steps(night):
        measure = _measure_of_groups(night, step.finding) if step.finding.measure else None
        if measure is None:
            continue
        finding = step.finding
        if str(measure) != finding.measure:
            key = Key.of(finding)._replace(measure=str(measure))
            value, difference = night.value_of(key), night.difference_of(finding.compared, key)
            bare = replace(finding, measure=key[2], value=math.nan, base=math.nan, delta=math.nan)
            finding = bare.with_numbers(value, difference, finding.against)
        shown = tuple(getattr(finding, name) for name in _KEYS)
        try:
            where = rows_condition(night, finding)
        except ArgumentError:
            continue
        if shown not in seen:
            seen.add(shown)
            yield _table(config, night, finding, measure, where)


def _measure_of_groups(night: Night, finding: Finding) -> Measure | None:
    """Return the measure of a finding, or the first with values of groups."""
    paired = is_paired(night, finding)
    measures = map(measure_of, (finding.measure, *night.measures))
    return next((m for m in measures if is_mean(m) or (paired and not m.pooled)), None)


def _table(
    config: NightlyConfig, night: Night, finding: Finding, measure: Measure, where: str | None
) -> pa.Table:
    paired = is_paired(night, finding)
    sources = config.sources(night.date)
    options = {k: v for k, v in config.options.items() if k not in ("by", "min_groups")}
    evaluation = run(
        sources[0] if len(sources) == 1 else sources,
        score=config.scores_of([night.baseline or ""] * paired + [finding.score]),
        baseline=night.baseline if paired else None,
        measures=[measure],
        where=where,
        keep="values",
        **options,
    )
    records = GroupTable.of_run(evaluation.plan, evaluation.groups, evaluation.schema)
    if paired:
        changes = contributions(records, 0, 1, 0, finding.delta)
    else:
        changes = _shortfalls(records, measure, finding)
    groups = largest_changes(records, changes * _bad_sign(measure, changes), config.groups)
    base = records.values[0, 0][groups] if paired else np.full(len(groups), math.nan)
    value = records.values[int(paired), 0][groups]
    if paired:
        finding = replace(finding, compared="baseline", against=night.baseline or "")
    columns = {
        name: pa.repeat(arrow_value(getattr(finding, name), pa.string()), len(groups))
        for name in _KEYS
    }
    columns |= {
        "rows": arrow_column(records.rows[groups]),
        "positives": arrow_column(records.positives[groups]),
        "base": column_with_nulls(base, np.isnan(base)),
        "value": column_with_nulls(value, np.isnan(value)),
        "contribution": arrow_column(changes[groups]),
    }
    keys = [key.take(arrow_column(groups)) for key in records.keys]
    taken = set(records.roles.keys)
    names = [*records.roles.keys, *(free_name(name, taken, "_") for name in columns)]
    return pa.table([*keys, *columns.values()], names=names)


def _shortfalls(records: GroupTable, measure: Measure, finding: Finding) -> np.ndarray:
    """Compute the share of each group in the distance of a mean from a value.

    That is the value of the earlier night, or without one the mean itself.
    """
    terms, weights = records.terms(0, 0)
    total = math.fsum(weights.tolist())
    if not total:
        return np.zeros(len(terms))
    reference = finding.base if finding.compared in EARLIER else finding.value
    if math.isnan(reference):
        reference = math.fsum(terms.tolist()) / total
    distances: np.ndarray = (terms - weights * reference) / total
    return distances


def _bad_sign(measure: Measure, changes: np.ndarray) -> float:
    """Return 1 if a rise of the measure is bad, and -1 if a fall is."""
    direction = direction_of(1.0, measure)
    if direction in ("better", "worse"):
        return 1.0 if direction == "worse" else -1.0
    return 1.0 if math.fsum(changes.tolist()) > 0 else -1.0


def check_groups(path: Path) -> None:
    """Refuse to replace a file that this module did not write."""
    if not path.exists():
        return
    try:
        # Arrow reads the name `s3:x` as an address.
        metadata = pq.read_schema(path.absolute()).metadata or {}
    except (pa.ArrowException, OSError):
        metadata = {}
    if not _MARK.items() <= metadata.items():
        raise other_file(path, "does not hold the worst groups of a night")


def other_file(path: Path, why: str) -> OutputError:
    """Return the error of a file that may not be replaced."""
    return OutputError(
        f"[output] folder: must hold no other files of the names of pages, got {str(path)!r}, "
        f"which {why}; name another folder, or remove the file."
    )


def make_folder(config: NightlyConfig, folder: Path) -> None:
    """Make the folder of pages and groups.

    Raises
    ------
    OutputError
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise folder_error(config, str(error.strerror or error)) from error


def folder_error(config: NightlyConfig, reason: str) -> OutputError:
    """Return the error of a folder that cannot be made."""
    return OutputError(
        f"{config.file}: [output] folder {str(config.folder)!r} cannot be made: {reason}."
    )
