"""Evaluation of ad click prediction, search and recommendation.

Columns in (Arrow, Parquet, CSV, pandas, polars, NumPy), exact numbers out::

    import fastrank_eval as fe

    result = fe.evaluate(
        "impressions.parquet", group="user_id", label="click", score="score_a",
        measures=[fe.GAUC, fe.nDCG @ 10],
    )

Importing this package loads nothing heavy: each public name is imported when it is first used.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType

TYPE_CHECKING = False  # importing typing would be most of the time that this package takes
if TYPE_CHECKING:
    from typing import Any

    from fastrank_eval import neighbours, spark, trec
    from fastrank_eval.class_result import ClassResult
    from fastrank_eval.classes import evaluate_classes
    from fastrank_eval.comparison.compared_value import ComparedValue
    from fastrank_eval.comparison.comparing import compare
    from fastrank_eval.comparison.comparison import Comparison
    from fastrank_eval.curves import Curve, curve
    from fastrank_eval.errors import (
        ArgumentError,
        ColumnError,
        FastRankEvalError,
        HistoryError,
        MeasureError,
        MergeError,
        OrderError,
        OutputError,
        SourceError,
        SparkError,
        SpillError,
        UndefinedError,
    )
    from fastrank_eval.evaluate import evaluate
    from fastrank_eval.explanation import explain
    from fastrank_eval.gates import Gate, GateFailure, Verdict, gate
    from fastrank_eval.measure_value import MeasureValue
    from fastrank_eval.measures import (
        AP,
        AP_IA,
        AUC,
        BPM,
        CG,
        DCG,
        ECCE,
        ECE,
        ERR,
        ERR_IA,
        FNR,
        FPR,
        GAUC,
        GMAP,
        INSQ,
        INST,
        KS,
        MAE,
        MCC,
        MCE,
        MSE,
        NE,
        NERR8,
        NERR9,
        NERR10,
        NERR11,
        NPV,
        NRBP,
        P_IA,
        PCOC,
        PPV,
        PRAUC,
        RBP,
        RIG,
        RMSE,
        RR,
        SDCG,
        TNR,
        TPR,
        Accuracy,
        AvgPrec,
        BalancedAccuracy,
        Bias,
        Brier,
        Compat,
        CumGain,
        ErrorRate,
        F,
        FieldECE,
        FieldRCE,
        FScore,
        G,
        Gini,
        GMbpref,
        GroupAccuracy,
        GroupBalancedAccuracy,
        GroupErrorRate,
        GroupFNR,
        GroupFPR,
        GroupFScore,
        GroupMCC,
        GroupNPV,
        GroupPPV,
        GroupTNR,
        GroupTPR,
        IPrec,
        IPrec11,
        Judged,
        Lift,
        LogLoss,
        Measure,
        NumNonrelRet,
        NumRel,
        NumRelRet,
        NumRet,
        P,
        Q,
        R,
        RBPres,
        Reliability,
        RelP,
        Resolution,
        RnDCG,
        Rprec,
        SetAP,
        StRecall,
        Success,
        Uncertainty,
        Unjudged,
        Utility,
        alpha_DCG,
        alpha_nDCG,
        binG,
        bpref,
        infAP,
        measure,
        nDCG,
        nDCGrel,
        nERR_IA,
        nNRBP,
        parse_measures,
        pFound,
    )
    from fastrank_eval.meta import Meta
    from fastrank_eval.partitions import partial
    from fastrank_eval.progress import Progress
    from fastrank_eval.relative_improvement import rela_impr
    from fastrank_eval.result import Result
    from fastrank_eval.saved_states import State, load_state
    from fastrank_eval.sources import open_source
    from fastrank_eval.thresholds import BestThreshold, best_threshold, confusion

__version__ = "0.1.0"

__all__ = [
    "AP",
    "AP_IA",
    "AUC",
    "BPM",
    "CG",
    "DCG",
    "ECCE",
    "ECE",
    "ERR",
    "ERR_IA",
    "FNR",
    "FPR",
    "GAUC",
    "GMAP",
    "INSQ",
    "INST",
    "KS",
    "MAE",
    "MCC",
    "MCE",
    "MSE",
    "NE",
    "NERR8",
    "NERR9",
    "NERR10",
    "NERR11",
    "NPV",
    "NRBP",
    "PCOC",
    "PPV",
    "PRAUC",
    "P_IA",
    "RBP",
    "RIG",
    "RMSE",
    "RR",
    "SDCG",
    "TNR",
    "TPR",
    "Accuracy",
    "ArgumentError",
    "AvgPrec",
    "BalancedAccuracy",
    "BestThreshold",
    "Bias",
    "Brier",
    "ClassResult",
    "ColumnError",
    "ComparedValue",
    "Comparison",
    "Compat",
    "CumGain",
    "Curve",
    "ErrorRate",
    "F",
    "FScore",
    "FastRankEvalError",
    "FieldECE",
    "FieldRCE",
    "G",
    "GMbpref",
    "Gate",
    "GateFailure",
    "Gini",
    "GroupAccuracy",
    "GroupBalancedAccuracy",
    "GroupErrorRate",
    "GroupFNR",
    "GroupFPR",
    "GroupFScore",
    "GroupMCC",
    "GroupNPV",
    "GroupPPV",
    "GroupTNR",
    "GroupTPR",
    "HistoryError",
    "IPrec",
    "IPrec11",
    "Judged",
    "Lift",
    "LogLoss",
    "Measure",
    "MeasureError",
    "MeasureValue",
    "MergeError",
    "Meta",
    "NumNonrelRet",
    "NumRel",
    "NumRelRet",
    "NumRet",
    "OrderError",
    "OutputError",
    "P",
    "Progress",
    "Q",
    "R",
    "RBPres",
    "RelP",
    "Reliability",
    "Resolution",
    "Result",
    "RnDCG",
    "Rprec",
    "Seen",
    "SetAP",
    "SourceError",
    "SparkError",
    "SpillError",
    "StRecall",
    "State",
    "Success",
    "Uncertainty",
    "UndefinedError",
    "Unjudged",
    "Utility",
    "Verdict",
    "__version__",
    "alpha_DCG",
    "alpha_nDCG",
    "best_threshold",
    "binG",
    "bpref",
    "compare",
    "confusion",
    "curve",
    "evaluate",
    "evaluate_classes",
    "explain",
    "gate",
    "infAP",
    "load_state",
    "measure",
    "nDCG",
    "nDCGrel",
    "nERR_IA",
    "nNRBP",
    "neighbours",
    "open_source",
    "pFound",
    "parse_measures",
    "partial",
    "rela_impr",
    "spark",
    "trec",
]

_ERRORS = "fastrank_eval.errors"
_GATES = "fastrank_eval.gates"
_STATES = "fastrank_eval.saved_states"
_THRESHOLDS = "fastrank_eval.thresholds"

_MODULES = {"neighbours", "spark", "trec"}
#: Where each public name is defined: among the measures, but for these.
_HOME = dict.fromkeys(__all__, "fastrank_eval.measures") | {
    "ArgumentError": _ERRORS,
    "BestThreshold": _THRESHOLDS,
    "ClassResult": "fastrank_eval.class_result",
    "ColumnError": _ERRORS,
    "ComparedValue": "fastrank_eval.comparison.compared_value",
    "Comparison": "fastrank_eval.comparison.comparison",
    "Curve": "fastrank_eval.curves",
    "FastRankEvalError": _ERRORS,
    "Gate": _GATES,
    "GateFailure": _GATES,
    "HistoryError": _ERRORS,
    "MeasureError": _ERRORS,
    "MergeError": _ERRORS,
    "MeasureValue": "fastrank_eval.measure_value",
    "Meta": "fastrank_eval.meta",
    "OrderError": _ERRORS,
    "OutputError": _ERRORS,
    "Progress": "fastrank_eval.progress",
    "Result": "fastrank_eval.result",
    "Seen": "fastrank_eval.state_header",
    "SourceError": _ERRORS,
    "SparkError": _ERRORS,
    "SpillError": _ERRORS,
    "State": _STATES,
    "UndefinedError": _ERRORS,
    "Verdict": _GATES,
    "best_threshold": _THRESHOLDS,
    "compare": "fastrank_eval.comparison.comparing",
    "confusion": _THRESHOLDS,
    "curve": "fastrank_eval.curves",
    "evaluate": "fastrank_eval.evaluate",
    "evaluate_classes": "fastrank_eval.classes",
    "explain": "fastrank_eval.explanation",
    "gate": _GATES,
    "load_state": _STATES,
    "neighbours": "fastrank_eval.neighbours",
    "spark": "fastrank_eval.spark",
    "open_source": "fastrank_eval.sources",
    "partial": "fastrank_eval.partitions",
    "rela_impr": "fastrank_eval.relative_improvement",
    "trec": "fastrank_eval.trec",
}


def __getattr__(name: str) -> Any:
    """Import a public name from the file that holds it, once."""
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(home)
    value = module if name in _MODULES else getattr(module, name)
    if name != "evaluate":
        globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


class _Package(ModuleType):
    """Keeps ``fastrank_eval.evaluate`` the function.

    Importing the file ``evaluate.py`` binds the *module* under that name in its package; without
    this, whether ``fastrank_eval.evaluate(...)`` works would hang on who imported what first.
    """

    @property
    def evaluate(self) -> Any:
        return __getattr__("evaluate")

    @evaluate.setter
    def evaluate(self, _module: ModuleType) -> None:
        return

    def __reduce__(self) -> tuple[Any, ...]:
        # Functions that name the package travel to the workers of engines.
        return import_module, (self.__name__,)


sys.modules[__name__].__class__ = _Package
