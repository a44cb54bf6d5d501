"""Nights whose independent unit is a cluster of groups."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from pyarrow import compute, parquet

import fastrank_eval as fe
from fastrank_eval.engine.records import finite
from tests.support.nightly_runs import CONFIG, adjust, kept_on, nightly, on


@pytest.fixture
def clustered(folder: Path) -> Path:
    """A folder whose users have households."""
    for day in (1, 2):
        path = f"logs/day={on(day)}/part-00000.parquet"
        log = parquet.read_table(path)
        household = compute.divide(log["user_id"], 4)
        parquet.write_table(log.append_column("household", household), path)
    config = CONFIG.replace('label = "click"', 'label = "click"\ncluster = "household"')
    Path("nightly.toml").write_text(config)
    adjust(folder, '[output]\nfolder = "pages"\n[gates]\nfail_if = "GAUC > 0"\n')
    return folder


def test_clusters__of_nights__stand_behind_errors_and_are_told(clustered: Path) -> None:
    assert nightly("--backfill", f"{on(1)}..{on(2)}", "--json", "told.json", "-q").exit_code == 3
    night = kept_on(2)
    own = fe.evaluate(
        "logs/day=2026-11-02", group="user_id", cluster="household", label="click",
        score=["score_a", "score_b"], measures=["GAUC", "AUC(se='clustered')", "LogLoss"],
    )  # fmt: skip
    clusters = own.meta.conventions["clusters"]
    assert 1 < clusters < night.quality.groups  # type: ignore[operator]
    assert night.conventions["columns"]["cluster"] == ["household"]
    assert (night.conventions["clusters"], night.unit) == (clusters, "cluster")
    assert [(v.se, v.clusters) for v in night.overall.values()] == [(v.se, v.clusters) for v in own]
    assert all(v.clusters is not None for v in night.values)
    assert any(line.kind == "yesterday" for line in night.compared)
    (note,) = (note for note in night.notes if note.startswith("clusters: household ("))
    assert f"of {clusters:,}" in note

    told = json.loads(Path("told.json").read_text())["nights"][-1]
    assert [one["clusters"] for one in told["headline"]] == [v.clusters for v in own]
    assert all(one["clusters"] is None for one in told["periods"]["week"])
    assert "--cluster household" in told["next_steps"][0]["command"]
    page = Path("pages/2026-11-02.html").read_text()
    assert "takes clusters as independent (Student's t)" in page
    assert "<dt>Clusters</dt>" in page
    assert "Effective clusters" in page
    assert "effective groups" not in page.lower()


def test_weeks__of_clusters__have_errors_over_buckets(clustered: Path) -> None:
    assert nightly("--backfill", f"{on(1)}..{on(2)}", "--json", "told.json", "-q").exit_code == 3
    one, other = (
        fe.evaluate(
            f"logs/day={on(day)}", group="user_id", cluster="household", label="click",
            score=["score_a", "score_b"], measures=["GAUC", "AUC(se='clustered')", "LogLoss"],
            baseline="score_a", keep="clusters",
        ).state
        for day in (1, 2)
    )  # fmt: skip
    merged = one.merge(other).result()
    told = json.loads(Path("told.json").read_text())["nights"][-1]
    for period in ("week", "month"):
        week = told["periods"][period]
        assert [line["se"] for line in week] == [finite(v.se) for v in merged]
        assert [line["ci_low"] for line in week] == [finite(v.ci_low) for v in merged]
        assert {line["measure"] for line in week if line["se"] is None} == {"AUC"}
    used = merged.meta.conventions["buckets"]["used"]
    assert told["period_notes"] == [
        f"week and month: clusters: {used} buckets of household",
        "week and month: no interval over several nights, which needs the rows of each user "
        "together: AUC",
    ]
    page = Path("pages/2026-11-02.html").read_text()
    values = page.partition('id="headline-table"')[2].partition("</table>")[0]
    # Intervals of both periods and models, but for AUC.
    cells = re.findall('data-l="(?:Week|Month)"[^>]*>[^<]*<small class="i">', values)
    assert len(cells) == 2 * 2 * 2
