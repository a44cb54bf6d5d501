"""Lines of blank-separated fields to Arrow columns, a block of whole lines at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from fastrank_eval.columns import frozen
from fastrank_eval.kernel import kernel
from fastrank_eval.scratch import scratch
from fastrank_eval.trec.pairs import marked

__all__ = ["DIVERSITY_QRELS", "QRELS", "RUN", "Layout", "Lines", "columns_of_lines"]

_SHOWN = 80
#: No line is shorter than its fields of one letter, a blank after each: at most 1 row in 8 bytes.
_SHORTEST = 8


@dataclass(frozen=True)
class Layout:
    """What the fields of a line are.

    Parameters
    ----------
    kind : str
        What messages call such a file.
    form : str
        Its fields, as its readers name them.
    columns : dict of str to int
        Each column with the number of its field.
    number : str
        The column of numbers.
    fields : int
        Fields that a line must have.
    more : bool
        Whether further fields are left out; else they are an error.
    """

    kind: str
    form: str
    columns: dict[str, int]
    number: str
    fields: int
    more: bool


#: trec_eval leaves out what follows the run tag, and refuses what follows the relevance.
RUN = Layout(
    "run",
    "qid Q0 docno rank score tag",
    {"query": 0, "doc": 2, "score": 4, "run": 5},
    "score",
    6,
    True,
)
#: As ndeval reads them.
DIVERSITY_QRELS = Layout(
    "diversity qrels",
    "qid subtopic docno rel",
    {"query": 0, "subtopic": 1, "doc": 2, "grade": 3},
    "grade",
    4,
    False,
)
QRELS = Layout("qrels", "qid iter docno rel", {"query": 0, "doc": 2, "grade": 3}, "grade", 4, False)


@dataclass(frozen=True)
class Lines:
    """The rows of a block.

    Parameters
    ----------
    batch : pyarrow.RecordBatch
        The columns of the layout; rows before the fault, if there is one.
    marks : tuple of ndarray
        What `marked` tells of its pairs.
    numbers : ndarray of int32, shape (rows,), or None
        The line of each row, from 0; None where every line is a row.
    lines : int
        Lines of the block.
    fault : tuple of int and str, or None
        The first line that cannot be used, from 0, and what is wrong with it.
    """

    batch: pa.RecordBatch
    marks: tuple[np.ndarray, np.ndarray]
    numbers: np.ndarray | None
    lines: int
    fault: tuple[int, str] | None

    def line(self, row: int) -> int:
        """The line of a row, from 0."""
        return row if self.numbers is None else int(self.numbers[row])


def columns_of_lines(block: bytes, layout: Layout) -> Lines:
    """Read the lines of a block.

    Parameters
    ----------
    block : bytes
        Whole lines, each ended by a newline; blank lines and lines that begin with ``#`` count as
        lines and hold no row.
    layout : Layout
    """
    width, room = len(layout.columns), len(block)
    column = np.full(max(layout.columns.values()) + 1, -1, np.int64)
    column[list(layout.columns.values())] = np.arange(width)
    most = room // _SHORTEST + 1
    content = scratch("letters of fields", width * room, np.uint8)
    ends = scratch("ends of fields", width * (most + 1), np.int32).reshape(width, most + 1)
    numbers = scratch("lines of rows", most, np.int32)
    found = np.empty(4, np.int64)
    _split(
        frozen(np.frombuffer(block, np.uint8)),
        frozen(column),
        np.int64(layout.fields),
        layout.more,
        np.int64(room),
        content,
        ends,
        numbers,
        found,
    )
    rows, lines, faulty, fields = found.tolist()
    arrays = []
    for i, name in enumerate(layout.columns):
        places, letters = ends[i, : rows + 1], content[i * room :][: ends[i, rows]]
        if name != layout.number:  # the texts of numbers are read before they are overwritten
            places, letters = places.copy(), letters.copy()
        buffers = [None, pa.py_buffer(places), pa.py_buffer(letters)]
        arrays.append(pa.Array.from_buffers(pa.string(), rows, buffers))
    at = None if rows == lines else numbers[:rows].copy()
    faults = [] if faulty < 0 else [(faulty, _wrong_fields(fields, layout))]
    place = list(layout.columns).index(layout.number)
    arrays[place], row, wrong = _numbers(arrays[place], layout.number)
    bad = [] if row < 0 else [(row, wrong)]
    for name, array in zip(layout.columns, arrays, strict=True):
        if name != layout.number:
            bad += [(row, f"its {name} is not UTF-8") for row in _not_utf8(array)]
    faults += [(row if at is None else int(at[row]), what) for row, what in bad]
    fault = None
    if faults:
        line, what = min(faults)
        shown = block.split(b"\n", line + 1)[line].strip().decode("utf-8", "replace")
        shown = shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}..."
        fault = line, f"{what}: {shown!r}"
    batch = pa.RecordBatch.from_arrays(arrays, names=list(layout.columns))
    marks = marked(batch.column("query"), batch.column("doc"))
    return Lines(batch, marks, at, lines, fault)


def _wrong_fields(fields: int, layout: Layout) -> str:
    what = f"{fields} field{'s' * (fields != 1)} where {layout.kind} lines have {layout.fields} "
    what += f"({layout.form})"
    other = {("qrels", 6): "read_run", ("run", 4): "read_qrels"}.get((layout.kind, fields))
    return f"{what}; {other} reads lines of {fields}" if other else what


def _numbers(texts: pa.Array, name: str) -> tuple[pa.Array, int, str]:
    """Correctly rounded numbers; the first row that is none, and why, or -1.

    Scores are float64. Grades are int64 where each of them is an integer, else float64.
    """
    try:
        values = texts.cast(pa.float64())
    except pa.ArrowInvalid:
        return (
            pa.nulls(len(texts), pa.float64()),
            _first_unreadable(texts),
            f"its {name} is no number",
        )
    items = np.frombuffer(values.buffers()[1], np.float64, len(values)) if len(values) else _NONE
    if name == "score":
        wrong, why = np.isnan(items), "its score is NaN"
    else:
        wrong, why = ~np.isfinite(items), "its grade is not finite"
    if wrong.any():
        return values, int(wrong.argmax()), why
    if name != "score":
        try:
            return texts.cast(pa.int64()), -1, ""
        except pa.ArrowInvalid:
            pass
    return values, -1, ""


_NONE = np.empty(0, np.float64)


def _first_unreadable(texts: pa.Array) -> int:
    """The first text that is no number, by halves; there is one."""
    lo, hi = 0, len(texts)
    while hi - lo > 1:
        middle = (lo + hi) // 2
        try:
            texts.slice(lo, middle - lo).cast(pa.float64())
            lo = middle
        except pa.ArrowInvalid:
            hi = middle
    return lo


def _not_utf8(texts: pa.Array) -> Iterator[int]:
    """The first row that is not UTF-8, if there is one."""
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        for row, value in enumerate(texts.cast(pa.binary())):
            try:
                value.as_py().decode()
            except UnicodeDecodeError:
                yield row
                return


@kernel
def _split(text, column, least, more, room, content, ends, numbers, found):  # type: ignore[no-untyped-def]
    # The last byte is a newline, so that no loop inside a line runs past the end.
    rows = np.int64(0)
    lines = np.int64(0)
    i = np.int64(0)
    found[2] = -1
    found[3] = 0
    ends[:, 0] = 0
    while i < text.shape[0]:
        fields = np.int64(0)
        while True:
            letter = text[i]
            while letter == 32 or (9 <= letter <= 13 and letter != 10):
                i += 1
                letter = text[i]
            if letter == 10:
                break
            if letter == 35 and fields == 0:
                while text[i] != 10:
                    i += 1
                break
            at = column[fields] if fields < column.shape[0] else np.int64(-1)
            if at < 0:
                while letter > 32 or not (letter == 32 or 9 <= letter <= 13):
                    i += 1
                    letter = text[i]
            else:
                start = at * room
                k = start + ends[at, rows]
                while letter > 32 or not (letter == 32 or 9 <= letter <= 13):
                    content[k] = letter
                    k += 1
                    i += 1
                    letter = text[i]
                ends[at, rows + 1] = k - start
            fields += 1
        i += 1
        if fields > 0:
            if fields < least or (fields > least and not more):
                found[2] = lines
                found[3] = fields
                break
            numbers[rows] = lines
            rows += 1
        lines += 1
    found[0] = rows
    found[1] = lines
