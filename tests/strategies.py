"""Measures and random groups that several test files share."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

from tests.oracles.diversity import DIVERSITY
from tests.oracles.measures import Row, read

GRADES = (0, 1, 2, 3)


def variants(table: str) -> dict[str, tuple[str, ...]]:
    """Texts of each measure: a line has its name and what follows it in each, `.` for nothing."""
    found: dict[str, tuple[str, ...]] = {}
    for name, *ends in map(str.split, re.sub(r"\n +", " ", table).splitlines()):
        ends = [end.removeprefix(".").replace(",", ", ").replace(":", ": ") for end in ends]
        found[name] = tuple(f"{name}{end}" for end in ends)
    return found


# Every option of every measure appears at least once; test_tie_policies.py fails when one does not.
VARIANTS = variants("""\
P            . @1 @3 @10 (rel=2)@3 (short='length')@10
R            . @1 @4 (rel=2)@3
F            . @3 (beta=2)@3 (beta=0.5)@10 (alpha=0.25)@3 (rel=2)@4 (short='length')@10
Success      . @1 @4 (rel=2)@2
Rprec        . (rel=2) (mult=0.3) (mult=1.5,rel=2)
RelP         . @1 @3 @10 (rel=2)@3
Hits         . @1 @3 (rel=2)@3
IPrec        (recall=0) (recall=0.1) (recall=0.5) (recall=1) (recall=0.5,rounding='up')
             (recall=0.7,rel=2)
IPrec11      . (rounding='up') (rel=2)
SetAP        . (rel=2)
Utility      . (rel=2) (rel_ret=2,nonrel_ret=-0.5,rel_missed=-3,nonrel_missed=0.25)
NumRet       . (weight='positives')
NumRel       . (rel=2)
NumRelRet    . (rel=2)
nDCGrel      . (gain='exp') (gain={-1:2,1:1,2:3,3:4})
RnDCG        . (gain='exp') (gain={-1:2,1:1,2:3,3:4}) (rel=2)
G            . (gain='exp') (gain={-1:2,1:0.5,2:3,3:4})
binG         . (rel=2)
AP           . @1 @4 (rel=2)@4 (over='min')@3 (over='retrieved') (over='retrieved')@3
             (interpolated=True) (interpolated=True)@4
GMAP         . @3 (rel=2) (over='min')@3 (interpolated=True)
RR           . @1 @3 (rel=2)@5
CG           . @3 (gain='linear')@4 (gain={1:1,2:3,3:4})@2 (negative='keep')@3
DCG          . @1 @3 (gain='linear')@4 (gain={1:1,2:3,3:4})@3 (discount='jarvelin')
             (discount='jarvelin',base=3)@4 (negative='keep')
             (gain='linear',negative='keep')@4
             (gain={-2:-3,-1:-0.5,1:1,2:3,3:4},negative='keep')@3
nDCG         . @1 @3 @10 (gain='linear')@4 (gain={1:1,2:3,3:4})@3
             (discount='jarvelin')@4 (discount='jarvelin',base=3) (ideal='retrieved')@4
             (ideal='perfect',max_grade=3)@5 (negative='keep')
             (gain='linear',negative='keep')@4 (negative='keep',ideal='retrieved')@3
             (gain='linear',negative='keep',discount='jarvelin')
             (negative='keep',ideal='perfect',max_grade=3)
             (gain={-2:-3,-1:-0.5,1:1,2:3,3:4})@5 (gain={-1:5,0:0,1:-2,2:3,3:4})
ERR          . @1 @3 (max_grade=3) (max_grade=3,normalize=True)@4 (discount='log2')@5
Q            . @1 @4 (gain='exp')@3 (beta=0)@5 (gain={1:1,2:5,3:9},beta=10)
             (gain={-2:3,-1:-1,1:1,2:5,3:9})@4
Compat       (depth=20) (p=0.5,depth=30) (depth=3,rel=2) (depth='lists')
bpref        . (rel=2)
GMbpref      . (rel=2)
NumNonrelRet . (rel=2)
RBPres       . (p=0.5) (p=0.9,tail='if_unjudged')
infAP        . (rel=2)
Judged       . @1 @4 (short='k')@10
Unjudged     . @3 (short='length')@10
pFound       . @1 @4 (max_grade=3) (patience=0.5,max_grade=3)@5 (patience=1)@6
RBP          . @1 @4 (rel=2) (p=0.5)@6 (p=0.95,gain={1:0.25,2:0.5,3:1})
             (p=0.99,horizon=6)
SDCG         @3 @1 (rel=2)@5 (gain={1:0.25,2:0.5,3:1})@20
INSQ         . @1 @4 (T=2.5,rel=2) (T=0.25,gain={1:0.25,2:0.5,3:1}) (horizon=3)
INST         . @1 @4 (T=2.5,rel=2) (T=0.5) (T=3,gain={1:0.25,2:0.5,3:1})@6
             (T=2,horizon=4) (horizon=5)@2
NERR8        @3 @1 (rel=2)@4 (gain={1:0.25,2:0.5,3:1})@9
NERR9        @3 @1 (rel=2)@4 (gain={1:0.25,2:0.5,3:1})@9
NERR10       . @3 (p=0.5,rel=2) (gain={1:0.25,2:0.5,3:0.75})
             (gain={1:0.25,2:0.5,3:0.75},horizon=4)
NERR11       . @3 (T=2.5,rel=2) (gain={1:0.25,2:0.5,3:0.75})
             (gain={1:0.25,2:0.5,3:0.75},horizon=40)@3
BPM          @3 @1 (T=2)@10 (rel=2)@4 (gain={1:0.25,2:0.5,3:1})@9
GAUC         . (weight='uniform') (weight='positives') (weight='pairs') (rel=2)
             (single_class='skip') (single_class=0) (single_class=0.5) (single_class=1)
             (min_rows=4) (min_positives=2)
alpha_DCG    . @1 (alpha=0.3)@5 (alpha=1)@3
alpha_nDCG   . @2 (alpha=1)@3 (alpha=0) (alpha=0.3)@4
ERR_IA       . @1 (alpha=0.9)@4
nERR_IA      . @2 (alpha=0.2)@20
NRBP         . (alpha=0.3,beta=0.8) (alpha=1)
nNRBP        . (alpha=0.8,beta=0.9)
P_IA         . @1 @3 @20
AP_IA        . @2
StRecall     . @1 @3
""")

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
POOLED_VARIANTS = {
    **variants("""\
AUC          . (rel=2) (max_fpr=0.3) (se='delong') (rel=2,se='clustered') (bins=8)
             (rel=2,bins=50)
AvgPrec      . (rel=2)
Gini         . (rel=2)
KS           . (rel=2)
PRAUC        . (interpolation='linear') (rel=2)
"""),
    **DECISION_VARIANTS,
    **variants("""\
CumGain      . (top=0.25,rel=2) (top=1)
Lift         . (top=0.25,rel=2) (top=1)
Brier        . (rel=2) (sampling_rate=0.1)
Reliability  . (bins=4) (bins=3,by='count') (rel=2) (sampling_rate=0.1)
Resolution   . (bins=4) (bins=3,by='count') (rel=2) (bins=5,sampling_rate=0.1)
Uncertainty  . (rel=2)
ECE          (bins=10) (bins=3,by='count') (bins=1) (bins=7,rel=2)
             (bins=15,sampling_rate=0.1) (bins=15,by='count',sampling_rate=0.1)
MCE          (bins=10) (bins=4,by='count') (bins=5,rel=2) (bins=5,sampling_rate=0.1)
ECCE         . (statistic='max') (rel=2) (sampling_rate=0.1)
PCOC         . (rel=2) (sampling_rate=0.1)
Bias         . (rel=2) (sampling_rate=0.1)
MAE          .
MSE          .
RMSE         .
FieldECE     (field='item') (field='item',rel=2,sampling_rate=0.1)
FieldRCE     (field='item') (field='item',smoothing=0)
             (field='item',smoothing=1.5,rel=2,sampling_rate=0.1)
LogLoss      . (rel=2) (sampling_rate=0.1) (clamp=0.01)
NE           . (rel=2) (sampling_rate=0.1) (background=0.03) (clamp=0.01)
RIG          . (rel=2) (sampling_rate=0.1) (background=0.5) (clamp=0.01)
NEPos        . (rel=2) (sampling_rate=0.1) (background=0.03) (clamp=0.01)
CalFreeNE    . (rel=2) (sampling_rate=0.1) (background=0.03) (clamp=0.01)
MultiECCE    (columns='item') (columns='item',min_clicks=0)
             (columns='item',most_columns=1,min_clicks=0.5)
             (columns='item',min_clicks=0,rel=2)
             (columns='item',min_clicks=0,sampling_rate=0.1)
"""),
}  # fmt: skip

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
