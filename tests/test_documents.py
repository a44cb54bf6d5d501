"""Documentation: its examples run and print what the pages say."""

from __future__ import annotations

import ast
import re
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

import fastrank_eval
from fastrank_eval.apps.cli.main import cli
from tests.documents import DOCS, ROOT, Session, blocks, counts, pages

pytestmark = pytest.mark.no_kernels

AGAIN = "run `python -m tests.documents` to write outputs anew"
TEXTS = {path: path.read_text(encoding="utf-8") for path in pages()}
RUN = [path for path, text in TEXTS.items() if any(block.mark is None for block in blocks(text))]


def name_of(path: Path) -> str:
    return path.relative_to(DOCS).as_posix()


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("demo") / "demo"
    assert CliRunner().invoke(cli, ["demo", str(folder)]).exit_code == 0
    return folder


@pytest.mark.lasts("runs all commands of a page")
@pytest.mark.parametrize("page", RUN, ids=name_of)
def test_examples__of_a_page__run_and_print_what_it_says(
    page: Path, demo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(demo, tmp_path / "demo")
    monkeypatch.chdir(tmp_path / "demo")
    monkeypatch.syspath_prepend(tmp_path / "demo")
    session = Session()
    for block in blocks(TEXTS[page]):
        if block.runs_here:
            found = session.run(block)
            assert found == block.text, f"{page}:{block.line}: {AGAIN}"


@pytest.mark.parametrize("page", TEXTS, ids=name_of)
def test_fenced_blocks__are_examples_or_directives(page: Path) -> None:
    """A block without a language would never run."""
    text = TEXTS[page]
    for block in blocks(text):
        text = text.replace(f"```{block.language}\n{block.text}```", "")
    text = re.sub(r"^```\{[\w-]+\}.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    assert "```" not in text
    marked = sum(block.mark is not None for block in blocks(TEXTS[page]))
    assert len(re.findall("<!-- (?:not run|run by|run with):", text)) == marked


#: Phrases that readers have to read twice.
HARD = re.compile(
    r"\b(?:found out|puts? right|told|tells|all the same|what it comes to|that which|whatever"
    r"|no less than|nevertheless|what else|what to mind|at hand|hands (?:over|no)|comes? of"
    r"|takes? (?:rows|groups) for|plays? two parts|say the same thing|is no help|of whom|cut alike"
    r"|however (?:few|many|long)|and the like|in silence|so ha(?:s|ve) the|done again|shall"
    r"|groups being|stands? (?:alone|below|beside)|to bits? the same)\b|, of which\b",
    re.IGNORECASE,
)
#: Phrases quoted there as bad examples, or names that were replaced.
QUOTED = re.compile(r"`[^`\n]*`|\"[^\"\n]*\"")
OTHER_TEXTS = [
    *(
        ROOT / name
        for name in (
            *("README.md", "CHANGELOG.md", "ARCHITECTURE.md", "SECURITY.md"),
            *("CODE_OF_CONDUCT.md", "THIRD_PARTY.md"),
        )
    ),
    *sorted((ROOT / "fastrank_eval").rglob("*.html")),
    *sorted((ROOT / "fastrank_eval").rglob("*.toml")),
]
MODULES = sorted([*(ROOT / "fastrank_eval").rglob("*.py"), *DOCS.glob("_ext/*.py")])


@pytest.mark.parametrize("page", [*TEXTS, *OTHER_TEXTS], ids=lambda page: page.name)
def test_sentences__have_no_hard_phrases(page: Path) -> None:
    if page.name != "parity.md":  # written by the conformance tests
        text = QUOTED.sub("", page.read_text(encoding="utf-8"))
        assert [match[0] for match in HARD.finditer(text)] == []


def test_help_docstrings_and_errors__have_no_hard_phrases() -> None:
    """Help of the command line and errors are string constants of the package."""
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {match[0]}"
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        for match in HARD.finditer(node.value)
    ]
    assert found == []


#: Blocks that no test runs; raise it only for a block that cannot be run anywhere.
MOST_NOT_RUN = 24


def test_marks__name_tests_that_exist_and_stay_few() -> None:
    named = {
        block.reason
        for text in TEXTS.values()
        for block in blocks(text)
        if block.mark == "run by" and block.reason
    }
    assert [path for path in named if not (ROOT / path).exists()] == []
    number, _ = counts()
    assert number["not run"] <= MOST_NOT_RUN


def test_python_pages__have_every_public_name() -> None:
    """Measures have pages of their own."""
    listed = "".join(path.read_text(encoding="utf-8") for path in DOCS.glob("reference/api/*.md"))
    measures = {*fastrank_eval.measures.MEASURES, *fastrank_eval._ALIASES}
    names = set(fastrank_eval.__all__) - measures - {"__version__"}
    assert {name for name in names if f"fastrank_eval.{name}\n" not in listed} == set()
