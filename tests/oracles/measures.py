"""Plain definitions of every measure, slow and obvious, for tests to compare the engine with.

A group is a list of `Row` in input order. `oracle(text, rows, ties=...)` reads the canonical text
of a measure and returns its value for the group, NaN where it is undefined. Nothing here knows
about arrays, batches or the closed forms of the engine:

* a measure of positions is a function of *one* order of the retrieved rows (`Ranked`);
* a tie policy is a list of equally likely orders, and the value is the mean over them;
* the AUC family compares pairs.

`expected` enumerates every arrangement of the tied labels: many rows may tie if few have a grade.
"""

from __future__ import annotations

import ast
import itertools
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache
from typing import Any, NamedTuple

from fastrank_eval.testing import Row
from tests.oracles import trec as oracle_trec
from tests.oracles.user_models import USER_MODELS

NAN = math.nan
ENUMERATION_LIMIT = 3_000


class Ranked(NamedTuple):
    """Labels of the retrieved rows, best rank first, and of all judged rows of the group."""

    labels: tuple[float | None, ...]
    judged: tuple[float, ...]


def read(text: str) -> tuple[str, dict[str, Any], int | None]:
    """Split a measure's text: ``"F(beta=2)@5"`` is ``("F", {"beta": 2}, 5)``."""
    name, options, cutoff = _parsed(text)
    return name, dict(options), cutoff


@cache
def _parsed(text: str) -> tuple[str, dict[str, Any], int | None]:
    found = re.fullmatch(r"(\w+)(?:\((.*)\))?(?:@(\d+))?", text)
    if found is None:
        raise ValueError(f"not a measure: {text!r}")
    name, inside, cutoff = found.groups()
    call = ast.parse(f"f({inside or ''})", mode="eval").body
    assert isinstance(call, ast.Call)
    options = {str(word.arg): ast.literal_eval(word.value) for word in call.keywords}
    return name, options, None if cutoff is None else int(cutoff)


# ---- measures of one order -----------------------------------------------------------------------


def is_relevant(label: float | None, rel: float) -> bool:
    return label is not None and label >= rel


def top(ranked: Ranked, k: int | None) -> tuple[float | None, ...]:
    return ranked.labels if k is None else ranked.labels[:k]


def hits(ranked: Ranked, k: int | None, rel: float = 1) -> int:
    return sum(is_relevant(label, rel) for label in top(ranked, k))


def relevant_total(ranked: Ranked, rel: float) -> int:
    return sum(label >= rel for label in ranked.judged)


def depth(ranked: Ranked, k: int | None, short: str) -> int:
    n = len(ranked.labels)
    if k is None:
        return n
    return min(k, n) if short == "length" else k


def precision(ranked: Ranked, k: int | None, rel: float = 1, short: str = "k") -> float:
    ranks = depth(ranked, k, short)
    return hits(ranked, k, rel) / ranks if ranks else 0.0


def recall(ranked: Ranked, k: int | None, rel: float = 1) -> float:
    total = relevant_total(ranked, rel)
    return hits(ranked, k, rel) / total if total else NAN


def f_measure(
    ranked: Ranked,
    k: int | None,
    beta: float = 1,
    alpha: float | None = None,
    rel: float = 1,
    short: str = "k",
) -> float:
    p, r = precision(ranked, k, rel, short), recall(ranked, k, rel)
    if math.isnan(r) or p == 0 or r == 0:
        return r * p
    a = 1 / (1 + beta**2) if alpha is None else alpha
    return 1 / (a / p + (1 - a) / r)


def success(ranked: Ranked, k: int | None, rel: float = 1) -> float:
    return 1.0 if hits(ranked, k, rel) else 0.0


def average_precision(
    ranked: Ranked,
    k: int | None,
    rel: float = 1,
    over: str = "relevant",
    interpolated: bool = False,
) -> float:
    if relevant_total(ranked, rel) == 0:
        return NAN
    kept = top(ranked, k)
    at = [precision(ranked, i, rel) for i in range(1, len(kept) + 1)]
    if interpolated:
        at = [max(at[i:]) for i in range(len(at))]
    total = math.fsum(p for p, label in zip(at, kept, strict=True) if is_relevant(label, rel))
    denominator = ap_denominator(ranked, k, rel, over)
    return total / denominator if denominator else 0.0


def ap_denominator(ranked: Ranked, k: int | None, rel: float, over: str) -> int:
    if over == "retrieved":
        return hits(ranked, None, rel)
    total = relevant_total(ranked, rel)
    return min(k, total) if over == "min" and k is not None else total


def reciprocal_rank(ranked: Ranked, k: int | None, rel: float = 1) -> float:
    for rank, label in enumerate(top(ranked, k), start=1):
        if is_relevant(label, rel):
            return 1 / rank
    return 0.0


def gain_of(label: float | None, gain: str | dict[float, float], negative: str = "zero") -> float:
    """A table wins for the grades it names; else a negative grade gains nothing unless kept."""
    if label is None:
        return 0.0
    if isinstance(gain, dict):
        return gain.get(label, 0.0)
    if label < 0 and negative == "zero":
        return 0.0
    return 2.0**label - 1 if gain == "exp" else float(label)


def discount_at(rank: int, discount: str, base: float = 2) -> float:
    if discount == "jarvelin":
        return 1.0 if rank < base else 1 / math.log(rank, base)
    return 1 / math.log2(rank + 1)


def discounted(gains: Sequence[float], discount: str, base: float) -> float:
    return math.fsum(g * discount_at(i, discount, base) for i, g in enumerate(gains, start=1))


def cg(ranked: Ranked, k: int | None, gain: Any = "exp", negative: str = "zero") -> float:
    return math.fsum(gain_of(label, gain, negative) for label in top(ranked, k))


def dcg(
    ranked: Ranked,
    k: int | None,
    gain: Any = "exp",
    negative: str = "zero",
    discount: str = "log2",
    base: float = 2,
) -> float:
    gains = [gain_of(label, gain, negative) for label in top(ranked, k)]
    return discounted(gains, discount, base)


def ideal_dcg(
    ranked: Ranked,
    k: int | None,
    gain: Any = "exp",
    negative: str = "zero",
    discount: str = "log2",
    base: float = 2,
    ideal: str = "judged",
    max_grade: float | None = None,
) -> float:
    """DCG of the best order; NaN without a gain, or if it is not above 0.

    A row without a label gains nothing, and neither does a bad one that was not retrieved.
    """
    retrieved = [gain_of(label, gain, negative) for label in ranked.labels]
    missed = Counter(ranked.judged) - Counter(g for g in ranked.labels if g is not None)
    others = [max(gain_of(label, gain, negative), 0.0) for label in missed.elements()]
    pool = retrieved if ideal == "retrieved" else retrieved + others
    best = discounted(sorted(pool, reverse=True)[:k], discount, base)
    if ideal == "perfect":
        ranks = len(ranked.labels) if k is None else k
        best = discounted([gain_of(max_grade, gain)] * ranks, discount, base)
        pool = retrieved + others
    return best if best > 0 and max(pool, default=0) > 0 else NAN


def ndcg(ranked: Ranked, k: int | None, **options: Any) -> float:
    ideal = ideal_dcg(ranked, k, **options)
    options.pop("ideal", None)
    options.pop("max_grade", None)
    return dcg(ranked, k, **options) / ideal


def stop_probability(label: float | None, max_grade: float, stop: str) -> float:
    if label is None or label <= 0:
        return 0.0
    return float(label) if stop == "label" else (2.0**label - 1) / 2.0**max_grade


def position_share(rank: int, discount: str | float) -> float:
    """What is left at a rank; a number is the probability of going on from each one before."""
    if isinstance(discount, str):
        return 1 / rank if discount == "reciprocal" else discount_at(rank, discount)
    return discount ** (rank - 1)


def cascade(stops: Sequence[float], discount: str | float) -> float:
    total, still_looking = 0.0, 1.0
    for rank, stop in enumerate(stops, start=1):
        total += position_share(rank, discount) * still_looking * stop
        still_looking *= 1 - stop
    return total


def err(
    ranked: Ranked,
    k: int | None,
    max_grade: float = 4,
    stop: str = "grade",
    normalize: bool = False,
    discount: str = "reciprocal",
) -> float:
    stops = [stop_probability(label, max_grade, stop) for label in top(ranked, k)]
    value = cascade(stops, discount)
    if not normalize:
        return value
    best = sorted((stop_probability(g, max_grade, stop) for g in ranked.judged), reverse=True)
    ideal = cascade(best[:k], discount)
    return value / ideal if ideal else NAN


def judged_nonrelevant(label: float | None, rel: float) -> bool:
    """A negative grade says that the row was pooled, but not judged."""
    return label is not None and 0 <= label < rel


def bpref(ranked: Ranked, k: int | None, rel: float = 1) -> float:
    total = relevant_total(ranked, rel)
    if not total:
        return NAN
    bound = min(sum(judged_nonrelevant(label, rel) for label in ranked.judged), total)
    above, value = 0, 0.0
    for label in ranked.labels:
        above += judged_nonrelevant(label, rel)
        if is_relevant(label, rel):
            value += 1 - min(above, total) / bound if above else 1
    return value / total


def inferred_ap(ranked: Ranked, k: int | None, rel: float = 1, e: float = 1e-5) -> float:
    total = relevant_total(ranked, rel)
    if not total:
        return NAN
    value = 0.0
    for j, label in enumerate(ranked.labels):
        if not is_relevant(label, rel):
            continue
        above = ranked.labels[:j]
        found = sum(is_relevant(other, rel) for other in above)
        others = sum(judged_nonrelevant(other, rel) for other in above)
        pooled = sum(other is not None for other in above)
        share = (found + e) / (found + others + 2 * e)
        value += 1 / (j + 1) + (j / (j + 1) * pooled / j * share if j else 0)
    return value / total


def nonrelevant_retrieved(ranked: Ranked, k: int | None, rel: float = 1) -> float:
    return float(sum(judged_nonrelevant(label, rel) for label in ranked.labels))


def rbp_residual(ranked: Ranked, k: int | None, p: float = 0.8, tail: str = "always") -> float:
    unknown = [i for i, label in enumerate(ranked.labels) if label is None or label < 0]
    beyond = p ** len(ranked.labels) if tail == "always" or unknown else 0.0
    return (1 - p) * sum(p**i for i in unknown) + beyond


def unjudged(ranked: Ranked, k: int | None, short: str = "k") -> float:
    ranks = depth(ranked, k, short)
    holes = sum(label is None or label < 0 for label in top(ranked, k))
    return holes / ranks if ranks and ranked.labels else 0.0


def judged(ranked: Ranked, k: int | None, short: str = "length") -> float:
    ranks = depth(ranked, k, short)
    there = sum(label is not None for label in top(ranked, k))
    return there / ranks if ranks and ranked.labels else 0.0


def pfound(
    ranked: Ranked, k: int | None, patience: float = 0.85, max_grade: float = 4, stop: str = "grade"
) -> float:
    stops = [stop_probability(label, max_grade, stop) for label in top(ranked, k)]
    return cascade(stops, patience)


POSITION: dict[str, Callable[..., float]] = {
    "P": precision,
    "R": recall,
    "F": f_measure,
    "Success": success,
    "Hits": hits,
    "Rprec": oracle_trec.r_precision,
    "RelP": oracle_trec.relative_precision,
    "IPrec": oracle_trec.interpolated_precision,
    "IPrec11": oracle_trec.eleven_points,
    "SetAP": oracle_trec.set_average_precision,
    "Utility": oracle_trec.utility,
    "NumRet": oracle_trec.retrieved_rows,
    "NumRel": oracle_trec.relevant_rows,
    "NumRelRet": oracle_trec.relevant_retrieved_rows,
    "nDCGrel": oracle_trec.ndcg_at_relevant,
    "Q": oracle_trec.q_measure,
    "Compat": oracle_trec.compatibility,
    "RnDCG": oracle_trec.ndcg_at_levels,
    "G": oracle_trec.lagging_gain,
    "binG": oracle_trec.binary_lagging_gain,
    "AP": average_precision,
    "GMAP": average_precision,
    "RR": reciprocal_rank,
    "CG": cg,
    "DCG": dcg,
    "nDCG": ndcg,
    "ERR": err,
    "bpref": bpref,
    "GMbpref": bpref,
    "NumNonrelRet": nonrelevant_retrieved,
    "RBPres": rbp_residual,
    "infAP": inferred_ap,
    "Judged": judged,
    "Unjudged": unjudged,
    "pFound": pfound,
    **USER_MODELS,
}


# ---- pairs ---------------------------------------------------------------------------------------


def classes(rows: Sequence[Row], rel: float) -> tuple[list[Row], list[Row]]:
    """Positive and negative rows (unjudged rows are negative); those without a score are last."""
    ranked = [row._replace(score=-math.inf) if row.score is None else row for row in rows]
    positive = [row for row in ranked if is_relevant(row.label, rel)]
    return positive, [row for row in ranked if not is_relevant(row.label, rel)]


def weight_of(rows: Sequence[Row]) -> float:
    return math.fsum(row.weight for row in rows)


def pair_auc(rows: Sequence[Row], rel: float = 1) -> float:
    """Share of (positive, negative) pairs in the right order, a tie counting one half."""
    positive, negative = classes(rows, rel)
    pairs = weight_of(positive) * weight_of(negative)
    if not pairs:
        return NAN
    won = math.fsum(
        p.weight * n.weight * (1.0 if p.score > n.score else 0.5 if p.score == n.score else 0.0)
        for p in positive
        for n in negative
    )
    return won / pairs


def partial_auc(rows: Sequence[Row], max_fpr: float, rel: float = 1) -> float:
    """Area under the ROC curve left of `max_fpr`, standardised as McClish (1989) does."""
    positive, negative = classes(rows, rel)
    if not weight_of(positive) or not weight_of(negative):
        return NAN
    fpr, tpr = [0.0], [0.0]
    for threshold in sorted({row.score for row in positive + negative}, reverse=True):
        tpr.append(weight_of([p for p in positive if p.score >= threshold]) / weight_of(positive))
        fpr.append(weight_of([n for n in negative if n.score >= threshold]) / weight_of(negative))
    area = 0.0
    for (x0, y0), (x1, y1) in itertools.pairwise(zip(fpr, tpr, strict=True)):
        if x0 >= max_fpr:
            break
        if x1 > max_fpr:
            y1 = y0 + (y1 - y0) * (max_fpr - x0) / (x1 - x0)
            x1 = max_fpr
        area += (x1 - x0) * (y0 + y1) / 2
    lowest = max_fpr**2 / 2
    return 0.5 * (1 + (area - lowest) / (max_fpr - lowest))


def pooled(text: str, rows: Sequence[Row]) -> float:
    """The pooled AUC of all rows, whatever their group."""
    name, options, _ = read(text)
    assert name == "AUC"
    max_fpr = options.pop("max_fpr", None)
    if max_fpr is None or max_fpr == 1:
        return pair_auc(rows, **options)
    return partial_auc(rows, max_fpr, **options)


# ---- ties ----------------------------------------------------------------------------------------


def tie_blocks(rows: Sequence[Row]) -> list[list[Row]]:
    """Retrieved rows by falling score; rows of one block share a score and keep input order."""
    scores = sorted({row.score for row in rows if row.score is not None}, reverse=True)
    return [[row for row in rows if row.score == score] for score in scores]


def merit(row: Row) -> float:
    return 0.0 if row.label is None else row.label


def resolved(rows: Sequence[Row], ties: str) -> tuple[float | None, ...]:
    """The one order that a policy other than `expected` picks."""
    order: list[Row] = []
    for block in tie_blocks(rows):
        if ties == "item":
            block = sorted(block, key=lambda row: row.item.encode(), reverse=True)
        elif ties in ("best", "worst"):
            block = sorted(
                block, key=lambda row: (merit(row), row.label is not None), reverse=ties == "best"
            )
        elif ties != "input":
            raise ValueError(ties)
        order += block
    return tuple(row.label for row in order)


def arrangements(labels: Sequence[float | None]) -> Iterator[tuple[float | None, ...]]:
    """Every distinct order of the labels; each stands for equally many orders of the rows."""
    left = Counter(labels)

    def extend(done: tuple[float | None, ...]) -> Iterator[tuple[float | None, ...]]:
        if len(done) == len(labels):
            yield done
        for label in list(left):
            if left[label]:
                left[label] -= 1
                yield from extend((*done, label))
                left[label] += 1

    return extend(())


def count_arrangements(rows: Sequence[Row]) -> int:
    count = 1
    for block in tie_blocks(rows):
        count *= math.factorial(len(block))
        for same in Counter(row.label for row in block).values():
            count //= math.factorial(same)
    return count


def all_orders(rows: Sequence[Row]) -> list[tuple[float | None, ...]]:
    blocks = [list(arrangements([row.label for row in block])) for block in tie_blocks(rows)]
    return [tuple(itertools.chain(*order)) for order in itertools.product(*blocks)]


# ---- the value of a group ------------------------------------------------------------------------


def oracle(text: str, rows: Sequence[Row], ties: str = "expected") -> float:
    """Value of one measure for one group, NaN where it is undefined."""
    name, options, k = read(text)
    options.pop("weight", None)
    if name == "GAUC":
        return group_auc(rows, **options)
    orders = equally_likely(tuple(rows), ties)
    values = [POSITION[name](ranked, k, **options) for ranked in orders]
    return math.fsum(values) / len(values)


@lru_cache(maxsize=1_000)  # tests take measure after measure, each through the same groups
def equally_likely(rows: tuple[Row, ...], ties: str) -> tuple[Ranked, ...]:
    """The orders a tie policy leaves."""
    judged = tuple(row.label for row in rows if row.label is not None)
    if ties != "expected":
        return (Ranked(resolved(rows, ties), judged),)
    assert count_arrangements(rows) <= ENUMERATION_LIMIT, "too many orders of tied rows"
    return tuple(Ranked(order, judged) for order in all_orders(rows))


def group_auc(
    rows: Sequence[Row],
    rel: float = 1,
    single_class: Any = None,
    min_rows: int = 0,
    min_positives: int = 0,
) -> float:
    """Per-group AUC; a number given as `single_class` is its value where one class is missing."""
    reason = auc_reason(rows, rel, min_rows, min_positives)
    class_missing = reason in ("all_negative", "all_positive", "zero_weight")
    if class_missing and isinstance(single_class, int | float):
        return float(single_class)
    return NAN if reason else pair_auc(rows, rel)


def auc_reason(
    rows: Sequence[Row], rel: float = 1, min_rows: int = 0, min_positives: int = 0
) -> str | None:
    positive, negative = classes(rows, rel)
    if len(positive) + len(negative) < min_rows:
        return "few_rows"
    if len(positive) < min_positives:
        return "few_positives"
    if positive and negative and not (weight_of(positive) and weight_of(negative)):
        return "zero_weight"
    if not weight_of(positive):
        return "all_negative"
    return None if weight_of(negative) else "all_positive"


def reason(text: str, rows: Sequence[Row]) -> str | None:
    """Why a group has no value, or None where it has one."""
    name, options, _ = read(text)
    if not math.isnan(oracle(text, rows, "input")):
        return None
    if name != "GAUC":
        return "no_relevant"
    return auc_reason(rows, **{k: v for k, v in options.items() if k in AUC_REASON_OPTIONS})


AUC_REASON_OPTIONS = ("rel", "min_rows", "min_positives")
