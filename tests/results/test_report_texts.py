"""One stored text of each class of results: ``python -m tests.results.test_report_texts``."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import fastrank_eval as fe
from fastrank_eval.integrations.trec.report import side_by_side
from fastrank_eval.results.report import text

TEXTS = Path(__file__).parents[1] / "fixtures" / "reports"
NAMES = ("result", "models", "few groups", "multicalibration", "labels", "comparison", "candidates",
         "results", "label comparisons", "classes", "curve", "explanation", "trec")  # fmt: skip


def log(groups: int = 200) -> pa.Table:
    draw = np.random.default_rng(5)
    rows = 10 * groups
    click = (draw.random(rows) < 0.25).astype(np.int8)
    return pa.table({
        "user": np.repeat(np.arange(groups), 10),
        "click": click,
        "order": (draw.random(rows) < 0.1).astype(np.int8),
        "old": 1 / (1 + np.exp(1.2 - click - 0.8 * draw.normal(size=rows))),
        "new | <b>": 1 / (1 + np.exp(1.2 - 1.3 * click - 0.8 * draw.normal(size=rows))),
        "a_model_of_a_long_name": 1 / (1 + np.exp(1.2 - 0.8 * click - draw.normal(size=rows))),
        "slot": draw.integers(1, 4, rows),
        "country": np.array(["DE", "FR", "a country of a long name"])[draw.integers(0, 3, rows)],
    })  # fmt: skip


def reports() -> dict[str, Any]:
    rows, columns = log(), {"group": "user", "label": "click"}
    models = ["old", "new | <b>", "a_model_of_a_long_name"]
    two: dict[str, Any] = {"score": models[:2], "baseline": "old", "keep": "values"}
    both: dict[str, Any] = {"group": "user", "label": ["click", "order"], "score": models[:2]}
    results = [
        fe.evaluate(part, score=model, measures="GAUC,LogLoss", by="slot", **columns)
        for part, model in ((rows, "old"), (rows.slice(0, 1500), "new | <b>"))
    ]
    kinds = {0: "old", 1: "new | <b>", 2: "a_model_of_a_long_name"}
    runs = [
        fe.trec.trec_report(b"1 0 a 1\n1 0 b 0\n2 0 a 1", run, measures="map,P.5")
        for run in (b"1 Q0 a 1 2 one\n1 Q0 b 2 1 one\n2 Q0 a 1 1 one",
                    b"1 Q0 a 1 1 two\n1 Q0 b 2 2 two\n2 Q0 a 1 1 two")
    ]  # fmt: skip
    found = {
        "result": fe.evaluate(
            rows, score="old", measures="GAUC,AUC,MAP,NumRet,PPV(threshold=0.5)",
            by=["slot", "slot,country"], min_groups=60, **columns,
        ),
        "models": fe.evaluate(
            rows, score=models, measures="GAUC,AUC,LogLoss", by="country", **columns
        ),
        "few groups": fe.evaluate(
            log(12), score=models[:2], measures="GAUC,P@3", by="slot,country", **columns
        ),
        "multicalibration": fe.evaluate(
            rows, score="old", measures="MultiECCE(columns='slot,country')", **columns
        ),
        "labels": fe.evaluate(
            rows, measures={"click": "GAUC,MAP", "order": "GAUC"}, by="slot", **both
        ),
        "comparison": fe.compare(rows, measures="GAUC,AUC,LogLoss", by="slot", **two, **columns),
        "candidates": fe.compare(
            rows, measures="GAUC,LogLoss", by="slot", **{**two, "score": models}, **columns
        ),
        "results": results[0].compare(results[1]),
        "label comparisons": fe.compare(rows, measures="GAUC", baseline="old", **both),
        "classes": fe.evaluate_classes(
            rows.set_column(1, "click", pa.array(np.arange(2000) % 3)), label="click", scores=kinds,
            measures="PPV,AUC,Accuracy", average="macro,micro",
        ),
        "curve": fe.curve("roc", rows, score=models[:2], points=5, **columns),
        "explanation": fe.explain(
            rows, profile="sklearn", measures="nDCG@5,MAP", score=models[:2], **columns
        ),
    }  # fmt: skip
    built = {name: one.report() for name, one in found.items()}
    return built | {"trec": side_by_side(runs, ["profile=trec_eval_10"], single=True)}


def texts() -> dict[str, str]:
    """Each report as a document, then for 72 columns of a terminal, without time."""
    written = {}
    for name, one in reports().items():
        lines = text(one, 72).split("\n")
        narrow = "\n".join(line for line in lines if "rows/s" not in line)
        written[name] = f"{text(one)}\n\n{'=' * 72}\n\n{narrow}\n"
    return written


@pytest.fixture(scope="module")
def found() -> dict[str, str]:
    return texts()


@pytest.mark.parametrize("name", NAMES)
def test_text__of_a_class__is_the_stored_one(found: dict[str, str], name: str) -> None:
    assert found[name] == (TEXTS / f"{name}.txt").read_text(encoding="utf-8")


if __name__ == "__main__":
    TEXTS.mkdir(exist_ok=True)
    for name, written in texts().items():
        (TEXTS / f"{name}.txt").write_text(written, encoding="utf-8")
