"""The long benchmark and the profiler, on a few thousand rows."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import fastrank_eval
from bench import disk, profile, scale, spark
from bench.fresh import Once
from bench.machine import described
from bench.profile import FILE, Stages, compile_times, profiled
from bench.scale import Entry, report
from bench.workload import BY_NAME, EIGHT, evaluate, table_of
from tests.support.transcripts import Case, cases

ROWS = 3000


def once(rows: int, ns_a_row: float, above_mb: float = 50.0, value: float = 0.75) -> Once:
    return Once(rows, 10, rows * ns_a_row / 1e9, 3, 200.0, 200.0 + above_mb, {"GAUC": value})


def spark_case(name: str, cpu: float) -> spark.Case:
    """Three rounds, half of each the JVM's."""
    rounds = [spark.Ran(n * cpu / 2, n * cpu / 2, n * cpu) for n in (1, 0.5, 9)]
    return spark.Case("int64", name, rounds)


def targets(text: str) -> str:
    """Lines of a report that have a target."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return "\n".join(line for line in lines if line.endswith(("| yes |", "| **no** |")))


@pytest.mark.parametrize("case", cases("bench_targets"), ids=lambda case: case.text[:40])
def test_report__of_made_up_runs__says_whether_targets_are_met(case: Case) -> None:
    case.check(
        case.answer(
            {**globals(), "described": described, "disk": disk, "report": report, "Entry": Entry}
        )
    )


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(scale, "FOLDER", tmp_path / "files")
    return tmp_path / "files"


@pytest.mark.slow("starts processes that compile")
def test_main__few_rows__measures_in_fresh_processes_and_makes_files_once(
    folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    output = tmp_path / "SCALE.md"
    arguments = ["--measures", "GAUC", "--output", str(output)]
    assert scale.main(["--rows", "3e3", "--scattered", "3e3", *arguments]) == 0
    text = output.read_text(encoding="utf-8")
    assert "GAUC, 3,000 rows, 3 ways: numbers agree | to the last bit | equal | yes" in text
    assert "| 3,000 | sorted | GAUC |" in text
    assert capsys.readouterr().out.count("making ") == 3
    times = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    monkeypatch.setattr(scale, "evaluated_once", lambda *_, **__: once(3000, 10.0))
    assert scale.main(["--rows", "3e3", "--scattered", "", *arguments]) == 0
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == times


def functions() -> Iterator[tuple[str, Any]]:
    for module in (fastrank_eval, fastrank_eval.engine.chunk_eval, fastrank_eval.groups.chunk):
        for name, value in vars(module).items():
            if callable(value):
                yield f"{module.__name__}.{name}", value
    yield "Tally.add", vars(fastrank_eval.stats.tally.Tally)["add"]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", ["presorted", "shuffled int64, dense"])
def test_stages__while_entered__time_what_runs_and_change_no_number(
    name: str, threads: int
) -> None:
    table = table_of(BY_NAME[name], ROWS)
    wanted = evaluate(table, EIGHT, threads=threads)  # compiles what is not compiled
    before = dict(functions())
    with Stages(fastrank_eval) as stages:
        found = evaluate(table, EIGHT, threads=threads)
    assert [v.value for v in found.values] == [v.value for v in wanted.values]
    after = dict(functions())
    assert {name: after[name] for name in before} == before, "everything is put back"
    evaluated = stages.found["caller", "results.evaluate.evaluate"]
    assert evaluated.calls == 1
    assert sum(s.own for (who, _), s in stages.found.items() if who == "caller") == pytest.approx(
        evaluated.total
    )
    assert all(0 <= stage.own <= stage.total for stage in stages.found.values())
    chunks = [key for key in stages.found if key[1] == "engine.chunk_eval.evaluate_chunk"]
    assert chunks


@pytest.mark.parametrize("rows", ["presorted", FILE])
def test_profiled__of_a_case__tells_rooms_and_stages(rows: str) -> None:
    text = profiled(rows, "seven", 1, ROWS, 1)
    assert text.startswith(f"# {rows}, seven, 3,000 rows, 1 thread\n")
    assert "| engine | caller |" in text
    # It has the whole time: a stage that took a small share of it is left out.
    assert "| results.evaluate.evaluate | caller | 1 |" in text


@pytest.mark.lasts("starts a process that compiles")
def test_compile_times__name_the_kernels(
    store: Path, empty_store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other kernels than that of the ranks are there: all of them take ten seconds."""
    evaluate(table_of(BY_NAME["presorted"], ROWS), "AUC", threads=1)

    @contextmanager
    def almost_empty() -> Iterator[Path]:
        kernels = empty_store / "kernels"
        shutil.copytree(store, kernels, ignore=shutil.ignore_patterns("_rank-*"))
        yield kernels

    monkeypatch.setattr(profile, "empty_store", almost_empty)
    text = compile_times("presorted", "AUC")
    assert "| stats.score_runs._rank | 1 |" in text
    assert "| all kernels |" in text
