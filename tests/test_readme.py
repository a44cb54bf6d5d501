"""README: its examples run and print what it says; its size, its names and its numbers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fastrank_eval.engine.conventions import PROFILES
from tests.documents import ROOT, Session, blocks

pytestmark = pytest.mark.no_kernels

README = ROOT / "README.md"
TEXT = README.read_text(encoding="utf-8")


def test_size__is_that_of_a_first_page() -> None:
    lines = TEXT.splitlines()
    assert len(lines) <= 150
    assert [line for line in lines if len(line) > 100] == []
    assert len(TEXT.split()) <= 1200


def test_examples__run_in_an_empty_folder_and_print_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    session, languages = Session(), []
    for block in blocks(TEXT):
        if block.runs_here:
            languages.append(block.language)
            again = "run `python -m tests.documents README.md` to write outputs anew"
            assert session.run(block) == block.text, f"line {block.line}: {again}"
    assert languages.count("bash") == 7
    assert {path.name for path in tmp_path.iterdir()} == {"demo"}
    assert (tmp_path / "demo" / "month" / "report" / "2026-11-19.html").exists()


def test_install__is_what_make_does_with_its_wheel() -> None:
    """`make release-check` installs the wheel in clean environments, and runs the demo from it."""
    start, block = [block for block in blocks(TEXT) if block.reason == "Makefile"]
    build, install = block.text.splitlines()
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for line in start.text.splitlines():
        assert f"\n{line.split()[1]}:" in makefile
    assert build == "make wheel"
    assert "\nwheel:" in makefile
    assert "-m build --no-isolation --outdir dist ." in makefile
    assert re.fullmatch(r'pip install --find-links dist "fastrank_eval\[[\w,]+\]"', install)
    assert "install --no-deps --no-index dist/*manylinux*.whl" in makefile
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    extras = re.findall(r"\[([\w,]+)\]", install)[0].split(",")
    assert [extra for extra in extras if f"\n{extra} = [" not in project] == []


#: What a profile says, as the table of tools writes it.
TIES = {
    "expected": "mean over orders",
    "item": "by document id",
    "input": "order of the rows",
    "worst": "worst order",
}
WITHOUT_RELEVANT = {
    "zero,GAUC=skip,AUC=skip": "0",
    "zero": "0",
    "one,GAUC=skip": "1",
    "zero,nDCG=one,R=one": "nDCG 1, others 0",
}


def test_tools__have_the_numbers_of_the_page_that_ran_them() -> None:
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in TEXT.splitlines()
        if line.startswith("| ") and re.search(r"\de-\d", line)
    ]
    page = (ROOT / "docs" / "reference" / "parity.md").read_text(encoding="utf-8")
    ran = re.findall(r"^\| `(\w+)` \| (.+?) \| (\d+) \| [\d,]+ \| (\S+) \|", page, re.MULTILINE)
    by_tool = {tool: (profile, measures, largest) for profile, tool, measures, largest in ran}
    assert len(rows) == 7
    for tool, measures, largest, ties, undefined in rows:
        profile, *numbers = by_tool[tool]
        assert [measures, largest] == numbers
        assert ties == TIES[PROFILES[profile].choices.get("ties", "expected")]
        policy = PROFILES[profile].choices.get("undefined", "skip")
        if tool.startswith("scikit-learn"):
            assert "nDCG=zero" in policy.split(",")
        else:
            assert undefined == WITHOUT_RELEVANT[policy]
    assert "All seventeen tools" in TEXT
    assert len(ran) == 17


def test_columns__are_those_of_the_demo() -> None:
    """Names of files and columns that the demo does not have stand nowhere."""
    files = [README, *ROOT.glob("docs/**/*.md"), *ROOT.glob("fastrank_eval/apps/cli/*.py")]
    files.append(ROOT / "fastrank_eval" / "__init__.py")
    wrong = re.compile(r"\b(pctr|ctr_old|model_a|model_b)\b")
    found = {file.name: set(wrong.findall(file.read_text(encoding="utf-8"))) for file in files}
    assert {name: words for name, words in found.items() if words} == {}


def test_links__to_files_of_the_repository__lead_somewhere() -> None:
    targets = re.findall(r"\]\(([^)#]+)\)", TEXT)
    assert [target for target in targets if not (ROOT / target).exists()] == []
    assert {"docs/notebook.png", "docs/nightly.png"} <= set(targets)
    sizes = [(ROOT / target).stat().st_size for target in targets if target.endswith(".png")]
    assert max(sizes) < 60_000
