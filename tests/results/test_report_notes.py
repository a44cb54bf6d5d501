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


#: Two users with two queries each.
NESTED = LOG | {"user": [1, 1, 1, 1, 2, 2, 2, 2]}


def clustered(measures: str, **options: Any) -> fe.Result:
    return fe.evaluate(
        NESTED, label="click", score="old", measures=measures,
        **{"group": "q", "cluster": "user", **options},
    )  # fmt: skip


def test_clusters__of_all_values__are_counted_in_one_line() -> None:
    result = clustered("RR,LogLoss", by="q")
    assert notes_of(result)[0] == "clusters: user (2 of 2)"
    assert result.meta.conventions["clusters"] == 2
    assert [v.clusters for v in result] == [2, 2, 1, 1, 1, 1, 1, 1, 1, 1]
    assert [v["details"]["clusters"] for v in result.document()["results"][:2]] == [2, 2]
    assert "one cluster has no standard error" in repr(result)
    assert "effective clusters" in repr(clustered("RR"))
    assert "cluster=user" in repr(result)


def test_clusters__used_by_some_values_only__are_counted_for_each() -> None:
    log = NESTED | {"click": [1, 0, 1, 0, 1, 1, 1, 1]}
    result = fe.evaluate(log, group="q", cluster="user", label="click", score="old",
                         measures="RR,GAUC,AUC")  # fmt: skip
    note = "clusters: user (of 2: 1 in GAUC; 2 in RR)"
    assert note in notes_of(result)
    assert [v.clusters for v in result] == [2, 1, None]
    assert notes_of(clustered("AUC", keep="state")) == ["clusters: user (2)"]
    assert notes_of(clustered("AUC")) == []  # it reads no groups


def test_clusters__in_a_comparison__are_in_the_notes() -> None:
    comparison = fe.compare(
        NESTED, group="q", cluster="user", label="click", score=["old", "new"], baseline="old",
        measures="RR",
    )  # fmt: skip
    assert "clusters: user (2 of 2)" in notes_of(comparison)
    assert [v.groups for v in comparison] == [2]


@pytest.mark.parametrize("cluster", ["q", ["q"]])
def test_group_as_cluster__adds_a_note_alone(cluster: object) -> None:
    own, alone = clustered("RR,LogLoss", cluster=cluster), evaluate("RR,LogLoss")
    assert notes_of(own)[0] == "clusters: q (4 of 4)"
    assert [v.clusters for v in own] == [None, None]
    assert list(map(str, own)) == list(map(str, alone))
    assert own.meta.conventions.keys() - alone.meta.conventions.keys() == {"cluster"}


def test_group_of_several_columns__hints_at_clusters() -> None:
    hint = "groups may not be independent: see cluster"
    result = clustered("RR", group=["user", "q"], cluster=None, keep="state")
    assert hint in notes_of(result)
    assert hint in notes_of(fe.State.from_bytes(result.state.to_bytes()).result())
    for own in ({}, {"cluster": ["user", "q"], "group": ["q", "user"]}, {"cluster": "user"}):
        shown = clustered("RR", **own)
        assert hint not in repr(shown)
        assert "group" not in shown.meta.conventions
    assert hint not in repr(evaluate("RR"))
    # No value reads groups.
    assert hint not in repr(clustered("AUC", group=["user", "q"], cluster=None))


def test_null_clusters__left_out__are_counted_by_their_name() -> None:
    log = NESTED | {"user": [1, 1, 1, 1, 2, 2, None, None]}
    result = fe.evaluate(log, group="q", cluster="user", label="click", score="old",
                         measures="RR", null_groups="drop")  # fmt: skip
    note = "2 rows without a group key or a cluster key left out, 25.0% of 8"
    assert note in notes_of(result)


def test_largest_cluster__is_named_as_one() -> None:
    log = {"user": [1] * 90 + [*range(2, 12)], "q": [*range(100)], "click": [0, 1] * 50,
           "old": [0.2, 0.7, 0.4, 0.9] * 25}  # fmt: skip
    given = {"label": "click", "score": "old"}
    # A mean over groups of one weight too: the cluster has many of them.
    for measures in ("LogLoss", "RR"):
        own = fe.evaluate(log, group="q", cluster="user", measures=measures, **given)
        notes = own.document()["meta"]["notes"]
        assert notes == ["clusters: user (11 of 11)", "large cluster user=1: 90.0% of the rows"]
    alone = fe.evaluate(log, group="user", measures="LogLoss", **given)
    assert alone.document()["meta"]["notes"] == ["large group user=1: 90.0% of the rows"]
