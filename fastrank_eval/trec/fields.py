"""Fields of lines: where they begin and end, their letters, and the numbers among them."""

from __future__ import annotations

import numpy as np

from fastrank_eval.kernel import kernel

__all__ = ["split_fields"]

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
