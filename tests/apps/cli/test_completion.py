"""Completion of the command line by a shell."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from click.shell_completion import BashComplete
from pyarrow import parquet

from fastrank_eval.apps.cli.main import cli
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


@pytest.fixture
def log(tmp_path: Path) -> str:
    """A folder of partitions, as a shell writes its name."""
    table = pa.table({name: [1] for name in ("click", "cart", "score_a", "a b", "a,b", "a=b")})
    (tmp_path / "log" / "day=1").mkdir(parents=True)
    parquet.write_table(table, tmp_path / "log" / "day=1" / "part.parquet")
    (tmp_path / "log.csv").write_text("click,score\n1,0.5\n")
    (tmp_path / "log.empty").write_text("")
    return str(tmp_path / "log")


@pytest.mark.parametrize(
    "words,wanted",
    [
        (["ev"], ["evaluate"]),
        (["evaluate", "--weight-r"], ["--weight-rows"]),
        (["evaluate", "--profile", "trec_eval_1"], ["trec_eval_10"]),
        (["evaluate", "log", "-m", "gau"], ["GAUC"]),
        (["evaluate", "log", "-m", ""], list(registry)),
        (["trec", "-m", "ndcgr"], ["nDCGrel"]),
        (["measures", "logl"], ["LogLoss"]),
        (["evaluate", "log", "--output", "re"], ["file"]),
        (["trec", "qr"], ["file"]),
        (["merge", "a"], ["file"]),
        (["serve", "hi"], ["file"]),
        (["demo", "de"], ["file"]),
        (["evaluate", "LOG", "--label", "c"], ["click", "cart"]),
        (["evaluate", "LOG", "-l", "click,ca"], ["click,cart"]),
        (["compare", "LOG", "-l", "click", "-g", "d"], ["day"]),
        (["evaluate", "LOG", "-s", "a"], ["a b", "a\\,b", "a\\=b"]),
        (["evaluate", "LOG", "-s", "both = click * (sc"], ["both = click * (score_a"]),
        (["evaluate", "LOG", "-s", "both = a"], []),
        (["evaluate", "LOG", "--by", "day,"], ["day,click", "day,cart", "day,score_a",
                                               'day,"a b"', 'day,"a,b"', 'day,"a=b"', "day,day"]),
        (["threshold", "LOG", "-l", "cl"], ["click"]),
        (["threshold", "LOG", "--by", "c"], ["closest", "cost"]),
        (["classes", "LOG", "-l", "x=cl"], ["x=click"]),
        (["evaluate", "LOG/none", "-l", "c"], []),
        (["evaluate", "LOG.csv", "-l", "c"], []),
        (["evaluate", "LOG.empty", "-l", "c"], []),
        (["evaluate", "s3://none/log", "-l", "c"], []),
        (["evaluate", "-l", "c"], []),
    ],
)  # fmt: skip
def test_words__are_completed(log: str, words: list[str], wanted: list[str]) -> None:
    *before, last = [word.replace("LOG", log) for word in words]
    completion = BashComplete(cli, {}, "fastrank-eval", "_FASTRANK_EVAL_COMPLETE")
    found = completion.get_completions(before, last)
    assert [item.value if item.type == "plain" else item.type for item in found] == wanted


@pytest.mark.parametrize(
    "words,wanted",
    [
        (["evaluate", "LOG", "-m", "GAUC,gau"], ["GAUC,GAUC"]),
        (["evaluate", "LOG", "-l", "cl"], ["click"]),
        (["evaluate", "lo"], ["compopt -o default", ""]),
        (["evaluate", "LOG", "-m", "GAUC,RelaI"], [""]),
    ],
)
def test_bash__completes(folder: Path, log: str, words: list[str], wanted: list[str]) -> None:
    script, words = f"{LINES['bash']}\n{_TAB}", [word.replace("LOG", log) for word in words]
    found = run_in("bash", folder, script, "fastrank-eval", *words).split("\n")[:-1]
    assert found == wanted


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
