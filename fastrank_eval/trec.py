"""Read, join and report TREC runs and relevance judgements.

::

    import fastrank_eval as fe

    joined = fe.trec.join("bm25.run.gz", "qrels.txt")
    fe.evaluate(
        joined.table, group="query", item="doc", label="grade", score="score", ties="item",
        unretrieved="allow", unjudged="allow", measures="AP,nDCG@10",
    )
"""

from fastrank_eval.integrations.trec.join import Joined, join
from fastrank_eval.integrations.trec.report import TrecReport, trec_report
from fastrank_eval.integrations.trec.tables import read_diversity_qrels, read_qrels, read_run

__all__ = [
    "Joined",
    "TrecReport",
    "join",
    "read_diversity_qrels",
    "read_qrels",
    "read_run",
    "trec_report",
]
