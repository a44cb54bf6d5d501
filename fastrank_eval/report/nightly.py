"""A night from its rows to history and page."""

from __future__ import annotations

import datetime as dt
import shlex
from collections.abc import Callable, Collection, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, replace

from fastrank_eval.evaluation import Evaluation, run
from fastrank_eval.measures import Measure
from fastrank_eval.measures.text import measures_asked
from fastrank_eval.output import check_writable
from fastrank_eval.plain_values import plain_value
from fastrank_eval.progress import Progress
from fastrank_eval.report import drift
from fastrank_eval.report.changes import changes
from fastrank_eval.report.config import NightlyConfig
from fastrank_eval.report.differences import from_baseline, from_earlier
from fastrank_eval.report.earlier_nights import earlier_nights
from fastrank_eval.report.few_scores import (
    FewScores,
    counted_scores,
    few_scores,
    outcomes_of_few,
)
from fastrank_eval.report.findings import gate_findings, in_order, score_findings, with_since
from fastrank_eval.report.history import History
from fastrank_eval.report.measure_names import names_shown, taken
from fastrank_eval.report.night_curves import curves_of, draws_curves
from fastrank_eval.report.night_gates import gate_outcomes
from fastrank_eval.report.night_state import states_of
from fastrank_eval.report.nights import Finding, KeptStates, Night, NightDifference
from fastrank_eval.report.places import values_of
from fastrank_eval.report.quality import judged, quality_of
from fastrank_eval.report.rehearsal import check_folder
from fastrank_eval.report.row_counts import (
    SINGLE_CLASS,
    TIED,
    UNJUDGED,
    UNSCORED,
    distinct_scores,
)

__all__ = ["NightRun", "nightly"]


@dataclass(frozen=True)
class NightRun:
    """What a run came to.

    Parameters
    ----------
    night : Night
        As it was kept.
    kept : KeptStates
        What was kept to merge it with others.
    """

    night: Night
    kept: KeptStates


@dataclass(frozen=True)
class _Evaluated:
    """A night that knows nothing of other nights yet."""

    night: Night
    kept: KeptStates
    asked: dict[str, str]
    confidence: float
    few_scores: tuple[FewScores, ...] = ()


def nightly(
    config: NightlyConfig,
    date: dt.date,
    *,
    dry_run: bool = False,
    progress: Callable[[Progress], object] | None = None,
) -> NightRun:
    """Evaluate a night in one pass over its rows and keep it in history.

    Parameters
    ----------
    config : NightlyConfig
    date : datetime.date
    dry_run : bool
        Write nothing.
    progress : callable, optional
        As `evaluate` takes it.

    Returns
    -------
    NightRun

    Raises
    ------
    FastRankEvalError
        As `evaluate` does, or if the history cannot be written. Nothing has changed then.
    """
    if dry_run:
        if not config.history.exists():
            check_folder(config.history)
            found = _evaluated(config, date, progress)
            return NightRun(_compared(found, config, None), found.kept)
        with closing(History(config.history, readonly=True)) as history:
            history.claim(config.report)
            found = _evaluated(config, date, progress)
            return NightRun(_compared(found, config, history), found.kept)
    # What cannot be written is found before the rows are read; what they fail leaves nothing.
    if config.history.exists():
        with closing(History(config.history)) as history:
            history.claim(config.report)
    else:
        check_writable(config.history, overwrite=True)  # another run may make it
    found = _evaluated(config, date, progress)
    # Two runs at once see each other's nights whole or not at all.
    with closing(History(config.history)) as history, history.transaction():
        history.claim(config.report)
        night = _compared(found, config, history)
        history.write(night, found.kept)
    return NightRun(night, found.kept)


def _evaluated(
    config: NightlyConfig,
    date: dt.date,
    progress: Callable[[Progress], object] | None,
) -> _Evaluated:
    asked = measures_asked(list(config.measures))
    wanted, counted = taken(asked), _counted(config)
    hidden = frozenset(map(str, counted))
    sources = config.sources(date)
    source = sources[0] if len(sources) == 1 else sources
    done = run(
        source,
        score=config.scores,
        measures=[*wanted, *counted],
        baseline=config.baseline,
        where=config.condition(date),
        per_group=False,
        keep_scores=any(map(draws_curves, wanted)),
        progress=progress,
        **config.options,
    )
    values, confidence = values_of(done, hidden), config.options["confidence"]
    night = Night(
        date=date,
        title=config.title,
        models=config.scores,
        baseline=config.baseline,
        measures=tuple(str(m) for m in done.plan.measures if str(m) not in hidden),
        sources=tuple(sources),
        command=shlex.join(["fastrank-eval", "nightly", str(config.file), "--date", str(date)]),
        version=done.meta.version,
        seconds=done.meta.seconds,
        conventions=_told(done, config, hidden),
        values=tuple(values),
        quality=quality_of(done),
        compared=tuple(from_baseline(done, values, confidence)),
        curves=curves_of(done),
    )
    kept = states_of(done, source, hidden, config.states)
    shown = names_shown(asked, done.plan.measures)
    names = {shown.get(name, name): shown.get(text, text) for name, text in done.asked.items()}
    few = few_scores(done, config.gates.min_distinct_scores)
    return _Evaluated(_renamed(night, shown, names), kept, names, confidence, few)


def _renamed(night: Night, shown: Mapping[str, str], requested: Mapping[str, str]) -> Night:
    """Give measures the names that a night shows, and tell which were requested by others."""
    measured = night.conventions["measures"]
    if isinstance(measured, Mapping):
        measured = {shown.get(text, text): how for text, how in measured.items()}
    return replace(
        night,
        measures=tuple(shown.get(text, text) for text in night.measures),
        conventions={
            **night.conventions,
            "measures": measured,
            **({"requested": dict(requested)} if requested else {}),
        },
        values=tuple(replace(v, measure=shown.get(v.measure, v.measure)) for v in night.values),
        compared=tuple(
            replace(line, measure=shown.get(line.measure, line.measure)) for line in night.compared
        ),
    )


def _counted(config: NightlyConfig) -> list[Measure]:
    """What the data quality of a night is found by, of what can be found."""
    counted: list[Measure] = [SINGLE_CLASS]
    if config.quality.ties:
        counted.append(TIED)
    profile = config.options.get("profile")
    for option, measure in (("unjudged", UNJUDGED), ("unretrieved", UNSCORED)):
        chosen = config.options.get(option)
        if chosen == "allow" or (chosen is None and profile is not None):
            counted.append(measure)
    scores = counted_scores(config.gates.min_distinct_scores)
    if scores > 1:
        counted.append(distinct_scores(scores))
    return counted


def _told(done: Evaluation, config: NightlyConfig, hidden: Collection[str]) -> dict[str, object]:
    """The conventions of the run, which columns it read, what its rows had to be like."""
    told: dict[str, object] = plain_value(done.meta.conventions)
    measures = told["measures"]
    if isinstance(measures, dict):
        told["measures"] = {name: how for name, how in measures.items() if name not in hidden}
    if config.where is not None:
        told["where"] = config.where
    given = {name: config.options.get(name) for name in ("group", "label", "item")}
    told["columns"] = plain_value({name: column for name, column in given.items() if column})
    limits = {name: limit for name, limit in asdict(config.quality).items() if limit is not None}
    told["quality"] = plain_value(limits)
    return told


def _compared(found: _Evaluated, config: NightlyConfig, history: History | None) -> Night:
    """The night beside those before it, judged."""
    night = found.night
    compared: list[NightDifference] = list(night.compared)
    earlier = earlier_nights(night, history)
    for kind, before in earlier.items():
        if before.night is not None:
            compared += from_earlier(kind, night.values, before.night.values, found.confidence)
    volumes = [] if history is None else history.volumes(night.date, drift.NIGHTS, drift.DAYS)
    same = None if history is None else history.repeated(found.kept.fingerprint, night.date)
    quality = judged(night.quality, volumes, config.quality, same)
    notes = [
        f"not compared with {kind.replace('_', ' ')}: {before.why}"
        for kind, before in earlier.items()
        if before.unlike
    ]
    night = replace(night, compared=tuple(compared), quality=quality, notes=tuple(notes))
    judged_gates = gate_outcomes(night, config.gates, found.asked, earlier)
    gates = [gate.outcome for gate in judged_gates] + outcomes_of_few(found.few_scores)
    findings: list[Finding] = []
    if quality.rows:
        findings += gate_findings(night, judged_gates, found.asked)
        findings += score_findings(night, found.few_scores)
    found_before = [] if history is None else history.findings(night.date, drift.DAYS)
    findings = with_since(night.date, findings, found_before)
    if quality.rows:
        findings += changes(night, config.gates, found.asked, history, found_before)
    status = "changed" if any(not finding.condition for finding in findings) else "fine"
    status = status if all(gate.passed for gate in gates) else "regression"
    # Numbers of rows that are not sound tell nothing of the models.
    status = "data_quality" if quality.flags else status
    return replace(night, gates=tuple(gates), status=status, findings=in_order(findings))
