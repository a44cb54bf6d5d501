"""What commands refuse: one line, exit code 2, options in place of arguments of Python."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from tests.support.commands import ROWS, refusal

#: Words of a command, where LOG is a log with its columns, and what its one line says.
WORDS = [
    # names and values
    ("evaluate log.parquet -g usr -l click -s pctr", "no column 'usr'.*'user'"),
    ("evaluate LOG -m GUAC", "GUAC.*GAUC"),
    ("evaluate LOG -m P@0", "P@0"),
    ("evaluate LOG -m ''", "--measures: must name at least one"),
    ("evaluate LOG -m \"GAUC(weight='nosuch')\"", "^(?!.*--weight)"),
    ("evaluate LOG -m MAPP", "--measures: must name measures"),
    ("evaluate LOG -m alpha_nDCG", "--subtopics: must be a column of lists"),
    ("evaluate LOG -m P -w pctr", "pass --weight-rows ignore"),
    ("evaluate LOG -m AP --undefined error", "--undefined skip, zero"),
    ("evaluate LOG --ties item", "item ids for --ties item"),
    ("evaluate LOG --ties exepcted", "'exepcted' is not one of"),
    ("evaluate LOG --threads 0", "^error: --threads: must be"),
    ("evaluate LOG --limit -1", "--limit"),
    ("evaluate LOG --by other --min-groups 0", "--min-groups: must"),
    ("evaluate LOG --bogus", "No such option:? '?--bogus"),
    ("evaluate log.parquet -g user -s pctr", "Missing option '-l' / '--label'"),
    ("evaluate -g user -l click -s pctr", "Missing argument 'SOURCES...'"),
    ("compare log.parquet -g user -s other -b pctr", "--label is missing"),
    # groups
    ("evaluate log.parquet -l click -s pctr", "GAUC, nDCG@10, AP, .* need groups: pass --group"),
    ("evaluate log.parquet -l click -s pctr -m GAUC", "--group: must name the key columns"),
    ("evaluate log.parquet -l click -s pctr -m AUC --per-group x.csv", "needs groups"),
    ("evaluate returns.parquet COLUMNS --order grouped", "comes back"),
    # conditions
    ("evaluate LOG --where 'usr = 1'", "where.*'usr'.*'user'"),
    ("evaluate LOG --where \"user = 'x'\"", "'user' is int64.*'x'"),
    ("evaluate LOG --where 'user =\n = 1'", "a literal at character 9"),
    ("evaluate LOG --where 'user = 99'", "--where: must select rows, got none by 'user = 99'"),
    # scores
    ("evaluate LOG -s a,,b", "a column name is empty"),
    ("evaluate LOG -s =pctr", "a score has no name before '='; write 'NAME = EXPRESSION'"),
    ("evaluate LOG -s x=pctr,x=other", "the score 'x' is there twice; name it once"),
    ("evaluate LOG -s pctr=pctr", "the score 'pctr' is there twice; name it once"),
    ("evaluate LOG -s x=", 'score x = "": expected a column'),
    ("evaluate LOG -s 'x=pctr *'", r'score x = "pctr \*": expected a column'),
    ("evaluate LOG -s x=pctr,,y=other", "a column name is empty"),
    ("evaluate LOG -s 'other=pctr * 2'", r"score: must have a new name for pctr \* 2, got 'other'"),
    ("evaluate LOG -s 'x=pctr == other'", "a column, a number or an operator at character 6"),
    # sources
    ("evaluate nosuch.parquet COLUMNS", "nosuch.parquet"),
    ("evaluate torn.parquet COLUMNS", "torn.parquet"),
    ("evaluate empty.parquet COLUMNS", "SOURCES: must have rows, got none; name a file with some."),
    ("evaluate header0.csv COLUMNS", "must have rows, got none"),
    ("evaluate header1.csv COLUMNS", "must have rows, got none"),
    ("evaluate header2.csv COLUMNS", "must have rows, got none"),
    ("evaluate short.csv COLUMNS", "Row #3: Expected 3 columns, got 2"),
    ("evaluate - log.parquet COLUMNS", "pass it alone"),
    ("evaluate unscored.parquet COLUMNS", "--unretrieved allow"),
    ("evaluate unknown COLUMNS", "--input-format"),
    ("evaluate folder COLUMNS", "--input-format"),
    # labels and states
    ("evaluate LOG -l click", "must name different columns, got 'click' more than once"),
    ("evaluate LOG -l other --save-state x.state",
     "--save-state: must be of one label, got click, other; name one by --label, or leave it out"),
    ("evaluate LOG --save-state -", "--save-state: must be a file, got '-'; name one."),
    ("evaluate LOG --keep-groups", "--save-state FILE"),
    # explain
    ("explain LOG", "explain needs the tool to compare with: --profile catboost."),
    ("explain LOG --profile catbost", "Did you mean 'catboost'?"),
    ("explain LOG --profile sklearn --undefined skip,nDC=one", "got 'nDC'. Did you mean 'nDCG'"),
    ("explain LOG --profile trec_eval_9", "--item: must be the column of item ids"),
    ("explain - COLUMNS --profile sklearn", "can be read only once"),
    # classes
    ("classes log.parquet -l click -s 0=p_cat,p_dog", "must be CLASS=COLUMN, got 'p_dog'"),
    ("classes log.parquet -l click -s 0=p_cat,0=p_dog", "names the class '0' twice"),
    ("classes log.parquet -l click -s 0=pctr,1=other -a most", "--average: must be one of"),
    # gates, before rows are read
    ("evaluate no.parquet COLUMNS --fail-if 'GACU < 1'",
     '^error: gate ".* at character 1, found GACU. Did you mean \'GAUC\'?'),
    ("evaluate no.parquet COLUMNS -m GAUC --fail-if 'RR < 1'",
     '^error: gate ".* RR is none of the measures GAUC. Add it to --measures.'),
    ("evaluate no.parquet COLUMNS --fail-if 'ptcr:GAUC < 1'",
     '^error: gate ".* \'ptcr\' .*Did you mean \'pctr\'. Add it to --score.'),
    ("evaluate LOG -s x=-pctr --fail-if 'y:GAUC < 1'", "^error: gate .*'y' is none of 'pctr', 'x'"),
    ("evaluate no.parquet -l click -s pctr -m AUC --fail-if 'groups < 4'",
     "it counts groups; name the key columns by --group."),
    ("compare no.parquet COLUMNS -s other -b pctr -m 'AUC(se=None)' "
     "--fail-if 'AUC(se=None) p_adjusted < 1'", "got p_adjusted of AUC, which has no"),
    ("compare no.parquet COLUMNS -s other -b pctr -m ECCE --fail-if 'ECCE p_adjusted < 1'",
     "got p_adjusted of ECCE, which has no"),
    # ... which a test or an error has
    ("compare no.parquet COLUMNS -s other -b pctr -m AUC --fail-if 'AUC p_value < 1'", "no.parq"),
    ("compare no.parquet COLUMNS -s other -b pctr -m LogLoss --fail-if 'LogLoss delta_ci_high < 0'",
     "no.parquet"),
    ("compare no.parquet COLUMNS -s other -b pctr -m GAUC --fail-if 'GAUC p_adjusted < 1' "
     "--test bootstrap", "no.parquet"),
    # bytes that are no UTF-8
    ("evaluate LOG --by a\udcff", ""),
    ("evaluate LOG -g u\udcff", ""),
    ("evaluate LOG --where \"user = '\udcff'\"", ""),
    ("evaluate LOG -m GA\udcff", ""),
    ("evaluate LOG --memory \udcff", ""),
]  # fmt: skip


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
    (folder / "folder").mkdir()
    for name in ("unknown", "folder/unknown"):
        (folder / name).write_text("whatever this is")
    return folder


@pytest.mark.parametrize("words, told", WORDS, ids=lambda text: ascii(text))
def test_command__with_what_it_cannot_take__says_so_in_one_line(
    sources: Path, monkeypatch: pytest.MonkeyPatch, words: str, told: str
) -> None:
    monkeypatch.chdir(sources)
    before = sorted(Path().rglob("*"))
    words = words.replace("LOG", "log.parquet COLUMNS", 1)
    line = refusal(*shlex.split(words.replace("COLUMNS", "-g user -l click -s pctr")))
    assert re.search(told, line), line
    assert not re.search(
        r"\w=(True|'|\.\.\.)", line.replace("per_group=True", "").replace("(se='", "")
    ), line
    assert sorted(Path().rglob("*")) == before
