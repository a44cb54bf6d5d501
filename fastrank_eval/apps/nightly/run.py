"""Evaluate nights, and keep them."""

from __future__ import annotations

import datetime as dt
import hashlib
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from fastrank_eval._lib.errors import ColumnError, OutputError
from fastrank_eval._lib.files import check_writable
from fastrank_eval._lib.progress import Progress
from fastrank_eval._lib.threads import in_order
from fastrank_eval.analysis import curve_points
from fastrank_eval.analysis.curve_points import Thresholds
from fastrank_eval.apps.nightly import compare_nights
from fastrank_eval.apps.nightly.changes import changes
from fastrank_eval.apps.nightly.compare_nights import earlier_nights, from_baseline, from_earlier
from fastrank_eval.apps.nightly.config import NightlyConfig
from fastrank_eval.apps.nightly.findings import (
    FewScores,
    by_importance,
    counted_scores,
    few_scores,
    gate_findings,
    outcomes_of_few,
    score_findings,
    with_since,
)
from fastrank_eval.apps.nightly.gates import gate_outcomes
from fastrank_eval.apps.nightly.history import History
from fastrank_eval.apps.nightly.night import (
    CurveLine,
    Finding,
    Night,
    NightDifference,
    SavedStates,
    names_shown,
    taken,
    values_of,
)
from fastrank_eval.apps.nightly.quality import (
    SINGLE_CLASS,
    TIED,
    UNJUDGED,
    UNSCORED,
    distinct_scores,
    judged,
    quality_of,
)
from fastrank_eval.engine.plan import Plan
from fastrank_eval.engine.records import plain_value
from fastrank_eval.engine.run import Evaluation, run
from fastrank_eval.engine.totals import SharedStates, Totals
from fastrank_eval.measures import Measure
from fastrank_eval.measures.auc import PooledAUC
from fastrank_eval.measures.parser import requested_measures
from fastrank_eval.measures.pooled import ClusteredMeasure
from fastrank_eval.results.run_state import state_of_run
from fastrank_eval.results.state import State
from fastrank_eval.stats.score_table import ScoreTable

__all__ = ["KINDS", "NightRun", "check_folder", "curves_of", "nightly", "rehearsed", "states_of"]

#: The states of a night: of measures of groups, of measures of all rows that are a few sums, and of
#: those that are read from the score of every row, which grow with the rows.
KINDS = ("groups", "sums", "scores")


def states_of(
    done: Evaluation, source: object, hidden: Collection[str], keep: str = "slices"
) -> SavedStates:
    """Keep what a run has added up.

    Parameters
    ----------
    done : Evaluation
    source : object
        As `run` was given it.
    hidden : collection of str
        Measures of groups that are left out: no other run knows them.
    keep : str
        One of `STATES`.
    """
    told = [m for m in done.plan.measures if str(m) not in hidden]
    chosen: dict[str, list[Measure]] = {kind: [] for kind in KINDS}
    for measure in told:
        chosen[_kind(measure)].append(measure)
    sliced = {"groups": ("everything", "slices")}
    states = {
        kind: _state(done, source, measures, keep in sliced.get(kind, ("everything",)))
        for kind, measures in chosen.items()
        if measures and (keep != "groups" or kind == "groups")
    }
    prints = [
        seen.fingerprint for state in states.values() for seen in state.provenance if seen.rows
    ]
    fingerprint = hashlib.sha256("".join(prints).encode()).hexdigest() if prints else ""
    return SavedStates({kind: state.to_bytes() for kind, state in states.items()}, fingerprint)


def _kind(measure: Measure) -> str:
    if not measure.pooled:
        return "groups"
    return "sums" if isinstance(measure, ClusteredMeasure) else "scores"


def _state(done: Evaluation, source: object, measures: list[Measure], sliced: bool) -> State:
    chosen = [done.plan.measures.index(m) for m in measures]
    plan = replace(done.plan, measures=tuple(measures))
    if not sliced:
        plan = replace(plan, slicing=None)
    totals = Totals(plan, done.totals.shared if sliced else _of_all_rows(done, plan))
    totals.overall = done.totals.overall.of_measures(plan, chosen)
    if sliced:
        totals.slices = [sums.of_measures(plan, chosen) for sums in done.totals.slices]
    texts = set(map(str, measures))
    requested = {name: text for name, text in done.requested.items() if text in texts}
    state = state_of_run(replace(done, plan=plan, totals=totals, requested=requested), source)
    return state if sliced else state.without_slices()


def _of_all_rows(done: Evaluation, plan: Plan) -> SharedStates:
    pools = SharedStates(plan)
    pools.overall = done.totals.shared.overall
    return pools


_POINTS, _BINS, _DIGITS = 100, 20, 6


def draws_curves(measure: Measure) -> bool:
    """Whether it keeps the score of every row, and which rows are of grade 1 or more."""
    return isinstance(measure, PooledAUC) and measure.bins is None and measure.rel == 1


def curves_of(done: Evaluation) -> dict[str, tuple[CurveLine, ...]]:
    """The curves of every model, of the scores that AUC has kept.

    Parameters
    ----------
    done : Evaluation
        Without AUC among its measures, or with AUC in bins only, there are no curves; nor is there
        one of calibration of a model whose scores are no probabilities.

    Returns
    -------
    dict of str to tuple of CurveLine
        ``"roc"``: true over false positive rate; ``"calibration"``: observed rate over mean
        prediction, in bins of equally many rows.
    """
    drawing = [m for m in done.plan.measures if isinstance(m, PooledAUC) and draws_curves(m)]
    if not drawing:
        return {}
    # The area under the curve drawn, if there is one of all of it.
    auc = min(drawing, key=lambda m: m.max_fpr is not None)
    tables = dict(_tables(done, auc))
    lines = {
        "roc": [
            _roc(score, table, done, auc) for score, table in tables.items() if not table.missing
        ],
        "calibration": [_calibration(score, table, done) for score, table in tables.items()],
    }
    found = {kind: tuple(line for line in of if line is not None) for kind, of in lines.items()}
    return {kind: of for kind, of in found.items() if of}


def _tables(done: Evaluation, auc: PooledAUC) -> Iterator[tuple[str, ScoreTable]]:
    for score, pools in zip(done.plan.roles.scores, done.totals.row_states, strict=True):
        state = pools[auc.state_key()]
        scores = state.scores if auc.se == "clustered" else state
        yield score, scores.table(partial(in_order, done.plan.threads))


def _roc(score: str, table: ScoreTable, done: Evaluation, auc: PooledAUC) -> CurveLine | None:
    if not len(table.score):
        return None
    points = curve_points.curve_columns("roc", Thresholds.of(table), _POINTS)
    called = "AUC" if auc.max_fpr is None else f"AUC(max_fpr={auc.max_fpr:g})"
    label = f"{called} {next(_aucs(done, score, auc)):.4f}"
    return CurveLine(score, label, _rounded(points["fpr"]), _rounded(points["tpr"]))


def _aucs(done: Evaluation, score: str, auc: PooledAUC) -> Iterator[float]:
    for line in done.summary:
        if (line.score, line.slice, line.measure) == (score, "all", str(auc)):
            yield line.value


def _calibration(score: str, table: ScoreTable, done: Evaluation) -> CurveLine | None:
    if not len(table.score) or not table.positive + table.other > 0:
        return None
    rate = done.meta.conventions["sampling_rate"]
    try:
        bins = curve_points.calibration_bins(
            table, score, bins=_BINS, binning="equal-count", confidence=0.95,
            sampling_rate=float(rate) if isinstance(rate, int | float) else 1.0,
        )  # fmt: skip
    except ColumnError:  # scores that are no probabilities
        return None
    many = len(bins["mean_prediction"])
    label = f"ECE {curve_points.expected_error(bins):.4f} ({many} bins of equal count)"
    return CurveLine(
        score, label, _rounded(bins["mean_prediction"]), _rounded(bins["observed_rate"])
    )


def _rounded(values: object) -> tuple[float, ...]:
    return tuple(float(f"{value:.{_DIGITS}g}") for value in values)  # type: ignore[attr-defined]


def check_folder(history: Path) -> None:
    """Refuse a history whose folder is not there.

    Raises
    ------
    OutputError
    """
    if not history.parent.is_dir():
        raise OutputError(
            f"cannot write {str(history)!r}: folder {str(history.parent)!r} does not exist; "
            "create it first."
        )


@contextmanager
def rehearsed(config: NightlyConfig) -> Iterator[NightlyConfig]:
    """Give a configuration whose history is a copy, gone afterwards, and that has no pages.

    Nights that are kept by it see each other as they would in the history itself.

    Parameters
    ----------
    config : NightlyConfig

    Raises
    ------
    HistoryError, OutputError
        The history cannot be read, or could not be made.
    """
    with TemporaryDirectory() as folder:
        copy = Path(folder) / "history.db"
        check_folder(config.history)
        if config.history.exists():
            with History(config.history, readonly=True) as history:
                history.copy(copy)
        yield replace(config, history=copy, folder=None)


@dataclass(frozen=True)
class NightRun:
    """What a run came to.

    Parameters
    ----------
    night : Night
        As it was kept.
    kept : SavedStates
        What was kept to merge it with others.
    """

    night: Night
    kept: SavedStates


@dataclass(frozen=True)
class _Evaluated:
    """A night that knows nothing of other nights yet."""

    night: Night
    kept: SavedStates
    requested: dict[str, str]
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
    requested = requested_measures(list(config.measures))
    wanted, counted = taken(requested), _counted(config)
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
    shown = names_shown(requested, done.plan.measures)
    names = {shown.get(name, name): shown.get(text, text) for name, text in done.requested.items()}
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
    volumes = (
        []
        if history is None
        else history.volumes(night.date, compare_nights.NIGHTS, compare_nights.DAYS)
    )
    same = None if history is None else history.repeated(found.kept.fingerprint, night.date)
    quality = judged(night.quality, volumes, config.quality, same)
    notes = [
        f"not compared with {kind.replace('_', ' ')}: {before.why}"
        for kind, before in earlier.items()
        if before.unlike
    ]
    night = replace(night, compared=tuple(compared), quality=quality, notes=tuple(notes))
    judged_gates = gate_outcomes(night, config.gates, found.requested, earlier)
    gates = [gate.outcome for gate in judged_gates] + outcomes_of_few(found.few_scores)
    findings: list[Finding] = []
    if quality.rows:
        findings += gate_findings(night, judged_gates, found.requested)
        findings += score_findings(night, found.few_scores)
    found_before = [] if history is None else history.findings(night.date, compare_nights.DAYS)
    findings = with_since(night.date, findings, found_before)
    if quality.rows:
        findings += changes(night, config.gates, found.requested, history, found_before)
    status = "changed" if any(not finding.condition for finding in findings) else "fine"
    status = status if all(gate.passed for gate in gates) else "regression"
    # Numbers of rows that are not sound tell nothing of the models.
    status = "data_quality" if quality.flags else status
    return replace(night, gates=tuple(gates), status=status, findings=by_importance(findings))
