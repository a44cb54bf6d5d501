"""The measures, each a declaration with its kernel beside it."""

from fastrank_eval.measures.auc import GAUC
from fastrank_eval.measures.average_precision import AP, GMAP
from fastrank_eval.measures.averaged_gain import RnDCG, nDCGrel
from fastrank_eval.measures.base import Measure, Param, registry
from fastrank_eval.measures.blended_ratio import Q
from fastrank_eval.measures.brier_parts import Reliability, Resolution, Uncertainty
from fastrank_eval.measures.calibration_error import ECE, MCE
from fastrank_eval.measures.cascade import ERR, pFound
from fastrank_eval.measures.compatibility import Compat
from fastrank_eval.measures.cumulative_calibration import ECCE
from fastrank_eval.measures.decisions import (
    FNR,
    FPR,
    MCC,
    NPV,
    PPV,
    TNR,
    TPR,
    Accuracy,
    BalancedAccuracy,
    ErrorRate,
    FScore,
)
from fastrank_eval.measures.deviation import MAE, MSE, RMSE, Brier
from fastrank_eval.measures.field_calibration import FieldECE, FieldRCE
from fastrank_eval.measures.gain import CG, DCG, nDCG
from fastrank_eval.measures.gain_stopping import BPM, NERR8, NERR9, NERR10, NERR11
from fastrank_eval.measures.group_decisions import (
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
)
from fastrank_eval.measures.hits import F, P, R, RelP, Rprec, Success
from fastrank_eval.measures.intents import AP_IA, P_IA, StRecall
from fastrank_eval.measures.interpolated import IPrec, IPrec11
from fastrank_eval.measures.inverse_square import INSQ, INST
from fastrank_eval.measures.judged import (
    GMbpref,
    Judged,
    NumNonrelRet,
    Unjudged,
    bpref,
    infAP,
)
from fastrank_eval.measures.lag import G, binG
from fastrank_eval.measures.lift import CumGain, Lift
from fastrank_eval.measures.likelihood import NE, RIG, LogLoss
from fastrank_eval.measures.mean_prediction import PCOC, Bias
from fastrank_eval.measures.novelty import ERR_IA, NRBP, alpha_DCG, alpha_nDCG, nERR_IA, nNRBP
from fastrank_eval.measures.pooled_auc import AUC
from fastrank_eval.measures.precision_recall import PRAUC, AvgPrec
from fastrank_eval.measures.reciprocal_rank import RR
from fastrank_eval.measures.residual import RBPres
from fastrank_eval.measures.roc_distance import KS, Gini
from fastrank_eval.measures.sets import NumRel, NumRelRet, NumRet, SetAP, Utility
from fastrank_eval.measures.text import measure, parse_measures
from fastrank_eval.measures.user_models import RBP, SDCG

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
    "AvgPrec",
    "BalancedAccuracy",
    "Bias",
    "Brier",
    "Compat",
    "CumGain",
    "ErrorRate",
    "F",
    "FScore",
    "FieldECE",
    "FieldRCE",
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
    "NumNonrelRet",
    "NumRel",
    "NumRelRet",
    "NumRet",
    "P",
    "Param",
    "Q",
    "R",
    "RBPres",
    "RelP",
    "Reliability",
    "Resolution",
    "RnDCG",
    "Rprec",
    "SetAP",
    "StRecall",
    "Success",
    "Uncertainty",
    "Unjudged",
    "Utility",
    "alpha_DCG",
    "alpha_nDCG",
    "binG",
    "bpref",
    "infAP",
    "measure",
    "nDCG",
    "nDCGrel",
    "nERR_IA",
    "nNRBP",
    "pFound",
    "parse_measures",
    "registry",
]
