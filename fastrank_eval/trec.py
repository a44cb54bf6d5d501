"""TREC runs and relevance judgements as Arrow tables, and trec_eval's report of them."""

from fastrank_eval.integrations.trec import (
    Joined,
    TrecReport,
    join,
    read_diversity_qrels,
    read_qrels,
    read_run,
    trec_report,
)

__all__ = [
    "Joined",
    "TrecReport",
    "join",
    "read_diversity_qrels",
    "read_qrels",
    "read_run",
    "trec_report",
]
