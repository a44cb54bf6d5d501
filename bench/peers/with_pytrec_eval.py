"""A TREC run from text, by pytrec-eval-terrier: trec_eval 9 behind dicts of Python's."""

from __future__ import annotations

from pathlib import Path

import pytrec_eval

__all__ = ["evaluate_trec"]


def evaluate_trec(qrels: str, run: str) -> dict[str, float]:
    """Every measure it supports, over all queries."""
    with Path(qrels).open(encoding="ascii") as file:
        judgements = pytrec_eval.parse_qrel(file)
    with Path(run).open(encoding="ascii") as file:
        retrieved = pytrec_eval.parse_run(file)
    evaluator = pytrec_eval.RelevanceEvaluator(judgements, pytrec_eval.supported_measures)
    found = list(evaluator.evaluate(retrieved).values())
    return {
        name: float(
            pytrec_eval.compute_aggregated_measure(name, [values[name] for values in found])
        )
        for name in found[0]
    }
