"""docs/reference/parity.md: it tells what profiles tell, whether or not the tools are installed."""

import re
from pathlib import Path

import pytest

from fastrank_eval.engine.conventions import PROFILES
from fastrank_eval.measures import measure

pytestmark = pytest.mark.no_kernels

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "parity.md").read_text(encoding="utf-8")
AGAIN = "run `make conformance PEERS=all`, which writes the page"


def sections() -> dict[str, str]:
    """What stands under the heading of each profile."""
    parts = re.split(r"^## `(\w+)`: ", PAGE, flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def test_each_profile_has_a_section():
    assert [name for name in sections() if name in PROFILES] == list(PROFILES), AGAIN


@pytest.mark.parametrize("name", PROFILES)
def test_section__tells_each_difference_that_the_profile_tells(name):
    told = re.findall(r"^\* (.*)\.$", sections()[name], re.MULTILINE)
    lost = [text for text in PROFILES[name].differs if not any(text in line for line in told)]
    assert not lost, AGAIN


@pytest.mark.parametrize("name", PROFILES)
def test_section__names_measures_that_exist(name):
    rows = re.findall(r"^\| `.*` \| `(.*)` \| [\d,]+ \| .* \|$", sections()[name], re.MULTILINE)
    assert rows, AGAIN
    assert all(measure(text) for text in rows), AGAIN
