"""F1 by itself is refused: F@k ranks, FScore decides at a threshold."""

from typing import Any

import pytest

import fastrank_eval as fe

LOG = {"q": [1, 1, 2, 2], "click": [0, 1, 0, 1], "old": [0.1, 0.2, 0.3, 0.4], "new": [1, 2, 4, 3]}
CLASSES = {"y": [0, 1], "p": [0.5, 0.2], "q": [0.5, 0.8]}
COLUMNS: dict[str, Any] = {"group": "q", "label": "click"}


@pytest.mark.parametrize(
    "text",
    ["F1", "f1", " F1 ", "F1@", "f1 @", "F1()", "F1(rel=2)", "F1(beta=2)@", "F1(threshold=1)"],
)
def test_f1__without_a_cutoff__is_refused_with_both_candidates(text) -> None:
    for ask in (
        lambda: fe.evaluate(LOG, measures=text, score="old", **COLUMNS),
        lambda: fe.evaluate(LOG, measures=f"AUC,{text}", score="old", **COLUMNS),
        lambda: fe.compare(LOG, measures=text, score=["old", "new"], baseline="old", **COLUMNS),
        lambda: fe.evaluate_classes(CLASSES, label="y", scores={0: "p", 1: "q"}, measures=text),
        lambda: fe.evaluate(LOG, measures="AUC", score="old", **COLUMNS).check("F1 < 0.5"),
    ):
        with pytest.raises(fe.FastRankEvalError, match=r"F@10 .*FScore\(threshold=0.5\)"):
            ask()
    with pytest.raises(fe.ArgumentError, match="write F for rankings, or FScore"):
        fe.evaluate(LOG, measures="F", score="old", undefined="skip,F1=zero", **COLUMNS)


def test_f1__with_a_cutoff__and_its_other_names__stand() -> None:
    texts = ["F1@5", "f1(rel=2)@3", "f1_score", "FMeasure"]
    assert [str(m) for m in fe.parse_measures(texts)] == ["F@5", "F(rel=2)@3", "FScore", "F"]
