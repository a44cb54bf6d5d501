"""Numbers have the same bits on every processor: own logarithms, no sums left to libraries."""

import ast
import json
import math
import os
import subprocess
import sys
from decimal import Context, Decimal
from pathlib import Path

import numpy as np
import pytest
from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__

import fastrank_eval
from fastrank_eval._lib import elementary
from fastrank_eval.measures.gain import discount_table
from fastrank_eval.stats.intervals import normal_tail

PACKAGE = Path(fastrank_eval.__file__).parent
#: What NumPy and the C library compute by other code on other processors.
BY_PROCESSOR = {
    *("log", "log2", "log10", "log1p", "exp", "exp2", "expm1", "pow", "power", "float_power"),
    *("sin", "cos", "tan", "asin", "acos", "atan", "atan2", "arcsin", "arccos", "arctan", "cbrt"),
    *("sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "arctanh", "erf", "erfc", "gamma"),
    *("lgamma", "interp", "matmul", "einsum", "inner", "vdot", "convolve", "polyfit", "corrcoef"),
    *("linalg", "NormalDist", "logaddexp", "dot", "tensordot", "multi_dot", "vecdot", "matvec"),
}
#: Functions of those names that are allowed, as they are written.
ALLOWED = {
    # Whole numbers below 2**63: every order of adding gives the same.
    "stats/score_runs.py np.dot(number, rows)",
    # A measure at a cutoff.
    *("analysis/curve.py m @ k", "integrations/ir_measures.py result.measure @ cutoff"),
    "testing.py of @ cutoff",
}
#: Pictures are drawn, not compared; demo logs round what such a function gives.
DRAWN = (
    "results/plots.py",
    "results/plot_files.py",
    "apps/nightly/charts.py",
    "apps/demo/",
)
EXACT = Context(prec=60)


@pytest.mark.slow("every number, and every file of the package")
def test_every_number__has_the_same_bits_with_features_of_the_processor_off():
    disabled = " ".join(name for name in __cpu_dispatch__ if __cpu_features__[name])
    off = {
        "NPY_DISABLE_CPU_FEATURES": disabled,
        "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX,-AVX2,-FMA,-FMA4,-AVX512F",
    }
    # Loops are compiled here, also where other tests run them in Python.
    kept = {name: value for name, value in os.environ.items() if name != "NUMBA_DISABLE_JIT"}
    running = [
        subprocess.Popen(
            [sys.executable, "-W", "error", "-m", "tests.every_number"],
            env={**kept, **more},
            cwd=PACKAGE.parent,
            stdout=subprocess.PIPE,
        )
        for more in ({}, off)
    ]
    plain, bare = (json.loads(process.communicate(timeout=600)[0]) for process in running)
    assert len(plain) > 10_000
    assert plain.keys() == bare.keys()
    assert not {name: (plain[name], bare[name]) for name in plain if plain[name] != bare[name]}


def by_processor(source: str) -> list[str]:
    """The calls in a program whose bits depend on the processor, as they are written."""
    tree = ast.parse(source)
    called = {id(node.func): node for node in ast.walk(tree) if isinstance(node, ast.Call)}
    found: list[ast.AST] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            module = isinstance(node.value, ast.Name) and node.value.id
            library = module in ("np", "numpy", "math", "statistics") and node.attr in BY_PROCESSOR
            if library or (node.attr == "dot" and id(node) in called):  # that of an array too
                found.append(called.get(id(node), node))
        elif isinstance(node, ast.ImportFrom):
            library = (node.module or "").split(".")[0] in ("numpy", "math", "statistics")
            names = {alias.name for alias in node.names} | {*(node.module or "").split(".")}
            if library and names & BY_PROCESSOR:
                found.append(node)
        elif isinstance(node, ast.Import):
            found += [node for alias in node.names if alias.name == "numpy.linalg"]
        elif isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.MatMult):
            found.append(node)
    return [ast.unparse(node) for node in found]


@pytest.mark.slow("every number, and every file of the package")
def test_package__calls_no_function_whose_bits_depend_on_the_processor():
    found = set()
    for file in sorted(PACKAGE.rglob("*.py")):
        name = file.relative_to(PACKAGE).as_posix()
        if not name.startswith(DRAWN):
            calls = by_processor(file.read_text(encoding="utf-8"))
            found |= {f"{name} {call}" for call in calls}
    assert found == ALLOWED, "use fastrank_eval._lib.elementary, or plain sums"


def test_discounts__are_those_of_correctly_rounded_logarithms():
    ranks = [1, 2, 3, 7, 1619, 1620, 1621, 4095, 65_535, 99_999]
    table, _ = discount_table("log2", 0.0, max(ranks))
    two = EXACT.ln(Decimal(2))
    for rank in ranks:
        logarithm = float(EXACT.divide(EXACT.ln(Decimal(rank + 1)), two))
        assert table[rank - 1] == 1.0 / logarithm, rank


def random_numbers(kind: str) -> np.ndarray:
    rng = np.random.default_rng(len(kind))
    wide = np.ldexp(rng.uniform(0.5, 1, 150), rng.integers(-1073, 1024, 150))
    near = 1 + rng.choice([-1, 1], 150) * np.ldexp(rng.uniform(0.5, 1, 150), -rng.integers(1, 50))
    if kind in ("log", "log2"):
        return np.concatenate([wide, near, rng.uniform(0, 2, 100), [5e-324, 2.0**-1022, 1.7e308]])
    if kind == "log1p":
        small = np.ldexp(rng.uniform(-1, 1, 200), -rng.integers(0, 53, 200))
        return np.concatenate([small, rng.uniform(-1, 3, 100), wide[wide > 1]])
    most = 709 if kind == "exp" else 1023
    return np.concatenate([rng.uniform(-most, most, 150), rng.uniform(-2, 2, 150), near - 1])


EXACTLY = {
    "log": lambda x: EXACT.ln(x),
    "log2": lambda x: EXACT.divide(EXACT.ln(x), EXACT.ln(Decimal(2))),
    "log1p": lambda x: EXACT.ln(EXACT.add(1, x)),
    "exp": lambda x: EXACT.exp(x),
    "exp2": lambda x: EXACT.exp(EXACT.multiply(x, EXACT.ln(Decimal(2)))),
}


@pytest.mark.parametrize("kind", list(EXACTLY))
def test_elementary_functions__are_correct_to_the_last_bit(kind):
    values = random_numbers(kind)
    found = getattr(elementary, f"{kind}_each")(values)
    for x, y in zip(values.tolist(), found.tolist(), strict=True):
        wanted = EXACTLY[kind](Decimal(x))
        assert abs(Decimal(y) - wanted) <= Decimal("0.502") * Decimal(math.ulp(float(wanted))), x
    assert getattr(elementary, kind)(values[0]) == found[0]


@pytest.mark.parametrize(
    "kind,x,wanted",
    [
        ("log", 0.0, -math.inf),
        ("log", 1.0, 0.0),
        ("log", -1.0, math.nan),
        ("log", math.inf, math.inf),
        ("log2", 2.0**-1074, -1074.0),
        ("log2", 8.0, 3.0),
        ("log1p", -1.0, -math.inf),
        ("log1p", 5e-324, 5e-324),
        ("log1p", math.inf, math.inf),
        ("exp", 710.0, math.inf),
        ("exp", 709.782712893384, 1.7976931348622732e308),
        ("exp", 709.7827128933841, math.inf),
        ("exp", -750.0, 0.0),
        ("exp", math.nan, math.nan),
        ("exp2", -1074.0, 5e-324),
        ("exp2", 1024.0, math.inf),
        ("exp2", 10.0, 1024.0),
    ],
)
def test_elementary_functions__at_the_edges(kind, x, wanted):
    assert getattr(elementary, kind)(x) == pytest.approx(wanted, rel=0, abs=0, nan_ok=True)


def test_powers__are_correctly_rounded():
    for base in (0.8, 0.95, 0.3, 1.0, 0.0):
        found = elementary.powers(base, 300)
        assert found.tolist() == [
            float(EXACT.power(Decimal(base), n)) if n else 1.0 for n in range(300)
        ]


def test_other_functions__equal_those_of_the_c_library():
    for x in (0.0, 1e-9, 0.3, 0.499, 0.5, 1.0, 1.9, 3.0, 10.0, 26.0, -0.7):
        assert elementary.erfc(x) == pytest.approx(math.erfc(x), rel=2e-15)
        assert elementary.atan(x * x * x) == pytest.approx(math.atan(x * x * x), rel=1e-15)
    assert normal_tail(1.959963984540054) == pytest.approx(0.05, rel=1e-15)
