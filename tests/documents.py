"""Run the examples of the documentation; ``python -m tests.documents`` writes their outputs anew.

With ``--count`` it prints how many are run, and which are not.

An example is a fenced block of a page in ``docs/``:

* ``python``: statements, or a session with ``>>>``, in one namespace for the page;
* ``bash``: commands, in a folder with the files of ``fastrank-eval demo``. They end with the exit
  code of a comment ``# exit code 3``, else with 0;
* ``text`` after ``bash``: what the commands print. Times and speeds may differ;
* ``toml``, ``json``: valid; ``sql``: a query of ``month/history.db``.

A line ```FILE`:`` before a block writes it to this file. A comment before a block marks it:

* ``<!-- run with: lightgbm -->``: it runs where this package is installed, in `make conformance`;
* ``<!-- run by: tests/... -->``: this test runs it;
* ``<!-- not run: REASON -->``: nothing runs it.
"""

from __future__ import annotations

import contextlib
import doctest
import json
import os
import re
import shlex
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
from click.testing import CliRunner

from fastrank_eval.apps.cli.main import cli

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
#: Written when the documentation is built.
GENERATED = ("reference/measures/", "reference/profiles.md")

_BLOCK = re.compile(
    r"^(?:`(?P<file>[\w./-]+)`:\n\n)?"
    r"(?:<!-- (?P<mark>run by|run with|not run): (?P<reason>.+?) -->\n\n?)?"
    r"```(?P<language>\w+)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
#: Parts of an output that differ from run to run.
_VARYING = re.compile(r"[\d.,]+ m?s, [\d.,]+ M?rows/s|\d+\.\d+ s\b")
_FIRST_RUN = re.compile(r"\s*\(first run:[^)]*\)")
#: Nights of the demo may lie ahead.
_NOT_OVER = re.compile(r"\s*the night is not over: .*")
_FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@dataclass(frozen=True)
class Block:
    """A fenced block, with the place of its text in the page."""

    language: str
    text: str
    start: int
    line: int
    file: str | None
    mark: str | None
    reason: str | None
    follows: bool
    """Whether only blanks stand between it and the block before."""

    @property
    def runs_here(self) -> bool:
        if self.mark == "run with":
            return find_spec(str(self.reason)) is not None
        return self.mark is None


def pages() -> list[Path]:
    return [
        path
        for path in sorted(DOCS.rglob("*.md"))
        if not path.relative_to(DOCS).as_posix().startswith(GENERATED)
    ]


def blocks(text: str) -> Iterator[Block]:
    end = 0
    for match in _BLOCK.finditer(text):
        start = match.start("text")
        yield Block(
            language=match["language"],
            text=match["text"],
            start=start,
            line=text.count("\n", 0, start) + 1,
            file=match["file"],
            mark=match["mark"],
            reason=match["reason"],
            follows=not text[end : match.start()].strip(),
        )
        end = match.end()


class Session:
    """The examples of a page, run in their order in the current folder."""

    def __init__(self) -> None:
        self.names: dict[str, Any] = {"__name__": "__main__"}
        self.output: str | None = None

    def run(self, block: Block) -> str:
        """Run a block, and return it with the outputs that it has; raise if it fails."""
        printed, self.output = self.output, None
        if block.file is not None:
            Path(block.file).parent.mkdir(parents=True, exist_ok=True)
            Path(block.file).write_text(block.text, encoding="utf-8")
        if block.language == "python" and block.file is None:
            return self._session(block.text) if ">>> " in block.text else self._script(block)
        if block.language == "bash":
            self.output = shell(block.text)
        elif block.language == "text":
            assert block.follows, "text must follow the commands that print it, or be marked"
            assert printed is not None, "the block before prints nothing"
            return block.text if steady(printed) == steady(block.text) else printed
        elif block.language == "toml":
            tomllib.loads(block.text)
        elif block.language == "json":
            json.loads(block.text)
        elif block.language == "sql":
            with contextlib.closing(sqlite3.connect("month/history.db")) as history:
                for query in block.text.split(";"):
                    history.execute(query)
        else:
            assert block.file is not None, f"blocks of {block.language} are not run: mark it"
        return block.text

    def _script(self, block: Block) -> str:
        exec(compile(block.text, f"line {block.line}", "exec"), self.names)  # noqa: S102
        return block.text

    def _session(self, text: str) -> str:
        test = doctest.DocTestParser().get_doctest(text, self.names, "page", None, 0)
        runner = _Recorder()
        runner.run(test, out=lambda _: None, clear_globs=False)
        self.names.update(test.globs)
        lines = text.splitlines(keepends=True)
        for example, got in reversed(runner.different):
            first = example.lineno + example.source.count("\n")
            lines[first : first + example.want.count("\n")] = [wanted(got)]
        return "".join(lines)


class _Recorder(doctest.DocTestRunner):
    def __init__(self) -> None:
        super().__init__(optionflags=_FLAGS)
        self.different: list[tuple[doctest.Example, str]] = []

    def report_failure(self, out: Any, test: Any, example: doctest.Example, got: str) -> None:
        self.different.append((example, got))

    def report_unexpected_exception(
        self, out: Any, test: Any, example: doctest.Example, exc_info: Any
    ) -> None:
        raise exc_info[1]


def steady(text: str) -> list[str]:
    """The words of an output, without what differs from run to run."""
    return _FIRST_RUN.sub("", _VARYING.sub("#", _NOT_OVER.sub("", text))).split()


def shell(text: str) -> str:
    """Run commands; return what they print to either stream."""
    expected = re.search(r"# exit code (\d+)", text)
    code = int(expected[1]) if expected else 0
    words = _plain_command(text)
    if words is not None:
        outcome = CliRunner().invoke(cli, words)
        if outcome.exception is not None and not isinstance(outcome.exception, SystemExit):
            raise outcome.exception
        printed, ended = outcome.output, outcome.exit_code
    else:
        path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
        source = os.pathsep.join((str(ROOT), os.environ.get("PYTHONPATH", "")))
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", text],
            env={**os.environ, "PATH": path, "PYTHONPATH": source},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        printed, ended = done.stdout, done.returncode
    assert ended == code, f"exit code {ended}:\n{printed}"
    return stripped(printed)


def wanted(text: str) -> str:
    """The output of a line of Python as doctest wants it."""
    lines = stripped(text).rstrip("\n").split("\n")
    return "".join(f"{line or '<BLANKLINE>'}\n" for line in lines) if text.strip() else ""


def stripped(text: str) -> str:
    """The text without blanks at the ends of lines."""
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines())


def _plain_command(text: str) -> list[str] | None:
    """The arguments of a single command of ours that needs no shell, or None."""
    text = re.sub(r"\s#.*", "", text.replace("\\\n", " ")).strip()
    if "\n" in text or not text.startswith("fastrank-eval "):
        return None
    lexer = shlex.shlex(text, posix=True, punctuation_chars="|&;<>$`")
    lexer.whitespace_split = True
    words = list(lexer)
    return None if any(set(word) <= set("|&;<>") for word in words) or "$" in text else words[1:]


def counts() -> tuple[Counter[str], list[str]]:
    """How many blocks are run, run by other tests and not run, and the reasons of the last."""
    number: Counter[str] = Counter()
    reasons = []
    for page in pages():
        for block in blocks(page.read_text(encoding="utf-8")):
            number[block.mark or "run"] += 1
            if block.mark == "not run":
                reasons.append(f"{page.relative_to(ROOT)}:{block.line}: {block.reason}")
    return number, reasons


def counted(number: Counter[str]) -> str:
    elsewhere = number["run by"] + number["run with"]
    return (
        f"{number['run']} examples run, {elsewhere} run by other tests, {number['not run']} not run"
    )


def main(names: list[str]) -> None:
    """Write the outputs of pages anew, of all if none is named, or print the counts."""
    if names == ["--count"]:
        number, reasons = counts()
        click.echo(counted(number))
        click.echo("".join(f"  {reason}\n" for reason in reasons), nl=False)
        return
    with tempfile.TemporaryDirectory() as folder:
        demo = Path(folder, "demo")
        subprocess.run([sys.executable, "-m", "fastrank_eval", "demo", demo], check=True)
        for page in [Path(name).resolve() for name in names] or pages():
            text = page.read_text(encoding="utf-8")
            there = Path(folder, "page")
            shutil.copytree(demo, there)
            session, shift = Session(), 0
            with contextlib.chdir(there):
                for block in blocks(text):
                    if block.runs_here:
                        click.echo(f"{page.relative_to(ROOT)}:{block.line}")
                        new = session.run(block)
                        at = block.start + shift
                        text = text[:at] + new + text[at + len(block.text) :]
                        shift += len(new) - len(block.text)
            page.write_text(text, encoding="utf-8")
            shutil.rmtree(there)


if __name__ == "__main__":
    main(sys.argv[1:])
