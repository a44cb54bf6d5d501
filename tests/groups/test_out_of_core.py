"""Scattered rows that do not fit memory: the same bits as in memory, and nothing left on disk."""

import json
import signal
import subprocess
import sys
from importlib import import_module
from types import SimpleNamespace

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner
from pyarrow import parquet

import fastrank_eval
from fastrank_eval import ArgumentError, ColumnError, SpillError
from fastrank_eval._lib.files import spill_folder
from fastrank_eval._lib.threads import Budget, memory_budget, parse_bytes
from fastrank_eval.apps.cli.main import cli
from tests.engine.test_engine import bits
from tests.strategies import EVERY_KIND
from tests.support import batched
from tests.support.signals import default_signals

EVALUATION = import_module("fastrank_eval.engine.run")
ROWS = 4000


@pytest.fixture
def spill(monkeypatch, tmp_path):
    """A folder that rows are spilled to, because there is room for none of them."""
    folder = tmp_path / "spill"
    folder.mkdir()
    monkeypatch.setattr(EVALUATION, "memory_budget", lambda *asked: Budget(1 << 28, 0))
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


def numbers_of(rng, rows=ROWS):
    return rng.integers(0, 300, rows)


KEYS = {
    "int64": lambda n: pa.array(n - 150),
    "wide int64": lambda n: pa.array(n << 40),
    "int64 that grows wide": lambda n: pa.array(n + (np.arange(len(n)) > 3000) * 2**33),
    "int64 at its end": lambda n: pa.array(np.iinfo(np.int64).min + n),
    "uint64": lambda n: pa.array(n.astype(np.uint64) + np.uint64(2**63 - 150)),
    "date": lambda n: pa.array(n.astype(np.int32)).view(pa.date32()),
    "bool": lambda n: pa.array(n % 2 == 0),
    "string": lambda n: pa.array([f"user {'x' * (i % 97)}{i}" for i in n.tolist()]),
    "dictionary": lambda n: pa.array([f"user {i}" for i in n.tolist()]).dictionary_encode(),
    "bytes": lambda n: pa.array([bytes([i % 256, 0, 1 + i // 256]) for i in n.tolist()]),
    "fixed bytes": lambda n: pa.array([b"%010d" % i for i in n.tolist()], pa.binary(10)),
    "decimal": lambda n: pa.array(n - 150).cast(pa.decimal128(20)),
}


def log_of(keys, seed=3, **more):
    rng = np.random.default_rng(seed)
    rows = len(keys)
    return pa.table(
        {
            "group": keys,
            "label": pa.array(rng.integers(0, 3, rows).astype(np.int8)),
            "score": pa.array(rng.integers(0, 30, rows).astype(np.float32) / 8),
            **more,
        }
    )


def both(spill, table, measures=EVERY_KIND, **options):
    """The same rows evaluated on disk and, the room being given back, in memory."""
    options = {"group": "group", "label": "label", "score": "score", **options}
    chunked = pa.Table.from_batches(table.to_batches(max_chunksize=700))
    on_disk = batched.evaluate(chunked, measures=measures, **options, order="scattered")
    assert on_disk.meta.conventions["spilled"] is True
    assert list(spill.iterdir()) == []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(EVALUATION, "memory_budget", memory_budget)
        in_memory = batched.evaluate(table, measures=measures, **options, order="scattered")
    assert "spilled" not in in_memory.meta.conventions
    return on_disk, in_memory


@pytest.mark.parametrize("kind", KEYS)
def test_spilled_rows__give_the_same_bits_and_keys_of_the_same_type(spill, kind):
    keys = KEYS[kind](numbers_of(np.random.default_rng(1)))
    on_disk, in_memory = both(spill, log_of(keys), batch_rows=512, threads=2)
    assert bits(on_disk) == bits(in_memory)
    assert on_disk.per_group.schema == in_memory.per_group.schema


def test_spilled_rows__of_several_keys_and_models_with_weights(spill):
    rng = np.random.default_rng(5)
    keys = KEYS["string"](numbers_of(rng))
    table = log_of(
        keys,
        day=pa.array(rng.integers(0, 3, ROWS)),
        other=pa.array(rng.random(ROWS)),
        weight=pa.array(rng.integers(0, 9, ROWS) / 8),
    )
    options = {"group": ["group", "day"], "score": ["score", "other"], "weight": "weight"}
    on_disk, in_memory = both(spill, table, ["GAUC", "AUC"], **options, batch_rows=900)
    assert bits(on_disk) == bits(in_memory)


def test_spilled_rows__carry_fields_beside_group_weights(spill):
    rng = np.random.default_rng(8)
    numbers = numbers_of(rng)
    field = pa.array([None if n % 7 == 0 else f"field {n % 7}" for n in numbers.tolist()])
    probable = pa.array(rng.integers(0, 30, ROWS) / 30)
    table = log_of(KEYS["string"](numbers), field=field, often=pa.array(1.0 + numbers), p=probable)
    measures = ["FieldRCE(field='field')", "GAUC(weight='often')", "ECE(bins=9)"]
    on_disk, in_memory = both(spill, table, measures, score="p", batch_rows=900)
    assert bits(on_disk) == bits(in_memory)


def test_spilled_rows__that_were_packed_in_words(spill):
    table = log_of(KEYS["int64"](numbers_of(np.random.default_rng(2))))
    on_disk, in_memory = both(spill, table, keep="", batch_rows=900)
    assert on_disk.document()["results"] == in_memory.document()["results"]


@pytest.mark.parametrize("ties", ["input", "best", "worst"])
def test_spilled_rows__under_every_tie_policy(spill, ties):
    table = log_of(KEYS["int64"](numbers_of(np.random.default_rng(6))))
    on_disk, in_memory = both(spill, table, ["GAUC", "RR", "P@3"], ties=ties, batch_rows=900)
    assert bits(on_disk) == bits(in_memory)


ITEMS = {
    "strings": lambda n: pa.array([f"item {i}" for i in n.tolist()]),
    "bytes": lambda n: pa.array([b"%d" % i for i in n.tolist()]),
    "numbers": lambda n: pa.array(n),
    "instants": lambda n: (
        pa.array(n * 86_400_000, pa.int64()).cast(pa.timestamp("ms")).cast(pa.date64())
    ),
    "durations": lambda n: pa.array(n, pa.int64()).cast(pa.duration("s")),
    "long decimals": lambda n: pa.array(n).cast(pa.decimal128(20)).cast(pa.decimal256(60)),
}


@pytest.mark.parametrize("kind", ITEMS)
@pytest.mark.parametrize("keep", ["values", ""])
def test_spilled_rows__with_ties_by_item(spill, kind, keep):
    rng = np.random.default_rng(6)
    groups = numbers_of(rng)
    order = rng.permutation(ROWS)
    # Items are numbered inside each group, which has each once: groups share them.
    place = np.array([np.count_nonzero(order[groups == groups[i]] < order[i]) for i in range(ROWS)])
    table = log_of(KEYS["int64"](groups), item=ITEMS[kind](place))
    options = {"ties": "item", "item": "item", "keep": keep, "batch_rows": 900}
    on_disk, in_memory = both(spill, table, ["GAUC", "RR", "AP"], **options)
    assert on_disk.document()["results"] == in_memory.document()["results"]


def test_spilled_rows__without_scores_or_labels(spill):
    rng = np.random.default_rng(7)
    table = log_of(KEYS["int64"](numbers_of(rng)))
    for name in ("label", "score"):
        missing = pa.array(rng.random(ROWS) < 0.1)
        # In some stretches only.
        missing = pa.concat_arrays([pa.array([False] * 2000), missing.slice(2000)])
        column = pa.chunked_array([pa.array(table[name].to_numpy(), mask=missing.to_numpy(False))])
        table = table.set_column(table.column_names.index(name), name, column)
    measures = ["GAUC", "nDCG@3", "AUC", "bpref", "Judged@3"]
    for unjudged in ("allow", "drop"):
        nulls = {"unretrieved": "allow", "unjudged": unjudged}
        on_disk, in_memory = both(spill, table, measures, **nulls, batch_rows=700)
        assert bits(on_disk) == bits(in_memory)


def test_spilled_rows__of_a_stream_that_is_read_once(spill):
    table = log_of(KEYS["int64"](numbers_of(np.random.default_rng(8))))
    roles = {"group": "group", "label": "label", "score": "score", "measures": "GAUC"}
    reader = pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=300))
    result = batched.evaluate(reader, **roles, batch_rows=300)
    assert result.meta.conventions["order"] == "scattered"
    assert result.meta.rows == ROWS


def test_bad_row__found_while_spilling_is_named_and_nothing_is_left(spill):
    table = log_of(KEYS["int64"](numbers_of(np.random.default_rng(9))))
    scores = table["score"].to_numpy().copy()
    scores[-1] = np.nan
    table = table.set_column(2, "score", pa.array(scores))
    with pytest.raises(ColumnError, match=r"'score'.* is NaN in 1 row.*first in row 3,999"):
        both(spill, table, batch_rows=500)
    assert list(spill.iterdir()) == []


def test_callback_that_raises__while_spilling_leaves_nothing(spill):
    def stop(progress):
        if progress.phase != "reading":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        both(spill, log_of(KEYS["int64"](numbers_of(np.random.default_rng(9)))), progress=stop)
    assert list(spill.iterdir()) == []


def test_disk__with_too_little_room_is_told_before_the_start(spill, monkeypatch):
    monkeypatch.setattr(
        "fastrank_eval._lib.files.shutil.disk_usage", lambda folder: SimpleNamespace(free=1000)
    )
    with pytest.raises(SpillError, match=r"about .* kB of rows must be spilled.*1 kB free"):
        both(spill, log_of(KEYS["int64"](numbers_of(np.random.default_rng(9)))))


@pytest.mark.slow("fills files of spilled rows")
def test_disk__that_fills_up_meanwhile(spill, monkeypatch):
    monkeypatch.setattr("fastrank_eval.engine.evaluator._DISK_SHARE", 1e-9)
    monkeypatch.setattr("fastrank_eval.groups.sort._MIN_MEMORY", 16 << 20)
    keys = KEYS["int64"](numbers_of(np.random.default_rng(9), 3_000_000))
    with pytest.raises(SpillError, match=r"is full.*TMPDIR name a folder on another disk"):
        both(spill, log_of(keys), "GAUC")
    assert list(spill.iterdir()) == []


def test_missing_duckdb__names_the_extra(spill, monkeypatch):
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(SpillError, match=r"pip install 'fastrank_eval\[outofcore\]'"):
        both(spill, log_of(KEYS["int64"](numbers_of(np.random.default_rng(9)))))
    assert list(spill.iterdir()) == []


def test_duckdb__may_not_download_extensions(spill, monkeypatch):
    connect, settings = duckdb.connect, {}

    def connect_and_look(*arguments, **options):
        connection = connect(*arguments, **options)
        query = "SELECT name, value FROM duckdb_settings() WHERE name LIKE 'auto%_known_extensions'"
        settings.update(connection.execute(query).fetchall())
        return connection

    monkeypatch.setattr(duckdb, "connect", connect_and_look)
    both(spill, log_of(KEYS["int64"](numbers_of(np.random.default_rng(9)))), "GAUC")
    assert settings == {
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
    }


KILLED = """
import sys
import pyarrow as pa
import tempfile
import fastrank_eval
import fastrank_eval.engine.run
from fastrank_eval.apps.cli.main import cli
from fastrank_eval.engine import options
from fastrank_eval._lib.threads import Budget

tempfile.tempdir = sys.argv[1]
sys.modules["fastrank_eval.engine.run"].memory_budget = lambda *asked: Budget(1 << 28, 0)

def batches():
    for lo in range(4):
        yield pa.record_batch({"u": list(range(99)) * 9, "y": [0] * 891, "s": [0.5] * 891})
    print("spilling", flush=True)
    sys.stdin.read()

schema = pa.schema([("u", pa.int64()), ("y", pa.int64()), ("s", pa.float64())])
source = pa.RecordBatchReader.from_batches(schema, batches())
options._DEFAULTS["batch_rows"] = 891
fastrank_eval.evaluate(
    source, group="u", label="y", score="s", measures="GAUC", order="scattered"
)
"""


@pytest.mark.parametrize("end", ["SIGKILL", "SIGTERM", "SIGINT"])
def test_process__ended_in_the_middle__leaves_no_spill_to_the_next_run(monkeypatch, tmp_path, end):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    process = subprocess.Popen(
        [sys.executable, "-c", "import fastrank_eval.results.evaluate\n" + KILLED, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        preexec_fn=default_signals,
    )
    with process:
        assert process.stdout.readline() == b"spilling\n"
        assert list(tmp_path.glob("fastrank-spill-*"))
        with spill_folder(0):
            assert len(list(tmp_path.glob("fastrank-spill-*"))) == 2
        process.send_signal(getattr(signal, end))
        if end == "SIGINT":
            process.stdin.close()
        assert process.wait() != 0
    # A run that may not unwind leaves its folder without a lock.
    if end != "SIGINT":
        with spill_folder(0) as folder:
            assert list(tmp_path.iterdir()) == [folder]
    assert list(tmp_path.iterdir()) == []


def test_folder__left_by_a_machine_that_went_down_is_removed_by_the_next_run(spill):
    abandoned = spill / "fastrank-spill-1-abc"
    abandoned.mkdir()
    (abandoned / "in-use").touch()
    (abandoned / "rows").write_bytes(b"x" * 100)
    both(spill, log_of(KEYS["int64"](numbers_of(np.random.default_rng(9)))), "GAUC")
    assert not abandoned.exists()


def test_memory__as_text_and_numbers():
    sizes = {"4GB": 4 * 10**9, "512 MiB": 512 << 20, "1.5g": 15 * 10**8, 10**9: 10**9}
    assert {text: parse_bytes(text) for text in sizes} == sizes
    assert parse_bytes(np.int64(5)) == 5
    for wrong in ("", "4 pounds", "-1GB", 0, -5, True, "GB", "1e9GB", "9" * 400, 1.5, None):
        with pytest.raises(ArgumentError, match="must be an amount of memory"):
            parse_bytes(wrong)
    with pytest.raises(ArgumentError, match="must be at least"):
        fastrank_eval.evaluate(
            {"y": [1], "s": [1]}, label="y", score="s", measures="AUC", memory="10MB"
        )


def test_memory_budget__leaves_room_beside_the_rows_and_is_never_nothing():
    small, large = memory_budget("256MB", 64, True), memory_budget("64GB", 2, True)
    assert small.rows == small.total // 4
    assert large.total // 2 < large.rows < large.total
    assert memory_budget(None, 2, False).rows > 0


@pytest.mark.slow("fills files of spilled rows")
def test_command_line__with_little_memory_prints_the_same_numbers(monkeypatch, tmp_path):
    rng = np.random.default_rng(11)
    rows = 9_000_000
    log = {
        "user": rng.integers(0, 400_000, rows),
        "click": rng.random(rows) < 0.05,
        "pctr": rng.random(rows, np.float32),
    }
    parquet.write_table(pa.table(log), tmp_path / "log.parquet")
    spill = tmp_path / "spill"
    spill.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(spill))
    arguments = ["evaluate", str(tmp_path / "log.parquet"), "--group", "user", "--label", "click"]
    arguments += ["--score", "pctr", "--measures", "GAUC,AUC,nDCG@10", "--format", "json"]
    little = ["--memory", "256MB"]
    outcomes = [CliRunner().invoke(cli, [*arguments, *more]) for more in ([], little)]
    in_memory, on_disk = (json.loads(outcome.stdout) for outcome in outcomes)
    assert on_disk["results"] == in_memory["results"]
    assert on_disk["meta"]["conventions"]["spilled"] is True
    assert "spilled" not in in_memory["meta"]["conventions"]
    assert list(spill.iterdir()) == []


COMMAND = """
import sys
import fastrank_eval.engine.run
from fastrank_eval.__main__ import main
from fastrank_eval._lib.threads import Budget

sys.modules["fastrank_eval.engine.run"].memory_budget = lambda *asked: Budget(1 << 28, 0)
main()
"""


def test_process__that_has_spilled_ends_without_a_word(tmp_path):
    table = log_of(KEYS["string"](numbers_of(np.random.default_rng(9))))
    parquet.write_table(table, tmp_path / "log.parquet")
    arguments = ["evaluate", str(tmp_path / "log.parquet"), "-f", "csv", "-m", "RR"]
    arguments += ["-g", "group", "-l", "label", "-s", "score", "--order", "scattered"]
    ended = subprocess.run(
        [sys.executable, "-c", COMMAND, *arguments], capture_output=True, check=True
    )
    assert ended.stdout.startswith(b"score,by,slice,measure,name,value")
    assert ended.stderr == b""


@pytest.mark.parametrize("weight", [None, "weight"])
def test_spilled_rows__of_predictions_at_a_threshold(spill, weight):
    weights = pa.array(np.random.default_rng(8).random(ROWS))
    table = log_of(pa.array(numbers_of(np.random.default_rng(7))), weight=weights)
    measures = ["GroupPPV(threshold=2)", "GroupMCC(threshold=2)", "FScore(threshold=1.5)", "Lift"]
    on_disk, in_memory = both(spill, table, measures, weight=weight, batch_rows=900)
    assert bits(on_disk) == bits(in_memory)
