# Written by `python -m tests.public_names`.

from fastrank_eval import integrations as integrations
from fastrank_eval import pytrec_eval as pytrec_eval
from fastrank_eval import spark as spark
from fastrank_eval import testing as testing
from fastrank_eval import trec as trec
from fastrank_eval._lib import __version__ as __version__
from fastrank_eval._lib.errors import ArgumentError as ArgumentError
from fastrank_eval._lib.errors import ColumnError as ColumnError
from fastrank_eval._lib.errors import FastRankEvalError as FastRankEvalError
from fastrank_eval._lib.errors import HistoryError as HistoryError
from fastrank_eval._lib.errors import MeasureError as MeasureError
from fastrank_eval._lib.errors import MergeError as MergeError
from fastrank_eval._lib.errors import OrderError as OrderError
from fastrank_eval._lib.errors import OutputError as OutputError
from fastrank_eval._lib.errors import SourceError as SourceError
from fastrank_eval._lib.errors import SparkError as SparkError
from fastrank_eval._lib.errors import SpillError as SpillError
from fastrank_eval._lib.errors import UndefinedError as UndefinedError
from fastrank_eval._lib.threads import Progress as Progress
from fastrank_eval.analysis.curve import BestThreshold as BestThreshold
from fastrank_eval.analysis.curve import best_threshold as best_threshold
from fastrank_eval.analysis.curve import confusion as confusion
from fastrank_eval.analysis.curve import curve as curve
from fastrank_eval.analysis.explain import explain as explain
from fastrank_eval.analysis.multiclass import ClassResult as ClassResult
from fastrank_eval.analysis.multiclass import evaluate_classes as evaluate_classes
from fastrank_eval.engine.records import MeasureValue as MeasureValue
from fastrank_eval.engine.records import Meta as Meta
from fastrank_eval.engine.state_file import Provenance as Provenance
from fastrank_eval.io.reader import open_source as open_source
from fastrank_eval.measures.auc import CumulativeGain as _CumulativeGain
from fastrank_eval.measures.auc import GiniCoefficient as _GiniCoefficient
from fastrank_eval.measures.auc import GroupedAUC as _GroupedAUC
from fastrank_eval.measures.auc import KolmogorovSmirnov as _KolmogorovSmirnov
from fastrank_eval.measures.auc import LiftAtDepth as _LiftAtDepth
from fastrank_eval.measures.auc import PooledAUC as _PooledAUC
from fastrank_eval.measures.average_precision import AveragePrecision as _AveragePrecision
from fastrank_eval.measures.average_precision import (
    AveragePrecisionOfRows as _AveragePrecisionOfRows,
)
from fastrank_eval.measures.average_precision import ElevenPointPrecision as _ElevenPointPrecision
from fastrank_eval.measures.average_precision import (
    GeometricAveragePrecision as _GeometricAveragePrecision,
)
from fastrank_eval.measures.average_precision import InterpolatedPrecision as _InterpolatedPrecision
from fastrank_eval.measures.average_precision import PrecisionRecallArea as _PrecisionRecallArea
from fastrank_eval.measures.average_precision import QMeasure as _QMeasure
from fastrank_eval.measures.base import Measure as Measure
from fastrank_eval.measures.base import register as register
from fastrank_eval.measures.calibration import BrierReliability as _BrierReliability
from fastrank_eval.measures.calibration import BrierResolution as _BrierResolution
from fastrank_eval.measures.calibration import BrierUncertainty as _BrierUncertainty
from fastrank_eval.measures.calibration import CalibrationFreeEntropy as _CalibrationFreeEntropy
from fastrank_eval.measures.calibration import (
    CumulativeCalibrationError as _CumulativeCalibrationError,
)
from fastrank_eval.measures.calibration import ExpectedCalibrationError as _ExpectedCalibrationError
from fastrank_eval.measures.calibration import FieldCalibrationError as _FieldCalibrationError
from fastrank_eval.measures.calibration import FieldRelativeError as _FieldRelativeError
from fastrank_eval.measures.calibration import MaximumCalibrationError as _MaximumCalibrationError
from fastrank_eval.measures.decisions import AccuracyAtThreshold as _AccuracyAtThreshold
from fastrank_eval.measures.decisions import (
    BalancedAccuracyAtThreshold as _BalancedAccuracyAtThreshold,
)
from fastrank_eval.measures.decisions import ErrorRateAtThreshold as _ErrorRateAtThreshold
from fastrank_eval.measures.decisions import FalseNegativeRate as _FalseNegativeRate
from fastrank_eval.measures.decisions import FalsePositiveRate as _FalsePositiveRate
from fastrank_eval.measures.decisions import FScoreAtThreshold as _FScoreAtThreshold
from fastrank_eval.measures.decisions import GroupDecision as _GroupDecision
from fastrank_eval.measures.decisions import MatthewsCorrelation as _MatthewsCorrelation
from fastrank_eval.measures.decisions import NegativePredictiveValue as _NegativePredictiveValue
from fastrank_eval.measures.decisions import PositivePredictiveValue as _PositivePredictiveValue
from fastrank_eval.measures.decisions import TrueNegativeRate as _TrueNegativeRate
from fastrank_eval.measures.decisions import TruePositiveRate as _TruePositiveRate
from fastrank_eval.measures.diversity import AlphaDCG as _AlphaDCG
from fastrank_eval.measures.diversity import AlphaNDCG as _AlphaNDCG
from fastrank_eval.measures.diversity import IntentAwareAP as _IntentAwareAP
from fastrank_eval.measures.diversity import IntentAwareERR as _IntentAwareERR
from fastrank_eval.measures.diversity import IntentAwarePrecision as _IntentAwarePrecision
from fastrank_eval.measures.diversity import NormalizedIntentAwareERR as _NormalizedIntentAwareERR
from fastrank_eval.measures.diversity import NormalizedNoveltyRBP as _NormalizedNoveltyRBP
from fastrank_eval.measures.diversity import NoveltyRBP as _NoveltyRBP
from fastrank_eval.measures.diversity import SubtopicRecall as _SubtopicRecall
from fastrank_eval.measures.gain import CumulatedGain as _CumulatedGain
from fastrank_eval.measures.gain import DiscountedGain as _DiscountedGain
from fastrank_eval.measures.gain import GainAtLevels as _GainAtLevels
from fastrank_eval.measures.gain import GainAtRelevantRows as _GainAtRelevantRows
from fastrank_eval.measures.gain import LaggingGain as _LaggingGain
from fastrank_eval.measures.gain import NormalizedGain as _NormalizedGain
from fastrank_eval.measures.judged import BinaryPreference as _BinaryPreference
from fastrank_eval.measures.judged import Compatibility as _Compatibility
from fastrank_eval.measures.judged import GeometricPreference as _GeometricPreference
from fastrank_eval.measures.judged import InferredAP as _InferredAP
from fastrank_eval.measures.judged import JudgedShare as _JudgedShare
from fastrank_eval.measures.judged import NonrelevantRetrieved as _NonrelevantRetrieved
from fastrank_eval.measures.judged import RBPResidual as _RBPResidual
from fastrank_eval.measures.judged import UnjudgedShare as _UnjudgedShare
from fastrank_eval.measures.likelihood import BrierScore as _BrierScore
from fastrank_eval.measures.likelihood import InformationGain as _InformationGain
from fastrank_eval.measures.likelihood import LogarithmicLoss as _LogarithmicLoss
from fastrank_eval.measures.likelihood import MeanAbsoluteError as _MeanAbsoluteError
from fastrank_eval.measures.likelihood import MeanBias as _MeanBias
from fastrank_eval.measures.likelihood import MeanSquaredError as _MeanSquaredError
from fastrank_eval.measures.likelihood import NormalizedEntropy as _NormalizedEntropy
from fastrank_eval.measures.likelihood import PositiveEntropy as _PositiveEntropy
from fastrank_eval.measures.likelihood import PredictedOverObserved as _PredictedOverObserved
from fastrank_eval.measures.likelihood import RootMeanSquaredError as _RootMeanSquaredError
from fastrank_eval.measures.multicalibration import MulticalibrationError as _MulticalibrationError
from fastrank_eval.measures.parser import measure as measure
from fastrank_eval.measures.parser import parse_measures as parse_measures
from fastrank_eval.measures.pooled import measure_of as measure_of
from fastrank_eval.measures.precision import BinaryLaggingGain as _BinaryLaggingGain
from fastrank_eval.measures.precision import FMeasure as _FMeasure
from fastrank_eval.measures.precision import HitCount as _HitCount
from fastrank_eval.measures.precision import Precision as _Precision
from fastrank_eval.measures.precision import Recall as _Recall
from fastrank_eval.measures.precision import ReciprocalRank as _ReciprocalRank
from fastrank_eval.measures.precision import RelativePrecision as _RelativePrecision
from fastrank_eval.measures.precision import RelevantRetrievedRows as _RelevantRetrievedRows
from fastrank_eval.measures.precision import RelevantRows as _RelevantRows
from fastrank_eval.measures.precision import RetrievedRows as _RetrievedRows
from fastrank_eval.measures.precision import RPrecision as _RPrecision
from fastrank_eval.measures.precision import SetAveragePrecision as _SetAveragePrecision
from fastrank_eval.measures.precision import SetUtility as _SetUtility
from fastrank_eval.measures.precision import SuccessRate as _SuccessRate
from fastrank_eval.measures.user_models import AdaptiveInverseSquare as _AdaptiveInverseSquare
from fastrank_eval.measures.user_models import BejeweledPlayer as _BejeweledPlayer
from fastrank_eval.measures.user_models import ExpectedReciprocalRank as _ExpectedReciprocalRank
from fastrank_eval.measures.user_models import InverseSquare as _InverseSquare
from fastrank_eval.measures.user_models import NearlyERR8 as _NearlyERR8
from fastrank_eval.measures.user_models import NearlyERR9 as _NearlyERR9
from fastrank_eval.measures.user_models import NearlyERR10 as _NearlyERR10
from fastrank_eval.measures.user_models import NearlyERR11 as _NearlyERR11
from fastrank_eval.measures.user_models import ProbabilityFound as _ProbabilityFound
from fastrank_eval.measures.user_models import RankBiasedPrecision as _RankBiasedPrecision
from fastrank_eval.measures.user_models import ScaledDiscountedGain as _ScaledDiscountedGain
from fastrank_eval.results.comparison import Comparison as Comparison
from fastrank_eval.results.curve_points import Curve as Curve
from fastrank_eval.results.differences import ComparedValue as ComparedValue
from fastrank_eval.results.differences import rela_impr as rela_impr
from fastrank_eval.results.evaluate import compare as compare
from fastrank_eval.results.evaluate import evaluate as evaluate
from fastrank_eval.results.evaluate import partial as partial
from fastrank_eval.results.gates import Gate as Gate
from fastrank_eval.results.gates import GateFailure as GateFailure
from fastrank_eval.results.gates import Verdict as Verdict
from fastrank_eval.results.gates import gate as gate
from fastrank_eval.results.result import Result as Result
from fastrank_eval.results.result import State as State
from fastrank_eval.results.state import load_state as load_state

AP: _AveragePrecision
AP_IA: _IntentAwareAP
AUC: _PooledAUC
Accuracy: _AccuracyAtThreshold
AvgPrec: _AveragePrecisionOfRows
BPM: _BejeweledPlayer
BalancedAccuracy: _BalancedAccuracyAtThreshold
Bias: _MeanBias
Brier: _BrierScore
CG: _CumulatedGain
CalFreeNE: _CalibrationFreeEntropy
Compat: _Compatibility
CumGain: _CumulativeGain
DCG: _DiscountedGain
ECCE: _CumulativeCalibrationError
ECE: _ExpectedCalibrationError
ERR: _ExpectedReciprocalRank
ERR_IA: _IntentAwareERR
ErrorRate: _ErrorRateAtThreshold
F: _FMeasure
FNR: _FalseNegativeRate
FPR: _FalsePositiveRate
FScore: _FScoreAtThreshold
FieldECE: _FieldCalibrationError
FieldRCE: _FieldRelativeError
G: _LaggingGain
GAUC: _GroupedAUC
GMAP: _GeometricAveragePrecision
GMbpref: _GeometricPreference
Gini: _GiniCoefficient
GroupAccuracy: _GroupDecision
GroupBalancedAccuracy: _GroupDecision
GroupErrorRate: _GroupDecision
GroupFNR: _GroupDecision
GroupFPR: _GroupDecision
GroupFScore: _GroupDecision
GroupMCC: _GroupDecision
GroupNPV: _GroupDecision
GroupPPV: _GroupDecision
GroupTNR: _GroupDecision
GroupTPR: _GroupDecision
HR: _SuccessRate
Hits: _HitCount
INSQ: _InverseSquare
INST: _AdaptiveInverseSquare
IPrec11: _ElevenPointPrecision
IPrec: _InterpolatedPrecision
Judged: _JudgedShare
KS: _KolmogorovSmirnov
Lift: _LiftAtDepth
LogLoss: _LogarithmicLoss
MAE: _MeanAbsoluteError
MAP: _AveragePrecision
MCC: _MatthewsCorrelation
MCE: _MaximumCalibrationError
MRR: _ReciprocalRank
MSE: _MeanSquaredError
MultiECCE: _MulticalibrationError
NDCG: _NormalizedGain
NE: _NormalizedEntropy
NEPos: _PositiveEntropy
NERR10: _NearlyERR10
NERR11: _NearlyERR11
NERR8: _NearlyERR8
NERR9: _NearlyERR9
NPV: _NegativePredictiveValue
NRBP: _NoveltyRBP
NumNonrelRet: _NonrelevantRetrieved
NumRel: _RelevantRows
NumRelRet: _RelevantRetrievedRows
NumRet: _RetrievedRows
P: _Precision
PCOC: _PredictedOverObserved
PPV: _PositivePredictiveValue
PRAUC: _PrecisionRecallArea
P_IA: _IntentAwarePrecision
Precision: _Precision
Q: _QMeasure
R: _Recall
RBP: _RankBiasedPrecision
RBPres: _RBPResidual
RIG: _InformationGain
RMSE: _RootMeanSquaredError
RR: _ReciprocalRank
Recall: _Recall
RelP: _RelativePrecision
Reliability: _BrierReliability
Resolution: _BrierResolution
RnDCG: _GainAtLevels
Rprec: _RPrecision
SDCG: _ScaledDiscountedGain
SetAP: _SetAveragePrecision
StRecall: _SubtopicRecall
Success: _SuccessRate
TNR: _TrueNegativeRate
TPR: _TruePositiveRate
Uncertainty: _BrierUncertainty
Unjudged: _UnjudgedShare
Utility: _SetUtility
alpha_DCG: _AlphaDCG
alpha_nDCG: _AlphaNDCG
binG: _BinaryLaggingGain
bpref: _BinaryPreference
infAP: _InferredAP
nDCG: _NormalizedGain
nDCGrel: _GainAtRelevantRows
nERR_IA: _NormalizedIntentAwareERR
nNRBP: _NormalizedNoveltyRBP
pFound: _ProbabilityFound

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
    "HR",
    "INSQ",
    "INST",
    "KS",
    "MAE",
    "MAP",
    "MCC",
    "MCE",
    "MRR",
    "MSE",
    "NDCG",
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
    "CalFreeNE",
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
    "Hits",
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
    "MultiECCE",
    "NEPos",
    "NumNonrelRet",
    "NumRel",
    "NumRelRet",
    "NumRet",
    "OrderError",
    "OutputError",
    "P",
    "Precision",
    "Progress",
    "Provenance",
    "Q",
    "R",
    "RBPres",
    "Recall",
    "RelP",
    "Reliability",
    "Resolution",
    "Result",
    "RnDCG",
    "Rprec",
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
    "integrations",
    "load_state",
    "measure",
    "measure_of",
    "nDCG",
    "nDCGrel",
    "nERR_IA",
    "nNRBP",
    "open_source",
    "pFound",
    "parse_measures",
    "partial",
    "pytrec_eval",
    "register",
    "rela_impr",
    "spark",
    "testing",
    "trec",
]
