"""Evaluation of ad click prediction, search and recommendation.

Columns in (Arrow, Parquet, CSV, pandas, polars, NumPy), exact numbers out::

    import fastrank_eval as fe

    result = fe.evaluate(
        "impressions.parquet", group="user_id", label="click", score="pctr",
        measures=[fe.GAUC, fe.nDCG @ 10],
    )

Importing this package loads nothing heavy: each public name is imported when it is first used.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fastrank_eval import neighbours, trec
    from fastrank_eval.class_result import ClassResult
    from fastrank_eval.classes import evaluate_classes
    from fastrank_eval.curves import Curve, curve
    from fastrank_eval.errors import (
        ArgumentError,
        ColumnError,
        FastRankEvalError,
        MeasureError,
        OrderError,
        OutputError,
        SourceError,
        SpillError,
        UndefinedError,
    )
    from fastrank_eval.evaluate import evaluate
    from fastrank_eval.explanation import explain
    from fastrank_eval.measures import (
        AP,
        AP_IA,
        AUC,
        BPM,
        CG,
        DCG,
        ERR,
        ERR_IA,
        FNR,
        FPR,
        GAUC,
        GMAP,
        INSQ,
        INST,
        KS,
        MCC,
        NE,
        NERR8,
        NERR9,
        NERR10,
        NERR11,
        NPV,
        NRBP,
        P_IA,
        PPV,
        PRAUC,
        RBP,
        RIG,
        RR,
        SDCG,
        TNR,
        TPR,
        Accuracy,
        AvgPrec,
        BalancedAccuracy,
        Compat,
        CumGain,
        ErrorRate,
        F,
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
        RelP,
        RnDCG,
        Rprec,
        SetAP,
        StRecall,
        Success,
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
    from fastrank_eval.progress import Progress
    from fastrank_eval.relative_improvement import rela_impr
    from fastrank_eval.result import MeasureValue, Meta, Result
    from fastrank_eval.sources import open_source
    from fastrank_eval.thresholds import BestThreshold, best_threshold, confusion

__version__ = "0.1.0"

_ERRORS = "fastrank_eval.errors"
_MEASURES = "fastrank_eval.measures"
_RESULT = "fastrank_eval.result"

_MODULES = {"neighbours", "trec"}
_HOME = {
    "AP_IA": _MEASURES,
    "P_IA": _MEASURES,
    "StRecall": _MEASURES,
    "ERR_IA": _MEASURES,
    "NRBP": _MEASURES,
    "alpha_DCG": _MEASURES,
    "alpha_nDCG": _MEASURES,
    "nERR_IA": _MEASURES,
    "nNRBP": _MEASURES,
    "AP": _MEASURES,
    "AUC": _MEASURES,
    "BPM": _MEASURES,
    "CG": _MEASURES,
    "DCG": _MEASURES,
    "ERR": _MEASURES,
    "GAUC": _MEASURES,
    "INSQ": _MEASURES,
    "INST": _MEASURES,
    "KS": _MEASURES,
    "NE": _MEASURES,
    "NERR8": _MEASURES,
    "NERR9": _MEASURES,
    "NERR10": _MEASURES,
    "NERR11": _MEASURES,
    "PRAUC": _MEASURES,
    "RBP": _MEASURES,
    "GMAP": _MEASURES,
    "RR": _MEASURES,
    "SDCG": _MEASURES,
    "ArgumentError": _ERRORS,
    "ClassResult": "fastrank_eval.class_result",
    "ColumnError": _ERRORS,
    "AvgPrec": _MEASURES,
    "Compat": _MEASURES,
    "Curve": "fastrank_eval.curves",
    "F": _MEASURES,
    "FastRankEvalError": _ERRORS,
    "Judged": _MEASURES,
    "LogLoss": _MEASURES,
    "PPV": _MEASURES,
    "NPV": _MEASURES,
    "TPR": _MEASURES,
    "FNR": _MEASURES,
    "TNR": _MEASURES,
    "FPR": _MEASURES,
    "FScore": _MEASURES,
    "Accuracy": _MEASURES,
    "ErrorRate": _MEASURES,
    "BalancedAccuracy": _MEASURES,
    "MCC": _MEASURES,
    "GroupPPV": _MEASURES,
    "GroupNPV": _MEASURES,
    "GroupTPR": _MEASURES,
    "GroupFNR": _MEASURES,
    "GroupTNR": _MEASURES,
    "GroupFPR": _MEASURES,
    "GroupFScore": _MEASURES,
    "GroupAccuracy": _MEASURES,
    "GroupErrorRate": _MEASURES,
    "GroupBalancedAccuracy": _MEASURES,
    "GroupMCC": _MEASURES,
    "CumGain": _MEASURES,
    "Lift": _MEASURES,
    "G": _MEASURES,
    "GMbpref": _MEASURES,
    "Gini": _MEASURES,
    "IPrec": _MEASURES,
    "IPrec11": _MEASURES,
    "Measure": _MEASURES,
    "MeasureError": _ERRORS,
    "MeasureValue": _RESULT,
    "Meta": _RESULT,
    "NumNonrelRet": _MEASURES,
    "NumRel": _MEASURES,
    "NumRelRet": _MEASURES,
    "NumRet": _MEASURES,
    "OrderError": _ERRORS,
    "OutputError": _ERRORS,
    "P": _MEASURES,
    "Q": _MEASURES,
    "Progress": "fastrank_eval.progress",
    "R": _MEASURES,
    "RBPres": _MEASURES,
    "RIG": _MEASURES,
    "RelP": _MEASURES,
    "Result": _RESULT,
    "RnDCG": _MEASURES,
    "Rprec": _MEASURES,
    "SetAP": _MEASURES,
    "SourceError": _ERRORS,
    "SpillError": _ERRORS,
    "Success": _MEASURES,
    "UndefinedError": _ERRORS,
    "Unjudged": _MEASURES,
    "bpref": _MEASURES,
    "Utility": _MEASURES,
    "binG": _MEASURES,
    "curve": "fastrank_eval.curves",
    "evaluate": "fastrank_eval.evaluate",
    "evaluate_classes": "fastrank_eval.classes",
    "explain": "fastrank_eval.explanation",
    "infAP": _MEASURES,
    "measure": _MEASURES,
    "nDCG": _MEASURES,
    "nDCGrel": _MEASURES,
    "neighbours": "fastrank_eval.neighbours",
    "open_source": "fastrank_eval.sources",
    "BestThreshold": "fastrank_eval.thresholds",
    "best_threshold": "fastrank_eval.thresholds",
    "confusion": "fastrank_eval.thresholds",
    "pFound": _MEASURES,
    "parse_measures": _MEASURES,
    "rela_impr": "fastrank_eval.relative_improvement",
    "trec": "fastrank_eval.trec",
}

__all__ = [
    "AP",
    "AP_IA",
    "AUC",
    "BPM",
    "CG",
    "DCG",
    "ERR",
    "ERR_IA",
    "FNR",
    "FPR",
    "GAUC",
    "GMAP",
    "INSQ",
    "INST",
    "KS",
    "MCC",
    "NE",
    "NERR8",
    "NERR9",
    "NERR10",
    "NERR11",
    "NPV",
    "NRBP",
    "PPV",
    "PRAUC",
    "P_IA",
    "RBP",
    "RIG",
    "RR",
    "SDCG",
    "TNR",
    "TPR",
    "Accuracy",
    "ArgumentError",
    "AvgPrec",
    "BalancedAccuracy",
    "BestThreshold",
    "ClassResult",
    "ColumnError",
    "Compat",
    "CumGain",
    "Curve",
    "ErrorRate",
    "F",
    "FScore",
    "FastRankEvalError",
    "G",
    "GMbpref",
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
    "IPrec",
    "IPrec11",
    "Judged",
    "Lift",
    "LogLoss",
    "Measure",
    "MeasureError",
    "MeasureValue",
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
    "Result",
    "RnDCG",
    "Rprec",
    "SetAP",
    "SourceError",
    "SpillError",
    "StRecall",
    "Success",
    "UndefinedError",
    "Unjudged",
    "Utility",
    "__version__",
    "alpha_DCG",
    "alpha_nDCG",
    "best_threshold",
    "binG",
    "bpref",
    "confusion",
    "curve",
    "evaluate",
    "evaluate_classes",
    "explain",
    "infAP",
    "measure",
    "nDCG",
    "nDCGrel",
    "nERR_IA",
    "nNRBP",
    "neighbours",
    "open_source",
    "pFound",
    "parse_measures",
    "rela_impr",
    "trec",
]


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


sys.modules[__name__].__class__ = _Package
