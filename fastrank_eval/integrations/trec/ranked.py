"""Rank the judged documents of dicts, without a row for the others."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple, cast

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arrow import frozen
from fastrank_eval._lib.jit import kernel
from fastrank_eval.engine.evaluator import RankedTable
from fastrank_eval.groups.labels import Labels, RankedRows, count_relevant
from fastrank_eval.groups.ranking import Ranking, with_unjudged_rows
from fastrank_eval.groups.sort import count_rows_above, sort_descending
from fastrank_eval.integrations.trec.join import Joined, reading_notes
from fastrank_eval.integrations.trec.pairs import (
    Cuts,
    PairDicts,
    PairTable,
    edges_of,
    id_column,
    lengths_of,
    look_up,
)
from fastrank_eval.io.columns import Roles
from fastrank_eval.measures.judged import ANYWHERE

#: Documents by query.
_Docs = list[Mapping[str, Any]]


class _Run(NamedTuple):
    """The documents of a run that count.

    Parameters
    ----------
    docs : list of mapping of str
        Of each query.
    lengths : ndarray of int64, shape (queries,)
        Their number.
    scores : ndarray of float64, shape (rows,)
        Theirs.
    judged : ndarray of float64, shape (judged documents,)
        The scores of the judged documents of each query, NaN where the run does not have one.
    """

    docs: _Docs
    lengths: np.ndarray
    scores: np.ndarray
    judged: np.ndarray


class RankedDicts:
    """Runs and judgements of dicts, by query.

    Each judged document is looked up in a run, and its score compared with all scores of the query.
    Other documents are scores alone; ids are compared where scores are equal. Ranks are those of
    `rank_documents`, facts those of `join_runs`.

    Parameters
    ----------
    judged : PairTable
        Of dicts.
    runs : mapping of str to PairTable
        Of dicts.
    cuts : Cuts
        Without `skip_first` and `most`, which need all ranks.
    complete : bool
        Whether queries of the judgements alone are wanted.

    Attributes
    ----------
    queries : list of str
        The queries to evaluate, as `join` orders them.
    """

    def __init__(
        self, judged: PairTable, runs: Mapping[str, PairTable], cuts: Cuts, complete: bool
    ) -> None:
        self._judged, self._tables, self._cuts = judged, runs, cuts
        self._known = cast(PairDicts, judged.dicts)
        known, dicts = self._known.by_query, [cast(PairDicts, run.dicts) for run in runs.values()]
        of_runs = dict.fromkeys(chain.from_iterable(run.by_query for run in dicts))
        self.queries = [*filter(known.__contains__, of_runs)]
        self._only_in_run = len(of_runs) - len(self.queries)
        empty = {*chain.from_iterable(run.empty for run in runs.values())}
        others = [q for q in known if q not in of_runs] if len(self.queries) < len(known) else []
        self._only_in_qrels = sum(query not in empty for query in others)
        self.queries += others if complete else filter(empty.__contains__, others)
        self._asked: _Docs = [known[query] for query in self.queries]
        self._grade, self._sizes = self._known.numbers_of(self._asked), lengths_of(self._asked)
        self._runs = [*map(self._read, dicts)]

    def _read(self, run: PairDicts) -> _Run:
        """Select the documents of a run, and look up the judged ones."""
        docs: _Docs = [run.by_query.get(query, {}) for query in self.queries]
        found, own = run.found, [*filter(self._known.by_query.__contains__, run.by_query)]
        if self._cuts.drop_self or self._cuts.judged_only or own != self.queries[: len(own)]:
            found = None
        if self._cuts.drop_self:
            pairs = zip(self.queries, docs, strict=True)
            docs = [{d: own[d] for d in own if d != q} if q in own else own for q, own in pairs]
        if self._cuts.judged_only:
            both = zip(docs, self._asked, strict=True)
            docs = [{d: own[d] for d in own if grades.get(d, -1) >= 0} for own, grades in both]
        if found is None:
            found = b"".join(map(look_up, docs, self._asked))
        judged = np.full(len(self._grade), np.nan)
        scores = np.frombuffer(found)
        judged[: len(scores)] = scores  # queries that the run does not have are the last
        return _Run(docs, frozen(lengths_of(docs)), run.numbers_of(docs), judged)

    @property
    def grades(self) -> list[float]:
        """The distinct grades."""
        return np.unique(self._grade.astype(self._judged.numbers.dtype)).tolist()

    def joined(self) -> Joined:
        """Return the facts of `join`, and a table without rows."""
        names, notes = tuple(self._tables), [*reading_notes(self._judged, [*self._tables.values()])]
        unanswered, lacking, judged = {}, {}, {}
        for name, run, table in zip(names, self._runs, self._tables.values(), strict=True):
            known = {*cast(PairDicts, table.dicts).by_query, *table.empty}
            notes += self._note(name if len(names) > 1 else "the run", table, run)
            unanswered[name] = len(self.queries) - int(np.count_nonzero(run.lengths))
            lacking[name] = len(self.queries) - len(known.intersection(self.queries))
            if len(run.scores):
                judged[name] = int(np.count_nonzero(run.judged == run.judged))
        kind, largest = self._judged.numbers.dtype, None
        if len(self._grade):
            largest = self._grade.max().astype(kind).item()
        return Joined(
            no_rows(names, kind),
            names,
            len(self.queries),
            self._only_in_run,
            self._only_in_qrels,
            unanswered,
            lacking,
            tuple(notes),
            judged,
            largest,
        )

    def _note(self, name: str, table: PairTable, run: _Run) -> Iterator[str]:
        """Note how many documents are left out, also those of unjudged queries."""
        kept = read = len(table.numbers)
        if self._cuts.judged_only:
            kept = len(run.scores)
        elif self._cuts.drop_self:
            every = cast(PairDicts, table.dicts).by_query
            kept -= sum(query in docs for query, docs in every.items())
        return self._cuts.note(name, read, kept)

    def rank(self, roles: Roles) -> list[Ranking]:
        """Rank the judged documents of each run.

        Parameters
        ----------
        roles : Roles
            Whether scores are rounded, grades are those of the column `ANYWHERE`, and unjudged
            documents are listed.
        """
        rows, asked, grade, runs = self._count_rows(), self._asked, self._grade, self._runs
        if roles.label == ANYWHERE:
            ids = {*chain.from_iterable(self._known.by_query.values())}
            every, asked = zip(self._asked, *(run.docs for run in runs), strict=True), []
            for grades, *docs in every:
                known = chain(grades, *(filter(ids.__contains__, own) for own in docs))
                asked.append({doc: max(grades.get(doc, 0), 0) for doc in known})
            grade = self._known.numbers_of(asked)
            found = [np.frombuffer(b"".join(map(look_up, run.docs, asked))) for run in runs]
            runs = [run._replace(judged=one) for run, one in zip(runs, found, strict=True)]
        return [_rank(run, asked, grade, rows, roles) for run in runs]

    def _count_rows(self) -> np.ndarray:
        """Count the documents of all runs and of the judgements by query."""
        if len(self._runs) == 1:
            is_found = self._runs[0].judged == self._runs[0].judged
            edges = edges_of(self._sizes)[:-1]
            rows = self._runs[0].lengths + self._sizes
            return frozen(rows - np.add.reduceat(is_found, edges, dtype=np.int64))
        every = zip(self._asked, *(run.docs for run in self._runs), strict=True)
        return frozen(np.array([len({*chain(*docs)}) for docs in every], np.int64))

    def table(self, roles: Roles) -> RankedTable:
        """Rank as `rank` does, for `run_together`."""
        rankings, grade = self.rank(roles), self._grade
        rows = rankings[0].rows
        if roles.label == ANYWHERE:
            grade = np.maximum(grade, 0)
        row = np.flatnonzero(grade)
        labelled = frozen(grade[row])
        offsets = frozen(np.searchsorted(row, edges_of(self._sizes)))
        labels = Labels(
            label=labelled,
            starts=edges_of(rows),
            skip_empty=False,
            indices=frozen(np.arange(len(rows))),
            offsets=offsets,
            row=frozen(row),
            grade=labelled,
            rows=rows,
            positives=frozen(count_relevant(labelled, offsets, 1.0)),
            min_grade=float(labelled.min(initial=np.inf)),
            max_grade=float(labelled.max(initial=-np.inf)),
        )
        keys = id_column(self.queries, "query", pa.string())
        return RankedTable((keys,), labels, rankings)


@lru_cache(64)
def no_rows(names: tuple[str, ...], grade: np.dtype[Any]) -> pa.Table:
    """Make the columns of `join` without rows."""
    number = pa.from_numpy_dtype(grade)
    texts = [(name, pa.string()) for name in ("query", "doc")]
    scores = [(name, pa.float64()) for name in names]
    return pa.schema([*texts, *scores, ("grade", number), (ANYWHERE, number)]).empty_table()


def _rank(
    run: _Run,
    asked: Sequence[Mapping[str, Any]],
    grade: np.ndarray,
    rows: np.ndarray,
    roles: Roles,
) -> Ranking:
    """Rank the judged documents of a run.

    Parameters
    ----------
    run : _Run
    asked : sequence of mapping of str
        The judged documents of each query.
    grade : ndarray of float64, shape (judged documents,)
    rows : ndarray of int64, shape (queries,)
        As in `Ranking`.
    roles : Roles
        As in `RankedDicts.rank`.
    """
    lengths, sizes = run.lengths, lengths_of(asked)
    starts, edges = edges_of(lengths), edges_of(sizes)
    scores = np.concatenate([run.scores, run.judged])
    if roles.single_precision:
        with np.errstate(over="ignore"):
            scores = scores.astype(np.float32)
    count, is_found = len(run.scores), run.judged == run.judged
    row = np.flatnonzero(is_found if roles.judgments else is_found & (grade != 0))
    offsets, groups = frozen(np.searchsorted(row, edges)), frozen(np.arange(len(rows)))
    above, size = np.empty((2, len(row)), np.int64)
    # The scores of judged documents stand behind those that they are compared with.
    row += count
    count_rows_above(frozen(scores), starts, groups, offsets, row, above, size)
    row -= count
    for g in np.unique(np.searchsorted(offsets, np.flatnonzero(size > 1), side="right") - 1):
        own, judged_scores = scores[starts[g] : starts[g + 1]], scores[count + edges[g] :]
        here = slice(*offsets[g : g + 2])
        _break_ties(own, run.docs[g], judged_scores, asked[g], row[here] - edges[g], above[here])
        order = np.argsort(above[here])
        above[here], row[here] = above[here][order], row[here][order]
    listed = frozen(edges_of(grade != 0)[edges])
    ranks, grades = np.empty(listed[-1], np.int64), np.empty(listed[-1])
    _list_judged(offsets, row, above, edges, is_found, grade, lengths, listed, ranks, grades)
    ones = frozen(np.ones(len(ranks), np.int64))
    ranking = Ranking(
        scored=cast(Any, None),
        labels=cast(Any, None),
        ranked_groups=None,
        offsets=listed,
        rows=rows,
        retrieved=lengths,
        grade=frozen(grades),
        above=frozen(ranks),
        size=ones,
        block_above=ranks,
        block_size=ones,
        weights=None,
        max_grade=float(grades.max(initial=-np.inf)),
        min_grade=float(grades.min(initial=np.inf)),
        unretrieved_relevant=True,
    )
    if roles.judgments:
        is_unjudged = np.ones(count, np.bool_)
        is_unjudged[np.repeat(starts[:-1], np.diff(offsets)) + above] = False
        places = np.flatnonzero(is_unjudged)
        bounds = np.searchsorted(places, starts)
        unjudged = RankedRows(groups, bounds, places, places, places, places)
        ranking.judged = with_unjudged_rows(ranking, unjudged, starts, rows - sizes, "item")
    return ranking


def _break_ties(
    scores: np.ndarray,
    docs: Iterable[str],
    judged_scores: np.ndarray,
    judged: Iterable[str],
    rows: np.ndarray,
    above: np.ndarray,
) -> None:
    """Rank the judged documents of a query by score, then descending id.

    Parameters
    ----------
    scores, docs
        Of the run.
    judged_scores, judged
        Of the judged documents.
    rows, above : ndarray of int64
        The judged documents that the run has, and how many documents have a higher score; the
        latter becomes the rank.
    """
    names, tied = [*judged], {score: list[str]() for score in judged_scores[rows].tolist()}
    for score, doc in zip(scores.tolist(), docs, strict=True):
        if score in tied:
            tied[score].append(doc)
    for block in tied.values():
        block.sort()
    for e, row in enumerate(rows.tolist()):
        block = tied[float(judged_scores[row])]
        above[e] += len(block) - bisect_right(block, names[row])


@kernel
def _list_judged(  # type: ignore[no-untyped-def]
    offsets, rows, places, edges, is_found, grade, lengths, to_offsets, to_above, to_grade
):
    """List labelled documents by query, those that are not retrieved last."""
    for g in range(lengths.shape[0]):
        k = to_offsets[g]
        for e in range(offsets[g], offsets[g + 1]):
            if grade[rows[e]] != 0:
                to_above[k] = places[e]
                to_grade[k] = grade[rows[e]]
                k += 1
        first = k
        for row in range(edges[g], edges[g + 1]):
            if not is_found[row] and grade[row] != 0:
                to_above[k] = lengths[g]
                to_grade[k] = grade[row]
                k += 1
        sort_descending(to_grade[first:k], to_grade[:0])
