"""How pictures look: colours that colour-blind readers tell apart, text that is only text."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import matplotlib as mpl
from matplotlib.font_manager import get_font_names
from matplotlib.lines import Line2D

from fastrank_eval.cell_texts import printable

__all__ = ["CHANCE", "DIM", "colour", "dash", "legend", "mark", "shortened", "styled"]

# Okabe & Ito (2008), without the yellow, which white paper swallows.
_PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1.5, 1.2)), (0, (6, 1.5, 1.5, 1.5)))
_MARKS = "osD^vP"
#: Of what is no data: grids, diagonals, captions.
DIM = "#666666"
#: A line of what chance, or a perfect model, would give.
CHANCE: dict[str, Any] = {"color": DIM, "linewidth": 1.0, "linestyle": (0, (2, 2))}
_LONGEST = 44
#: Fonts that hold what the first lacks, where they are installed.
_MORE_FONTS = (
    "Noto Sans CJK SC",
    "Noto Sans CJK JP",
    "Microsoft YaHei",
    "PingFang SC",
    "Hiragino Sans",
    "WenQuanYi Zen Hei",
    "Arial Unicode MS",
)

_SETTINGS = {
    "axes.edgecolor": DIM,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.labelsize": 11,
    "axes.linewidth": 0.8,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.unicode_minus": False,
    "figure.facecolor": "white",
    "font.size": 10.5,
    "grid.color": "#E4E4E4",
    "grid.linewidth": 0.7,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    # Text of an SVG stays text, which can be searched and read aloud.
    "svg.fonttype": "none",
    "svg.hashsalt": "fastrank_eval",
    # A column may be called $x_1$; that is its name and no formula.
    "text.parse_math": False,
    "text.usetex": False,
    "xtick.color": "#333333",
    "ytick.color": "#333333",
}


@contextmanager
def styled() -> Iterator[None]:
    """Draw in our style, whatever the user's own settings are, and leave those as they were."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_SETTINGS)
        installed = set(get_font_names())
        more = [font for font in _MORE_FONTS if font in installed]
        mpl.rcParams["font.family"] = ["DejaVu Sans", *more, "sans-serif"]
        yield


def colour(model: int) -> str:
    """The colour of a model, by its place."""
    return _PALETTE[model % len(_PALETTE)]


def dash(model: int) -> Any:
    """The dashes of a model's line, so that one under another still shows."""
    return _DASHES[model % len(_DASHES)]


def mark(model: int) -> str:
    """The mark of a model's points."""
    return _MARKS[model % len(_MARKS)]


def shortened(name: str, longest: int = _LONGEST) -> str:
    """A name that fits, printable; the middle of a long one is left out."""
    name = printable(name)
    if len(name) <= longest:
        return name
    tail = longest // 3
    return f"{name[: longest - tail - 1]}…{name[-tail:]}"


def legend(figure: Any, entries: list[tuple[str, dict[str, Any]]]) -> None:
    """Put a legend under the axes, where it covers no data.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
    entries : list of (str, dict)
        Texts, and how their line looks.
    """
    lines = [Line2D([], [], **look) for _, look in entries]
    placed = figure.legend(
        lines,
        [str(place) for place in range(len(lines))],
        loc="outside lower center",
        ncols=1 if max(len(text) for text, _ in entries) > 30 else min(2, len(entries)),
        handlelength=3,
    )
    # Only now the texts: a label that begins with "_" would be left out.
    for drawn, (text, _) in zip(placed.get_texts(), entries, strict=True):
        drawn.set_text(text)
