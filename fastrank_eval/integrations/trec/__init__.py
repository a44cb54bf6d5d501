"""TREC runs and relevance judgements as Arrow tables.

::

    import fastrank_eval as fe

    joined = fe.trec.join("bm25.run.gz", "qrels.txt")
    fe.evaluate(
        joined.table, group="query", item="doc", label="grade", score="score", ties="item",
        unretrieved="allow", unjudged="allow", measures="AP,nDCG@10",
    )

The rooms, each importing only from those named before it: `pairs` (query and document as one key),
`keyed` (a table of pairs), `blocks` (files, bytes and streams in blocks of whole lines), `fields`
(where fields of lines end), `lines` (text to columns, a block at a time), `repeats` (pairs that
stand twice), `tables` (columns and dicts in one form), `reading` (`read_run`, `read_qrels`),
`diversity` (`read_diversity_qrels`), `matching` (whose judgement is whose), `joining` (`join`),
`ranked` (documents as trec_eval ranks them), `lines_printed` (trec_eval's lines as measures of
ours), `report` (`trec_report`).
"""

from __future__ import annotations

from fastrank_eval.integrations.trec.diversity import read_diversity_qrels
from fastrank_eval.integrations.trec.join import Joined, join
from fastrank_eval.integrations.trec.report import TrecReport, trec_report
from fastrank_eval.integrations.trec.tables import read_qrels, read_run

__all__ = [
    "Joined",
    "TrecReport",
    "join",
    "read_diversity_qrels",
    "read_qrels",
    "read_run",
    "trec_report",
]
