"""Evaluate, read, join and report TREC runs and relevance judgements.

::

    import fastrank_eval as fe

    fe.trec.evaluate("qrels.txt", {"bm25": "bm25.run.gz", "ours": "ours.run"}, "nDCG@10,AP")
"""

from fastrank_eval.integrations.trec.benchmark import Benchmark
from fastrank_eval.integrations.trec.evaluate import evaluate
from fastrank_eval.integrations.trec.join import Joined, join
from fastrank_eval.integrations.trec.measures import read_diversity_qrels
from fastrank_eval.integrations.trec.mteb import confidences, nauc, p_mrr
from fastrank_eval.integrations.trec.report import TrecReport, trec_report
from fastrank_eval.integrations.trec.tables import Judgments, read_qrels, read_run

__all__ = [
    "Benchmark",
    "Joined",
    "Judgments",
    "TrecReport",
    "confidences",
    "evaluate",
    "join",
    "nauc",
    "p_mrr",
    "read_diversity_qrels",
    "read_qrels",
    "read_run",
    "trec_report",
]
