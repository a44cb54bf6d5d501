"""Put results of several data sets together: means, ranks of systems.

Write them in the form of MTEB.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import astuple, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arguments import typed
from fastrank_eval._lib.arrow import decode_array
from fastrank_eval._lib.errors import ArgumentError, MeasureError
from fastrank_eval._lib.files import atomic_path, check_writable
from fastrank_eval.engine.group_table import GroupTable
from fastrank_eval.engine.records import MeasureValue, finite
from fastrank_eval.integrations.trec.measures import LONG_NAMES
from fastrank_eval.measures import Measure
from fastrank_eval.measures import measure as measure_of
from fastrank_eval.results.compare import Paired, compare_results, errors_of_records, no_value
from fastrank_eval.results.compare_tests import NEED_GROUPS, ErrorOfDifference, Slice
from fastrank_eval.results.comparison import Comparison
from fastrank_eval.results.labels import shared_conventions, texts_by_label
from fastrank_eval.results.notes import ROW_NOTES, notes_of_rows
from fastrank_eval.results.report import Lines, Report, Table, list_text, printable
from fastrank_eval.results.result import Result
from fastrank_eval.slicing.encode import text_value
from fastrank_eval.stats.intervals import ErrorGroups, Uncertainty, is_rounding, t_interval
from fastrank_eval.stats.means import GroupPairs

if TYPE_CHECKING:
    from fastrank_eval.results.result import State
    from fastrank_eval.stats.score_runs import ScoreTable

#: The column of the data set, before that of the query.
_BY = "dataset"
#: Conventions that count, and are added.
_COUNTS = ("judged_queries", "only_in_run", "only_in_qrels")
#: Conventions of the rows of a data set, which `notes_of_rows` has, and of its own slices.
_OF_PARTS = (*_COUNTS, *ROW_NOTES, "min_groups", "slices_left_out")
#: Why a data set has no value of a system.
_NO_RUN = "no_run"
_NOTE = (
    "values of all are means over data sets, and every data set has the same weight; their errors "
    "are those of queries, not of the choice of data sets"
)
#: The names of measures in the files of MTEB.
_MTEB = {**{name: long.lower() for name, long in LONG_NAMES.items()}, "Success": "hit_rate"}


class Benchmark(Result):
    r"""The results of several data sets, and their mean.

    The value of all rows is the mean over the data sets, and every data set has the same weight.
    Data sets are strata: they are fixed, and queries vary. So the error of the mean of D data sets
    is ``sqrt(sum of se^2) / D``, with Satterthwaite's degrees of freedom; it does not say what
    other data sets would give. A sum, such as NumRel, is the sum of all data sets.

    ``benchmark["scifact"]`` is the `Result` of a data set, and its values are those of the slice
    ``"dataset=scifact"``. A system without a run for a data set has no mean.

    Parameters
    ----------
    results : mapping of str to Result
        By data set; of the same measures.

    Attributes
    ----------
    results : dict of str to Result

    Examples
    --------
    >>> from fastrank_eval import trec
    >>> qrels, run = {"q1": {"d3": 1}}, {"q1": {"d5": 2.5, "d3": 1.5}}
    >>> sets = {"scifact": (qrels, run), "nq": (qrels, {"q1": {"d3": 1.5}})}
    >>> found = trec.evaluate(sets, measures="RR")
    >>> found.value("RR"), found.value("RR", slice="dataset=scifact"), found["nq"].value("RR")
    (0.75, 0.5, 1.0)
    """

    def __init__(self, results: Mapping[str, Result]) -> None:
        self.results = dict(results)
        parts = list(self.results.values())
        first = parts[0]
        scores = list(dict.fromkeys(score for part in parts for score in part.scores))
        by_slice = [_values(name, part, first, scores) for name, part in self.results.items()]
        keeps = all(part.keeps_groups for part in parts)
        rows = [part.meta.rows for part in parts]
        positives = [part.group_table().positives.sum() for part in parts] if keeps else []
        overall = [
            _mean(each, rows, positives, first.meta.confidence or 0.95)
            for each in zip(*by_slice, strict=True)
        ]
        has_sums = any(v.aggregate == "sum" for v in overall)
        shared = shared_conventions([part.meta for part in parts])
        counts = {
            name: sum(part.meta.conventions[name] for part in parts)  # type: ignore[misc]
            for name in _COUNTS
            if name in first.meta.conventions
        }
        notes = {
            printable(name): notes_of_rows(part.values, part.meta)
            for name, part in self.results.items()
        }
        lacking = {
            score: list_text(
                name for name, part in self.results.items() if score not in part.scores
            )
            for score in scores
        }
        no_means = (f"{s}: no run for {names}, so no mean" for s, names in lacking.items() if names)
        meta = replace(
            first.meta,
            rows=sum(part.meta.rows for part in parts),
            groups=sum(part.meta.groups for part in parts),
            conventions={
                **{name: value for name, value in shared.items() if name not in _OF_PARTS},
                **counts,
                "by": [_BY],
                "all": "mean or sum of data sets" if has_sums else "mean of data sets",
                "reading_notes": (_NOTE, *texts_by_label("notes", notes), *no_means),
            },
            seconds=sum(part.meta.seconds for part in parts),
        )
        super().__init__(
            [*overall, *(value for own in by_slice for value in own)],
            self._collect if keeps else None,
            meta,
            scores,
            first.measures,
            first.requested,
        )

    def __getitem__(self, key: Any) -> Any:
        """Return the result of a data set, or values of groups; see `Result`."""
        if isinstance(key, str) and key in self.results:
            return self.results[key]
        try:
            return super().__getitem__(key)
        except MeasureError as error:
            names = ", ".join(map(repr, self.results))
            raise MeasureError(f"{error} Data sets: {names}.") from error

    @property
    def state(self) -> State:
        """Refuse the state, which each data set has; see `Result.state`."""
        raise self._only_of_parts("state", "state")

    @typed
    def score_table(self, score: str, rel: float = 1) -> ScoreTable:
        """Refuse the scores, which each data set has; see `Result.score_table`."""
        del rel
        raise self._only_of_parts("scores", f"score_table({score!r})")

    def _only_of_parts(self, what: str, call: str) -> ArgumentError:
        name = next(iter(self.results))
        return ArgumentError(
            f"several data sets have no {what} together; take those of each, as in "
            f"result[{name!r}].{call}."
        )

    def document(self) -> dict[str, Any]:
        """Return the plain Python values that JSON has; see `Result.document`.

        Returns
        -------
        dict
            With ``"borda"`` too: by measure the rank of each system.
        """
        ranks = {self.names[text]: self.borda(text) for text in self.measures}
        return {**super().document(), "borda": ranks}

    @typed
    def report(self, *, wide: bool = False) -> Report:
        """Build the report that people read; see `View.report`."""
        report = super().report(wide=wide)
        if len(self.scores) == 1:
            return report
        rows = [
            [printable(self.names[text]), *map(str, self.borda(text).values())]
            for text in self.measures
        ]
        table = Table(["Borda rank", *map(printable, self.scores)], rows)
        blocks = list(report.blocks)
        ends = next(at for at, block in enumerate(blocks) if isinstance(block, Lines))
        return report._replace(blocks=[*blocks[:ends], table, *blocks[ends:]])

    @typed
    def borda(self, measure: str | Measure) -> dict[str, int]:
        """Rank the systems by their ranks in the data sets, as MTEB does.

        In a data set the worst of n systems has no point, the best n - 1, and equal ones share
        theirs; a system without a value has none. The system with most points has rank 1, equal
        ones have the better rank. No error is known of it; for that compare means.

        Parameters
        ----------
        measure : str or Measure

        Returns
        -------
        dict of str to int
            By system.

        Raises
        ------
        MeasureError
            If the measure was not part of the evaluation.

        References
        ----------
        MTEB: Muennighoff et al. (2023), doi:10.18653/v1/2023.eacl-main.148.
        """
        found = self._find_measure(measure)
        sign = 1.0 if found.higher_is_better else -1.0
        points = dict.fromkeys(self.scores, 0.0)
        for name in self.results:
            own = {v.score: sign * v.value for v in self._of(name) if v.measure == str(found)}
            for score, value in own.items():
                others = [other for each, other in own.items() if each != score]
                # What pandas ranks: systems without a value have no rank, but count among n.
                points[score] += sum(
                    float(not other > value) - 0.5 * (other == value)
                    for other in others
                    if not math.isnan(value)
                )
        return {score: 1 + sum(n > own for n in points.values()) for score, own in points.items()}

    @typed
    def compare(
        self, other: Result | None = None, *, baseline: str | None = None, **choices: Any
    ) -> Comparison:
        """Compare systems with a baseline, in the mean and in each data set.

        The error of a difference of means is that of its data sets, as for values.

        Parameters
        ----------
        other : None
            Systems of two benchmarks are compared by data set: ``mine["nq"].compare(other["nq"])``.
        baseline : str
            A system; by default the baseline of the evaluation.
        **choices
            As `Result.compare` takes them; `test` is ``"clustered_t"`` or ``"clustered_z"``.

        Returns
        -------
        Comparison
            With a slice for each data set.

        Raises
        ------
        ArgumentError
            If another test is chosen, or values of queries were not kept.
        """
        if other is not None:
            raise ArgumentError(
                "other: must be left out for several data sets, got a result; compare each data "
                "set, as in mine['nq'].compare(other['nq']), or evaluate all runs together."
            )
        if len(self.scores) < 2:
            raise ArgumentError(
                "run: must be several systems to compare them, got only "
                f"{self.scores[0]!r}; evaluate all runs together."
            )
        if choices.get("test") in NEED_GROUPS:
            raise ArgumentError(
                "test: must be 'clustered_t' or 'clustered_z' for the mean of data sets, got "
                f"{choices['test']!r}; compare a data set, as in "
                f"result[{next(iter(self.results))!r}].compare(...)."
            )
        if baseline is None:
            paired = (part._paired for part in self.results.values())
            baseline = next((one.baseline for one in paired if one), None)
        errors = None if baseline is None else _Differences(self.results, self, baseline)
        return compare_results(self, errors, None, baseline, choices)

    @typed
    def write_mteb(
        self,
        folder: str | os.PathLike[str],
        *,
        split: str = "test",
        subset: str = "default",
        overwrite: bool = False,
    ) -> list[Path]:
        """Write a file of MTEB for each system and data set.

        ``folder/SYSTEM/no_revision_available/DATASET.json``; a slash in a name becomes ``__``, as
        in MTEB. The main score is the first measure. It does not have the areas of abstention
        (``nauc_...``, see `nauc`), nor languages.

        Parameters
        ----------
        folder : str or path
        split, subset : str
            What the scores are of.
        overwrite : bool
            Replace files that exist.

        Returns
        -------
        list of Path

        Raises
        ------
        ArgumentError
            If the numbers are not those of ``profile="mteb"``, or a name cannot be that of a file.
        MeasureError
            If MTEB has no such measure.
        OutputError
            If a file exists, or cannot be written.
        """
        profile = self.meta.conventions.get("profile")
        if profile != "mteb":
            raise ArgumentError(
                f"profile: must be 'mteb' for files of MTEB, got {profile!r}; evaluate with "
                "profile='mteb'."
            )
        if "level" in self.meta.conventions:
            raise ArgumentError("level: must be 1 for files of MTEB; evaluate without it.")
        names = {text: _name_in_mteb(measure_of(name)) for text, name in self.names.items()}
        documents: dict[Path, dict[str, object]] = {}
        for name, part in self.results.items():
            for score in part.scores:
                values: dict[str, object] = {
                    names[v.measure]: finite(v.value) for v in self._of(name) if v.score == score
                }
                values["main_score"] = next(iter(values.values()))
                values |= {"hf_subset": subset, "languages": []}
                path = Path(folder, _file_name(score), _REVISION, f"{_file_name(name)}.json")
                if path in documents:
                    raise ArgumentError(
                        f"folder: must have a file for each system and data set, got two for "
                        f"{str(path)!r}; rename one."
                    )
                documents[path] = {
                    "dataset_revision": _REVISION,
                    "task_name": name,
                    "mteb_version": None,
                    "scores": {split: [values]},
                    "evaluation_time": part.meta.seconds,
                    "kg_co2_emissions": None,
                }
        for path in documents:
            path.parent.mkdir(parents=True, exist_ok=True)
            check_writable(path, overwrite)
        for path, document in documents.items():
            with atomic_path(path, overwrite=overwrite) as temporary:
                temporary.write_text(json.dumps(document, indent=2), encoding="utf-8")
        return list(documents)

    def _of(self, name: str) -> list[MeasureValue]:
        """List the values of a data set."""
        label = _label(name)
        return [v for v in self.values if v.by == _BY and v.slice == label]

    def _collect(self) -> GroupTable:
        """Collect the queries, weighted so that each data set counts once."""
        return GroupTable.concat(
            [_queries(name, part, self.scores) for name, part in self.results.items()]
        )


_REVISION = "no_revision_available"


def _label(name: str) -> str:
    return f"{_BY}={text_value(name)}"


def _values(name: str, part: Result, first: Result, scores: Sequence[str]) -> list[MeasureValue]:
    """List the values of a data set by system and measure, as a slice.

    Gains of grades make the texts of measures differ: those of the first data set count.
    """
    known = {(v.score, v.measure): v for v in part.values if v.by is None}
    texts = list(zip(part.measures, first.measures, strict=True))
    names = {v.measure: v for v in first.values if v.by is None}
    found = []
    for score in scores:
        for own, text in texts:
            value = known.get((score, own))
            if value is None:
                value = replace(
                    no_value(_BY, _label(name), score, measure_of(own)),
                    groups=part.meta.groups,
                    dropped={_NO_RUN: part.meta.groups},
                    rows_share=0.0,
                    positives_share=0.0,
                )
            weight = value.weight if value.aggregate == "sum" else 1.0
            found.append(
                replace(
                    value,
                    measure=text,
                    name=names[text].name,
                    by=_BY,
                    slice=_label(name),
                    weight=weight,
                )
            )
    return found


def _mean(
    values: Sequence[MeasureValue],
    rows: Sequence[int],
    positives: Sequence[int],
    confidence: float,
) -> MeasureValue:
    """Compute the mean of a measure over data sets, or its sum."""
    first = values[0]
    scale = 1.0 if first.aggregate == "sum" else 1.0 / len(values)
    value, used = math.fsum(v.value for v in values) * scale, sum(v.groups_used for v in values)
    # Effective groups are one more than degrees of freedom, or fewer.
    degrees = [max(v.effective_groups - 1.0, 1.0) for v in values]
    if math.isnan(value):
        error = Uncertainty()
    elif any(math.isnan(v.se) for v in values):
        error = Uncertainty(warning=next(v.warning for v in values if math.isnan(v.se)))
    else:
        se, behind = _combined([v.se for v in values], degrees, used)
        error = t_interval(value, se * scale, behind, confidence)
    dropped: Counter[str] = Counter()
    for v in values:
        dropped.update(v.dropped)
    return replace(
        first,
        value=value,
        groups=sum(v.groups for v in values),
        groups_used=used,
        dropped=dict(dropped),
        rows_share=_share([v.rows_share for v in values], rows),
        positives_share=_share([v.positives_share for v in values], positives),
        details={},
        se=error.se,
        ci_low=error.low,
        ci_high=error.high,
        effective_groups=error.effective_groups,
        warning=error.warning,
        by=None,
        slice="all",
        weight=math.fsum(v.weight for v in values),
    )


def _share(shares: Sequence[float], sizes: Sequence[int]) -> float:
    """Compute the share of all data sets; NaN without their sizes."""
    pairs = [(share * size, size) for share, size in zip(shares, sizes, strict=False) if size]
    total = math.fsum(size for _, size in pairs)
    return math.fsum(part for part, _ in pairs) / total if total else math.nan


def _combined(
    errors: Sequence[float], degrees: Sequence[float], groups: int
) -> tuple[float, ErrorGroups]:
    """Add independent errors; Satterthwaite's degrees of freedom count groups."""
    squares = [se * se for se in errors]
    total = math.fsum(squares)
    fourth = math.fsum(square * square / own for square, own in zip(squares, degrees, strict=True))
    if not fourth > 0:
        return math.sqrt(total), ErrorGroups(groups)
    by_influence = 1.0 / (2.0 * fourth / (total * total) + 1.0 / groups)
    return math.sqrt(total), ErrorGroups(groups, influence=by_influence, difference=True)


class _Differences(Paired):
    """The errors of differences from a baseline, of the mean and of data sets."""

    def __init__(self, results: Mapping[str, Result], benchmark: Result, baseline: str) -> None:
        self.baseline = baseline
        self._results, self._benchmark = results, benchmark

    @cached_property
    def slices(self) -> list[Slice]:
        """The errors of the mean, then of each data set."""
        candidates = [score for score in self._benchmark.scores if score != self.baseline]
        measures = [measure_of(text) for text in self._benchmark.measures]
        values = {(v.slice, v.score, v.measure): v.value for v in self._benchmark.values}
        found: list[Slice] = []
        for name, part in self._results.items():
            errors = _errors(part, self.baseline, candidates)
            found.append((_BY, _label(name), part.meta.rows, errors))
        overall = {
            score: [
                _error_of_mean(
                    [errors[score][m] for _, _, _, errors in found],
                    [
                        (values[label, self.baseline, str(one)], values[label, score, str(one)])
                        for _, label, _, _ in found
                    ],
                    one.aggregate == "sum" and not one.pooled,
                )
                for m, one in enumerate(measures)
            ]
            for score in candidates
        }
        return [(None, "all", self._benchmark.meta.rows, overall), *found]


def _errors(
    part: Result, baseline: str, candidates: Sequence[str]
) -> dict[str, Sequence[ErrorOfDifference]]:
    """Find the errors of differences in a data set."""
    known: Mapping[str, Sequence[ErrorOfDifference]] = {}
    own = [score for score in candidates if score in part.scores]
    paired = part._paired
    if paired is not None and paired.baseline == baseline:
        _, _, _, known = paired.slices[0]
    elif own and baseline in part.scores:
        measures = [measure_of(text) for text in part.measures]
        known = errors_of_records(part.group_table(), baseline, own, measures)
    none = [ErrorOfDifference()] * len(part.measures)
    return {score: known.get(score, none) for score in candidates}


def _error_of_mean(
    errors: Sequence[ErrorOfDifference], values: Sequence[tuple[float, float]], is_sum: bool
) -> ErrorOfDifference:
    """Combine the errors of a difference in each data set."""
    scale = 1.0 if is_sum else 1.0 / len(errors)
    warning = None
    for error, pair in zip(errors, values, strict=True):
        groups = error.behind.groups
        if error.warning or groups < 2:
            warning = warning or error.warning or "one_group"
        elif error.se == 0 and not is_rounding(pair[1] - pair[0], pair, error.rounding, groups):
            warning = warning or "no_variance"
    if warning:
        return ErrorOfDifference(warning=warning)
    groups = sum(error.behind.groups for error in errors)
    degrees = [error.behind.degrees for error in errors]
    se, behind = _combined([error.se for error in errors], degrees, groups)
    pairs = [error.pairs for error in errors if error.pairs is not None]
    return ErrorOfDifference(
        se * scale,
        behind,
        GroupPairs(*(sum(counts) for counts in zip(*map(astuple, pairs), strict=True)))
        if len(pairs) == len(errors)
        else None,
        rounding=math.fsum(error.rounding for error in errors) * scale,
    )


def _queries(name: str, part: Result, scores: Sequence[str]) -> GroupTable:
    """Return the queries of a data set, whose weights add up to 1 in means."""
    own = part.group_table()
    places = {score: at for at, score in enumerate(own.roles.scores)}
    values = np.full((len(scores), *own.values.shape[1:]), np.nan)
    weights = {}
    for model, score in enumerate(scores):
        at = places.get(score)
        if at is not None:
            values[model] = own.values[at]
        for m, one in enumerate(own.measures):
            if one.pooled:
                continue
            weight = np.zeros(len(own)) if at is None else own.terms(at, m)[1]
            total = 1.0 if one.aggregate == "sum" else math.fsum(weight.tolist())
            weights[model, m] = weight / total if total else weight
    return replace(
        own,
        roles=replace(own.roles, group=(_BY, *own.roles.group), scores=tuple(scores)),
        values=values,
        weights=weights,
        keys=(pa.array([name] * len(own), pa.string()), *map(decode_array, own.keys)),
        first_rows=None,
    )


def _name_in_mteb(asked: Measure) -> str:
    """Return the name that files of MTEB have for a measure."""
    name, at, cutoff = str(asked).partition("@")
    if name not in _MTEB or not at:
        known = ", ".join(f"{each}@k" for each in _MTEB)
        raise MeasureError(
            f"measures: must be measures that MTEB writes ({known}), got {asked}; evaluate "
            "without it."
        )
    return f"{_MTEB[name]}_at_{cutoff}"


def _file_name(name: str) -> str:
    """Make the name of a file, as MTEB does."""
    text = name.replace("/", "__")
    if not re.fullmatch(r"\w[\w.+ -]*", text):
        raise ArgumentError(
            "run: must have names of letters, digits and . _ - + / for files of MTEB, got "
            f"{name!r}; rename the system or data set."
        )
    return text
