"""Write the PSI and KS of Evidently as a fixture.

Evidently cannot be installed beside the pinned pandas, so no run of the tests has it. To write the
file anew, from the root of the repository:

    python -m venv build/evidently
    build/evidently/bin/pip install evidently "pandas<3"
    build/evidently/bin/python -m tests.golden_evidently
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

GOLDEN = Path(__file__).parent / "fixtures" / "evidently.json"


def main() -> None:
    """Write the numbers of all cases, and the versions that they are from."""
    tools = ("evidently", "numpy", "pandas", "scipy")
    golden = {
        "versions": {name: version(name) for name in tools},
        "few_values": list(few_values()),
        "many_values": list(many_values()),
    }
    text = json.dumps(golden).replace("}, ", "},\n").replace(": [{", ": [\n{")
    GOLDEN.write_text(text + "\n", encoding="utf-8")


def few_values() -> Iterator[dict[str, Any]]:
    """Yield values with their rows, and both distances."""
    for levels in (1, 2, 5, 20):
        for rows in (30, 1000, 200_000):
            rng = np.random.default_rng(levels * rows)
            reference, other = (
                rng.binomial(many - 1, 0.2 + 0.3 * rng.random(), count) / 32
                for many, count in ((levels, 5 * rows), (levels + 2, rows))
            )
            yield {
                "reference": _rows_by_value(reference),
                "other": _rows_by_value(other),
                "psi": _psi(reference, other),
                "ks": _ks(reference, other),
            }


def many_values() -> Iterator[dict[str, Any]]:
    """Yield rows in the bins of Evidently, and its PSI."""
    for shift in (0.0, 0.1, 2.0):
        rng = np.random.default_rng(9)
        reference, other = rng.normal(-3, 1, 50_000), rng.normal(shift - 3, 1.2, 4000)
        edges = np.histogram_bin_edges(np.append(reference, other), "sturges")
        counts = [np.histogram(each, edges)[0].tolist() for each in (reference, other)]
        yield {"reference": counts[0], "other": counts[1], "psi": _psi(reference, other)}


def _rows_by_value(values: np.ndarray) -> list[list[float]]:
    return [[value, int(np.sum(values == value))] for value in np.unique(values).tolist()]


def _psi(reference: np.ndarray, other: np.ndarray) -> float:
    from evidently.legacy.calculations.stattests import psi_stat_test

    return _call(psi_stat_test, reference, other)


def _ks(reference: np.ndarray, other: np.ndarray) -> float:
    """Compute the statistic of the test whose p-value Evidently reports."""
    from evidently.legacy.calculations.stattests import ks_stat_test
    from scipy.stats import ks_2samp

    result = ks_2samp(reference, other)
    assert _call(ks_stat_test, reference, other) == result.pvalue
    return float(result.statistic)


def _call(test: Any, reference: np.ndarray, other: np.ndarray) -> float:
    import pandas as pd
    from evidently.legacy.core import ColumnType

    both = (pd.Series(each) for each in (reference, other))
    return float(test.func(*both, ColumnType.Numerical, 0.1)[0])


if __name__ == "__main__":
    main()
