"""compare(): arguments in, Comparison out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from time import perf_counter
from typing import Any

import numpy as np

from fastrank_eval.arguments import (
    at_least_one,
    check_choice,
    check_options,
    column_name,
    open_share,
    processors,
)
from fastrank_eval.comparison.compared_value import ComparedValue
from fastrank_eval.comparison.comparison import Comparison
from fastrank_eval.comparison.evidence import of_groups, of_pool
from fastrank_eval.comparison.kept_groups import KeptGroups, kept_groups
from fastrank_eval.comparison.model_tests import (
    RESAMPLING,
    TESTS,
    Choices,
    refuse_pooled,
)
from fastrank_eval.comparison.multiplicity import CORRECTIONS
from fastrank_eval.comparison.settled_lines import compared_model, corrected
from fastrank_eval.errors import ArgumentError
from fastrank_eval.evaluation import Evaluation, run
from fastrank_eval.measures import Measure
from fastrank_eval.measures.pooled_measure import PooledMeasure
from fastrank_eval.measures.text import measures_asked, spelled_out
from fastrank_eval.meta import Meta
from fastrank_eval.profiles import names_asked
from fastrank_eval.tally import PoolSet, Sums
from fastrank_eval.typed_arguments import typed

__all__ = ["choices_of", "compare", "comparison_of", "measures_taken", "meta_of", "names_taken"]


@typed
def compare(
    source: object,
    *,
    group: str | Sequence[str],
    label: str,
    score: str | Sequence[str],
    baseline: str,
    measures: str | Measure | Sequence[str | Measure],
    test: str = "clustered_t",
    correction: str = "holm",
    replicates: int = 10_000,
    seed: int = 0,
    confidence: float = 0.95,
    threads: int | None = None,
    per_group: bool = True,
    **options: Any,
) -> Comparison:
    """Evaluate models in one pass and tell which are better than a baseline, and how surely.

    The difference of a measure has the paired standard error of two ratios of sums over groups,
    ``sqrt(U / (U - 1) * sum of (e_b - e_a)^2)`` with ``e = w (A - mean) / sum of w`` of each of U
    groups that either model uses: what both models find hard or easy cancels.

    Parameters
    ----------
    source : object
        As `evaluate` takes it.
    group, label, score, measures
        As `evaluate` takes them, with two score columns or more. AUC is taken with
        ``se="clustered"``, for which the score of every row is kept, unless `se`, `bins` or
        `max_fpr` is given.
    baseline : str
        The score column that every other is compared with.
    test : str
        ``"clustered_t"``: the difference over its standard error, groups being clusters, by
        Student's t with one degree of freedom less than groups. ``"clustered_z"``: by the normal
        distribution. ``"paired_t"``, ``"wilcoxon"``, ``"sign"``: of the differences of groups that
        both models use, each group counting once, whatever its weight. ``"randomisation"``: of the
        measure itself, where models change places in groups at random. ``"bootstrap"``: of the
        measure itself over groups drawn anew, with its own standard error and interval
        (percentiles). All are two-sided. All but the first two need a value for each group, which
        measures of all rows together do not have; slices are tested by the first.
    correction : {"holm", "bh", "none"}
        Of the p-values of every measure and candidate together (Holm, or Benjamini and Hochberg);
        those of slices by every slice of a slicing, measure and candidate together.
    replicates, seed : int
        Of randomisation and bootstrap. The result has the same bits for any order of the rows and
        number of threads.
    confidence : float
        In ]0, 1[: of intervals; a difference is shown where the adjusted p-value is at most
        ``1 - confidence``.
    threads : int, optional
        As `evaluate` takes it.
    per_group : bool
        Keep every group's values for `Comparison.movers` and `Comparison.per_group`; False bounds
        memory for endless groups, where AUC with a clustered error is not among the measures.
    **options
        Any other argument of `evaluate`.

    Returns
    -------
    Comparison

    Raises
    ------
    FastRankEvalError
        As `evaluate` does; `ArgumentError` too where a measure cannot have a test.

    References
    ----------
    Deng, Knoblich & Lu (2018), doi:10.1145/3219819.3219919; Holm (1979); Benjamini & Hochberg
    (1995), doi:10.1111/j.2517-6161.1995.tb02031.x.

    Examples
    --------
    >>> import fastrank_eval as fe
    >>> log = {"user": [1, 1, 2, 2, 3, 3], "click": [0, 1, 1, 0, 1, 0],
    ...        "old": [0.1, 0.4, 0.2, 0.3, 0.5, 0.6], "new": [0.1, 0.4, 0.4, 0.3, 0.5, 0.6]}
    >>> found = fe.compare(log, group="user", label="click", score=["old", "new"], baseline="old",
    ...                    measures="GAUC,RR")
    >>> line = found.line("GAUC")
    >>> round(line.delta, 4), line.wins, line.ties, line.losses
    (0.3333, 1, 2, 0)
    """
    started = perf_counter()
    given = {"group", "label", "score", "measures", "baseline", *options}
    check_options("compare", given, run)
    column_name("baseline", baseline)
    choices = choices_of(test, correction, confidence, replicates, seed, threads)
    asked = measures_asked(measures)
    taken = measures_taken(asked)
    refuse_pooled(choices.test, asked)
    if choices.needs_groups and not per_group:
        raise ArgumentError(
            f"test={test!r} reads the values of every group, which per_group=False does not keep; "
            "leave it out, or choose test='clustered_t'."
        )
    done = run(
        source,
        group=group,
        label=label,
        score=score,
        measures=taken,
        baseline=baseline,
        confidence=confidence,
        threads=threads,
        per_group=per_group,
        **options,
    )
    return comparison_of(done, choices, names_taken(asked, taken, done.asked), started)


def comparison_of(
    done: Evaluation, choices: Choices, asked: Mapping[str, str], started: float
) -> Comparison:
    """The comparison that an evaluation with a baseline comes to.

    Parameters
    ----------
    done : Evaluation
        Of a run, or of a saved state. Values of groups, if it kept them, are taken over.
    choices : Choices
    asked : mapping of str to str
        What measures were called that are computed with other options.
    started : float
        By `time.perf_counter`.
    """
    plan = done.plan
    if plan.baseline is None:
        raise ArgumentError(
            "there is no baseline to compare with; name one of the score columns: baseline=..."
        )
    kept = None
    if plan.per_group:
        kept = kept_groups(plan, done.keys, done.values, done.schema)
        done.values.clear()  # they are in `kept` now, and may be large
    baseline = plan.roles.scores[plan.baseline]
    meta = meta_of(done.meta, baseline, choices)
    return Comparison(
        _lines(done, plan.baseline, kept, choices),
        replace(meta, seconds=perf_counter() - started, requested=dict(asked)),
        baseline,
        [plan.roles.scores[model] for model in plan.rivals],
        [str(m) for m in plan.measures],
        asked,
        kept,
        evaluated=done.lines,
    )


def measures_taken(asked: Sequence[Measure]) -> tuple[Measure, ...]:
    """Measures as they are compared: AUC as it has a clustered error, if options allow."""
    return tuple(
        m(se="clustered") if m.name == "AUC" and not m.given & {"se", "bins", "max_fpr"} else m
        for m in asked
    )


def names_taken(
    asked: Sequence[Measure], taken: Sequence[Measure], renamed: Mapping[str, str]
) -> dict[str, str]:
    """Map names of measures that are computed with other options to the texts of those."""
    return names_asked(asked, [renamed.get(spelled_out(mine), str(mine)) for mine in taken])


def choices_of(
    test: str,
    correction: str,
    confidence: float,
    replicates: int,
    seed: int,
    threads: int | None,
) -> Choices:
    """How models are compared, once the arguments are checked."""
    check_choice("test", test, TESTS)
    check_choice("correction", correction, ("none", *CORRECTIONS))
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or not 0 <= seed < 1 << 64:
        raise ArgumentError(f"seed={seed!r} is not a whole number from 0 to 2^64 - 1.")
    return Choices(
        test,
        correction,
        open_share("confidence", confidence),
        at_least_one("replicates", replicates, 10_000),
        int(seed),
        at_least_one("threads", threads, processors()),
    )


def meta_of(meta: Meta, baseline: str, choices: Choices) -> Meta:
    """What the numbers of a comparison rest on."""
    drawn = choices.test in RESAMPLING
    conventions = {
        "baseline": baseline,
        "test": choices.test,
        "correction": choices.correction,
        "replicates": choices.replicates if drawn else None,
        "seed": choices.seed if drawn else None,
    }
    return replace(
        meta, conventions={**conventions, **meta.conventions, "confidence": choices.confidence}
    )


def _lines(
    done: Evaluation, base: int, kept: KeptGroups | None, choices: Choices
) -> list[ComparedValue]:
    plan, tally = done.plan, done.tally
    # Slicings by bins may share a label: "age<18" is a bin of many.
    values = {(v.by, v.slice, v.score, v.measure): v for v in done.lines}
    measures = {str(m): m for m in plan.measures}

    def on_line(
        sums: Sums,
        line: int,
        pools: PoolSet,
        part: tuple[str | None, str],
        kept: KeptGroups | None,
    ) -> list[ComparedValue]:
        """Every candidate and measure on one line of the sums."""
        found = []
        for model in plan.rivals:
            lines = [
                tuple(values[*part, plan.roles.scores[side], text] for text in measures)
                for side in (base, model)
            ]
            known = [
                of_pool(
                    pools,
                    model,
                    measure,
                    plan.threads,
                    sums.rows(line),
                    sums.carriers(line),
                )
                if isinstance(measure, PooledMeasure)
                else of_groups(
                    measure, m, sums.means[base], sums.means[model], sums.pairs[model], line
                )
                for m, measure in enumerate(plan.measures)
            ]
            found += compared_model(plan.measures, lines[0], lines[1], known, choices, kept)
        return found

    whole = on_line(tally.whole, 0, tally.shared.whole, (None, "all"), kept)
    found = corrected(whole, measures, choices)
    for slicing, sums, pools in zip(plan.slicings, tally.slices, tally.shared.slices, strict=True):
        lines: list[ComparedValue] = []
        slices = slicing.slices()
        for line, label in zip(slices.codes.tolist(), slices.labels, strict=True):
            part = str(slicing.spec), label
            if (*part, plan.roles.scores[base], str(plan.measures[0])) in values:
                lines += on_line(sums, line, pools.of(line), part, None)
        found += corrected(lines, measures, choices)
    return found
