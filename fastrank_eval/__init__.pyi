# Written by `python -m tests.public_names`.

from fastrank_eval import integrations as integrations
from fastrank_eval import spark as spark
from fastrank_eval import trec as trec
from fastrank_eval._lib import __version__ as __version__
from fastrank_eval._lib.errors import (
    ArgumentError as ArgumentError,
)
from fastrank_eval._lib.errors import (
    ColumnError as ColumnError,
)
from fastrank_eval._lib.errors import (
    FastRankEvalError as FastRankEvalError,
)
from fastrank_eval._lib.errors import (
    HistoryError as HistoryError,
)
from fastrank_eval._lib.errors import (
    MeasureError as MeasureError,
)
from fastrank_eval._lib.errors import (
    MergeError as MergeError,
)
from fastrank_eval._lib.errors import (
    OrderError as OrderError,
)
from fastrank_eval._lib.errors import (
    OutputError as OutputError,
)
from fastrank_eval._lib.errors import (
    SourceError as SourceError,
)
from fastrank_eval._lib.errors import (
    SparkError as SparkError,
)
from fastrank_eval._lib.errors import (
    SpillError as SpillError,
)
from fastrank_eval._lib.errors import (
    UndefinedError as UndefinedError,
)
from fastrank_eval._lib.threads import (
    Progress as Progress,
)
from fastrank_eval.analysis.attribution import (
    rela_impr as rela_impr,
)
from fastrank_eval.analysis.compare import (
    compare as compare,
)
from fastrank_eval.analysis.compared_value import (
    ComparedValue as ComparedValue,
)
from fastrank_eval.analysis.comparison import (
    Comparison as Comparison,
)
from fastrank_eval.analysis.curve import (
    Curve as Curve,
)
from fastrank_eval.analysis.curve import (
    curve as curve,
)
from fastrank_eval.analysis.explain import (
    explain as explain,
)
from fastrank_eval.analysis.multiclass import (
    ClassResult as ClassResult,
)
from fastrank_eval.analysis.multiclass import (
    evaluate_classes as evaluate_classes,
)
from fastrank_eval.analysis.thresholds import (
    BestThreshold as BestThreshold,
)
from fastrank_eval.analysis.thresholds import (
    best_threshold as best_threshold,
)
from fastrank_eval.analysis.thresholds import (
    confusion as confusion,
)
from fastrank_eval.engine.records import (
    MeasureValue as MeasureValue,
)
from fastrank_eval.engine.records import (
    Meta as Meta,
)
from fastrank_eval.engine.state_file import (
    Provenance as Provenance,
)
from fastrank_eval.io import (
    open_source as open_source,
)
from fastrank_eval.measures import (
    AP as AP,
)
from fastrank_eval.measures import (
    AP_IA as AP_IA,
)
from fastrank_eval.measures import (
    AUC as AUC,
)
from fastrank_eval.measures import (
    BPM as BPM,
)
from fastrank_eval.measures import (
    CG as CG,
)
from fastrank_eval.measures import (
    DCG as DCG,
)
from fastrank_eval.measures import (
    ECCE as ECCE,
)
from fastrank_eval.measures import (
    ECE as ECE,
)
from fastrank_eval.measures import (
    ERR as ERR,
)
from fastrank_eval.measures import (
    ERR_IA as ERR_IA,
)
from fastrank_eval.measures import (
    FNR as FNR,
)
from fastrank_eval.measures import (
    FPR as FPR,
)
from fastrank_eval.measures import (
    GAUC as GAUC,
)
from fastrank_eval.measures import (
    GMAP as GMAP,
)
from fastrank_eval.measures import (
    INSQ as INSQ,
)
from fastrank_eval.measures import (
    INST as INST,
)
from fastrank_eval.measures import (
    KS as KS,
)
from fastrank_eval.measures import (
    MAE as MAE,
)
from fastrank_eval.measures import (
    MCC as MCC,
)
from fastrank_eval.measures import (
    MCE as MCE,
)
from fastrank_eval.measures import (
    MSE as MSE,
)
from fastrank_eval.measures import (
    NE as NE,
)
from fastrank_eval.measures import (
    NERR8 as NERR8,
)
from fastrank_eval.measures import (
    NERR9 as NERR9,
)
from fastrank_eval.measures import (
    NERR10 as NERR10,
)
from fastrank_eval.measures import (
    NERR11 as NERR11,
)
from fastrank_eval.measures import (
    NPV as NPV,
)
from fastrank_eval.measures import (
    NRBP as NRBP,
)
from fastrank_eval.measures import (
    P_IA as P_IA,
)
from fastrank_eval.measures import (
    PCOC as PCOC,
)
from fastrank_eval.measures import (
    PPV as PPV,
)
from fastrank_eval.measures import (
    PRAUC as PRAUC,
)
from fastrank_eval.measures import (
    RBP as RBP,
)
from fastrank_eval.measures import (
    RIG as RIG,
)
from fastrank_eval.measures import (
    RMSE as RMSE,
)
from fastrank_eval.measures import (
    RR as RR,
)
from fastrank_eval.measures import (
    SDCG as SDCG,
)
from fastrank_eval.measures import (
    TNR as TNR,
)
from fastrank_eval.measures import (
    TPR as TPR,
)
from fastrank_eval.measures import (
    Accuracy as Accuracy,
)
from fastrank_eval.measures import (
    AvgPrec as AvgPrec,
)
from fastrank_eval.measures import (
    BalancedAccuracy as BalancedAccuracy,
)
from fastrank_eval.measures import (
    Bias as Bias,
)
from fastrank_eval.measures import (
    Brier as Brier,
)
from fastrank_eval.measures import (
    Compat as Compat,
)
from fastrank_eval.measures import (
    CumGain as CumGain,
)
from fastrank_eval.measures import (
    ErrorRate as ErrorRate,
)
from fastrank_eval.measures import (
    F as F,
)
from fastrank_eval.measures import (
    FieldECE as FieldECE,
)
from fastrank_eval.measures import (
    FieldRCE as FieldRCE,
)
from fastrank_eval.measures import (
    FScore as FScore,
)
from fastrank_eval.measures import (
    G as G,
)
from fastrank_eval.measures import (
    Gini as Gini,
)
from fastrank_eval.measures import (
    GMbpref as GMbpref,
)
from fastrank_eval.measures import (
    GroupAccuracy as GroupAccuracy,
)
from fastrank_eval.measures import (
    GroupBalancedAccuracy as GroupBalancedAccuracy,
)
from fastrank_eval.measures import (
    GroupErrorRate as GroupErrorRate,
)
from fastrank_eval.measures import (
    GroupFNR as GroupFNR,
)
from fastrank_eval.measures import (
    GroupFPR as GroupFPR,
)
from fastrank_eval.measures import (
    GroupFScore as GroupFScore,
)
from fastrank_eval.measures import (
    GroupMCC as GroupMCC,
)
from fastrank_eval.measures import (
    GroupNPV as GroupNPV,
)
from fastrank_eval.measures import (
    GroupPPV as GroupPPV,
)
from fastrank_eval.measures import (
    GroupTNR as GroupTNR,
)
from fastrank_eval.measures import (
    GroupTPR as GroupTPR,
)
from fastrank_eval.measures import (
    IPrec as IPrec,
)
from fastrank_eval.measures import (
    IPrec11 as IPrec11,
)
from fastrank_eval.measures import (
    Judged as Judged,
)
from fastrank_eval.measures import (
    Lift as Lift,
)
from fastrank_eval.measures import (
    LogLoss as LogLoss,
)
from fastrank_eval.measures import (
    Measure as Measure,
)
from fastrank_eval.measures import (
    NumNonrelRet as NumNonrelRet,
)
from fastrank_eval.measures import (
    NumRel as NumRel,
)
from fastrank_eval.measures import (
    NumRelRet as NumRelRet,
)
from fastrank_eval.measures import (
    NumRet as NumRet,
)
from fastrank_eval.measures import (
    P as P,
)
from fastrank_eval.measures import (
    Q as Q,
)
from fastrank_eval.measures import (
    R as R,
)
from fastrank_eval.measures import (
    RBPres as RBPres,
)
from fastrank_eval.measures import (
    Reliability as Reliability,
)
from fastrank_eval.measures import (
    RelP as RelP,
)
from fastrank_eval.measures import (
    Resolution as Resolution,
)
from fastrank_eval.measures import (
    RnDCG as RnDCG,
)
from fastrank_eval.measures import (
    Rprec as Rprec,
)
from fastrank_eval.measures import (
    SetAP as SetAP,
)
from fastrank_eval.measures import (
    StRecall as StRecall,
)
from fastrank_eval.measures import (
    Success as Success,
)
from fastrank_eval.measures import (
    Uncertainty as Uncertainty,
)
from fastrank_eval.measures import (
    Unjudged as Unjudged,
)
from fastrank_eval.measures import (
    Utility as Utility,
)
from fastrank_eval.measures import (
    alpha_DCG as alpha_DCG,
)
from fastrank_eval.measures import (
    alpha_nDCG as alpha_nDCG,
)
from fastrank_eval.measures import (
    binG as binG,
)
from fastrank_eval.measures import (
    bpref as bpref,
)
from fastrank_eval.measures import (
    infAP as infAP,
)
from fastrank_eval.measures import (
    measure as measure,
)
from fastrank_eval.measures import (
    nDCG as nDCG,
)
from fastrank_eval.measures import (
    nDCGrel as nDCGrel,
)
from fastrank_eval.measures import (
    nERR_IA as nERR_IA,
)
from fastrank_eval.measures import (
    nNRBP as nNRBP,
)
from fastrank_eval.measures import (
    parse_measures as parse_measures,
)
from fastrank_eval.measures import (
    pFound as pFound,
)
from fastrank_eval.results.evaluate import (
    evaluate as evaluate,
)
from fastrank_eval.results.evaluate import (
    partial as partial,
)
from fastrank_eval.results.gates import (
    Gate as Gate,
)
from fastrank_eval.results.gates import (
    GateFailure as GateFailure,
)
from fastrank_eval.results.gates import (
    Verdict as Verdict,
)
from fastrank_eval.results.gates import (
    gate as gate,
)
from fastrank_eval.results.result import (
    Result as Result,
)
from fastrank_eval.results.state import (
    State as State,
)
from fastrank_eval.results.state import (
    load_state as load_state,
)

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
    "Provenance",
    "Q",
    "R",
    "RBPres",
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
    "nDCG",
    "nDCGrel",
    "nERR_IA",
    "nNRBP",
    "open_source",
    "pFound",
    "parse_measures",
    "partial",
    "rela_impr",
    "spark",
    "trec",
]
