"""JSON documents: each follows its published schema, which lists every key."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from jsonschema import Draft202012Validator, FormatChecker, ValidationError
from jsonschema.exceptions import best_match

import fastrank_eval as fe
from fastrank_eval.apps.cli.main import cli
from fastrank_eval.apps.nightly.documents import document as document_of
from fastrank_eval.apps.nightly.night import (
    CompositionChange,
    EarlierJudgement,
    Finding,
    NightCalibration,
)
from fastrank_eval.apps.nightly.summary_files import nights_json, summary
from fastrank_eval.engine.records import JSON_SCHEMAS
from tests.support.nights import a_night

pytestmark = pytest.mark.no_kernels

LOG = ["impressions.parquet", "-g", "user_id", "-l", "click", "-s", "score_a,score_b", "-q"]
CLASSES = ["animals.parquet", "-l", "kind", "-s", "cat=p_cat,dog=p_dog,owl=p_owl", "-q"]
NIGHTLY = ["nightly", "month/nightly.toml", "-q", "--json", "-"]
BY_LABEL = ["labels.parquet", *LOG[1:3], "-l", "click,order", *LOG[5:]]
CLUSTERED = [*LOG, "-g", "slot", "--cluster", "user_id"]
CURVES = ("roc", "pr", "det", "lift", "calibration", "k", "gauc-by-activity")
JSON = ["--format", "json"]
#: A log in which some rows have no label.
UNJUDGED, DROP = "unjudged.parquet", ["--unjudged", "drop"]
#: Commands over the files of `demo`, with the schema of what they write.
COMMANDS: dict[str, tuple[str, list[str]]] = {
    "evaluate": ("evaluation", ["evaluate", *LOG, *JSON]),
    "slices": (
        "evaluation",
        ["evaluate", *LOG, "-m", "GAUC,MultiECCE(columns='slot')", "--by", "slot", *JSON],
    ),
    "profile": ("evaluation", ["evaluate", *LOG, "-m", "AP@5", "--profile", "catboost", *JSON]),
    "labels": ("evaluation", ["evaluate", *BY_LABEL, "-m", "GAUC", *JSON]),
    "merge": ("evaluation", ["merge", "a.state", "b.state", *JSON]),
    "classes": ("evaluation", ["classes", *CLASSES, *JSON]),
    "pairs of classes": ("evaluation", ["classes", *CLASSES, "-m", "AUC", "-a", "ovo", *JSON]),
    "compare": (
        "comparison",
        ["compare", *LOG, "--baseline", "score_a", "--by", "slot", "--largest-changes", "2", *JSON],
    ),
    "compared clusters": (
        "comparison",
        ["compare", *CLUSTERED, "--baseline", "score_a", *JSON],
    ),
    "compared labels": ("comparison", ["compare", *BY_LABEL, "--baseline", "score_a", *JSON]),
    "threshold": (
        "threshold", ["threshold", UNJUDGED, *LOG[3:], *DROP, "--nan", "null", *JSON],
    ),
    "explain": (
        "explanation",
        ["explain", UNJUDGED, *LOG[1:-1], "--profile", "catboost", *DROP, *JSON],
    ),
    "trec": ("trec", ["trec", "qrels.txt", "bm25.run", "ours.run", "-c", "-q", *JSON]),
    "measures": ("measures", ["measures", *JSON]),
    "nightly": ("nightly", [*NIGHTLY, "--backfill", "2026-11-11..2026-11-12"]),
    "no labels": ("nightly", [*NIGHTLY, "--date", "2026-11-20", "--no-labels"]),
    "no rows": ("nightly", [*NIGHTLY, "--date", "2027-01-01"]),
    "clusters": (
        "nightly",
        ["nightly", "month/clusters.toml", *NIGHTLY[2:], "--backfill", "2026-11-11..2026-11-12"],
    ),
    "clusters of a curve": ("curve", ["curve", "gauc-by-activity", *CLUSTERED, *JSON]),
    "refused": ("nightly", ["nightly", "missing.toml", "-q", "--json", "-"]),
    **{kind: ("curve", ["curve", kind, UNJUDGED, *LOG[1:], *DROP, *JSON]) for kind in CURVES},
}  # fmt: skip


def schema_of(name: str) -> dict[str, Any]:
    text = (files("fastrank_eval") / "schemas" / f"{name}.json").read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema


def closed(schema: Any) -> Any:
    """The schema, with objects that have listed keys alone."""
    if isinstance(schema, list):
        return [closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: closed(one) for name, one in schema.items()}
    if isinstance(found.get("properties"), dict) and found.get("type") == "object":
        found["additionalProperties"] = False
    return found


@cache
def validator(name: str) -> Draft202012Validator:
    return Draft202012Validator(closed(schema_of(name)), format_checker=FormatChecker())


def problem(name: str, document: object) -> ValidationError | None:
    """The first key that does not follow the schema."""
    return best_match(validator(name).iter_errors(document))


Path_ = tuple[str | int, ...]


def described(name: str, document: Any) -> Iterator[tuple[Path_, dict[str, Any]]]:
    """The path of each object whose keys the schema lists, with the part of the schema for it."""
    whole = schema_of(name)

    def parts(rules: Any, value: Any, path: Path_) -> Iterator[tuple[Path_, dict[str, Any]]]:
        while "$ref" in rules:
            rules = whole["$defs"][rules["$ref"].rpartition("/")[2]]
        for option in rules.get("anyOf", ()):
            # Options differ by their keys, or by their types.
            while "$ref" in option:
                option = whole["$defs"][option["$ref"].rpartition("/")[2]]
            if KINDS[option["type"]] is type(value) and {*option.get("required", ())} <= {
                *(value if isinstance(value, dict) else ())
            }:
                yield from parts(option, value, path)
        if isinstance(value, list) and "items" in rules:
            for at, one in enumerate(value):
                yield from parts(rules["items"], one, (*path, at))
        elif isinstance(value, dict):
            known, rest = rules.get("properties", {}), rules.get("additionalProperties", {})
            if known:
                yield path, rules
            for key, one in value.items():
                inner = known.get(key, rest)
                yield from parts(inner if isinstance(inner, dict) else {}, one, (*path, key))

    yield from parts(whole, document, ())


KINDS = {"object": dict, "array": list, "null": type(None)}


def at(document: Any, path: Path_) -> Any:
    for key in path:
        document = document[key]
    return document


def short(document: Any) -> Any:
    """The document with the first of list items with equal keys."""
    if isinstance(document, dict):
        return {key: short(one) for key, one in document.items()}
    if isinstance(document, list):
        kinds = {repr(sorted(one)) if isinstance(one, dict) else "": one for one in document[::-1]}
        return [short(one) for one in kinds.values()]
    return document


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, Any]]:
    """What commands and functions write: the name of the schema, and the content."""
    folder = tmp_path_factory.mktemp("documents")
    found: dict[str, tuple[str, Any]] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert CliRunner().invoke(cli, ["demo", ".", "--rows", "1500"]).exit_code == 0
        log, config = pq.read_table("impressions.parquet"), Path("month/nightly.toml")
        text = config.read_text(encoding="utf-8").partition("[output]")[0]  # no pages
        config.write_text(text)
        group = 'group = ["user_id", "slot"]\ncluster = "user_id"'
        text = text.replace('group = "user_id"', group) + '[history]\nfile = "clusters.db"\n'
        config.with_name("clusters.toml").write_text(text)
        orders = [click and row % 3 for row, click in enumerate(log["click"].to_pylist())]
        orders = [min(1, int(order)) for order in orders]
        pq.write_table(log.append_column("order", pa.array(orders)), "labels.parquet")
        clicks = [click if row > 9 else None for row, click in enumerate(log["click"].to_pylist())]
        click = pa.array(clicks, log.schema.field("click").type)
        place = log.schema.get_field_index("click")
        pq.write_table(log.set_column(place, "click", click), UNJUDGED)
        for part, rows in (("a", "slot = 'top'"), ("b", "slot != 'top'")):
            state = ["--where", rows, "--save-state", f"{part}.state", "-m", "AUC,LogLoss"]
            without_groups = [word for word in LOG if word not in ("-g", "user_id")]
            done = CliRunner().invoke(cli, ["evaluate", *without_groups, *state])
            assert done.exit_code == 0, done.output
        for name, (schema, command) in COMMANDS.items():
            done = CliRunner().invoke(cli, command)
            assert done.stdout[:1] in ("{", "["), f"{name}: {done.output}"
            found[name] = schema, json.loads(done.stdout)
        models = [
            fe.evaluate(log, group="user_id", label="click", score=score, measures="GAUC")
            for score in ("score_a", "score_b")
        ]
        options: dict[str, Any] = {"group": "user_id", "label": "click", "score": "score_a"}
        options["keep"] = "scores"
        result = fe.evaluate(log, measures="AUC,nDCG@5", profile="catboost", **options)
        found["curve of a result"] = "curve", result.curve("roc").document()
        found["compared results"] = "comparison", models[0].compare(models[1]).document()
    sets = {name: ({"q": {"d": 1}}, {"a": {"q": {"d": 1}}, "b": {"q": {"d": 2}}}) for name in "xy"}
    found["data sets"] = "evaluation", fe.trec.evaluate(sets, measures="RR").document()
    night = a_night(
        judged_before=EarlierJudgement("provisional", (("new", "GAUC", 0.5),)),
        compositions=(CompositionChange("yesterday", "new", "GAUC", "slot", 0.1, 0.1, 0.0, 0.0),),
        findings=(Finding("gate", "GAUC < 0.6", "new", measure="GAUC"),),
        calibration=(
            NightCalibration("new", "GAUC", "slot=1", 7, 1.0, 2.0, 0.1, 3.0, 0.01, 0.02, 0.1),
        ),
        label="click",
    )
    written = nights_json([summary(document_of(night), page="page.html")], 3)
    found["night"] = "nightly", json.loads(written)
    return found


DOCUMENTS = [*COMMANDS, "curve of a result", "compared results", "data sets", "night"]


@pytest.mark.parametrize("name", DOCUMENTS)
def test_document__of_a_command__follows_its_schema(
    documents: dict[str, tuple[str, Any]], name: str
) -> None:
    schema, document = documents[name]
    found = problem(schema, document)
    assert found is None, f"{found.json_path}: {found.message}"


@pytest.mark.parametrize("name", JSON_SCHEMAS)
def test_document__with_a_key_more_or_less__is_refused(
    documents: dict[str, tuple[str, Any]], name: str
) -> None:
    """So a key that is added, removed or renamed without its schema fails a test."""
    seen: set[object] = set()
    for document in (short(document) for schema, document in documents.values() if schema == name):
        for path, rules in list(described(name, document)):
            keys = tuple(key for key in path if isinstance(key, str)), *at(document, path)
            if keys in seen:
                continue
            seen.add(keys)
            for key in ("of no schema", *rules["required"]):
                changed = copy.deepcopy(document)
                if key in rules["required"]:
                    del at(changed, path)[key]
                else:
                    at(changed, path)[key] = 1
                assert not validator(name).is_valid(changed), (path, key)


def test_keys__of_schemas__are_all_written(documents: dict[str, tuple[str, Any]]) -> None:
    """A key that nothing writes any more has left its schema too."""
    keys: dict[str, set[str]] = {}
    written: dict[str, set[str]] = {}
    for schema, document in documents.values():
        for path, rules in described(schema, document):
            keys.setdefault(schema, set()).update(rules["properties"])
            written.setdefault(schema, set()).update(at(document, path))
    assert keys.keys() == JSON_SCHEMAS.keys()
    unwritten = {name: keys[name] - written[name] for name in keys}
    assert {name: rest for name, rest in unwritten.items() if rest} == {}


@pytest.mark.parametrize("name", JSON_SCHEMAS)
def test_schema__is_valid_and_has_the_version_of_its_documents(
    documents: dict[str, tuple[str, Any]], name: str
) -> None:
    schema, version = schema_of(name), JSON_SCHEMAS[name]
    Draft202012Validator.check_schema(schema)
    assert schema["$id"] == f"urn:fastrank_eval:schema:{name}:{version}"
    document = next(document for of, document in documents.values() if of == name)
    first = document[0] if isinstance(document, list) else document
    assert first["schema"] == version
    first = {**first, "schema": version + 1}
    assert problem(name, [first] if isinstance(document, list) else first) is not None


@pytest.mark.parametrize("name", JSON_SCHEMAS)
def test_schema__published__accepts_keys_of_later_versions(
    documents: dict[str, tuple[str, Any]], name: str
) -> None:
    """A reader that validates with an older schema can read a document with more keys."""
    document = copy.deepcopy(next(document for of, document in documents.values() if of == name))
    for path, _ in list(described(name, document)):
        at(document, path)["of a later version"] = 1
    Draft202012Validator(schema_of(name)).validate(document)


def test_parts_of_one_name__are_equal_in_all_schemas() -> None:
    parts: dict[str, list[Any]] = {}
    for name in JSON_SCHEMAS:
        for part, rules in schema_of(name).get("$defs", {}).items():
            if part not in ("labels", "calibration"):
                parts.setdefault(part, []).append(rules)
    assert [part for part, rules in parts.items() if any(one != rules[0] for one in rules)] == []


def test_folder__has_the_schemas_of_the_list() -> None:
    names = {Path(file.name).stem for file in (files("fastrank_eval") / "schemas").iterdir()}
    assert names == {*JSON_SCHEMAS}
