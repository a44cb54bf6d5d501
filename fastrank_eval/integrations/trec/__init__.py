"""Read, join and report files of TREC.

Each module imports only from those before it:

* `pairs`: tables of pairs of query and document, equal pairs, duplicates;
* `lines`: files, bytes and streams in blocks of complete lines, and these as columns;
* `nested`: JSON, and objects of Python that are neither tables nor dicts of dicts;
* `columns`: tables, frames and files of columns, by the names that other tools use;
* `dicts`: dicts of dicts, ranked lists, and how swapped ones are recognised;
* `tables`: `read_run`, `read_qrels` and `Judgments`, for all forms;
* `join`: `join`, and documents in the order of trec_eval;
* `ranked`: the judged documents of dicts, ranked without the others;
* `measures`: names of measures as trec_eval reads them, `read_diversity_qrels`;
* `benchmark`: the results of several data sets;
* `report`: `trec_report`, the report of trec_eval;
* `evaluate`: `evaluate`, for several runs and data sets;
* `mteb`: what MTEB prints beside measures.
"""
