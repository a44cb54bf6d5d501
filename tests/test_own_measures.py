"""Measures of other people, as docs/OWN_MEASURES.md says: registered, found, checked."""

import json
import os
import pickle
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import fastrank_eval as fe
from fastrank_eval.measures import REL, WEIGHT, Param, base, number, registry
from fastrank_eval.results.catalogue import entries
from fastrank_eval.testing import Row, check_measure

HOW_TO = (Path(__file__).parent.parent / "docs" / "OWN_MEASURES.md").read_text(encoding="utf-8")
LOG = {"user": [1, 1, 2, 2], "click": [1, 0, 0, 3], "pctr": [0.1, 0.2, 0.3, 0.4]}
ROLES = {"group": "user", "label": "click", "score": "pctr"}


@pytest.fixture(autouse=True)
def _registry_of_this_test(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(base, "registry", registry)
    before, names = dict(registry), dict(base.aliases)
    base._entry_points.cache_clear()
    yield
    base._entry_points.cache_clear()
    for kept, now in ((before, registry), (names, base.aliases)):
        now.clear()
        now.update(kept)


class Coverage(fe.Measure):
    name = "Coverage"
    summary = "share of the group's rows that are relevant"
    formula = "R / N"
    reference = "none"
    options = (REL, WEIGHT)
    spellings = ("relevant_share",)

    def shared_values(self, ranking, cutoffs):
        return ranking.relevant(self.rel) / ranking.rows


def coverage(rows: list[Row]) -> float:
    return sum(row.label >= 1 for row in rows) / len(rows)


def package(folder: Path, code: str | None = None) -> Path:
    """Install the package of the how-to into a folder, with its entry points."""
    blocks = re.findall(r"```(python|toml)\n(.*?)```", HOW_TO, re.DOTALL)
    names = ("my_measures.py", "use.txt", "test_my_measures.py", "pyproject.toml")
    for name, (_, text) in zip(names, blocks, strict=True):
        (folder / name).write_text(text, encoding="utf-8")
    if code is not None:
        (folder / "my_measures.py").write_text(code, encoding="utf-8")
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    info = folder / "my_measures-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Name: {project['name']}\nVersion: {project['version']}\n")
    ((group, points),) = project["entry-points"].items()
    lines = [f"{name} = {value}" for name, value in points.items()]
    (info / "entry_points.txt").write_text("\n".join([f"[{group}]", *lines]) + "\n")
    return folder


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


def test_how_to__its_class_use_and_test__run_as_they_stand(tmp_path: Path) -> None:
    package(tmp_path)
    pytest_options = ("-q", "-p", "no:cacheprovider", "--doctest-glob=use.txt")
    assert "2 passed" in run(
        tmp_path, "-m", "pytest", *pytest_options, "use.txt", "test_my_measures.py"
    )


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
        log, measures="coverage(rel=2), relevant_share, RR", by=["slot"], keep_state=True, **ROLES
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


def test_class_defined_anew__as_in_a_notebook__replaces_the_measure() -> None:
    fe.register(Coverage)
    old = fe.measure("Coverage")
    again = type("Coverage", (Coverage,), {"__module__": __name__, "name": "Coverage"})
    fe.register(again)
    assert type(old) is Coverage
    assert type(fe.measure("Coverage")) is again


def changed(**attributes: object) -> type[fe.Measure]:
    return type("Other", (Coverage,), {"name": "Other", "spellings": (), **attributes})


@pytest.mark.parametrize(
    "kind, message",
    [
        ("GAUC", "^measure: must be a subclass of Measure, got 'GAUC'"),
        (fe.GAUC, "^measure: must be a subclass of Measure, got GAUC"),
        (int, "^measure: must be a subclass of Measure, got <class 'int'>"),
        (fe.Measure, "^Measure: must have the text 'name'; set it in the class"),
        (changed(formula=None), "^Other: must have the text 'formula'"),
        (changed(name="my measure"), "^Other: name must be an identifier, got 'my measure'"),
        (changed(name="gauc"), r"got 'gauc', a name of fastrank_eval.measures.auc.GroupedAUC"),
        (changed(spellings=("MRR",)), r"^Other: must have names of its own, got 'MRR'"),
        (changed(options=(WEIGHT, "beta")), "^Other: option 'beta' must be valid"),
        (
            changed(options=(WEIGHT, Param("beta", 0, "weight of recall", number(above=0)))),
            "^Other: option Param.name='beta'.* must be valid; a finite number above 0",
        ),
        (changed(options=()), r"^Other: options must have WEIGHT, got \(\)"),
    ],
)
def test_register__a_class_that_is_no_measure__is_refused(kind: object, message: str) -> None:
    before = dict(registry)
    with pytest.raises(fe.MeasureError, match=message):
        fe.register(kind)  # type: ignore[type-var]
    assert registry == before


def test_known_names__do_not_read_entry_points(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**_: object) -> None:
        raise AssertionError("entry points were read")

    monkeypatch.setattr(base, "entry_points", fail)
    result = fe.evaluate(LOG, measures="gauc, ndcg_cut_5, MRR, PPV(threshold=0.3)", **ROLES)
    assert result.check("GAUC < 0.1", "RR value < 0.1")
    with pytest.raises(AssertionError, match="entry points were read"):
        fe.measure("GainShare")


def test_unknown_name__is_looked_up_among_entry_points(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(package(tmp_path))
    monkeypatch.delitem(sys.modules, "my_measures", raising=False)
    assert str(fe.measure("gainSHARE@3")) == "GainShare@3"
    with pytest.raises(
        fe.MeasureError, match=r"unknown measure 'GainShares'.* Did you mean 'GainSh"
    ):
        fe.measure("GainShares")


@pytest.mark.parametrize(
    "code, error",
    [
        ("import a_module_that_is_not_there", "ModuleNotFoundError: No module named 'a_module"),
        ("GainShare = 1", "MeasureError: measure: must be a subclass of Measure, got 1"),
        ("", "AttributeError: module 'my_measures' has no attribute 'GainShare'"),
    ],
)
def test_broken_package__is_an_error_that_names_it(
    code: str, error: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(package(tmp_path, code))
    monkeypatch.delitem(sys.modules, "my_measures", raising=False)
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
    ],
    ids=["range", "number of groups"],
)
def test_check_measure__names_the_law_that_is_broken(attributes: dict, law: str) -> None:
    kind = type("Wrong", (Coverage,), {"name": "Wrong", "spellings": (), **attributes})
    with pytest.raises(AssertionError, match=law):
        check_measure(fe.register(kind))


def test_check_measure__of_another_value_than_the_oracle__is_an_error() -> None:
    with pytest.raises(AssertionError, match="Coverage"):
        check_measure(fe.register(Coverage), oracle=lambda rows: 0.9 * coverage(rows))


@pytest.mark.parametrize("name", ["AUC", "KS", "LogLoss", "ECE(bins=5)"])
def test_check_measure__of_measures_of_all_rows__passes(name: str) -> None:
    fe.testing.check_measure(fe.measure(name), rounds=2)
