"""What every result shows, written once: JSON, CSV, frames, documents, notebooks, terminals."""

import csv
import io
import json
from typing import Any

import pyarrow as pa
import pytest

import fastrank_eval as fe
from fastrank_eval.results.report import Lines, Report, Table
from fastrank_eval.results.views import View
from tests.support.commands import on_terminal


class Fake(View):
    """A result of one value, whose name a sheet would compute."""

    name = "=a,b"

    def records(self) -> pa.Table:
        kinds = pa.schema({"name": pa.string(), "value": pa.float64(), "dropped": COUNTS})
        return pa.Table.from_pylist(self._rows(), kinds)

    def _rows(self) -> list[dict[str, Any]]:
        return [{"name": self.name, "value": None, "dropped": {"few": 2, "none": 0}}]

    def document(self, *, more: bool = False) -> dict[str, Any]:
        return {"value": None, "name": "é", **({"more": 1} if more else {})}

    def report(self, *, wide: bool = False) -> Report:
        table = Table(["name", "wide value" if wide else "value"], [["a", "1"]])
        return Report("A title", [table, Lines(["1 row, 1 s"], "time")])


COUNTS = pa.map_(pa.string(), pa.int64())


def test_json__is_strict_ascii_with_the_choices_of_the_document() -> None:
    assert Fake().to_json(None) == '{"value": null, "name": "\\u00e9"}'
    assert json.loads(Fake().to_json(more=True))["more"] == 1
    with pytest.raises(fe.ArgumentError, match=r"to_json\(\) takes no moer.* Did you mean 'more'"):
        Fake().to_json(moer=True)


def test_csv__has_maps_as_pairs_and_no_formula_if_safe() -> None:
    assert Fake().to_csv() == 'name,value,dropped\n"=a,b",,few=2;none=0\n'
    quoted = Fake()
    quoted.name = 'a,"b"\nc'
    assert next(csv.DictReader(io.StringIO(quoted.to_csv())))["name"] == quoted.name
    assert Fake().to_csv(safe=True).splitlines()[1] == '"\'=a,b",,few=2;none=0'


def test_frames__have_the_records() -> None:
    assert Fake().to_pandas()["name"].tolist() == Fake().to_polars()["name"].to_list() == ["=a,b"]


def test_documents__have_the_choices_of_the_report() -> None:
    fake = Fake()
    assert fake.to_markdown().startswith("| name | value |")
    assert fake.to_markdown(wide=True).startswith("| name | wide value |")
    assert "wide value &" not in fake.to_latex()
    assert "name & wide value" in fake.to_latex(wide=True)
    assert "<title>A title</title>" in fake.to_html()
    assert ">wide value</th>" in fake.to_html(wide=True)
    assert fake._repr_html_().startswith("<div")
    assert ">wide value</th>" in fake.report(wide=True)._repr_html_()


def test_text__is_the_document_and_a_terminal_shows_the_time() -> None:
    assert repr(Fake()) == "name  value\na         1"
    for renderable, title in ((Fake(), "value"), (Fake().report(wide=True), "wide value")):
        lines = on_terminal(renderable, 40).splitlines()
        assert lines[0].rstrip() == f"name  {title}"
        assert lines[-1].rstrip() == "1 row, 1 s"
