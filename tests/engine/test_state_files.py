"""Files of states: whole or not there; damaged, foreign and newer ones are refused."""

import errno
import json
import math
import os
import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import fastrank_eval as fe
from fastrank_eval._lib.errors import OutputError, SourceError
from fastrank_eval.engine import state_file
from fastrank_eval.engine.state_arrays import ALL
from fastrank_eval.engine.state_file import is_state, read_state, state_bytes
from tests.golden_state import GOLDEN, VALUES, golden_result
from tests.support.transcripts import answers

LOG = {
    "user": np.repeat(np.arange(40), 5),
    "click": np.tile([1, 0, 0, 1, 0], 40),
    "pctr": np.random.default_rng(1).random(200),
    "ad": np.random.default_rng(2).integers(0, 9, 200),
}
MEASURES = (
    "GAUC,AUC,LogLoss,FieldECE(field='ad'),MultiECCE(columns='ad'),ECE(bins=5),PPV,AUC(bins=8)"
)


@pytest.fixture(scope="module")
def state() -> fe.State:
    return fe.evaluate(
        LOG, group="user", label="click", score="pctr", measures=MEASURES, keep="state"
    ).state


@pytest.fixture
def saved(state: fe.State, tmp_path: Path) -> Path:
    state.save(tmp_path / "day.state")
    return tmp_path / "day.state"


def test_changed_bytes__wherever_they_are__are_refused(saved: Path) -> None:
    content, rng = saved.read_bytes(), random.Random(3)  # noqa: S311
    for _ in range(400):
        broken = bytearray(content)
        for _ in range(rng.choice([1, 1, 4])):
            broken[rng.randrange(len(broken))] ^= rng.randrange(1, 256)
        if broken == content:
            continue
        saved.write_bytes(broken)
        with pytest.raises(SourceError, match=r"damaged|is not a saved state"):
            fe.load_state(saved)


def test_cut_or_lengthened_file__is_refused(saved: Path) -> None:
    content, rng = saved.read_bytes(), random.Random(4)  # noqa: S311
    lengths = [0, 1, 5, 6, 100, len(content) - 1, *(rng.randrange(len(content)) for _ in range(60))]
    for length in lengths:
        saved.write_bytes(content[:length])
        with pytest.raises(SourceError, match=r"damaged|is not a saved state"):
            fe.load_state(saved)
    saved.write_bytes(content + b"\0")
    with pytest.raises(SourceError, match="damaged"):
        fe.load_state(saved)


def test_file_cut_short_while_it_is_read__is_refused_and_kills_no_process(
    saved, monkeypatch
) -> None:
    check = state_file._check_digest

    def cut_first(content: Any, shown: str) -> None:
        check(content, shown)
        os.truncate(saved, 0)
        assert len(bytes(content)) > 6

    monkeypatch.setattr(state_file, "_check_digest", cut_first)
    assert fe.load_state(saved).rows == 200
    with pytest.raises(SourceError, match="it is empty"):
        fe.load_state(saved)


def test_missing_file_or_folder__is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"cannot read the saved state '.*nowhere': No such file"):
        fe.load_state(tmp_path / "nowhere")
    with pytest.raises(SourceError, match=r"cannot read the saved state"):
        fe.load_state(tmp_path)


def test_newer_format__is_refused_and_names_its_writer(state, tmp_path, monkeypatch) -> None:
    with monkeypatch.context() as later:
        later.setattr(state_file, "FORMAT", 5)
        later.setattr(state_file, "__version__", "9.0")
        state.save(tmp_path / "new")
    with pytest.raises(
        SourceError, match=r"format 5, written by fastrank_eval 9\.0;.* reads format 4"
    ):
        fe.load_state(tmp_path / "new")


def test_unknown_type_of_an_array__is_refused(state: fe.State, tmp_path: Path) -> None:
    states = {**state.arrays, (ALL, "pctr", "more"): {"part": np.zeros(2, np.float16)}}
    (tmp_path / "odd").write_bytes(state_bytes(state.header, states))
    with pytest.raises(SourceError, match="unknown type 'float16' of more part"):
        fe.load_state(tmp_path / "odd")


def test_many_batches__are_read_as_one(state, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(state_file, "_BATCH", 100)
    state.save(tmp_path / "small")
    again = fe.load_state(tmp_path / "small")
    assert (
        again.merge(allow_repeated=True).result().document()["results"]
        == (state.result().document()["results"])
    )


def test_disk_full__leaves_the_old_file(state, saved, monkeypatch) -> None:
    before = saved.read_bytes()

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(state_file, "_batch", full)
    with pytest.raises(OutputError, match="No space left"):
        state.save(saved, overwrite=True)
    assert [path.name for path in saved.parent.iterdir()] == ["day.state"]
    assert saved.read_bytes() == before


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, SystemExit])
def test_interruption__leaves_no_file(state, tmp_path, interruption, monkeypatch) -> None:
    def stop(*_: object) -> None:
        raise interruption

    monkeypatch.setattr(state_file.hashlib, "sha256", stop)
    with pytest.raises(interruption):
        state.save(tmp_path / "half")
    assert list(tmp_path.iterdir()) == []


def test_save__existing_file__is_kept_unless_told(state: fe.State, saved: Path) -> None:
    with pytest.raises(OutputError, match=r"day\.state' exists already"):
        state.save(saved)
    state.save(saved, overwrite=True)
    assert fe.load_state(saved).rows == 200


def test_arrow__reads_the_file_too(saved: Path) -> None:
    with pa.ipc.open_file(str(saved)) as file:
        table = file.read_all()
    names = ["slicing", "slice", "model", "state", "part", "type", "shape", "content"]
    assert table.column_names == names
    assert json.loads(table.schema.metadata[b"fastrank_eval.models"]) == ["pctr"]


def test_thousand_edges__are_written_once_not_for_every_slice(tmp_path: Path) -> None:
    age = np.arange(1000)
    log = {"user": age % 50, "click": age % 3 == 0, "pctr": age * 7 % 1000, "age": age}
    by = "age:" + ",".join(map(str, age.tolist()))
    options = {"group": "user", "label": "click", "score": "pctr", "min_groups": 1}
    result = fe.evaluate(log, measures="AUC", by=by, keep="state", **options)
    result.state.save(tmp_path / "edges")
    with pa.ipc.open_file(str(tmp_path / "edges")) as file:
        texts = file.read_all().select(["slice", "model", "state", "part"])
    assert sum(len(text) for column in texts.columns for text in column.to_pylist()) < 200_000
    again = fe.load_state(tmp_path / "edges").result()
    assert [(v.slice, v.value) for v in again if v.slice == "age 500-501"] == [
        (v.slice, v.value) for v in result if v.slice == "age 500-501"
    ]
    assert len(again.values) == len(result.values) > 900


def test_golden_file__of_format_4__is_read() -> None:
    wanted = json.loads(VALUES.read_text(encoding="utf-8"))
    state = fe.load_state(GOLDEN)
    found = state.result()
    held = [(name, measure) for name, of in wanted["values"].items() for measure in of]
    assert [(f"{line.score} {line.slice}", line.measure) for line in found] == held
    for line in found:
        told = wanted["values"][f"{line.score} {line.slice}"][line.measure]
        for number, known in zip((line.value, line.se), told, strict=True):
            close = pytest.approx(math.nan if known is None else known, rel=1e-12, nan_ok=True)
            assert number == close, (line.score, line.slice, line.measure)
    assert (found.meta.rows, found.meta.groups) == (wanted["rows"], wanted["groups"])
    assert (state.baseline, found.per_group.num_rows) == ("old", wanted["groups"])


def test_loaded_state__written_again_has_the_same_bytes() -> None:
    content = golden_result().state.to_bytes()
    assert fe.State.from_bytes(content).to_bytes() == content
    twice = [fe.State.from_bytes(content) for _ in range(2)]
    merged = twice[0].merge(twice[1], allow_repeated=True, allow_crossing=True)
    assert fe.State.from_bytes(merged.to_bytes()).to_bytes() == merged.to_bytes()


def test_golden_file__has_what_is_written_today() -> None:
    today, golden = golden_result().state, fe.load_state(GOLDEN)
    assert today.header.keys() == golden.header.keys()
    assert {place: list(parts) for place, parts in today.arrays.items()} == {
        place: list(parts) for place, parts in golden.arrays.items()
    }
    both = golden.merge(today, allow_repeated=True, allow_crossing=True)
    assert both.rows == 2 * golden.rows
    once = both.result()
    for text in ("AUC", "GAUC", "LogLoss", "FieldECE(field='ad')"):
        for score in ("pctr", "old"):
            alone = golden.result().value(text, score)
            assert once.value(text, score) == pytest.approx(alone, rel=1e-12)


def test_state__with_many_edges__is_known_as_one(tmp_path: Path) -> None:
    edges = [f"{number:>99}" for number in range(100_000)]
    file = tmp_path / "day.state"
    file.write_bytes(state_bytes({"slicings": {"@score": {"score": edges}}}, {}))
    assert is_state(file)
    assert read_state(file)[0]["slicings"] == {"@score": {"score": edges}}


test_answers = answers(globals())
