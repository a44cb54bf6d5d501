"""Texts and files that a user passes, read from arbitrary bytes: one function a target.

A target raises nothing but errors of the test itself: it allows `FastRankEvalError`, and no other
exception of the package. Where a value has a text, the text must read as the same value.
"""

from __future__ import annotations

import datetime as dt
import functools
import hashlib
import json
import re
import resource
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa

import fastrank_eval as fe
from fastrank_eval._lib.threads import parse_memory
from fastrank_eval.apps.nightly.config import read_config
from fastrank_eval.apps.nightly.periods import parse_date, parse_date_range, parse_duration
from fastrank_eval.io.computed import parse as parse_score
from fastrank_eval.slicing.spec import requested_slicing
from tests.forged_states import uses

Target = Callable[[bytes], None]

#: Columns of every kind that conditions, slices, scores and measures can read.
LOG = pa.table(
    {
        "user": [1, 1, 1, 1, 2, 2, 2, 3, 3, 3, 3, 4],
        "click": [1, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 1],
        "score_a": [0.9, 0.5, 0.5, 0.1, 0.3, 0.3, 0.7, 0.2, 0.4, 0.1, 0.8, 0.5],
        "score_b": pa.array([0.4, 0.6, 0.2, 0.3, 0.3, 0.9, 0.1, 0.2, 0.2, 0.6, 0.5, 1.0], "f4"),
        "slot": pa.array([1, 2, 3, 1, 2, 3, None, 2, 3, 1, 2, 3], "i1"),
        "country": ["at", "", "at", None, "br", "br", "ß", "at", "'", '"', "br", "at"],
        "new": [True, False, True, False, None, True, False, True, True, False, True, False],
        "day": pa.array([dt.date(2026, 11, 1 + row) for row in range(12)]),
        "at": pa.array([dt.datetime(2026, 11, 1, row) for row in range(12)]),
        "at_utc": pa.array([dt.datetime(2026, 11, 1, row) for row in range(12)]).cast(
            pa.timestamp("us", "UTC")
        ),
        "price": pa.array([f"{row}.25" for row in range(12)]).cast(pa.decimal128(9, 2)),
        "ad": pa.array([f"ad {row % 5}" for row in range(12)]).dictionary_encode(),
        "page": pa.array([b"\x00", b"", b"\xff"] * 4),
        "odd name": list(range(12)),
        "none": pa.nulls(12),
    }
)
QRELS = b"q1 0 d1 1\nq1 0 d2 0\nq1 0 d3 2\nq2 0 d1 1\nq3 0 d9 0\n"
DIVERSITY_QRELS = b"q1 1 d1 1\nq1 2 d1 0\nq1 2 d2 1\nq2 1 d1 1\n"
RUN = b"q1 Q0 d1 1 2.5 t\nq1 Q0 d2 2 1.5 t\nq1 Q0 d4 3 1.5 t\nq2 Q0 d1 1 1 t\n"

#: Virtual memory that an input may take beyond what the process has when it starts.
MEMORY = 2 << 30

evaluate = functools.partial(fe.evaluate, group="user", label="click", threads=1)


def limit_memory() -> None:
    """Let an allocation of more than 2 GB fail."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    limit = pages * resource.getpagesize() + MEMORY
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (limit, most))


def text_of(content: bytes) -> str:
    """Decode as Python decodes arguments of a command."""
    return content.decode("utf-8", "surrogateescape")


def allows_own_errors(target: Target) -> Target:
    """Let a target end with an error of the package."""

    @functools.wraps(target)
    def run(content: bytes) -> None:
        with warnings.catch_warnings():
            # Integers wrap in hashes on purpose, and NumPy warns with the JIT off.
            warnings.filterwarnings("ignore", "overflow encountered", RuntimeWarning)
            try:
                target(content)
            except fe.FastRankEvalError as error:
                str(error)

    return run


@contextmanager
def a_file(name: str, content: bytes) -> Iterator[Path]:
    """A file with this content."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, name)
        path.write_bytes(content)
        yield path


@allows_own_errors
def measures(content: bytes) -> None:
    """Measures as text, their own texts, and their values."""
    parsed = fe.parse_measures(text_of(content))
    assert fe.parse_measures(",".join(map(str, parsed))) == parsed
    for ties in ("expected", "worst"):
        with suppress(fe.FastRankEvalError):
            evaluate(LOG, score="score_a", measures=parsed[:3], ties=ties).to_json()


@functools.cache
def a_result() -> fe.Result:
    return evaluate(
        LOG, score=["score_a", "score_b"], measures="GAUC,AUC,nDCG@3,LogLoss", by="slot"
    )


@functools.cache
def a_comparison() -> Any:
    return fe.compare(
        LOG,
        group="user",
        label="click",
        score=["score_a", "score_b"],
        baseline="score_a",
        measures="GAUC,LogLoss",
        by="slot",
        threads=1,
    )


@allows_own_errors
def gates(content: bytes) -> None:
    """Gates, their own texts, and their verdicts."""
    gate = fe.gate(text_of(content))
    assert fe.gate(str(gate)) == gate
    for result in (a_result(), a_comparison()):
        str(result.check(gate))


@allows_own_errors
def where(content: bytes) -> None:
    """Conditions on rows."""
    evaluate(LOG, score="score_a", measures="AUC", where=text_of(content))


@allows_own_errors
def scores(content: bytes) -> None:
    """Computed scores, and their own texts."""
    text = text_of(content)
    node = parse_score("a", text)
    assert parse_score("a", str(node)) == node
    evaluate(LOG, score={"a": text}, measures="GAUC,AUC", unretrieved="allow")


@allows_own_errors
def slices(content: bytes) -> None:
    """Slicings, and their own texts."""
    text = text_of(content)
    for slicing in requested_slicing(text):
        assert requested_slicing(str(slicing)) == (slicing,)
    evaluate(LOG, score="score_a", measures="GAUC", by=text).to_json()


@allows_own_errors
def dates(content: bytes) -> None:
    """Dates, ranges of dates, durations and sizes of memory."""
    for read in (parse_date, parse_date_range, parse_duration, parse_memory):
        with suppress(fe.FastRankEvalError):
            read(text_of(content))


@allows_own_errors
def config(content: bytes) -> None:
    """A configuration of the nightly report, and what a night reads of it."""
    with a_file("nightly.toml", content) as path:
        read = read_config(path)
        for each in (read, *read.for_labels()):
            each.sources(dt.date(2026, 11, 19))
            each.condition(dt.date(2026, 11, 19))
            with suppress(fe.OutputError):
                each.check_outside(path, "--export", str(path), "read it")


@allows_own_errors
def csv(content: bytes) -> None:
    """A CSV file, with its columns in every role."""
    with a_file("log.csv", content) as path:
        evaluate(path, score="score_a", weight="weight", measures="GAUC,AUC", by="slot").to_json()


@allows_own_errors
def tsv(content: bytes) -> None:
    """A TSV file, with a condition and rows in any order."""
    with a_file("log.tsv", content) as path:
        evaluate(path, score="score_a", measures="GAUC", where="slot < 3", order="scattered")


@allows_own_errors
def run(content: bytes) -> None:
    """A run of any layout, as a table and beside judgements."""
    table = fe.trec.read_run(content)
    if "run" in table.column_names:  # lines of TREC
        assert fe.trec.read_run(lines_of(table, "{query} Q0 {doc} 1 {score!r} {run}")) == table
    rows = table.select(["query", "doc", "score"]).to_pylist()
    assert fe.trec.read_run(json_lines(rows)).to_pylist() == rows
    fe.trec.evaluate(QRELS, content, complete=True, threads=1)


@allows_own_errors
def qrels(content: bytes) -> None:
    """Judgements of any layout, as a table and beside a run."""
    table = fe.trec.read_qrels(content)
    ids = [*table["query"].to_pylist(), *table["doc"].to_pylist()]
    if not any(re.search(r"[ \t-\r]|^#|^\ufeff|^$", text) for text in ids):
        assert fe.trec.read_qrels(lines_of(table, "{query} 0 {doc} {grade!r}")) == table
    assert fe.trec.read_qrels(json_lines(table.to_pylist())).equals(table) or not table.num_rows
    fe.trec.evaluate(content, RUN, complete=True, threads=1)


@allows_own_errors
def diversity_qrels(content: bytes) -> None:
    """TREC judgements with subtopics."""
    fe.trec.evaluate(fe.trec.read_diversity_qrels(content), RUN, "alpha_nDCG@3", complete=True)


def json_lines(rows: list[dict[str, Any]]) -> bytes:
    """Write rows as lines of JSON."""
    return "\n".join(map(json.dumps, rows)).encode()


def lines_of(table: pa.Table, form: str) -> bytes:
    """Write the rows of a table as lines."""
    return "".join(form.format(**row) + "\n" for row in table.to_pylist()).encode()


@functools.cache
def a_state() -> fe.State:
    """A state that other states merge with."""
    return evaluate(
        LOG,
        score=["score_a", "score_b"],
        measures="GAUC,LogLoss,AUC(bins=16),ECE(bins=3)",
        baseline="score_a",
        by="slot",
        keep="groups",
    ).state


@allows_own_errors
def state(content: bytes) -> None:
    """A saved state with a valid digest, and what can be done with it."""
    loaded = fe.State.from_bytes(with_digest(content))
    for use in uses(a_state()):
        with suppress(Exception):  # what a lying writer has forged may fail, and not crash
            use(loaded)


def with_digest(content: bytes) -> bytes:
    """Replace the digest of a state by that of its bytes."""
    mark = re.search(rb"sha256:.{64}", content, re.DOTALL)
    if mark is None:
        return content
    zeros = content.replace(mark[0], b"sha256:" + b"0" * 64)
    digest = hashlib.sha256(zeros).hexdigest().encode()
    return content.replace(mark[0], b"sha256:" + digest)


#: Every target by its name.
TARGETS: dict[str, Target] = {
    target.__name__: target
    for target in (
        *(run, qrels, diversity_qrels, state, gates, where, measures, scores, slices),
        *(config, dates, csv, tsv),
    )
}
