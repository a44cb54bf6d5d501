"""The slice of each row: codes, labels, values and their order against plain Python."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastrank_eval._lib.errors import ColumnError
from fastrank_eval.io.keys import CategoricalEncoder
from fastrank_eval.io.reader import open_source
from fastrank_eval.slicing.slicer import Slicings, open_slicings
from tests.support.transcripts import answers

DAY = date(2026, 11, 17)
MOMENT = datetime(2026, 11, 17, 22, 30)
BIG = 2**53
#: Values of each type of column, in their order, with what a label says of them.
PLAIN: dict[str, tuple[pa.DataType, list[tuple[Any, str]]]] = {
    "bool": (pa.bool_(), [(False, "false"), (True, "true")]),
    "int8": (pa.int8(), [(-128, "-128"), (0, "0"), (9, "9"), (10, "10")]),
    "int64": (pa.int64(), [(-(2**63), str(-(2**63))), (BIG, str(BIG)), (BIG + 1, str(BIG + 1))]),
    "uint64": (pa.uint64(), [(0, "0"), (2**63, str(2**63)), (2**64 - 1, str(2**64 - 1))]),
    "float16": (pa.float16(), [(-0.5, "-0.5"), (1.5, "1.5")]),
    "float32": (pa.float32(), [
        (-math.inf, "-inf"), (-0.0, "0"), (float(np.float32(0.1)), "0.1"), (2.0, "2"),
        (math.inf, "inf"),
    ]),
    "float64": (pa.float64(), [(-1e300, "-1e300"), (0.0, "0"), (0.1, "0.1"), (1e22, "1e22")]),
    "string": (pa.string(), [
        ("", '""'), ("Z", "Z"), ("a", "a"), ("a,b", '"a,b"'), ("a=b", '"a=b"'),
        ("null", '"null"'), ("x" * 90, "x" * 90), ("é", "é"), ("😀", "😀"),
    ]),
    "large_string": (pa.large_string(), [("a", "a"), ("b", "b")]),
    "string_view": (pa.string_view(), [("a", "a"), ('say "hi"', '"say ""hi"""')]),
    "dictionary": (pa.dictionary(pa.int8(), pa.string()), [("x", "x"), ("y", "y")]),
    "binary": (pa.binary(), [(b"", "0x"), (b"\x00", "0x00"), (b"\x00a", "0x0061")]),
    "fixed": (pa.binary(2), [(b"\x00\x00", "0x0000"), (b"ab", "0x6162")]),
    "date32": (pa.date32(), [(DAY, "2026-11-17"), (DAY + timedelta(1), "2026-11-18")]),
    "date64": (pa.date64(), [(DAY, "2026-11-17"), (DAY + timedelta(1), "2026-11-18")]),
    "timestamp": (pa.timestamp("us"), [
        (datetime(1969, 12, 31, 23), "1969-12-31T23:00:00"),
        (MOMENT + timedelta(milliseconds=500), "2026-11-17T22:30:00.5"),
    ]),
    "zoned": (pa.timestamp("s", "UTC"), [(MOMENT.replace(tzinfo=UTC), "2026-11-17T22:30:00Z")]),
    "time": (pa.time32("s"), [(time(8, 30), "08:30:00"), (time(9), "09:00:00")]),
    "duration": (pa.duration("s"), [(timedelta(0, -5), "-5s"), (timedelta(0, 90), "90s")]),
    "decimal64": (pa.decimal64(10, 2), [(Decimal("-1.50"), "-1.5"), (Decimal("0.00"), "0")]),
    "decimal": (pa.decimal128(20, 2), [(Decimal("9.00"), "9"), (Decimal("10.25"), "10.25")]),
    "decimal256": (pa.decimal256(50, 1), [(Decimal(10**40), "1e40")]),
}  # fmt: skip


def column(values: list[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(kind):
        return pa.array(values, kind.value_type).cast(kind)
    if pa.types.is_float16(kind):
        return pa.array([None if v is None else np.float16(v) for v in values], kind)
    if pa.types.is_decimal(kind) and kind.bit_width < 128:
        return pa.array(values, pa.decimal128(kind.precision, kind.scale)).cast(kind)
    return pa.array(values, kind)


def labels_of_rows(
    by: str, table: pa.Table, cuts: list[int], sizes: list[int] | None = None
) -> tuple[list[str], Slicings]:
    """The label of each row, its rows in batches that end at the cuts."""
    slicings = open_slicings(by, open_source(table))
    codes = []
    for lo, hi in zip([0, *cuts], [*cuts, table.num_rows], strict=True):
        batch = table.slice(lo, hi - lo).combine_chunks()
        coded = [part.codes(batch.column(part.name).combine_chunks()) for part in slicings.columns]
        rows = np.array([hi - lo] * (hi > lo) if sizes is None else sizes, np.int64)
        found = slicings.codes(coded, rows, rows // 2)[0]
        assert found.dtype == np.int32
        assert not found.flags.writeable
        codes += (np.repeat(found, rows) if len(found) == len(rows) else found).tolist()
    slices = slicings.encoders[0].slices()
    assert len(set(slices.labels)) == len(slices.labels) == len(slicings.encoders[0])
    by_code = dict(zip(slices.codes.tolist(), slices.labels, strict=True))
    return [by_code[code] for code in codes], slicings


def cuts_of(draw: st.DataObject, rows: int) -> list[int]:
    return sorted(draw.draw(st.lists(st.integers(0, rows), max_size=3)))


@pytest.mark.parametrize("kind", PLAIN)
@settings(max_examples=20)
@given(draw=st.data())
def test_each_value_is_a_slice(kind: str, draw: st.DataObject) -> None:
    arrow, pool = PLAIN[kind]
    texts = dict([*pool, (None, "null")])
    if "float" in kind:
        texts[math.nan] = "null"
    values = draw.draw(st.lists(st.sampled_from(list(texts)), max_size=12))
    table = pa.table({"c": column(values, arrow)})
    labels, slicings = labels_of_rows("c", table, cuts_of(draw, len(values)))
    assert labels == [f"c={texts[value]}" for value in values]
    slices = slicings.encoders[0].slices()
    order = [f"c={text}" for text in texts.values()]
    assert list(slices.labels) == [label for label in dict.fromkeys(order) if label in labels]
    shown = {text: None if text == "null" else value for value, text in texts.items()}
    expected = [shown[label.removeprefix("c=")] for label in slices.labels]
    assert slices.values["c"].to_pylist() == expected


NUMBERS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "int8": (pa.int8(), st.integers(-20, 20)),
    "uint16": (pa.uint16(), st.integers(0, 40)),
    "int64": (pa.int64(), st.integers(-30, 30) | st.integers(BIG - 2, BIG + 2)
              | st.sampled_from([-(2**63), 2**63 - 1])),
    "uint64": (pa.uint64(), st.integers(0, 30) | st.integers(2**64 - 3, 2**64 - 1)),
    "float32": (pa.float32(), st.floats(width=32) | st.sampled_from([0.25, 0.5, 1.5, 18.0])),
    "float64": (pa.float64(), st.floats() | st.sampled_from([0.1, 0.3, 0.7, 18.0, -0.0])),
    "decimal64": (pa.decimal64(9, 2), st.decimals("-40", "40", places=2)),
    "decimal": (pa.decimal128(22, 2), st.decimals("-40", "40", places=2)),
}  # fmt: skip
EDGES = st.lists(
    st.sampled_from([
        "-9223372036854775808", "-129", "-20", "-0.5", "0", "0.1", "0.3", "0.7", "1.5", "18",
        "18.5", "9007199254740993", "9223372036854775808", "18446744073709551614",
        "18446744073709551617",
    ]),
    min_size=1, max_size=5, unique=True,
).map(lambda edges: sorted(edges, key=Decimal))  # fmt: skip


def missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


@pytest.mark.parametrize("kind", NUMBERS)
@settings(max_examples=20)
@given(draw=st.data(), edges=EDGES)
def test_edges_are_compared_exactly(kind: str, draw: st.DataObject, edges: list[str]) -> None:
    arrow, numbers = NUMBERS[kind]
    values = draw.draw(st.lists(st.none() | numbers, max_size=12))
    floats = kind.startswith("float")
    table = pa.table({"c": column(values, arrow)})
    labels, slicings = labels_of_rows(f"c:{','.join(edges)}", table, cuts_of(draw, len(values)))
    exact: list[Any] = [float(edge) if floats else Fraction(edge) for edge in edges]
    places = [None if missing(v) else bisect_right(exact, v) for v in values]
    number: Callable[[str], Any] = float if floats else Fraction
    for value, place, label in zip(values, places, labels, strict=True):
        if place is None:
            assert label == "c=null"
            continue
        low, high = bounds(label.removeprefix("c"), number)
        assert low is None or low <= value
        assert high is None or value < high
        # Between the bounds lies no other edge that a value of the column could reach.
        if "int" not in kind:
            assert low == (exact[place - 1] if place else None)
            assert high == (exact[place] if place < len(exact) else None)
        else:
            least, most = (0, 2**64 - 1) if kind == "uint64" else (-(2**63), 2**63 - 1)
            ends = [math.ceil(edge) for edge in exact]
            assert low is None or low in ends
            assert not [
                e
                for e in ends
                if (low is None or low < e) and (high is None or e < high) and least < e <= most
            ]
    assert slicings.encoders[0].slices().labels[-1] == "c=null"


def bounds(text: str, number: Callable[[str], Any]) -> tuple[Any, Any]:
    """The ends of a bin as its label tells them."""
    if text == "=any":
        return None, None
    if text.startswith(">="):
        return number(text[2:]), None
    if text.startswith("<"):
        return None, number(text[1:])
    low, high = text.removeprefix("=[").removesuffix(")").split(",")
    return number(low), number(high)


@pytest.mark.parametrize(
    "kind, edges, labels",
    [
        (pa.int8(), "17.5,17.9,200", ("c<18", "c=[18,200)", "c>=200", "c=null")),
        (pa.int64(), "-9223372036854775808", ("c=any", "c=null")),
        (pa.uint64(), "-5,7,18446744073709551616", ("c<7", "c>=7", "c=null")),
        (pa.float64(), "0.1,0.10000000000000000001,18", ("c<0.1", "c=[0.1,18)", "c>=18", "c=null")),
        (pa.decimal128(9, 2), "0.005,1e2", ("c<0.005", "c=[0.005,100)", "c>=100", "c=null")),
        (pa.date32(), "2026-11-19", ("c<2026-11-19", "c>=2026-11-19", "c=null")),
        (
            pa.timestamp("us"),
            "2026-11-19,2026-11-19T08:30",
            (
                "c<2026-11-19T00:00:00",
                "c=[2026-11-19T00:00:00,2026-11-19T08:30:00)",
                "c>=2026-11-19T08:30:00",
                "c=null",
            ),
        ),
    ],
)
def test_labels_of_bins(kind: pa.DataType, edges: str, labels: tuple[str, ...]) -> None:
    slicings = open_slicings(f"c:{edges}", open_source(pa.table({"c": pa.nulls(0, kind)})))
    slices = slicings.encoders[0].slices()
    assert slices.labels == labels
    bins = slices.values["c"].to_pylist()
    assert bins[-1] is None
    assert bins[0]["low"] is None
    assert bins[-2]["high"] is None
    assert [b["high"] for b in bins[:-2]] == [b["low"] for b in bins[1:-1]]


@pytest.mark.parametrize("kind", NUMBERS)
@settings(max_examples=20)
@given(draw=st.data(), width=st.sampled_from(["1", "10", "0.1", "2.5", "3e3", "1e30"]))
def test_bins_of_one_width(kind: str, draw: st.DataObject, width: str) -> None:
    arrow, numbers = NUMBERS[kind]
    floats = kind.startswith("float")
    exact = Fraction(width)
    near = numbers.filter(
        lambda v: (floats and not math.isfinite(v)) or abs(Fraction(v) / exact) < 2**52
    )
    values = draw.draw(st.lists(st.none() | near, max_size=10))
    table = pa.table({"c": column(values, arrow)})
    labels, slicings = labels_of_rows(f"c:width{width}", table, cuts_of(draw, len(values)))
    for value, label in zip(values, labels, strict=True):
        if missing(value):
            assert label == "c=null"
        elif floats and math.isinf(value):
            assert label == f"c={value}"
        else:
            low, high = map(Fraction, label.removeprefix("c=[").removesuffix(")").split(","))
            assert high - low == exact
            assert (low / exact).denominator == 1
            if floats:
                assert float(low) <= value < float(high)
            else:
                assert low <= value < high
    slices = slicings.encoders[0].slices()
    lows = [b["low"] for b in slices.values["c"].to_pylist() if b is not None]
    assert lows == sorted(lows)


@pytest.mark.parametrize("unit", ["hour", "day", "week", "month", "hour_of_day", "day_of_week"])
@pytest.mark.parametrize(
    "kind, years",
    [
        (pa.timestamp("ns"), (1678, 2261)),
        (pa.timestamp("us", "Asia/Kolkata"), (-32766, 32766)),
        (pa.timestamp("s"), (-32766, 32766)),
        (pa.date32(), (-32766, 32766)),
        (pa.date64(), (-32766, 32766)),
    ],
    ids=str,
)
def test_years_without_a_calendar__are_refused_and_the_last_before_them_have_labels(
    unit: str, kind: pa.DataType, years: tuple[int, int]
) -> None:
    if unit.startswith("hour") and pa.types.is_date(kind):
        return
    resolution = {"date32[day]": "D", "date64[ms]": "ms"}.get(str(kind)) or kind.unit
    first_year, last_year = years
    edges = np.array([first_year - 1970, last_year - 1969]).astype("M8[Y]")
    first, end = edges.astype(f"M8[{resolution}]").astype(np.int64).tolist()
    integers = pa.int32() if kind == pa.date32() else pa.int64()
    step = 86_400_000 if kind == pa.date64() else 1

    def labels(*values: int) -> list[str]:
        column = pa.array(values, integers).view(kind)
        return labels_of_rows(f"c:{unit}", pa.table({"c": column}), [])[0]

    texts = labels(first, end - step)
    assert not any("range" in text for text in texts)
    if unit == "month" and kind == pa.timestamp("s"):
        assert texts == ["c:month=-32766-01", "c:month=32766-12"]
    most = 2 ** (31 if integers == pa.int32() else 63)
    message = f"must be in the years {first_year} to {last_year}, got"
    for far in (first - step, end, -most, most - most % step - step):
        with pytest.raises(ColumnError, match=message):
            labels(0, far)


PERIODS: dict[str, Callable[[datetime], str]] = {
    "hour": lambda moment: moment.strftime("%Y-%m-%dT%H"),
    "day": lambda moment: moment.strftime("%Y-%m-%d"),
    "week": lambda moment: str(moment.date() - timedelta(moment.weekday())),
    "month": lambda moment: moment.strftime("%Y-%m"),
    "hour_of_day": lambda moment: str(moment.hour),
    "day_of_week": lambda moment: str(moment.isoweekday()),
}


@pytest.mark.parametrize("unit", PERIODS)
@settings(max_examples=30)
@given(draw=st.data())
def test_times_by_the_calendar_and_the_clock(unit: str, draw: st.DataObject) -> None:
    zones = [None, "UTC", "Z", "+00:00", "America/New_York", "Asia/Kolkata"]
    zone = draw.draw(st.sampled_from(zones))
    resolution = draw.draw(st.sampled_from(["s", "ms", "us", "ns"]))
    # Clocks went back in New York at 1,793,512,800.
    seconds = st.integers(-(10**9), 2 * 10**9) | st.integers(1_793_505_600, 1_793_520_000)
    instants = draw.draw(st.lists(st.none() | seconds, max_size=8))
    scale = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[resolution]
    raw = [None if s is None else s * scale for s in instants]
    table = pa.table({"t": pa.array(raw, pa.int64()).cast(pa.timestamp(resolution, zone))})
    labels, slicings = labels_of_rows(f"t:{unit}", table, cuts_of(draw, len(raw)))
    expected = []
    for second in instants:
        if second is None:
            expected.append(f"t:{unit}=null")
        else:
            moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=second)
            moment = moment.astimezone(ZoneInfo(zone if zone and "/" in zone else "UTC"))
            again = f"{moment:%z}" * (unit == "hour" and moment.fold)
            again = again and f"{again[:3]}:{again[3:]}"
            expected.append(f"t:{unit}={PERIODS[unit](moment)}{again}")
    assert labels == expected
    values = slicings.encoders[0].slices().values[f"t:{unit}"]
    order = [str(value) for value in values.drop_null().to_pylist()]
    key: Callable[[str], Any] = int if "_of_" in unit else str
    assert order == sorted(order, key=key)


def test_dates_by_day_week_and_month() -> None:
    for kind in (pa.date32(), pa.date64()):
        table = pa.table({"d": pa.array([date(1969, 12, 31), None, date(2026, 11, 19)], kind)})
        for unit, expected in (
            ("day", ["1969-12-31", "null", "2026-11-19"]),
            ("week", ["1969-12-29", "null", "2026-11-16"]),
            ("month", ["1969-12", "null", "2026-11"]),
            ("day_of_week", ["3", "null", "4"]),
        ):
            labels, _ = labels_of_rows(f"d:{unit}", table, [1])
            assert labels == [f"d:{unit}={text}" for text in expected]


@given(
    st.lists(st.integers(0, 60), min_size=1, max_size=8),
    st.lists(st.integers(0, 70), min_size=1, max_size=4, unique=True).map(sorted),
)
def test_groups_by_their_rows_and_positives(sizes: list[int], edges: list[int]) -> None:
    table = pa.table({"x": np.zeros(sum(sizes), np.int64)})
    texts = ",".join(map(str, edges))
    for name, counts in (("rows", sizes), ("positives", [size // 2 for size in sizes])):
        labels, _ = labels_of_rows(f"@{name}:{texts}", table, [], sizes)
        expected = [bucket(count, edges) for count in counts]
        assert labels == [
            f"@{name}{text}"
            for text, size in zip(expected, sizes, strict=True)
            for _ in range(size)
        ]
        labels, slicings = labels_of_rows(f"@{name}", table, [], sizes)
        each = [f"@{name}={count}" for count in counts]
        assert labels == [text for text, size in zip(each, sizes, strict=True) for _ in range(size)]
        assert list(slicings.encoders[0].slices().values[f"@{name}"].to_pylist()) == sorted(
            set(counts)
        )
        labels, _ = labels_of_rows(f"@{name}:width10", table, [], sizes)
        tens = [f"@{name}={c // 10 * 10}-{c // 10 * 10 + 9}" for c in counts]
        assert labels == [text for text, size in zip(tens, sizes, strict=True) for _ in range(size)]


def bucket(count: int, edges: list[int]) -> str:
    place = bisect_right(edges, count)
    if place == 0:
        return f"<{edges[0]}"
    if place == len(edges):
        return f">={edges[-1]}"
    low, high = edges[place - 1], edges[place] - 1
    return f"={low}" if low == high else f"={low}-{high}"


ROWS = st.lists(
    st.tuples(
        st.none() | st.integers(1, 3),
        st.sampled_from([None, "de", "a,b=c", "null"]),
        st.none() | st.integers(0, 30),
    ),
    max_size=30,
)


@given(ROWS, st.data())
def test_crosses_are_the_combinations_that_occur(
    rows: list[tuple[Any, ...]], draw: st.DataObject
) -> None:
    slots, countries, ages = zip(*rows, strict=True) if rows else ([], [], [])
    table = pa.table({
        "slot": pa.array(slots, pa.int64()), "country": pa.array(countries, pa.string()),
        "age": pa.array(ages, pa.int16()),
    })  # fmt: skip
    cuts = cuts_of(draw, len(rows))
    by = "slot,age:10,20,country,@rows:1,5"
    labels, slicings = labels_of_rows(by, table, cuts)
    sizes = np.diff([0, *cuts, len(rows)])
    size_of_row = np.repeat(sizes, sizes)
    country = {None: "null", "de": "de", "a,b=c": '"a,b=c"', "null": '"null"'}

    def age(a: int | None) -> str:
        if a is None:
            return "=null"
        return "<10" if a < 10 else "=[10,20)" if a < 20 else ">=20"

    expected = [
        f"slot={'null' if s is None else s},age{age(a)},country={country[c]},@rows"
        + ("=1-4" if size < 5 else ">=5")
        for (s, c, a), size in zip(rows, size_of_row, strict=True)
    ]
    assert labels == expected
    slices = slicings.encoders[0].slices()
    assert set(slices.labels) == set(expected)
    assert list(slices.values) == ["slot", "age", "country", "@rows"]
    keys = [
        (s is None, s or 0, "<[>n".index(age(a)[0] if age(a)[0] != "=" else age(a)[1]),
         c is None, (c or "").encode(), size >= 5)
        for (s, c, a), size in zip(rows, size_of_row, strict=True)
    ]  # fmt: skip
    in_order = [text for _, text in sorted(zip(keys, expected, strict=True))]
    assert list(slices.labels) == list(dict.fromkeys(in_order))
    assert slices.values["slot"].to_pylist() == [
        None if t.startswith("slot=null") else int(t[5]) for t in slices.labels
    ]


@given(
    st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=5), min_size=1, max_size=8),
    st.sampled_from([["a"], ["a,b"], ["a", "b"]]),
)
def test_slices_that_keep_groups_whole_have_a_code_a_group(
    groups: list[list[int]], by: list[str]
) -> None:
    a = np.concatenate(groups)
    rows = np.array([len(group) for group in groups])
    b = np.repeat(np.arange(len(groups)) % 2, rows)
    table = pa.table({"a": a, "b": b})
    slicings = open_slicings(by, open_source(table))
    coded = [part.codes(table[part.name].chunk(0)) for part in slicings.columns]
    is_whole = all(len(set(group)) == 1 for group in groups)
    for spec, found in zip(by, slicings.codes(coded, rows, rows), strict=True):
        whole = is_whole or spec == "b"
        values = list(zip(*(table[name].to_pylist() for name in spec.split(",")), strict=True))
        if whole:
            values = [values[row] for row in np.append(0, np.cumsum(rows[:-1])).tolist()]
        numbers = {value: number for number, value in enumerate(dict.fromkeys(values))}
        assert found.tolist() == [numbers[value] for value in values]


def test_many_combinations_of_few_rows_are_found_too() -> None:
    random = np.random.default_rng(1)
    table = pa.table({name: random.integers(0, 1000, 200) for name in "abc"})
    labels, _ = labels_of_rows("a,b,c", table, [50])
    rows = table.to_pylist()
    assert labels == [f"a={row['a']},b={row['b']},c={row['c']}" for row in rows]


def test_threads_may_code_at_the_same_time() -> None:
    random = np.random.default_rng(2)
    a, b = random.integers(0, 50, 40_000), random.normal(size=40_000).round(1)
    table = pa.table({"a": a, "b": b})
    slicings = open_slicings("a,b", open_source(table))

    def code(lo: int) -> np.ndarray:
        batch = table.slice(lo, 1000).combine_chunks()
        coded = [part.codes(batch.column(part.name).chunk(0)) for part in slicings.columns]
        return slicings.codes(coded, np.ones(1000, np.int64), np.zeros(1000, np.int64))[0]

    with ThreadPoolExecutor(8) as pool:
        codes = np.concatenate(list(pool.map(code, range(0, 40_000, 1000))))
    slices = slicings.encoders[0].slices()
    values = [slices.values[name].to_pylist() for name in "ab"]
    pairs = dict(zip(slices.codes.tolist(), zip(*values, strict=True), strict=True))
    assert [pairs[code] for code in codes.tolist()] == list(
        zip(a.tolist(), (b + 0.0).tolist(), strict=True)
    )
    assert list(zip(*values, strict=True)) == sorted(pairs.values())


@pytest.mark.parametrize("by", ["a", "a:width1", "a,b", "@rows"])
def test_more_slices_than_may_be_are_refused(by: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("encode", "slicer"):
        monkeypatch.setattr(f"fastrank_eval.slicing.{module}.MAX_SLICES", 5)
    table = pa.table({"a": range(9), "b": range(9)})
    slicings = open_slicings(by, open_source(table))
    with pytest.raises(ColumnError, match=r"makes? more than 5 slices"):
        coded = [
            np.arange(9, dtype=np.int32) if by == "a,b" else part.codes(table["a"].chunk(0))
            for part in slicings.columns
        ]
        rows = np.arange(1, 10) if by == "@rows" else np.ones(9, np.int64)
        slicings.codes(coded, rows, np.zeros(9, np.int64))


@pytest.mark.parametrize("kind", [k for k in PLAIN if "float" not in k and k != "decimal64"])
def test_numbers_of_fields_turn_back_to_their_values(kind: str) -> None:
    arrow, pool = PLAIN[kind]
    values = [None, *[value for value, _ in pool], None, pool[0][0]]
    fields = CategoricalEncoder("c")
    assert len(fields.values()) == len(fields) == 0
    codes = np.concatenate(
        [fields.codes(column(values[at : at + 1], arrow)) for at in range(len(values))]
    )
    back = fields.values().to_pylist()
    assert len(back) == len(fields)
    assert [back[code] for code in codes.tolist()] == values


test_answers = answers(globals())
