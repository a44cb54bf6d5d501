"""Memory of a run is free when it ends, not when Python collects garbage."""

import gc
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fastrank_eval as fe

ROWS = 2000
RANDOM = np.random.default_rng(45)
LOG = pa.table(
    {
        "user": np.arange(ROWS) // 10,
        "slot": np.arange(ROWS) % 3,
        "score": RANDOM.random(ROWS),
        "other": RANDOM.random(ROWS),
        "click": RANDOM.integers(0, 2, ROWS),
    }
)
SHUFFLED = LOG.take(RANDOM.permutation(ROWS))
ROLES: dict[str, Any] = {"group": "user", "score": "score", "label": "click", "threads": 1}


@pytest.mark.parametrize(
    "options",
    [
        {"measures": "GAUC,nDCG@5,bpref,AUC,NE", "unjudged": "allow"},
        {"measures": "GAUC,AUC(se='clustered')", "score": ["score", "other"]},
        {"measures": "GAUC,AUC", "by": "slot"},
        {"measures": "GAUC", "group": ["user", "slot"], "cluster": "user"},
        {"measures": "GAUC,RR", "where": "slot = 1", "threads": 2},
    ],
    ids=lambda options: options["measures"],
)
@pytest.mark.parametrize("source", ["memory", "Parquet", "any order"])
def test_a_run__leaves_no_garbage(options: dict[str, Any], source: str, tmp_path: Path) -> None:
    rows: Any = SHUFFLED if source == "any order" else LOG
    if source == "Parquet":
        rows = tmp_path / "log.parquet"
        pq.write_table(LOG, rows)
    fe.evaluate(rows, **{**ROLES, **options})
    gc.collect()
    gc.disable()
    try:
        fe.evaluate(rows, **{**ROLES, **options})
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        kinds = {type(thing) for thing in gc.garbage}
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    # The metadata of a Parquet file and its schema refer to each other.
    assert [kind for kind in kinds if not kind.__module__.startswith("pyarrow.")] == []
