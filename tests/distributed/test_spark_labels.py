"""Several labels in one job of Spark: the bits of the local engine for each label."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import fastrank_eval as fe
from fastrank_eval.integrations.spark import evaluate as job
from tests.support.spark_frames import frame_of, sorted_table

LABELS = ["click", "order"]
OWN = {"click": "GAUC,AUC,MultiECCE(columns='slot,name', min_clicks=0)", "order": ["RR", "nDCG@5"]}


@pytest.fixture(scope="session")
def shop(log: pa.Table) -> pa.Table:
    """The log with a second label, null in some rows."""
    rng = np.random.default_rng(11)
    order = (rng.random(log.num_rows) < 0.2) & np.asarray(log["click"], bool)
    return log.append_column(
        "order", pa.array(order.astype(np.int8), mask=rng.random(log.num_rows) < 0.1)
    )


@pytest.fixture(scope="session")
def shop_frame(spark: Any, shop: pa.Table) -> Any:
    """The same in Spark."""
    return frame_of(spark, shop).cache()


@pytest.mark.parametrize("group", ["user", ["user", "session"]], ids=str)
@pytest.mark.parametrize("measures", ["GAUC,AUC,nDCG@10", OWN], ids=["one list", "of each label"])
def test_labels__the_bits_of_the_local_engine_in_one_job(
    shop_frame, shop, monkeypatch, group, measures
) -> None:
    jobs, collect = [], job._collect

    def counted(replies: Any, *more: Any) -> Any:
        jobs.append(replies)
        return collect(replies, *more)

    monkeypatch.setattr(job, "_collect", counted)
    options = {"group": group, "score": ["old", "new"], "by": ["slot"], "unjudged": "drop"}
    found = fe.spark.evaluate(
        shop_frame, label=LABELS, measures=measures, partitions=3, keep="groups", **options
    )
    assert len(jobs) == 1
    assert found.labels == tuple(LABELS)
    for label in LABELS:
        result = found[label]
        own = measures[label] if isinstance(measures, dict) else measures
        expected = fe.evaluate(shop, label=label, measures=own, keep="groups", **options)
        assert repr(result.values) == repr(expected.values)
        assert result.state.provenance[0].fingerprint == expected.state.provenance[0].fingerprint
        assert result.meta.conventions == {**expected.meta.conventions, "order": "spark"}
        alone = fe.spark.evaluate(
            shop_frame, label=label, measures=own, partitions=3, keep="groups", **options
        )
        assert result.state.to_bytes() == alone.state.to_bytes()


def test_quantile_slices_and_no_rows__of_every_label(shop_frame, shop) -> None:
    options = {"group": "user", "score": "old", "measures": "GAUC", "by": "age:quantile3"}
    for where in ("slot = 'top' and order is not null", "old > 9"):
        found = fe.spark.evaluate(shop_frame, label=LABELS, where=where, **options)
        expected = fe.evaluate(shop, label=LABELS, where=where, **options)
        for label in LABELS:
            assert repr(found[label].values) == repr(expected[label].values)


@pytest.mark.parametrize("group", ["user", "name"])
def test_per_group__has_the_label_in_front(shop_frame, shop, group) -> None:
    options = {
        "group": group, "label": LABELS, "score": "old", "measures": OWN, "unjudged": "allow",
    }  # fmt: skip
    found = fe.spark.evaluate(shop_frame, per_group=True, partitions=5, **options)
    expected = fe.evaluate(shop, **options).per_group
    order = [("label", "ascending"), (group, "ascending")]
    assert found.columns == expected.column_names
    assert sorted_table(found, expected, order).equals(expected.sort_by(order))


@pytest.mark.parametrize("test", ["clustered_t", "wilcoxon"])
def test_compare__the_lines_of_the_local_engine(shop_frame, shop, test) -> None:
    options = {
        "group": "name", "label": LABELS, "score": ["old", "new"], "baseline": "old",
        "measures": {"click": "GAUC", "order": "RR,nDCG@5"}, "test": test, "unjudged": "drop",
    }  # fmt: skip
    found = fe.spark.compare(shop_frame, partitions=3, **options)
    expected = fe.compare(shop, **options)
    for label in LABELS:
        assert repr(found[label].values) == repr(expected[label].values)


def test_faulty_row_of_the_second_label__the_error_names_it(shop_frame, shop) -> None:
    with pytest.raises(fe.ColumnError, match=r"column 'order'.*null.*first in group user="):
        fe.spark.evaluate(shop_frame, group="user", label=LABELS, score="old", measures="RR")
