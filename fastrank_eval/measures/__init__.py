"""The measures, each a declaration with its kernel beside it."""

from fastrank_eval.measures.auc import AUC, GAUC
from fastrank_eval.measures.average_precision import AP
from fastrank_eval.measures.base import Measure, Param, registry
from fastrank_eval.measures.cascade import ERR, pFound
from fastrank_eval.measures.gain import CG, DCG, nDCG
from fastrank_eval.measures.gain_stopping import BPM, NERR8, NERR9, NERR10, NERR11
from fastrank_eval.measures.hits import F, P, R, Rprec, Success
from fastrank_eval.measures.inverse_square import INSQ, INST
from fastrank_eval.measures.judged import Judged, Unjudged, bpref, infAP
from fastrank_eval.measures.reciprocal_rank import RR
from fastrank_eval.measures.text import measure, parse_measures
from fastrank_eval.measures.user_models import RBP, SDCG

__all__ = [
    "AP",
    "AUC",
    "BPM",
    "CG",
    "DCG",
    "ERR",
    "GAUC",
    "INSQ",
    "INST",
    "NERR8",
    "NERR9",
    "NERR10",
    "NERR11",
    "RBP",
    "RR",
    "SDCG",
    "F",
    "Judged",
    "Measure",
    "P",
    "Param",
    "R",
    "Rprec",
    "Success",
    "Unjudged",
    "bpref",
    "infAP",
    "measure",
    "nDCG",
    "pFound",
    "parse_measures",
    "registry",
]
