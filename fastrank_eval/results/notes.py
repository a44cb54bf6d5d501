"""Write the notes, the size and the conventions at the end of a report."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from fastrank_eval._lib.lexer import shorten
from fastrank_eval.engine.group_table import LARGEST
from fastrank_eval.engine.records import (
    ROW_COUNTS,
    MeasureValue,
    Meta,
    NamedRecord,
    counts_in,
    plain_meta,
)
from fastrank_eval.engine.state_arrays import BY_BUCKET, WITHOUT_BUCKETS
from fastrank_eval.io.columns import NAN, NULL_GROUP, OTHERS, POSITIVES, SOFT, UNJUDGED, UNSCORED
from fastrank_eval.measures import Measure, measure
from fastrank_eval.measures.base import text_of
from fastrank_eval.measures.decisions import Decision, GroupDecision
from fastrank_eval.measures.pooled import CLUSTERS
from fastrank_eval.results.report import (
    Lines,
    count_text,
    list_text,
    printable,
    share_text,
    speed_text,
)
from fastrank_eval.slicing.encode import text_value

#: What rows lack that options leave out, by reason.
_LACKS = {NULL_GROUP: "a group key", UNJUDGED: "a label", UNSCORED: "the score of a model"}

#: Measures that a note names; official has 25.
_NAMES = 5

#: Conventions of rows that notes show.
ROW_NOTES = (
    "unanswered",
    "judged_documents",
    "largest_grade",
    "reading_notes",
    *ROW_COUNTS,
    LARGEST,
)

#: Conventions that other lines show.
_NOTED = (
    "measures",
    "slices_left_out",
    "group",
    CLUSTERS,
    *ROW_NOTES,
    BY_BUCKET,
    WITHOUT_BUCKETS,
)

#: The detail of values for which rows of negative grade gain 0.
NEGATIVE = "rows of negative grade"

#: Reasons of groups that ``groups='with_relevant'`` leaves out for every measure.
_NO_RELEVANT = ("no_relevant", "all_negative")

#: Shares of positives and others without a score that differ by more than this factor are noted.
_ALIKE = 1.5

#: The mean over groups if no relevant row, and if every other row, is predicted positive.
_NO_HIT = {"PPV": 0.0, "TPR": 0.0, "FNR": 1.0, "FScore": 0.0}
_ALL_FALSE = {"FPR": 1.0, "TNR": 0.0}


def report_notes(values: Iterable[MeasureValue], meta: Meta) -> list[str]:
    """Write the notes on values that their numbers do not show.

    Parameters
    ----------
    values : iterable of MeasureValue
        Of all rows and of slices.
    meta : Meta

    Returns
    -------
    list of str
        One sentence each, without line breaks.
    """
    values = list(values)
    return [
        *_names(values, meta.requested),
        *cluster_notes(values, meta),
        *notes_of_rows(values, meta),
        *_populations(values, meta.conventions),
        *_thresholds(values),
    ]


def notes_of_rows(values: Sequence[MeasureValue], meta: Meta) -> list[str]:
    """Write the notes on rows: those of `ROW_NOTES`."""
    reading = meta.conventions.get("reading_notes")
    return [
        *largest_group_notes(values, meta),
        *rows_left_out_notes(meta),
        *_negative_grades(values),
        *_soft_labels(values, meta.conventions),
        *(reading if isinstance(reading, tuple) else ()),
        *_unanswered(meta),
        *_zeros(values, meta.conventions),
    ]


def names_of(values: Iterable[NamedRecord], scores: Collection[str]) -> str:
    """Name the measures of values, with their models where not all have one.

    Parameters
    ----------
    values : iterable of records
    scores : collection of str
        All models.
    """
    models: dict[str, list[str]] = {}
    for v in values:
        models.setdefault(v.display_name, []).append(v.score)
    return ", ".join(
        name if len(of) == len(scores) else f"{name} of {' and '.join(of)}"
        for name, of in models.items()
    )


def unit_of(conventions: Mapping[str, object]) -> str:
    """Name what errors count: groups, or clusters of groups."""
    return "group" if conventions.keys().isdisjoint((CLUSTERS, BY_BUCKET)) else "cluster"


def cluster_notes(values: Iterable[MeasureValue], meta: Meta) -> list[str]:
    """Count the clusters behind the errors of all rows, or hint at some."""
    if BY_BUCKET in meta.conventions:
        return bucket_notes(meta)
    columns = meta.conventions.get(WITHOUT_BUCKETS)
    unknown = (
        [
            f"one of the states has no sums by bucket, so a {','.join(columns)} with rows in two "
            "states counts as two"
        ]
        if isinstance(columns, list)
        else []
    )
    names, total = (meta.conventions.get(name) for name in ("cluster", CLUSTERS))
    if not (isinstance(names, Iterable) and meta.groups):
        several = "group" in meta.conventions
        return ["groups may not be independent: see cluster"] * several + unknown
    by_number: dict[int, list[MeasureValue]] = {}
    overall = [v for v in values if v.by is None]
    for v in overall:
        used = v.groups_used if total is None else v.clusters
        if used:
            by_number.setdefault(used, []).append(v)
    total = f"{meta.groups if total is None else total:,}"
    counts = f"{next(iter(by_number)):,} of {total}" if by_number else total
    if len(by_number) > 1:
        scores = {v.score for v in overall}
        used_by = (f"{n:,} in {names_of(own, scores)}" for n, own in sorted(by_number.items()))
        counts = f"of {total}: {'; '.join(used_by)}"
    return [f"clusters: {', '.join(names)} ({counts})", *unknown]


def largest_group_notes(values: Iterable[MeasureValue], meta: Meta) -> list[str]:
    """Name the group whose rows make few groups count, where values suffer."""
    largest = meta.conventions.get(LARGEST)
    if not isinstance(largest, Mapping):  # averages of classes have no measures of groups
        return []
    # Where each group counts 1, its rows are not the cause; a cluster has many groups.
    unit = unit_of(meta.conventions)
    few = any(
        v.by is None
        and v.warning == "few_groups"
        and (unit == "cluster" or v.aggregate == "pooled" or measure(v.measure).weight != "uniform")
        for v in values
    )
    if not few:
        return []
    share = share_text(largest["rows"] / meta.rows)
    share = f"at least {share}" if largest.get("at_least") else share
    if largest["key"] is None:
        return [f"one large {unit}: {share} of the rows; keep='groups' names it"]
    key = ", ".join(f"{name}={_key_text(value)}" for name, value in largest["key"].items())
    return [f"large {unit} {key}: {share} of the rows"]


def bucket_notes(meta: Meta) -> list[str]:
    """Name the clusters whose buckets errors of merged states count."""
    buckets = meta.conventions.get(BY_BUCKET)
    if not isinstance(buckets, Mapping):
        return []
    used, columns = buckets["used"], ",".join(buckets["columns"])
    return [f"clusters: {count_text(used, 'bucket')} of {columns}"]


def _key_text(value: int | bool | str) -> str:
    text = text_value(value) if isinstance(value, str) else str(value).lower()
    return shorten(text)


def _names(values: Sequence[MeasureValue], requested: Mapping[str, str]) -> Iterator[str]:
    """Note which measure each name stands for, if names are ambiguous."""
    if not requested:
        return
    texts = {v.measure for v in values}
    names = [str(measure(name)) for name in requested]
    twice = len(set(names)) < len(names)
    if twice or any(name in texts and text != name for name, text in requested.items()):
        yield f"requested: {', '.join(f'{name} is {text}' for name, text in requested.items())}"


def plain_meta_with(notes: Sequence[str], meta: Meta) -> dict[str, Any]:
    """Convert metadata to plain Python values, with notes if there are any."""
    return {**plain_meta(meta), **({"notes": list(notes)} if notes else {})}


def rows_left_out_notes(meta: Meta) -> list[str]:
    """Note rows that options leave out or read in another way."""
    counts = counts_in(meta.conventions)
    notes = []
    dropped = {reason: counts[reason] for reason in _LACKS if reason in counts}
    read = meta.rows + sum(of_reason["rows"] for of_reason in dropped.values())
    for reason, of_reason in dropped.items():
        number, by_model = of_reason["rows"], of_reason.get("by_model", {})
        if number or any(by_model.values()):
            share = share_text(number / read if read else 0.0)
            models = ", ".join(f"{n:,} of {model}" for model, n in by_model.items())
            lacks = _LACKS[reason]
            if reason == NULL_GROUP and "cluster" in meta.conventions:
                lacks = "a group key or a cluster key"
            note = f"{count_text(number, 'row')} without {lacks} left out, {share} of {read:,}"
            notes.append(f"{note}: {models}" if models else note)
    nan = counts.get(NAN, {"rows": 0})
    if nan["rows"]:
        columns = ", ".join(f"{n:,} in {column}" for column, n in nan["by_model"].items())
        notes.append(f"{count_text(nan['rows'], 'row')} with NaN, which is null: {columns}")
    return [*notes, *_not_retrieved(counts)]


def _not_retrieved(counts: Mapping[str, Any]) -> Iterator[str]:
    """Note which share of each class has no score, by model."""
    classes = [counts.get(name, {"rows": 0}) for name in (POSITIVES, OTHERS)]
    of_models = [each.get("by_model", {}) for each in classes]
    for model in of_models[0]:
        missing = [of_model.get(model, 0) for of_model in of_models]
        if not any(missing):
            continue
        shares = [n / max(each["rows"], 1) for n, each in zip(missing, classes, strict=True)]
        note = f"{model} has no score for {share_text(shares[0])} of the positives and "
        note += f"{share_text(shares[1])} of the others, which are below all scored rows"
        if max(shares) > _ALIKE * min(shares):
            moved = "raises" if shares[1] > shares[0] else "lowers"
            note += f"; the shares differ by more than a factor of {_ALIKE}, which {moved} its "
            note += "AUC, GAUC and curves: score these rows, or pass unretrieved='drop' if "
            note += "scoring has failed"
        yield note


def _soft_labels(
    values: Sequence[MeasureValue], conventions: Mapping[str, object]
) -> Iterator[str]:
    """Note labels in ]0, 1[ that count as negatives."""
    counts, largest = counts_in(conventions), conventions.get("largest_grade", 1)
    if SOFT not in counts:
        return
    if isinstance(largest, int | float) and largest < 1:
        return  # another note has it
    names = []
    for v in values:
        options = measure(v.measure)
        binary = (
            options.option_values.get("gain", "binary") == "binary"
            and "rel" not in options.explicit_options
        )
        names += [v.display_name] if binary and "rel" in options.option_values else []
    if names:
        rows = counts[SOFT]["rows"]
        have = "has a label" if rows == 1 else "have labels"
        count = "counts as negative" if rows == 1 else "count as negatives"
        yield (
            f"{count_text(rows, 'row')} {have} between 0 and 1, which {count} in "
            f"{_few(names)}; round such labels, or give each of these rows twice: with label 1 and "
            "weight label, and with label 0 and weight 1 - label"
        )


def _few(names: Iterable[str]) -> str:
    """Name some measures, and count the others."""
    distinct = list(dict.fromkeys(names))
    more = f" and {len(distinct) - _NAMES} more" if len(distinct) > _NAMES else ""
    return list_text(distinct[:_NAMES]) + more


def _negative_grades(values: Iterable[MeasureValue]) -> Iterator[str]:
    """Note rows of negative grade that gain nothing."""
    rows = max((int(v.details.get(NEGATIVE, 0)) for v in values if v.by is None), default=0)
    if rows:
        have = "has a negative grade" if rows == 1 else "have negative grades"
        yield f"{count_text(rows, 'row')} {have}: gain 0; see `negative`"


def _unanswered(meta: Meta) -> Iterator[str]:
    """Note the judged queries for which runs of TREC have no result."""
    judged, unanswered = (meta.conventions.get(k) for k in ("judged_queries", "unanswered"))
    if not (isinstance(judged, int) and isinstance(unanswered, Mapping)):
        return
    left_out, complete = (meta.conventions[k] for k in ("only_in_qrels", "complete"))
    if isinstance(left_out, int) and left_out and not complete:
        yield queries_without_result(left_out, judged, complete=False)
    where = ""
    if isinstance(complete, list) and left_out:
        where = f" in {_few(complete)}, and left out of other measures"
    for run, number in unanswered.items():
        if number:
            owner = "" if len(unanswered) == 1 else f"{run}: "
            remedy = "; complete=False leaves them out" if 2 * number > judged else ""
            yield f"{owner}{queries_without_result(number, judged, complete=True)}{where}{remedy}"


def zeros_of_grades(measures: Iterable[Measure], largest: float) -> Iterator[str]:
    """Note measures that count no document as relevant.

    Parameters
    ----------
    measures : iterable of Measure
    largest : float
        The largest grade.
    """
    by_rel: dict[float, dict[str, Measure]] = {}
    for one in measures:
        if "rel" in one.option_values and one.rel_or_default > largest:
            by_rel.setdefault(one.rel_or_default, {}).setdefault(one.display_name, one)
    for rel, of_rel in by_rel.items():
        remedy = "take judgements with relevant documents"
        if largest > 0:
            example = next(iter(of_rel.values()))(rel=float(f"{largest / 2:.2g}"))
            remedy = f"name a lower rel, as in {example}"
        yield (
            f"no grade reaches rel={rel:g}: the largest is {largest:g}, so no document is relevant "
            f"for {_few(of_rel)}; {remedy}"
        )


def no_judged_document(run: str) -> str:
    """Note a run whose documents have no judgement."""
    return f"no document of {run} is judged; check that run and judgements name documents alike"


def _zeros(values: Sequence[MeasureValue], conventions: Mapping[str, object]) -> Iterator[str]:
    """Note what makes values of runs 0, though the ranking is right."""
    largest, judged = (conventions.get(name) for name in ("largest_grade", "judged_documents"))
    if isinstance(judged, Mapping):
        for run, number in judged.items():
            if not number:
                yield no_judged_document("the run" if len(judged) == 1 else run)
    if isinstance(largest, int | float):
        named = {v.measure: v.display_name for v in values}
        yield from zeros_of_grades(
            (measure(m).with_display_name(n) for m, n in named.items()), largest
        )


def queries_without_result(number: int, judged: int, *, complete: bool) -> str:
    """Note judged queries without a result, and whether they count."""
    have, count = ("has", "counts") if number == 1 else ("have", "count")
    fate = f"{count} 0" if complete else "left out"
    return f"{number:,} of {judged:,} judged queries {have} no result: {fate}"


def _populations(
    values: Sequence[MeasureValue], conventions: Mapping[str, object]
) -> Iterator[str]:
    """Note means of one table over different groups, with the remedy."""
    groups = conventions.get("groups")
    if groups is None or isinstance(conventions.get("complete"), list):
        return  # another note has it
    tables: dict[tuple[str | None, str], list[MeasureValue]] = {}
    for v in values:
        is_mean = v.aggregate in ("mean", "geometric mean")
        if is_mean and v.groups_used and not math.isnan(v.value):
            tables.setdefault((v.by, v.slice), []).append(v)
    unequal = {
        key: means for key, means in tables.items() if len({v.groups_used for v in means}) > 1
    }
    if not unequal:
        return
    # All rows come first.
    (by, label), means = next(iter(unequal.items()))
    where = "" if by is None else f" in the slice {label}"
    remedy = _remedy([v for group in unequal.values() for v in group], groups)
    yield f"means are over different groups{where}: {_denominators(means)}; {remedy}"


def _thresholds(values: Sequence[MeasureValue]) -> Iterator[str]:
    """Note thresholds that predict no row or every row positive."""
    measures_of: dict[tuple[str, str, str], list[str]] = {}
    for v in values:
        if v.by is not None or v.slice != "all":
            continue
        parsed = measure(v.measure)
        if isinstance(parsed, Decision):
            rows = _predicted_rows(v.details)
        elif isinstance(parsed, GroupDecision):
            rows = _predicted_rows_in_groups(v, parsed.of.name)
        else:
            continue
        if rows:
            threshold = text_of(parsed.option_values["threshold"])
            measures_of.setdefault((rows, v.score, threshold), []).append(v.display_name)
    for (rows, score, threshold), measures in measures_of.items():
        yield (
            f"{rows} of {score} is predicted positive at threshold={threshold}: "
            f"{list_text(measures)}; name a threshold among the scores, as in FScore(threshold=0.1)"
        )


def _predicted_rows(cells: Mapping[str, float]) -> str:
    """Return "no row" or "every row" if that is predicted positive, else ""."""
    if "TP" not in cells:  # a measure of all classes: each row is predicted one of them
        return ""
    predicted, others = cells["TP"] + cells["FP"], cells["FN"] + cells["TN"]
    if not predicted:
        return "no row" if others else ""
    return "" if others else "every row"


def _predicted_rows_in_groups(value: MeasureValue, name: str) -> str:
    """Return as `_predicted_rows`, as far as means over groups show it."""
    for reason, rows in (("none_predicted", "no row"), ("all_predicted", "every row")):
        if value.dropped.get(reason) == value.groups > 0:
            return rows
    if value.value == _NO_HIT.get(name):
        return "no relevant row"
    return "every row that is not relevant" if value.value == _ALL_FALSE.get(name) else ""


def _denominators(means: Sequence[MeasureValue]) -> str:
    """List the numbers of groups of means, with their measures."""
    of_measure: dict[str, set[int]] = {}
    for v in means:
        of_measure.setdefault(v.measure, set()).add(v.groups_used)
    by_number: dict[int, list[str]] = {}
    for v in means:
        model = f" of {v.score}" if len(of_measure[v.measure]) > 1 else ""
        by_number.setdefault(v.groups_used, []).append(v.display_name + model)
    return ", ".join(
        f"{number:,} ({list_text(names)})" for number, names in sorted(by_number.items())
    )


def _remedy(means: Sequence[MeasureValue], groups: object) -> str:
    """Name the option that gives means one population."""
    helps, other_reasons = False, dict[str, list[str]]()
    for v in means:
        for reason, number in v.dropped.items():
            if not number:
                continue
            if reason in _NO_RELEVANT and measure(v.measure).rel_or_default <= 1:
                helps = True
            else:
                other_reasons.setdefault(reason, []).append(v.display_name)
    if groups != "with_relevant" and helps:
        option = "groups='with_relevant' (--groups with_relevant) gives them one population"
        exceptions = [
            f"{list_text(measures)} still leaves out {reason}"
            for reason, measures in other_reasons.items()
        ]
        return "; ".join([option, *exceptions])
    if other_reasons.keys() <= {"zero_weight"}:
        return "groups of weight 0 are left out"
    return "undefined='zero' (--undefined zero) counts groups without a value as 0"


def end_lines(meta: Meta, legend: Iterable[str], notes: Iterable[str]) -> list[Lines]:
    """Write what stands at the end of a report.

    Parameters
    ----------
    meta : Meta
    legend : iterable of str
        The meaning of marks in tables.
    notes : iterable of str
    """
    compiled = ""
    if meta.compiled:
        stored = f", {meta.stored}" if meta.stored else ""
        compiled = f" (first run: {count_text(meta.compiled, 'kernel')} compiled{stored})"
    size = time = "no rows, no groups: no value is defined"
    if meta.rows:
        groups = count_text(meta.groups, "group") if meta.groups else "not grouped"
        size = f"{count_text(meta.rows, 'row')}, {groups}"
        speed = speed_text(meta.rows, meta.seconds)
        time = f"{size}, {meta.seconds:.3g} s, {speed}{compiled}"
    conventions = [
        f"{name}={_convention(value)}"
        for name, value in meta.conventions.items()
        if value is not None and name not in _NOTED
    ]
    options = meta.conventions.get("measures")
    if isinstance(options, Mapping):
        conventions += _measure_options(options)
    return [
        Lines(list(legend), "legend"),
        Lines(list(map(printable, notes)), "notes"),
        Lines([size], "data"),
        Lines([time], "time"),
        Lines(list(map(printable, conventions)), "conventions"),
    ]


#: Options whose defaults differ most between tools. JSON has all options.
_MAIN_OPTIONS = ("weight", "rel", "gain", "discount", "max_grade", "threshold")


def _measure_options(measures: Mapping[str, Mapping[str, object]]) -> list[str]:
    """List the main options of measures, each once."""
    texts: dict[str, None] = {}
    for text, options in measures.items():
        name = text.partition("(")[0].partition("@")[0]
        for option in _MAIN_OPTIONS:
            value = options.get(option)
            if value in (None, "uniform", "reciprocal"):
                continue
            owner = f"{name} " if option == "weight" else ""
            texts[f"{owner}{option}={_convention(value)}"] = None
    return list(texts)


def _convention(value: object) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{k}: {_convention(v)}" for k, v in value.items()) + "}"
    if isinstance(value, Iterable) and not isinstance(value, str):
        return "+".join(map(_convention, value))
    return str(value)
