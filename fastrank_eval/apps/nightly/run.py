"""Evaluate nights and store them in history.

Open the rows of a night, and request what needs no label of them.

Judge provisional nights again, and compare later nights with them.
"""

from __future__ import annotations

import datetime as dt
import math
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from functools import reduce
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fastrank_eval import Measure, open_source
from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.errors import (
    ArgumentError,
    ColumnError,
    FastRankEvalError,
    SourceError,
    clean_address,
)
from fastrank_eval._lib.files import check_writable
from fastrank_eval._lib.log import NIGHTLY
from fastrank_eval._lib.threads import Progress
from fastrank_eval.apps.nightly.alarms import judge_alarms
from fastrank_eval.apps.nightly.compare_nights import (
    DAYS,
    EarlierNight,
    check_order,
    comparison_rows,
    convention_differences,
    earlier_nights,
    from_baseline,
    from_earlier,
    gate_outcomes,
    gate_so_far,
    is_complete,
    limit_outcomes,
    notes_on_end,
    with_earlier_judgement,
    with_label_delay,
    without_praise,
)
from fastrank_eval.apps.nightly.config import NightlyConfig
from fastrank_eval.apps.nightly.drift import (
    DISTRIBUTION,
    KIND,
    Distributions,
    distributions_from_bytes,
    distributions_of,
    distributions_to_bytes,
    judge_drift,
)
from fastrank_eval.apps.nightly.findings import (
    by_importance,
    changes,
    gate_findings,
    score_findings,
    undefined_findings,
    with_since,
)
from fastrank_eval.apps.nightly.history import History, open_history
from fastrank_eval.apps.nightly.night import (
    EARLIER,
    IS_EARLY,
    NO_LABELS,
    NO_LABELS_NOTE,
    Finding,
    Night,
    SavedStates,
    first_that_holds,
)
from fastrank_eval.apps.nightly.periods import merged, states_of
from fastrank_eval.apps.nightly.quality import (
    SINGLE_CLASS,
    TIED,
    UNJUDGED,
    UNSCORED,
    DistinctScores,
    calibration_of,
    curves_of,
    few_scores,
    has_curves,
    judge_rows,
    missing_slices,
    quality_of,
    scores_to_count,
    with_display_names,
    with_standard_errors,
)
from fastrank_eval.engine.options import Options
from fastrank_eval.engine.records import plain_value, refuse_if_none_left
from fastrank_eval.engine.run import Evaluation, run_together
from fastrank_eval.io.computed import ComputedColumn, with_columns
from fastrank_eval.io.source import Source, require_columns
from fastrank_eval.measures.parser import requested_measures
from fastrank_eval.results.gates import ALL
from fastrank_eval.results.notes import cluster_notes, largest_group_notes, rows_left_out_notes
from fastrank_eval.slicing.spec import SliceSpec, requested_slicing

#: Arguments that read labels, or that mean nothing without measures.
_FOR_LABELS = (
    *("weight", "subtopics", "profile", "ties", "undefined", "groups"),
    *("unjudged", "weight_rows", "sampling_rate", "baseline"),
)


@dataclass(frozen=True)
class NightSource:
    """The rows of a night.

    Parameters
    ----------
    source : Source
    columns : dict of str to str
        Columns of ``[drift]`` by the names of their numbers, which the source has too.
    zeros : str
        The name of a column of zeros, for runs that read no label.
    notes : tuple of str
        Columns of ``[drift]`` that are gone.
    """

    source: Source
    columns: dict[str, str]
    zeros: str
    notes: tuple[str, ...]

    def without_labels(self, request: Options, label: str, **changes: Any) -> Options:
        """Change a request so that it reads no label.

        Parameters
        ----------
        request : Options
        label : str
            The column of labels; slices by it are left out.
        **changes
            Other arguments of the new request.
        """
        by = [
            spec
            for spec in (requested_slicing(request.by) if request.by else ())
            if not _is_for_labels(spec, label)
        ]
        defaults = dict.fromkeys(_FOR_LABELS)
        # A null is a fact to report here, not an error.
        common = {**defaults, "label": self.zeros, "by": by, "unretrieved": "allow"}
        return request.replace(keep=frozenset(), **{**common, **changes})

    def evaluate(
        self, requests: Sequence[Options], configs: Sequence[NightlyConfig]
    ) -> tuple[list[Evaluation], list[Distributions]]:
        """Evaluate requests and columns of ``[drift]`` in one pass over the rows.

        Parameters
        ----------
        requests : sequence of Options
            One for each label. Equal requests share an evaluation.
        configs : sequence of NightlyConfig

        Returns
        -------
        evaluations : list of Evaluation
        distributions : list of dict
            Of the columns, on all rows and each slice. NaN is null.
        """
        if not self.columns:
            return run_once(requests), [{} for _ in requests]
        of_columns = [
            self.without_labels(
                request,
                config.options["label"],
                score=tuple(self.columns),
                measures=[DISTRIBUTION],
                min_groups=1,
                score_type=None,
            )
            for request, config in zip(requests, configs, strict=True)
        ]
        if requests[0].order == "sorted":  # by the scores of models, not by columns
            of_columns = [request.replace(order="grouped") for request in of_columns]
            results = [*run_once(requests), *run_once(of_columns)]
        else:
            results = run_once([*requests, *of_columns])
        return results[: len(requests)], [
            distributions_of(evaluation, config.drift.min_rows, self.columns)
            for evaluation, config in zip(results[len(requests) :], configs, strict=True)
        ]


def open_night(
    configs: Sequence[NightlyConfig], date: dt.date, known: Collection[str] = ()
) -> NightSource:
    """Open the rows of a night.

    Parameters
    ----------
    configs : sequence of NightlyConfig
        One for each label.
    date : datetime.date
    known : collection of str
        Columns of ``[drift]`` of earlier nights. They may be gone.

    Raises
    ------
    ColumnError
        Another column of ``[drift]`` is missing, or is no column of numbers.
    """
    config = configs[0]
    source = open_source(
        config.sources(date), format=config.options.get("format"), where=config.condition(date)
    )
    taken = {*source.schema.names, *chain.from_iterable(each.scores for each in configs)}
    names = config.drift.columns if config.drift.nights else ()
    columns = {free_name(f"{name} (numbers)", taken): name for name in names}
    zeros = free_name("no labels", taken)
    problems: dict[str, ColumnError] = {}
    for name in names:
        try:
            _check_numbers(source, name)
        except ColumnError as error:
            if name not in known:
                raise
            problems[name] = error

    def make_columns(source: Source) -> dict[str, ComputedColumn]:
        new_columns = {zeros: ComputedColumn(pa.int8(), (), _zeros)}
        for free, name in columns.items():
            new_columns[free] = _NULLS if name in problems else _numbers_of(source, name)
        return new_columns

    notes = tuple(f"drift: {name!r} is gone: {error}" for name, error in problems.items())
    return NightSource(with_columns(source, make_columns), columns, zeros, notes)


def run_once(requests: Sequence[Options]) -> list[Evaluation]:
    """Run requests together; equal ones share an evaluation."""
    distinct: list[Options] = []
    for request in requests:
        if request not in distinct:
            distinct.append(request)
    evaluations = run_together(distinct)
    for evaluation in evaluations:
        refuse_if_none_left(evaluation.meta.conventions, evaluation.meta.rows)
    return [evaluations[distinct.index(request)] for request in requests]


def without_label_slices(distributions: Distributions, label: str) -> Distributions:
    """Return distributions without slices by labels, such as ``@positives``."""
    return {
        key: each
        for key, each in distributions.items()
        if not key.by or not any(_is_for_labels(one, label) for one in requested_slicing(key.by))
    }


def _is_for_labels(spec: SliceSpec, label: str) -> bool:
    return any(
        column.column == ("positives" if column.activity else label) for column in spec.columns
    )


def free_name(name: str, taken: set[str], mark: str = "'") -> str:
    """Return a name that is not taken, and take it; add marks for that."""
    while name in taken:
        name += mark
    taken.add(name)
    return name


def _zeros(batch: pa.RecordBatch) -> pa.Array:
    return pa.array(np.zeros(batch.num_rows, np.int8))


#: A column without numbers.
_NULLS = ComputedColumn(pa.float64(), (), lambda batch: pa.nulls(batch.num_rows, pa.float64()))


def _check_numbers(source: Source, name: str) -> None:
    require_columns(source.schema, [name], role="[drift] columns")
    kind, types = source.schema.field(name).type, pa.types
    if not any(
        is_kind(kind)
        for is_kind in (types.is_integer, types.is_floating, types.is_boolean, types.is_null)
    ):
        raise ColumnError(
            f"[drift] columns: must be columns of numbers, got {name!r} of type {kind}; leave "
            "it out, or write it as a number."
        )


def _numbers_of(source: Source, name: str) -> ComputedColumn:
    """Return the doubles of a column, with null for NaN."""
    _check_numbers(source, name)

    def compute(batch: pa.RecordBatch) -> pa.Array:
        column = batch.column(name)
        if pa.types.is_boolean(column.type):
            column = column.cast(pa.int8())
        # Nearest doubles, also of integers beyond 2^53.
        column = column.cast(pa.float64(), safe=False)
        return pc.if_else(pc.is_nan(column), pa.scalar(None, pa.float64()), column)

    return ComputedColumn(pa.float64(), (name,), compute)


@contextmanager
def with_history_copy(config: NightlyConfig) -> Iterator[NightlyConfig]:
    """Yield a configuration without pages on a copy of the history.

    Nights stored in the copy see each other, as they would in the history itself.

    Parameters
    ----------
    config : NightlyConfig

    Raises
    ------
    HistoryError, OutputError
        The history cannot be read, or could not be created.
    """
    with TemporaryDirectory() as folder:
        copy = Path(folder) / "history.db"
        if not config.history.parent.is_dir():
            check_writable(config.history)
        with open_history(config.history) as history:
            history.check_report(config.report)
            history.copy(copy)
        yield replace(config, history=copy, folder=None)


class RowsRead(NamedTuple):
    """What the steps of a night read, beside the night itself.

    Parameters
    ----------
    states : SavedStates
        The states to merge it with other nights.
    few_scores : tuple of Finding
        Models with too few distinct scores.
    distributions : dict
        Scores and columns to compare with the nights before.
    earlier : mapping of str to EarlierNight
        By kind of difference.
    before : sequence of Night
        The nights of `DAYS` days before it, the latest first.
    """

    states: SavedStates
    few_scores: tuple[Finding, ...]
    distributions: Distributions
    earlier: Mapping[str, EarlierNight] = {}
    before: Sequence[Night] = ()


class NightRun(NamedTuple):
    """A night, and the later nights that were compared with it again."""

    night: Night
    again: tuple[Night, ...]


def nightly(
    config: NightlyConfig,
    date: dt.date,
    *,
    labels: bool = True,
    now: dt.datetime | None = None,
    progress: Callable[[Progress], object] | None = None,
) -> list[NightRun]:
    """Evaluate a night in one pass over its rows and store it in history.

    A night whose labels are not complete is provisional. If it is run again with complete labels,
    it keeps what it was, and later nights that lacked it are compared again.

    Parameters
    ----------
    config : NightlyConfig
    date : datetime.date
    labels : bool
        False reads no label: rows, nulls, distinct scores and drift are judged, and measures have
        no values. A later run with labels replaces the night.
    now : datetime.datetime, optional
        The time of the run, with a time zone; by default that of the clock.
    progress : callable, optional
        As in `evaluate`.

    Returns
    -------
    list of NightRun
        One for each label.

    Raises
    ------
    FastRankEvalError
        As in `evaluate`, or if the history cannot be written. The history is then unchanged.
        Without labels also if the history has the night with labels.
    """
    now = dt.datetime.now(dt.UTC) if now is None else now
    if now.tzinfo is None:
        raise ArgumentError(f"now: must have a time zone, got {now}; write datetime.now(UTC).")
    NIGHTLY.info("night begun", night=str(date), report=config.report)
    configs = config.for_labels()
    # Check that the history can be written before reading rows. A failed run leaves no new file.
    known: set[str] = set()
    rows = 0  # of large nights before, so that nights of about as many are computed alike
    if config.history.exists():
        with closing(History(config.history)) as history:
            _check_history(history, configs, date, labels)
            days = max(DAYS, 2 * configs[0].drift.nights)
            # Nights get the names of their labels when the first one under these is stored.
            before = [
                n for name in {"", *history.labels()} for n in history.of(name).before(date, days)
            ]
            recent = date - dt.timedelta(DAYS)
            rows = max((n.quality.rows for n in before if n.date >= recent), default=0)
            known = {drift.name for n in before for drift in n.drift}
    else:
        check_writable(config.history, overwrite=True)  # another run may create it
    evaluated = _evaluate(configs, date, labels, known, rows, now, progress)
    # The transaction shows concurrent runs a complete night or none.
    with closing(History(config.history)) as history, history.transaction():
        history.claim(config.report, config.labels or [config.options["label"]])
        _check_history(history, configs, date, labels)
        outcomes = [
            _judge_and_write(*each, own, history.of(own.label))
            for each, own in zip(evaluated, configs, strict=True)
        ]
    for outcome in outcomes:
        night = outcome.night
        NIGHTLY.info(
            "night finished",
            night=str(date),
            label=night.label or None,
            status=night.status,
            rows=night.quality.rows,
            seconds=night.seconds,
        )
    # Other runs need not wait while nights are merged.
    with closing(History(config.history)) as history:
        return [
            each._replace(night=merged(each.night, history.of(each.night.label)))
            for each in outcomes
        ]


def _evaluate(
    configs: Sequence[NightlyConfig],
    date: dt.date,
    labels: bool,
    known: Collection[str],
    rows: int,
    now: dt.datetime,
    progress: Callable[[Progress], object] | None,
) -> list[tuple[Night, RowsRead]]:
    opened = open_night(configs, date, known)
    rows = max(rows, opened.source.rows or 0)
    requests = [_request(config, opened, labels, rows, progress) for config in configs]
    try:
        evaluations, of_columns = opened.evaluate(requests, configs)
    except ColumnError as error:
        missing = {request.label for request in requests} - {*opened.source.schema.names}
        if not any(repr(label) in str(error) for label in missing):
            raise
        raise ColumnError(
            f"{error} If labels come later, judge the rest of the night with --no-labels."
        ) from None
    return [
        _evaluated_night(config, date, now, evaluation, columns, opened.notes, labels)
        for config, evaluation, columns in zip(configs, evaluations, of_columns, strict=True)
    ]


def _judge_and_write(
    night: Night, run: RowsRead, config: NightlyConfig, history: History
) -> NightRun:
    """Judge and store a night, and judge later nights that lacked it."""
    stored = next(iter(history.read(night.date, night.date)), None)
    check_order(night, stored)
    night = _judge(night, run, config, history)
    night, states = with_earlier_judgement(night, run.states, stored, history)
    history.write(night, states)
    later = compare_again(night, config, history)
    dates = ", ".join(str(each.date) for each in later)
    notes = [f"nights that are compared with it now: {dates}"] if later else []
    return NightRun(night.add(notes=notes), later)


def _request(
    config: NightlyConfig,
    opened: NightSource,
    labels: bool,
    rows: int,
    progress: Callable[[Progress], object] | None,
) -> Options:
    measures = with_standard_errors(requested_measures(list(config.measures)), rows)
    kept = ["scores"] * any(map(has_curves, measures))
    kept += ["clusters"] * (config.options.get("cluster") is not None)
    given = {
        "score": config.scores,
        "measures": [*measures, *_quality_measures(config, config.options)],
        "baseline": config.baseline,
        "keep": kept,
        "progress": progress,
        **config.options,
    }
    request = Options.read(opened.source, given)
    if labels:
        return request
    counts = _quality_measures(config, {"unretrieved": "allow"})
    label = config.options["label"]
    return opened.without_labels(request, label, measures=counts, baseline=config.baseline)


def _evaluated_night(
    config: NightlyConfig,
    date: dt.date,
    now: dt.datetime,
    evaluation: Evaluation,
    columns: Distributions,
    notes: Sequence[str],
    labels: bool,
) -> tuple[Night, RowsRead]:
    """Collect the numbers of a run; without labels only those of its rows."""
    requested = requested_measures(list(config.measures))
    counts = _quality_measures(config, config.options) if labels else evaluation.plan.measures
    hidden = frozenset(map(str, counts))
    meta, quality = evaluation.meta, quality_of(evaluation)
    values = [value for value in evaluation.summary if value.measure not in hidden]
    sources = config.sources(date)
    conventions = _conventions_of_run(evaluation, config, hidden)
    if not labels:
        conventions = {"labels": NO_LABELS, **conventions}
        label = evaluation.plan.roles.label
        quality = replace(
            quality,
            positives=0,
            ctr=math.nan,
            coverage=math.nan,
            single_class_share=math.nan,
            nulls={name: n for name, n in quality.nulls.items() if name != label},
        )
    states = states_of(evaluation, sources, hidden, config.states)
    distributions: Distributions = {}
    if config.drift.nights and quality.rows:
        distributions = {**distributions_of(evaluation, config.drift.min_rows), **columns}
        contents = {**states.contents, KIND: distributions_to_bytes(distributions)}
        states = replace(states, contents=contents)
        nulls = {key.name: each.rows - each.count for key, each in columns.items() if not key.by}
        quality = replace(quality, nulls={**quality.nulls, **nulls})
    command = ["fastrank-eval", "nightly", str(config.file), "--date", str(date)]
    measures = evaluation.plan.measures if labels else requested
    night = Night(
        date=date,
        title=config.title,
        models=config.models,
        baseline=config.baseline,
        measures=tuple(str(m) for m in measures if str(m) not in hidden),
        sources=tuple(map(clean_address, sources)),
        command=shlex.join(command if labels else [*command, "--no-labels"]),
        version=meta.version,
        seconds=meta.seconds,
        label=config.label,
        notes=(
            *cluster_notes(values, meta),
            *largest_group_notes(values, meta),
            *rows_left_out_notes(meta),
            *([] if labels else [NO_LABELS_NOTE]),
            *notes_on_end(date, now),
            *notes,
        ),
        conventions=conventions,
        values=tuple(values),
        quality=quality,
        compared=tuple(from_baseline(evaluation, values, config.options["confidence"])),
        curves=curves_of(evaluation),
        calibration=calibration_of(evaluation),
    )
    few = few_scores(evaluation, config.gates.min_distinct_scores)
    night = with_display_names(night, requested, evaluation)
    night = with_label_delay(night, config.labels_complete_after, now)
    return night, RowsRead(states, few, distributions)


def _check_history(
    history: History, configs: Sequence[NightlyConfig], date: dt.date, labels: bool
) -> None:
    """Refuse nights of another report, and nights without labels for others."""
    history.check_report(configs[0].report)
    for config in () if labels else configs:
        nights = history.of(config.label).heads(date, date)
        if any(night.has_labels and night.quality.rows for night in nights):
            raise ArgumentError(
                "--no-labels: must be a night without labels in the history, got one that has "
                "them; leave the option out to judge it again."
            )


def _quality_measures(config: NightlyConfig, options: Mapping[str, object]) -> list[Measure]:
    """Return the measures of data quality that the configuration allows."""
    by_default = "allow" if options.get("profile") is not None else None
    allowed = {name: options.get(name) or by_default for name in ("unjudged", "unretrieved")}
    scores = scores_to_count(config.gates.min_distinct_scores)
    return [
        SINGLE_CLASS,
        *[TIED] * config.quality.ties,
        *[UNJUDGED] * (allowed["unjudged"] == "allow"),
        *[UNSCORED] * (allowed["unretrieved"] == "allow"),
        *([DistinctScores(limit=scores)] if scores > 1 else []),
        *[DISTRIBUTION] * bool(config.drift.nights),
    ]


def _conventions_of_run(
    evaluation: Evaluation, config: NightlyConfig, hidden: Collection[str]
) -> dict[str, Any]:
    """Return the conventions, columns and quality limits of a run."""
    conventions: dict[str, Any] = plain_value(evaluation.meta.conventions)
    conventions.pop("group", None)  # `columns` has it
    measures, given = conventions["measures"], config.options
    conventions["measures"] = {name: measures[name] for name in measures if name not in hidden}
    if config.where is not None:
        conventions["where"] = config.where
    if "format" in given:
        conventions["format"] = given["format"]
    columns = {
        name: given[name] for name in ("group", "cluster", "label", "item") if given.get(name)
    }
    limits = {name: limit for name, limit in vars(config.quality).items() if limit is not None}
    return {**conventions, "columns": plain_value(columns), "quality": plain_value(limits)}


def _differences(night: Night, run: RowsRead, config: NightlyConfig, history: History) -> Night:
    """Compare with earlier nights, and say why with which not."""
    since = (
        from_earlier(kind, night.values, each.night.values, config.options["confidence"])
        for kind, each in run.earlier.items()
        if each.night is not None
    )
    notes = (
        f"not compared with {kind.replace('_', ' ')}: {each.reason}"
        for kind, each in run.earlier.items()
        if each.incomparable
    )
    compared = without_praise(chain(night.compared, *since), night)
    return replace(night.add(notes=notes), compared=tuple(compared))


def _quality(night: Night, run: RowsRead, config: NightlyConfig, history: History) -> Night:
    first, last = (night.date - dt.timedelta(days) for days in (2 * DAYS, DAYS + 1))
    older = history.heads(first, last, f"strftime('%w', date) = '{night.date:%w}'")
    before, limits = [*run.before, *older[::-1]], config.quality
    repeated = history.repeated(run.states.fingerprint, night.date)
    dead = {one.score for one in run.few_scores if one.condition and one.slice == ALL}
    judged = replace(night, quality=judge_rows(night, before, limits, repeated, dead))
    return judged.add(findings=missing_slices(night, before, limits.note_missing))


def _gates(night: Night, run: RowsRead, config: NightlyConfig, history: History) -> Night:
    judged = gate_outcomes(night, config.gates, run.earlier)
    outcomes = [gate_so_far(outcome, night, config.gates) for outcome, _ in judged]
    found = gate_findings(night, judged) if night.quality.rows else []
    found += score_findings(night, run.few_scores)
    return night.add(gates=[*outcomes, *limit_outcomes(run.few_scores)], findings=found)


def _drift(night: Night, run: RowsRead, config: NightlyConfig, history: History) -> Night:
    distributions = run.distributions
    if night.provisional:
        distributions = without_label_slices(distributions, config.options["label"])
    return judge_drift(night, distributions, run.few_scores, config.drift, history)


def _alarms(night: Night, run: RowsRead, config: NightlyConfig, history: History) -> Night:
    outcomes, found, notes = judge_alarms(night, config.gates, history, labels=config.alarms)
    return night.add(gates=outcomes, findings=found, notes=notes)


def _changes(night: Night, run: RowsRead, config: NightlyConfig, history: History) -> Night:
    if not night.quality.rows or night.provisional:
        return night
    found = undefined_findings(night)
    return night.add(findings=[*found, *changes(night, config.gates, history, run.before)])


def _status(night: Night, run: RowsRead, config: NightlyConfig, history: History) -> Night:
    reached = {
        # Numbers of rows that did not pass the checks do not describe the models.
        "data_quality": night.quality.flags,
        "regression": not all(gate.passed for gate in night.gates),
        "provisional": night.provisional,
        "changed": not all(finding.condition for finding in night.findings),
    }
    dated = (
        each if each.since else with_since(night.date, each, run.before) for each in night.findings
    )
    status = first_that_holds(reached) or "fine"
    return replace(night, status=status, findings=by_importance(dated))


#: What judges a night, in this order; each returns the night with more in it.
STEPS = (_differences, _quality, _gates, _alarms, _drift, _changes, _status)


def _judge(night: Night, run: RowsRead, config: NightlyConfig, history: History) -> Night:
    """Compare a night with earlier ones, and judge rows, gates and changes."""
    run = run._replace(
        earlier=earlier_nights(night, history), before=history.before(night.date, DAYS)
    )
    return reduce(lambda made, step: step(made, run, config, history), STEPS, night)


#: The time after labels are complete in which a night that cannot be judged again is tried again.
_TRIES = dt.timedelta(days=7)
_NOT_AGAIN = "not judged again with complete labels: "


def due_nights(config: NightlyConfig, now: dt.datetime) -> dict[dt.date, tuple[str, ...]]:
    """Return the stored nights to judge again, ascending.

    Parameters
    ----------
    config : NightlyConfig
    now : datetime.datetime
        With a time zone.

    Returns
    -------
    dict of datetime.date to tuple of str
        Provisional nights, and nights without labels, whose labels are complete, with these labels
        (an empty text in a report of one label). A night that could not be judged again is among
        them for a week. Without ``labels_complete_after`` labels are complete at once, and nights
        without labels wait for a run of their date. Empty if the history cannot be read: the run
        of a night reports the error.
    """
    due: dict[dt.date, tuple[str, ...]] = {}
    if not config.history.exists():
        return due
    with suppress(FastRankEvalError), History(config.history) as history:
        history.check_report(config.report)
        for each in config.for_labels():
            after = each.labels_complete_after
            for night in history.of(each.label).heads(condition=IS_EARLY):
                waits = night.provisional or after is not None
                if waits and _is_due(night, after, now):
                    due[night.date] = (*due.get(night.date, ()), each.label)
    return dict(sorted(due.items()))


def _is_due(night: Night, after: dt.timedelta | None, now: dt.datetime) -> bool:
    tries = not is_complete(night.date, (after or dt.timedelta()) + _TRIES, now)
    return is_complete(night.date, after, now) and (tries or not _was_tried(night))


def _was_tried(night: Night) -> bool:
    return any(note.startswith(_NOT_AGAIN) for note in night.notes)


def keep_provisional(config: NightlyConfig, date: dt.date, reason: str) -> Night | None:
    """Note on a night that it could not be judged again.

    Parameters
    ----------
    config : NightlyConfig
    date : datetime.date
    reason : str

    Returns
    -------
    Night or None
        The night with the note; None if it has one, or if another run has judged it meanwhile.
    """
    with closing(History(config.history).of(config.label)) as history, history.transaction():
        stored = [night for night in history.read(date, date) if night.is_early]
        if not stored or _was_tried(stored[0]):
            return None
        night = stored[0].add(notes=[_NOT_AGAIN + reason.removesuffix(".")])
        history.write(night, history.states(date))
        return night


def compare_again(night: Night, config: NightlyConfig, history: History) -> tuple[Night, ...]:
    """Compare later complete nights with a night that was provisional.

    A complete night is not compared with a provisional one until that is judged again. Its rows
    are not read.

    Parameters
    ----------
    night : Night
        A night that was stored just now, in the same transaction.
    config : NightlyConfig
    history : History

    Returns
    -------
    tuple of Night
        The nights that were written, ascending. Nights of other conventions, measures or models
        are left as they are.
    """
    if night.provisional or night.judged_before is None:
        return ()
    with suppress(OverflowError):
        dates = {kind: night.date + dt.timedelta(days=days) for kind, days in EARLIER.items()}
        return tuple(
            _judge_stored(later, night, config, history)
            for kind, date in dates.items()
            for later in history.read(date, date)
            if not comparison_rows(later, kind) and _can_be_compared(later, night)
        )
    return ()


def _can_be_compared(later: Night, night: Night) -> bool:
    same = (later.models, later.baseline, later.measures) == (
        night.models, night.baseline, night.measures
    )  # fmt: skip
    complete = later.has_labels and not later.provisional and later.quality.rows > 0
    return complete and same and not convention_differences(later, night)


def _judge_stored(later: Night, night: Night, config: NightlyConfig, history: History) -> Night:
    """Judge a night from the history and write it."""
    states, distributions = history.states(later.date), {}
    if KIND in states.contents:
        with suppress(SourceError):
            name = f"the drift state of {later.date}"
            distributions = distributions_from_bytes(states.contents[KIND], name)
    few = tuple(each.without_measure() for each in later.findings if each.kind == "scores")
    evaluated = replace(
        later,
        compared=tuple(comparison_rows(later, "baseline")),
        notes=(f"compared again: the labels of {night.date} are complete",),
        gates=(),
        findings=(),
        drift=(),
    )
    judged = _judge(evaluated, RowsRead(states, few, distributions), config, history)
    history.write(judged, states)
    return judged
