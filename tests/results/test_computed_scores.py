"""What results, states and other questions say of computed scores."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import fastrank_eval as fe
from tests.support.transcripts import answers

SCORE = {"pctr": "pctr", "ctcvr": "pctr*pcvr"}
COLUMNS: dict[str, Any] = {"group": "user", "label": "click"}


def rows(seed: int = 1) -> pa.Table:
    rng = np.random.default_rng(seed)
    pctr, pcvr = rng.random(400), rng.random(400)
    return pa.table({
        "user": np.repeat(np.arange(50) + 100 * seed, 8), "click": rng.integers(0, 2, 400),
        "pctr": pctr, "pcvr": pcvr, "stored": pctr * pcvr,
    })  # fmt: skip


LOG = rows()


def evaluated(log: pa.Table = LOG, score: Any = SCORE, **options: Any) -> fe.Result:
    options = {"measures": "GAUC,AUC", "keep": "groups", **options}
    return fe.evaluate(log, score=score, **COLUMNS, **options)


def values(result: Any) -> list[tuple[str, float]]:
    return [(value.measure, value.value) for value in result.values]


def test_state__saved_and_merged__keeps_the_expression(tmp_path: Path) -> None:
    score = {"ctcvr": "pctr * pcvr", "pctr": "pctr"}
    parts = evaluated(rows(1)).state, evaluated(rows(2), score).state
    parts[0].save(tmp_path / "part.state")
    merged = fe.load_state(tmp_path / "part.state").merge(parts[1])
    both = evaluated(pa.concat_tables([rows(1), rows(2)]))
    assert merged.result().meta.conventions["score"] == {"ctcvr": "pctr * pcvr"}
    assert values(merged.result()) == values(both)


def test_curve_threshold_and_explain__are_those_of_columns() -> None:
    short = LOG.drop_columns("stored")
    score = {"stored": "pctr * pcvr"}
    curves = [
        fe.curve("roc", log, score=given, **COLUMNS)
        for log, given in ((short, score), (LOG, "stored"))
    ]
    assert curves[0].records() == curves[1].records()
    assert curves[0].meta.conventions["score"] == score
    best = fe.best_threshold(short, label="click", score=score)
    assert best == {"stored": fe.best_threshold(LOG, label="click", score="stored")}
    assert fe.confusion(short, label="click", score=score) == fe.confusion(
        LOG, label="click", score="stored"
    )
    explained = [
        fe.explain(log, profile="catboost", score=given, measures="GAUC,AUC", **COLUMNS)
        for log, given in ((short, score), (LOG, "stored"))
    ]
    assert str(explained[0]) == str(explained[1])


def classes(log: Any, second: str, **options: Any) -> fe.ClassResult:
    scores = {0: "rest", 1: second}
    return fe.evaluate_classes(log, label="click", scores=scores, measures="AUC,PPV", **options)


def test_classes__of_computed_scores__are_those_of_columns(tmp_path: Path) -> None:
    log = LOG.append_column("rest", LOG["pcvr"])
    found, stored = classes(log, "pctr*pcvr"), classes(log, "stored")
    assert [repr(value) for value in found] == [repr(value) for value in stored]
    assert found.meta.conventions["score"] == {"0": "rest", "1": "pctr * pcvr"}
    assert "score" not in stored.meta.conventions
    path = tmp_path / "log.csv"
    log.to_pandas().to_csv(path, index=False)
    assert values(classes(str(path), "pctr * pcvr")) == values(classes(str(path), "stored"))


def test_classes__column_with_the_text_of_an_expression__is_the_column() -> None:
    log = LOG.append_column("rest", LOG["pcvr"]).append_column("pctr-pcvr", LOG["stored"])
    found = classes(log, "pctr-pcvr")
    assert values(found) == values(classes(log, "stored"))
    assert "score" not in found.meta.conventions


def test_states_of_several_labels__are_those_of_each() -> None:
    log = LOG.append_column("order", LOG["click"])
    options: dict[str, Any] = {"label": ["click", "order"], "score": SCORE}
    kept = fe.evaluate(log, group="user", measures="GAUC", keep="state", **options)
    parts = [fe.partial(log, group="user", measures="GAUC", label=each, score=SCORE)
             for each in options["label"]]  # fmt: skip
    assert [values(kept[each].state.result()) for each in kept.labels] == [
        values(part.result()) for part in parts
    ]


test_answers = answers(globals())
