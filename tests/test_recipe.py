"""ARCHITECTURE.md's recipe for a new measure, followed: three files, and all else reads them."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow("runs kernels in Python")
ROOT = Path(__file__).parent.parent

CLASS = '''

class RelevantShare(_OfSet):
    """Density, the share of the group's rows that are relevant."""

    name = "Density"
    formula = "R / N"
    reference = "none"
    options = (REL, WEIGHT)

    def shared_values(self, ranking: Ranking, cutoffs: np.ndarray) -> np.ndarray:
        return ranking.relevant(self.rel) / ranking.rows
'''
ORACLE = """

def density(ranked: Ranked, k: int | None, rel: float = 1) -> float:
    rows = len(ranked.judged) + ranked.labels.count(None)
    return relevant_total(ranked, rel) / rows


POSITION["Density"] = density
"""
#: Where the lines of a new measure go: its class, its oracle, its variants.
RECIPE = {
    "fastrank_eval/measures/precision.py": lambda text: text + CLASS,
    "tests/oracles/measures.py": lambda text: text + ORACLE,
    "tests/strategies.py": lambda text: text.replace(
        "\nStRecall ", "\nDensity      . (rel=2)\nStRecall "
    ),
}
#: The tests of the registry, for the new measure alone where they try all.
TESTS = """
import fastrank_eval as fe
from fastrank_eval.testing import check_measure
from tests import test_laws
from tests.measures import test_measure_text as text, test_tie_policies as ties
from tests.oracles import test_oracles
from tests.public_names import stub
from tests.strategies import VARIANTS

assert "Density" in fe.__all__ and "Density: " in stub()
ties.test_registry__every_measure_has_an_oracle_and_variants()
ties.test_registry__every_option_of_a_measure_is_tried("Density")
ties.test_variants__are_spelt_canonically()
text.test_registry__every_option_has_a_strategy_here()
test_oracles.test_variants__are_readable_by_the_oracle()
assert {*VARIANTS["Density"]} <= {*test_laws.EVERYTHING}
ties.measures_for = lambda *_: VARIANTS["Density"]
for policy in ties.TIES:
    for groups in ties.GROUPS:
        ties.test_every_measure__equals_brute_force(policy, groups)
check_measure(fe.Density(rel=2))
"""


def test_new_measure__in_three_files__passes_the_tests_of_the_registry(tmp_path: Path) -> None:
    for name in ("fastrank_eval", "tests"):
        ignored = shutil.ignore_patterns("__pycache__", "*.parquet")
        shutil.copytree(ROOT / name, tmp_path / name, ignore=ignored)
    for name, change in RECIPE.items():
        path = tmp_path / name
        before = path.read_text(encoding="utf-8")
        path.write_text(change(before), encoding="utf-8")
        assert path.read_text(encoding="utf-8") != before
    # Without compilation: the copy would compile every kernel anew.
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", TESTS],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
