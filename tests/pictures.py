"""Draw the pictures of the README: ``python -m tests.pictures``; needs chromium."""

from __future__ import annotations

import io
import shutil
import tempfile
from pathlib import Path

from click.testing import CliRunner
from PIL import Image
from playwright.sync_api import sync_playwright

import fastrank_eval as fe
from fastrank_eval.apps.cli.main import cli
from tests.documents import DOCS

#: The night of the page: a slot of a model is broken since three nights.
NIGHT = "2026-11-23"
_NOTEBOOK = """<!doctype html><meta charset="utf-8">
<body style="margin: 12px; font: 13px Helvetica, Arial, sans-serif; width: 880px">{}"""


def write_pages(folder: Path) -> dict[str, tuple[Path, int]]:
    """Write the pages in a folder; return the path and the height of each picture."""
    demo = folder / "demo"
    for words in (
        ["demo", str(demo)],
        ["nightly", str(demo / "month" / "nightly.toml"), "--backfill", f"2026-11-01..{NIGHT}"],
    ):
        CliRunner().invoke(cli, words)  # the worst nights exit with 4
    result = fe.evaluate(
        demo / "impressions.parquet", group="user_id", label="click",
        score=["score_a", "score_b"], measures="GAUC,AUC,nDCG@10",
    )  # fmt: skip
    notebook = folder / "notebook.html"
    notebook.write_text(_NOTEBOOK.format(result._repr_html_()), encoding="utf-8")
    night = demo / "month" / "report" / f"{NIGHT}.html"
    return {"notebook": (notebook, 300), "nightly": (night, 750)}


def main() -> None:
    """Write ``docs/notebook.png`` and ``docs/nightly.png``."""
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))))
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium)
        for name, (path, height) in write_pages(Path(folder)).items():
            page = browser.new_page(viewport={"width": 900, "height": height})
            page.goto(path.as_uri())
            picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
            picture.quantize(48).save(DOCS / f"{name}.png", optimize=True)
        browser.close()


if __name__ == "__main__":
    main()
