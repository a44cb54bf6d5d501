"""Evaluate ad click prediction, search and recommendation.

The input is columns (Arrow, Parquet, CSV, pandas, polars, NumPy), the output exact numbers::

    import fastrank_eval as fe

    result = fe.evaluate(
        "impressions.parquet", group="user_id", label="click", score="score_a",
        measures=[fe.GAUC, fe.nDCG @ 10],
    )

The import of this package loads no heavy library: each public name is imported at first use.
``__init__.pyi`` lists all names.
"""

from __future__ import annotations

import sys
from importlib import import_module

from fastrank_eval._lib import __version__ as __version__

if not getattr(sys, "_is_gil_enabled", lambda: True)():
    raise ImportError(
        "fastrank_eval needs Python's global interpreter lock (GIL), got a free-threaded build "
        "without it; set PYTHON_GIL=1, or use another build."
    )

TYPE_CHECKING = False  # the import of typing would take most of the import time of this package
if TYPE_CHECKING:
    from typing import Any

#: Public names by the file that defines them; every other public name is a measure.
_FILES = {
    "_lib.errors": (
        "ArgumentError ColumnError FastRankEvalError HistoryError MeasureError MergeError "
        "OrderError OutputError SourceError SparkError SpillError UndefinedError"
    ),
    "_lib.threads": "Progress",
    "results.differences": "ComparedValue rela_impr",
    "results.comparison": "Comparison",
    "analysis.curve": "BestThreshold best_threshold confusion curve",
    "results.curve_points": "Curve",
    "analysis.explain": "explain",
    "analysis.multiclass": "ClassResult evaluate_classes",
    "engine.records": "MeasureValue Meta",
    "engine.state_file": "Provenance",
    "io.reader": "open_source",
    "measures.base": "Measure register",
    "measures.parser": "measure parse_measures",
    "measures.pooled": "measure_of",
    "results.evaluate": "compare evaluate partial",
    "results.gates": "Gate GateFailure Verdict gate",
    "results.result": "Result State",
    "results.state": "load_state",
}
_FILE_OF = {name: file for file, names in _FILES.items() for name in names.split()}
#: Names of other tools for measures, as `measure` reads them.
_ALIASES = ("HR", "MAP", "MRR", "NDCG", "Precision", "Recall")
_MODULES = ("integrations", "pytrec_eval", "spark", "testing", "trec")


def __getattr__(name: str) -> Any:
    """Import a public name from the file that defines it, once."""
    if name == "__all__":
        return sorted({*_FILE_OF, *_MODULES, *_ALIASES, *_measures(), "__version__"})
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    if name in _FILE_OF:
        value = getattr(import_module(f"{__name__}.{_FILE_OF[name]}"), name)
    elif name in _ALIASES:
        value = import_module(f"{__name__}.measures").measure(name)
    elif name.startswith("__") or name not in _measures():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    else:
        value = _measures()[name]
    globals()[name] = value
    return value


def _measures() -> dict[str, Any]:
    measures: dict[str, Any] = import_module(f"{__name__}.measures").MEASURES
    return measures


def __dir__() -> list[str]:
    return sorted({*globals(), *__getattr__("__all__")})
