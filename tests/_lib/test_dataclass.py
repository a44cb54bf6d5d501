"""Dataclasses of the package behave as those of the standard library."""

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, FrozenInstanceError, asdict, field, fields, replace
from functools import cached_property
from typing import Any

import pytest

from fastrank_eval._lib.dataclass import dataclass


def _classes(decorator: Callable[..., Any]) -> dict[str, Any]:
    @decorator(frozen=True)
    class Point:
        """A point."""

        x: int
        y: int = 2
        names: list[str] = field(default_factory=list, compare=False)
        _: KW_ONLY
        unit: str = "m"
        costs: Mapping[str, int] | None = field(default=None, hash=False)

        @cached_property
        def total(self) -> int:
            return self.x + self.y

    @decorator(frozen=True)
    class Checked(Point):
        z: int = 3

        def __post_init__(self) -> None:
            if self.z < 0:
                raise ValueError("z")

    @decorator
    class Open:
        x: int

    @decorator(frozen=True, repr=False)
    class Hidden:
        x: int

    @decorator(init=True)
    class Compiled:
        x: int
        names: list[str] = field(default_factory=list)

    return {
        "Point": Point,
        "Checked": Checked,
        "Open": Open,
        "Hidden": Hidden,
        "Compiled": Compiled,
    }


OURS = _classes(dataclass)
WAYS = [OURS, _classes(dataclasses.dataclass)]
both = pytest.mark.parametrize("of", WAYS, ids=["ours", "standard"])


@dataclass(frozen=True)
class Stored:
    x: int
    names: tuple[str, ...] = ()


@both
def test_arguments__by_place_or_name__become_attributes(of: dict[str, Any]) -> None:
    point = of["Point"](1, names=["a"], unit="km")
    assert (point.x, point.y, point.names, point.unit, point.costs) == (1, 2, ["a"], "km", None)
    assert of["Checked"](1, 2, [], 4).z == 4
    assert of["Point"](1).names is not of["Point"](1).names
    assert of["Compiled"](1, names=["a"]) == of["Compiled"](1, ["a"]) != of["Compiled"](1)


@both
@pytest.mark.parametrize(
    "args, named",
    [
        ((), {}),
        ((1, 2, [], "m"), {}),
        ((1,), {"x": 1}),
        ((1,), {"z": 1}),
        ((), {"z": 1}),
        ((), {"y": 1, "unit": "m"}),
        ((1, 2, [], "m", None, 5, 6), {}),
    ],
)
def test_arguments__missing_unknown_or_twice__are_a_type_error(
    of: dict[str, Any], args: tuple[Any, ...], named: dict[str, Any]
) -> None:
    with pytest.raises(TypeError, match="argument"):
        of["Point"](*args, **named)


@both
def test_post_init__is_called(of: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="z"):
        of["Checked"](1, z=-1)


@both
def test_equality_and_hash__follow_the_compared_fields(of: dict[str, Any]) -> None:
    point = of["Point"]
    assert point(1, names=["a"]) == point(1, names=["b"]) != point(2)
    assert point(1) != of["Checked"](1)
    assert hash(point(1, costs={"a": 1})) == hash(point(1)) != hash(point(2))
    assert of["Open"](1) == of["Open"](1)
    with pytest.raises(TypeError, match="unhashable"):
        hash(of["Open"](1))


@both
def test_frozen__refuses_new_values_and_deletions(of: dict[str, Any]) -> None:
    for point in (of["Point"](1), of["Checked"](1)):
        with pytest.raises(FrozenInstanceError, match="'x'"):
            point.x = 2
        with pytest.raises(FrozenInstanceError, match="'x'"):
            del point.x
        assert point.total == 3
    free = of["Open"](1)
    free.x = 2
    assert free == of["Open"](2)


@both
def test_functions_of_dataclasses__accept_instances(of: dict[str, Any]) -> None:
    point = of["Point"](1, unit="km")
    assert replace(point, x=5) == of["Point"](5, unit="km")
    assert asdict(of["Checked"](1))["z"] == 3
    assert [each.name for each in fields(point)] == ["x", "y", "names", "unit", "costs"]


@both
def test_copies__are_equal(of: dict[str, Any]) -> None:
    point = of["Checked"](1, names=["a"])
    assert copy.copy(point) == point == copy.deepcopy(point)
    assert copy.deepcopy(point).names is not point.names


def test_pickle__gives_an_equal_instance() -> None:
    stored = Stored(1, ("a",))
    again = pickle.loads(pickle.dumps(stored))  # noqa: S301
    assert again == stored
    assert hash(again) == hash(stored)


def test_text_and_signature__are_those_of_the_standard_library() -> None:
    ours, theirs = WAYS
    for name in OURS:
        signatures = [inspect.signature(of[name]) for of in WAYS]
        shown = [
            [(p.name, p.kind, p.annotation) for p in s.parameters.values()] for s in signatures
        ]
        assert shown[0] == shown[1]
        optional = [[p.default is p.empty for p in s.parameters.values()] for s in signatures]
        assert optional[0] == optional[1]
    assert repr(ours["Checked"](1)) == repr(theirs["Checked"](1))
    assert repr(ours["Hidden"](1)).startswith("<")


def test_subclass__with_its_own_init__has_the_signature_of_that() -> None:
    class Own(Stored):
        def __init__(self, text: str) -> None:
            super().__init__(int(text))

    assert list(inspect.signature(Own).parameters) == ["text"]
    assert Own("4").x == 4
