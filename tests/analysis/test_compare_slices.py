"""compare(by=...): every slice is what its rows alone come to."""

from __future__ import annotations

import csv
import io
from dataclasses import asdict

import numpy as np
import pytest

from fastrank_eval._lib.errors import ArgumentError
from tests.support import batched
from tests.support.click_logs import click_log

COLUMNS = {"group": "user", "label": "click", "baseline": "old"}
MEASURES = "GAUC,AP,P@3,GMAP,NumRelRet,AUC,LogLoss,NE,PCOC,KS,ECE(bins=4)"
#: What hangs on how many slices are tested together.
TOGETHER = {"by", "slice", "p_adjusted", "comparisons", "mdd", "verdict"}


@pytest.fixture(scope="module")
def log():
    found = click_log(150, seed=3)
    for model in ("old", "new", "newer"):
        found[model] = 1 / (1 + np.exp(-found[model]))
    random = np.random.default_rng(0)
    found["slot"] = random.integers(0, 3, len(found["user"]))  # varies inside groups
    found["country"] = np.array(["de", "fr", "se"])[found["user"] % 3]
    found["age"] = found["user"] % 50
    return found


def compare(log, measures=MEASURES, **options):
    given = {"score": ["old", "new", "newer"], **options}
    return batched.compare(log, **COLUMNS, measures=measures, **given)


def alike(line) -> str:
    """What the line of a slice and that of its rows alone have in common, to the last bit."""
    return repr({name: value for name, value in asdict(line).items() if name not in TOGETHER})


@pytest.mark.parametrize("weight", [None, "weight"])
def test_slices__are_what_their_rows_alone_come_to(log, weight) -> None:
    wanted = {"weight": weight, "measures": "GAUC,AUC,LogLoss,PCOC"} if weight else {}
    found = compare(log, by=["slot", "country", "country,slot"], **wanted)
    conditions = {
        **{f"slot={slot}": f"slot = {slot}" for slot in range(3)},
        **{f"country={name}": f"country = '{name}'" for name in ("de", "fr", "se")},
        "country=fr,slot=2": "country = 'fr' and slot = 2",
    }
    for part, condition in conditions.items():
        alone = compare(log, where=condition, **wanted)
        mine = [line for line in found if line.slice == part]
        assert [alike(line) for line in mine] == [alike(line) for line in alone]
        assert all(line.se > 0 for line in mine if line.measure == "AUC(se='clustered')")
    assert found.find("GAUC", "new", "slot=1").wins > 0


def test_slices__have_the_same_bits_for_any_threads_batches_and_order(log) -> None:
    wanted = [repr(asdict(line)) for line in compare(log, by=["slot", "country"], threads=1)]
    order = np.random.default_rng(1).permutation(len(log["user"]))
    shuffled = {name: column[order] for name, column in log.items()}
    for source, how in ((log, {"batch_rows": 11}), (shuffled, {"threads": 2})):
        found = compare(source, by=["slot", "country"], **how)
        assert [repr(asdict(line)) for line in found] == wanted


def test_slicing__stands_beside_each_slice_in_every_form(log) -> None:
    found = compare(log, "GAUC,AP", by=["slot", "country,slot"])
    wanted = [None] * 4 + ["slot"] * 12 + ["country,slot"] * 36
    assert found.records()["by"].to_pylist() == wanted
    assert [line["by"] for line in found.document()["comparisons"]] == wanted
    rows = csv.DictReader(io.StringIO(found.to_csv()))
    assert [row["by"] or None for row in rows] == wanted
    assert found.meta.conventions["by"] == ["slot", "country,slot"]


def test_a_label_of_two_slicings__is_of_each(log) -> None:
    found = compare(log, "GAUC", score=["old", "new"], by=["age:18,25", "age:18,30"])
    young = [line for line in found if line.slice == "age<18"]
    assert [line.by for line in young] == ["age:18,25", "age:18,30"]
    assert alike(young[0]) == alike(young[1])


def test_min_groups__leaves_small_slices_out_of_the_correction_too(log) -> None:
    every = compare(log, "GAUC", score=["old", "new"], by="age:1,2,40")
    some = compare(log, "GAUC", score=["old", "new"], by="age:1,2,40", min_groups=4)
    assert [line.slice for line in every][1:] == ["age<1", "age=[1,2)", "age=[2,40)", "age>=40"]
    assert [line.slice for line in some][1:] == ["age=[2,40)", "age>=40"]
    assert [line.comparisons for line in some] == [1, 2, 2]
    assert some.meta.conventions["slices_left_out"] == 2
    with pytest.raises(ArgumentError, match=r"'age<1' was not part"):
        some.find("GAUC", slice="age<1")
