"""What commands refuse: one line, exit code 2, options in place of arguments of Python."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from tests.support.commands import ROWS, refusal
from tests.support.nightly_runs import CONFIG
from tests.support.transcripts import Case, cases


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log, and sources that are wrong."""
    folder = tmp_path_factory.mktemp("sources")
    table = pa.table(ROWS)
    parquet.write_table(table, folder / "log.parquet")
    content = (folder / "log.parquet").read_bytes()
    (folder / "torn.parquet").write_bytes(content[:-9])
    parquet.write_table(table.slice(0, 0), folder / "empty.parquet")
    parquet.write_table(pa.concat_tables([table, table.slice(0, 1)]), folder / "returns.parquet")
    unscored = {**ROWS, "pctr": [0.9, None, 0.1, 0.8, 0.7, 0.3]}
    parquet.write_table(pa.table(unscored), folder / "unscored.parquet")
    for number, end in enumerate(("", "\r\n", "\r")):
        (folder / f"header{number}.csv").write_bytes(b"user,click,pctr" + end.encode())
    (folder / "short.csv").write_text("user,click,pctr\n1,1,0.5\n1,0\n")
    (folder / "nightly.toml").write_text(CONFIG)
    (folder / "folder").mkdir()
    for name in ("unknown", "folder/unknown"):
        (folder / name).write_text("whatever this is")
    return folder


def answer(words: str) -> list[str]:
    """Return the one line that a command prints for these words."""
    words = words.removeprefix("$ ").replace("LOG", "log.parquet COLUMNS", 1)
    return [refusal(*shlex.split(words.replace("COLUMNS", "-g user -l click -s pctr")))]


@pytest.mark.parametrize("case", cases("refusals"), ids=lambda case: ascii(str(case)))
def test_command__with_what_it_cannot_take__says_so_in_one_line(
    sources: Path, monkeypatch: pytest.MonkeyPatch, case: Case
) -> None:
    monkeypatch.chdir(sources)
    before = sorted(Path().rglob("*"))
    (line,) = found = answer(*case.given)
    assert set(re.findall(r"(\w+)=(?:True|'|\.\.\.)", line)) <= {"se"}
    assert sorted(Path().rglob("*")) == before
    case.check(found)


@pytest.mark.parametrize("option", ["--by", "-g", "--where", "-m", "--memory"])
def test_argument__that_is_no_utf8__is_refused_in_one_line(
    sources: Path, monkeypatch: pytest.MonkeyPatch, option: str
) -> None:
    monkeypatch.chdir(sources)
    answer(f"evaluate LOG {option} \"user = '\udcff'\"")
