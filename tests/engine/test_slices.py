"""Every slice is, to the last bit, what evaluating its rows alone gives."""

from dataclasses import fields

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fastrank_eval
from fastrank_eval import ArgumentError
from fastrank_eval._lib.threads import Budget
from fastrank_eval.engine import run
from fastrank_eval.groups.ties import TIES
from tests.strategies import (
    COVERING,
    EVERY_KIND,
    GROUP_DECISION_VARIANTS,
    POOLED_VARIANTS,
    allows,
)
from tests.support import batched
from tests.support.commands import output
from tests.support.transcripts import answers

PLACES = {"group": "user", "label": "label", "score": "score"}
#: One text of each measure of all rows, and one that keeps every score with its group.
POOLED = tuple(
    text.replace("item", "slot") for texts in POOLED_VARIANTS.values() for text in texts[-1:]
)
OF_ROWS = (*POOLED, "AUC", "AUC(rel=2, se='clustered')", "AUC(se='delong')")
OF_GROUPS = (*EVERY_KIND[:-1], *(texts[0] for texts in GROUP_DECISION_VARIANTS.values()))
FEW = ("GAUC", "nDCG@3", "RR", "AUC", "LogLoss")


def log_of(seed: int = 5, groups: int = 40) -> pa.Table:
    """Groups of 1 to 12 rows; slot and country cut groups, kind does not; nulls in all three."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 13, groups)
    user = np.repeat(np.arange(groups) * 3, sizes)
    rows = len(user)
    kind = np.repeat(rng.integers(0, 3, groups), sizes)
    label = rng.choice([0, 0, 0, 1, 2], rows).astype(np.int8)
    return pa.table(
        {
            "user": user,
            "label": label,
            "score": rng.integers(0, 9, rows) / 8,
            "other": rng.random(rows).astype(np.float32),
            "weight": rng.choice([0.0, 1.0, 0.3, 7.7], rows),
            "share": (user % 4) / 4,
            "item": rng.permutation(rows),
            "patchy": pa.array(rng.integers(0, 5, rows) / 4, mask=rng.random(rows) < 0.2),
            "judged": pa.array(label, mask=rng.random(rows) < 0.2),
            "covers": pa.array([[x] if x < 4 else [] for x in rng.integers(0, 9, rows).tolist()],
                               pa.list_(pa.int8())),
            "slot": pa.array(rng.integers(1, 4, rows, np.int16), mask=rng.random(rows) < 0.1),
            "country": pa.array(rng.choice(["CH", "de", "a,b"], rows)).dictionary_encode(),
            "kind": pa.array(kind, mask=kind == 1),
        }
    )  # fmt: skip


LOG = log_of()


def evaluate(
    source: object = LOG, measures: object = FEW, **options: object
) -> fastrank_eval.Result:
    return batched.evaluate(source, measures=measures, **{**PLACES, "keep": "", **options})


def bits(result: fastrank_eval.Result, part: str = "all") -> list[list[str]]:
    """Every number of a slice to the last bit, as texts that tell NaN apart."""
    names = [f.name for f in fields(fastrank_eval.MeasureValue) if f.name not in ("by", "slice")]
    return [
        [x.hex() if isinstance(x := getattr(v, name), float) else str(x) for name in names]
        for v in result
        if v.slice == part
    ]


def label_of(name: str, value: object) -> str:
    return f"{name}={'null' if value is None else value}".replace("=a,b", '="a,b"')


def parts_of(table: pa.Table, *names: str) -> dict[str, np.ndarray]:
    """The rows of each slice by one column, or by several crossed."""
    found: dict[str, np.ndarray] = {}
    columns = [table.column(name).to_pylist() for name in names]
    for row, values in enumerate(zip(*columns, strict=True)):
        label = ",".join(label_of(*pair) for pair in zip(names, values, strict=True))
        found.setdefault(label, np.zeros(table.num_rows, np.bool_))[row] = True
    return found


def assert_as_alone(
    parts: dict[str, np.ndarray], by: str, table: pa.Table = LOG, **options: object
) -> fastrank_eval.Result:
    result = evaluate(table, by=by, **options)
    assert set(result.slices(by)) == set(parts)
    for label, rows in parts.items():
        assert bits(result, label) == bits(evaluate(table.filter(rows), **options)), label
    assert bits(result) == bits(evaluate(table, **options))
    return result


# ---- all measures, all conventions ---------------------------------------------------------------


@pytest.mark.parametrize("by", ["slot", "kind"])
@pytest.mark.parametrize("ties", TIES)
def test_every_measure_of_groups(by, ties):
    wanted = [text for text in OF_GROUPS if allows(text, ties)]
    assert_as_alone(parts_of(LOG, by), by, measures=wanted, ties=ties, item="item")


@pytest.mark.parametrize("by", ["slot", "kind"])
@pytest.mark.parametrize("weight", [None, "weight"])
def test_every_measure_of_all_rows(by, weight):
    assert_as_alone(parts_of(LOG, by), by, measures=OF_ROWS, weight=weight)


@pytest.mark.parametrize("by", ["slot", "kind"])
def test_measures_of_diversity(by):
    assert_as_alone(parts_of(LOG, by), by, measures=COVERING, subtopics="covers", weight=None)


@pytest.mark.parametrize(
    "options",
    [
        {"weight": "weight", "weight_rows": "ignore"},
        {"measures": "GAUC(weight='share'),RR(weight='share'),nDCG(weight='pairs')"},
        {"measures": "NumRet,NumRelRet,GMAP,GAUC(weight='uniform')"},
        {"score": "patchy", "unretrieved": "allow", "measures": "GAUC,nDCG@3,R@3,bpref,AUC"},
        {"label": "judged", "unjudged": "allow", "measures": "GAUC,bpref,Judged@4,RBPres,infAP",
         "ties": "input"},
        {"label": "judged", "unjudged": "drop"},
        {"groups": "with_relevant"},
        {"undefined": "zero"},
        {"undefined": "skip,GAUC=one,AUC=zero"},
        {"profile": "lightgbm", "measures": "nDCG@3,AUC"},
        {"score": ["score", "patchy", "other"], "unretrieved": "allow",
         "measures": "GAUC,nDCG@3,RR,AUC"},
        {"score_type": "float32", "confidence": 0.8},
        {"sampling_rate": 0.1, "measures": "LogLoss,NE,PCOC"},
    ],
    ids=lambda options: ",".join(options),
)  # fmt: skip
@pytest.mark.parametrize("by", ["slot", "kind"])
def test_every_convention(by, options):
    assert_as_alone(parts_of(LOG, by), by, **options)


# ---- all ways of slicing -------------------------------------------------------------------------


def test_crosses_of_columns_and_buckets():
    size = np.bincount(LOG["user"].to_numpy())[LOG["user"].to_numpy()]
    relevant = np.bincount(LOG["user"].to_numpy(), LOG["label"].to_numpy() >= 1)
    relevant = relevant[LOG["user"].to_numpy()]
    rows = {"@rows<3": size < 3, "@rows=3-6": (size >= 3) & (size < 7), "@rows>=7": size >= 7}
    positives = {f"@positives={int(n)}": relevant == n for n in np.unique(relevant)}
    assert_as_alone(rows, "@rows:3,7")
    assert_as_alone(positives, "@positives")
    crossed = {
        f"{a},{b},{c}": mine & theirs & here
        for a, mine in parts_of(LOG, "kind").items()
        for b, theirs in rows.items()
        for c, here in parts_of(LOG, "country").items()
        if (mine & theirs & here).any()
    }
    assert_as_alone(crossed, "kind,@rows:3,7,country")
    assert_as_alone(parts_of(LOG, "slot", "country"), "slot,country")


def test_several_slicings__are_each_as_alone__in_their_order():
    asked = ["slot,kind", "score:0.25,0.75", "kind"]
    result = evaluate(by=asked)
    for by in asked:
        alone = evaluate(by=by)
        assert result.slices(by) == alone.slices()
        for part in alone.slices():
            assert bits(result, part) == bits(alone, part)
    assert result.slices("kind") == ("kind=0", "kind=2", "kind=null")
    assert result.slices() == sum((result.slices(by) for by in asked), ())
    assert result.meta.conventions["by"] == asked


@pytest.mark.parametrize("by", ["user", "label", "score", "item", "weight"])
def test_a_column_that_has_another_part_too(by):
    table = LOG.slice(0, 60)
    parts = {label.removesuffix(".0"): rows for label, rows in parts_of(table, by).items()}
    assert_as_alone(parts, by, table, measures=["GAUC", "AUC", "PCOC"], weight="weight")


def test_a_field_that_is_a_slice_too():
    wanted = ["FieldRCE(field='slot')", "FieldECE(field='country')", "GAUC"]
    for by in ("slot", "country", "slot,country"):
        assert_as_alone(parts_of(LOG, *by.split(",")), by, measures=wanted)


@pytest.mark.kernels
def test_dictionaries__with_values_twice_nulls_and_some_of_no_row():
    values = pa.array(["x", "y", None, "x", "never"])
    table = pa.table(
        {
            "user": [1, 1, 1, 2, 2, 2, 2],
            "label": [0, 1, 1, 0, 1, 0, 1],
            "score": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7],
            "name": pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 3, None, 0, 1]), values),
        }
    )
    parts = {"name=x": [1, 0, 0, 1, 0, 1, 0], "name=y": [0, 1, 0, 0, 0, 0, 1],
             "name=null": [0, 0, 1, 0, 1, 0, 0]}  # fmt: skip
    masks = {label: np.array(rows, np.bool_) for label, rows in parts.items()}
    assert_as_alone(masks, "name", table, measures="GAUC,AUC,FieldECE(field='name')")


# ---- all ways that rows take ---------------------------------------------------------------------


def test_batches_of_a_categorical_column__change_no_bit_of_a_state() -> None:
    log = LOG.set_column(
        LOG.column_names.index("country"), "country", LOG["country"].dictionary_encode()
    )
    halves = pa.Table.from_batches(log.combine_chunks().to_batches(max_chunksize=9))
    every = []
    for table, batch_rows in ((log, None), (halves, 40)):
        result = evaluate(table, "GAUC", by="country", keep="state", batch_rows=batch_rows)
        arrays = result.state.arrays.items()
        every.append({(at, n): a.tobytes() for at, part in arrays for n, a in part.items()})
    assert every[0] == every[1]


def test_layouts__change_no_bit(tmp_path):
    wanted = [*FEW, "AUC(se='clustered')", "FieldRCE(field='slot')"]
    by = ["slot,country", "kind", "@rows:3,7"]
    base = evaluate(measures=wanted, by=by)
    path = tmp_path / "log.parquet"
    pq.write_table(LOG, path, row_group_size=50)
    shuffled = LOG.take(np.random.default_rng(2).permutation(LOG.num_rows))
    chunks = pa.Table.from_batches(LOG.to_batches(max_chunksize=17))
    for source, options in (
        (LOG, {"threads": 1, "batch_rows": 1}),
        (chunks, {"threads": 3, "batch_rows": 23}),
        (path, {"threads": 2}),
        (path, {"order": "grouped", "batch_rows": 50}),
        (shuffled, {"threads": 2}),
        (shuffled, {"order": "scattered", "batch_rows": 31}),
    ):
        found = evaluate(source, measures=wanted, by=by, **options)
        assert found.slices() == base.slices()
        for part in ("all", *base.slices()):
            assert bits(found, part) == bits(base, part), (options, part)


@pytest.mark.kernels
def test_presorted():
    keys = [("user", "ascending"), ("score", "descending")]
    table = LOG.sort_by(keys)
    assert_as_alone(parts_of(table, "slot"), "slot", table, order="sorted")


def test_out_of_core(monkeypatch, tmp_path):
    pytest.importorskip("duckdb")
    wanted = [*FEW, "FieldRCE(field='slot')"]
    by = ["slot,country", "kind", "@positives:0,1,3"]
    base = evaluate(measures=wanted, by=by)
    monkeypatch.setattr(run, "memory_budget", lambda *_: Budget(1 << 28, 0))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    shuffled = LOG.take(np.random.default_rng(2).permutation(LOG.num_rows))
    found = evaluate(shuffled, measures=wanted, by=by, order="scattered", batch_rows=40)
    assert found.meta.conventions["spilled"] is True
    for part in ("all", *base.slices()):
        assert bits(found, part) == bits(base, part)


def test_where_and_limit():
    found = evaluate(where="slot <= 2", limit=90, by="slot")
    kept = LOG.filter(np.array([x is not None and x <= 2 for x in LOG["slot"].to_pylist()]))
    first = kept.slice(0, 90)
    assert found.slices() == ("slot=1", "slot=2")
    for part, rows in parts_of(first, "slot").items():
        assert bits(found, part) == bits(evaluate(first.filter(rows)))
    for part in (1, 2):
        alone = evaluate(where=f"slot = {part}")
        assert bits(evaluate(by="slot"), f"slot={part}") == bits(alone)


@pytest.mark.kernels
@settings(max_examples=25, deadline=None)
@given(st.data())
def test_any_rows__are_as_alone(data):
    groups = data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=6))
    rows = sum(groups)

    def draw(*values: object) -> list[object]:
        return data.draw(st.lists(st.sampled_from(values), min_size=rows, max_size=rows))

    table = pa.table(
        {
            "user": np.repeat(np.arange(len(groups)), groups),
            "label": pa.array(draw(0, 1, 2), pa.int8()),
            "score": pa.array(draw(0.0, 0.25, 0.5), pa.float64()),
            "slot": pa.array(draw(1, 2, None), pa.int64()),
            "w": pa.array(draw(0.0, 1.0, 0.1), pa.float64()),
        }
    )
    weight = data.draw(st.sampled_from([None, "w"]))
    options = {"undefined": data.draw(st.sampled_from(["skip", "zero"])), "weight": weight}
    measures = ["GAUC", "AUC", "LogLoss", "AUC(se='clustered')"]
    if weight is None:
        measures += ["nDCG@2", "AP", "NumRelRet"]
    assert_as_alone(parts_of(table, "slot"), "slot", table, measures=measures, **options)


# ---- what is left out, what is refused -----------------------------------------------------------


def test_min_groups__leaves_small_slices_out_and_says_so():
    every = evaluate(by="slot,kind")
    groups = {v.slice: v.groups for v in every if v.by}
    least = sorted(set(groups.values()))[2]
    found = evaluate(by="slot,kind", min_groups=least)
    kept = tuple(part for part, number in groups.items() if number >= least)
    assert found.slices() == kept
    left = len(groups) - len(kept)
    assert left > 1
    assert found.meta.conventions["slices_left_out"] == left
    assert f"{left} slices are left out, of fewer than {least} groups each" in repr(found)
    missing = next(part for part in groups if part not in kept)
    with pytest.raises(ArgumentError, match=f"nor any of fewer than {least} groups"):
        found.value("GAUC", slice=missing)


def test_command__has_the_same_slices(own_folder):
    pq.write_table(LOG.drop_columns(["covers"]), "log.parquet")
    words = ["log.parquet", "-g", "user", "-l", "label", "-s", "score", "-m", "GAUC,AUC"]
    told = output("evaluate", *words, "--by", "slot", "--by", "@rows:3,7", "--format", "csv")
    assert told == evaluate(measures="GAUC,AUC", by=["slot", "@rows:3,7"]).to_csv()


def test_reports_of_many_edges__have_the_label_of_the_slice_and_not_all_edges_on_each_line():
    edges = ",".join(map(str, range(2000)))
    table = {
        "user": np.arange(100) // 4, "click": np.arange(100) % 3 == 0, "new": np.arange(100) % 7,
        "old": np.arange(100) % 5, "x": np.arange(100) * 10,
    }  # fmt: skip
    asked = {"group": "user", "label": "click", "measures": "GAUC", "by": f"x:{edges},click"}
    result = fastrank_eval.evaluate(table, score="new", **asked)
    found = fastrank_eval.compare(table, score=["old", "new"], baseline="old", **asked)
    assert result.slices()[:2] == ("x=[0,1),click=true", "x=[10,11),click=false")
    for lines in (
        result.document()["results"],
        found.document()["comparisons"],
        result.records().to_pylist(),
        found.records().to_pylist(),
    ):
        assert {line["by"] for line in lines} == {None, "x,click"}
    for text in (result.to_csv(), found.to_csv()):
        assert '"x=[900,901),click=true"' in text
        assert "900,901,902" not in text
    assert {v.by for v in result} == {None, f"x:{edges},click"}
    assert result.meta.conventions["by"] == [f"x:{edges},click"]
    assert result.slices(f"x:{edges},click") == result.slices()


test_answers = answers(globals())
