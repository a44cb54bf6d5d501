"""Pictures of values and of differences with their intervals."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

import fastrank_eval as fe
from tests.support.click_logs import COLUMNS, compare, evaluate


@pytest.fixture(scope="module")
def log() -> dict[str, Any]:
    random = np.random.default_rng(3)
    click = (random.random(4000) < 0.3).astype(np.int8)
    scores = [np.clip(random.random(4000) * 0.8 + skill * click, 0, 1) for skill in (0.05, 0.2)]
    slots = random.choice(["feed", "side"], 4000)
    user = np.repeat(np.arange(400), 10)
    return {"user": user, "click": click, "old": scores[0], "new": scores[1], "slot": slots}


@pytest.fixture(scope="module")
def comparison(log: dict[str, Any]) -> fe.Comparison:
    return compare(log, "GAUC,MRR", by="slot")


def texts_of(figure: Figure) -> str:
    return " ".join(text.get_text() for text in figure.findobj(lambda x: hasattr(x, "get_text")))


def points_of(figure: Figure, panel: int) -> list[tuple[float, float, float]]:
    """The value and the ends of the interval of each mark of a panel."""
    points = []
    for container in figure.axes[panel].containers:
        line, _, (bars,) = container.lines
        for x, segment in zip(line.get_xdata(), bars.get_segments(), strict=True):
            points.append((float(x), float(segment[0][0]), float(segment[1][0])))
    return sorted(points)


def colours_of(figure: Figure) -> dict[float, str]:
    """The colour of each mark of the first panel."""
    lines = [container.lines[0] for container in figure.axes[0].containers]
    return {
        float(x): to_hex(line.get_markerfacecolor()) for line in lines for x in line.get_xdata()
    }


def test_plot__of_a_result__shows_values_and_intervals(log: dict[str, Any]) -> None:
    result = evaluate(log, ["old", "new"], "GAUC,MAP", by="slot")
    figure = result.plot()
    for panel, measure in enumerate(("GAUC", "AP")):
        expected = sorted((v.value, v.ci_low, v.ci_high) for v in result if v.measure == measure)
        assert np.allclose(points_of(figure, panel), expected)
    texts = texts_of(figure)
    for text in ("all rows", "slot=feed", "slot=side", "MAP", "old", "new", "95% intervals"):
        assert text in texts
    assert figure._repr_png_().startswith(b"\x89PNG")  # type: ignore[attr-defined]


def test_plot__of_a_comparison__fills_marks_of_significant_differences(comparison) -> None:
    figure = comparison.plot(measures="GAUC", title="Which is $better$?")
    expected = sorted((v.delta, v.ci_low, v.ci_high) for v in comparison if v.measure == "GAUC")
    assert np.allclose(points_of(figure, 0), expected)
    filled = {x: colour != "#ffffff" for x, colour in colours_of(figure).items()}
    significant = {v.delta: v.p_adjusted <= 0.05 for v in comparison if v.measure == "GAUC"}
    assert filled == significant
    texts = texts_of(figure)
    assert "not tested" not in texts
    assert "Which is $better$?" in texts
    assert "p (holm) at most 5%" in texts
    assert len(figure.axes) == 1


def test_plot__slices_that_are_not_tested__have_grey_marks(log: dict[str, Any]) -> None:
    result = evaluate(log, ["old", "new"], "GAUC", by="slot", keep="values")
    comparison = result.compare(baseline="old")
    figure = comparison.plot()
    untested = {v.delta for v in comparison if np.isnan(v.p_value)}
    assert len(untested) == 2
    assert {x for x, colour in colours_of(figure).items() if colour == "#b8b8b8"} == untested
    assert "not tested" in texts_of(figure)
    assert "filled: significant" in texts_of(figure)
    assert "slices of a slicing" not in repr(comparison)


def test_plot__with_a_path__writes_the_file(comparison: fe.Comparison, tmp_path: Path) -> None:
    path = tmp_path / "forest.svg"
    assert isinstance(comparison.plot(path, by="slot"), Figure)
    assert "new against old" in path.read_text()
    with pytest.raises(fe.OutputError, match="exists"):
        comparison.plot(path)
    with pytest.raises(fe.OutputError, match=r"\.png"):
        comparison.plot(tmp_path / "forest.html")


def test_plot__of_an_unknown_measure_or_slicing__is_refused(comparison: fe.Comparison) -> None:
    with pytest.raises(fe.MeasureError, match="AUC was not part"):
        comparison.plot(measures="AUC")
    with pytest.raises(fe.ArgumentError, match="country"):
        comparison.plot(by="country")


def test_plot__many_slices__counts_those_that_are_not_shown(log: dict[str, Any]) -> None:
    result = evaluate(log, "old", "RR", by="user")
    figure = result.plot()
    assert len(figure.axes[0].get_yticklabels()) == 60
    assert "341 more slices not shown" in texts_of(figure)


def test_plot__without_matplotlib__names_the_remedy(comparison, log, monkeypatch) -> None:
    monkeypatch.setattr("fastrank_eval.results.plot_files.find_spec", lambda name: None)
    result = evaluate(log, "old", "RR")
    curve = fe.curve("roc", log, **COLUMNS, score="old")
    for one in (comparison, result, curve):
        with pytest.raises(fe.ArgumentError, match=r"pip install 'fastrank_eval\[plot\]'"):
            one.plot()
