"""What a reader of a table must know: names, groups behind its means, thresholds that decide."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from fastrank_eval.engine.records import MeasureValue, Meta, plain_meta
from fastrank_eval.measures.base import text_of

__all__ = ["meta_with_notes", "report_notes"]

#: Why a group is left out that ``groups='with_relevant'`` leaves out for every measure.
_NO_RELEVANT = ("no_relevant", "all_negative")

#: The mean over groups where no relevant row, and where every other row, is predicted positive.
_NO_HIT = {"PPV": 0.0, "TPR": 0.0, "FNR": 1.0, "FScore": 0.0}
_ALL_FALSE = {"FPR": 1.0, "TNR": 0.0}


def report_notes(values: Iterable[MeasureValue], meta: Meta) -> list[str]:
    """Tell what values do not say of themselves.

    Parameters
    ----------
    values : iterable of MeasureValue
        Of all rows and of slices.
    meta : Meta

    Returns
    -------
    list of str
        A sentence each, without line breaks; empty where there is nothing to tell.
    """
    lines = list(values)
    return [
        *_names(lines, meta.requested),
        *_populations(lines, meta.conventions),
        *_thresholds(lines),
    ]


def meta_with_notes(values: Iterable[MeasureValue], meta: Meta) -> dict[str, Any]:
    """Write what values rest on as plain Python values, with the notes where there are any."""
    notes = report_notes(values, meta)
    return {**plain_meta(meta), **({"notes": notes} if notes else {})}


def _names(lines: Sequence[MeasureValue], requested: Mapping[str, str]) -> Iterator[str]:
    """Tell which line a name stands for, where two names could be taken for each other."""
    if not requested:
        return
    from fastrank_eval.measures import measure

    texts = {line.measure for line in lines}
    plain = [str(measure(name)) for name in requested]
    twice = len(set(plain)) < len(plain)
    if twice or any(name in texts and text != name for name, text in requested.items()):
        yield f"requested: {', '.join(f'{name} is {text}' for name, text in requested.items())}"


def _populations(lines: Sequence[MeasureValue], conventions: Mapping[str, object]) -> Iterator[str]:
    """Tell where means of one table are over different groups, and which option changes that."""
    groups = conventions.get("groups")
    if groups is None:
        return
    tables: dict[tuple[str | None, str], list[MeasureValue]] = {}
    for line in lines:
        if line.aggregate in ("mean", "geometric mean") and line.groups_used:
            tables.setdefault((line.by, line.slice), []).append(line)
    unlike = {
        part: means
        for part, means in tables.items()
        if len({line.groups_used for line in means}) > 1
    }
    if not unlike:
        return
    # All rows come first.
    (by, part), means = next(iter(unlike.items()))
    place = "" if by is None else f" in the slice {part}"
    remedy = _remedy([line for those in unlike.values() for line in those], groups)
    yield f"means are over different groups{place}: {_denominators(means)}; {remedy}"


def _thresholds(lines: Sequence[MeasureValue]) -> Iterator[str]:
    """Tell where a threshold decides nothing: no row, or every row, is predicted positive."""
    from fastrank_eval.measures import measure
    from fastrank_eval.measures.decisions import Decision, GroupDecision

    found: dict[tuple[str, str, str], list[str]] = {}
    for line in lines:
        if line.by is not None or line.slice != "all":
            continue
        known = measure(line.measure)
        if isinstance(known, Decision):
            what = _decided(line.details)
        elif isinstance(known, GroupDecision):
            what = _decided_in_groups(line, known.of.name)
        else:
            continue
        if what:
            at = text_of(known.chosen["threshold"])
            found.setdefault((what, line.score, at), []).append(line.measure)
    for (what, score, at), measures in found.items():
        yield (
            f"{what} of {score} is predicted positive at threshold={at}: {_each(measures)}; name a "
            f"threshold among the scores, as in FScore(threshold=0.1)"
        )


def _decided(cells: Mapping[str, float]) -> str:
    """Say which rows are predicted positive, if these are none or all."""
    if "TP" not in cells:  # of all classes at once, each row is predicted one of them
        return ""
    predicted, others = cells["TP"] + cells["FP"], cells["FN"] + cells["TN"]
    if not predicted:
        return "no row" if others else ""
    return "" if others else "every row"


def _decided_in_groups(line: MeasureValue, name: str) -> str:
    """Say the same as far as the mean over groups shows it."""
    for reason, what in (("none_predicted", "no row"), ("all_predicted", "every row")):
        if line.dropped.get(reason) == line.groups > 0:
            return what
    if line.value == _NO_HIT.get(name):
        return "no relevant row"
    return "every row that is not relevant" if line.value == _ALL_FALSE.get(name) else ""


def _denominators(means: Sequence[MeasureValue]) -> str:
    """Write how many groups stand behind which means, the fewest first."""
    of_measure: dict[str, set[int]] = {}
    for line in means:
        of_measure.setdefault(line.measure, set()).add(line.groups_used)
    by_number: dict[int, list[str]] = {}
    for line in means:
        model = f" of {line.score}" if len(of_measure[line.measure]) > 1 else ""
        by_number.setdefault(line.groups_used, []).append(line.measure + model)
    return ", ".join(f"{number:,} ({_each(names)})" for number, names in sorted(by_number.items()))


def _remedy(means: Sequence[MeasureValue], groups: object) -> str:
    """Name the option that gives means one population, and the measures that it does not reach."""
    from fastrank_eval.measures import measure

    reached, left = False, dict[str, list[str]]()
    for line in means:
        for reason, number in line.dropped.items():
            if not number:
                continue
            if reason in _NO_RELEVANT and measure(line.measure).rel_or_default <= 1:
                reached = True
            else:
                left.setdefault(reason, []).append(line.measure)
    if groups != "with_relevant" and reached:
        said = "groups='with_relevant' (--groups with_relevant) gives them one population"
        apart = [f"{_each(measures)} still leaves out {why}" for why, measures in left.items()]
        return "; ".join([said, *apart])
    if left.keys() <= {"zero_weight"}:
        return "groups of weight 0 are left out"
    return "undefined='zero' (--undefined zero) counts groups without a value as 0"


def _each(names: Sequence[str]) -> str:
    return ", ".join(dict.fromkeys(names))
