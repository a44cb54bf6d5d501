"""How a command asks for slices: ``--by`` as often as needed, ``--min-groups`` once."""

from __future__ import annotations

from typing import Any

import click
import pytest
from click.testing import CliRunner

from fastrank_eval.apps.cli.options import slice_options
from fastrank_eval.apps.cli.shell import SectionedCommand
from fastrank_eval.slicing.spec import requested_slicing


@click.command(cls=SectionedCommand)
@slice_options
def command(**given: Any) -> None:
    """Print what was asked for."""
    specs = requested_slicing(given["by"]) if given["by"] else ()
    click.echo(f"{[str(spec) for spec in specs]} {given['min_groups']}")


@pytest.mark.parametrize(
    "arguments, said",
    [
        ([], "[] 1"),
        (["--by", "slot"], "['slot'] 1"),
        (
            ["--by", "slot,country", "--by", "age:18,25,slot", "--min-groups", "30"],
            "['slot,country', 'age:18,25,slot'] 30",
        ),
    ],
)
def test_slices_are_asked_for_one_option_each(arguments: list[str], said: str) -> None:
    result = CliRunner().invoke(command, arguments)
    assert (result.exit_code, result.output.strip()) == (0, said)


def test_a_least_number_of_groups_is_at_least_one() -> None:
    result = CliRunner().invoke(command, ["--min-groups", "0"])
    assert result.exit_code == 2
    assert "--min-groups" in result.output


def test_help_lists_them_under_a_heading_of_their_own() -> None:
    text = CliRunner().invoke(command, ["--help"]).output
    assert text.index("Slices") < text.index("--by SLICES") < text.index("--min-groups N")
