"""What a notebook shows of results, and their tables in other libraries."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import fastrank_eval as fe
from tests.support.html_elements import elements

HOSTILE = "<script>alert('1')</script>&amp;\"pctr"


@pytest.fixture(scope="module")
def rows() -> pa.Table:
    draw = np.random.default_rng(3)
    group = np.repeat(np.arange(60), 10)
    label = (draw.random(600) < 0.3).astype(np.int8)
    names = [HOSTILE if i % 2 else "plain" for i in range(600)]
    return pa.table(
        {
            "user": group,
            "click": label,
            HOSTILE: label + draw.random(600),
            "b": draw.random(600),
            "kind": draw.integers(0, 3, 600),
            "slot": names,
        }
    )


@pytest.fixture(scope="module")
def shown(rows: pa.Table) -> dict[str, Any]:
    columns: dict[str, Any] = {"group": "user", "label": "click", "score": [HOSTILE, "b"]}
    kept = {"keep_scores": True, "keep_state": True}
    result = fe.evaluate(rows, measures="GAUC,AUC", by="slot", **columns, **kept)
    return {
        "result": result,
        "comparison": fe.compare(rows, baseline="b", measures="GAUC", by="slot", **columns),
        "curve": result.curve("roc"),
        "explanation": fe.explain(rows, profile="sklearn", measures="nDCG@5", **columns),
    }


NAMES = ["result", "comparison", "curve", "explanation"]


@pytest.mark.parametrize("name", NAMES)
def test_html__of_names_with_markup__shows_them_as_text(shown: dict[str, Any], name: str) -> None:
    html = shown[name]._repr_html_()
    found = elements(html)
    assert {element.tag for element in found} <= {
        *("div", "table", "caption", "thead", "tbody", "tr", "th", "td", "ul", "li", "p", "b"),
        *("br", "strong", "span", "h3"),
    }
    assert "alert('1')</script>&amp;" in found[0].all_text()
    # The colours are those of the page, so that it can be dark or light.
    assert {key for element in found for key in element.attributes} <= {"style"}
    assert not any("color" in element.attributes.get("style", "") for element in found)


def test_html__of_a_result__has_the_cells_and_notes_of_its_text(shown: dict[str, Any]) -> None:
    result = shown["result"]
    found = elements(result._repr_html_())
    tables = [element for element in found if element.tag == "table"]
    assert len(tables) == 2 + 2  # all rows, their coverage, then the slices by each measure
    header = [element.text for element in found if element.tag == "th" and element.text]
    assert header[:3] == ["measure", HOSTILE, "b"]
    text = found[0].all_text()
    assert f"{result.value('GAUC', 'b'):.6f}" in text
    assert "600 rows, 60 groups" in text
    assert "ties=expected" in text


def test_html__of_a_comparison__lists_its_verdicts(shown: dict[str, Any]) -> None:
    items = [e.text for e in elements(shown["comparison"]._repr_html_()) if e.tag == "li"]
    assert len(items) == 2
    assert "is better: +" in items[0]
    assert "is better in slot=plain: +" in items[1]


def test_html__of_several_classes__has_a_table_of_them(rows: pa.Table) -> None:
    draw = np.random.default_rng(4)
    classes = rows.append_column("zero", [draw.random(600)]).append_column(
        "one", [draw.random(600)]
    )
    classes = classes.append_column("two", [draw.random(600)])
    result = fe.evaluate_classes(
        classes, label="kind", scores={0: "zero", 1: "one", 2: "two"}, measures="PPV"
    )
    last = [e for e in elements(result._repr_html_()) if e.tag == "table"][-1]
    assert last.children[0].all_text().startswith("class")


@pytest.mark.parametrize("name", ["result", "comparison", "curve"])
def test_frames__of_other_libraries__have_the_values(shown: dict[str, Any], name: str) -> None:
    one = shown[name]
    table = one.records()
    column = "value" if name != "curve" else "score"
    frame, polars_frame = one.to_pandas(), one.to_polars()
    assert list(frame.columns) == table.column_names == polars_frame.columns
    assert frame[column].tolist() == table[column].to_pylist()
    assert polars_frame[column].to_list() == table[column].to_pylist()
