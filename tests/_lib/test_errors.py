"""Errors share one base, and suggestions name the nearest alias."""

import pytest

import fastrank_eval as fe
from fastrank_eval._lib import errors

pytestmark = pytest.mark.no_kernels


KINDS = [name for name in vars(errors) if name.endswith("Error") and name in fe.__all__]


@pytest.mark.parametrize("name", KINDS)
def test_error__is_caught_as_base_and_as_value_error(name: str) -> None:
    kind = getattr(errors, name)
    assert issubclass(kind, errors.FastRankEvalError)
    assert issubclass(kind, ValueError)
    assert str(kind("row 3: -1")) == "row 3: -1"


@pytest.mark.parametrize(
    "name,candidates,suggestion",
    [
        ("lable", ["score", "label"], " Did you mean 'label'?"),
        ("USER_ID", ["user_id", "item_id"], " Did you mean 'user_id'?"),
        ("ndgc", ["nDCG", "DCG", "AP"], " Did you mean 'nDCG'?"),
        ("x", ["label", "score"], ""),
        ("label", [], ""),
        (1, ["label"], ""),
        (b"label", ["label"], ""),
    ],
)
def test_near__nearest_alias_or_nothing(
    name: object, candidates: list[str], suggestion: str
) -> None:
    assert errors.near(name, candidates) == suggestion
