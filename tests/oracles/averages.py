"""Exact averages over all orders of tied rows, rank by rank, where enumeration is out of reach.

After McSherry and Najork, "Computing information retrieval performance measures efficiently in the
presence of tied scores", ECIR 2008; ERR by elementary symmetric functions. Written from the
probabilities of a random permutation, one rank at a time: no prefix tables, no shortcuts.
`test_oracles.py` compares every one with enumeration.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from tests.oracles import measures as oracles
from tests.oracles import trec as oracle_trec
from tests.oracles import user_models as oracle_user_models
from tests.oracles.measures import Ranked, Row


class Block(NamedTuple):
    """Rows that share a score: they take the ranks above + 1 ... above + len(labels)."""

    above: int
    labels: list[float | None]


def blocks_of(rows: Sequence[Row]) -> Iterator[Block]:
    above = 0
    for block in oracles.tie_blocks(rows):
        yield Block(above, [row.label for row in block])
        above += len(block)


def relevant_in(block: Block, rel: float) -> int:
    return sum(oracles.is_relevant(label, rel) for label in block.labels)


def average(
    name: str,
    rows: Sequence[Row],
    judged: tuple[float, ...],
    k: int | None,
    options: dict[str, Any],
) -> float | None:
    """Mean of a measure over every order of the tied rows, None without a formula here."""
    blocks = list(blocks_of(rows))
    ranked = Ranked(oracles.resolved(rows, "input"), judged)
    total = oracles.relevant_total(ranked, options.get("rel", 1))
    if name in ("SetAP", "Utility", "NumRet", "NumRel", "NumRelRet", "NumNonrelRet"):
        # No order matters.
        return oracles.POSITION[name](ranked, k, **options)
    if name in ("R", "AP", "GMAP", "F", "Rprec", "RelP", "binG", "bpref", "GMbpref") and total == 0:
        return math.nan
    if name == "P":
        ranks = oracles.depth(ranked, k, options.get("short", "k"))
        return hits_within(blocks, k, options.get("rel", 1)) / ranks if ranks else 0.0
    if name == "R":
        return hits_within(blocks, k, **options) / total
    if name == "Rprec":
        ranks = oracle_trec.ranks_at_multiple(options.pop("mult", 1), total)
        return hits_within(blocks, ranks, **options) / ranks if ranks else 0.0
    if name == "RelP":
        most = min(len(ranked.labels) if k is None else k, total)
        return hits_within(blocks, k, **options) / most if most else 0.0
    if name == "binG":
        return average_lag(blocks, **options) / total
    if name == "Q":
        return average_q(blocks, ranked, k, **options)
    if name in ("nDCGrel", "RnDCG"):
        if "rel" in options and total == 0:
            return math.nan
        average_of = average_at_relevant if name == "nDCGrel" else average_at_levels
        return average_of(blocks, ranked, options.get("gain", "linear"))
    if name == "F":
        return average_f(blocks, ranked, k, total, **options)
    if name == "Success":
        return average_success(blocks, k, **options)
    if name == "RR":
        return average_rr(blocks, k, **options)
    if name in ("AP", "GMAP"):
        return average_ap(blocks, ranked, k, **options)
    if name in ("CG", "DCG"):
        return average_dcg(blocks, k, constant=name == "CG", **options)
    if name == "nDCG":
        return average_ndcg(blocks, ranked, k, **options)
    if name == "RBPres":
        return average_residual(blocks, ranked, **options)
    if name in ("bpref", "GMbpref"):
        return average_bpref(blocks, ranked, total, **options)
    if name in ("Judged", "Unjudged"):
        return average_judged(blocks, ranked, k, holes=name == "Unjudged", **options)
    if name == "ERR":
        return average_err(blocks, ranked, k, **options)
    if name == "pFound":
        return average_cascade(blocks, k, options.pop("patience", 0.85), **options)
    if name in oracle_user_models.WEIGHTS:
        return average_user_model(blocks, k, oracle_user_models.WEIGHTS[name], **options)
    return None


def within(k: int | None, rank: int) -> bool:
    return k is None or rank <= k


def hits_within(blocks: Sequence[Block], k: int | None, rel: float = 1) -> float:
    """Each rank of a block holds a relevant row with probability r / n."""
    return math.fsum(
        relevant_in(block, rel) / len(block.labels)
        for block in blocks
        for place in range(1, len(block.labels) + 1)
        if within(k, block.above + place)
    )


def average_f(
    blocks: Sequence[Block],
    ranked: Ranked,
    k: int | None,
    total: int,
    beta: float = 1,
    alpha: float | None = None,
    rel: float = 1,
    short: str = "k",
) -> float:
    """F is linear in the hits once the two denominators are fixed."""
    a = 1 / (1 + beta**2) if alpha is None else alpha
    return hits_within(blocks, k, rel) / (a * oracles.depth(ranked, k, short) + (1 - a) * total)


def average_success(blocks: Sequence[Block], k: int | None, rel: float = 1) -> float:
    """Blocks are permuted independently: multiply the chances of finding nothing."""
    nothing = 1.0
    for block in blocks:
        n, r = len(block.labels), relevant_in(block, rel)
        m = n if k is None else max(0, min(n, k - block.above))
        nothing *= math.comb(n - r, m) / math.comb(n, m)
    return 1 - nothing


def average_rr(blocks: Sequence[Block], k: int | None, rel: float = 1) -> float:
    """The first relevant of a block stands at place i in C(n - i, r - 1) of C(n, r) layouts."""
    for block in blocks:
        n, r = len(block.labels), relevant_in(block, rel)
        if r:
            return math.fsum(
                math.comb(n - place, r - 1) / math.comb(n, r) / (block.above + place)
                for place in range(1, n + 1)
                if within(k, block.above + place)
            )
    return 0.0


def average_ap(
    blocks: Sequence[Block],
    ranked: Ranked,
    k: int | None,
    rel: float = 1,
    over: str = "relevant",
) -> float:
    """At a relevant place i: itself, all relevant above the block, and (i-1)(r-1)/(n-1) inside."""
    terms, before = [], 0
    for block in blocks:
        n, r = len(block.labels), relevant_in(block, rel)
        for place in range(1, n + 1):
            rank = block.above + place
            if within(k, rank) and r:
                inside = (place - 1) * (r - 1) / (n - 1) if n > 1 else 0.0
                terms.append(r / n * (1 + before + inside) / rank)
        before += r
    denominator = oracles.ap_denominator(ranked, k, rel, over)
    return math.fsum(terms) / denominator if denominator else 0.0


def average_dcg(
    blocks: Sequence[Block],
    k: int | None,
    constant: bool = False,
    gain: Any = "exp",
    negative: str = "zero",
    discount: str = "log2",
    base: float = 2,
) -> float:
    """Every rank of a block carries the block's mean gain."""
    terms: list[float] = []
    for block in blocks:
        gains = [oracles.gain_of(g, gain, negative) for g in block.labels]
        mean = math.fsum(gains) / len(gains)
        terms += [
            mean if constant else mean * oracles.discount_at(rank, discount, base)
            for rank in range(block.above + 1, block.above + len(block.labels) + 1)
            if within(k, rank)
        ]
    return math.fsum(terms)


def average_ndcg(blocks: Sequence[Block], ranked: Ranked, k: int | None, **options: Any) -> float:
    ideal = oracles.ideal_dcg(ranked, k, **options)
    options.pop("ideal", None)
    options.pop("max_grade", None)
    return average_dcg(blocks, k, **options) / ideal


def average_bpref(blocks: Sequence[Block], ranked: Ranked, total: int, rel: float = 1) -> float:
    """Of z rows of a block judged not relevant, 0 to z stand above a relevant one alike."""
    bound = min(sum(oracles.judged_nonrelevant(g, rel) for g in ranked.judged), total)
    terms, above = [], 0
    for block in blocks:
        z = sum(oracles.judged_nonrelevant(label, rel) for label in block.labels)
        kept = [1 - min(above + j, total) / bound if above + j else 1.0 for j in range(z + 1)]
        terms.append(relevant_in(block, rel) * math.fsum(kept) / (z + 1))
        above += z
    return math.fsum(terms) / total


def average_residual(
    blocks: Sequence[Block], ranked: Ranked, p: float = 0.8, tail: str = "always"
) -> float:
    """Each rank of a block holds an unknown row as often as any other."""
    terms, found = [], 0
    for block in blocks:
        unknown = sum(label is None or label < 0 for label in block.labels)
        found += unknown
        weights = (p ** (block.above + i) for i in range(len(block.labels)))
        terms.append(unknown / len(block.labels) * math.fsum(weights))
    beyond = p ** len(ranked.labels) if tail == "always" or found else 0.0
    return (1 - p) * math.fsum(terms) + beyond


def average_judged(
    blocks: Sequence[Block], ranked: Ranked, k: int | None, holes: bool, short: str | None = None
) -> float:
    """Each rank of a block holds an unjudged row as often as any other.

    A row of negative grade is a hole, and judged.
    """

    def counts(label: float | None) -> bool:
        return label is None or label < 0 if holes else label is not None

    ranks = oracles.depth(ranked, k, short or ("k" if holes else "length"))
    wanted = math.fsum(
        sum(map(counts, block.labels)) / len(block.labels)
        for block in blocks
        for place in range(1, len(block.labels) + 1)
        if within(k, block.above + place)
    )
    return wanted / ranks if ranks and ranked.labels else 0.0


def average_lag(blocks: Sequence[Block], rel: float = 1) -> float:
    """A relevant row of a block has j others of it before it with a hypergeometric chance."""
    terms, above = [], 0
    for block in blocks:
        n, r = len(block.labels), relevant_in(block, rel)
        for place in range(1, n + 1) if r else ():
            for j in range(place):
                before = math.comb(n - r, j) * math.comb(r - 1, place - 1 - j)
                chance = r / n * before / math.comb(n - 1, place - 1)
                terms.append(chance / math.log2(2 + above + j))
        above += n - r
    return math.fsum(terms)


def average_at_relevant(blocks: Sequence[Block], ranked: Ranked, gain: Any) -> float:
    """Each row at each of its places; above it in its block the mean of the other rows' gains."""
    ideal = oracle_trec.ideal_gains(ranked.judged, gain)
    if not ideal:
        return math.nan
    terms, above, found = [], 0.0, 0
    for block in blocks:
        gains = [oracle_trec.positive_gain(label, gain) for label in block.labels]
        n, total = len(gains), math.fsum(gains)
        discounts = [oracles.discount_at(block.above + i, "log2") for i in range(1, n + 1)]
        for place in range(n):
            best = oracle_trec.dcg(ideal, block.above + place + 1)
            for g in filter(None, gains):
                others = (total - g) / (n - 1) if n > 1 else 0.0
                dcg = above + g * discounts[place] + others * math.fsum(discounts[:place])
                terms.append(dcg / best / n)
        above += total / n * math.fsum(discounts)
        found += sum(g > 0 for g in gains)
    end = above / oracle_trec.dcg(ideal, len(ideal))
    return (math.fsum(terms) + (len(ideal) - found) * end) / len(ideal)


def average_q(
    blocks: Sequence[Block],
    ranked: Ranked,
    k: int | None,
    gain: Any = "linear",
    beta: float = 1,
) -> float:
    """Each row at each of its places; above it in its block the mean of the other rows."""
    ideal = oracle_trec.ideal_gains(ranked.judged, gain)
    if not ideal:
        return math.nan
    terms, hits, gained = [], 0, 0.0
    for block in blocks:
        gains = [oracle_trec.positive_gain(label, gain) for label in block.labels]
        n, found, total = len(gains), sum(g > 0 for g in gains), math.fsum(gains)
        for place in range(n):
            rank = block.above + place + 1
            below = rank + beta * math.fsum(ideal[:rank])
            share = place / (n - 1) if n > 1 else 0.0
            for g in filter(None, gains) if within(k, rank) else ():
                of_hits = hits + 1 + share * (found - 1)
                of_gains = gained + g + share * (total - g)
                terms.append((of_hits + beta * of_gains) / below / n)
        hits += found
        gained += total
    return math.fsum(terms) / min(k or len(ideal), len(ideal))


def average_at_levels(blocks: Sequence[Block], ranked: Ranked, gain: Any) -> float:
    ideal = oracle_trec.ideal_gains(ranked.judged, gain)
    if not ideal:
        return math.nan
    lifted = [Block(b.above, [None if g is None else max(g, 0) for g in b.labels]) for b in blocks]
    ranks = oracle_trec.level_ranks(ideal, len(ranked.labels))
    at = (average_dcg(lifted, i, gain=gain) / oracle_trec.dcg(ideal, i) for i in ranks)
    return math.fsum(at) / len(ranks)


def average_err(
    blocks: Sequence[Block],
    ranked: Ranked,
    k: int | None,
    max_grade: float = 4,
    stop: str = "grade",
    normalize: bool = False,
    discount: str = "reciprocal",
) -> float:
    total = average_cascade(blocks, k, discount, max_grade, stop)
    if not normalize:
        return total
    best = sorted(
        (oracles.stop_probability(g, max_grade, stop) for g in ranked.judged), reverse=True
    )
    ideal = oracles.cascade(best[:k], discount)
    return total / ideal if ideal else math.nan


def average_cascade(
    blocks: Sequence[Block],
    k: int | None,
    discount: str | float,
    max_grade: float = 4,
    stop: str = "grade",
) -> float:
    """P(still looking after j of n tied rows) = e_j(x) / C(n, j), x the chances of going on."""
    total, looking = 0.0, 1.0
    for block in blocks:
        going_on = [1.0]
        for size, label in enumerate(block.labels, start=1):
            x = 1 - oracles.stop_probability(label, max_grade, stop)
            longer = [*going_on, 0.0]
            going_on = [
                (size - j) / size * longer[j] + j / size * x * longer[j - 1] * (j > 0)
                for j in range(size + 1)
            ]
        for place in range(1, len(block.labels) + 1):
            rank = block.above + place
            if within(k, rank):
                stops_here = going_on[place - 1] - going_on[place]
                total += oracles.position_share(rank, discount) * looking * stops_here
        looking *= going_on[-1]
    return total


def average_user_model(
    blocks: Sequence[Block],
    k: int | None,
    weight: Callable[..., float],
    rel: float = 1,
    gain: Any = "binary",
    **options: Any,
) -> float:
    """Every rank of a block carries the block's mean gain."""
    return math.fsum(
        oracle_user_models.unit_gain(label, gain, rel)
        / len(block.labels)
        * weight(rank, k, **options)
        for block in blocks
        for label in block.labels
        for rank in range(block.above + 1, block.above + len(block.labels) + 1)
        if within(k, rank)
    )
