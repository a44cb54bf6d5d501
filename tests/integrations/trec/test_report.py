"""What trec_eval prints, line for line, and the options it takes."""

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from fastrank_eval import nDCG
from fastrank_eval.integrations.trec.measures import report_lines
from fastrank_eval.trec import read_qrels, read_run, trec_report
from tests.support import commands
from tests.support.commands import output
from tests.support.transcripts import Case, cases

pytestmark = pytest.mark.kernels

RUN = b"""q2 Q0 d1 1 0.5 ours
q2 Q0 d2 2 0.5 ours
q2 Q0 d3 3 0.25 ours
q10 Q0 d1 1 3 ours
q10 Q0 d4 2 2 ours
q10 Q0 d9 3 1 ours
q10 Q0 d2 4 0 ours
q7 Q0 d1 1 1 ours
"""
QRELS = b"""q2 0 d1 1
q2 0 d2 0
q10 0 d2 2
q10 0 d4 12
q10 0 d5 1
q10 0 d1 -1
q3 0 d1 1
"""


def report(run: bytes = RUN, qrels: bytes = QRELS, **options):
    return trec_report(read_qrels(qrels), read_run(run), **{"version": 9, **options})


def summary(**options) -> dict[str, object]:
    return report(**options).document()["queries"]["all"]


def lines_of(requests) -> list[str]:
    return [line.name for line in report_lines(requests, 10)]


def alike(ours: str, theirs: str) -> bool:
    """Whether two names have the same values, alone and beside each other."""
    options = {"version": 10, "complete": True}
    both = report(measures=[ours, theirs], **options).to_text(single=True).splitlines()
    alone = [report(measures=[m], **options).to_text(single=True) for m in (ours, theirs)]
    values = [[line.split("\t")[1:] for line in text.splitlines()] for text in alone]
    names = {line.split("\t")[0].strip() for line in both}
    return values[0] == values[1] and names == {*lines_of(ours), *lines_of(theirs)}


def printed(words: str) -> str:
    """What the command prints."""
    return output("trec", *words.split())


@pytest.fixture
def folder(own_folder: Path) -> Path:
    """A folder with a run of one tag, one of another, and runs of two queries."""
    Path("ours.run").write_bytes(RUN)
    Path("other.run.gz").write_bytes(gzip.compress(RUN.replace(b"ours", b"other")))
    Path("qrels").write_bytes(QRELS)
    Path("two.qrels").write_text("q1 0 d1 1\nq1 0 d2 0\nq2 0 d1 1\nq2 0 d3 0\n")
    good = "q1 Q0 d1 1 2 good_\nq1 Q0 d2 2 1 good_\n"
    Path("short").write_text(good)
    Path("good").write_text(f"{good}q2 Q0 d1 1 2 good_\nq2 Q0 d3 2 1 good_\n")
    bad = "q1 Q0 d2 1 2 b|d\nq1 Q0 d1 2 1 b|d\nq2 Q0 d1 1 2 b|d\nq2 Q0 d3 2 1 b|d\n"
    Path("bad").write_text(bad)
    return own_folder


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("case", cases("trec_reports"), ids=lambda case: ascii(str(case)))
def test_report_and_command__print_what_is_told(case: Case) -> None:
    case.check(case.answer({**globals(), "nDCG": nDCG}))


@pytest.mark.parametrize("version,suffix", [(10, ""), (9, ".v9.0.4")])
@pytest.mark.parametrize(
    "arguments,name",
    [((), "out.test"), (("-m", "all_trec"), "out.test.a"), (("-qm", "all_trec"), "out.test.aq")],
)
def test_its_own_test__comes_out_identical(shared_data, version, suffix, arguments, name):
    folder = shared_data / "trec_eval"
    files = [str(folder / "qrels.test"), str(folder / "results.test")]
    assert (
        output("trec", *arguments, "--as", str(version), *files)
        == (folder / f"{name}{suffix}").read_text()
    )


@pytest.mark.parametrize("root", ["ndcg", "ndcg_rel", "Rndcg", "G"])
def test_gains__of_some_grades__the_others_gain_their_grade(root):
    run = {"q": {"a": 4.0, "b": 3.0, "c": 2.0, "d": 1.0, "e": 0.5}}
    qrels = {"q": {"a": 1, "b": 5, "c": 2, "d": 0, "e": -1, "f": 3}}
    gained = {"q": {"a": 3, "b": 5, "c": 9, "d": 0, "e": -1, "f": 3}}
    found = trec_report(qrels, run, measures=[f"{root}.1=3,2=9,7=0.5"])
    assert found.document()["queries"]["all"] == {
        f"{root}_1=3,2=9,7=0.5": trec_report(gained, run, measures=[root]).summary[0]
    }


@pytest.mark.usefixtures("own_folder")
def test_command__self_hits_and_first_documents_left_out():
    Path("run").write_text("q1 Q0 q1 1 3 x\nq1 Q0 d2 2 2 x\nq1 Q0 d1 3 1 x\n")
    Path("qrels").write_text("q1 0 d1 1\n")
    for words, value in (
        ((), "0.3333"), (("--drop-self",), "0.5000"), (("--drop-self", "--skip-first"), "1.0000"),
    ):  # fmt: skip
        text = output("trec", *words, "-m", "recip_rank", "qrels", "run")
        assert text.splitlines()[-1] == f"recip_rank            \tall\t{value}"
    table = output("trec", "--drop-self", "--skip-first", "-f", "table", "qrels", "run")
    assert "drop_self, skip_first" in table


def test_command__columns_and_programs(folder):
    parquet.write_table(read_run(RUN), "ours.parquet")
    parquet.write_table(read_qrels(QRELS), "qrels.parquet")
    arguments = ("--as", "9", "-q", "-m", "all_trec")
    text = output("trec", *arguments, "qrels", "ours.run")
    assert output("trec", *arguments, "qrels.parquet", "ours.parquet") == text
    told = json.loads(output("trec", *arguments, "-f", "json", "qrels", "ours.run"))
    sheet = output(
        "trec", *arguments, "-f", "csv", "qrels", "ours.run", "other.run.gz"
    ).splitlines()
    assert sheet[0] == "run,measure,query,value"
    assert len(sheet) == 1 + 2 * len(text.splitlines())
    assert told[0]["run"] == "ours"
    assert told[0]["queries"]["q2"]["recip_rank"] == 0.5
    assert told[0]["queries"]["all"]["num_ret"] == 7


@pytest.mark.parametrize("sign", [",", "\t"])
@pytest.mark.usefixtures("folder")
def test_command__tables_with_columns_of_any_name(sign):
    def write(name: str, table: pa.Table, names: list[str]) -> str:
        rows = [names, *(map(str, list(row.values())[:3]) for row in table.to_pylist())]
        path = Path(f"{name}.{'csv' if sign == ',' else 'tsv'}")
        path.write_text("".join(sign.join(row) + "\n" for row in rows))
        return path.name

    run, qrels = read_run(RUN), read_qrels(QRELS)
    odd = ("--query", "topic", "--doc", "id", "--grade", "rel", "--score", "sim")
    files = {
        (): (["qid", "docno", "label"], ["qid", "docno", "score"]),
        odd: (["topic", "id", "rel"], ["topic", "id", "sim"]),
    }
    arguments = ("--as", "9", "-q", "-m", "map,num_ret")
    wanted = output("trec", *arguments, "qrels", "ours.run")
    for options, (of_qrels, of_run) in files.items():
        names = write("judged", qrels, of_qrels), write("ranked", run, of_run)
        assert output("trec", *arguments, *options, *names) == wanted
        assert output("trec", *arguments, *options, "qrels", names[1]) == wanted
    assert "tpic" in commands.refusal("trec", *arguments, "--query", "tpic", *names)
