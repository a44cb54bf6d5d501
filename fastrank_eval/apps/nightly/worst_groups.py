"""Write the worst groups of failed gates as Parquet."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fastrank_eval._lib.arrow import arrow_column, arrow_value, column_with_nulls
from fastrank_eval._lib.errors import ArgumentError, OutputError
from fastrank_eval._lib.files import atomic_path
from fastrank_eval.apps.nightly.config import NightlyConfig
from fastrank_eval.apps.nightly.night import EARLIER, Finding, Night
from fastrank_eval.apps.nightly.night_source import free_name
from fastrank_eval.apps.nightly.reproduce import is_paired, next_steps, rows_condition
from fastrank_eval.engine.group_table import GroupTable
from fastrank_eval.engine.run import run
from fastrank_eval.measures import Measure
from fastrank_eval.measures.parser import measure as measure_of
from fastrank_eval.results.attribution import contributions, is_mean, largest_changes
from fastrank_eval.results.compared_value import direction_of

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
    _check_replaceable(path)


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
    _check_replaceable(path)
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
            key = finding.score, finding.slice, str(measure)
            value, difference = night.value_of(*key), night.difference_of(finding.compared, *key)
            bare = replace(finding, measure=key[2], value=math.nan, base=math.nan, delta=math.nan)
            finding = bare.with_numbers(value, difference, finding.against)
        key = tuple(getattr(finding, name) for name in _KEYS)
        try:
            where = rows_condition(night, finding)
        except ArgumentError:
            continue
        if key not in seen:
            seen.add(key)
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


def _check_replaceable(path: Path) -> None:
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
