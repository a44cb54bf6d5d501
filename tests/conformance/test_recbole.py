"""RecBole: its collector and evaluator, given a matrix of scores of users and items."""

import numpy as np
import pytest

from tests.conformance.parity import Ledger, evaluated
from tests.conformance.samples import BINARY, GRADED, Sample, untied

torch = pytest.importorskip("torch")
evaluator = pytest.importorskip("recbole.evaluator")

PROFILE = "recbole"
DEPTHS = (1, 3, 10)
FAMILIES = {
    "Hit": "Success",
    "MRR": "RR",
    "MAP": "AP",
    "Recall": "R",
    "NDCG": "nDCG",
    "Precision": "P",
}


@pytest.fixture(autouse=True)
def _named(ledger):
    ledger.packages[PROFILE] = "recbole"
    ledger.notes[PROFILE] = [
        "Installed without what it requires, ray up to 2.6.3, which FuxiCTR refuses; only its "
        "`evaluator` is called. Its code names `numpy.float`, which NumPy has no longer: here the "
        "name is given back. Values are compared before it rounds them, topk measures on lists "
        "without ties."
    ]


@pytest.fixture(autouse=True)
def _numpy_float(monkeypatch):
    monkeypatch.setattr(np, "float", float, raising=False)


def recbole_values(sample: Sample, metrics: list[str], decimals: int = 17) -> dict[str, float]:
    """Of groups with a relevant row, as its loaders give them; a row of -inf ends each list."""
    sample = sample.of_groups(np.array([label.max() > 0 for label, _ in sample.groups()]))
    config = {
        "metrics": metrics,
        "topk": list(DEPTHS),
        "metric_decimal_place": decimals,
        "eval_args": {"mode": "full"},
        "device": "cpu",
    }
    sizes = sample.sizes
    users = np.repeat(np.arange(len(sizes)), sizes)
    items = np.arange(len(users)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    # In float64, as are our sums; models give float32.
    scores = np.full((len(sizes), max(*sizes, *DEPTHS) + 1), -np.inf)
    scores[users, items] = sample.score
    relevant = sample.label > 0
    collector = evaluator.Collector(config)
    collector.eval_batch_collect(
        torch.from_numpy(scores),
        {},
        torch.from_numpy(users[relevant]),
        torch.from_numpy(items[relevant]),
    )
    return evaluator.Evaluator(config).evaluate(collector.get_data_struct())


def compare_hits(ledger: Ledger, sample: Sample, families: dict[str, str] = FAMILIES) -> None:
    """Of lists without ties, whose order is the sort's there."""
    sample = untied(sample)
    values = recbole_values(sample, list(families))
    readings = {f"{name}@{k}": f"{ours}@{k}" for name, ours in families.items() for k in DEPTHS}
    result = evaluated(sample, PROFILE, list(readings.values()))
    for theirs, ours in readings.items():
        ledger.agree(PROFILE, sample, ours, theirs, result.value(ours), values[theirs.lower()])


def compare_areas(ledger: Ledger, sample: Sample) -> None:
    theirs = recbole_values(sample, ["GAUC"])["gauc"]
    ours = evaluated(sample, PROFILE, ["GAUC"]).value("GAUC")
    ledger.agree(PROFILE, sample, "GAUC", "GAUC", ours, theirs)


@pytest.mark.parametrize("sample", BINARY, ids=lambda s: s.name)
def test_binary_labels(ledger, sample):
    compare_hits(ledger, sample)
    compare_areas(ledger, sample)


@pytest.mark.parametrize("sample", BINARY, ids=lambda s: s.name)
def test_auc__of_all_rows(ledger, sample):
    config = {"metric_decimal_place": 17}
    rows = evaluator.DataStruct()
    rows.set("rec.score", torch.from_numpy(sample.score[:, None]))
    rows.set("data.label", torch.from_numpy(sample.label[:, None]))
    theirs = evaluator.AUC(config).calculate_metric(rows)["auc"]
    ours = evaluated(sample, PROFILE, ["AUC"]).value("AUC")
    ledger.agree(PROFILE, sample, "AUC", "AUC", ours, theirs)


@pytest.mark.parametrize("sample", GRADED, ids=lambda s: s.name)
def test_graded_labels(ledger, sample):
    """A row is relevant or not there."""
    compare_hits(ledger, sample, {name: FAMILIES[name] for name in FAMILIES if name != "NDCG"})


def test_graded_labels__gain_no_more_than_1_there(ledger):
    sample = untied(GRADED[1])
    theirs = recbole_values(sample, ["NDCG"])["ndcg@3"]
    ours = evaluated(sample, PROFILE, ["nDCG@3"]).value("nDCG@3")
    ledger.differ(PROFILE, "NDCG@3 of grades", "grades above 1", ours, theirs)


def test_values__are_rounded_there(ledger):
    sample = untied(BINARY[1])
    theirs = recbole_values(sample, ["NDCG"], decimals=4)["ndcg@3"]
    ours = evaluated(sample, PROFILE, ["nDCG@3"]).value("nDCG@3")
    ledger.differ(PROFILE, "NDCG@3 with metric_decimal_place: 4", "are rounded", ours, theirs)


def test_real_lists(ledger, real):
    compare_hits(ledger, real["binary"])
    compare_areas(ledger, real["binary"])
