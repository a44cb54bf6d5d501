"""Pictures of curves: what is on them, and what is not; the commands that write them."""

import io
import json
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pyarrow as pa
import pytest
from matplotlib.image import imread
from pyarrow import ipc, parquet

import fastrank_eval
from fastrank_eval import OutputError, UndefinedError
from fastrank_eval.apps.cli.curves import KINDS as COMMAND_KINDS
from fastrank_eval.engine.records import Meta
from fastrank_eval.results import plot_files
from fastrank_eval.results.curve_points import SCHEMAS, Curve
from fastrank_eval.results.plots import styled, thin
from tests.support.commands import output, run
from tests.support.html_elements import elements
from tests.support.transcripts import answers

pytestmark = pytest.mark.no_kernels

BLUE, VERMILION = (0, 114, 178), (213, 94, 0)
HOSTILE = ("$\\frac{a}{b}$ <script>alert('x')</script>", '_hidden & "co"\n', "long " * 30)
#: What axes and legend say; the names of the models besides.
WORDS = {
    "roc": ["ROC curve", "False positive rate", "True positive rate", "AUC 0.", "chance"],
    "pr": ["Precision and recall", "Recall", "Precision", "AvgPrec 0.", "share of positives"],
    "det": ["Detection error", "False negative rate", "EER 0.", "50%"],
    "lift": ["Cumulative gains", "Lift over", "Depth", "Lift@10% "],
    "calibration": ["Calibration", "Mean prediction", "Observed rate", "ECE 0.", "perfectly",
                    "bars: 95% intervals"],
    "k": ["nDCG by cutoff", "Cutoff k", "nDCG@k", "nDCG@50 0."],
    "gauc-by-activity": ["GAUC by rows", "Rows of a group", "5–19", "GAUC 0.", "bars: 1.96"],
}  # fmt: skip


def log_of(names: tuple[str, str]) -> dict[str, np.ndarray]:
    random = np.random.default_rng(7)
    click = (random.random(2000) < 0.3).astype(np.int8)
    user = np.repeat(np.arange(200), 10)
    user[:400] = np.repeat(np.arange(200, 300), 4)
    scores = [np.clip(random.random(2000) * 0.8 + skill * click, 0, 1) for skill in (0.15, 0.02)]
    return {"user": user, "click": click, **dict(zip(names, scores, strict=True))}


LOG = log_of(("pctr", "ctr_old"))


def curve(kind: str, log=LOG, **options) -> Curve:
    names = [name for name in log if name not in ("user", "click")]
    return fastrank_eval.curve(
        kind, log, **{"group": "user", "label": "click", "score": names, **options}
    )


@pytest.fixture(scope="module")
def curves() -> dict[str, Curve]:
    return {kind: curve(kind) for kind in SCHEMAS}


@pytest.fixture
def _coarse(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plot_files, "DPI", 50)


def text_of(svg: str) -> list[str]:
    found = (node.itertext() for node in ET.fromstring(svg).iter() if node.tag.endswith("}text"))  # noqa: S314
    return ["".join(parts) for parts in found]


def words_of(found: Curve, **options) -> list[str]:
    """What a picture says."""
    out = io.StringIO()
    plot_files.save_figure(found.plot(**options), out, ".svg")
    return text_of(out.getvalue())


def near(image: np.ndarray, colour: tuple[int, int, int]) -> int:
    """Pixels of about a colour."""
    distance = np.abs(image[..., :3] * 255 - np.array(colour)).max(axis=-1)
    return int((distance < 40).sum())


# ---- what is on a picture ------------------------------------------------------------------------


@pytest.mark.usefixtures("_coarse")
@pytest.mark.parametrize("kind", SCHEMAS)
def test_picture__of_every_kind__shows_and_names_both_models(
    curves, kind: str, tmp_path: Path
) -> None:
    curves[kind].plot(tmp_path / "picture.png")
    image = imread(tmp_path / "picture.png")
    height, width = image.shape[:2]
    assert 250 < width < 600
    assert 180 < height < 500
    assert near(image, BLUE) > 60
    assert near(image, VERMILION) > 60
    assert near(image, (255, 255, 255)) > 0.6 * height * width
    border = np.concatenate([image[0], image[-1], image[:, 0], image[:, -1]])
    assert (border[..., :3] == 1).all()  # nothing is cut off
    curves[kind].plot(tmp_path / "picture.svg")
    svg = (tmp_path / "picture.svg").read_text(encoding="utf-8")
    words = text_of(svg)
    for wanted in [*WORDS[kind], "2,000 rows"]:
        assert any(wanted in word for word in words), wanted
    for score, values in curves[kind].values.items():
        assert any(word.startswith(f"{score}  {next(iter(values))}") for word in words)
    assert len(svg) < 150_000


@pytest.mark.parametrize("kind", ["roc", "calibration", "gauc-by-activity"])
def test_html__is_one_page_that_fetches_nothing(curves, kind: str, tmp_path: Path) -> None:
    curves[kind].plot(tmp_path / "picture.html", title="Week 47 <b>")
    page = (tmp_path / "picture.html").read_text(encoding="utf-8")
    for element in elements(page):
        assert element.tag not in ("script", "link", "iframe", "object", "embed", "img", "base")
        for name, value in element.attributes.items():
            fetches = name.endswith("src") or (name.endswith("href") and not value.startswith("#"))
            assert not fetches
            assert not name.startswith("on")
    assert not re.search(r"url\((?!#)|@import|47 <b>", page)
    assert "<title>Week 47 &lt;b&gt;</title>" in page
    assert "default-src 'none'" in page
    for name, value in next(iter(curves[kind].values.values())).items():
        assert f">{name}</th>" in page
        assert f">{value:.6g}</td>" in page


@pytest.mark.usefixtures("_coarse")
def test_names__from_the_data__are_text_and_nothing_else(tmp_path: Path) -> None:
    log = log_of(HOSTILE[:2]) | {HOSTILE[2]: LOG["pctr"]}
    found = curve("roc", log)
    for suffix in ("svg", "html", "png"):
        found.plot(tmp_path / f"picture.{suffix}", title="$x$ ^ {")
    words = text_of((tmp_path / "picture.svg").read_text(encoding="utf-8"))
    assert any(word.startswith(f"{HOSTILE[0]}  AUC") for word in words)
    assert any(word.startswith('_hidden & "co"\\n  AUC') for word in words)
    assert any("…" in word and len(word) < 60 for word in words)
    assert "$x$ ^ {" in words
    page = (tmp_path / "picture.html").read_text(encoding="utf-8")
    assert "<script" not in page
    assert "&lt;script&gt;" in page


@pytest.mark.usefixtures("_coarse")
def test_files__of_equal_curves__are_equal(curves, tmp_path: Path) -> None:
    for suffix in ("svg", "html", "png"):
        paths = [tmp_path / f"{name}.{suffix}" for name in ("one", "two")]
        for path in paths:
            curves["roc"].plot(path)
        assert paths[0].read_bytes() == paths[1].read_bytes()


def test_million_points__make_a_small_file(tmp_path: Path) -> None:
    at = np.linspace(0, 1, 10**6)
    wavy = np.clip(np.sqrt(at) + 1e-4 * np.sin(1e5 * at), 0, 1)
    x, y = thin(at, wavy)
    assert len(x) < 40_000
    assert np.abs(np.interp(at, x, y) - wavy).max() < 2e-3
    assert (x[0], y[0], x[-1], y[-1]) == (at[0], wavy[0], at[-1], wavy[-1])
    columns = {"threshold": 1 - at, "fpr": at, "tpr": wavy}
    found = Curve("roc", {"m": columns}, {"m": {"AUC": 0.7}}, {}, {}, Meta("1", 9, 1, {}, 1.0))
    found.plot(tmp_path / "picture.svg")
    assert (tmp_path / "picture.svg").stat().st_size < 300_000


ODD = {
    "perfect and level": {"user": [1] * 4, "click": [1, 0, 1, 0], "a": [0.9, 0.1, 0.8, 0.2],
                          "b": [0.5] * 4},
    "wrong": {"user": [1, 1, 2, 2], "click": [1, 0, 0, 1], "a": [0.0, 1.0, 1.0, 0.0]},
    "many models": {"user": [1, 1, 1], "click": [1, 0, 0],
                    **{f"model {i}": [0.3, 0.2, 0.1 * i] for i in range(9)}},
}  # fmt: skip


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("kind", SCHEMAS)
def test_odd_data__are_drawn_without_a_warning(kind: str, name: str) -> None:
    assert words_of(curve(kind, ODD[name], **({"cutoffs": [2]} if kind == "k" else {})))


def test_weighted_bins_of_equal_width__are_drawn_with_their_weight() -> None:
    log = LOG | {"weight": np.full(2000, 0.5)}
    found = curve("calibration", log, score=["pctr"], weight="weight", binning="equal-width")
    assert any("10 equal-width bins, weight weight" in word for word in words_of(found))


def test_model_without_a_curve__is_named_in_the_legend() -> None:
    found = curve("roc", LOG)
    found.undefined["ctr_old"] = "single_class"
    for column in found.columns["ctr_old"]:
        found.columns["ctr_old"][column] = np.empty(0)
    assert "ctr_old  undefined: single class" in words_of(found)


# ---- refusals, and what stays as it was ----------------------------------------------------------


def test_plot__that_cannot_be_drawn_or_written__writes_nothing(curves, tmp_path: Path) -> None:
    one_class = {"user": [1, 1], "click": [0, 0], "a": [0.1, 0.2]}
    with pytest.raises(UndefinedError, match=r"no roc curve to draw.*single_class"):
        curve("roc", one_class).plot(tmp_path / "picture.png")
    with pytest.raises(OutputError, match="unknown suffix"):
        curves["roc"].plot(tmp_path / "picture.gif")
    assert list(tmp_path.iterdir()) == []
    path = tmp_path / "picture.svg"
    path.write_text("mine")
    with pytest.raises(OutputError, match="exists already"):
        curves["k"].plot(path)
    assert path.read_text() == "mine"
    curves["k"].plot(path, overwrite=True)
    assert path.read_text().startswith("<?xml")


def test_settings_of_the_user__neither_show_nor_change(curves, tmp_path: Path) -> None:
    curves["k"].plot(tmp_path / "plain.svg")
    with mpl.rc_context({"axes.facecolor": "red", "text.parse_math": True, "font.size": 30}):
        before = dict(mpl.rcParams)
        curves["k"].plot(tmp_path / "theirs.svg")
        assert dict(mpl.rcParams) == before
    assert (tmp_path / "plain.svg").read_bytes() == (tmp_path / "theirs.svg").read_bytes()


def test_curve__without_a_picture__does_without_matplotlib() -> None:
    code = (
        "import sys, numpy as np, fastrank_eval as fe; "
        "log = {'u': np.ones(2, int), 'y': np.arange(2), 's': np.arange(2.0)}; "
        "found = fe.curve('roc', log, group='u', label='y', score='s'); found.to_csv(); "
        "print(*(m for m in ('matplotlib', 'pandas') if m in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_style__is_used_by_one_thread_at_a_time() -> None:
    def family_in_style() -> object:
        with styled():
            return mpl.rcParams["font.family"]

    before = mpl.rcParams["font.family"]
    with ThreadPoolExecutor(1) as threads:
        with styled():
            other = threads.submit(family_in_style)
            with pytest.raises(TimeoutError):
                other.result(0.05)
            family = mpl.rcParams["font.family"]
        assert other.result(60) == family != before
    assert mpl.rcParams["font.family"] == before


# ---- the commands --------------------------------------------------------------------------------

COLUMNS = ["-g", "user", "-l", "click", "-s", "pctr,ctr_old"]


@pytest.fixture
def folder(own_folder: Path) -> Path:
    write_log()
    return own_folder


def write_log() -> None:
    parquet.write_table(pa.table(LOG), "log.parquet")


def refused(*arguments: str) -> str:
    """The message of a command; the answers below use it."""
    outcome = run(*arguments)
    assert outcome.exit_code == 2, outcome.output
    assert outcome.stdout == ""
    return outcome.stderr


def test_kinds_of_the_commands__are_those_of_the_function() -> None:
    assert tuple(SCHEMAS) == COMMAND_KINDS


@pytest.mark.usefixtures("folder")
def test_curve_command__prints_csv_or_json() -> None:
    words = ("log.parquet", *COLUMNS)
    assert output("curve", "lift", *words, "--points", "5") == curve("lift", points=5).to_csv()
    told = output("curve", "k", *words, "-m", "R,P", "--cutoffs", "1-3, 10", "-f", "json")
    wanted = curve("k", measure="R,P", cutoffs=[1, 2, 3, 10]).document()
    assert json.loads(told)["points"] == wanted["points"]
    told = output(
        "curve", "gauc-by-activity", *words, "--buckets", "1,5", "--activity", "positives"
    )
    assert told == curve("gauc-by-activity", buckets=[1, 5], activity="positives").to_csv()


@pytest.mark.usefixtures("folder")
def test_curve_command__writes_tables() -> None:
    wanted = curve("roc").records()
    for suffix in ("parquet", "arrow", "csv", "json"):
        outcome = run("curve", "roc", "log.parquet", *COLUMNS, "-o", f"roc.{suffix}")
        assert (outcome.exit_code, outcome.stdout) == (0, "")
        assert outcome.stderr == f"wrote roc.{suffix}\n"
    assert parquet.read_table("roc.parquet").equals(wanted)
    assert ipc.open_file("roc.arrow").read_all().equals(wanted)
    assert Path("roc.csv").read_text() == curve("roc").to_csv()
    assert json.loads(Path("roc.json").read_text())["kind"] == "roc"
    words = ("curve", "roc", "log.parquet", *COLUMNS, "--where", "click = 0")
    assert "pctr: no curve (single_class)" in run(*words).stderr
    quiet = run(*words, "-q")
    assert (quiet.stdout, quiet.stderr) == ("score,threshold,fpr,tpr\n", "")


@pytest.mark.usefixtures("folder", "_coarse")
def test_plot_command__writes_a_picture() -> None:
    for suffix in ("png", "svg", "html"):
        outcome = run("plot", "roc", "log.parquet", *COLUMNS, "-o", f"roc.{suffix}")
        assert (outcome.exit_code, outcome.stderr) == (0, f"wrote roc.{suffix}\n")
    words = text_of(Path("roc.svg").read_text(encoding="utf-8"))
    assert any(word.startswith("log.parquet, 2,000 rows") for word in words)
    outcome = run(
        "plot", "k", "log.parquet", *COLUMNS, "-o", "roc.svg", "--overwrite", "-q", "--title", "T"
    )
    assert (outcome.exit_code, outcome.stderr) == (0, "")
    assert "T" in text_of(Path("roc.svg").read_text(encoding="utf-8"))


test_answers = answers(globals())


def test_calibration__clusters__leave_the_bars_out() -> None:
    found = curve("calibration", LOG | {"home": LOG["user"] // 3}, cluster="home", score="pctr")
    assert "bars" not in " ".join(words_of(found))
