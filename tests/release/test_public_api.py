"""The comparison of public names finds what breaks users, and nothing else."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

pytest.importorskip("griffe", reason="needs griffe (make release-check)")

from tests.release.public_api import breaking_changes, public_paths, read_package

pytestmark = pytest.mark.no_kernels

ROOT = Path(__file__).parents[2]


def changed(folder: Path, file: str, old: str, new: str) -> list[str]:
    """Breaking changes of a copy of the package with one change."""
    shutil.copytree(ROOT / "fastrank_eval", folder / "fastrank_eval")
    path = folder / "fastrank_eval" / file
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1
    path.write_text(text.replace(old, new), encoding="utf-8")
    return list(breaking_changes(read_package(ROOT), read_package(folder)))


@pytest.mark.parametrize(
    "file,old,new,found",
    [
        (
            "results/result.py",
            "    def compare(\n        self, other: Result",
            "    def compared(\n        self, other: Result",
            [
                "fastrank_eval.analysis.multiclass.ClassResult.compare: Public object was removed",
                "fastrank_eval.results.result.Result.compare: Public object was removed",
            ],
        ),
        (
            "engine/option_types.pyi",
            "class CompareOptions(TypedDict, total=False):\n    group:",
            "class CompareOptions(TypedDict, total=False):\n    groups:",
            ["fastrank_eval.engine.option_types.CompareOptions.group: Public object was removed"],
        ),
        (
            "analysis/curve.py",
            '    by: str = "f1",\n    beta',
            '    by: str = "youden",\n    beta',
            [
                "fastrank_eval.analysis.curve.best_threshold: Parameter default was changed: "
                "by='f1' -> by='youden'"
            ],
        ),
        (
            "engine/option_types.pyi",
            "class CompareOptions(TypedDict, total=False):\n",
            "class CompareOptions(TypedDict, total=False):\n    later: int\n",
            [],
        ),
        ("engine/records.py", "def summary_rows(", "def summary_lines(", []),
    ],
)
def test_breaking_changes__of_one_change__are_those_of_public_names(
    tmp_path: Path, file: str, old: str, new: str, found: list[str]
) -> None:
    changes = changed(tmp_path, file, old, new)
    assert len(changes) == len(found)
    for change, wanted in zip(changes, found, strict=True):
        assert change.startswith(wanted)


def test_public_paths__have_doors_and_measures() -> None:
    paths = public_paths(read_package(ROOT))
    assert "fastrank_eval.integrations.trec.report.trec_report" in paths
    assert "fastrank_eval.results.evaluate.evaluate" in paths
    assert "fastrank_eval.measures.auc.GroupedAUC" in paths
