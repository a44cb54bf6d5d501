"""Real data against values computed by other tools, query by query.

Small parts whose licence allows it lie in fixtures/; the full files are read from the shared data
where it is present. `reference_columns.reading` says how each expected column is computed here.
"""

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import fastrank_eval
from tests.reference_columns import EXACT, Reading, reading

ROLES = {"group": "query", "label": "label", "score": "score"}


def evaluate(rows: pa.Table, measures: list[str] | str, **options: object) -> fastrank_eval.Result:
    return fastrank_eval.evaluate(rows, measures=measures, **{**ROLES, **options})


def row_documents(table: pa.Table) -> pa.Table:
    """Add the document ids the expected values use: the row number, so that later rows win."""
    if "doc" in table.column_names:
        table = table.drop_columns("doc")
    return table.append_column("doc", pa.array([f"d{row:07d}" for row in range(table.num_rows)]))


def aligned(keys: Sequence[object], expected: pa.Table) -> pa.Table:
    """Rows of `expected` in the order of the group keys."""
    where = {key: row for row, key in enumerate(expected["query"].to_pylist())}
    assert len(where) == len(keys), "every group appears once, on both sides"
    return expected.take([where[key] for key in keys])


def key_number(key: object) -> int:
    """Ids like ``user_196`` stand for the number of the expected file."""
    return int(key.rpartition("_")[2]) if isinstance(key, str) else int(key)  # type: ignore[call-overload]


def without_negative_grades(table: pa.Table, label: str) -> pa.Table:
    """Grades below 0 as no grade: trec_eval reads -1 and -2 as "not pooled" and "unjudged"."""
    judged = pc.if_else(pc.less(table[label], 0), None, table[label])
    return table.set_column(table.column_names.index(label), label, judged)


def compare(
    table: pa.Table,
    expected: pa.Table,
    *,
    score: str,
    label: str = "label",
    max_grade: int = 4,
) -> int:
    """Assert every column that is ours; one evaluation per tie policy. Returns columns compared."""
    plan: dict[tuple[str, bool], list[tuple[str, Reading]]] = defaultdict(list)
    for column in expected.column_names:
        how = reading(column, max_grade)
        if how is not None:
            plan[how.ties, how.drop_unjudged].append((column, how))
    in_float32 = score
    if table.schema.field(score).type == pa.float64():
        in_float32 = f"{score} in float32"
        table = table.append_column(in_float32, table[score].cast(pa.float32(), safe=False))
    compared = 0
    for (ties, drop_unjudged), columns in plan.items():
        result = fastrank_eval.evaluate(
            without_negative_grades(table, label) if drop_unjudged else table,
            group="query",
            label=label,
            score=list(dict.fromkeys([score, in_float32])),
            item="doc" if ties == "item" else None,
            measures=list(dict.fromkeys(how.measure for _, how in columns)),
            ties=ties,
            unretrieved="allow",
            unjudged="drop" if drop_unjudged else "allow",
        )
        keys = [key_number(key) for key in result.per_group["query"].to_pylist()]
        theirs = aligned(keys, expected)
        untied = theirs["n_tied_rows"].to_numpy() == 0
        if "n" in theirs.column_names:
            assert result.per_group["rows"].to_pylist() == theirs["n"].to_pylist()
        if "n_pos" in theirs.column_names:
            assert result.per_group["positives"].to_pylist() == theirs["n_pos"].to_pylist()
        for column, how in columns:
            ours = result[in_float32 if how.single_precision else score, how.measure]
            values = theirs[column].cast(pa.float64()).to_numpy(zero_copy_only=False)
            groups = np.ones(len(keys), bool)
            if how.undefined_is_zero:
                ours = np.nan_to_num(ours)
            if how.untied_groups_only:
                groups &= untied
            if column.startswith("rx_"):  # ranx was run on the queries with a relevant document
                groups &= ~np.isnan(values)
            np.testing.assert_allclose(
                ours[groups],
                values[groups],
                rtol=EXACT,
                atol=how.tolerance,
                err_msg=f"{column} as {how.measure}, ties={ties}",
            )
            compared += 1
    return compared


def lists_of(table: pa.Table, *names: str) -> Iterator[tuple]:
    return zip(*(table[name].to_pylist() for name in names), strict=True)


def run_with_qrels(run: pa.Table, qrels: pa.Table) -> pa.Table:
    """Join a run with its judgements: unjudged rows get no label, missed ones no score."""
    grades = {(query, doc): grade for query, doc, grade in lists_of(qrels, "query", "doc", "rel")}
    rows = list(lists_of(run, "query", "doc", "score"))
    retrieved = {(query, doc) for query, doc, _ in rows}
    labels = [grades.get((query, doc)) for query, doc, _ in rows]
    missed = [key for key in grades if key not in retrieved]
    return pa.table(
        {
            "query": [row[0] for row in rows] + [query for query, _ in missed],
            "doc": [row[1] for row in rows] + [doc for _, doc in missed],
            "label": pa.array(labels + [grades[key] for key in missed], pa.int8()),
            "score": pa.array([row[2] for row in rows] + [None] * len(missed), pa.float64()),
        }
    )


# ---- query by query ------------------------------------------------------------------------------

#: Small parts in fixtures/: the table, the score, the highest grade, columns that are compared.
FIXTURES = [
    *(("ltr_lightgbm", score, 4, 150) for score in ("score_a", "score_c")),
    *(("ctr_obd_men", score, 1, 110) for score in ("score_a", "score_b")),
]


@pytest.mark.parametrize("name, score, max_grade, least", FIXTURES)
def test_fixture__per_query(fixtures, name, score, max_grade, least):
    table = pq.read_table(fixtures / f"{name}.parquet")
    expected = pq.read_table(fixtures / f"{name}_expected_{score}.parquet")
    assert compare(table, expected, score=score, max_grade=max_grade) > least


#: The full files: folder, table, score, label, highest grade, columns that are compared.
FILES = [
    *(
        ("ltr_lightgbm", "lambdarank_scored", score, "label", 4, 150)
        for score in ("score_a", "score_b", "score_c")
    ),
    *(
        (folder, table, score, label, max_grade, least)
        for folder, table, label, max_grade, least in (
            ("ctr_obd_men", "obd_men_impressions", "label", 1, 110),
            ("rec_ml100k", "ml100k_oof", "label", 1, 110),
            ("rec_ml100k", "ml100k_oof_strids", "label", 1, 110),
            ("rec_ml100k", "ml100k_oof", "rating", 5, 80),
        )
        for score in ("score_a", "score_b")
    ),
    *(("rec_ml1m_ncf", f"ml1m_loo_{model}", "score", "label", 1, 12) for model in ("gmf8", "mlp8")),
]


@pytest.mark.parametrize("folder, table, score, label, max_grade, least", FILES)
def test_file__per_query(shared_data, folder, table, score, label, max_grade, least):
    rows = row_documents(pq.read_table(shared_data / folder / f"{table}.parquet"))
    of = f"{score}_graded" if label == "rating" else table if score == "score" else score
    expected = pq.read_table(shared_data / folder / f"expected_per_query_{of}.parquet")
    assert compare(rows, expected, score=score, label=label, max_grade=max_grade) > least


def test_clicks_fixture__gauc_is_the_weighted_mean_of_the_per_group_values(fixtures):
    table = pq.read_table(fixtures / "ctr_obd_men.parquet")
    expected = pq.read_table(fixtures / "ctr_obd_men_expected_score_b.parquet")
    auc, n, positives = (
        expected[name].cast(pa.float64()).to_numpy(zero_copy_only=False)
        for name in ("ref_auc", "n", "n_pos")
    )
    used = ~np.isnan(auc)
    weights = {
        "uniform": np.ones(len(n)),
        "impressions": n,
        "positives": positives,
        "pairs": positives * (n - positives),
    }
    result = evaluate(table, [f"GAUC(weight='{weight}')" for weight in weights], score="score_b")
    for weight, of_group in weights.items():
        mean = np.average(auc[used], weights=of_group[used])
        assert result.value(f"GAUC(weight='{weight}')") == pytest.approx(mean, abs=1e-12), weight
    line = result.document()["results"][0]
    assert line["groups_used"] == used.sum()
    assert line["dropped"] == {"all_negative": int((~used).sum())}
    assert line["rows_share"] == pytest.approx(n[used].sum() / n.sum())
    assert line["positives_share"] == 1.0


def test_trec_eval_fixture__per_query(fixtures):
    table = run_with_qrels(
        pq.read_table(fixtures / "trec_eval_run.parquet"),
        pq.read_table(fixtures / "trec_eval_qrels.parquet"),
    )
    expected = pq.read_table(fixtures / "trec_eval_expected.parquet")
    assert compare(table, expected, score="score", max_grade=1) > 200


@pytest.mark.parametrize("model", ["gmf8", "mlp8"])
def test_leave_one_out__hit_rate_and_ndcg_as_published(shared_data, model):
    folder = shared_data / "rec_ml1m_ncf"
    published = read_json(folder / "expected_ncf_protocol.json")["models"][model]
    result = evaluate(
        pq.read_table(folder / f"ml1m_loo_{model}.parquet"), "HR@10, nDCG@10", ties="best"
    )
    ties = "over the 100 rows, ties in favour of the positive"
    assert result.value("HR@10") == pytest.approx(published[f"HR@10 {ties}"], abs=EXACT)
    assert result.value("nDCG@10") == pytest.approx(published[f"NDCG@10 {ties}"], abs=EXACT)


@pytest.mark.parametrize("name, max_grade", [("adhoc_351_450_bm25", 1), ("web2011", 4)])
def test_trec_run__per_query_with_unjudged_and_missed_documents(shared_data, name, max_grade):
    folder = shared_data / "trec_runs"
    table = run_with_qrels(
        pq.read_table(folder / f"{name}.run.parquet"),
        pq.read_table(folder / f"{name}.qrels.parquet"),
    )
    expected = pq.read_table(folder / f"{name}.expected_per_query.parquet")
    assert compare(table, expected, score="score", max_grade=max_grade) > 200


def test_trec_run__negative_grades_gain_nothing_in_dcg_unless_kept(shared_data):
    folder = shared_data / "trec_runs"
    runs = [pq.read_table(folder / f"web2011.{part}.parquet") for part in ("run", "qrels")]
    roles = {"group": "query", "label": "label", "score": "score", "item": "doc"}
    texts = ["DCG@10", "DCG(negative='keep')@10"]
    result = fastrank_eval.evaluate(run_with_qrels(*runs), **roles, measures=texts, profile="ranx")
    assert result.value("DCG@10") == pytest.approx(2.0517732199419, abs=1e-12)
    assert result.value("DCG(negative='keep')@10") == pytest.approx(1.0913380666440, abs=1e-12)


# ---- means and pooled values ---------------------------------------------------------------------

AGGREGATES = [
    ("ltr_lightgbm", "lambdarank_scored.parquet", "score_a", 4),
    ("ltr_lightgbm", "lambdarank_scored.parquet", "score_c", 4),
    ("ctr_obd_men", "obd_men_impressions.parquet", "score_a", 1),
    ("ctr_obd_men", "obd_men_impressions.parquet", "score_b", 1),
    ("rec_ml100k", "ml100k_oof.parquet", "score_a", 1),
    ("rec_ml100k", "ml100k_oof_strids.parquet", "score_b", 1),
]


def read_json(path: Path) -> dict:
    return json.loads(path.read_text(encoding="utf-8"))


def with_negatives(table: pa.Table) -> pa.Table:
    """Add each group's count of negatives: a column that is constant inside a group."""
    negative = pc.cast(pc.less(table["label"], 1), pa.int64())
    counts = pa.table({"query": table["query"], "negative": negative})
    counts = counts.group_by("query").aggregate([("negative", "sum")])
    by_key = dict(lists_of(counts, "query", "negative_sum"))
    return table.append_column(
        "negatives", pa.array([float(by_key[key]) for key in table["query"].to_pylist()])
    )


@pytest.mark.parametrize("folder, file, score, max_grade", AGGREGATES)
def test_gauc_and_auc__whole_file(shared_data, folder, file, score, max_grade):
    published = read_json(shared_data / folder / "expected_aggregates.json")["scores"][score]
    gauc = published["gauc"]
    expected = {
        "GAUC(weight='uniform')": gauc["mean_unweighted"],
        "GAUC": gauc["weighted_by_impressions"],
        "GAUC(weight='positives')": gauc["weighted_by_clicks"],
        "GAUC(weight='pairs')": gauc["weighted_by_pairs"],
        "GAUC(weight='negatives')": gauc["weighted_by_negatives"],
        "AUC": published["global_binary"]["roc_auc_score"],
        "AUC(max_fpr=0.1)": published["global_binary"]["roc_auc_max_fpr_0.1"],
    }
    for value in ("0", "0.5", "1"):
        filled = gauc[f"single_class_as_{float(value)}"]
        uniform = f"GAUC(weight='uniform', single_class={value})"
        expected[uniform] = filled["mean_unweighted"]
        expected[f"GAUC(single_class={value})"] = filled["weighted_by_impressions"]
    result = evaluate(
        with_negatives(pq.read_table(shared_data / folder / file)), list(expected), score=score
    )
    for text, value in expected.items():
        assert result.value(text) == pytest.approx(value, abs=EXACT), text
    line = next(line for line in result.document()["results"] if line["measure"] == "GAUC")
    assert (line["groups"], line["groups_used"]) == (gauc["n_groups"], gauc["n_groups_used"])
    for reason in ("all_negative", "all_positive"):
        assert line["dropped"].get(reason, 0) == gauc[f"n_{reason}"]


MEANS = {
    "mean_over_queries_with_a_relevant": {"groups": "with_relevant"},
    "mean_over_all_queries_nan_as_0": {"undefined": "zero"},
}


@pytest.mark.parametrize("over", list(MEANS))
@pytest.mark.parametrize("folder, file, score, max_grade", AGGREGATES)
def test_means__over_all_groups_and_over_those_with_a_relevant(
    shared_data, folder, file, score, max_grade, over
):
    published = read_json(shared_data / folder / "expected_aggregates.json")["scores"][score]
    by_ties: dict[str, dict[str, float]] = defaultdict(dict)
    for column, value in published["aggregates"][over].items():
        if column.startswith("ref_"):
            how = reading(column, max_grade)
            text = "GAUC(weight='uniform')" if column == "ref_auc" else how.measure
            by_ties[how.ties][text] = value
    table = pq.read_table(shared_data / folder / file)
    for ties, values in by_ties.items():
        result = evaluate(table, list(values), score=score, ties=ties, keep="", **MEANS[over])
        for text, value in values.items():
            assert result.value(text) == pytest.approx(value, rel=EXACT, abs=EXACT), (ties, text)


@pytest.mark.parametrize("score", ["score_a", "score_c"])
def test_lightgbm_means__file_order_ties_and_one_where_undefined(shared_data, score):
    folder = shared_data / "ltr_lightgbm"
    published = read_json(folder / "expected_aggregates.json")["scores"][score]
    expected = {}
    for k in (1, 3, 5, 10):
        exponential = published["lightgbm_gain_2^l-1"]
        expected[f"nDCG@{k}"] = exponential[f"ndcg@{k}"]
        expected[f"AP(over='min')@{k}"] = exponential[f"map@{k}"]
        expected[f"nDCG(gain='linear')@{k}"] = published["lightgbm_gain_linear"][f"ndcg@{k}"]
    result = evaluate(
        pq.read_table(folder / "lambdarank_scored.parquet"),
        list(expected),
        score=score,
        ties="input",
        undefined="one",
    )
    for text, value in expected.items():
        assert result.value(text) == pytest.approx(value, abs=EXACT), text


@pytest.mark.parametrize("score", ["score_a", "score_b"])
def test_auc_with_row_weights_and_per_policy(shared_data, score):
    folder = shared_data / "ctr_obd_men"
    published = read_json(folder / "expected_weighted.json")["scores"][score]
    table = pq.read_table(folder / "obd_men_impressions.parquet")
    inverse = pc.divide(1.0, table["propensity"])
    table = table.append_column("inverse propensity", inverse)
    table = table.append_column("clipped", pc.min_element_wise(inverse, 10.0))

    def auc(rows: pa.Table, weight: str | None = None) -> float:
        result = evaluate(rows, "AUC", score=score, weight=weight)
        return result.value("AUC")

    weighted = published["sklearn roc_auc_score(sample_weight)"]
    assert auc(table, "inverse propensity") == pytest.approx(weighted, abs=EXACT)
    clipped = published["clipped weights min(w,10): sklearn roc_auc_score"]
    assert auc(table, "clipped") == pytest.approx(clipped, abs=EXACT)
    for policy, value in published["auc per policy"].items():
        rows = table.filter(pc.equal(table["policy"], policy))
        assert auc(rows) == pytest.approx(value, abs=EXACT), policy
    for position, value in published["auc per position"].items():
        rows = table.filter(pc.equal(table["position"], int(position)))
        assert auc(rows) == pytest.approx(value, abs=EXACT), position
