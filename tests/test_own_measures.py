"""Measures of other people, as docs/how-to/own-measures.md says: registered, found, checked."""

import functools
import importlib.metadata
import json
import math
import os
import pickle
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import fastrank_eval as fe
from fastrank_eval.groups.chunk import Scored
from fastrank_eval.measures import REL, WEIGHT, Param, base, registry
from fastrank_eval.measures.clustered_sums import ChunkSums
from fastrank_eval.measures.pooled import PooledValue, SummedMeasure
from fastrank_eval.results.lookup import entries
from fastrank_eval.testing import Row, check_measure
from tests.support.batched import evaluate
from tests.support.transcripts import Case, cases

DOCS = Path(__file__).parent.parent / "docs"
HOW_TO = (DOCS / "how-to" / "own-measures.md").read_text(encoding="utf-8")
LOG = {"user": [1, 1, 2, 2], "click": [1, 0, 0, 3], "pctr": [0.1, 0.2, 0.3, 0.4]}
ROLES = {"group": "user", "label": "click", "score": "pctr"}


class Coverage(fe.Measure):
    name = "Coverage"
    summary = "share of the group's rows that are relevant"
    formula = "R / N"
    reference = "none"
    options = (REL, WEIGHT)
    aliases = ("relevant_share",)
    takes_cutoff = False

    def shared_values(self, ranking, cutoffs):
        return ranking.relevant(self.rel) / ranking.rows


def test_kernel__set_by_a_method__is_refused() -> None:
    class Method(fe.Measure):
        """Method, a measure whose kernel is not an attribute."""

        name, formula, reference = "Method", "R / N", "none"
        options = (REL, WEIGHT)

        def group_function(self):
            return None

    with pytest.raises(fe.MeasureError, match="must be a GroupFunction, got a method of Method"):
        fe.evaluate(LOG, measures=[Method()], **ROLES)


@pytest.mark.parametrize(
    "docstring, summary",
    [("\n    Named, the share.\n    ", "share"), ("Errors, all of them.", "Errors, all of them")],
)  # fmt: skip
def test_summary__is_the_first_line_after_the_name(docstring: str, summary: str) -> None:
    assert type("Named", (fe.Measure,), {"name": "Named", "__doc__": docstring}).summary == summary


def coverage(rows: list[Row]) -> float:
    return sum(row.label >= 1 for row in rows) / len(rows)


def package(folder: Path, code: str | None = None, called: str = "", point: str = "") -> Path:
    """Install the package of the how-to into a folder, with its entry points.

    It and its entry point can have other names.
    """
    folder.mkdir(exist_ok=True)
    marked = r"<!-- run by: tests/test_own_measures.py -->\n\n```(python|toml)\n(.*?)```"
    blocks = re.findall(marked, HOW_TO, re.DOTALL)
    names = ("my_measures.py", "use.txt", "test_my_measures.py", "pyproject.toml")
    for name, (_, text) in zip(names, blocks, strict=True):
        (folder / name).write_text(text, encoding="utf-8")
    if code is not None:
        (folder / "my_measures.py").write_text(code, encoding="utf-8")
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    name = called or project["name"]
    info = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Name: {name}\nVersion: {project['version']}\n")
    ((group, points),) = project["entry-points"].items()
    lines = [f"{point or name} = {value}" for name, value in points.items()]
    (info / "entry_points.txt").write_text("\n".join([f"[{group}]", *lines]) + "\n")
    return folder


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Install the package for this process."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "my_measures", raising=False)
    return functools.partial(package, tmp_path)


def run(folder: Path, *command: str) -> str:
    """Run Python in a folder with the package installed."""
    path = os.pathsep.join((str(folder), str(Path(fe.__file__).parent.parent)))
    done = subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.lasts("starts processes that compile a measure")
def test_command_line__finds_a_measure_by_its_entry_point__and_merges_its_states(
    tmp_path: Path,
) -> None:
    package(tmp_path)
    for day, rows in ((1, "1,1,0.1\n1,0,0.9\n"), (2, "2,0,0.1\n2,3,0.9\n")):
        (tmp_path / f"{day}.csv").write_text(f"user,click,pctr\n{rows}")
        names = ("--group", "user", "--label", "click", "--score", "pctr")
        saved = ("--measures", "gainshare@1,GAUC", "--save-state", f"{day}.state")
        run(tmp_path, "-m", "fastrank_eval", "evaluate", f"{day}.csv", *names, *saved)
    merged = run(
        tmp_path, "-m", "fastrank_eval", "merge", "1.state", "2.state", "--format", "json",
        "--fail-if", "GainShare@1 < 0.5",
    )  # fmt: skip
    values = {line["measure"]: line["value"] for line in json.loads(merged)["results"]}
    assert values == {"GainShare@1": 0.5, "GAUC": 0.5}


def test_registered_measure__is_read_evaluated_compared_sliced_gated_saved_and_listed() -> None:
    measure = fe.register(Coverage)
    log = {**LOG, "b": [0.3, 0.2, 0.1, 0.4], "slot": [1, 1, 2, 2]}
    result = fe.evaluate(
        log,
        measures="coverage(rel=2), relevant_share, RR",
        by=["slot"],
        keep="values,state",
        **ROLES,
    )
    assert result.value("Coverage(rel=2)") == 0.25
    np.testing.assert_array_equal(result[measure(rel=2)], [0.0, 0.5])
    assert not result.check("Coverage < 0.6")
    assert fe.State.from_bytes(result.state.to_bytes()).result().value(measure) == 0.5
    both = {**ROLES, "score": ["pctr", "b"]}
    compared = fe.compare(log, measures=[measure], baseline="pctr", **both)
    assert compared.values[0].delta == 0.0
    assert fe.measure("COVERAGE") == measure == pickle.loads(pickle.dumps(measure))  # noqa: S301
    assert "Coverage" in [entry["name"] for entry in entries()]
    check_measure(measure, oracle=coverage, rounds=3)


def test_plain_function__obeys_the_laws_and_is_read_saved_and_pickled() -> None:
    def relevant_share(labels: list[float]) -> float:
        return sum(label >= 1 for label in labels) / len(labels)

    def hit(labels: list[float], k: int | None) -> float | None:
        return None if not any(labels) else float(max(labels[:k]) >= 1)

    share, first = fe.measure_of(relevant_share), fe.measure_of(hit, "Reached")
    lower = fe.measure_of(hit, "Missed", higher_is_better=False)
    assert (share.name, lower.higher_is_better) == ("relevant_share", False)
    check_measure(share, oracle=lambda rows: relevant_share([r.label or 0 for r in rows]), rounds=3)
    check_measure(first @ 2, oracle=lambda rows: hit([r.label or 0 for r in rows], 2), rounds=3)
    result = fe.evaluate(LOG, measures=[share, first @ 1], keep="state", **ROLES)
    assert fe.State.from_bytes(result.state.to_bytes()).result().value("Reached@1") == 0.5
    assert pickle.loads(pickle.dumps(first @ 3)) == fe.measure("reached@3")  # noqa: S301
    silent = fe.evaluate({**LOG, "click": [0, 0, 0, 3]}, measures="Reached", **ROLES).values[0]
    assert silent.dropped == {"undefined": 1}


def changed(**attributes: object) -> type[fe.Measure]:
    return type("Other", (Coverage,), {"name": "Other", "aliases": (), **attributes})


def plain(function: Callable[..., object]) -> fe.Result:
    """Evaluate a plain function."""
    return fe.evaluate(LOG, measures=[fe.measure_of(function, name="Plain")], **ROLES)


@pytest.mark.parametrize("case", cases("own_measures"), ids=lambda case: ascii(str(case)))
def test_own_measure__of_no_use__is_refused(case: Case) -> None:
    case.check(case.answer({**globals(), "Param": Param}))


@pytest.mark.parametrize("case", cases("no_measures"), ids=str)
def test_register__a_class_that_is_no_measure__is_refused(case: Case) -> None:
    before = dict(registry)
    with pytest.raises(fe.MeasureError) as refused:
        fe.register(eval(case.given[0]))  # noqa: S307
    assert registry == before
    case.check(str(refused.value).splitlines())


def test_register__of_each_measure_of_the_package__changes_nothing() -> None:
    before, by_alias = list(registry.items()), dict(base.aliases)
    for kind in list(registry.values()):
        fe.register(kind)
    assert (list(registry.items()), base.aliases) == (before, by_alias)


def test_known_names__do_not_read_entry_points(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(**_: object) -> None:
        raise AssertionError("entry points were read")

    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("importlib.metadata.entry_points", fail)
    result = fe.evaluate(LOG, measures="gauc, ndcg_cut_5, MRR, PPV(threshold=0.3)", **ROLES)
    assert result.check("GAUC < 0.1", "RR value < 0.1", "GAUC-RR > 2", "pctr : GAUC-pctr:RR > 2")
    assert fe.measure("alpha-nDCG@3") == fe.alpha_nDCG @ 3
    with pytest.raises(AssertionError, match="entry points were read"):
        fe.measure("GainShare")


def test_unknown_names__in_a_long_gate__read_entry_points_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []
    read = importlib.metadata.entry_points
    monkeypatch.setattr(
        "importlib.metadata.entry_points", lambda **group: calls.append(group) or read(**group)
    )
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(fe.ArgumentError, match="expected a measure"):
        fe.gate("-".join(f"a{n}" for n in range(300)) + " < 1")
    assert len(calls) == 1


def test_unknown_name__is_looked_up_among_entry_points_of_what_is_installed_by_then(
    installed: Callable[..., None],
) -> None:
    with pytest.raises(fe.MeasureError, match="got 'GainShare'"):
        fe.measure("GainShare")
    installed()
    assert str(fe.measure("gainSHARE@3")) == "GainShare@3"
    with pytest.raises(fe.MeasureError, match=r"got 'GainShares'.* Did you mean 'GainSh"):
        fe.measure("GainShares")


def test_two_packages_with_one_name__are_an_error_that_names_both__at_each_look_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "other"):
        monkeypatch.syspath_prepend(package(tmp_path / name, called=f"{name}-measures"))
    for _ in range(2):
        with pytest.raises(fe.MeasureError, match=r"'GainShare' of 'one-m.*' and 'other-measures'"):
            fe.measure("GainShare")


def test_entry_point_with_another_name_than_its_measure__is_an_error_that_names_both(
    installed: Callable[..., None],
) -> None:
    installed(point="Share")
    for _ in range(2):
        with pytest.raises(
            fe.MeasureError, match=r"'my-measures' cannot .*'Share', got .'GainShare'"
        ):
            fe.measure("Share")
    assert "GainShare" not in registry


@pytest.mark.parametrize(
    "code, error",
    [
        ("import a_module_that_is_not_there", "ModuleNotFoundError: No module named 'a_module"),
        ("GainShare = 1", "MeasureError: measure: must be a subclass of Measure, got 1"),
        ("", "AttributeError: module 'my_measures' has no attribute 'GainShare'"),
    ],
)
def test_broken_package__is_an_error_that_names_it(
    code: str, error: str, installed: Callable[..., None]
) -> None:
    installed(code)
    with pytest.raises(fe.MeasureError, match=f"the package 'my-measures' cannot .*{error}"):
        fe.evaluate(LOG, measures="GainShare@3", **ROLES)


def test_measure_of_another_process__is_refused_until_it_is_registered_here() -> None:
    content = pickle.dumps(fe.register(Coverage)(rel=2))
    del registry["Coverage"], base.aliases["coverage"], base.aliases["relevant_share"]
    with pytest.raises(fe.MeasureError, match="must be registered, got 'Coverage'"):
        pickle.loads(content)  # noqa: S301
    assert pickle.loads(pickle.dumps(content)) == content  # noqa: S301
    fe.register(Coverage)
    assert str(pickle.loads(content)) == "Coverage(rel=2)"  # noqa: S301


@pytest.mark.parametrize(
    "attributes, law",
    [
        ({"range": (0.0, 0.4)}, "range of Wrong"),
        ({"shared_values": lambda self, r, _: np.full(r.groups, 1 / r.groups)}, "batches: other"),
        (
            {
                "takes_cutoff": True,
                "shared_values": lambda self, r, c: np.full((len(c), r.groups), 1 / len(c)),
            },
            "Wrong beside Wrong, Wrong@1, .*: other bits than alone",
        ),
    ],
    ids=["range", "number of groups", "number of cutoffs"],
)
def test_check_measure__names_the_law_that_is_broken(attributes: dict, law: str) -> None:
    kind = type("Wrong", (Coverage,), {"name": "Wrong", "aliases": (), **attributes})
    with pytest.raises(AssertionError, match=law):
        check_measure(fe.register(kind))


def test_measure__that_writes_its_input__is_an_error() -> None:
    class Writer(Coverage):
        name, aliases = "Writer", ()

        def shared_values(self, ranking, cutoffs: np.ndarray) -> np.ndarray:
            ranking.above[:] = 0
            return np.zeros(ranking.groups)

    with pytest.raises(ValueError, match="read-only"):
        check_measure(fe.register(Writer))


def test_check_measure__of_another_value_than_the_oracle__is_an_error() -> None:
    with pytest.raises(AssertionError, match="Coverage"):
        check_measure(fe.register(Coverage), oracle=lambda rows: 0.9 * coverage(rows))


def auc(rows: list[Row], weighted: bool = True) -> float:
    def weight(row: Row) -> float:
        return row.weight if weighted else 1.0

    rows = [row._replace(score=-np.inf) if row.score is None else row for row in rows]
    pairs = [(a, b) for a in rows for b in rows if a.label >= 1 > b.label]
    total = sum(weight(a) * weight(b) for a, b in pairs)
    above = sum(
        weight(a) * weight(b) * ((a.score > b.score) + (a.score == b.score) / 2) for a, b in pairs
    )
    return above / total if total else np.nan


@pytest.mark.parametrize("name", ["GAUC", "AUC"])
def test_oracle__gets_the_row_weights_that_the_measure_uses(name: str) -> None:
    check_measure(fe.measure(name), oracle=auc, law="oracle")
    with pytest.raises(AssertionError, match="with row weights"):
        check_measure(fe.measure(name), oracle=lambda rows: auc(rows, weighted=False), law="oracle")


def test_oracle__gets_the_subtopics_that_the_measure_needs() -> None:
    def subtopic_recall_at_2(rows: list[Row]) -> float:
        every = {subtopic for row in rows for subtopic in row.subtopics}
        shown = [row for row in rows if row.score is not None][:2]
        covered = {subtopic for row in shown for subtopic in row.subtopics}
        return len(covered) / len(every) if every else np.nan

    check_measure(fe.StRecall @ 2, oracle=subtopic_recall_at_2, rounds=3)


class MeanScore(SummedMeasure):
    """The mean score of all rows."""

    name = "MeanScore"
    summary = formula = "mean score"
    reference = "none"
    options = ()
    terms = ("score", "rows")

    def add_terms(self, sums: ChunkSums, scored: Scored) -> None:
        sums.add(0, np.asarray(scored.score, np.float64))
        sums.add(1, np.ones(len(scored.score)))

    def from_sums(self, sums: Mapping[str, float]) -> PooledValue:
        return PooledValue(sums["score"] / sums["rows"])

    def gradient(self, sums: Mapping[str, float]) -> dict[str, float]:
        rows = sums["rows"]
        return {"score": 1 / rows, "rows": -sums["score"] / rows / rows}


class Undefined(MeanScore):
    name = "Undefined"

    def from_sums(self, sums: Mapping[str, float]) -> PooledValue:
        return PooledValue(math.nan)


def test_measure_of_all_rows__needs_no_key_of_its_state() -> None:
    fe.register(MeanScore)
    result = fe.evaluate(LOG, group="user", label="click", score="pctr", measures="MeanScore,AUC")
    assert result.value("MeanScore") == pytest.approx(np.mean(LOG["pctr"]))
    assert result.interval("MeanScore")[0] < result.value("MeanScore")


@pytest.mark.lasts("starts pytest, compiles a measure")
def test_how_to__its_class_use_and_test__run_as_they_stand__and_the_plugin_makes_each_law_a_test(
    tmp_path: Path,
) -> None:
    package(tmp_path)
    (tmp_path / "test_laws.py").write_text(
        "from my_measures import GainShare\nimport fastrank_eval as fe\n"
        'pytest_plugins = ["fastrank_eval.testing"]\n'
        "def test_wrong(measure_law):\n"
        "    measure_law(fe.register(GainShare) @ 2, oracle=lambda rows: -1.0, rounds=1)\n"
    )
    options = ("-q", "-rp", "-p", "no:cacheprovider", "--doctest-glob=use.txt")
    with pytest.raises(AssertionError, match=r"test_wrong.oracle.") as failed:
        run(tmp_path, "-m", "pytest", *options, "use.txt", "test_my_measures.py", "test_laws.py")
    told = str(failed.value)
    assert re.search(r"1 failed, [1-9]\d* passed, [1-9]\d* skipped", told)
    for name in ("use.txt::use.txt", "test_my_measures.py::"):
        assert f"PASSED {name}" in told


class ManyReasons(Coverage):
    name = "ManyReasons"
    aliases = ()

    def shared_values(self, ranking, cutoffs):
        return np.full(ranking.groups, np.nan)

    def reasons(self, ranking):
        for g in range(ranking.groups):
            yield f"reason {g}", np.arange(ranking.groups) == g


@pytest.mark.parametrize("groups", [200, 300])
def test_reasons__are_counted_up_to_255(groups):
    log = {"user": np.arange(groups), "click": np.ones(groups), "pctr": np.ones(groups)}
    fe.register(ManyReasons)
    if groups == 200:
        (line,) = fe.evaluate(log, measures="ManyReasons", **ROLES)
        assert line.dropped == {f"reason {g}": 1 for g in range(groups)}
    else:
        with pytest.raises(fe.MeasureError, match="reasons: must be at most 255 texts"):
            fe.evaluate(log, measures="ManyReasons", **ROLES)


@pytest.mark.parametrize("of", ["P@2", "RR", "nDCGrel", "bpref", "GMbpref"])
def test_subclass_of_a_measure__has_its_values(of):
    measure = fe.measure(of)
    own = type("Own", (type(measure),), {"name": "OwnMeasure", "aliases": ()})
    fe.register(own)
    mine = own(measure.cutoff)
    rows = {"q": [1, 1, 1, 2, 2], "label": [0, 2, 1, 1, 0], "score": [3.0, 2.0, 2.0, 1.0, 0.0]}
    result = fe.evaluate(rows, group="q", label="label", score="score", measures=[measure, mine])
    assert np.array_equal(result[mine], result[measure])


@pytest.mark.parametrize("options", [{"order": "grouped"}, {"order": "scattered"}, {"by": "slot"}])
def test_measure__that_evaluates_other_rows__changes_no_other_value(options: dict) -> None:
    def table(seed: int, rows: int) -> pa.Table:
        rng = np.random.default_rng(seed)
        columns = {
            "user": np.sort(rng.integers(0, rows // 6, rows)),
            "slot": rng.integers(0, 4, rows),
            "click": rng.integers(0, 2, rows).astype(np.int8),
            "pctr": rng.random(rows),
            "other": rng.random(rows),
        }
        return pa.Table.from_batches(pa.table(columns).to_batches(max_chunksize=50))

    meanwhile = table(1, 700)

    class Recursive(Coverage):
        name = "Recursive"
        aliases = ()

        def shared_values(self, ranking, cutoffs):
            evaluate(meanwhile, **ROLES, threads=1, batch_rows=200, **options)
            return super().shared_values(ranking, cutoffs)

    every = []
    for first in (Coverage(), Recursive()):
        measures = [first, "GAUC", "nDCG@3", "LogLoss"]
        several = {"group": "user", "label": "click", "score": ["pctr", "other"], "threads": 1}
        result = evaluate(table(0, 600), **several, **options, measures=measures, batch_rows=200)
        every.append([(v.score, v.slice, v.value, v.se) for v in result.values])
    assert every[0] == every[1]
