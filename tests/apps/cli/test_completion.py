"""Completion of the command line by a shell."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fastrank_eval.measures import registry
from tests.documents import DOCS

pytestmark = pytest.mark.no_kernels

#: The line of each shell, as the documentation has it.
LINES = {
    match[2]: match[0]
    for match in re.finditer(
        r"^.*(_FASTRANK_EVAL_COMPLETE=(\w+)_source fastrank-eval).*$",
        (DOCS / "reference" / "command-line.md").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
}
#: Completes the words that follow, as bash does when its user presses the Tab key.
_TAB = """
compopt() { local IFS=" "; echo "compopt $*"; }
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
_fastrank_eval_completion fastrank-eval
printf "%s\\n" "${COMPREPLY[@]}"
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bin")
    script = folder / "fastrank-eval"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m fastrank_eval "$@"\n')
    script.chmod(0o755)
    return folder


def run_in(shell: str, folder: Path, script: str, *words: str) -> str:
    path = shutil.which(shell)
    if path is None:
        pytest.skip(f"no {shell} here")
    names = {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        [path, "-c", script, shell, *words],
        env={**os.environ, **names},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout


@pytest.mark.parametrize(
    "words,wanted",
    [
        (["ev"], ["evaluate"]),
        (["evaluate", "--pres"], ["--presorted"]),
        (["evaluate", "--profile", "trec_eval_1"], ["trec_eval_10"]),
        (["evaluate", "log", "-m", "gau"], ["GAUC"]),
        (["evaluate", "log", "-m", "GAUC,RelaI"], [""]),
        (["evaluate", "log", "-m", "GAUC,gau"], ["GAUC,GAUC"]),
        (["trec", "-m", "ndcgr"], ["nDCGrel"]),
        (["measures", "logl"], ["LogLoss"]),
        (["evaluate", "lo"], ["compopt -o default", ""]),
        (["evaluate", "log", "--output", "re"], ["compopt -o default", ""]),
        (["trec", "qr"], ["compopt -o default", ""]),
        (["merge", "a"], ["compopt -o default", ""]),
        (["serve", "hi"], ["compopt -o default", ""]),
        (["demo", "de"], ["compopt -o default", ""]),
    ],
)
def test_bash__completes(folder: Path, words: list[str], wanted: list[str]) -> None:
    script = f"{LINES['bash']}\n{_TAB}"
    found = run_in("bash", folder, script, "fastrank-eval", *words).split("\n")[:-1]
    assert found == wanted


def test_bash__completes__names_of_all_measures(folder: Path) -> None:
    script = f"{LINES['bash']}\n{_TAB}"
    found = run_in("bash", folder, script, "fastrank-eval", "evaluate", "log", "-m", "")
    assert found.split() == list(registry)


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells__read_their_line(folder: Path, shell: str) -> None:
    """The function is defined; without their shell, its text is printed."""
    if shutil.which(shell) is None:
        text = run_in("sh", folder, f"_FASTRANK_EVAL_COMPLETE={shell}_source fastrank-eval")
        assert "_fastrank_eval_completion" in text
        assert f"_FASTRANK_EVAL_COMPLETE={shell}_source fastrank-eval" in LINES[shell]
    else:
        line = LINES[shell]
        before = "autoload -U compinit && compinit -D -u\n" if shell == "zsh" else ""
        found = run_in(shell, folder, f"{before}{line}\nfunctions _fastrank_eval_completion")
        assert "FASTRANK_EVAL_COMPLETE" in found
