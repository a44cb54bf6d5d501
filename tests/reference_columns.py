"""Which of our measures, under which tie policy, each column of the expected values is.

The expected per-query values come from scikit-learn (``sk_``), pytrec_eval (``te_``), ranx
(``rx_``), ir_measures (``irm_``) and a plain-definition reference (``ref_``), whose suffix is the
tie policy. `reading(column)` says how we compute the same number, or None where the column is a
measure of another kind; `NOT_OURS` names those, so an unknown column cannot pass in silence.
"""

from __future__ import annotations

import re
from typing import NamedTuple

EXACT = 1e-9
FIVE_DECIMALS = 5.5e-6  # gdeval prints five


class Reading(NamedTuple):
    """How a column is computed here, and on which groups it may be compared."""

    measure: str
    ties: str
    untied_groups_only: bool = False
    undefined_is_zero: bool = False
    single_precision: bool = False  # the peer holds scores as float32
    drop_unjudged: bool = False
    tolerance: float = EXACT


# Suffix of the reference columns -> our tie policy.
REFERENCE_TIES = {
    "stable": "input",
    "file": "input",
    "docdesc": "item",
    "best": "best",
    "worst": "worst",
    "avg": "expected",
}

NOT_OURS = re.compile(
    r"""query | n | n_pos | n_ret | n_rel | n_tied_rows | sk_lrap
    | (te|te_l\d)_num_q
    | (te|te_l\d)_gm_(map|bpref)  # the logarithm of te_map, te_bpref
    | rx_bpref | rx_rbp.*
    | irm_RR@\d+  # the MS MARCO script breaks ties by document id, ascending
    """,
    re.VERBOSE,
)


def at(k: str | None) -> str:
    return f"@{k}" if k else ""


def measure(name: str, k: str | None = None, **options: object) -> str:
    """Canonical text of a measure."""
    inside = ", ".join(f"{option}={value!r}" for option, value in options.items())
    return f"{name}({inside}){at(k)}" if inside else f"{name}{at(k)}"


def reading(column: str, max_grade: int = 4) -> Reading | None:
    """How we compute a column, None where it is listed as not ours; else ValueError."""
    if NOT_OURS.fullmatch(column):
        return None
    peer, _, name = column.partition("_")
    found = {
        "ref": lambda: reference(name, max_grade),
        "sk": lambda: scikit_learn(name),
        "te": lambda: trec_eval(name),
        "rx": lambda: ranx(name),
        "irm": lambda: ir_measures(name),
    }.get(peer, lambda: None)()
    if found is None:
        raise ValueError(f"column {column!r} is neither read nor listed as not ours")
    return found


def graded(kind: str, gain: str, k: str | None) -> str:
    options = {"gain": "linear"} if gain == "lin" else {}
    return measure({"dcg": "DCG", "ndcg": "nDCG"}[kind], k, **options)


def reference(name: str, max_grade: int) -> Reading | None:
    if name == "auc":
        return Reading("GAUC", "expected")
    name, _, suffix = name.rpartition("_")
    ties = REFERENCE_TIES[suffix]
    if found := re.fullmatch(r"(n?dcg)_(lin|exp)(?:@(\d+))?", name):
        return Reading(graded(*found.groups()), ties)
    if found := re.fullmatch(r"ap@(\d+)min", name):
        return Reading(measure("AP", found[1], over="min"), ties)
    if found := re.fullmatch(r"err(?:@(\d+))?", name):
        options = {} if max_grade == 4 else {"max_grade": max_grade}
        return Reading(measure("ERR", found[1], **options), ties)
    if found := re.fullmatch(r"(ap|rr|p|r|rprec)(?:@(\d+))?", name):
        ours = {"ap": "AP", "rr": "RR", "p": "P", "r": "R", "rprec": "Rprec"}[found[1]]
        return Reading(measure(ours, found[2]), ties)
    return None


def scikit_learn(name: str) -> Reading | None:
    if name == "auc":
        return Reading("GAUC", "expected")
    if name == "ap":  # tied rows enter together there, so only untied groups can agree
        return Reading("AP", "expected", untied_groups_only=True)
    if found := re.fullmatch(r"(n?dcg)_(lin|exp)(?:@(\d+))?", name):
        return Reading(graded(*found.groups()), "expected", undefined_is_zero=True)
    return None


def trec_eval(name: str) -> Reading | None:
    options = {}
    if found := re.match(r"l(\d)_", name):
        name = name[found.end() :]
        options = {} if found[1] == "1" else {"rel": int(found[1])}
    plain = {
        "map": "AP",
        "recip_rank": "RR",
        "Rprec": "Rprec",
        "set_P": "P",
        "set_recall": "R",
        "set_F": "F",
        "bpref": "bpref",
        "infAP": "infAP",
        "set_relative_P": "RelP",
        "set_map": "SetAP",
        "num_rel": "NumRel",
        "num_rel_ret": "NumRelRet",
        "binG": "binG",
        "Rndcg": "RnDCG",
    }
    cached_by_grade = {"num_ret": "NumRet", "G": "G", "ndcg_rel": "nDCGrel"}
    cut = {"P": "P", "recall": "R", "map_cut": "AP", "success": "Success"}
    if name in plain:
        text = measure(plain[name], None, **options)
    elif name in cached_by_grade:
        text = cached_by_grade[name]
    elif name == "11pt_avg":
        text = measure("IPrec11", None, rounding="up", **options)
    elif found := re.fullmatch(r"iprec_at_recall_([\d.]+)", name):
        text = measure("IPrec", None, recall=float(found[1]), rounding="up", **options)
    elif found := re.fullmatch(r"Rprec_mult_([\d.]+)", name):
        text = measure("Rprec", None, mult=float(found[1]), **options)
    elif found := re.fullmatch(r"ndcg(?:_cut_(\d+))?", name):  # grades as they are: no threshold
        text = measure("nDCG", found[1], gain="linear")
    elif found := re.fullmatch(r"(P|recall|map_cut|success)_(\d+)", name):
        text = measure(cut[found[1]], found[2], **options)
    else:
        return None
    return Reading(text, "item", undefined_is_zero=True, single_precision=True)


def ranx(name: str) -> Reading | None:
    found = re.fullmatch(r"([a-z1_-]+)(?:@(\d+))?", name)
    if found is None:
        return None
    metric, k = found.groups()
    ours = {
        "mrr": "RR",
        "map": "AP",
        "r-precision": "Rprec",
        "precision": "P",
        "recall": "R",
        "f1": "F",
        "hit_rate": "Success",
        "dcg_burges": "DCG",
        "ndcg_burges": "nDCG",
        "dcg": "DCG(gain='linear')",
        "ndcg": "nDCG(gain='linear')",
    }.get(metric)
    return Reading(f"{ours}{at(k)}", "expected", untied_groups_only=True) if ours else None


def ir_measures(name: str) -> Reading | None:
    gdeval = {"single_precision": False, "tolerance": FIVE_DECIMALS}
    if found := re.fullmatch(r"ERR@(\d+)", name):
        return Reading(measure("ERR", found[1]), "item", **gdeval)
    if found := re.fullmatch(r"nDCG\(dcg='exp-log2'\)@(\d+)", name):
        return Reading(measure("nDCG", found[1]), "item", **gdeval)
    if name == "Compat":  # tied documents stand in ascending order of their ids there
        return Reading(
            "Compat(depth='lists')", "item", untied_groups_only=True, undefined_is_zero=True
        )
    drop = "judged_only=True" in name
    name = name.replace("(judged_only=True)", "")
    name = re.sub(r"^Set([PRF])$", r"\1", name).replace("Bpref", "bpref")
    if found := re.fullmatch(r"IPrec@([\d.]+)", name):
        name = measure("IPrec", None, recall=float(found[1]), rounding="up")
        return Reading(name, "item", undefined_is_zero=True, single_precision=True)
    ours = "AP|P|R|F|RR|Rprec|Success|SetAP|Judged|bpref|infAP"
    if re.fullmatch(r"nDCG(@\d+)?", name):
        name = name.replace("nDCG", "nDCG(gain='linear')")
    elif not re.fullmatch(rf"({ours})(\(rel=\d\))?(@\d+)?", name):
        return None
    return Reading(name, "item", undefined_is_zero=True, single_precision=True, drop_unjudged=drop)
