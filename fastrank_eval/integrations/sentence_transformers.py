"""Evaluate retrieval while a model of sentence-transformers trains."""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arguments import checked, integer, shown, typed
from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.errors import ArgumentError
from fastrank_eval._lib.files import atomic_path, csv_text
from fastrank_eval.integrations.trec.dicts import text_ids
from fastrank_eval.integrations.trec.evaluate import evaluate
from fastrank_eval.integrations.trec.measures import LONG_NAMES
from fastrank_eval.integrations.trec.tables import Judgments, read_qrels
from fastrank_eval.measures import Measure
from fastrank_eval.measures.parser import requested_measures, text_with_options
from fastrank_eval.results.comparison import Comparison
from fastrank_eval.results.report import count_text, list_text
from fastrank_eval.results.result import Result

#: Those of InformationRetrievalEvaluator, its primary one first.
_MEASURES = (
    "nDCG@10,RR@10,AP@100,Accuracy@1,Accuracy@3,Accuracy@5,Accuracy@10,"
    "P@1,P@3,P@5,P@10,R@1,R@3,R@5,R@10"
)
#: Their names there.
_NAMES = {**LONG_NAMES, "Success": "Accuracy"}
#: Its arguments for the encoders.
_ENCODING = (
    *("truncate_dim", "query_prompt", "query_prompt_name", "corpus_prompt", "corpus_prompt_name"),
)
#: The class that its trainer asks for: since 5.4, and before.
_BASES = {
    "sentence_transformers.base.evaluation": "BaseEvaluator",
    "sentence_transformers.evaluation": "SentenceEvaluator",
}


@dataclass(frozen=True)
class _Collection:
    """Queries and documents, which a model ranks.

    Parameters
    ----------
    queries, documents : mapping of str to object
        Texts by id.
    tie_ranks : ndarray of int64, shape (documents,)
        The place of each document in the order of ids.
    most : int
        Documents of a query.
    drop_self : bool
        Leave out the document that has the id of its query.
    chunk : int
        Documents to encode at a time.
    options : mapping of str to (mapping of str to object)
        Arguments of the encoders of a query and of a document.
    """

    queries: Mapping[str, Any]
    documents: Mapping[str, Any]
    tie_ranks: np.ndarray
    most: int
    drop_self: bool
    chunk: int
    options: Mapping[str, Mapping[str, Any]]

    def rank(self, model: Any) -> tuple[dict[str, dict[str, float]], int]:
        """Find the best documents of each query, tied ones by ascending id.

        Returns
        -------
        run : dict of str to dict of str to float
            The documents of each query, best first.
        cut : int
            Queries where a document that is left out has the score of the last one.
        """
        queries = self._encode(model, "query", [*self.queries.values()])
        ids, texts = [*self.documents], [*self.documents.values()]
        # One more shows whether the last one is tied, and one may be the query itself.
        room = self.most + 1 + self.drop_self
        best = [(np.empty(0, np.int64), np.empty(0, np.float32))] * len(self.queries)
        for first in range(0, len(ids), self.chunk):
            part = self._encode(model, "document", texts[first : first + self.chunk])
            scores = model.similarity(queries, part)
            if hasattr(scores, "detach"):  # a tensor, maybe of bfloat16, which NumPy does not have
                scores = np.asarray(scores.detach().float().cpu())
            unknown = int(np.isnan(scores).any(axis=1).sum())
            if unknown:
                raise ArgumentError(
                    "model: must have similarities that are numbers, got NaN for "
                    f"{unknown:,} of {len(best):,} queries; check whether its training diverges."
                )
            for i, (row, (rows, values)) in enumerate(zip(scores, best, strict=True)):
                found = np.flatnonzero(row >= (values[-1] if len(values) == room else -np.inf))
                if len(found) > room:
                    found = found[row[found] >= np.partition(row[found], -room)[-room]]
                rows, values = np.append(rows, found + first), np.append(values, row[found])
                order = np.lexsort((self.tie_ranks[rows], -values))[:room]
                best[i] = rows[order], values[order]
        run, cut = {}, 0
        for query, (rows, values) in zip(self.queries, best, strict=True):
            docs = [(ids[row], v) for row, v in zip(rows.tolist(), values.tolist(), strict=True)]
            docs = [pair for pair in docs if not (self.drop_self and pair[0] == query)]
            cut += len(docs) > self.most and docs[self.most][1] == docs[self.most - 1][1]
            run[query] = dict(docs[: self.most])
        return run, cut

    def _encode(self, model: Any, kind: str, texts: Sequence[Any]) -> Any:
        encode = getattr(model, f"encode_{kind}", None) or model.encode
        return encode(texts, **self.options[kind])


class RetrievalEvaluator:
    """Evaluate how well a model retrieves documents; see `evaluator`.

    Attributes
    ----------
    result : Result or None
        The values of the last call, with those of each query.
    comparison : Comparison or None
        The last call against the one before.
    name : str
    primary_metric : str or None
        The name of the first measure among the values, after a call.
    greater_is_better : bool
        Whether a higher value of the first measure is better.
    """

    #: The task in model cards.
    description = "Information Retrieval"

    def __init__(
        self,
        collection: _Collection,
        judgments: Judgments,
        measures: Sequence[Measure],
        name: str,
        notes: Sequence[str],
        config: Mapping[str, Any],
        options: Mapping[str, Any],
    ) -> None:
        self.name = name
        self.greater_is_better = measures[0].higher_is_better
        self.primary_metric: str | None = None
        self.result: Result | None = None
        self.comparison: Comparison | None = None
        self._collection, self._judgments = collection, judgments
        self._measures, self._options = measures, options
        self._notes, self._config = notes, config
        self._calls = 0
        # Refuses wrong options now, and not after an epoch of training.
        doc = next(iter(collection.documents))
        self._evaluate("model", {query: {doc: 1.0} for query in collection.queries}, 0)

    def __call__(
        self,
        model: Any,
        output_path: str | os.PathLike[str] | None = None,
        epoch: float = -1,
        steps: int = -1,
    ) -> dict[str, float]:
        """Evaluate a model, and compare it with the one of the last call.

        Parameters
        ----------
        model : SentenceTransformer
            Or another model; see `evaluator`.
        output_path : str or path, optional
            The folder of the CSV file of InformationRetrievalEvaluator. It gets a row, and columns
            that it does not have.
        epoch, steps : number
            Where the training is, or -1.

        Returns
        -------
        dict of str to float
            The values of the measures, and the interval and difference of the first one.

        Raises
        ------
        ArgumentError
            If the model cannot encode or compare, or similarities are NaN.
        """
        _check_model(model)
        run, cut = self._collection.rank(model)
        similarity = model.similarity_fn_name
        self._calls += 1
        where = f"call {self._calls}"
        if steps >= 0 or epoch >= 0:
            where = f"step {steps}" if steps >= 0 else f"epoch {epoch:g}"
        last, self.result = self.result, self._evaluate(where, run, cut)
        low, high = self.result.interval(self._measures[0])
        values = {_name(one): self.result.value(one) for one in self._measures}
        values |= self._of_first(ci_low=low, ci_high=high)
        difference: dict[str, float] = {}
        if last is not None:
            self.comparison = last.compare(self.result)
            found = self.comparison.find(self._measures[0])
            ends = {"delta_ci_low": found.ci_low, "delta_ci_high": found.ci_high}
            difference = self._of_first(delta=found.delta, **ends, p_value=found.p_value)
        if output_path is not None:
            cells = {f"{similarity}-{key}": value for key, value in (values | difference).items()}
            self._write_row(Path(output_path), {"epoch": epoch, "steps": steps, **cells})
        prefix = f"{self.name}_{similarity}_" if self.name else f"{similarity}_"
        metrics = {f"{prefix}{key.lower()}": value for key, value in values.items()}
        self.primary_metric = next(iter(metrics))
        card = getattr(model, "model_card_data", None)
        if card is not None:
            card.set_evaluation_metrics(self, metrics, epoch, steps)
        return metrics | {f"{prefix}{key.lower()}": value for key, value in difference.items()}

    def __reduce__(self) -> tuple[object, ...]:
        # The class of the trainer has no name from which pickle finds it.
        return _without_state, (), self.__dict__

    def get_config_dict(self) -> dict[str, Any]:
        """Return the options that model cards show."""
        return dict(self._config)

    def _evaluate(self, model: str, run: Mapping[str, Mapping[str, float]], cut: int) -> Result:
        result = evaluate(self._judgments, {model: run}, self._measures, **self._options)
        read = cast("tuple[str, ...]", result.meta.conventions.get("reading_notes", ()))
        notes = [*self._notes, *read]
        if cut:
            most = self._collection.most
            notes.append(
                f"{cut:,} of {len(run):,} queries: documents with the score of document {most:,} "
                "are left out, those with the highest ids"
            )
        if notes:
            conventions = {**result.meta.conventions, "reading_notes": tuple(notes)}
            result.meta = replace(result.meta, conventions=conventions)
        return result

    def _of_first(self, **numbers: float) -> dict[str, float]:
        """Name numbers of the first measure; leave NaN out."""
        name = _name(self._measures[0])
        return {f"{name}_{key}": value for key, value in numbers.items() if value == value}

    def _write_row(self, folder: Path, row: dict[str, object]) -> None:
        """Add a row to the CSV file, and columns that it does not have."""
        folder.mkdir(parents=True, exist_ok=True)
        name = f"_{self.name}" if self.name else ""
        file = folder / f"Information-Retrieval_evaluation{name}_results.csv"
        rows: list[dict[str, object]] = []
        if file.exists():
            with file.open(encoding="utf-8", newline="") as lines:
                rows.extend(csv.DictReader(lines))
        rows.append(row)
        names = [*dict.fromkeys(chain.from_iterable(rows))]
        with atomic_path(file) as temporary:
            text = csv_text(names, ([one.get(name) for name in names] for one in rows))
            temporary.write_text(text, encoding="utf-8")


@typed
def evaluator(
    queries: Mapping[Any, Any],
    corpus: Mapping[Any, Any],
    relevant_docs: object,
    measures: str | Measure | Sequence[str | Measure] = _MEASURES,
    *,
    name: str = "",
    most: int = 100,
    drop_self: bool = False,
    batch_size: int = 32,
    corpus_chunk_size: int = 50_000,
    profile: str | None = "sentence_transformers",
    **options: Any,
) -> RetrievalEvaluator:
    """Make an evaluator for the trainer of sentence-transformers.

    It takes the place of InformationRetrievalEvaluator: each call encodes queries and documents,
    finds the best documents of each query, and returns the same values by the same names. From the
    second call on it tests the difference from the last call, such as the checkpoint before, on
    the same queries.

    Of the first measure it returns the interval too, as ``..._ndcg@10_ci_low`` and ``_ci_high``,
    and the difference as ``_delta``, ``_delta_ci_low``, ``_delta_ci_high`` and ``_p_value``. All
    measures have them in `result` and `comparison` of the evaluator, with the values of queries.

    Parameters
    ----------
    queries, corpus : mapping of id to text
        Ids are text or integers. Texts may be anything that the model encodes.
    relevant_docs : object
        ``{query: {doc, ...}}``, ``{query: {doc: grade}}``, or another source of
        `fastrank_eval.trec.read_qrels`. Queries without a judgement are left out.
    measures : str, Measure or sequence of them
        The first is the primary one. By default the values of InformationRetrievalEvaluator.
    name : str
        Begins the names of values, and stands in the name of the CSV file.
    most : int
        Documents of a query that are kept, the best by ``model.similarity``. Of equal ones those
        with the lowest ids come first and are kept; a note of the result counts the queries where
        the last one is tied with others.
    drop_self : bool
        Leave out the document that has the id of its query, as where queries are documents.
    batch_size : int
        Texts that the model encodes at a time.
    corpus_chunk_size : int
        Documents whose embeddings and similarities are in memory at a time.
    profile : str or None
        The conventions. Unlike there, grades count in nDCG. None: those of this package.
    **options
        `truncate_dim`, `query_prompt`, `query_prompt_name`, `corpus_prompt`, `corpus_prompt_name`,
        as InformationRetrievalEvaluator takes them; any other argument of
        `fastrank_eval.trec.evaluate`, such as `level` and `confidence`.

    Returns
    -------
    RetrievalEvaluator
        Where sentence-transformers is installed, one of its evaluators. It calls any model that
        has ``encode_query`` and ``encode_document``, or ``encode``, ``similarity`` and
        ``similarity_fn_name``.

    Raises
    ------
    ArgumentError
        If no relevant document is in `corpus` for one of `queries`, or `most` is below the cutoff
        of a measure; in a call if the model cannot encode or compare, or similarities are NaN.
    FastRankEvalError
        As `fastrank_eval.trec.evaluate` does, also for wrong options.

    References
    ----------
    Reimers & Gurevych (2019), doi:10.18653/v1/D19-1410

    Examples
    --------
    >>> import numpy as np
    >>> class Letters:
    ...     similarity_fn_name = "dot"
    ...     def encode(self, texts, **options):
    ...         return np.array([[text.count("a"), text.count("b")] for text in texts])
    ...     def similarity(self, queries, documents):
    ...         return queries @ documents.T
    >>> evaluate = evaluator({"q1": "a", "q2": "b"}, {"d1": "aab", "d2": "abb", "d3": "bbb"},
    ...                      {"q1": {"d1"}, "q2": {"d2"}}, "RR@10,R@1", name="letters")
    >>> values = evaluate(Letters())
    >>> values["letters_dot_mrr@10"], values["letters_dot_recall@1"]
    (0.75, 0.5)
    >>> evaluate.primary_metric, evaluate.result["RR@10"]
    ('letters_dot_mrr@10', array([1. , 0.5]))
    """
    if "baseline" in options:
        raise ArgumentError(
            "baseline: must not be given, as each call is compared with the last one; leave it out."
        )
    sizes = {"most": most, "batch_size": batch_size, "corpus_chunk_size": corpus_chunk_size}
    for argument, size in sizes.items():
        checked(argument, size, integer(1))
    asked = requested_measures(measures)
    deepest = max(asked, key=lambda one: one.cutoff or 0)
    if (deepest.cutoff or 0) > most:
        raise ArgumentError(
            f"most: must be at least {deepest.cutoff} for {deepest.display_name}, got {most}; pass "
            f"most={deepest.cutoff}."
        )
    texts = [
        dict(zip(text_ids(given, what), given.values(), strict=True))
        for given, what in ((queries, "query"), (corpus, "document"))
    ]
    judged, notes = _judged(relevant_docs, *texts)
    known = {*judged["query"].to_pylist()}
    ids = [*corpus]
    by_id = sorted(range(len(ids)), key=lambda i: (isinstance(ids[i], str), ids[i]))
    tie_ranks = np.empty(len(ids), np.int64)
    tie_ranks[by_id] = np.arange(len(ids))
    config = {key: options.pop(key) for key in _ENCODING if key in options}
    shared = {"batch_size": batch_size, "show_progress_bar": False, "convert_to_tensor": True}
    encoders = {
        kind: shared | {key.removeprefix(own): v for key, v in config.items() if other not in key}
        for kind, own, other in (("query", "query_", "corpus"), ("document", "corpus_", "query"))
    }
    collection = _Collection(
        {query: text for query, text in texts[0].items() if query in known},
        texts[1],
        tie_ranks,
        most,
        drop_self,
        corpus_chunk_size,
        encoders,
    )
    options |= {"drop_self": drop_self, "profile": profile}
    return _class()(collection, Judgments(judged), asked, name, notes, config, options)


def _judged(
    source: object, queries: Mapping[str, Any], corpus: Mapping[str, Any]
) -> tuple[pa.Table, list[str]]:
    """Read the judgements of known queries; note what is not known."""
    import pyarrow.compute as pc

    table = read_qrels(source)
    judged = table.filter(pc.is_in(table["query"], value_set=pa.array([*queries], pa.string())))
    relevant = judged.filter(pc.greater(judged["grade"], 0))
    found = relevant.filter(pc.is_in(relevant["doc"], value_set=pa.array([*corpus], pa.string())))
    if not found.num_rows:
        raise ArgumentError(
            "relevant_docs: must have a relevant document of corpus for one of queries, got none "
            f"among {count_text(table.num_rows, 'judgement')}; check that the ids are the same."
        )
    lacking = relevant.num_rows - found.num_rows
    all_judged, known = (len(one["query"].unique()) for one in (table, judged))
    notes = [
        (len(queries) - known, f"of {len(queries):,} queries left out: without a judgement"),
        (all_judged - known, f"of {all_judged:,} judged queries left out: not among the queries"),
        (lacking, f"of {relevant.num_rows:,} relevant documents not in the corpus: never found"),
    ]
    return judged, [f"{count:,} {text}" for count, text in notes if count]


def _class() -> type[RetrievalEvaluator]:
    """Make the class a subclass of the one that the trainer asks for."""
    names = {"__module__": __name__, "__doc__": RetrievalEvaluator.__doc__}
    for module, base in _BASES.items():
        with suppress(ImportError):
            bases = RetrievalEvaluator, getattr(import_module(module), base)
            return type(RetrievalEvaluator.__name__, bases, names)
    return RetrievalEvaluator


def _without_state() -> RetrievalEvaluator:
    """Make an evaluator whose attributes are set later."""
    return object.__new__(_class())


def _check_model(model: Any) -> None:
    """Raise unless a model has the methods that are called."""
    lacking = [
        name for name in ("encode", "similarity", "similarity_fn_name") if not hasattr(model, name)
    ]
    if hasattr(model, "encode_query") and hasattr(model, "encode_document"):
        lacking = [name for name in lacking if name != "encode"]
    if lacking:
        raise ArgumentError(
            "model: must have encode (or encode_query and encode_document), similarity and "
            f"similarity_fn_name, got {shown(model)} without {list_text(lacking)}; pass a "
            "SentenceTransformer, for instance."
        )


def _name(one: Measure) -> str:
    """Name a measure as sentence-transformers does, if it has it."""
    theirs = _NAMES.get(one.name)
    if theirs is None or one.explicit_options:
        return one.alias or text_with_options(one)
    return theirs if one.cutoff is None else f"{theirs}@{one.cutoff}"
