"""Count the rows above labelled rows in groups that are not in order.

No group is sorted. The few labelled rows of a group are compared with all its rows. If they are
many, the rows of the group are first divided into buckets of the score, and a labelled row is
compared with those of its own bucket. A bucket with many labelled rows is divided once more.
"""

from __future__ import annotations

import numpy as np

from fastrank_eval._lib.arrow import frozen
from fastrank_eval._lib.jit import kernel
from fastrank_eval._lib.threads import scratch
from fastrank_eval.groups.sort import descending_code

#: So many labelled rows are compared with all rows of their group or bucket.
_FEW = 32
#: Limits of the number of buckets. Between them a bucket has some four rows.
_MIN_BUCKETS, _MAX_BUCKETS = 16, 1 << 14


def count_rows_above(
    score: np.ndarray,
    starts: np.ndarray,
    ranked_groups: np.ndarray,
    offsets: np.ndarray,
    row: np.ndarray,
    above: np.ndarray,
    size: np.ndarray,
) -> None:
    """Sort the labelled rows of each group; count the rows above each.

    Parameters
    ----------
    score : ndarray of float32 or float64, shape (rows,), read-only
        Rows in any order inside their group. No NaN; -0.0 equals 0.0.
    starts : ndarray of int64, shape (groups + 1,)
        First row of each group, then the number of rows: less than 2**31.
    ranked_groups, offsets : ndarray of int64
        As in `RankedRows`.
    row : ndarray of int64, shape (labelled rows,)
        Labelled rows of each group, ascending; afterwards best first, then ascending.
    above, size : ndarray of int64, shape (labelled rows,)
        Output: number of rows of the group with a higher score, and with the same score.
    """
    labelled_rows = offsets[1:] - offsets[:-1]
    many = labelled_rows > _FEW
    groups = ranked_groups[many]
    rows = int((starts[groups + 1] - starts[groups]).max(initial=0))
    most = int(labelled_rows.max(initial=0))
    bits = frozen(score.view(f"u{score.itemsize}"))
    top = 8 * bits.itemsize - 1
    # The last place of a buffer takes the rows that no labelled row is compared with.
    buffers = scratch("scores of buckets", 2 * (rows + 1), score.dtype).reshape(2, rows + 1)
    _count_rows_above(
        score,
        bits,
        bits.dtype.type(1 << top),
        bits.dtype.type((1 << top) - 1),
        starts,
        ranked_groups,
        offsets,
        buffers,
        buffers.view(bits.dtype),
        scratch("buckets of rows", rows, np.uint16),
        scratch("buckets", 4 * (_MAX_BUCKETS + 1), np.uint32).reshape(4, -1),
        scratch("labelled rows", most),
        scratch("crowded buckets", 6 * (most // _FEW + 1)).reshape(-1, 6),
        row,
        above,
        size,
    )


@kernel
def _count_rows_above(  # type: ignore[no-untyped-def]
    score,
    bits,
    sign,
    rest,
    starts,
    ranked_groups,
    offsets,
    buffers,
    buffer_bits,
    bucket,
    buckets,
    labelled,
    crowded,
    row,
    above,
    size,
):
    for r in range(ranked_groups.shape[0]):
        first = offsets[r]
        end = offsets[r + 1]
        # The loops vectorise only over a slice.
        scores = score[starts[ranked_groups[r]] : starts[ranked_groups[r] + 1]]
        if end - first <= _FEW:
            _compare(scores, 0, score, first, end, row, above, size)
            continue
        for i in range(scores.shape[0]):
            buffers[0, i] = scores[i]
        crowded[0, 0] = first
        crowded[0, 1] = end
        crowded[0, 2] = 0
        crowded[0, 3] = scores.shape[0]
        crowded[0, 4] = 0
        crowded[0, 5] = 0
        waiting = 1
        while waiting > 0:
            waiting -= 1
            first = crowded[waiting, 0]
            end = crowded[waiting, 1]
            lo = crowded[waiting, 2]
            hi = crowded[waiting, 3]
            before = crowded[waiting, 4]
            side = crowded[waiting, 5]
            least, greatest = _code_range(bits, sign, rest, row[first:end])
            if least == greatest:
                _compare(buffers[side, lo:hi], before, score, first, end, row, above, size)
                continue
            shift, count = _bucket_width(least, greatest, hi - lo)
            _find_buckets(
                buffer_bits[side, lo:hi], sign, rest, least, shift, count, bucket[: hi - lo]
            )
            _sort_by_bucket(
                bits, sign, rest, least, shift, count, row[first:end], labelled, buckets
            )
            _fill_buckets(
                buffer_bits[side, lo:hi],
                bucket[: hi - lo],
                buckets,
                count,
                lo,
                buffer_bits[1 - side],
            )
            # Few buckets have labelled rows, and few of those have many.
            for k in range(count):
                labelled_rows = np.int64(buckets[_LABELLED, k])
                if labelled_rows:
                    hi = np.int64(buckets[_END, k])
                    lo = hi - np.int64(buckets[_ROWS, k])
                    if labelled_rows <= _FEW:
                        _compare(
                            buffers[1 - side, lo:hi],
                            before,
                            score,
                            first,
                            first + labelled_rows,
                            row,
                            above,
                            size,
                        )
                    else:
                        crowded[waiting, 0] = first
                        crowded[waiting, 1] = first + labelled_rows
                        crowded[waiting, 2] = lo
                        crowded[waiting, 3] = hi
                        crowded[waiting, 4] = before
                        crowded[waiting, 5] = 1 - side
                        waiting += 1
                    first += labelled_rows
                before += np.int64(buckets[_ROWS, k])


@kernel
def _compare(scores, before, score, first, end, row, above, size):  # type: ignore[no-untyped-def]
    """Sort labelled rows, and compare each with all of some scores.

    `before` rows more are above all of them.
    """
    for e in range(first + 1, end):
        current = row[e]
        k = e
        while k > first and score[row[k - 1]] < score[current]:
            row[k] = row[k - 1]
            k -= 1
        row[k] = current
    for e in range(first, end):
        value = score[row[e]]
        if e > first and score[row[e - 1]] == value:
            above[e] = above[e - 1]
            size[e] = size[e - 1]
            continue
        higher = np.uint32(0)
        equal = np.uint32(0)
        for i in range(scores.shape[0]):
            higher = np.uint32(higher + np.uint32(scores[i] > value))
            equal = np.uint32(equal + np.uint32(scores[i] == value))
        above[e] = before + np.int64(higher)
        size[e] = np.int64(equal)


@kernel
def _code_range(bits, sign, rest, rows):  # type: ignore[no-untyped-def]
    least = greatest = descending_code(bits[rows[0]], sign, rest)
    for e in range(1, rows.shape[0]):
        code = descending_code(bits[rows[e]], sign, rest)
        least = min(least, code)
        greatest = max(greatest, code)
    return least, greatest


@kernel
def _bucket_width(least, greatest, rows):  # type: ignore[no-untyped-def]
    """Return the bits of codes of one bucket, and the number of buckets.

    The first bucket takes all codes below `least`.
    """
    buckets = _MIN_BUCKETS
    while buckets < rows // 4 and buckets < _MAX_BUCKETS:
        buckets *= 2
    span = np.uint64(greatest - least)
    shift = np.uint64(0)
    while span >> shift >= np.uint64(buckets):
        shift += np.uint64(1)
    return shift, np.int64(span >> shift) + 2


@kernel
def _bucket_of(code, least, shift, buckets):  # type: ignore[no-untyped-def]
    if code < least:
        return np.uint64(0)
    return min((np.uint64(code) - np.uint64(least) >> shift) + np.uint64(1), np.uint64(buckets - 1))


@kernel
def _find_buckets(bits, sign, rest, least, shift, buckets, bucket):  # type: ignore[no-untyped-def]
    for i in range(bits.shape[0]):
        bucket[i] = _bucket_of(descending_code(bits[i], sign, rest), least, shift, buckets)


#: Lines of the table of buckets: rows, labelled rows; then where the bucket ends in the buffer,
#: and 1 if it has labelled rows.
_ROWS, _LABELLED, _END, _STEP = 0, 1, 2, 3


@kernel
def _sort_by_bucket(bits, sign, rest, least, shift, count, row, labelled, buckets):  # type: ignore[no-untyped-def]
    """Sort labelled rows by bucket, stably, and count them."""
    ends = buckets[_END]
    labelled_rows = buckets[_LABELLED]
    for k in range(count):
        ends[k] = 0
        labelled_rows[k] = 0
    for e in range(row.shape[0]):
        labelled[e] = row[e]
        labelled_rows[
            _bucket_of(descending_code(bits[row[e]], sign, rest), least, shift, count)
        ] += 1
    end = np.uint32(0)
    for k in range(count):
        ends[k] = end
        end += labelled_rows[k]
    for e in range(row.shape[0]):
        code = descending_code(bits[labelled[e]], sign, rest)
        k = _bucket_of(code, least, shift, count)
        row[ends[k]] = labelled[e]
        ends[k] += 1


@kernel
def _fill_buckets(bits, bucket, buckets, count, lo, out):  # type: ignore[no-untyped-def]
    """Copy the rows of buckets with labelled rows, bucket by bucket."""
    rows = buckets[_ROWS]
    labelled_rows = buckets[_LABELLED]
    ends = buckets[_END]
    steps = buckets[_STEP]
    for k in range(count):
        rows[k] = 0
    for i in range(bucket.shape[0]):
        rows[bucket[i]] += 1
    end = np.uint32(lo)
    for k in range(count):
        has_labelled = labelled_rows[k] > 0
        ends[k] = end if has_labelled else out.shape[0] - 1
        steps[k] = has_labelled
        end += rows[k] if has_labelled else 0
    for i in range(bucket.shape[0]):
        k = bucket[i]
        out[ends[k]] = bits[i]
        ends[k] += steps[k]
