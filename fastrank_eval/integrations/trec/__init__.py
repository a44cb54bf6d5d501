"""Read, join and report files of TREC.

Each module imports only from those before it:

* `pairs`: tables of pairs of query and document, equal pairs, duplicates;
* `blocks`: files, bytes and streams in blocks of complete lines;
* `lines`: text to columns, a block at a time;
* `tables`: `read_run` and `read_qrels`, for text, columns and dicts;
* `diversity`: `read_diversity_qrels`;
* `join`: `join`, and documents in the order of trec_eval;
* `evaluate`: `evaluate`, the measures of runs in one call;
* `report`: `trec_report`, the lines of trec_eval as measures.
"""
