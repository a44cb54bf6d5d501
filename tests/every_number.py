"""Every number of a small log as its exact bits, for processes that are to agree on them.

Run as a script, it prints one line of JSON: numbers in hexadecimal by what they are.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

import fastrank_eval as fe
from tests.strategies import (
    COVERING,
    LASTING,
    POOLED_VARIANTS,
    has_expectation,
)

SIZES = (1, 2, 3, 5, 9, 14, 25, 60, 1700, *range(2, 40))
CURVES = ("roc", "pr", "det", "lift", "calibration")
COLUMNS = {"group": "group", "label": "label", "score": ["a", "b"]}
ROLES = {**COLUMNS, "unjudged": "allow", "item": "item", "ties": "item"}


def log(whole: bool) -> dict[str, Any]:
    """Rows of groups of many sizes, scores tied here and there, grades whole or not."""
    rng = np.random.default_rng(5)
    group = np.repeat(np.arange(len(SIZES)), SIZES)
    rows = len(group)
    a = np.round(rng.random(rows), 3)
    grade = rng.choice([0, 0, 1, 2, 3] if whole else [0.0, 0.3, 1.0, 1.7, 2.9], rows)
    return {
        "group": group,
        "item": np.array([f"d{n}" for n in rng.permutation(rows)]),
        "label": grade,
        "click": (grade > 1).astype(np.int8),
        "a": a,
        "b": np.clip(a * 0.9 + 0.1 * rng.random(rows), 0, 1),
        "weight": rng.choice([0.1, 0.7, 1.3, 4.0], rows),
        "spend": 0.1 + 0.3 * group,
        "slot": rng.integers(0, 3, rows),
        "covers": pa.array([sorted({n % 3, n % 7}) for n in rng.integers(0, 50, rows)]),
    }


def numbers(what: str, found: object) -> Iterator[tuple[str, str]]:
    """Every float inside nested mappings and lists, by its path."""
    if isinstance(found, float):
        yield what, "nan" if math.isnan(found) else found.hex()
    elif isinstance(found, dict):
        for name, value in found.items():
            yield from numbers(f"{what}.{name}", value)
    elif isinstance(found, list | tuple):
        for place, value in enumerate(found):
            yield from numbers(f"{what}[{place}]", value)


def lines(what: str, result: Any) -> Iterator[tuple[str, str]]:
    told = result.document()
    told.pop("meta", None)  # how long it took
    yield from numbers(what, told)


def every_number() -> Iterator[tuple[str, str]]:
    """Of measures, slices, comparisons, curves, thresholds and classes."""
    table, graded = log(True), log(False)
    expected = [text for text in LASTING if has_expectation(text)]
    pooled = [text for texts in POOLED_VARIANTS.values() for text in texts]
    ordered = [text for text in LASTING if text not in expected]
    for ties, texts in (("expected", expected), ("item", ordered)):
        found = fe.evaluate(table, measures=texts, **{**ROLES, "ties": ties})
        yield from lines(ties, found)
        yield from numbers(ties, found.per_group.to_pylist())
    found = fe.evaluate(table, measures=COVERING, **ROLES, subtopics="covers")
    yield from lines("diversity", found)
    exponential = ["nDCG", "DCG", "Q(gain='exp')", "G(gain='exp')", "ERR", "pFound@5"]
    exponential += ["nDCG(discount='jarvelin', base=3, weight='spend')", "GMAP", "GMbpref"]
    yield from lines("fractions", fe.evaluate(graded, measures=exponential, **ROLES))
    yield from lines("pooled", fe.evaluate(table, measures=pooled, **ROLES))
    weighted = [*pooled, "GAUC", "GAUC(weight='pairs')", "GAUC(weight='spend')"]
    clicks = {**COLUMNS, "label": "click", "weight": "weight"}
    for measures, by in ((weighted, None), (["GAUC", "AUC", "NE", "ECCE"], ["slot"])):
        measures = [text for text in measures if "rel=2" not in text and "item" not in text]
        yield from lines(f"by {by}", fe.evaluate(table, measures=measures, by=by, **clicks))
    asked = {**COLUMNS, "label": "click", "baseline": "a", "replicates": 200}
    for test in ("clustered_z", "clustered_t", "paired_t", "wilcoxon", "sign", "bootstrap"):
        grouped = test not in ("clustered_z", "clustered_t")
        texts = "GAUC,nDCG,GMAP,RR" if grouped else "GAUC,nDCG,GMAP,AUC(se='clustered'),NE,LogLoss"
        yield from lines(test, fe.compare(table, measures=texts, test=test, **asked))
    yield from lines("swaps", fe.compare(table, measures="GAUC", test="randomisation", **asked))
    yield from lines("moved", fe.compare(table, measures="GAUC,NE", by="slot", **asked))
    for kind in CURVES:
        curve = fe.curve(kind, table, **{**COLUMNS, "label": "click", "weight": "weight"})
        yield from numbers(kind, curve.records().to_pylist())
        yield from numbers(kind, dict(curve.values))
    for by in ("f1", "youden", "closest", "accuracy"):
        best = fe.best_threshold(table, label="click", score="a", weight="weight", by=by)
        yield from numbers(by, best.document())
    classes = {"kind": table["slot"], **dict(zip("xyz", three_scores(table["a"]), strict=True))}
    asked = {"label": "kind", "scores": {0: "x", 1: "y", 2: "z"}, "measures": "AUC,MCC,NE,FScore"}
    yield from lines("classes", fe.evaluate_classes(classes, average="macro,weighted", **asked))
    yield from numbers("relative", fe.rela_impr(0.7123, 0.6543))


def three_scores(a: np.ndarray) -> Iterator[np.ndarray]:
    """Shares that add up to 1."""
    yield a / 2
    yield (1 - a) / 2
    yield np.full(len(a), 0.5)


if __name__ == "__main__":
    json.dump(dict(every_number()), sys.stdout)
