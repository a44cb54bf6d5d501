"""TREC runs and relevance judgements as Arrow tables.

The rooms, each importing only from those named before it: `pairs` (query and document as one key),
`keyed` (a table of pairs), `lines` (text to columns, a block at a time), `blocks` (files, bytes and
streams in blocks of whole lines), `repeats` (pairs that stand twice), `tables` (columns and dicts
in one form), `reading` (`read_run`, `read_qrels`).
"""

from __future__ import annotations

from fastrank_eval.trec.reading import read_qrels, read_run

__all__ = ["read_qrels", "read_run"]
