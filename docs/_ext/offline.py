"""Refuse pages that would load anything from a host."""

from __future__ import annotations

import re
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.errors import SphinxError

#: What a browser loads with a page: not links that a reader follows.
_LOADED = re.compile(
    r"<(?:script|img|iframe|source|video)\b[^>]*\bsrc=[\"']?(?:https?:)?//[^>]*>"
    r"|<link\b[^>]*\bhref=[\"']?(?:https?:)?//[^>]*>"
    r"|@import[^;]*//[^;]*;|url\([\"']?(?:https?:)?//[^)]*\)"
)


def check(app: Sphinx, error: Exception | None) -> None:
    """Read every page and style sheet that was written."""
    if error is not None or app.builder.format != "html":
        return
    loaded = []
    for path in sorted(Path(app.outdir).rglob("*")):
        if path.suffix in (".html", ".css"):
            found = _LOADED.search(path.read_text(encoding="utf-8"))
            if found:
                loaded.append(f"{path.relative_to(app.outdir)}: {found[0][:100]}")
    if loaded:
        raise SphinxError("pages load from a host:\n" + "\n".join(loaded))


def setup(app: Sphinx) -> dict[str, bool]:
    """Check the pages after they are written."""
    app.connect("build-finished", check)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
