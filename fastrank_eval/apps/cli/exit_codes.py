"""Define the exit codes of all commands, with their meaning."""

from __future__ import annotations

from enum import IntEnum
from typing import Self


class ExitCode(IntEnum):
    """An exit code of ``fastrank-eval``.

    The documentation writes its table from the members.

    Attributes
    ----------
    brief : str
        The meaning in a few words, for ``--help``.
    meaning : str
        The meaning in full, as Markdown.
    remedy : str
        What to do, as Markdown.
    commands : tuple of str
        The commands that end with it; empty for all.
    """

    brief: str
    meaning: str
    remedy: str
    commands: tuple[str, ...]

    DONE = (
        *(0, "done"),
        "done. `nightly`: each night is `fine`, `changed` or `provisional`. `serve`: Ctrl-C",
        "nothing",
    )
    SYSTEM = (
        *(1, "out of memory or another limit of the system"),
        "memory, addresses or threads are exhausted; or a fault of this program, with a traceback",
        "raise the limit, name `--memory`; report a traceback",
    )
    BAD_INPUT = (
        *(2, "bad input, arguments or output"),
        "bad input, arguments or output; or no rows. `nightly`: nothing of this night was stored",
        "read standard error, which names the argument and the remedy",
    )
    GATE_FAILED = (
        *(3, "a gate failed"),
        "a gate failed. `nightly`: the status is `regression`, because a gate failed, an alarm was "
        "raised, a model gives too few distinct scores, or scores or columns drifted",
        "look at the model",
        ("compare", "evaluate", "merge", "nightly"),
    )
    DATA_QUALITY = (
        *(4, "the rows did not pass the checks"),
        "the status is `data_quality`: the rows violate a limit of `[quality]`",
        "look at the data: numbers of such rows say nothing about the models",
        ("nightly",),
    )
    NOT_SHOWN = (
        *(5, "stored, but not all pages and output were written"),
        "the nights are fine and stored, but a page, the summary or a line of output could not be "
        "written",
        "remove the cause that standard error names, and run the night again",
        ("nightly",),
    )
    HUNG_UP = (129, "hung up", "the terminal was closed (SIGHUP)", "run it again")
    INTERRUPTED = (130, "interrupted", "Ctrl-C (SIGINT)", "run it again")
    PIPE_CLOSED = (
        *(141, "the reader of the output has gone"),
        "the reader of standard output has gone, as `head` does",
        "nothing, if that was meant",
    )
    TERMINATED = (
        *(143, "terminated"),
        "ended by a program, such as a scheduler with a time limit (SIGTERM)",
        "raise the time limit, or run it again",
    )

    def __new__(
        cls, code: int, brief: str, meaning: str, remedy: str, commands: tuple[str, ...] = ()
    ) -> Self:
        """Make a member from its number and its texts."""
        member = int.__new__(cls, code)
        member._value_ = code
        member.brief, member.meaning, member.remedy = brief, meaning, remedy
        member.commands = commands
        return member


#: A run of several nights ends with the first of these that a night has.
_NIGHTS = (
    ExitCode.BAD_INPUT,
    ExitCode.DATA_QUALITY,
    ExitCode.GATE_FAILED,
    ExitCode.NOT_SHOWN,
    ExitCode.DONE,
)


def worst(codes: set[ExitCode]) -> ExitCode:
    """Return the exit code of several nights.

    Examples
    --------
    >>> worst({ExitCode.DONE, ExitCode.GATE_FAILED, ExitCode.DATA_QUALITY}).name
    'DATA_QUALITY'
    """
    return next((code for code in _NIGHTS if code in codes), ExitCode.DONE)


def codes_of(command: str) -> list[ExitCode]:
    """List the exit codes of a command."""
    return [code for code in ExitCode if not code.commands or command in code.commands]


def help_text(command: str) -> str:
    """Write the exit codes of a command for its ``--help``.

    Examples
    --------
    >>> print(help_text("trec")[:38])
    Exit codes: 0 done; 1 out of memory or
    """
    return "Exit codes: " + "; ".join(f"{code} {code.brief}" for code in codes_of(command)) + "."
