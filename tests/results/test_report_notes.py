"""What a report says below its table: groups behind means, thresholds that decide nothing."""

from typing import Any

import pytest

import fastrank_eval as fe
from tests.support.transcripts import answers

#: Of four groups one has no click and one nothing but clicks.
LOG = {
    "q": [1, 1, 2, 2, 3, 3, 4, 4],
    "click": [0, 1, 0, 0, 1, 1, 1, 0],
    "old": [0.1, 0.2, 0.3, 0.4, 0.3, 0.1, 0.2, 0.4],
    "new": [0.1, 0.2, 0.3, 0.4, 0.1, 0.2, 0.4, 0.3],
    "slot_weight": [1, 2, 1, 2, 1, 2, 1, 2],
}
OVER = "means are over different groups"
OPTION = "groups='with_relevant' (--groups with_relevant)"


def evaluate(measures: str, **options: Any) -> fe.Result:
    return fe.evaluate(LOG, group="q", label="click", score="old", measures=measures, **options)


def compare(measures: str, **options: Any) -> fe.Comparison:
    return fe.compare(
        LOG, group="q", label="click", score=["old", "new"], baseline="old", measures=measures,
        **options,
    )  # fmt: skip


def notes_of(report: fe.Result | fe.Comparison) -> list[str]:
    """The notes of the JSON, each of which the text and the markdown show too."""
    notes: list[str] = report.document()["meta"].get("notes", [])
    assert all(note in repr(report) and note in report.to_markdown() for note in notes)
    assert (OVER in repr(report)) == (OVER in report.to_markdown()) == (OVER in " ".join(notes))
    return notes


def test_means__of_a_slice_alone__are_told_by_the_slice() -> None:
    log = {**LOG, "slot": [0, 1, 1, 1, 0, 0, 0, 0], "click": [0, 1, 1, 0, 1, 1, 1, 0]}
    result = fe.evaluate(log, group="q", label="click", score="old", measures="AP,RR", by="slot")
    (note,) = notes_of(result)
    assert note == (
        f"{OVER} in the slice slot=0: 2 (AP), 3 (RR); {OPTION} gives them one population"
    )


MEASURES = "PPV,TPR,FScore,Accuracy"


@pytest.mark.parametrize(
    "threshold, what", [("0.5", "no row"), ("0.1", "every row"), ("0.25", None)]
)
def test_decisions__of_no_row_or_every_row__say_so_and_name_the_option(threshold, what) -> None:
    measures = [f"{name}(threshold={threshold})" for name in MEASURES.split(",")]
    texts = [str(fe.parse_measures(text)[0]) for text in measures]
    wanted = [
        f"{what} of {model} is predicted positive at threshold={threshold}: {', '.join(texts)}; "
        "name a threshold among the scores, as in FScore(threshold=0.1)"
        for model in ("old", "new")
    ]
    assert notes_of(evaluate(",".join(measures))) == (wanted[:1] if what else [])
    assert notes_of(compare(",".join(measures))) == (wanted if what else [])
    # A profile that gives undefined precision a value, and weights, hide nothing.
    assert notes_of(evaluate(measures[0], profile="sklearn", weight="slot_weight")) == (
        [wanted[0].replace(", ".join(texts), texts[0])] if what else []
    )


@pytest.mark.parametrize(
    "measure, what",
    [
        ("GroupPPV", "no row"),
        ("GroupTPR", "no relevant row"),
        ("GroupFScore", "no relevant row"),
        ("GroupFNR", "no relevant row"),
        ("GroupNPV(threshold=0.1)", "every row"),
        ("GroupFPR(threshold=0.1)", "every row that is not relevant"),
        ("GroupTPR(threshold=0.25)", None),
        ("GroupPPV(threshold=0.25)", None),
    ],
)
def test_decisions__of_groups__say_what_their_mean_shows(measure, what) -> None:
    notes = [note for note in notes_of(evaluate(measure)) if "threshold" in note]
    assert len(notes) == (what is not None)
    assert all(note.startswith(f"{what} of old is predicted positive at ") for note in notes)


test_answers = answers(globals())
