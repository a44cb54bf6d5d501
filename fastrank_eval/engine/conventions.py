"""Define policies for undefined groups, and profiles of other tools."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any

from fastrank_eval._lib.arguments import checked, one_of
from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.errors import MeasureError
from fastrank_eval.measures.base import Measure
from fastrank_eval.measures.parser import measure as measure_of
from fastrank_eval.measures.parser import text_with_options


@dataclass(frozen=True)
class Profile:
    """The conventions of a tool.

    Parameters
    ----------
    name : str
    tool : str
        The tool, with the version that was compared.
    choices : mapping of str to str
        Arguments of `evaluate`; `undefined` may name measures, as in ``"skip,nDCG=one"``.
    options : mapping of str to mapping
        Options of measures, by measure. Options that the caller sets have priority.
    differs : tuple of str
        What the tool does differently under any option here.
    complete : bool
        Whether a judged query without results counts 0 in `trec.evaluate`; the tool leaves it out
        otherwise.
    refused : mapping of str to str
        Names that have another meaning there, of measures or as they are written with a cutoff,
        ``"Accuracy@k"``; and what to take.
    apart : Profile or None
        The conventions of the measures that its `options` name, if the tool computes these by
        others. Only `trec.evaluate` computes both kinds.
    drop_self : bool
        Whether `trec.evaluate` leaves out a document that has the id of its query.
    """

    name: str
    tool: str
    choices: Mapping[str, str]
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    differs: tuple[str, ...] = ()
    complete: bool = True
    refused: Mapping[str, str] = field(default_factory=dict)
    apart: Profile | None = None
    drop_self: bool = False

    def apply(self, measures: Iterable[Measure]) -> tuple[Measure, ...]:
        """Add the options of the profile to measures that do not set them.

        Raises
        ------
        MeasureError
            If the name of a measure has another meaning there.
        """
        measures = tuple(measures)
        for measure in measures:
            reason = self._refusal(measure)
            if reason:
                raise MeasureError(
                    f"measures: must have the meaning of {self.tool}, got {measure.display_name}; "
                    f"{reason}."
                )
        return tuple(
            with_options(measure, self.options.get(measure.name, {})) for measure in measures
        )

    def _refusal(self, measure: Measure) -> str:
        """Say why the name of a measure is refused, or return an empty text."""
        if self.apart is not None and measure.name in self.apart.options:
            return "it ranks documents for it in another way; take fastrank_eval.trec.evaluate"
        name, cutoff, _ = measure.display_name.partition("@")
        written = name.partition("(")[0] + "@k" * bool(cutoff)
        texts = {measure.name.lower(), written.lower()}
        return next((why for name, why in self.refused.items() if name.lower() in texts), "")


def with_options(measure: Measure, options: Mapping[str, Any]) -> Measure:
    """Add options to a measure that does not set them, if that is valid."""
    missing = {
        name: value for name, value in options.items() if name not in measure.explicit_options
    }
    if not missing:
        return measure
    try:
        result = measure(**missing)
        result.check_complete()
    except MeasureError:
        # Such as a division by min(k, R) without a k: the tool has no other definition then.
        return measure
    return result


def used_measures(
    requested: tuple[Measure, ...],
    profile: Profile | None,
    sampling_rate: float | None,
    compared: bool = False,
) -> tuple[Measure, ...]:
    """Return the measures to compute, in the order of the requested ones.

    Parameters
    ----------
    requested : tuple of Measure
    profile : Profile or None
    sampling_rate : float or None
    compared : bool
        Whether models are compared with a baseline: AUC needs its clustered error then.
    """
    measures = requested if profile is None else profile.apply(requested)
    if compared:
        measures = with_clustered_errors(measures)
    if sampling_rate not in (None, 1):
        measures = tuple(with_options(m, {"sampling_rate": sampling_rate}) for m in measures)
    return with_names(requested, measures)


def with_clustered_errors(measures: tuple[Measure, ...]) -> tuple[Measure, ...]:
    """Select AUC's clustered error, unless named, or excluded by options."""
    if any(m.name == "AUC" and m.option_values["se"] == "clustered" for m in measures):
        return measures
    return tuple(
        m(se="clustered")
        if m.name == "AUC" and not m.explicit_options & {"se", "bins", "max_fpr"}
        else m
        for m in measures
    )


def without_clustered_error(text: str) -> str:
    """Return the text of the same value without AUC's clustered error."""
    m = measure_of(text)
    return str(m(se=None)) if m.option_values.get("se") == "clustered" else text


def with_names(requested: Sequence[Measure], computed: Sequence[Measure]) -> tuple[Measure, ...]:
    """Let reports show computed measures by the names that were asked for.

    Requested measures with equal names, ``nDCG`` and ``nDCG(gain='exp')``, keep their texts.
    """
    names = [m.display_name for m in requested]
    return tuple(
        other
        if other == m or names.count(m.display_name) > 1
        else other.with_display_name(m.display_name)
        for m, other in zip(requested, computed, strict=True)
    )


def requested_names(
    requested: Iterable[Measure], computed: Iterable[Measure | str]
) -> dict[str, str]:
    """Map requested names to texts of measures with other options.

    A name has all options that were requested. Where the text of a measure is the name of another
    one, the map has both names: ``nDCG(gain='exp')`` and ``nDCG``. AUC that has its clustered error
    because of a baseline is found as ``AUC`` too, where ``AUC(rel=1)`` was requested.
    """
    rows = [
        (m, text_with_options(m), str(other)) for m, other in zip(requested, computed, strict=True)
    ]
    changed = {name for m, name, text in rows if str(m) != text}
    found = {name: text for _, name, text in rows if name in changed or text in changed}
    taken = {text for *_, text in rows}
    for m, _, text in rows:
        if str(m) not in taken and without_clustered_error(text) == str(m):
            found.setdefault(str(m), text)
    return found


_LINEAR = {"gain": "linear"}
_LINEAR_KEPT = {**_LINEAR, "negative": "keep"}
_TREC = {
    "ties": "item",
    "undefined": "zero,GAUC=skip,AUC=skip",
    "unretrieved": "allow",
    "unjudged": "allow",
}
#: Accuracy is a name of ir_measures, which the profiles of trec_eval take too.
_TREC_REFUSED = {
    "Accuracy": "ir_measures has that name for the share of retrieved relevant documents above "
    "others; take GAUC(weight='uniform') for such pairs, or another profile for decisions"
}
_TREC_OPTIONS: Mapping[str, Mapping[str, Any]] = {"nDCG": _LINEAR, "DCG": _LINEAR}
_TREC_9_OPTIONS: Mapping[str, Mapping[str, Any]] = {
    **_TREC_OPTIONS,
    "IPrec": {"rounding": "up"},
    "IPrec11": {"rounding": "up"},
}
_TREC_10_OPTIONS: Mapping[str, Mapping[str, Any]] = {
    **_TREC_OPTIONS,
    "RBP": {"p": 0.9},
    "RBPres": {"p": 0.9, "tail": "if_unjudged"},
}
#: A list of results, of queries with a relevant document.
_OF_LISTS = {"groups": "with_relevant", "unretrieved": "allow", "unjudged": "allow"}
_NO_ACCURACY = {
    "Accuracy": "MTEB has that name for R@1, BEIR for Success@k; take one of these, or another "
    "profile for decisions"
}
_PYTREC_DIFFERS = (
    "values of nDCG, MAP, Recall and P are rounded to five decimals",
    "grades are whole numbers there",
)
#: cwl_eval, which ir_measures calls, reads 1,000 ranks.
_CWL_OPTIONS = {name: {"horizon": 1000} for name in ("RBP", "INSQ", "INST", "NERR10", "NERR11")}
_TREC_DIFFERS = (
    "set_F takes the square of beta, F takes beta itself",
    "a custom table of gains sorts gains that differ by less than 1 wrongly there",
)

PROFILES: Mapping[str, Profile] = {
    profile.name: profile
    for profile in (
        Profile(
            "trec_eval_9",
            "trec_eval 9.0.8, and pytrec_eval",
            {**_TREC, "score_type": "float32"},
            _TREC_9_OPTIONS,
            _TREC_DIFFERS,
            complete=False,
            refused=_TREC_REFUSED,
        ),
        Profile(
            "trec_eval_10",
            "trec_eval 10.0",
            _TREC,
            _TREC_10_OPTIONS,
            (
                *_TREC_DIFFERS,
                "a judged query that the run lacks is an error there without -c",
                "rbp scales grades above 1 by a least and a greatest grade that are not set; RBP "
                "has binary gains unless gains are given",
            ),
            refused=_TREC_REFUSED,
        ),
        Profile(
            "ir_measures",
            "ir_measures 0.4.3",
            {**_TREC, "score_type": "float32"},
            {**_TREC_9_OPTIONS, "Compat": {"depth": "lists"}, **_CWL_OPTIONS},
            (
                "RR@k, Judged@k, Compat and the measures of diversity rank tied documents by "
                "ascending id there",
                "RBP, SDCG, BPM, INSQ, INST and NERR8 to NERR11 rank tied documents in the order "
                "of the run there; ties='input' does so here",
                "SDCG, BPM, NERR8 and NERR9 with a cutoff above 1,000 end at rank 1,000 there",
                "Compat takes 0 as the score of a document that was not retrieved, to break ties "
                "of its ideal",
                "ERR and nDCG(dcg='exp-log2') come from gdeval, rounded to five decimals",
                "SetF takes the square of beta: SetF(beta=2) is F(beta=sqrt(2)) here too",
            ),
            refused={
                **_TREC_REFUSED,
                "Accuracy@k": "ir_measures has that name for the share of pairs in the right "
                "order; take Success@k for the share of queries with a relevant document",
            },
        ),
        Profile(
            "ranx",
            "ranx 0.3.21",
            {**_TREC, "ties": "input"},
            _TREC_OPTIONS,
            (
                "tied scores are in the order of an unstable sort, which cannot be reproduced",
                "bpref is NaN there for a query without a judged non-relevant document",
                "rbp has the grade as gain there; RBP has binary gains unless gains are given",
            ),
            refused={
                "RBP@k": "it has no cutoff there, and the number of rbp@95 is p; take RBP(p=0.95)"
            },
        ),
        Profile(
            "beir",
            "BEIR 2.2.0",
            {**_TREC, "score_type": "float32"},
            _TREC_9_OPTIONS,
            (
                *_PYTREC_DIFFERS,
                "R_cap divides by 0 for a query without a relevant document; RelP is 0 then",
                "Hole adds queries of the run that have no judgement, too",
                "a query whose dict of judgements is empty counts in MRR, R_cap, Hole and "
                "Accuracy there",
            ),
            complete=False,
            refused=_NO_ACCURACY,
            apart=Profile(
                "beir",
                "BEIR 2.2.0",
                {**_TREC, "ties": "input"},
                {name: {} for name in ("RR", "RelP", "Success", "Unjudged")},
            ),
            drop_self=True,
        ),
        Profile(
            "mteb",
            "MTEB 2.20.0",
            {**_TREC, "score_type": "float32"},
            _TREC_9_OPTIONS,
            (
                *_PYTREC_DIFFERS,
                "skip_first_result keeps the first of tied documents in the order of the run; "
                "skip_first decides by the id",
            ),
            complete=False,
            refused=_NO_ACCURACY,
            apart=Profile(
                "mteb",
                "MTEB 2.20.0",
                {**_TREC, "undefined": "zero,RelP=skip"},
                {name: {} for name in ("RR", "RelP", "Unjudged")},
                complete=False,
            ),
        ),
        Profile(
            "sentence_transformers",
            "the InformationRetrievalEvaluator of sentence-transformers 5.1",
            {**_OF_LISTS, "ties": "input"},
            {"nDCG": _LINEAR, "AP": {"over": "min"}},
            (
                "tied scores are ordered by ascending id since 6.1, and before by a heap, whose "
                "order depends on the size of the corpus",
                "relevant documents are a set: all grades are 1",
            ),
            refused={
                "Accuracy": "it has a cutoff there, and looks for a relevant document; take "
                "Accuracy@k, or another profile for decisions"
            },
        ),
        Profile(
            "llama_index",
            "the retrieval metrics of LlamaIndex 0.14",
            {**_OF_LISTS, "ties": "input"},
            {"nDCG": _LINEAR},
            (
                "relevant documents are a set: all grades are 1",
                "a query without results is an error there",
                "a document that is retrieved twice counts twice there, and is an error here",
                "use_granular_hit_rate computes R, and use_granular_mrr a mean of reciprocal ranks",
            ),
            refused={
                "Accuracy": "decisions are not measured there; take Accuracy@k for the hit rate, "
                "or another profile for decisions",
            },
        ),
        Profile(
            "sklearn",
            "scikit-learn 1.9",
            {
                "undefined": "skip,nDCG=zero,PPV=zero,TPR=zero,NPV=zero,TNR=zero,FScore=zero,"
                "MCC=zero,GroupPPV=zero,GroupTPR=zero,GroupNPV=zero,GroupTNR=zero,"
                "GroupFScore=zero,GroupMCC=zero"
            },
            {
                "nDCG": {**_LINEAR, "ideal": "retrieved"},
                "DCG": _LINEAR_KEPT,
                "LogLoss": {"clamp": "type"},
                "NE": {"clamp": "type"},
                "RIG": {"clamp": "type"},
            },
            (
                "average_precision_score is AvgPrec, the area under precision over recall as a "
                "step function: tied rows enter at once, where AP averages over their orders",
                "balanced_accuracy_score of rows of one class is the recall of that class, where "
                "BalancedAccuracy is undefined",
                "average_precision_score of rows of one class is 1 or 0, where AvgPrec is "
                "undefined",
                "d2_log_loss_score of rows of one class divides by a loss of almost 0, where RIG "
                "is undefined",
                "dcg_score and ndcg_score refuse groups of one row, ndcg_score negative labels too",
            ),
        ),
        Profile(
            "gdeval",
            "gdeval.pl of the TREC web track",
            {
                "ties": "item",
                "groups": "with_relevant",
                "unretrieved": "allow",
                "unjudged": "allow",
            },
            {},
            ("values are printed with five decimals",),
            complete=False,
        ),
        Profile(
            "ndeval",
            "ndeval 4.5 of the TREC web track, and pyndeval",
            _TREC,
            {},
            (
                "at a cutoff of 1, ERR-IA and alpha-DCG are not divided by anything there",
                "pyndeval ranks tied documents by ascending id, ndeval by the rank column or, with "
                "-traditional, by descending id, as here",
            ),
            complete=False,
        ),
        Profile(
            "catboost",
            "CatBoost 1.2.10",
            {"ties": "worst", "undefined": "zero,nDCG=one,R=one"},
            {
                "nDCG": {**_LINEAR_KEPT, "ideal": "retrieved"},
                "DCG": _LINEAR_KEPT,
                "AP": {"over": "min"},
                "P": {"short": "length"},
                "ERR": {"stop": "label"},
                "GAUC": {"weight": "uniform", "single_class": 0},
            },
        ),
        Profile(
            "xgboost",
            "XGBoost 3.2",
            {
                "ties": "input",
                "undefined": "one,GAUC=skip,AUC=skip",
                "score_type": "float32",
            },
            {"AP": {"over": "min"}, "P": {"short": "length"}, "nDCG": {"ideal": "retrieved"}},
            (
                "auc with groups is no per-group AUC: it counts pairs of equal labels too, and "
                "leaves out groups of fewer than three rows",
                "group weights do not weigh groups without a relevant row",
                "ndcg, map and pre without @k end at rank 32",
            ),
        ),
        Profile(
            "lightgbm",
            "LightGBM 4.7",
            {"ties": "input", "undefined": "one,GAUC=skip"},
            {"AP": {"over": "min"}, "nDCG": {"ideal": "retrieved"}},
            (
                "query weights do not weigh queries without a relevant row",
                "grades are whole numbers below 31 there, unless label_gain is longer",
            ),
        ),
        Profile(
            "torchmetrics",
            "TorchMetrics 1.9",
            {"undefined": "zero", "score_type": "float32"},
            {
                "nDCG": {**_LINEAR, "ideal": "retrieved"},
                "AP": {"over": "retrieved"},
                "GAUC": {"weight": "uniform", "single_class": 0},
            },
            (
                "measures other than nDCG and AUROC rank tied rows in the order of an unstable "
                "sort",
                "RetrievalMAP with top_k divides by the relevant rows inside the first k",
                "RetrievalMAP, MRR, Precision and Recall count relevant rows with scores of 0 and "
                "below as not relevant",
                "negative grades lower nDCG there, and gain 0 in nDCG here",
                "empty_target_action='pos' gives 1 to P, RR, Success and AUROC too; here these are "
                "0 for a group without a relevant row",
                "BinaryAUROC and RetrievalAUROC take the sigmoid of all scores if one is outside "
                "[0, 1], which makes large scores equal",
            ),
        ),
        Profile(
            "din",
            "FuxiCTR, after the Deep Interest Network",
            {"undefined": "skip,nDCG=zero"},
            {"nDCG": {"ideal": "retrieved"}},
            (
                "MRR is the mean over all positives of a group there, not the first",
                "NDCG ranks tied rows in the order of an unstable sort",
            ),
        ),
        Profile(
            "recbole",
            "RecBole",
            {"groups": "with_relevant"},
            {
                "GAUC": {"weight": "positives"},
                "nDCG": _LINEAR,
                "AP": {"over": "min"},
            },
            (
                "values are rounded to the decimals in its configuration",
                "NDCG is binary: grades above 1 gain 1",
            ),
        ),
    )
}


def profile_of(name: object) -> Profile:
    """Look up a profile by its name.

    Raises
    ------
    ArgumentError
        If no profile has that name.
    """
    return PROFILES[checked("profile", name, one_of(*PROFILES))]
