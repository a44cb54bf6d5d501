"""Define the keys of a configuration, and check them."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from functools import partial
from typing import Any, NamedTuple

from fastrank_eval import Gate, Measure, gate, measure
from fastrank_eval._lib.arguments import integer, number, one_of
from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.errors import ArgumentError, FastRankEvalError, near
from fastrank_eval.apps.nightly.night import Settings, first_that_holds
from fastrank_eval.apps.nightly.periods import (
    MAX_NIGHTS,
    SAMPLE,
    date_fields,
    depends_on_date,
    fill_date,
    parse_date,
    parse_duration,
)
from fastrank_eval.apps.nightly.quality import LABEL_PART, MOST_SCORES, with_standard_errors
from fastrank_eval.engine.conventions import profile_of, requested_names, used_measures
from fastrank_eval.engine.options import DEFAULTS, OPTIONS
from fastrank_eval.io.computed import parse as parse_score
from fastrank_eval.measures.names import COMPARISON_FIELDS
from fastrank_eval.measures.parser import requested_measures
from fastrank_eval.results.gates import ALL, Term
from fastrank_eval.results.report import list_text
from fastrank_eval.slicing.spec import requested_slicing

_MAX_SHOWN = 80
#: Tables and keys whose values no message shows: by mistake one may be a secret.
_SECRETS = {"notify", "url", "url_env"}

#: Converts a value of TOML, or raises ValueError with the required form.
Reader = Callable[[Any], Any]
_Tables = dict[str, dict[str, Any]]


class Key(NamedTuple):
    """A key of a table: how it is read, and its default."""

    read: Reader
    default: Any = None
    required: bool = False


def _content(value: Any) -> str:
    """Return a text that is not blank."""
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise ValueError
    return value


def _variable(value: Any) -> str:
    if not (_content(value).isascii() and value.isidentifier()):
        raise ValueError
    return str(value)


def _reader(form: str, *steps: Reader) -> Reader:
    """Make a reader of several steps with one message."""

    def read(value: Any) -> Any:
        try:
            for step in steps:
                value = step(value)
        except (ArgumentError, TypeError, ValueError):
            raise ValueError(form) from None
        return value

    return read


def _names(value: Any) -> tuple[str, ...]:
    """Accept a string, or a list of at least one string without repeats."""
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, list) or not values:
        raise ValueError("a string or a list of strings, at least one")
    for each in values:
        _reader(f"a list of non-empty strings, got {each!r}", _content)(each)
        if values.count(each) > 1:
            raise ValueError(f"a list of distinct strings, and {each!r} occurs twice")
    return tuple(values)


def _optional_names(value: Any) -> tuple[str, ...]:
    """Accept the values of `_names`, or an empty list."""
    return () if value == [] else _names(value)


def _named(value: Any) -> tuple[str, ...] | dict[str, str]:
    """Accept the values of `_names`, or a table of texts by name."""
    if not isinstance(value, Mapping):
        return _names(value)
    if not value:
        raise ValueError("a list of texts, or a table with a line NAME = 'TEXT'")
    for name, expression in value.items():
        form = f"a table of non-empty strings, got {expression!r} for {name!r}"
        _reader(form, lambda pair: [*map(_content, pair)])((name, expression))
    return dict(value)


def _by_name(read: Reader) -> Reader:
    """Accept a value, or a table of values by model or column.

    The key ``"*"`` is for the others.
    """

    def read_limits(value: Any) -> Any:
        if not isinstance(value, Mapping):
            return read(value)
        limits = {}
        for name, limit in value.items():
            try:
                limits[name] = read(limit)
            except ValueError as form:
                raise ValueError(f"{form}, got {limit!r} for {name!r}") from None
        return limits

    return read_limits


def _options_of(table: str) -> dict[str, Key]:
    """Make the keys of the options of `evaluate` in a table."""

    def key(name: str) -> Key:
        option = OPTIONS[name]
        form = option.form if option.reader or option.choices else _text

        def read(value: Any) -> Any:  # the configuration holds it as it is written
            value = form(value)
            if option.finish is not None:
                option.finish(name, value)
            return value

        return Key(read, option.default if name == "confidence" else None)

    return {name: key(name) for name, option in OPTIONS.items() if option.table == table}


_text = _reader("a non-empty string", _content)
_share = _reader("a number from 0 to 1", number(least=0, most=1), float)
_factor = _reader(
    "0 or a number of at least 1", number(least=0), lambda value: value and number(least=1)(value)
)
_positive = _reader("a number above 0", number(above=0), float)
_date = _reader(
    "a date, such as 2026-11-19",
    lambda value: parse_date(value.isoformat() if type(value) is dt.date else value),
)
_duration = _reader(
    'a whole number and d (days) or h (hours), such as "3d" or "36h", at most "366d"',
    parse_duration,
)
#: Every table with its keys; `""` are the keys before the first table.
TABLES: dict[str, dict[str, Key]] = {
    "": {"title": Key(_text, "Nightly report")},
    "source": {
        "path": Key(_names, (), required=True),
        **_options_of("source"),
        "labels_complete_after": Key(_duration),
    },
    "columns": {
        **_options_of("columns"),
        "group": Key(_names, (), required=True),
        "cluster": Key(_names),
        "label": Key(_names, (), required=True),
    },
    "models": {"scores": Key(_named, (), required=True), "baseline": Key(_text)},
    "evaluate": {
        **_options_of("evaluate"),
        "measures": Key(_named, ("GAUC", "AUC", "nDCG@10", "LogLoss", "PCOC")),
    },
    "slices": {"by": Key(_optional_names, ()), "min_groups": Key(integer(1), 30)},
    "gates": {
        "fail_if": Key(_optional_names, ()),
        "fail_if_yesterday": Key(_optional_names, ()),
        "fail_if_last_week": Key(_optional_names, ()),
        "min_distinct_scores": Key(_by_name(integer(0, MOST_SCORES))),
        "alarm": Key(one_of("sequence")),
        "alarm_since": Key(_date),
        "provisional": Key(one_of("report", "fail")),
    },
    "quality": {
        "min_rows": Key(integer(0), 1),
        "min_groups": Key(integer(0), 1),
        "min_coverage": Key(_share),
        "max_single_class_share": Key(_share),
        "max_tie_rate": Key(_share),
        "max_null_share": Key(_by_name(_share)),
        "max_volume_drift": Key(_positive),
        "max_ctr_drift": Key(_positive),
        "max_volume_factor": Key(_factor, 2.0),
        "max_ctr_factor": Key(_factor, 2.0),
        "max_tie_rise": Key(_share, 0.02),
        "note_missing": Key(_share, 0.01),
        "ties": Key(_reader("true or false", one_of(True, False)), True),
    },
    "drift": {
        "columns": Key(_optional_names, ()),
        "nights": Key(integer(0, 366), 14),
        "min_rows": Key(integer(1), 1000),
        "note_psi": Key(_positive, 0.1),
        "max_psi": Key(_by_name(_reader("a number of at least 0", number(least=0), float)), 0.25),
        "max_ks": Key(_by_name(_share)),
        "note_nulls": Key(_share, 0.01),
        "max_nulls": Key(_by_name(_share), 0.1),
    },
    "history": {
        "file": Key(_text, "history.db"),
        "report": Key(_text),
        "states": Key(one_of("everything", "slices", "rows", "groups"), "slices"),
    },
    "output": {
        "folder": Key(_text),
        "nights": Key(integer(1, MAX_NIGHTS), 30),
        "groups": Key(integer(0, 10_000), 20),
    },
    "notify": {
        "url_env": Key(
            _reader(
                'the name of an environment variable, such as "SLACK_WEBHOOK", and not the address '
                "itself",
                _variable,
            ),
            "",
            required=True,
        ),
        "format": Key(one_of("chat", "json"), "chat"),
        "when": Key(one_of("failure", "change", "always"), "failure"),
        "timeout": Key(_positive, 10.0),
        "retries": Key(integer(0, 10), 3),
    },
}


def settings(table: str, **values: Any) -> Settings:
    """Return a table with the defaults of keys that are left out."""
    return Settings(**{key: one.default for key, one in TABLES[table].items()} | values)


@dataclass
class ConfigErrors:
    """The errors of a configuration file, collected to be reported at once.

    Parameters
    ----------
    file : str
        The path as the user wrote it.
    """

    file: str
    #: Table, key, value and reason of each error.
    records: list[tuple[str, str, object, str]] = field(default_factory=list)
    #: Tables with errors.
    tables: set[str] = field(default_factory=set)

    @property
    def errors(self) -> list[str]:
        """A line for each error."""
        return list(dict.fromkeys(self._text(*record) for record in self.records))

    def add(self, table: str, key: str, value: object, reason: str) -> None:
        """Add an error of a key, or of a table if the key is empty."""
        self.tables.add(table or key)
        self.records.append((table, key, value, reason))

    def _text(self, table: str, key: str, value: object, reason: str) -> str:
        key_text = f"[{table}]" if table else ""
        if key:
            shown = "..." if _SECRETS & {table, key} else _shown(value)
            key_text = f"{key_text} {key} = {shown}".strip()
        return f"{self.file}: {key_text}: {reason}"

    def check(
        self,
        table: str,
        key: str,
        value: object,
        function: Callable[..., object],
        *arguments: object,
    ) -> Any:
        """Call a function on the arguments or the value; collect its error.

        Returns
        -------
        object
            The result of the function; None if it raised.
        """
        try:
            return function(*(arguments or (value,)))
        except FastRankEvalError as wrong:
            got = rf", got {re.escape(_shown(value))}(?=[;.])"
            self.add(table, key, value, re.sub(got, "", str(wrong).removeprefix(f"{key}: ")))
        except ValueError as form:
            remedy = getattr(form, "remedy", "")
            self.add(table, key, value, f"must be {form}{remedy if remedy.endswith('?') else '.'}")
        return None


def _shown(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= _MAX_SHOWN else f"{shown[: _MAX_SHOWN - 3]}..."


def read_table(
    name: str, given: Any, keys: Mapping[str, Key], errors: ConfigErrors
) -> dict[str, Any]:
    """Return the value or default of every key of a table.

    Parameters
    ----------
    name : str
        ``""`` for the keys before the first table.
    given : object
        The table in TOML; None if it is missing.
    keys : mapping of str to Key
    errors : ConfigErrors
        Errors are added.
    """
    values = {key: one.default for key, one in keys.items()}
    given = {} if given is None else given
    if not isinstance(given, Mapping):
        errors.add("", name, given, f"must be a table; write [{name}] on a line.")
        return values
    for key in [key for key in given if key not in keys]:
        homes = [f"[{table}]" for table in TABLES if table and key in TABLES[table]]
        if homes and name in TABLES:
            reason = f"is a key of {' and '.join(homes)}; write it there."
        else:
            where = f"[{name}]" if name else "The top of the file"
            reason = f"there is no such key.{near(key, keys)} {where} takes {', '.join(keys)}."
        errors.add(name, key, given[key], reason)
    for key, one in keys.items():
        if key in given:
            value = errors.check(name, key, given[key], one.read)
            values[key] = one.default if value is None else value
        elif one.required:
            errors.add(name, "", None, f"the key {key!r} is missing; add it.")
    return values


def check_tables(
    tables: _Tables, errors: ConfigErrors, models: Sequence[str], labels: Sequence[str]
) -> None:
    """Check the tables without errors against each other.

    Parameters
    ----------
    tables : dict of str to dict
        The values of each table by key.
    errors : ConfigErrors
        Errors of single keys; new errors are added.
    models, labels : sequence of str
        Those of all labels, which limits may name.
    """
    failed, scores = frozenset(errors.tables), tables["models"]["scores"]

    def add(problems: Iterable[_Problem]) -> None:
        for one in problems:
            if not failed & {one.table, one.other}:
                own = tables[one.table][one.key] if one.value is None else one.value
                value = list(own) if isinstance(own, tuple) else own
                value = str(own) if isinstance(own, dt.date) else value
                errors.add(one.table, one.key, value, one.reason)

    if "source" not in failed:
        _check_source(tables["source"], errors)
    checked = isinstance(scores, Mapping) and "models" not in failed
    for name, text in scores.items() if checked else ():
        errors.check("models", "scores", {name: text}, parse_score, name, text)
    add(_contradictions(tables, models))
    require = None
    if "evaluate" not in failed:
        before, options = len(errors.records), tables["evaluate"]
        _check_measures(options["measures"], errors)
        if len(errors.records) == before:
            requested = requested_measures(with_headings(options["measures"]))
            used = _used(options, requested)
            add(_refused_measures(tables, used, "columns" not in failed))
        if len(errors.records) == before:
            computed = _used(options, with_standard_errors(requested))
            with_errors = [
                text for text, m in zip(map(str, used), computed, strict=True) if m.has_error
            ]
            if tables["gates"]["alarm"] is not None and not with_errors:
                names = list_text(m.display_name for m in computed)
                reason = f"must have a measure with a standard error, got {names}; add one, such"
                add([_Problem("gates", "alarm", "gates", f"{reason} as GAUC.")])
            require = partial(
                Gate.require,
                names={str(m): m.display_name for m in used},
                scores=tuple(scores),
                requested=requested_names(requested, used),
                options=("measures", "scores"),
                with_errors=with_errors,
            )
    _check_gates(tables, failed, None if "models" in failed else require, errors, models, labels)


def with_headings(given: Sequence[str] | Mapping[str, str]) -> list[str | Measure]:
    """Return measures to request; those of a table with its names as headings."""
    if isinstance(given, Mapping):
        return [measure(text).with_display_name(name) for name, text in given.items()]
    return list(given)


def _check_measures(given: Sequence[str] | Mapping[str, str], errors: ConfigErrors) -> None:
    """Check each measure, and the headings of a table."""
    if not isinstance(given, Mapping):
        for text in given:
            errors.check("evaluate", "measures", text, requested_measures)
        return
    texts = list(given.values())
    for name, text in given.items():
        read = errors.check("evaluate", "measures", {name: text}, requested_measures, text)
        other = None
        with suppress(FastRankEvalError):
            other = measure(name)
        problems = {
            "must name one measure in a line; write a line for each.": len(read or ()) > 1,
            f"{name!r} is another measure; write another heading.": other and (other,) != read,
            "has a measure twice; leave one out.": texts.count(text) > 1,
        }
        if read and first_that_holds(problems):
            errors.add("evaluate", "measures", {name: text}, first_that_holds(problems))


class _Problem(NamedTuple):
    """A key that does not fit another table, or its own."""

    table: str
    key: str
    other: str
    reason: str
    value: object = None


def _contradictions(tables: _Tables, all_models: Sequence[str]) -> list[_Problem]:
    """Return the keys that other keys contradict."""
    models, gates, columns = tables["models"], tables["gates"], tables["columns"]
    scores, baseline, alarm = models["scores"], models["baseline"], gates["alarm"]
    known, names = baseline in (None, *scores), ", ".join(map(repr, scores))
    none_is_late = tables["source"]["labels_complete_after"] is None
    is_model = "is a model too; name another column."
    compared = [*all_models, *tables["drift"]["columns"]]
    problems = [
        (not known, "models baseline models",
         f"is none of the models {names}.{near(baseline or '', scores)}"),
        (known and baseline is not None and len(scores) < 2, "models baseline models",
         "there is no other model to compare with it; add one to scores, or leave it out."),
        (columns["label"] in scores, "columns label models", is_model),
        (columns["weight"] in scores, "columns weight models", is_model),
        *((name in scores, "drift columns models",
           f"has the model {name!r}, whose scores are compared anyway; leave it out.")
          for name in tables["drift"]["columns"]),
        (tables["evaluate"]["ties"] == "item" and columns["item"] is None, "evaluate ties columns",
         "needs the column of item ids; add item to [columns]."),
        (alarm is not None and baseline is None, "gates alarm models",
         "watches differences from the baseline, and there is none; name one in [models]."),
        (alarm is None and gates["alarm_since"] is not None, "gates alarm_since models",
         'is the first night of an alarm, and there is none; write alarm = "sequence" too.'),
        (gates["provisional"] is not None and none_is_late, "gates provisional source",
         "is for nights whose labels are not complete, and every night counts as complete; "
         "write labels_complete_after in [source] too."),
        *((True, "gates min_distinct_scores models",
           f"{name!r} is none of the models {', '.join(map(repr, all_models))}."
           f"{near(name, all_models)}")
          for name in _unknown(gates["min_distinct_scores"], all_models)),
        *((True, f"drift {key} models",
           f"the scores or values of {name!r} are not compared.{near(name, compared)} "
           f"Those of {', '.join(compared)} are.")
          for key in ("max_psi", "max_ks", "max_nulls")
          for name in _unknown(tables["drift"][key], compared)),
    ]  # fmt: skip
    return [
        _Problem(table, key, other, reason)
        for holds, keys, reason in problems
        if holds
        for table, key, other in [keys.split()]
    ]


def _unknown(limits: Any, names: Collection[str]) -> list[str]:
    """Return the names in a table of limits that are none of some names."""
    return sorted({*limits} - {*names, "*"}) if isinstance(limits, Mapping) else []


def _check_source(source: dict[str, Any], errors: ConfigErrors) -> None:
    texts = [("path", path) for path in source["path"]]
    texts += [("where", source["where"])] if source["where"] else []
    before = len(errors.records)
    for key, value in texts:
        errors.check("source", key, value, fill_date, value, SAMPLE)
    if len(errors.records) > before:
        return
    if source["where"]:
        from fastrank_eval.io.filters import condition_of

        sample = fill_date(source["where"], SAMPLE)
        errors.check("source", "where", source["where"], condition_of, sample)
    same_fields = [braces for _, value in texts for braces in date_fields(value)]
    problem = "every night would read the same rows"
    if same_fields:
        problem = (
            f"several nights would read the same rows, as {same_fields[0]} is the same for them"
        )
    if not any(depends_on_date(value) for _, value in texts):
        errors.add(
            "source", "path", list(source["path"]),
            problem + "; write {date} where the night's date stands, "
            "as in 'logs/day={date}/*.parquet', or in where: \"day = '{date}'\".",
        )  # fmt: skip


def _used(options: dict[str, Any], requested: tuple[Measure, ...]) -> tuple[Measure, ...]:
    profile = None if options["profile"] is None else profile_of(options["profile"])
    return used_measures(requested, profile, options["sampling_rate"])


def _refused_measures(
    tables: _Tables, used: Sequence[Measure], columns_known: bool
) -> Iterator[_Problem]:
    """Yield the measures that conventions or columns do not allow."""
    options, profile = tables["evaluate"], tables["evaluate"]["profile"]
    columns = tables["columns"] if columns_known else None
    choices = DEFAULTS if profile is None else {**DEFAULTS, **profile_of(profile).choices}
    ties, weight_rows = (options[name] or choices[name] for name in ("ties", "weight_rows"))
    for m in used:
        reasons = [f"{m.refuses(ties)}."] if m.refuses(ties) else []
        if columns and columns["weight"] and weight_rows == "refuse" and not m.uses_row_weights:
            reasons.append(
                "is a measure of rank positions, which cannot use weights of rows; leave it out, "
                "leave weight out of [columns], or write weight_rows = 'ignore'."
            )
        if columns and m.needs_subtopics and columns["subtopics"] is None:
            reasons.append("needs the column of subtopics; add subtopics to [columns].")
        for reason in reasons:
            yield _Problem("evaluate", "measures", "evaluate", reason, m.display_name)


#: Fields of gates that no night stores.
_NOT_STORED = {"weight", "wins", "losses", "ties", "mdd"}


def _check_gates(
    tables: _Tables,
    failed: frozenset[str],
    require: Callable[[Gate], None] | None,
    errors: ConfigErrors,
    models: Sequence[str],
    labels: Sequence[str],
) -> None:
    """Refuse gates on values that no night of the report has."""
    by, baseline = tables["slices"]["by"], tables["models"]["baseline"]
    specs = [errors.check("slices", "by", spec, requested_slicing) for spec in by]
    known = require is not None and None not in specs and "slices" not in failed
    slicings = [one.columns for spec in filter(None, specs) for one in spec]
    if known and not {"columns", "drift", "quality"} & failed:
        columns, limits = tables["columns"], tables["quality"]["max_null_share"]
        sliced = (part.column for parts in slicings for part in parts if not part.activity)
        names = [*columns["group"], *labels, *models]
        names = [*dict.fromkeys([*names, *sliced, *tables["drift"]["columns"]])]
        for name in _unknown(limits, names):
            reason = f"no nulls of {name!r} are counted.{near(name, names)} They are of "
            errors.add("quality", "max_null_share", limits, f"{reason}{', '.join(names)}.")

    def check(text: str, key: str) -> None:
        each = gate(text)
        if not known or require is None:
            return
        require(each)
        parts = [tuple(part.name for part in columns) for columns in slicings]
        for term in each.terms:
            problem = _problem_of(term, baseline if key == "fail_if" else ..., by, parts)
            if problem:
                raise ArgumentError(problem)

    for key, texts in tables["gates"].items():
        for condition in texts if isinstance(texts, tuple) else ():
            errors.check("gates", key, condition, check, condition, key)


def _problem_of(
    term: Term, baseline: object, by: Sequence[str], slicings: Sequence[tuple[str, ...]]
) -> str:
    """Say why no night has a value of a gate; ... is any baseline."""
    compared, sliced = term.field in COMPARISON_FIELDS, term.slice != ALL
    shown = "[*]" if term.slice is None else repr(term.slice)
    columns = tuple(match[1] for match in LABEL_PART.finditer(term.slice or ""))
    reasons = {
        f"a nightly report does not keep {term.field}; use 'fastrank-eval compare' or "
        "'fastrank-eval evaluate' for it.": term.field in _NOT_STORED,
        f"{term.field} is a difference from a baseline, and there is none: name one in [models]. "
        "For differences from earlier nights, write the gate in fail_if_yesterday or "
        "fail_if_last_week.": compared and baseline is None,
        f"{term.field} is a difference from the baseline, and {baseline!r} is the baseline; name "
        "another model, or leave it out for every model.": compared and term.score == baseline,
        f"there are no slices, such as {shown}; add the column to [slices] by.": sliced and not by,
        f"no slicing of [slices] gives a slice {shown}; the slicings are "
        f"{', '.join(map(repr, by))}.": sliced and term.slice and columns not in slicings,
    }
    return first_that_holds(reasons)
