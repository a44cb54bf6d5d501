"""Every public function with arguments that work, and values that no argument was meant for.

``python -m tests.wrong_arguments`` tries each value for each argument.
"""

from __future__ import annotations

import datetime as dt
import inspect
import math
import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import fastrank_eval as fe
from fastrank_eval.apps.nightly.config import read_config
from fastrank_eval.apps.nightly.history import History
from fastrank_eval.engine.options import options_at
from fastrank_eval.measures.base import registry

LOG = {
    "user": [1, 1, 2, 2, 3, 3],
    "slot": ["a", "b", "a", "b", "b", "a"],
    "click": [0, 1, 1, 0, 1, 0],
    "old": [0.1, 0.4, 0.2, 0.3, 0.5, 0.6],
    "new": [0.1, 0.4, 0.4, 0.3, 0.5, 0.6],
}
CLASSES = {"kind": [0, 1, 0, 1], "p0": [0.9, 0.2, 0.6, 0.5], "p1": [0.1, 0.8, 0.4, 0.5]}
RUN, QRELS = {"q": {"d1": 2.0, "d2": 1.0}}, {"q": {"d1": 0, "d2": 1}}


class Hostile:
    """Refuses all that is asked of it."""

    def __bool__(self) -> bool:
        raise RuntimeError("no truth")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("not to be compared")

    __hash__ = None  # type: ignore[assignment]


#: By what messages of the test call them; callables make a new one each time.
VALUES: dict[str, Callable[[], object]] = {
    "None": lambda: None,
    "True": lambda: True,
    "a word": lambda: "no",
    "no text": lambda: "",
    "half a surrogate": lambda: "\ud800",
    "a null byte": lambda: "a\0b",
    "braces": lambda: "{[(<",
    "bytes": lambda: b"\xff",
    "0": lambda: 0,
    "-1": lambda: -1,
    "2**63": lambda: 2**63,
    "2**70": lambda: 2**70,
    "10**400": lambda: 10**400,
    "1.5": lambda: 1.5,
    "NaN": lambda: math.nan,
    "-inf": lambda: -math.inf,
    "complex": lambda: 1 + 2j,
    "Decimal": lambda: Decimal("sNaN"),
    "Fraction": lambda: Fraction(1, 3),
    "date": lambda: dt.date(2026, 11, 19),
    "NaT": lambda: np.datetime64("NaT", "s"),
    "np.int8": lambda: np.int8(-3),
    "np.str_": lambda: np.str_("click"),
    "pa.scalar": lambda: pa.scalar(1),
    "0-d": lambda: np.array(3),
    "0-d text": lambda: np.array("user"),
    "array": lambda: np.array([1.0, math.nan]),
    "2-d": lambda: np.ones((2, 2)),
    "array of objects": lambda: np.array([None, object()]),
    "pa.array": lambda: pa.array([1, None]),
    "[]": list,
    "[None]": lambda: [None],
    "[[...]]": lambda: [["click"]],
    "[Hostile()]": lambda: [Hostile()],
    "{}": dict,
    "{None: None}": lambda: {None: None},
    "{(): {}}": lambda: {(): {}},
    "set": lambda: {1, "a"},
    "generator": lambda: (one for one in (1, None)),
    "range": lambda: range(-1, 1),
    "slice": lambda: slice(None),
    "object()": object,
    "Hostile()": Hostile,
    "int": lambda: int,
    "fe.Result": lambda: fe.Result,
    "function": lambda: len,
    "...": lambda: ...,
    "error": lambda: ValueError("x"),
    "Expression": lambda: pc.field("click") == 1,
    "Path": lambda: Path("nowhere"),
}


@dataclass(frozen=True)
class Call:
    """A public function with arguments that work.

    Parameters
    ----------
    name : str
    function : callable
    arguments : dict
        By name; positional ones by their place.
    more : tuple of str
        Names of arguments that its `**options` take.
    """

    name: str
    function: Callable[..., Any]
    arguments: dict[str, Any]
    more: tuple[str, ...] = ()

    def names(self) -> list[str]:
        """Every argument that it takes."""
        parameters = inspect.signature(self.function).parameters.values()
        named = [p.name for p in parameters if p.kind is not p.VAR_KEYWORD]
        return list(dict.fromkeys([*named, *self.more]))

    def with_argument(self, name: str, value: object) -> Any:
        """Call it with one of them replaced."""
        given = {**self.arguments, name: value}
        positional = []
        for p in inspect.signature(self.function).parameters.values():
            if p.kind is p.VAR_POSITIONAL:
                positional += [given.pop(p.name)] if p.name in given else []
            elif p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.name in given:
                positional.append(given.pop(p.name))
            elif p.kind is not p.VAR_KEYWORD and p.name not in given:
                assert p.default is not p.empty, f"{self.name} needs {p.name}"
        return used(self.function(*positional, **given))


def used(found: Any) -> Any:
    """Read an open source, which checks some arguments only then; close a history."""
    if hasattr(found, "batches") and hasattr(found, "schema"):
        for batch in found.batches(found.schema.names[:1]):
            batch.validate()
    if isinstance(found, History):
        found.close()
    return found


def first_label(labels: list[float]) -> float:
    """A measure of a query."""
    return labels[0]


def calls(folder: Path) -> Iterator[Call]:
    """Every public function and method, with arguments that work."""
    columns = {"group": "user", "label": "click", "score": ["old", "new"]}
    two = {"source": LOG, **columns, "measures": "GAUC,AUC"}
    result = fe.evaluate(**two, baseline="old", by="slot", keep="scores,groups")
    state, rows = result.state, {"source": LOG, "label": "click", "score": "old"}
    yield Call("evaluate", fe.evaluate, two)
    yield Call("compare", fe.compare, {**two, "baseline": "old"}, tuple(options_at("compare")))
    yield Call("partial", fe.partial, {"batches": LOG, **columns, "measures": "RR"},
               tuple(options_at("partial")))  # fmt: skip
    yield Call("explain", fe.explain, {**two, "measures": "RR", "profile": "sklearn"},
               tuple(options_at("explain")))  # fmt: skip
    of_rows = tuple(options_at("rows"))
    yield Call("best_threshold", fe.best_threshold, rows, of_rows)
    yield Call("confusion", fe.confusion, rows, of_rows)
    for kind in ("roc", "calibration", "k", "gauc-by-activity"):
        given = {"kind": kind, "source": LOG, **columns}
        yield Call(f"curve {kind}", fe.curve, given, tuple(options_at("curve")))
    yield Call(
        "evaluate_classes", fe.evaluate_classes,
        {"source": CLASSES, "label": "kind", "scores": ["p0", "p1"]},
    )  # fmt: skip
    yield Call("gate", fe.gate, {"fail_if": "GAUC < 0.5"})
    yield Call("measure", fe.measure, {"alias": "GAUC"})
    yield Call("register", fe.register, {"kind": type(fe.GAUC)})
    yield Call("measure_of", fe.measure_of, {"function": first_label, "name": "FirstLabel"})
    yield Call("parse_measures", fe.parse_measures, {"measures": "GAUC"})
    yield Call("rela_impr", fe.rela_impr, {"value": 0.7, "base": 0.6})
    yield Call("open_source", fe.open_source, {"source": LOG})
    opened = fe.open_source(LOG)
    yield Call("Source.batches", lambda columns: list(opened.batches(columns)),
               {"columns": ["user"]})  # fmt: skip
    state.save(folder / "one.state")
    yield Call("load_state", fe.load_state, {"path": folder / "one.state"})
    comparison = fe.compare(**two, baseline="old", by="slot")
    found = fe.curve("roc", LOG, **columns)
    classes = fe.evaluate_classes(CLASSES, label="kind", scores=["p0", "p1"])
    held = {"measure": "GAUC", "score": "old"}
    methods: list[tuple[object, dict[str, dict[str, Any]]]] = [
        (result, {
            "check": {"fail_if": "GAUC < 0.1"},
            "compare": {"baseline": "old"},
            "curve": {"kind": "roc"},
            "interval": held,
            "rela_impr": {**held, "base": "new"},
            "score_table": {"score": "old"},
            "value": held,
            "__getitem__": {"key": ("old", "GAUC")},
        }),
        (classes, {"check": {"fail_if": "AUC < 0.1"}, "interval": {"measure": "AUC"},
                  "value": {"measure": "AUC"}, "__getitem__": {"key": "AUC"},
                  "score_table": {"score": "scores"}, "curve": {"kind": "roc"},
                  "rela_impr": {"measure": "AUC", "score": "scores", "base": "scores"}}),
        (state, {
            "merge": {"others": state, "allow_repeated": True, "allow_crossing": True},
            "save": {"path": str(folder / "two.state"), "overwrite": True},
            "check_mergeable": {"other": state},
            "from_bytes": {"content": state.to_bytes()},
            "compare": {"baseline": "old"},
            "without_slices": {"by": "slot"},
            "as_one": {"sources": ["a"], "order": "x", "where": None, "limit": None},
        }),
        (comparison, {
            "check": {"fail_if": "GAUC delta < -0.9"},
            "find": {"measure": "GAUC"},
            "tables_of_largest_changes": {"top": 1},
            "largest_changes": {"measure": "GAUC"},
            "largest_slice_changes": {"measure": "GAUC"},
            "decomposition": {"measure": "GAUC"},
        }),
        (found, {"of": {"score": "old"}, "plot": {"path": str(folder / "roc.svg")}}),
        (fe.best_threshold(LOG, label="click", score="old"), {}),
        (fe.trec.trec_report(QRELS, RUN), {}),
        (fe.gate("GAUC < 0.5"), {"require": {"names": {"GAUC": "GAUC"}, "scores": ["old"]}}),
    ]  # fmt: skip
    for of, taken in methods:
        kind = type(of).__name__
        for name, _ in inspect.getmembers(type(of), callable):
            if name.startswith("_") and name not in taken:
                continue
            method = getattr(of, name)
            if not inspect.signature(method).parameters:
                continue
            more = (
                ("test", "correction", "replicates", "seed", "confidence", "threads")
                if name == "compare"
                else ()
            )
            more = ("points", "bins", "binning", "confidence", "sampling_rate") if (
                name == "curve") else more  # fmt: skip
            yield Call(f"{kind}.{name}", method, taken.get(name, {}), more)
    yield from of_neighbours()
    yield from of_trec()
    yield Call("read_config", read_config, {"path": str(folder / "nowhere.toml")})
    yield Call("History", History, {"path": str(folder / "nowhere.sqlite")})


def of_neighbours() -> Iterator[Call]:
    """Metrics for other libraries."""
    grouped = ("profile", "ties", "undefined", "groups", "weight_rows", "score_type", "threads")
    near = fe.integrations
    ids, label, score = LOG["user"], LOG["click"], LOG["old"]
    yield Call("group_score", near.group_score,
               {"y_true": label, "y_score": score, "groups": ids}, grouped)  # fmt: skip
    for name in ("catboost_metric", "lightgbm_metric", "xgboost_metric"):
        yield Call(name, getattr(near, name), {"group": ids}, grouped)
    yield Call("scorer", near.scorer, {}, grouped)


def of_trec() -> Iterator[Call]:
    """Runs and judgements."""
    yield Call("trec.join", fe.trec.join, {"qrels": QRELS, "run": RUN})
    yield Call("trec.evaluate", fe.trec.evaluate, {"qrels": QRELS, "run": RUN})
    yield Call("trec.read_run", fe.trec.read_run, {"source": RUN})
    yield Call("trec.read_qrels", fe.trec.read_qrels, {"source": QRELS})
    yield Call(
        "trec.read_diversity_qrels",
        fe.trec.read_diversity_qrels,
        {"source": {"query": ["q"], "subtopic": [1], "doc": ["a"], "grade": [1]}},
    )
    yield Call("trec.trec_report", fe.trec.trec_report, {"run": RUN, "qrels": QRELS})
    yield Call("trec.confidences", fe.trec.confidences, {"run": RUN})
    result = fe.trec.evaluate(QRELS, RUN, "AP")
    confidence = fe.trec.confidences(RUN)["max"]
    taken = {"result": result, "measure": "AP", "confidence": confidence}
    yield Call("trec.nauc", fe.trec.nauc, taken)
    docs = {query: ["a"] for query in confidence}
    yield Call("trec.p_mrr", fe.trec.p_mrr, {"original": RUN, "changed": RUN, "docs": docs})


def of_measures() -> Iterator[Call]:
    """The constructor of every measure with each of its options."""
    for kind in registry.values():
        options = tuple(param.name for param in kind.options)
        made = {}
        yield Call(kind.name, kind, made, options)


def foreign(call: Call, name: str, make: Callable[[], object]) -> str | None:
    """What is raised that is none of our errors, if anything is."""
    value = make()
    if name == "progress" and callable(value):
        return None  # what a user's function raises is the user's
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            call.with_argument(name, value)
    except fe.FastRankEvalError:
        return None
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def main() -> None:
    """Try every value for every argument and print how many tries raised another error."""
    tries = 0
    found = []
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for call in (*calls(Path(folder)), *of_measures()):
            for name in call.names():
                for called, make in VALUES.items():
                    tries += 1
                    error = foreign(call, name, make)
                    found += [f"{call.name}({name}={called}): {error}"] if error else []
        os.chdir("/")
    found.append(f"{tries:,} tries, {len(found):,} other errors")
    sys.stdout.write("\n".join(found) + "\n")


if __name__ == "__main__":
    main()
