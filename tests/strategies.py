"""Measures and random groups that several test files share."""

from __future__ import annotations

import random
from collections.abc import Sequence

from tests.oracles.diversity import DIVERSITY
from tests.oracles.measures import Row, read

GRADES = (0, 1, 2, 3)

# Every option of every measure appears at least once; test_tie_policies.py fails when one does not.
VARIANTS: dict[str, tuple[str, ...]] = {
    "P": ("P", "P@1", "P@3", "P@10", "P(rel=2)@3", "P(short='length')@10"),
    "R": ("R", "R@1", "R@4", "R(rel=2)@3"),
    "F": (
        "F",
        "F@3",
        "F(beta=2)@3",
        "F(beta=0.5)@10",
        "F(alpha=0.25)@3",
        "F(rel=2)@4",
        "F(short='length')@10",
    ),
    "Success": ("Success", "Success@1", "Success@4", "Success(rel=2)@2"),
    "Rprec": ("Rprec", "Rprec(rel=2)", "Rprec(mult=0.3)", "Rprec(mult=1.5, rel=2)"),
    "RelP": ("RelP", "RelP@1", "RelP@3", "RelP@10", "RelP(rel=2)@3"),
    "IPrec": (
        "IPrec(recall=0)",
        "IPrec(recall=0.1)",
        "IPrec(recall=0.5)",
        "IPrec(recall=1)",
        "IPrec(recall=0.5, rounding='up')",
        "IPrec(recall=0.7, rel=2)",
    ),
    "IPrec11": ("IPrec11", "IPrec11(rounding='up')", "IPrec11(rel=2)"),
    "SetAP": ("SetAP", "SetAP(rel=2)"),
    "Utility": (
        "Utility",
        "Utility(rel=2)",
        "Utility(rel_ret=2, nonrel_ret=-0.5, rel_missed=-3, nonrel_missed=0.25)",
    ),
    "NumRet": ("NumRet", "NumRet(weight='positives')"),
    "NumRel": ("NumRel", "NumRel(rel=2)"),
    "NumRelRet": ("NumRelRet", "NumRelRet(rel=2)"),
    "nDCGrel": ("nDCGrel", "nDCGrel(gain='exp')", "nDCGrel(gain={-1: 2, 1: 1, 2: 3, 3: 4})"),
    "RnDCG": (
        "RnDCG",
        "RnDCG(gain='exp')",
        "RnDCG(gain={-1: 2, 1: 1, 2: 3, 3: 4})",
        "RnDCG(rel=2)",
    ),
    "G": ("G", "G(gain='exp')", "G(gain={-1: 2, 1: 0.5, 2: 3, 3: 4})"),
    "binG": ("binG", "binG(rel=2)"),
    "AP": (
        "AP",
        "AP@1",
        "AP@4",
        "AP(rel=2)@4",
        "AP(over='min')@3",
        "AP(over='retrieved')",
        "AP(over='retrieved')@3",
        "AP(interpolated=True)",
        "AP(interpolated=True)@4",
    ),
    "GMAP": (
        "GMAP",
        "GMAP@3",
        "GMAP(rel=2)",
        "GMAP(over='min')@3",
        "GMAP(interpolated=True)",
    ),
    "RR": ("RR", "RR@1", "RR@3", "RR(rel=2)@5"),
    "CG": (
        *("CG", "CG@3", "CG(gain='linear')@4", "CG(gain={1: 1, 2: 3, 3: 4})@2"),
        "CG(negative='keep')@3",
    ),
    "DCG": (
        "DCG",
        "DCG@1",
        "DCG@3",
        "DCG(gain='linear')@4",
        "DCG(gain={1: 1, 2: 3, 3: 4})@3",
        "DCG(discount='jarvelin')",
        "DCG(discount='jarvelin', base=3)@4",
        "DCG(negative='keep')",
        "DCG(gain='linear', negative='keep')@4",
        "DCG(gain={-2: -3, -1: -0.5, 1: 1, 2: 3, 3: 4}, negative='keep')@3",
    ),
    "nDCG": (
        "nDCG",
        "nDCG@1",
        "nDCG@3",
        "nDCG@10",
        "nDCG(gain='linear')@4",
        "nDCG(gain={1: 1, 2: 3, 3: 4})@3",
        "nDCG(discount='jarvelin')@4",
        "nDCG(discount='jarvelin', base=3)",
        "nDCG(ideal='retrieved')@4",
        "nDCG(ideal='perfect', max_grade=3)@5",
        "nDCG(negative='keep')",
        "nDCG(gain='linear', negative='keep')@4",
        "nDCG(negative='keep', ideal='retrieved')@3",
        "nDCG(gain='linear', negative='keep', discount='jarvelin')",
        "nDCG(negative='keep', ideal='perfect', max_grade=3)",
        "nDCG(gain={-2: -3, -1: -0.5, 1: 1, 2: 3, 3: 4})@5",
        "nDCG(gain={-1: 5, 0: 0, 1: -2, 2: 3, 3: 4})",
    ),
    "ERR": (
        "ERR",
        "ERR@1",
        "ERR@3",
        "ERR(max_grade=3)",
        "ERR(max_grade=3, normalize=True)@4",
        "ERR(discount='log2')@5",
    ),
    "Q": (
        "Q",
        "Q@1",
        "Q@4",
        "Q(gain='exp')@3",
        "Q(beta=0)@5",
        "Q(gain={1: 1, 2: 5, 3: 9}, beta=10)",
        "Q(gain={-2: 3, -1: -1, 1: 1, 2: 5, 3: 9})@4",
    ),
    "Compat": (
        "Compat(depth=20)",
        "Compat(p=0.5, depth=30)",
        "Compat(depth=3, rel=2)",
        "Compat(depth='lists')",
    ),
    "bpref": ("bpref", "bpref(rel=2)"),
    "GMbpref": ("GMbpref", "GMbpref(rel=2)"),
    "NumNonrelRet": ("NumNonrelRet", "NumNonrelRet(rel=2)"),
    "RBPres": ("RBPres", "RBPres(p=0.5)", "RBPres(p=0.9, tail='if_unjudged')"),
    "infAP": ("infAP", "infAP(rel=2)"),
    "Judged": ("Judged", "Judged@1", "Judged@4", "Judged(short='k')@10"),
    "Unjudged": ("Unjudged", "Unjudged@3", "Unjudged(short='length')@10"),
    "pFound": (
        "pFound",
        "pFound@1",
        "pFound@4",
        "pFound(max_grade=3)",
        "pFound(patience=0.5, max_grade=3)@5",
        "pFound(patience=1)@6",
    ),
    "RBP": (
        "RBP",
        "RBP@1",
        "RBP@4",
        "RBP(rel=2)",
        "RBP(p=0.5)@6",
        "RBP(p=0.95, gain={1: 0.25, 2: 0.5, 3: 1})",
        "RBP(p=0.99, horizon=6)",
    ),
    "SDCG": ("SDCG@3", "SDCG@1", "SDCG(rel=2)@5", "SDCG(gain={1: 0.25, 2: 0.5, 3: 1})@20"),
    "INSQ": (
        "INSQ",
        "INSQ@1",
        "INSQ@4",
        "INSQ(T=2.5, rel=2)",
        "INSQ(T=0.25, gain={1: 0.25, 2: 0.5, 3: 1})",
        "INSQ(horizon=3)",
    ),
    "INST": (
        "INST",
        "INST@1",
        "INST@4",
        "INST(T=2.5, rel=2)",
        "INST(T=0.5)",
        "INST(T=3, gain={1: 0.25, 2: 0.5, 3: 1})@6",
        "INST(T=2, horizon=4)",
        "INST(horizon=5)@2",
    ),
    "NERR8": ("NERR8@3", "NERR8@1", "NERR8(rel=2)@4", "NERR8(gain={1: 0.25, 2: 0.5, 3: 1})@9"),
    "NERR9": ("NERR9@3", "NERR9@1", "NERR9(rel=2)@4", "NERR9(gain={1: 0.25, 2: 0.5, 3: 1})@9"),
    "NERR10": (
        "NERR10",
        "NERR10@3",
        "NERR10(p=0.5, rel=2)",
        "NERR10(gain={1: 0.25, 2: 0.5, 3: 0.75})",
        "NERR10(gain={1: 0.25, 2: 0.5, 3: 0.75}, horizon=4)",
    ),
    "NERR11": (
        "NERR11",
        "NERR11@3",
        "NERR11(T=2.5, rel=2)",
        "NERR11(gain={1: 0.25, 2: 0.5, 3: 0.75})",
        "NERR11(gain={1: 0.25, 2: 0.5, 3: 0.75}, horizon=40)@3",
    ),
    "BPM": (
        "BPM@3",
        "BPM@1",
        "BPM(T=2)@10",
        "BPM(rel=2)@4",
        "BPM(gain={1: 0.25, 2: 0.5, 3: 1})@9",
    ),
    "GAUC": (
        "GAUC",
        "GAUC(weight='uniform')",
        "GAUC(weight='positives')",
        "GAUC(weight='pairs')",
        "GAUC(rel=2)",
        "GAUC(single_class='skip')",
        "GAUC(single_class=0)",
        "GAUC(single_class=0.5)",
        "GAUC(single_class=1)",
        "GAUC(min_rows=4)",
        "GAUC(min_positives=2)",
    ),
    "alpha_DCG": ("alpha_DCG", "alpha_DCG@1", "alpha_DCG(alpha=0.3)@5", "alpha_DCG(alpha=1)@3"),
    "alpha_nDCG": (
        "alpha_nDCG",
        "alpha_nDCG@2",
        "alpha_nDCG(alpha=1)@3",
        "alpha_nDCG(alpha=0)",
        "alpha_nDCG(alpha=0.3)@4",
    ),
    "ERR_IA": ("ERR_IA", "ERR_IA@1", "ERR_IA(alpha=0.9)@4"),
    "nERR_IA": ("nERR_IA", "nERR_IA@2", "nERR_IA(alpha=0.2)@20"),
    "NRBP": ("NRBP", "NRBP(alpha=0.3, beta=0.8)", "NRBP(alpha=1)"),
    "nNRBP": ("nNRBP", "nNRBP(alpha=0.8, beta=0.9)"),
    "P_IA": ("P_IA", "P_IA@1", "P_IA@3", "P_IA@20"),
    "AP_IA": ("AP_IA", "AP_IA@2"),
    "StRecall": ("StRecall", "StRecall@1", "StRecall@3"),
}

_DECISIONS = (
    *("PPV", "NPV", "TPR", "FNR", "TNR", "FPR", "FScore"),
    *("Accuracy", "ErrorRate", "BalancedAccuracy", "MCC"),
)

#: Measures of predictions at a threshold, of all rows together.
DECISION_VARIANTS: dict[str, tuple[str, ...]] = {
    name: (name, f"{name}(threshold=0.25)", f"{name}(threshold=0.75)", f"{name}(rel=2)")
    for name in _DECISIONS
}
DECISION_VARIANTS["FScore"] += ("FScore(beta=2)", "FScore(beta=0.5)")
#: The same of each group, which test_decisions.py compares with their oracles.
GROUP_DECISION_VARIANTS = {
    f"Group{name}": tuple(f"Group{text}" for text in texts)
    for name, texts in DECISION_VARIANTS.items()
}

#: Measures of all rows together, which measures/test_pooled.py compares with their oracles.
POOLED_VARIANTS: dict[str, tuple[str, ...]] = {
    "AUC": (
        "AUC",
        "AUC(rel=2)",
        "AUC(max_fpr=0.3)",
        "AUC(se='delong')",
        "AUC(rel=2, se='clustered')",
        "AUC(bins=8)",
        "AUC(rel=2, bins=50)",
    ),
    "AvgPrec": ("AvgPrec", "AvgPrec(rel=2)"),
    "Gini": ("Gini", "Gini(rel=2)"),
    "KS": ("KS", "KS(rel=2)"),
    "PRAUC": ("PRAUC", "PRAUC(interpolation='linear')", "PRAUC(rel=2)"),
    **DECISION_VARIANTS,
    "CumGain": ("CumGain", "CumGain(top=0.25, rel=2)", "CumGain(top=1)"),
    "Lift": ("Lift", "Lift(top=0.25, rel=2)", "Lift(top=1)"),
    "Brier": ("Brier", "Brier(rel=2)", "Brier(sampling_rate=0.1)"),
    "Reliability": (
        "Reliability",
        "Reliability(bins=4)",
        "Reliability(bins=3, by='count')",
        "Reliability(rel=2)",
        "Reliability(sampling_rate=0.1)",
    ),
    "Resolution": (
        "Resolution",
        "Resolution(bins=4)",
        "Resolution(bins=3, by='count')",
        "Resolution(rel=2)",
        "Resolution(bins=5, sampling_rate=0.1)",
    ),
    "Uncertainty": ("Uncertainty", "Uncertainty(rel=2)"),
    "ECE": (
        "ECE(bins=10)",
        "ECE(bins=3, by='count')",
        "ECE(bins=1)",
        "ECE(bins=7, rel=2)",
        "ECE(bins=15, sampling_rate=0.1)",
        "ECE(bins=15, by='count', sampling_rate=0.1)",
    ),
    "MCE": (
        "MCE(bins=10)",
        "MCE(bins=4, by='count')",
        "MCE(bins=5, rel=2)",
        "MCE(bins=5, sampling_rate=0.1)",
    ),
    "ECCE": ("ECCE", "ECCE(statistic='max')", "ECCE(rel=2)", "ECCE(sampling_rate=0.1)"),
    "PCOC": ("PCOC", "PCOC(rel=2)", "PCOC(sampling_rate=0.1)"),
    "Bias": ("Bias", "Bias(rel=2)", "Bias(sampling_rate=0.1)"),
    "MAE": ("MAE",),
    "MSE": ("MSE",),
    "RMSE": ("RMSE",),
    "FieldECE": ("FieldECE(field='item')", "FieldECE(field='item', rel=2, sampling_rate=0.1)"),
    "FieldRCE": (
        "FieldRCE(field='item')",
        "FieldRCE(field='item', smoothing=0)",
        "FieldRCE(field='item', smoothing=1.5, rel=2, sampling_rate=0.1)",
    ),
    "LogLoss": (
        "LogLoss",
        "LogLoss(rel=2)",
        "LogLoss(sampling_rate=0.1)",
        "LogLoss(clamp=0.01)",
    ),
    "NE": (
        *("NE", "NE(rel=2)", "NE(sampling_rate=0.1)", "NE(background=0.03)"),
        "NE(clamp=0.01)",
    ),
    "RIG": (
        *("RIG", "RIG(rel=2)", "RIG(sampling_rate=0.1)", "RIG(background=0.5)"),
        "RIG(clamp=0.01)",
    ),
    "NEPos": (
        *("NEPos", "NEPos(rel=2)", "NEPos(sampling_rate=0.1)", "NEPos(background=0.03)"),
        "NEPos(clamp=0.01)",
    ),
    "CalFreeNE": (
        *("CalFreeNE", "CalFreeNE(rel=2)", "CalFreeNE(sampling_rate=0.1)"),
        *("CalFreeNE(background=0.03)", "CalFreeNE(clamp=0.01)"),
    ),
    "MultiECCE": (
        "MultiECCE(columns='item')",
        "MultiECCE(columns='item', min_clicks=0)",
        "MultiECCE(columns='item', most_columns=1, min_clicks=0.5)",
        "MultiECCE(columns='item', min_clicks=0, rel=2)",
        "MultiECCE(columns='item', min_clicks=0, sampling_rate=0.1)",
    ),
}

#: Those that no strictly increasing map of the scores changes, nor any type they come in.
POOLED = tuple(text for text in POOLED_VARIANTS["AUC"] if not {"se", "bins"} & {*read(text)[1]})
# Measures of diversity need to know what rows cover: test_diversity.py tries them.
PER_GROUP = tuple(text for name in VARIANTS if name not in DIVERSITY for text in VARIANTS[name])
#: Those of the golden numbers: one more would move which ones they take.
LASTING = tuple(text for text in PER_GROUP if "horizon" not in text)
COVERING = tuple(text for name in DIVERSITY for text in VARIANTS[name])

# Labels that are probabilities need their own data, so this one stands apart.
LABEL_AS_PROBABILITY = (
    "ERR(stop='label')",
    "ERR(stop='label')@3",
    "pFound(stop='label')",
    "pFound(stop='label')@3",
    "RBP(gain='label')@3",
    "SDCG(gain='label')@3",
    "INSQ(gain='label')",
    "INST(gain='label')",
    "NERR8(gain='label')@3",
    "NERR9(gain='label')@3",
    "NERR10(gain='label')",
    "NERR11(gain='label')",
    "BPM(gain='label')@3",
)


#: Measures that no closed form averages over the orders of tied rows.
WITHOUT_EXPECTATION = (
    *("INST", "NERR8", "NERR9", "NERR10", "NERR11", "BPM"),
    *("infAP", "IPrec", "IPrec11", "G", "Compat"),
)


def has_expectation(text: str) -> bool:
    """Some have no closed form: the engine refuses them under ties='expected'."""
    return "interpolated" not in text and read(text)[0] not in WITHOUT_EXPECTATION


def has_extremes(text: str) -> bool:
    """Whether no order of tied rows has a higher value than the highest grades first."""
    name, options, _ = read(text)
    gain = options.get("gain")
    table = {0: 0, **gain} if isinstance(gain, dict) else {}
    gains = [table[grade] for grade in sorted(table)]
    return name != "G" and gains == sorted(gains)


def allows(text: str, ties: str) -> bool:
    """Whether the engine computes a measure under a tie policy."""
    return {"expected": has_expectation, "best": has_extremes, "worst": has_extremes}.get(
        ties, lambda _: True
    )(text)


#: One text of each measure that has a value under every tie policy.
EVERY_KIND = (
    *(
        text
        for name, (_, text, *_) in VARIANTS.items()
        if has_expectation(text) and has_extremes(text) and name not in DIVERSITY
    ),
    "AUC(rel=2)",
)
#: Measures that count what is missing: the best case has the least of it.
LOWER_IS_BETTER = ("Unjudged", "RBPres")


def random_group(
    rng: random.Random,
    *,
    most_rows: int = 7,
    levels: int = 3,
    grades: Sequence[int] = GRADES,
    unretrieved: float = 0.0,
    unjudged: float = 0.0,
    weights: Sequence[float] = (1.0,),
) -> list[Row]:
    """Few score levels, so ties are everywhere; at most one of score and label is missing."""
    rows = []
    for number in range(rng.randint(1, most_rows)):
        score: float | None = rng.randrange(levels) - 1.0
        label: float | None = rng.choice(grades)
        if rng.random() < unretrieved:
            score = None
        elif rng.random() < unjudged:
            label = None
        rows.append(Row(score, label, rng.choice(weights), f"d{rng.randrange(10**4)}.{number}"))
    return rows


def random_groups(seed: int, count: int, **options: object) -> list[list[Row]]:
    rng = random.Random(seed)  # noqa: S311
    return [random_group(rng, **options) for _ in range(count)]  # type: ignore[arg-type]
