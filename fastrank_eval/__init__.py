"""Evaluation of ad click prediction, search and recommendation.

Columns in (Arrow, Parquet, CSV, pandas, polars, NumPy), exact numbers out::

    import fastrank_eval as fe

    result = fe.evaluate(
        "impressions.parquet", group="user_id", label="click", score="score_a",
        measures=[fe.GAUC, fe.nDCG @ 10],
    )

Importing this package loads nothing heavy: each public name is imported when it is first used.
``__init__.pyi`` lists them all.
"""

from __future__ import annotations

from importlib import import_module

from fastrank_eval._lib.version import __version__ as __version__

TYPE_CHECKING = False  # importing typing would be most of the time that this package takes
if TYPE_CHECKING:
    from typing import Any

#: Public names by the file that defines them; every other public name is a measure.
_FILES = {
    "_lib.errors": (
        "ArgumentError ColumnError FastRankEvalError HistoryError MeasureError MergeError "
        "OrderError OutputError SourceError SparkError SpillError UndefinedError"
    ),
    "_lib.progress": "Progress",
    "analysis.attribution": "rela_impr",
    "analysis.compare": "compare",
    "analysis.compared_value": "ComparedValue",
    "analysis.comparison": "Comparison",
    "analysis.curve": "Curve curve",
    "analysis.explain": "explain",
    "analysis.multiclass": "ClassResult evaluate_classes",
    "analysis.thresholds": "BestThreshold best_threshold confusion",
    "engine.records": "MeasureValue Meta",
    "engine.state_file": "Provenance",
    "io": "open_source",
    "results.evaluate": "evaluate",
    "results.gates": "Gate GateFailure Verdict gate",
    "results.partial": "partial",
    "results.result": "Result",
    "results.state": "State load_state",
}
_HOMES = {name: file for file, names in _FILES.items() for name in names.split()}
_MODULES = ("integrations", "spark", "trec")
_MEASURES = f"{__name__}.measures"
#: Names of `measures` for those who write one.
_INTERNAL = {"Param", "registry"}


def __getattr__(name: str) -> Any:
    """Import a public name from the file that defines it, once."""
    if name == "__all__":
        measures = {*import_module(_MEASURES).__all__} - _INTERNAL
        return sorted({*_HOMES, *_MODULES, *measures, "__version__"})
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = f"{__name__}.{_HOMES[name]}" if name in _HOMES else _MEASURES
    module = import_module(home)
    if home == _MEASURES and (name in _INTERNAL or name not in module.__all__):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(module, name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__getattr__("__all__")})
