"""The line a measure gets in the summary: its weighted mean, and whom that mean covers."""

import math

import pytest

import fastrank_eval
from fastrank_eval.measures import measure, registry
from tests.oracles.means import mean_over_groups
from tests.oracles.measures import Row
from tests.strategies import PER_GROUP, VARIANTS, has_expectation, random_groups
from tests.support.tables import table_of
from tests.support.transcripts import answers

pytestmark = pytest.mark.kernels

GROUP_WEIGHTS = ("uniform", "impressions", "positives", "pairs")


def summary_rows(rows_of_groups, measures, **options):
    columns = {"group": "group", "label": "label", "score": "score", "unretrieved": "allow"}
    result = fastrank_eval.evaluate(
        table_of(rows_of_groups), measures=measures, keep="", **columns, **options
    )
    return {line["measure"]: line for line in result.document()["results"]}


def assert_line(line: dict, wanted, text: str) -> None:
    value = math.nan if line["value"] is None else line["value"]
    assert value == pytest.approx(wanted.value, abs=1e-12, nan_ok=True), text
    assert (line["groups"], line["groups_used"]) == (wanted.groups, wanted.groups_used), text
    assert line["dropped"] == wanted.dropped, text
    error = math.nan if line["se"] is None else line["se"]
    assert error == pytest.approx(wanted.se, rel=1e-9, abs=1e-14 * abs(value), nan_ok=True), text
    effective = math.nan if line["effective_groups"] is None else line["effective_groups"]
    assert effective == pytest.approx(wanted.effective_groups, rel=1e-7, nan_ok=True), text
    for share in ("rows_share", "positives_share"):
        given = math.nan if line[share] is None else line[share]
        assert given == pytest.approx(getattr(wanted, share), nan_ok=True), (text, share)


POLICIES = [
    {},
    {"undefined": "zero"},
    {"undefined": "one"},
    {"groups": "with_relevant"},
    {"groups": "with_relevant", "undefined": "zero"},
]


@pytest.mark.compiled
@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: "-".join(policy.values()) or "skip")
@pytest.mark.parametrize("grades", [(0, 0, 0, 1), (0, 1, 1, 2, 3)], ids=["clicks", "grades"])
def test_summary__equals_the_mean_group_by_group(policy, grades):
    groups = random_groups(201, 80, grades=grades, most_rows=5, unretrieved=0.1)
    texts = [text for text in PER_GROUP if has_expectation(text)]
    lines = summary_rows(groups, texts, **policy)
    for text in texts:
        wanted = mean_over_groups(
            text,
            groups,
            undefined=policy.get("undefined", "skip"),
            with_relevant=policy.get("groups") == "with_relevant",
        )
        assert_line(lines[text], wanted, text)


def test_group_weights__of_every_measure_of_ranks():
    groups = random_groups(202, 80, most_rows=5, unretrieved=0.2)
    texts = [
        str(measure(VARIANTS[name][0])(weight=weight))
        for name in VARIANTS
        if not registry[name].needs_subtopics
        for weight in GROUP_WEIGHTS
    ]
    for ties in ("expected", "input"):
        chosen = [text for text in texts if has_expectation(text) == (ties == "expected")]
        lines = summary_rows(groups, chosen, ties=ties)
        for text in chosen:
            assert_line(lines[text], mean_over_groups(text, groups, ties=ties), text)


def test_group_weights__follow_row_weights():
    groups = random_groups(204, 80, weights=(0.0, 0.5, 1.0, 4.0))
    texts = [f"GAUC(weight='{weight}')" for weight in GROUP_WEIGHTS]
    texts = [str(measure(text)) for text in texts]
    lines = summary_rows(groups, texts, weight="weight")
    for text in texts:
        assert_line(lines[text], mean_over_groups(text, groups), text)


def test_sums_and_geometric_means__by_hand():
    groups = [
        [Row(2.0, 1), Row(1.0, 0)],
        [Row(2.0, 0), Row(1.0, 1)],
        [Row(2.0, 0), Row(None, 1)],
        [Row(2.0, 0), Row(1.0, 0)],
    ]
    texts = ["NumRet", "NumRel", "NumRelRet", "NumRel(weight='impressions')", "GMAP", "Utility"]

    def values(**options: str) -> list[float]:
        lines = summary_rows(groups, texts, **options)
        assert [lines[text]["aggregate"] for text in texts] == ["sum"] * 4 + [
            "geometric mean",
            "mean",
        ]
        return [lines[text]["value"] for text in texts]

    *counts, geometric, utility = values()
    assert counts == [7, 3, 2, 5]
    assert geometric == pytest.approx((1 * 0.5 * 1e-5) ** (1 / 3), rel=1e-14)
    assert utility == (0 + 0 - 1 - 2) / 4
    assert values(undefined="zero")[4] == pytest.approx((0.5 * 1e-10) ** (1 / 4), rel=1e-14)
    assert values(groups="with_relevant")[:4] == [5, 3, 2, 5]
    assert values(groups="with_relevant")[5] == pytest.approx(-1 / 3, rel=1e-15)


test_answers = answers(globals())
