"""What trec_eval prints, line for line, and the options it takes."""

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import Result
from pyarrow import parquet

from fastrank_eval import ArgumentError, MeasureError, nDCG
from fastrank_eval.integrations.trec.evaluate import report_lines
from fastrank_eval.trec import read_qrels, read_run, trec_report
from tests.support.commands import output, run

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


# ---- trec_eval's own outputs ---------------------------------------------------------------------


@pytest.mark.parametrize("version,suffix", [(10, ""), (9, ".v9.0.4")])
@pytest.mark.parametrize(
    "arguments,name",
    [((), "out.test"), (("-m", "all_trec"), "out.test.a"), (("-qm", "all_trec"), "out.test.aq")],
)
def test_its_own_test__comes_out_identical(shared_data, version, suffix, arguments, name):
    folder = shared_data / "trec_eval"
    files = [str(folder / "qrels.test"), str(folder / "results.test")]
    outcome = run_trec(*arguments, "--as", str(version), *files)
    assert outcome.stdout == (folder / f"{name}{suffix}").read_text()


# ---- queries -------------------------------------------------------------------------------------


def test_queries__of_both_files__in_order_of_their_bytes():
    found = report(measures=["num_q", "num_ret", "map"])
    assert found.queries == ("q10", "q2")
    assert summary(measures=["num_q", "num_ret"]) == {"num_q": 2, "num_ret": 7}


def test_judged_query_that_the_run_lacks():
    with pytest.raises(ArgumentError, match=r"must have every judged query.* lacks 1 of 3;"):
        report(version=10)
    ten = report(version=10, complete=True, measures=["num_q", "map"])
    assert ten.queries == ("q10", "q2", "q3"), "version 10 prints it"
    nine = report(complete=True, measures=["num_q", "map"])
    assert nine.queries == ("q10", "q2"), "version 9 counts it only"
    assert ten.summary == nine.summary
    assert nine.summary[0] == 3
    assert nine.summary[1] == pytest.approx(report(measures=["map"]).summary[0] * 2 / 3)


# ---- documents -----------------------------------------------------------------------------------


def test_tied_documents__rank_by_id_descending():
    found = report(measures=["relstring.2", "recip_rank"])
    assert found.by_query[found.queries.index("q2")] == (0.5, "'01'")


def test_relstring__a_sign_for_each_kind_of_grade():
    qrels = b"q 0 a 0\nq 0 b 9\nq 0 c 10\nq 0 d -1\nq 0 e -2\nq 0 f -3\n"
    run = b"".join(b"q Q0 %c 0 %d t\n" % (name, -i) for i, name in enumerate(b"abcdefg"))
    (values,) = report(run, qrels, measures=["relstring"]).by_query
    assert values == ("'09>...-'",), "a negative grade: in the pool, and not judged"
    text = report(run, qrels, measures=["relstring.3", "map"]).to_text(single=True)
    assert "relstring_3           \tq\t'09>'\n" in text
    assert text.count("relstring") == 1
    assert [line.name for line in report_lines(["relstring.10"])] == ["relstring_10"]


def test_level__is_the_least_relevant_grade():
    for level, wanted in ((1, 4), (2, 2), (12, 1), (13, 0)):
        assert summary(measures=["num_rel"], level=level) == {"num_rel": wanted}
    assert summary(measures=["ndcg"], level=2) == summary(measures=["ndcg"])
    for level in (0, -1, float("nan"), float("inf")):
        with pytest.raises(ArgumentError, match=f"level: must be .* above 0, got {level:g}"):
            summary(level=level)


def test_level__rndcg_of_a_query_without_a_document_of_that_level_is_0():
    run, qrels = b"q Q0 c 1 3 t\nq Q0 b 2 2 t\nq Q0 a 3 1 t\n", b"q 0 a 1\nq 0 b 1\nq 0 c 0\n"
    found = report(run, qrels, measures=["Rndcg"], level=2)
    assert found.to_text(single=True) == "".join(
        f"Rndcg                 \t{query}\t0.0000\n" for query in ("q", "all")
    )
    assert report(run, qrels, measures=["Rndcg"]).summary[0] == pytest.approx(0.38685281)
    graded = qrels.replace(b"a 1", b"a 2")
    assert report(run, graded, measures=["Rndcg"], level=2).summary[0] > 0


def test_most__cuts_every_list_first():
    cut = summary(measures=["num_ret", "num_rel", "num_rel_ret", "map", "set_P"], most=2)
    first_two = b"".join(
        line for line in RUN.splitlines(keepends=True) if line.split()[2] in (b"d1", b"d2", b"d4")
    ).replace(b"q10 Q0 d2 4 0 ours\n", b"")
    assert cut == summary(
        run=first_two, measures=["num_ret", "num_rel", "num_rel_ret", "map", "set_P"]
    )
    assert cut["num_ret"] == 4
    found = report(measures=["relstring"], most=1)
    assert dict(zip(found.queries, found.by_query, strict=True)) == {
        "q10": ("'.'",),
        "q2": ("'0'",),
    }
    with pytest.raises(ArgumentError, match=r"most: must be .* at least 1, got 0"):
        report(most=0)


def test_judged_only__leaves_out_the_others():
    assert summary(measures=["num_ret"], judged_only=True) == {"num_ret": 4}
    found = report(measures=["relstring", "recip_rank"], judged_only=True)
    assert found.by_query == ((1.0, "'>2'"), (0.5, "'01'")), "d1 of q10 has a negative grade"
    ten = report(measures=["unj.5"], version=10, complete=True, judged_only=True)
    assert ten.summary == (0.0,)


def test_judged_only__among_the_first_documents():
    run = b"q Q0 a 0 9 t\nq Q0 b 0 8 t\nq Q0 c 0 7 t\nq Q0 d 0 6 t\n"
    qrels = b"q 0 b 0\nq 0 d 1\n"
    for most, wanted in ((1, "''"), (2, "'0'"), (3, "'0'"), (4, "'01'")):
        found = report(run, qrels, measures=["relstring"], judged_only=True, most=most)
        assert found.by_query == ((wanted,),)
        assert found.queries == ("q",), "it was answered, though nothing of it is left"


def test_run_of_several_tags__is_called_as_its_last_line():
    assert summary(run=RUN + b"q2 Q0 d9 4 0 other\n", measures=["runid"]) == {"runid": "other"}


# ---- measures ------------------------------------------------------------------------------------


def test_measures__of_a_set__as_first_given():
    names = lines_of(["P.30,7", "official"])
    assert [name for name in names if name.startswith("P_")] == ["P_7", "P_30"]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    "request_,said",
    [
        (
            "mapp",
            r"must name a measure of trec_eval 10 or of this package, got 'mapp'\. Did.*'map'",
        ),
        ("P.x", r"measures: must have whole numbers of at least 1, as in 'P\.5,10', got 'P\.x'"),
        ("P.0", "whole numbers of at least 1"),
        ("P.", "whole numbers"),
        ("map.5", "must have no parameters here"),
        ("iprec_at_recall.-1", "must have numbers, as in"),
        ("", "must name a measure .* got ''"),
        ("relstring.5,10", "must have one length"),
        ("set_F.x", r"one number, what recall is worth, as in 'set_F\.2\.0'"),
        ("utility.1,-1,0,1", "four numbers, the last of them 0"),
        ("utility.1", "four numbers"),
        ("rbp.0.8", r"a persistence between 0 and 1, as in 'rbp\.p=0\.8'"),
        ("rbp_resid.p=1", "a persistence"),
        ("P.5x", "whole numbers of at least 1"),
        ("P.0.9", "whole numbers of at least 1"),
        (
            "11pt_avg..5,.25",
            r"must have ascending recall levels from 0 to 1, as in '11pt_avg\.\.25",
        ),
        ("11pt_avg.1.5", "recall levels from 0 to 1"),
        ("11pt_avg.", "recall levels"),
        ("ndcg.1", r"must have gains of at least 0, each of one grade .* as in 'ndcg\.1=3,2=9'"),
        ("ndcg.1=3,1=4", "each of one grade"),
        ("ndcg.x=3", "each of one grade"),
        ("G.1=-1", "gains of at least 0"),
        ("Rndcg.0=1", "grade above 0"),
        ("ndcg_rel.1=inf", "gains of at least 0"),
        ("ndgc_cut_7", r"Did you mean 'nDCG@7' or 'ndcg_cut_7'\?"),
        ("official7", "Did you mean 'official'"),
        ("ndcg_cut_10 map", "Separate names by commas: 'ndcg_cut_10,map'"),
        (
            type("AP", (), {"__module__": "ir_measures.measures"})(),
            r"pass its text, str\(measure\)",
        ),
    ],
)
def test_measure__nonsense_is_refused(request_, said):
    with pytest.raises(ArgumentError, match=said):
        report_lines([request_])
    with pytest.raises(ArgumentError, match="must be in trec_eval 9, got 'rbp'; take version=10"):
        report_lines(["rbp"], 9)


def test_parameters__name_their_lines_as_trec_eval_does():
    names = [line.name for line in report_lines(["iprec_at_recall.0.5,.75", "Rprec_mult.2"])]
    assert names == ["iprec_at_recall_0.50", "iprec_at_recall_0.75", "Rprec_mult_2.00"]
    (level,) = report_lines(["iprec_at_recall.0.125"])
    assert (level.name, str(*level.measures)) == ("iprec_at_recall_0.12", "IPrec(recall=0.125)")


@pytest.mark.parametrize(
    "request_,name,ours",
    [
        ("set_F.2.0", "set_F_2.0", "F(alpha=0.3333333333333333)"),
        ("set_F.1", "set_F_1", "F(alpha=0.5)"),
        ("utility.2,-1,-0.5,0", "utility_2,-1,-0.5,0", "Utility(rel_ret=2, rel_missed=-0.5)"),
        ("rbp.p=0.8", "rbp_p=0.8", "RBP"),
        ("rbp_resid.p=0.5", "rbp_resid_p=0.5", "RBPres(p=0.5)"),
    ],
)
def test_parameters__of_one_line__stand_in_its_name_as_given(request_, name, ours):
    (line,) = report_lines([request_, request_.partition(".")[0]])
    assert (line.name, str(*line.measures)) == (name, ours)


@pytest.mark.parametrize("root", ["ndcg", "ndcg_rel", "Rndcg", "G"])
def test_gains__of_some_grades__the_others_gain_their_grade(root):
    run = {"q": {"a": 4.0, "b": 3.0, "c": 2.0, "d": 1.0, "e": 0.5}}
    qrels = {"q": {"a": 1, "b": 5, "c": 2, "d": 0, "e": -1, "f": 3}}
    gained = {"q": {"a": 3, "b": 5, "c": 9, "d": 0, "e": -1, "f": 3}}
    found = trec_report(qrels, run, measures=[f"{root}.1=3,2=9,7=0.5"])
    assert found.document()["queries"]["all"] == {
        f"{root}_1=3,2=9,7=0.5": trec_report(gained, run, measures=[root]).summary[0]
    }


def lines_of(requests, version: int = 10, **options) -> list[str]:
    return [line.name for line in report_lines(requests, version, **options)]


@pytest.mark.parametrize(
    "ours,theirs",
    [
        ("nDCG@10", "ndcg_cut.10"),
        ("AP", "map"),
        ("MAP@5", "map_cut.5"),
        ("RR", "recip_rank"),
        ("P@10", "P.10"),
        ("R@5", "recall.5"),
        ("Recall@5", "recall.5"),
        ("Success@1", "success.1"),
        ("P_5", "P.5"),
        ("iprec_at_recall_0.30", "iprec_at_recall..3"),
        ("rbp_p=0.5", "rbp.p=0.5"),
        ("ndcg_1=3,2=9", "ndcg.1=3,2=9"),
        ("nDCG(gains={1: 3, 2: 9})", "ndcg.1=3,2=9"),
        ("nDCG(dcg='log2')@10", "ndcg_cut.10"),
        ("SetP", "set_P"),
        ("SetR", "set_recall"),
        ("SetF", "set_F"),
        ("NumQ", "num_q"),
        ("NumRet", "num_ret"),
        ("NumRet(rel=1)", "num_rel_ret"),
        ("Bpref", "bpref"),
        ("GMAP", "gm_map"),
        ("IPrec@0.3", "iprec_at_recall..3"),
        ("RBP", "rbp"),
    ],
)
def test_names_of_others__have_the_values_of_trec_eval_and_keep_their_name(ours, theirs):
    options = {"version": 10, "complete": True}
    both = report(measures=[ours, theirs], **options).to_text(single=True).splitlines()
    alone = [report(measures=[m], **options).to_text(single=True) for m in (ours, theirs)]
    name = lines_of(ours)[0]
    assert name in (ours, "ndcg_1=3,2=9")
    assert [line.split("\t")[1:] for line in alone[0].splitlines()] == [
        line.split("\t")[1:] for line in alone[1].splitlines()
    ]
    assert {line.split("\t")[0].strip() for line in both} == {name, *lines_of(theirs)}


@pytest.mark.parametrize(
    "requests,wanted",
    [
        ("P_10,P_5,map", ["map", "P_5", "P_10"]),
        (["P.10,5,5", "map"], ["map", "P_5", "P_10"]),
        (["P.7", "P.3"], ["P_7"]),
        (["P.7", "P"], ["P_7"]),
        ("P.10,5,P_7", ["P_5", "P_7", "P_10"]),
        (["nDCG@10,P.5,10", "AP", "map"], ["map", "P_5", "P_10", "nDCG@10", "AP"]),
        ("AP(rel=2),nDCG(gain={1: 2, 3: 4})@5", ["AP(rel=2)", "nDCG(gain={1: 2, 3: 4})@5"]),
        ("utility.2,-1,0,0,11pt_avg..25,.5,11pt_avg", ["utility_2,-1,0,0", "11pt_avg_.25,.5"]),
        ("rbp,rbp_p=0.5", ["rbp", "rbp_p=0.5"]),
        ("AP,AP", ["AP"]),
        (nDCG @ 10, ["nDCG@10"]),
        ("success", ["success_1", "success_5", "success_10"]),
        ("recall", [f"recall_{cut}" for cut in (5, 10, 15, 20, 30, 100, 200, 500, 1000)]),
        ("Recall", ["Recall"]),
    ],
)
def test_measures__are_in_the_order_of_trec_eval__those_of_others_last(requests, wanted):
    assert lines_of(requests) == wanted


def test_names_of_others__options_overrule_the_level():
    strict = summary(measures=["AP(rel=1)", "AP", "map"], level=2)
    assert strict["AP"] == strict["map"] != strict["AP(rel=1)"]
    assert strict["AP(rel=1)"] == summary(measures=["map"])["map"]
    gains = summary(measures=["nDCG(gain=exp)", "nDCG", "ndcg"])
    assert gains["nDCG"] == gains["ndcg"] != gains["nDCG(gain=exp)"]


def test_names_of_others__wrong_options_say_so():
    with pytest.raises(MeasureError, match="nDCG has no option 'gian'"):
        report_lines("nDCG(gian=exp)")
    with pytest.raises(ArgumentError, match="must be measures without subtopics, got 'ERR_IA'"):
        report(measures="ERR_IA")
    with pytest.raises(ArgumentError, match=r"Did you mean 'Precision' \(P\)"):
        report_lines("Precison@10")


# ---- the command ---------------------------------------------------------------------------------


@pytest.fixture
def folder(own_folder: Path) -> Path:
    (own_folder / "ours.run").write_bytes(RUN)
    (own_folder / "other.run.gz").write_bytes(gzip.compress(RUN.replace(b"ours", b"other")))
    (own_folder / "qrels").write_bytes(QRELS)
    return own_folder


def run_trec(*arguments: str) -> Result:
    return run("trec", *arguments)


def test_command__several_runs__end_each_line_with_the_name_of_the_run(folder):
    outcome = run_trec(
        "--as", "9", "-m", "runid", "-m", "num_ret", "qrels", "ours.run", "other.run.gz"
    )
    assert outcome.stdout.splitlines() == [
        "runid                 \tall\tours\tours",
        "num_ret               \tall\t7\tours",
        "runid                 \tall\tother\tother",
        "num_ret               \tall\t7\tother",
    ]


def test_command__runs_of_one_tag__are_named_by_their_files(folder):
    (folder / "same.run").write_bytes(RUN)
    files = ("qrels", "ours.run", "same.run", "other.run.gz")
    text = run_trec("--as", "9", "-m", "map", *files).stdout
    names = ["ours.run", "same.run", "other"]
    assert [line.split("\t")[3] for line in text.splitlines()] == names
    reports = json.loads(run_trec("--as", "9", "-m", "map", "-f", "json", *files).stdout)
    assert [report["run"] for report in reports] == names
    sheet = run_trec("--as", "9", "-m", "map", "-f", "csv", *files).stdout
    assert [line.split(",")[0] for line in sheet.splitlines()[1:]] == names
    alone = run_trec("--as", "9", "-q", "-m", "runid,map", *files[:2]).stdout
    assert "runid                 \tall\tours\n" in alone
    assert {line.count("\t") for line in alone.splitlines()} == {2}


def test_command__single_queries_with_and_without_the_summary(folder):
    both = run_trec("--as", "9", "-q", "-m", "map", "qrels", "ours.run").stdout.splitlines()
    assert [line.split("\t")[1] for line in both] == ["q10", "q2", "all"]
    alone = run_trec("--as", "9", "-n", "-m", "map", "qrels", "ours.run").stdout.splitlines()
    assert alone == both[:2]


def test_command__columns_and_programs(folder):
    parquet.write_table(read_run(RUN), "ours.parquet")
    parquet.write_table(read_qrels(QRELS), "qrels.parquet")
    arguments = ("--as", "9", "-q", "-m", "all_trec")
    text = run_trec(*arguments, "qrels", "ours.run").stdout
    assert run_trec(*arguments, "qrels.parquet", "ours.parquet").stdout == text
    told = json.loads(run_trec(*arguments, "-f", "json", "qrels", "ours.run").stdout)
    sheet = run_trec(
        *arguments, "-f", "csv", "qrels", "ours.run", "other.run.gz"
    ).stdout.splitlines()
    assert sheet[0] == "run,measure,query,value"
    assert len(sheet) == 1 + 2 * len(text.splitlines())
    assert told[0]["run"] == "ours"
    assert told[0]["queries"]["q2"]["recip_rank"] == 0.5
    assert told[0]["queries"]["all"]["num_ret"] == 7


def test_command__duplicates__as_told(folder):
    (folder / "twice.run").write_bytes(RUN + b"q2 Q0 d3 4 0.75 ours\n")
    refused = run_trec("--as", "9", "-m", "recip_rank", "qrels", "twice.run")
    assert refused.exit_code == 2
    assert "'twice.run', line 3 and line 9" in refused.stderr
    assert "pass --duplicates first, last or max" in refused.stderr
    arguments = ("--as", "9", "-q", "-m", "relstring", "qrels", "twice.run")
    first, most = (
        run_trec("--duplicates", which, *arguments).stdout.splitlines()[1]
        for which in ("first", "max")
    )
    assert first.endswith("\tq2\t'01-'")
    assert most.endswith("\tq2\t'-01'")


@pytest.mark.parametrize(
    "arguments,said",
    [
        (
            ("qrels", "ours.run"),
            "run: must have every judged query, as for trec_eval 10, got a run that lacks 1 of "
            "3; pass -c to count them as 0, or --as 9 to leave",
        ),
        (
            ("-m", "nothing", "qrels", "ours.run"),
            "-m: must name a measure of trec_eval 10 or of this package, got 'nothing'",
        ),
        (("--as", "9", "ours.run", "qrels"), "6 fields where qrels lines have 4"),
        (("--as", "9", "qrels", "ours.run", "none.run"), "none.run"),
    ],
)
def test_command__refuses_in_one_line(folder, arguments, said):
    outcome = run_trec(*arguments)
    assert outcome.exit_code == 2
    (line,) = outcome.stderr.splitlines()
    assert line.startswith("error: ")
    assert said in line


# ---- names of columns ----------------------------------------------------------------------------


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
    wanted = run_trec(*arguments, "qrels", "ours.run").stdout
    for options, (of_qrels, of_run) in files.items():
        names = write("judged", qrels, of_qrels), write("ranked", run, of_run)
        assert run_trec(*arguments, *options, *names).stdout == wanted
        assert run_trec(*arguments, *options, "qrels", names[1]).stdout == wanted
    refused = run_trec(*arguments, "--query", "tpic", *names)
    assert refused.exit_code == 2
    assert "tpic" in refused.stderr


# ---- runs side by side ---------------------------------------------------------------------------

TWO_QRELS = "q1 0 d1 1\nq1 0 d2 0\nq2 0 d1 1\nq2 0 d3 0\n"
GOOD = "q1 Q0 d1 1 2 good_\nq1 Q0 d2 2 1 good_\nq2 Q0 d1 1 2 good_\nq2 Q0 d3 2 1 good_\n"
BAD = "q1 Q0 d2 1 2 b|d\nq1 Q0 d1 2 1 b|d\nq2 Q0 d1 1 2 b|d\nq2 Q0 d3 2 1 b|d\n"


@pytest.fixture
def two_runs(own_folder: Path) -> Path:
    for name, text in (("qrels", TWO_QRELS), ("good", GOOD), ("bad", BAD)):
        (own_folder / name).write_text(text)
    return own_folder


def test_side_by_side__table_has_a_column_for_each_run(two_runs):
    words = ("qrels", "good", "bad")
    lines = output("trec", "-m", "map,num_q,runid", "-f", "table", *words).splitlines()
    assert lines[0].split() == ["measure", "good_", "b|d"]
    assert [line.split() for line in lines[2:4]] == [
        ["num_q", "2", "2"],
        ["map", "1.0000", "0.7500"],
    ]
    assert "runid" not in "".join(lines)
    assert lines[-1] == "profile=trec_eval_10, level=1"
    text = output("trec", "-m", "map,num_q,P.2", "-f", "markdown", *words)
    assert text.startswith("| measure | `good_` | `b\\|d` |\n| --- | ---: | ---: |\n")
    assert "| `map` | **1.0000** | 0.7500 |" in text
    assert text.count("**") == 2
    page = output("trec", "-m", "map", "-f", "html", *words)
    assert "<title>Evaluation of good_, b|d</title>" in page
    assert r"map & \textbf{1.0000} & 0.75" in output("trec", "-m", "map", "-f", "latex", *words)


def test_side_by_side__queries_have_a_table_each_and_a_missing_one_is_empty(two_runs):
    (two_runs / "short").write_text("".join(GOOD.splitlines(keepends=True)[:2]))
    text = output("trec", "-q", "-c", "-m", "map", "-f", "markdown", "qrels", "bad", "short")
    assert (
        "`q1`\n\n| measure | `b\\|d` | `good_` |\n| --- | ---: | ---: |\n| `map` | 0.5000 |" in text
    )
    assert "`all`" in text
    text = output("trec", "-q", "--as", "9", "-m", "map", "-f", "markdown", "qrels", "bad", "short")
    assert (
        "`q2`\n\n| measure | `b\\|d` | `good_` |\n| --- | ---: | ---: |\n| `map` | 1.0000 |  |"
        in text
    )
