"""Whether the rows of a night are sound enough for its numbers to mean anything."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from fastrank_eval.evaluation import Evaluation
from fastrank_eval.measures import Measure
from fastrank_eval.report.config import QualityLimits
from fastrank_eval.report.drift import drift
from fastrank_eval.report.nights import NightQuality
from fastrank_eval.report.row_counts import SINGLE_CLASS, TIED, UNJUDGED, UNSCORED

__all__ = ["judged", "quality_of"]


def quality_of(done: Evaluation) -> NightQuality:
    """What a run tells of its rows, as yet without their drift.

    Parameters
    ----------
    done : Evaluation
        Of a plan with the measures of `row_counts`; what those left out would tell is NaN.
    """
    plan, whole = done.plan, done.tally.whole
    rows, groups, positives = whole.rows(), whole.groups(), whole.positives()
    model = plan.baseline or 0
    single = _counted(done, SINGLE_CLASS, model)
    if SINGLE_CLASS in plan.measures:
        # Groups that no measure is to see have no positive row.
        at = plan.measures.index(SINGLE_CLASS)
        single = (0 if math.isnan(single) else single) + sum(
            whole.means[model].dropped(at).values()
        )
    return NightQuality(
        rows=rows,
        groups=groups,
        positives=positives,
        ctr=_share(positives, rows),
        coverage=_coverage(done, model),
        single_class_share=_share(single, groups),
        tie_rate=_share(_counted(done, TIED, model), rows),
        nulls=_nulls(done),
        tie_rates={
            score: _share(_counted(done, TIED, at), rows)
            for at, score in enumerate(plan.roles.scores)
            if TIED in plan.measures and rows
        },
    )


def judged(
    quality: NightQuality,
    volumes: Sequence[tuple[int, float]],
    limits: QualityLimits,
    repeated: dt.date | None = None,
) -> NightQuality:
    """The same with drift and what is wrong.

    Parameters
    ----------
    quality : NightQuality
    volumes : sequence of (int, float)
        Rows and CTR of the nights before that have rows.
    limits : QualityLimits
    repeated : datetime.date, optional
        An earlier night that has the same rows.
    """
    found = replace(
        quality,
        volume_drift=drift(float(quality.rows), [float(rows) for rows, _ in volumes]),
        ctr_drift=drift(quality.ctr, [ctr for _, ctr in volumes]),
    )
    flags = [] if repeated is None else [f"the rows are those of {repeated}"]
    flags.append(_below("rows", found.rows, limits.min_rows))
    flags.append(_below("groups", found.groups, limits.min_groups))
    flags.append(_below("coverage", found.coverage, limits.min_coverage))
    flags.append(
        _above("share of groups of one class", found.single_class_share,
               limits.max_single_class_share)
    )  # fmt: skip
    for score, rate in found.tie_rates.items():
        flags.append(_above(f"tie rate of {score!r}", rate, limits.max_tie_rate))
    for column, nulls in found.nulls.items():
        share = _share(nulls, found.rows)
        flags.append(_above(f"share of nulls of {column!r}", share, limits.max_null_share))
    flags.append(_far("rows", found.volume_drift, limits.max_volume_drift))
    flags.append(_far("CTR", found.ctr_drift, limits.max_ctr_drift))
    return replace(found, flags=tuple(flag for flag in flags if flag))


def _counted(done: Evaluation, counted: Measure, model: int) -> float:
    if counted not in done.plan.measures:
        return math.nan
    return done.tally.whole.means[model].sum(done.plan.measures.index(counted))


def _coverage(done: Evaluation, model: int) -> float:
    """The share of groups that GAUC uses, or the first measure over groups, or the first."""
    plan = done.plan
    of_groups = [m for m in plan.measures if not m.pooled]
    asked = [m for m in of_groups if m not in (TIED, SINGLE_CLASS, UNSCORED, UNJUDGED)]
    gauc = [m for m in asked if m.name == "GAUC"]
    chosen = (gauc or asked or [plan.measures[0]])[0]
    score = plan.roles.scores[model]
    for line in done.lines:
        if (line.score, line.slice, line.measure) == (score, "all", str(chosen)):
            return _share(line.groups_used, line.groups)
    return math.nan


def _nulls(done: Evaluation) -> dict[str, int]:
    """Nulls of each column that may hold some, and 0 of those whose nulls are an error."""
    plan, roles = done.plan, done.plan.roles
    found = dict.fromkeys((*roles.group, roles.label, *roles.scores), 0)
    if roles.unjudged == "drop":
        del found[roles.label]
    if UNJUDGED in plan.measures:
        found[roles.label] = _whole(_counted(done, UNJUDGED, 0))
    for model, score in enumerate(roles.scores):
        if UNSCORED in plan.measures:
            found[score] = _whole(_counted(done, UNSCORED, model))
    for slicing, sums in zip(plan.slicings, done.tally.slices, strict=True):
        slices = slicing.slices()
        for part in slicing.spec.parts:
            if part.activity:
                continue
            null = _null_mask(slices.values[part.name])
            found[part.column] = sum(
                sums.rows(line)
                for line, missing in zip(slices.codes.tolist(), null, strict=True)
                if missing
            )
    return found


def _null_mask(values: pa.Array) -> list[bool]:
    return [bool(missing) for missing in values.is_null().to_pylist()]


def _whole(number: float) -> int:
    return 0 if math.isnan(number) else round(number)


def _share(part: float, whole: float) -> float:
    return part / whole if whole else math.nan


def _below(what: str, value: float, least: float | None) -> str:
    return f"{what} {value:,.6g}, below {least:,.6g}" if least is not None and value < least else ""


def _above(what: str, value: float, most: float | None) -> str:
    return f"{what} {value:.4g}, above {most:.4g}" if most is not None and value > most else ""


def _far(what: str, distance: float, most: float | None) -> str:
    if most is None or math.isnan(distance) or abs(distance) <= most:
        return ""
    way = "more" if distance > 0 else "less"
    return f"{what} {abs(distance):.3g} deviations {way} than on the nights before"
