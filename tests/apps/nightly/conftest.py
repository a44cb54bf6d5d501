"""What most tests of nights work in."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def folder(nightly_folder: Path) -> Path:
    """The working folder of a nightly report of a simulated month."""
    return nightly_folder
