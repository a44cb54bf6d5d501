"""fastrank-eval nightly: dead models, changes without a gate, what a night says in a sentence."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fastrank_eval.apps.nightly.compare_nights import EarlierNight, gate_outcomes
from fastrank_eval.apps.nightly.config_checks import settings
from fastrank_eval.apps.nightly.documents import document
from fastrank_eval.apps.nightly.findings import (
    by_importance,
    gate_findings,
    score_findings,
)
from fastrank_eval.apps.nightly.history import History
from fastrank_eval.apps.nightly.night import Finding, Key, Night, NightDifference, NightQuality
from fastrank_eval.apps.nightly.page import page
from fastrank_eval.apps.nightly.summary_files import markdown
from fastrank_eval.apps.nightly.text import sentences
from tests.support.html_elements import told_by
from tests.support.nightly_runs import CONFIG, adjust, kept, nightly, on
from tests.support.nights import HOSTILE, a_night
from tests.support.transcripts import Case, cases

SMALL = CONFIG.replace('"GAUC", "AUC", "LogLoss"', '"GAUC", "LogLoss"')
#: Gates on every headline measure, so that none is found without.
GATED = '[gates]\nfail_if = ["GAUC < 0.1", "LogLoss > 9"]\n'
NO_EARLIER = {kind: EarlierNight(None, "none") for kind in ("yesterday", "last_week")}


def of_side(rows: dict[str, Any], scores: Any) -> Any:
    return np.where(rows["slot"] == "side", scores, rows["score_b"])


def normal(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=1200)


ROW = np.arange(1200)
#: Columns that a night changes, by the name of the change.
CHANGES: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "usual": lambda rows: {},
    "b dead": lambda rows: {"score_b": np.full(1200, 0.04)},
    "a dead": lambda rows: {"score_a": np.full(1200, 0.04)},
    "b dead in side": lambda rows: {"score_b": of_side(rows, 0.04)},
    "both dead in a slot": lambda rows: {
        "score_a": np.where(rows["slot"] == "top", 0.5, rows["score_a"]),
        "score_b": of_side(rows, 0.04),
    },
    "late, b dead in side": lambda rows: {
        name: column[:300] for name, column in {**rows, "score_b": of_side(rows, 0.04)}.items()
    },
    "b two scores": lambda rows: {"score_b": np.where(ROW % 7 == 0, 0.05, 0.04)},
    "b two scores in side": lambda rows: {"score_b": of_side(rows, rows["click"] / 4)},
    "b three scores": lambda rows: {"score_b": ROW % 3 / 4},
    "b tied": lambda rows: {"score_b": ROW % 2 / 4},
    "b levels": lambda rows: {"score_b": np.clip(np.round(rows["score_a"] * 8) / 8, 0.05, 0.95)},
    "b levels, too low": lambda rows: {
        "score_b": np.clip(np.round(rows["score_a"] * 8) / 8, 0.05, 0.95) ** 6
    },
    "b nearly constant": lambda rows: {"score_b": 0.04 + 1e-12 * normal(0)},
    "b a little worse": lambda rows: {"score_b": rows["score_a"] + 0.05 * normal(1)},
    "b worse": lambda rows: {"score_b": np.random.default_rng(0).permutation(rows["score_b"])},
    "b worse in users": lambda rows: {"score_b": np.concatenate([
        np.random.default_rng(user).permutation(rows["score_b"][8 * user : 8 * user + 8])
        for user in range(150)
    ])},
    "b as a": lambda rows: {"score_b": rows["score_a"]},
    "b as a, noise": lambda rows: {
        "score_b": np.clip(rows["score_a"] + 0.1 * normal(1), 0.01, 0.99)
    },
}  # fmt: skip


def write_night(day: int, change: str = "usual") -> None:
    """Write rows of 150 users in two slots, scored well by both models."""
    random = np.random.default_rng(day)
    click = random.integers(0, 2, 1200)
    rows: dict[str, Any] = {
        "user_id": np.arange(1200) // 8,
        "click": click,
        "slot": np.array(["top", "side"])[np.arange(1200) % 2],
    }
    for model in ("score_a", "score_b"):
        rows[model] = np.clip(0.4 + 0.2 * click + random.normal(0, 0.1, 1200), 0.01, 0.99)
    rows |= CHANGES[change](rows)
    path = Path(f"logs/day={on(day)}/part.parquet")
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(rows), path)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nightly.toml").write_text(SMALL)
    return tmp_path


def summary(*arguments: str) -> tuple[int, list[dict[str, Any]]]:
    outcome = nightly(*arguments, "--json", "-")
    return outcome.exit_code, json.loads(outcome.stdout)["nights"]


# ---- nights and what they say -------------------------------------------------------------------


@pytest.mark.parametrize("case", cases("verdicts"), ids=str)
def test_nights__say_what_changed_and_since_when(folder: Path, case: Case) -> None:
    """Lines such as `1-3 usual` are nights; others are of the configuration."""
    text, lines = case.edited(SMALL)
    day = 0
    for line in lines:
        days, _, change = line.partition(" ")
        if not days[0].isdigit():
            text += f"{line}\n"
        while days[0].isdigit() and day < int(days.rpartition("-")[2]):
            day += 1
            write_night(day, change)
    Path("nightly.toml").write_text(text)
    outcome = nightly("--backfill", f"{on(1)}..{on(day)}", "-q")
    assert outcome.exit_code != 2, outcome.stderr
    told = [f"exit {outcome.exit_code}"]
    for night in kept():
        gates = [f"{gate.text}: {gate.reason}" for gate in night.gates if not gate.passed]
        told.append(" | ".join([f"{night.date.day} {night.status}", *sentences(night), *gates]))
    case.check(told)


def test_dead_slice__after_more_slices_of_few_scores_than_are_kept__is_named_first(
    folder: Path,
) -> None:
    few = [
        Finding("scores", "", "new", "slot", f"slot={n}", limit=10, number=2) for n in range(150)
    ]
    dead_last = Finding(
        "scores", "distinct scores < 2", "new", "slot", "slot=dead", limit=2, number=1,
        detail="0.04",
    )  # fmt: skip
    findings = by_importance(score_findings(a_night(), [*few, dead_last]))
    assert len(findings) == 100
    quality = NightQuality(1, 1, 1, 1.0, 1.0, 0.0, 0.0)
    first, *_ = sentences(replace(a_night(), findings=findings, quality=quality))
    assert first.startswith("new gives every row of slot=dead the same score (0.04).")


def with_past(nights: int, moves: float = 0.004) -> None:
    """Run the 20th, and keep nights before it on which score_b differs a little."""
    write_night(20)
    assert nightly("--date", on(20), "-q").exit_code == 0
    (night,) = kept()
    with History("history.db") as history:
        for ago in range(1, nights):
            values = tuple(
                replace(v, value=v.value + moves * (-1) ** ago * (v.score == "score_b"))
                for v in night.values
            )
            date = night.date - dt.timedelta(days=ago)
            history.write(replace(night, date=date, values=values))


def test_change__without_a_gate_and_beyond_the_usual__is_told_and_exits_0(folder: Path) -> None:
    adjust(folder, '[gates]\nfail_if = "score_b:LogLoss > 5"\n')
    with_past(10)
    write_night(21, "b worse")
    code, (night,) = summary("--date", on(21), "--dry-run")
    assert (code, night["status"]) == (0, "changed")
    assert re.fullmatch(
        r"score_b is worse than score_a: GAUC 0\.\d{3} against 0\.9\d\d \(-0\.\d{3}, 95% CI "
        r"-0\.\d{3} to -0\.\d{3}\), beyond the usual night-to-night movement of 0\.047\. "
        r"Since 21 Nov \(1 night\)\.",
        night["reason"],
    )
    # LogLoss has a gate, and score_a has not changed.
    (found,) = night["findings"]
    assert (found["kind"], found["measure"], found["against"]) == ("change", "GAUC", "score_a")
    assert found["number"] > found["limit"] == pytest.approx(4 * 1.4826 * 0.008)
    outcome = nightly("--date", on(21), "--markdown")
    assert outcome.stdout.startswith(
        "**Test, 2026-11-21: CHANGED**\n\nscore\\_b is worse than score\\_a"
    )
    with History("history.db", readonly=True) as history:
        assert history.read()[-1].status == "changed"


@pytest.mark.parametrize(
    "nights, moves, gates",
    [
        (10, 0.2, ""),  # it moves as much every night
        (10, 0.004, '[gates]\nfail_if = "GAUC < 0.1"\n'),
    ],
)
def test_change__that_is_usual_or_has_a_gate__is_none(
    folder: Path, nights: int, moves: float, gates: str
) -> None:
    adjust(folder, gates)
    with_past(nights, moves)

    write_night(21, "b worse in users")
    Path("nightly.toml").write_text(SMALL.replace(', "LogLoss"', "") + gates)
    _, (night,) = summary("--date", on(21))
    assert (night["status"], night["findings"]) == ("fine", [])


def test_change__since_a_night_that_was_not_yesterday__is_found(folder: Path) -> None:
    with_past(10)
    write_night(22, "b worse")
    _, (night,) = summary("--date", on(22))
    assert night["status"] == "changed"
    assert "score_b is worse than score_a: " in night["reason"]
    assert "Also changed: " in night["reason"]
    write_night(23)
    _, (night,) = summary("--date", on(23))
    assert "score_b is better than on 22 Nov: " in night["reason"]


def test_model_that_is_worse_again_after_one_good_night__is_changed(folder: Path) -> None:
    """The nights that say what is usual lie before the many on which it was worse."""
    Path("nightly.toml").write_text(SMALL.replace('"GAUC", "LogLoss"', '"GAUC"'))
    write_night(20, "b as a")
    assert nightly("--date", on(20), "-q").exit_code == 0
    (good,) = kept()
    change = Finding("change", score="score_b", slice="all", measure="GAUC", compared="baseline")
    with History("history.db") as history:
        for ago in range(1, 45):
            date = good.date - dt.timedelta(days=ago)
            first = good.date - dt.timedelta(days=30)
            bad = replace(change, since=first, nights=31 - ago) if ago <= 30 else None
            less = 0.06 if bad else 0.001 * (ago % 2)
            values = tuple(
                replace(v, value=v.value - less * (v.score == "score_b")) for v in good.values
            )
            found = (bad,) if bad else ()
            status = "changed" if bad else "fine"
            new = replace(good, date=date, values=values, findings=found, status=status)
            history.write(new)

    write_night(21, "b as a, noise")
    _, (night,) = summary("--date", on(21))
    assert night["status"] == "changed"
    assert "score_b is worse than score_a: GAUC 0." in night["reason"]
    assert "beyond the usual night-to-night movement of 0.00" in night["reason"]
    assert night["reason"].endswith("Since 21 Nov (1 night).")


# ---- the sentence of a night --------------------------------------------------------------------


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory) -> Night:
    """A night on which score_b is dead in slot=side, as it was the night before."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("night"))
        side = '"GAUC[slot=side] delta_ci_high < -0.01", '
        gates = GATED.replace('"GAUC', f'{side}"GAUC', 1)
        Path("nightly.toml").write_text(SMALL + gates)
        write_night(19)
        write_night(20, "b dead in side")
        write_night(21, "b dead in side")
        assert nightly("--backfill", f"{on(19)}..{on(21)}", "-q").exit_code == 3
        return replace(kept()[-1], seconds=1.0, version="1")


@pytest.mark.parametrize("case", cases("failing_slice"), ids=str)
def test_slice_that_fails__is_first_on_the_page_and_in_markdown(night: Night, case: Case) -> None:
    pytest.importorskip("jinja2")
    if case.given == ["markdown"]:
        text = markdown([document(night)], ["my report/2026-11-21.html"])
        case.check(line for line in text.splitlines() if line)
    elif case.given == ["page"]:
        case.check(told_by(page([night])))
    else:
        changed = replace(night, status="changed", gates=(), findings=())
        case.check(told_by(page([changed]))[:6])


def in_side(night: Night) -> tuple[Any, Any]:
    """The difference and the value of score_b in slot=side."""
    key = Key("score_b", "slot=side", "GAUC")
    return night.difference_of("baseline", key), night.value_of(key)


def told(night: Night, *gates: str, **changes: Any) -> list[str]:
    """What is said of a night with these gates alone."""
    of = replace(night, **changes)
    judged = gate_outcomes(of, settings("gates", fail_if=gates), NO_EARLIER)
    return sentences(replace(of, findings=by_importance(gate_findings(of, judged))))


@pytest.mark.parametrize("case", cases("gate_sentences"), ids=str)
def test_sentence__of_every_kind_of_gate(night: Night, case: Case) -> None:
    case.check(told(night, *case.given))


def test_sentence__of_slices_that_fail__names_the_worst_with_numbers(night: Night) -> None:
    line, value = in_side(night)
    ends = {"slot=a": (-0.021, -0.020), "slot=dead": (-0.35, -0.25), "slot=few": (-0.9, -0.015)}
    changes: dict[str, Any] = {
        "values": [*night.values, *(replace(value, slice=slice_) for slice_ in ends)],
        "compared": [
            replace(line, slice=slice_, delta=(low + high) / 2, ci_low=low, ci_high=high)
            for slice_, (low, high) in ends.items()
        ],
    }
    first, *_ = told(night, "GAUC[*] delta_ci_high < -0.01", **changes)
    assert first.startswith(
        "score_b is worse than score_a in slot=dead: GAUC 0.500 against 0.800 (-0.300, 95% CI "
        "-0.350 to -0.250)."
    )
    # However many there are.
    many = [replace(changes["compared"][0], slice=f"slot={n}") for n in range(150)]
    changes["compared"] = [*many, changes["compared"][1]]
    changes["values"] += [replace(value, slice=f"slot={n}") for n in range(150)]
    first, *_ = told(night, "GAUC[*] delta_ci_high < -0.01", **changes)
    assert first.startswith("score_b is worse than score_a in slot=dead: GAUC 0.500")


def test_findings__of_more_failures_than_are_kept__have_all_rows_and_every_measure(
    night: Night,
) -> None:
    line, value = in_side(night)
    small = replace(line, delta=-0.03, ci_low=-0.031, ci_high=-0.029)
    names = [f"slot={n}" for n in range(104)]
    lines = [replace(small, slice=name) for name in names]
    # Slice 102 is dead by GAUC, and by LogLoss like all the others.
    lines[102] = replace(lines[102], delta=-0.4, ci_low=-0.45, ci_high=-0.35)
    logs = [replace(one, measure="LogLoss", delta=0.02, ci_low=0.01, ci_high=0.03) for one in lines]
    values = [
        replace(value, slice=name, measure=text) for name in names for text in ("GAUC", "LogLoss")
    ]
    of = replace(night, compared=(*lines, *logs), values=tuple(values))

    def found(gate: str, of: Night) -> list[Finding]:
        judged = gate_outcomes(of, settings("gates", fail_if=(gate,)), NO_EARLIER)
        assert len(judged[0][1]) > 100
        findings = by_importance(gate_findings(of, judged))
        assert len(findings) == 100
        return list(findings)

    (first, *_) = found("GAUC[*] delta < -0.01 or LogLoss[*] delta > 0.01", of)
    assert (first.slice, first.measure) == ("slot=102", "GAUC")
    # Another model is a little worse, on all rows.
    other = [
        replace(line, score="score_c", slice=name, delta=0.0, ci_low=-0.1, ci_high=0.1, verdict="")
        for name in names
    ]
    for score, delta in (("score_b", 0.0), ("score_c", -0.02)):
        ends = {"ci_low": delta - 0.001, "ci_high": delta + 0.001}
        other.append(replace(line, score=score, slice="all", by="", delta=delta, **ends))
        values += [replace(value, score=score, slice=name, by="") for name in ("all", *names)]
    of = replace(of, compared=(*lines, *other), values=tuple(values))
    first, second, *_ = found("GAUC delta < -0.01 or GAUC[*] delta < -0.01", of)
    assert (first.score, first.slice) == ("score_c", "all")
    assert (second.score, second.slice) == ("score_b", "slot=102")


def test_sentence__other_slices_that_are_worse__are_named(night: Night) -> None:
    line = next(d for d in night.compared if (d.kind, d.slice) == ("baseline", "slot=top"))
    others = [d for d in night.compared if d is not line]
    compared = (*others, replace(line, verdict="worse", delta=-0.1))
    (sentence,) = told(night, "GAUC[slot=side] delta < 0", compared=compared)
    assert sentence.endswith("Other slots that are worse too: slot=top.")
    small = [d for d in night.compared if d.slice == "slot=side" and d.kind == "baseline"]
    numbers = replace(small[0], delta=-0.00043, ci_low=-0.0006, ci_high=-0.0002, verdict="")
    (sentence,) = told(night, "GAUC[slot=side] delta < 0", compared=(numbers,))
    assert "GAUC of score_b in slot=side is lower than that of score_a: 0.50000 against" in sentence
    assert "(-0.00043, 95% CI -0.00060 to -0.00020), not significant once corrected" in sentence
    equal = replace(small[0], delta=0.0, se=0.0, ci_low=0.0, ci_high=0.0, verdict="")
    equal = replace(equal, p_value=1.0, p_adjusted=1.0, verdict="no difference")
    (sentence,) = told(night, "GAUC[slot=side] delta < 1", compared=(equal,))
    assert "(+0.000, 95% CI +0.000 to +0.000), the same in every group" in sentence


@pytest.mark.parametrize(
    "everywhere, in_side, answer",
    [
        ("not significant", "better", "changed"),
        ("not significant", "worse", "worse"),
        ("better", "not significant", "better"),
        ("better", "worse", "mixed"),
        ("not significant", "not significant", "no difference shown"),
        ("not tested", "not significant", "no difference shown"),
        ("not tested", "not tested", "not tested"),
    ],
)
def test_answer__is_better_only_where_all_rows_are(
    everywhere: str, in_side: str, answer: str
) -> None:
    compared = tuple(
        NightDifference("baseline", "new", "old", by, name, "GAUC", 0.1, verdict=verdict)
        for by, name, verdict in ((None, "all", everywhere), ("slot", "slot=side", in_side))
    )
    (told_of,) = document(a_night(compared=compared))["ship"]
    assert told_of["answer"] == answer
    assert told_of["text"].startswith(f"new against old: {answer}")


def test_findings__with_hostile_names__stay_texts_everywhere(night: Night) -> None:
    pytest.importorskip("jinja2")
    for evil in HOSTILE:
        names: Mapping[str, Any] = dict.fromkeys(
            ("condition", "score", "by", "slice", "measure", "detail"), evil
        )
        findings = tuple(
            Finding(kind, **names, compared=compared, against=against, since=night.date)
            for kind in ("gate", "scores", "change")
            for compared, against in (("baseline", evil), ("before", str(night.date)))
        )
        of = replace(night, findings=findings)
        assert "<script>alert" not in page([of])
        assert "<script>" not in markdown([document(of)], [evil])
