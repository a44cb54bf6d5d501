"""Compile the kernels of many tests before the processes of pytest start.

``python -m tests.compile_kernels`` evaluates a little in one process for each core. The processes
share a store of kernels: one compiles a kernel, all others load it.
"""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import fastrank_eval as fe
from tests.every_number import COLUMNS, CURVES, ROLES, log
from tests.strategies import COVERING, PER_GROUP, POOLED_VARIANTS, has_expectation

#: Measures of one evaluation: many enough that few kernels are compiled twice.
TOGETHER = 16
CLICKS = {**COLUMNS, "label": "click", "weight": "weight"}


def evaluations() -> list[tuple[str, dict[str, Any]]]:
    """List functions of the package and their arguments."""
    expected = [text for text in PER_GROUP if has_expectation(text)]
    ordered = [text for text in PER_GROUP if text not in expected]
    pooled = [text for texts in POOLED_VARIANTS.values() for text in texts]
    clicks = [text for text in pooled if "rel=2" not in text and "item" not in text]
    calls: list[tuple[str, dict[str, Any]]] = [
        ("evaluate", {"measures": texts[start : start + TOGETHER], **options})
        for texts, options in (
            (expected, ROLES),
            (pooled, ROLES),
            (ordered, {**ROLES, "ties": "item"}),
            (clicks, CLICKS),
        )
        for start in range(0, len(texts), TOGETHER)
    ]
    calls.append(("evaluate", {"measures": COVERING, "subtopics": "covers", **ROLES}))
    calls.append(("evaluate", {"measures": ["GAUC", "AUC", "NE"], "by": ["slot"], **CLICKS}))
    compared = {**COLUMNS, "label": "click", "baseline": "a", "replicates": 50}
    calls += [
        ("compare", {"measures": "GAUC,nDCG", "test": test, **compared})
        for test in ("clustered_t", "bootstrap", "randomisation")
    ]
    calls.append(("compare", {"measures": "AUC(se='clustered'),NE", **compared}))
    return calls + [("curve", {"kind": kind, **CLICKS}) for kind in CURVES]


def call(number: int) -> None:
    """Call one of them."""
    name, options = evaluations()[number]
    source = {"kind": options.pop("kind")} if name == "curve" else {}
    getattr(fe, name)(**source, source=log(True), **options, threads=1)


def main() -> None:
    """Call all of them in one process for each core."""
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        for _ in pool.map(call, range(len(evaluations()))):
            pass


if __name__ == "__main__":
    main()
