"""Commands in this process, the log that most of them read, and what a terminal shows."""

from __future__ import annotations

import io
import json
from typing import Any

from click.testing import CliRunner, Result
from rich.console import Console

from fastrank_eval.apps.cli.main import cli

COLUMNS = ["--group", "user", "--label", "click", "--score", "pctr"]
ROWS = {
    "user": [1, 1, 1, 2, 2, 3],
    "click": [1, 0, 0, 0, 1, 0],
    "pctr": [0.9, 0.5, 0.1, 0.8, 0.7, 0.3],
    "other": [0.1, 0.5, 0.9, 0.7, 0.8, 0.3],
}


def run(*arguments: str, **keywords: Any) -> Result:
    """Run a command; what it raises that is no error of ours is raised here."""
    return CliRunner().invoke(cli, arguments, catch_exceptions=False, **keywords)


def output(*arguments: str, **keywords: Any) -> str:
    """What a command that is done prints."""
    outcome = run(*arguments, **keywords)
    assert outcome.exit_code == 0, outcome.output
    return outcome.stdout


def refusal(*arguments: str, **keywords: Any) -> str:
    """The one line of a command that refuses its input; bad usage has Click's lines before it."""
    outcome = run(*arguments, **keywords)
    assert (outcome.exit_code, outcome.stdout) == (2, ""), outcome.output
    *usage, line = outcome.stderr.splitlines()
    assert not usage or usage[0].startswith("Usage: ")
    assert line.lower().startswith("error: ")
    return line


def document(*arguments: str, **keywords: Any) -> Any:
    """The JSON that a command prints."""
    return json.loads(output(*arguments, "--format", "json", **keywords))


def on_terminal(shown: Any, width: int, **options: Any) -> str:
    """What a terminal of a width shows."""
    console = Console(file=io.StringIO(), width=width, **options)
    console.print(shown)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()
