"""Read, join and report files of TREC.

Each module imports only from those before it:

* `pairs`: tables of pairs of query and document, equal pairs, duplicates;
* `blocks`: files, bytes and streams in blocks of complete lines;
* `lines`: text to columns, a block at a time;
* `tables`: `read_run` and `read_qrels`, for text, columns and dicts;
* `diversity`: `read_diversity_qrels`;
* `join`: `join`, and documents in the order of trec_eval;
* `measures`: names of measures as trec_eval reads them, as lines of its report;
* `evaluate`: `evaluate`, the measures of runs in one call;
* `report`: `trec_report`, the report of trec_eval.
"""
