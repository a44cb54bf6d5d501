"""The page on numbers of other tools, run with these tools."""

from __future__ import annotations

import pytest

from tests.documents import DOCS, Session, blocks

pytestmark = pytest.mark.no_kernels


def test_other_tools__print_what_the_page_says() -> None:
    page = DOCS / "explanation" / "other-tools.md"
    session = Session()
    for block in blocks(page.read_text(encoding="utf-8")):
        if block.runs_here:
            assert session.run(block) == block.text, f"{page}:{block.line}"
