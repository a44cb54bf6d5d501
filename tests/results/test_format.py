"""Numbers as text."""

import math

import pytest

from fastrank_eval.results.report import (
    amount,
    decimals,
    half_width_text,
    interval_text,
    number_text,
    p_text,
    percent_text,
    share_text,
)

NAN = math.nan


@pytest.mark.parametrize(
    "share, digits, text",
    [
        (0.0, 2, "0%"),
        (1.0, 2, "100%"),
        (0.0412, 2, "4.12%"),
        (0.00001, 2, "<0.01%"),
        (0.99999, 2, ">99.99%"),
        (0.0005, 1, "<0.1%"),
        (0.9995, 1, ">99.9%"),
        (NAN, 1, "n/a"),
    ],
)
def test_share__only_0_and_1_print_as_such(share: float, digits: int, text: str) -> None:
    assert share_text(share, digits) == text


def test_numbers__have_the_digits_of_their_kind() -> None:
    assert [number_text(x) for x in (0.5, None, NAN)] == ["0.500000", "undefined", "undefined"]
    assert [number_text(x) for x in (1.0, 0.0, 1234.5678912)] == ["1.00000", "0.00000", "1234.57"]
    assert number_text(1.2345678e-5) == "1.23457e-05"
    assert number_text(12345.0, "sum") == "12,345"
    assert [decimals(x) for x in (0.0123, 12.3, 0.0, 1e9, 1e-9)] == [3, 0, None, None, None]
    assert [amount(1234.5, 1), amount(0.25, None, sign=True)] == ["1,234.5", "+0.25"]
    assert [half_width_text(x, None) for x in (1.26e-9, NAN)] == ["±1.3e-09", ""]
    intervals = {
        (17839.3, 18414.7): "[17,839, 18,415]",
        (0.5, 0.5): "[0.500000, 0.500000]",
        (0.2, 1.04): "[0.20, 1.04]",
        (1e-12, 3e-12): "[1.00000e-12, 3.00000e-12]",
        (-1e200, 1e200): "[-1.00000e+200, 1.00000e+200]",
    }
    for (low, high), text in intervals.items():
        assert interval_text(low, high, decimals((high - low) / 2), spare="#.6g") == text
    assert interval_text(-0.5, 0.25, 2, sign=True) == "[-0.50, +0.25]"
    assert interval_text(NAN, 0.25, 2) == ""
    assert [p_text(p) for p in (0.0123, 0.00005, NAN)] == ["0.012", "<0.0001", "n/a"]
    assert percent_text(0.95) == "95%"
    percents = {0.99749: "100%", 0.9951: "100%", 12.3: "1200%", 1e-7: "0.00001%", 0.0: "0%"}
    assert {share: percent_text(share, 2) for share in percents} == percents
