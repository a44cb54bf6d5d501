"""Split lines of TREC files into columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arrow import arrow_column, frozen
from fastrank_eval._lib.jit import kernel, scratch
from fastrank_eval.integrations.trec.blocks import PADDING
from fastrank_eval.integrations.trec.pairs import marked, uint64_windows

__all__ = ["DIVERSITY_QRELS", "QRELS", "RUN", "Layout", "Lines", "columns_of_lines", "split_fields"]


#: Letters of a decimal that is read at once: what they count fits 64 bits, and the quotient of two
#: doubles that are whole and exact is the decimal, correctly rounded.
_LETTERS = 18
_EXACT = 1 << 53
_POWERS = np.array([float(10**k) for k in range(_LETTERS)])


@kernel
def _field_end(text, start):  # type: ignore[no-untyped-def]
    """The first blank from a place on; the last byte of a text is one."""
    # Letter by letter: the processor guesses where fields end, and so need not wait to know it.
    # Unsigned, because Numba then takes no place for one counted from the end.
    i, one = np.uint64(start), np.uint64(1)
    while text[i] > 32 or not (text[i] == 32 or 9 <= text[i] <= 13):
        i += one
    return np.int64(i)


@kernel
def _same(text, eights, i, k, size):  # type: ignore[no-untyped-def]
    """Whether the same letters and then a blank stand at one place as at another before it."""
    if i + size >= text.shape[0]:
        return False
    letter = text[i + size]
    if not (letter == 32 or 9 <= letter <= 13):
        return False
    left = size
    while left > 8:
        if eights[i] != eights[k]:
            return False
        i += 8
        k += 8
        left -= 8
    differ = eights[i] ^ eights[k]
    return differ << np.uint64(64 - 8 * left) == 0


@kernel
def _decimal(text, start):  # type: ignore[no-untyped-def]
    """A number of digits and at most one point: whole, digits after the point, where it ends.

    There are -1 digits where there is no point, and -2 where it is something else, or has more
    digits than doubles count.
    """
    i, one = np.uint64(start), np.uint64(1)
    i += np.uint64(text[i] == 45)
    first = i
    whole = np.int64(0)
    after = np.int64(-1)
    while True:
        digit = np.int64(text[i]) - 48
        if 0 <= digit <= 9:
            whole = 10 * whole + digit
            after += after >= 0
        elif digit == -2 and after < 0 and i > first:
            after = np.int64(0)
        else:
            break
        i += one
    blank = text[i] == 32 or 9 <= text[i] <= 13
    if not blank or i == first or after == 0 or i - first > _LETTERS or whole > _EXACT:
        return whole, np.int64(-2), _field_end(text, np.int64(i))
    return whole, after, np.int64(i)


@kernel
def split_fields(  # type: ignore[no-untyped-def]
    text, eights, column, repeated, number, keep, least, more, room,
    slots, ends, changed, begun, lines_of, values, texts, found,
):  # fmt: skip
    """Split lines at their blanks, up to the first that has too few fields, or too many.

    Parameters
    ----------
    text : ndarray of uint8
        Whole lines; the last byte is a newline.
    eights : ndarray of uint64
        The eight bytes from each place on, past the end of the text too.
    column : ndarray of int64
        The column that each field goes to, -1 for none.
    repeated : ndarray of bool, shape (columns,)
        Columns whose text is kept once where lines in a row have the same.
    number : int
        The column of numbers.
    keep : bool
        Numbers are kept as texts; else plain decimals are read here.
    least : int
        Fields that a line has.
    more : bool
        Whether it may have further ones.
    room : int
        Where the texts of the next column begin, in bytes.
    slots : ndarray of uint64
        Written: the letters of the texts, eight at each place of a byte.
    ends : ndarray of int32, shape (columns, rows + 1)
        Written: where each text ends.
    changed : ndarray of int32, shape (columns, rows)
        Written: the row of each text.
    begun : ndarray of int64, shape (columns,)
        Written: where the last text of each column begins.
    lines_of : ndarray of int32, shape (rows,)
        Written: the line of each row.
    values : ndarray of float64, shape (rows,)
        Written: the numbers that were read.
    texts : ndarray of int64, shape (columns,)
        Texts of each column; zeros at first.
    found : ndarray of int64, shape (6,)
        Written: rows; lines; the line at fault or -1, and its fields; numbers that are no plain
        decimals; those that have a point.
    """
    # The last byte is a newline, so that no loop inside a line runs past the end.
    rows = np.int64(0)
    lines = np.int64(0)
    others = np.int64(0)
    points = np.int64(0)
    i = np.int64(0)
    found[2] = -1
    found[3] = 0
    ends[:, 0] = 0
    while i < text.shape[0]:
        fields = np.int64(0)
        while True:
            while text[i] == 32 or (9 <= text[i] <= 13 and text[i] != 10):
                i += 1
            if text[i] == 10:
                break
            if text[i] == 35 and fields == 0:
                while text[i] != 10:
                    i += 1
                break
            at = column[fields] if fields < column.shape[0] else np.int64(-1)
            fields += 1
            if at < 0:
                i = _field_end(text, i)
                continue
            if at == number and not keep:
                whole, after, end = _decimal(text, i)
                others += after == -2
                points += after >= 0
                value = np.float64(whole)
                if after > 0:
                    value /= _POWERS[after]
                values[rows] = -value if text[i] == 45 else value
                i = end
                continue
            others += at == number
            last = texts[at]
            if repeated[at] and last > 0:
                size = ends[at, last] - ends[at, last - 1]
                if _same(text, eights, i, begun[at], size):
                    i += size
                    continue
            end = _field_end(text, i)
            k = at * room + ends[at, last]
            j = i
            while j < end:
                slots[k] = eights[j]
                k += 8
                j += 8
            ends[at, last + 1] = ends[at, last] + end - i
            changed[at, last] = rows
            begun[at] = i
            texts[at] = last + 1
            i = end
        i += 1
        if fields > 0:
            if fields < least or (fields > least and not more):
                found[2] = lines
                found[3] = fields
                break
            lines_of[rows] = lines
            rows += 1
        lines += 1
    # Nothing of a faulty line counts.
    for at in range(texts.shape[0]):
        while texts[at] > 0 and changed[at, texts[at] - 1] == rows:
            texts[at] -= 1
    found[0] = rows
    found[1] = lines
    found[4] = others
    found[5] = points


_SHOWN = 80
#: No line is shorter than its fields of one letter, a blank after each: at most 1 row in 8 bytes.
_SHORTEST = 8
_BEYOND_ASCII = 128


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
    repeated : tuple of str
        Columns in which a line mostly has what the line before has.
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
    repeated: tuple[str, ...]
    number: str
    fields: int
    more: bool


#: trec_eval leaves out what follows the run tag, and refuses what follows the relevance.
RUN = Layout(
    "run",
    "qid Q0 docno rank score tag",
    {"query": 0, "doc": 2, "score": 4, "run": 5},
    ("query", "run"),
    "score",
    6,
    True,
)
QRELS = Layout(
    "qrels",
    "qid iter docno rel",
    {"query": 0, "doc": 2, "grade": 3},
    ("query",),
    "grade",
    4,
    False,
)
#: As ndeval reads them.
DIVERSITY_QRELS = Layout(
    "diversity qrels",
    "qid subtopic docno rel",
    {"query": 0, "subtopic": 1, "doc": 2, "grade": 3},
    ("query",),
    "grade",
    4,
    False,
)


@dataclass(frozen=True)
class Lines:
    """The rows of a block.

    Parameters
    ----------
    batch : pyarrow.RecordBatch
        The columns of the layout, those that repeat as dictionaries; rows before the fault, if
        there is one.
    marks : tuple of ndarray
        Hashes of its pairs, and the rows whose query is not that of the row before.
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
        Whole lines, each ended by a newline, and `PADDING`; blank lines and lines that begin with
        ``#`` count as lines and hold no row.
    layout : Layout
    """
    names = list(layout.columns)
    width, room, most = len(names), len(block), len(block) // _SHORTEST
    column = np.full(max(layout.columns.values()) + 1, -1, np.int64)
    column[list(layout.columns.values())] = np.arange(width)
    padded = frozen(np.frombuffer(block, np.uint8))
    letters = padded[: len(padded) - len(PADDING)]
    # Letters are read and written eight at a time.
    content = scratch("letters of fields", width * room + 8, np.uint8)
    slots = np.ndarray((width * room + 1,), np.uint64, content, strides=(1,))
    ends = scratch("ends of fields", width * (most + 1), np.int32).reshape(width, most + 1)
    changed = scratch("rows of fields", width * most, np.int32).reshape(width, most)
    lines_of = scratch("lines of rows", most, np.int32)
    values = scratch("numbers of rows", most, np.float64)
    begun, found = np.zeros(width, np.int64), np.empty(6, np.int64)
    # Texts that the loop took for whole numbers or decimals need no second look.
    for keep in (False, True):
        texts = np.zeros(width, np.int64)
        split_fields(
            letters,
            uint64_windows(padded),
            frozen(column),
            frozen(np.array([name in layout.repeated for name in names])),
            np.int64(names.index(layout.number)),
            keep,
            np.int64(layout.fields),
            layout.more,
            np.int64(room),
            slots,
            ends,
            changed,
            begun,
            lines_of,
            values,
            texts,
            found,
        )
        if not found[4]:
            break
    rows, lines, faulty, fields, others, points = found.tolist()

    def text_of(i: int, kept: bool = True) -> pa.Array:
        places, held = ends[i, : texts[i] + 1], content[i * room :][: ends[i, texts[i]]]
        if kept:
            places, held = places.copy(), held.copy()
        buffers = [None, pa.py_buffer(places), pa.py_buffer(held)]
        return pa.Array.from_buffers(pa.string(), int(texts[i]), buffers)

    at = None if rows == lines else lines_of[:rows].copy()
    faults = [] if faulty < 0 else [(faulty, _wrong_fields(fields, layout))]
    bad: list[tuple[int, str]] = []
    arrays: dict[str, pa.Array] = {}
    rebatch: dict[str, np.ndarray] = {}
    plain = bool(letters.max(initial=0) < _BEYOND_ASCII)
    for i, name in enumerate(names):
        if name == layout.number:
            numbers = values[:rows].copy()
            if not others and name != "score" and not points:
                arrays[name] = arrow_column(numbers.astype(np.int64))
            elif not others:
                arrays[name] = arrow_column(numbers)
            else:
                arrays[name], row, wrong = _numbers(text_of(i, kept=False), name)
                bad += [] if row < 0 else [(row, wrong)]
            continue
        arrays[name] = text_of(i)
        first = changed[i, : texts[i]].astype(np.int64)
        if not plain:
            wrong = f"its {name} is not UTF-8"
            for row in _not_utf8(arrays[name]):
                bad.append((int(first[row]) if name in layout.repeated else row, wrong))
        if name in layout.repeated:
            rebatch[name] = first
    faults += [(row if at is None else int(at[row]), what) for row, what in bad]
    fault = None
    if faults:
        line, what = min(faults)
        shown = block.split(b"\n", line + 1)[line].strip().decode("utf-8", "replace")
        shown = shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}..."
        fault = line, f"{what}: {shown!r}"
    marks = marked(arrays["query"], rebatch["query"], arrays["doc"]), rebatch["query"]
    for name, first in rebatch.items():
        numbered = np.repeat(np.arange(len(first), dtype=np.int32), np.diff(first, append=rows))
        arrays[name] = pa.DictionaryArray.from_arrays(
            arrow_column(numbered), arrays[name], safe=False
        )
    batch = pa.RecordBatch.from_arrays([arrays[name] for name in names], names=names)
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
