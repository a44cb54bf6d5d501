"""Values that people have seen stay the same, to the last bit."""

import json

import pytest

from tests.golden_numbers import GOLDEN, golden_numbers

pytestmark = [pytest.mark.no_kernels, pytest.mark.lasts("2,000 numbers")]


def test_every_golden_number__has_the_same_bits() -> None:
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))
    today = golden_numbers()
    assert len(golden) > 2000
    assert today.keys() == golden.keys()
    assert not {name: (golden[name], today[name]) for name in golden if today[name] != golden[name]}
