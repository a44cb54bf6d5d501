"""A month of nights made up: a drift, a bad night, an empty partition, a slice that breaks."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from random import Random

from fastrank_eval.apps.nightly.night import (
    CurveLine,
    GateOutcome,
    Night,
    NightDifference,
    NightQuality,
)
from fastrank_eval.engine.records import MeasureValue

LAST = dt.date(2026, 11, 19)
MODELS = ("ctr_prod", "ctr_wide", "ctr_small")
MEASURES = ("GAUC", "AUC", "nDCG@10", "PCOC")
BASELINE = MODELS[0]
BAD, EMPTY = 11, 22  # nights before the last
BROKEN = "country=br"
_FEW = ("all", "slot=1", BROKEN, "@rows<2", "@rows=2-4")

_COUNTRIES = "us de fr br jp in gb mx es it kr id ca au nl se pl tr ar cl co th vn za"
_DEVICES = "phone tablet desktop tv other null"
_ACTIVITY = ("<2", "=2-4", "=5-9", "=10-19", "=20-49", "=50-99", "=100-199", ">=200")
SLICES = (
    *(("slot", f"slot={slot}") for slot in range(1, 13)),
    *(("country", f"country={country}") for country in _COUNTRIES.split()),
    *(("device", f"device={device}") for device in _DEVICES.split()),
    *(("@rows:2,5,10,20,50,100,200", f"@rows{bucket}") for bucket in _ACTIVITY),
)  # fmt: skip

_LEVEL = {"GAUC": 0.668, "AUC": 0.741, "nDCG@10": 0.512, "PCOC": 1.012}
_MODEL = {"ctr_prod": 0.0, "ctr_wide": 0.0042, "ctr_small": -0.0065}
_ERROR = {"GAUC": 0.0011, "AUC": 0.0008, "nDCG@10": 0.0016, "PCOC": 0.004}


@cache
def month(nights: int = 30) -> tuple[Night, ...]:
    """Nights up to `LAST`, one a day; the same each time."""
    found: list[Night] = []
    for ago in reversed(range(nights)):
        found.append(_night(ago, found))
    return tuple(found)


def few(night: Night) -> Night:
    """A night with few of its measures and slices."""
    measures = ("GAUC", "PCOC")
    values = tuple(v for v in night.values if v.slice in _FEW and v.measure in measures)
    compared = tuple(d for d in night.compared if d.slice in _FEW and d.measure in measures)
    return replace(night, measures=measures, values=values, compared=compared)


def _night(ago: int, earlier: Sequence[Night]) -> Night:
    random = Random(f"night {ago}")  # noqa: S311
    date = LAST - dt.timedelta(days=ago)
    values = tuple(_values(ago, random))
    rows = 0 if ago == EMPTY else int(4.1e6 * (1 + 0.12 * math.sin(ago) + random.gauss(0, 0.02)))
    ctr = 0.0412 + 0.00022 * (30 - ago) + random.gauss(0, 0.0002)
    flags = []
    if ago == EMPTY:
        flags.append("no rows")
    if ago < 2:
        flags.append("CTR is 4.3 scaled deviations above the median of the last 14 nights")
    status = "data_quality" if ago == EMPTY else "regression" if ago in (0, BAD) else "fine"
    gates = (
        GateOutcome("ctr_wide:GAUC delta_ci_high < 0", ago != BAD, "delta -0.0214" * (ago == BAD)),
        GateOutcome(
            "GAUC[*] value < 0.55",
            ago != 0,
            "ctr_wide, country=br: 0.5310" * (ago == 0),
        ),
        GateOutcome("rows < 1000000", ago != EMPTY, "rows 0" * (ago == EMPTY)),
    )
    night = Night(
        date=date,
        title="Home feed: CTR models",
        models=MODELS,
        baseline=BASELINE,
        measures=MEASURES,
        sources=(f"s3://logs/impressions/day={date}/",),
        command=f"fastrank-eval nightly nightly.toml --date {date}",
        version="0.1.0",
        seconds=41.7,
        conventions={
            "confidence": 0.95,
            "ties": "expected",
            "undefined": "skip",
            "weight": None,
            "where": "surface = 'home'",
            "measures": {"GAUC": {"weight": "impressions", "single_class": "skip"}},
        },
        values=values,
        quality=NightQuality(
            rows=rows,
            groups=rows // 21,
            positives=int(rows * ctr),
            ctr=ctr if rows else math.nan,
            coverage=0.4127 if rows else math.nan,
            single_class_share=0.5873 if rows else math.nan,
            tie_rate=0.0031 if rows else math.nan,
            nulls={"user_id": 0, "click": 0, "ctr_prod": 0, "ctr_wide": 12 * (ago == 0)},
            volume_drift=random.gauss(0, 0.8) if rows else -31.2,
            ctr_drift=4.3 if ago < 2 else random.gauss(0.8, 0.4),
            flags=tuple(flags),
        ),
        curves=_curves() if rows else {},
        gates=gates,
        status=status,
    )
    return replace(night, compared=tuple(_compared(night, earlier)))


def _values(ago: int, random: Random) -> Iterator[MeasureValue]:
    for by, label in ((None, "all"), *SLICES):
        whole = label == "all"
        error = 1.0 if whole else 2 + 7 * Random(label).random()  # noqa: S311
        shift = 0.0 if whole else Random(f"{label} level").gauss(0, 0.012)  # noqa: S311
        if label.startswith("@rows"):
            shift = 0.006 * (_ACTIVITY.index(label[5:]) - 3)
        common = random.gauss(0, 0.5)
        for model in MODELS:
            for measure in MEASURES:
                se = _ERROR[measure] * error
                value = _LEVEL[measure] + _MODEL[model] + shift
                value += se * (0.7 * common + random.gauss(0, 0.35))
                if ago == BAD and model == "ctr_wide":
                    value -= 0.025
                if ago < 3 and label == BROKEN and model == "ctr_wide":
                    value -= 0.11
                if ago == EMPTY:
                    value = se = math.nan
                groups = 0 if ago == EMPTY else int(195_000 / error**2)
                yield MeasureValue(
                    score=model,
                    by=by,
                    slice=label,
                    measure=measure,
                    value=value,
                    se=se,
                    ci_low=value - 1.96 * se,
                    ci_high=value + 1.96 * se,
                    effective_groups=groups / 3.2 if groups else math.nan,
                    groups=groups,
                    groups_used=int(groups * 0.4127) if measure == "GAUC" else groups,
                    rows_share=0.6218 if measure == "GAUC" else 1.0,
                    positives_share=0.9713 if measure == "GAUC" else 1.0,
                    dropped=(
                        {"all_negative": int(groups * 0.58), "all_positive": int(groups * 0.0073)}
                        if measure == "GAUC"
                        else {}
                    ),
                    warning="few_groups" if label == "device=null" else None,
                )


def _compared(night: Night, earlier: Sequence[Night]) -> Iterator[NightDifference]:
    here = {(v.score, v.slice, v.measure): v for v in night.values}
    before = {n.date: {(v.score, v.slice, v.measure): v for v in n.values} for n in earlier[-7:]}
    for (model, label, measure), now in here.items():
        sides = [
            ("yesterday", model, before.get(night.date - dt.timedelta(days=1)), 1.0),
            ("last_week", model, before.get(night.date - dt.timedelta(days=7)), 1.0),
        ]
        if model != BASELINE:
            sides.insert(0, ("baseline", BASELINE, here, 0.25))
        for kind, other, those, together in sides:
            was = (those or {}).get((other, label, measure))
            if was is None:
                continue
            delta = now.value - was.value
            se = together * math.hypot(now.se, was.se)
            p = math.nan if math.isnan(delta) else math.erfc(abs(delta) / se / math.sqrt(2))
            yield NightDifference(
                kind=kind,
                score=model,
                baseline=other,
                by=now.by,
                slice=label,
                measure=measure,
                delta=delta,
                se=se,
                ci_low=delta - 1.96 * se,
                ci_high=delta + 1.96 * se,
                relative=delta / was.value,
                p_value=p,
                p_adjusted=min(1.0, 20 * p),
                verdict=_verdict(measure, delta, 20 * p),
            )


def _verdict(measure: str, delta: float, p: float) -> str:
    if math.isnan(delta):
        return "not tested"
    if p > 0.05:
        return "not significant"
    if measure == "PCOC":
        return "higher" if delta > 0 else "lower"
    return "better" if delta > 0 else "worse"


def _curves() -> dict[str, tuple[CurveLine, ...]]:
    steps = tuple(i / 200 for i in range(201))
    bins = [0.002 * 1.55**i for i in range(12)]
    roc, calibration = [], []
    for model, power, off in zip(MODELS, (0.36, 0.35, 0.38), (1.03, 0.99, 1.08), strict=True):
        rates = tuple(step**power for step in steps)
        roc.append(CurveLine(model, f"AUC {1 / (1 + power):.4f}", steps, rates))
        random = Random(model)  # noqa: S311
        rates = tuple(x * off * (1 + random.gauss(0, 0.04)) for x in bins)
        calibration.append(
            CurveLine(model, f"{model}: ECE {abs(off - 1) / 20:.4f}", tuple(bins), rates)
        )
    return {"roc": tuple(roc), "calibration": tuple(calibration)}
