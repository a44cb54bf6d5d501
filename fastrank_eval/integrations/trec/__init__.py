"""Read, join and report files of TREC.

Each module imports only from those before it:

* `pairs`: tables of pairs of query and document, equal pairs, duplicates;
* `blocks`: files, bytes and streams in blocks of complete lines;
* `lines`: text to columns, a block at a time;
* `tables`: `read_run`, `read_qrels`, `read_diversity_qrels`, for text, columns and dicts;
* `join`: `join`, and documents in the order of trec_eval;
* `report`: `trec_report`, the lines of trec_eval as measures.
"""
