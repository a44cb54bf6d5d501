"""Check the keys and tables of a configuration."""

from __future__ import annotations

import datetime as dt
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from functools import partial
from types import MappingProxyType
from typing import Any

from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.errors import ArgumentError, FastRankEvalError, near
from fastrank_eval.apps.nightly.display_names import with_standard_errors
from fastrank_eval.apps.nightly.periods import (
    check_date_fields,
    date_fields,
    depends_on_date,
    fill_date,
    parse_date,
    parse_duration,
)
from fastrank_eval.engine.conventions import profile_of, requested_names, used_measures
from fastrank_eval.engine.options import DEFAULTS, OPTIONS
from fastrank_eval.io.computed import parse as parse_score
from fastrank_eval.measures import Measure
from fastrank_eval.measures.names import COMPARISON_FIELDS
from fastrank_eval.measures.parser import requested_measures
from fastrank_eval.results.gates import ALL, Gate, Term, gate
from fastrank_eval.results.report import list_text
from fastrank_eval.slicing.spec import requested_slicing

_MAX_SHOWN = 80
#: Tables and keys whose values no message shows: by mistake one may be a secret.
_SECRETS = {"notify", "url", "url_env"}


@dataclass(frozen=True)
class Key:
    """A key of a table.

    Parameters
    ----------
    read : callable
        Converts a value of TOML, or raises ValueError with the required form.
    default : object
        The value if the key is left out.
    required : bool
        Whether the key must be present.
    """

    read: Callable[[Any], Any]
    default: Any = None
    required: bool = False


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


def read_table(
    name: str,
    given: Any,
    keys: Mapping[str, Key],
    errors: ConfigErrors,
    tables: Mapping[str, Mapping[str, Key]] = MappingProxyType({}),
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
    tables : mapping of str to mapping of str to Key, optional
        The keys of all tables, to name the table of a key that is in a wrong one.
    """
    if given is None:
        given = {}
    if not isinstance(given, Mapping):
        errors.add("", name, given, f"must be a table; write [{name}] on a line.")
        return {key: key_spec.default for key, key_spec in keys.items()}
    for key, value in given.items():
        if key not in keys:
            homes = [f"[{table}]" for table in tables if table and key in tables[table]]
            if homes:
                reason = f"is a key of {' and '.join(homes)}; write it there."
            else:
                where = f"[{name}]" if name else "The top of the file"
                reason = f"there is no such key.{near(key, keys)} {where} takes {', '.join(keys)}."
            errors.add(name, key, value, reason)
    values = {}
    for key, key_spec in keys.items():
        values[key] = key_spec.default
        if key not in given:
            if key_spec.required:
                errors.add(name, "", None, f"the key {key!r} is missing; add it.")
            continue
        value = errors.check(name, key, given[key], key_spec.read)
        if value is not None:
            values[key] = value
    return values


def _has_content(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip()) and "\0" not in value


def names(value: Any) -> tuple[str, ...]:
    """Accept a string, or a list of at least one string without repeats."""
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, list) or not values:
        raise ValueError("a string or a list of strings, at least one")
    for each in values:
        if not _has_content(each):
            raise ValueError(f"a list of non-empty strings, got {each!r}")
        if values.count(each) > 1:
            raise ValueError(f"a list of distinct strings, and {each!r} occurs twice")
    return tuple(values)


def optional_names(value: Any) -> tuple[str, ...]:
    """Accept the values of `names`, or an empty list."""
    return () if value == [] else names(value)


def scores(value: Any) -> tuple[str, ...] | dict[str, str]:
    """Accept the values of `names`, or a table of expressions by name."""
    if not isinstance(value, Mapping):
        return names(value)
    if not value:
        raise ValueError("a list of columns, or a table with a line NAME = 'EXPRESSION'")
    for name, expression in value.items():
        if not (_has_content(name) and _has_content(expression)):
            raise ValueError(f"a table of non-empty strings, got {expression!r} for {name!r}")
    return dict(value)


def _reader(
    form: str, accepts: Callable[[Any], bool], convert: Callable[[Any], Any] = lambda value: value
) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        if not accepts(value):
            raise ValueError(form)
        return convert(value)

    return read


def _is_number(value: Any, highest: float) -> bool:
    numeric = isinstance(value, int | float) and not isinstance(value, bool)
    return numeric and 0 <= value <= highest


def day(value: Any) -> dt.date:
    """Accept a date, as TOML has it or as text."""
    try:
        if type(value) is dt.date:
            return parse_date(value.isoformat())
        return parse_date(value)
    except (ArgumentError, TypeError):
        raise ValueError("a date, such as 2026-11-19") from None


def duration(value: Any) -> dt.timedelta:
    """Accept a number of days or hours as text."""
    try:
        return parse_duration(value)
    except (ArgumentError, TypeError):
        raise ValueError(
            'a whole number and d (days) or h (hours), such as "3d" or "36h", at most "366d"'
        ) from None


text = _reader("a non-empty string", _has_content)


def options_of(table: str) -> dict[str, Key]:
    """Make the keys of the options of `evaluate` in a table."""
    return {
        name: Key(partial(_read_option, name), option.default if name == "confidence" else None)
        for name, option in OPTIONS.items()
        if option.table == table
    }


def _read_option(name: str, value: Any) -> Any:
    """Check an option; the configuration holds it as it is written."""
    one = OPTIONS[name]
    value = (one.form if one.reader or one.choices else text)(value)
    if one.finish is not None:
        one.finish(name, value)
    return value


variable = _reader(
    'the name of an environment variable, such as "SLACK_WEBHOOK", and not the address itself',
    lambda value: _has_content(value) and value.isascii() and value.isidentifier(),
)
boolean = _reader("true or false", lambda value: isinstance(value, bool))
share = _reader("a number from 0 to 1", lambda value: _is_number(value, 1), float)
positive = _reader(
    "a number above 0", lambda value: _is_number(value, sys.float_info.max) and value > 0, float
)


def _shown(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= _MAX_SHOWN else f"{shown[: _MAX_SHOWN - 3]}..."


#: Fields of gates that no night stores.
_NOT_STORED = {"weight", "wins", "losses", "ties", "mdd"}
_QUOTED = r'"(?:[^"]|"")*"'
#: A part of the label of a slice: name, operator, value or bin.
_LABEL_PART = re.compile(rf'((?:{_QUOTED}|[^"<>=,])+)(?:<|>=|=)(?:{_QUOTED}|\[[^)]*\)|[^,"])*')


def check_gate(each: Gate, key: str, baseline: str | None, by: Sequence[str]) -> None:
    """Refuse a gate on values that no night of a report has.

    Parameters
    ----------
    each : Gate
    key : str
        The key of ``[gates]``.
    baseline : str or None
    by : sequence of str
        Valid slicings.

    Raises
    ------
    ArgumentError
        The gate needs a missing baseline, a field that a nightly report does not keep, or a slice
        of no slicing.
    """
    slicings = (
        [tuple(part.name for part in spec.columns) for spec in requested_slicing(by)] if by else []
    )
    for term in each.terms:
        if term.field in _NOT_STORED:
            raise ArgumentError(
                f"a nightly report does not keep {term.field}; use 'fastrank-eval compare' or "
                "'fastrank-eval evaluate' for it."
            )
        if key == "fail_if" and term.field in COMPARISON_FIELDS:
            _check_compared(term, baseline)
        if term.slice != ALL:
            _check_slice(term, slicings, by)


def _check_compared(term: Term, baseline: str | None) -> None:
    if baseline is None:
        raise ArgumentError(
            f"{term.field} is a difference from a baseline, and there is none: name one in "
            "[models]. For differences from earlier nights, write the gate in fail_if_yesterday or "
            "fail_if_last_week."
        )
    if term.score == baseline:
        raise ArgumentError(
            f"{term.field} is a difference from the baseline, and {baseline!r} is the baseline; "
            "name another model, or leave it out for every model."
        )


def _check_slice(term: Term, slicings: Sequence[tuple[str, ...]], by: Sequence[str]) -> None:
    if not by:
        shown = "[*]" if term.slice is None else repr(term.slice)
        raise ArgumentError(f"there are no slices, such as {shown}; add the column to [slices] by.")
    if term.slice is None:
        return
    columns = tuple(match[1] for match in _LABEL_PART.finditer(term.slice))
    if columns not in slicings:
        raise ArgumentError(
            f"no slicing of [slices] gives a slice {term.slice!r}; the slicings are "
            f"{', '.join(map(repr, by))}."
        )


def check_tables(tables: dict[str, dict[str, Any]], errors: ConfigErrors) -> None:
    """Check the tables without errors against each other.

    Parameters
    ----------
    tables : dict of str to dict
        The values of each table by key.
    errors : ConfigErrors
        Errors of single keys; new errors are added.
    """
    failed_tables, models = frozenset(errors.tables), tuple(tables["models"]["scores"])
    if "source" not in failed_tables:
        _check_source(tables["source"], errors)
    if "models" not in failed_tables:
        _check_models(tables["models"], errors)
    if not failed_tables & {"models", "columns"}:
        _check_columns(tables["columns"], models, errors)
    if not failed_tables & {"models", "drift"}:
        _check_drift(tables["drift"]["columns"], models, errors)
    if not failed_tables & {"evaluate", "columns"}:
        _check_options(tables, errors)
    if not failed_tables & {"models", "gates"}:
        _check_alarm(tables["gates"], tables["models"]["baseline"], errors)
    if not failed_tables & {"source", "gates"}:
        _check_provisional(tables["gates"], tables["source"], errors)
    require = None
    if "evaluate" not in failed_tables:
        columns = None if "columns" in failed_tables else tables["columns"]
        require = _check_measures(tables["evaluate"], columns, models, errors)
        if require is not None and "gates" not in failed_tables:
            _check_watched(tables["gates"], _used_measures(tables["evaluate"]), errors)
    _check_gates(tables, failed_tables, require if "models" not in failed_tables else None, errors)


def _check_alarm(gates: dict[str, Any], baseline: str | None, errors: ConfigErrors) -> None:
    if gates["alarm"] is not None and baseline is None:
        reason = "watches differences from the baseline, and there is none; name one in [models]."
        errors.add("gates", "alarm", gates["alarm"], reason)
    if gates["alarm"] is None and gates["alarm_since"] is not None:
        reason = 'is the first night of an alarm, and there is none; write alarm = "sequence" too.'
        errors.add("gates", "alarm_since", str(gates["alarm_since"]), reason)


def _check_watched(
    gates: dict[str, Any], measures: Sequence[Measure], errors: ConfigErrors
) -> None:
    if gates["alarm"] is not None and not any(m.has_error for m in measures):
        names = list_text(m.display_name for m in measures)
        reason = f"must have a measure with a standard error, got {names}; add one, such as GAUC."
        errors.add("gates", "alarm", gates["alarm"], reason)


def _check_provisional(gates: dict[str, Any], source: dict[str, Any], errors: ConfigErrors) -> None:
    if gates["provisional"] is not None and source["labels_complete_after"] is None:
        reason = "is for nights whose labels are not complete, and every night counts as complete; "
        reason += "write labels_complete_after in [source] too."
        errors.add("gates", "provisional", gates["provisional"], reason)


def _check_gates(
    tables: dict[str, dict[str, Any]],
    failed_tables: frozenset[str],
    require: Callable[[Gate], None] | None,
    errors: ConfigErrors,
) -> None:
    by, baseline = tables["slices"]["by"], tables["models"]["baseline"]
    slicings = [errors.check("slices", "by", spec, requested_slicing) for spec in by]
    check_slices = None not in slicings and "slices" not in failed_tables
    for key, texts in tables["gates"].items():
        for condition in texts if isinstance(texts, tuple) else ():
            parsed = errors.check("gates", key, condition, gate)
            if parsed is None or require is None or not check_slices:
                continue
            errors_before = len(errors.errors)
            errors.check("gates", key, condition, require, parsed)
            if len(errors.errors) == errors_before:
                errors.check("gates", key, condition, check_gate, parsed, key, baseline, by)


def _check_source(source: dict[str, Any], errors: ConfigErrors) -> None:
    texts = [("path", path) for path in source["path"]]
    texts += [("where", source["where"])] if source["where"] else []
    errors_before = len(errors.errors)
    for key, value in texts:
        errors.check("source", key, value, check_date_fields)
    if len(errors.errors) > errors_before:
        return
    if source["where"]:
        from fastrank_eval.io.filters import condition_of

        sample = fill_date(source["where"], dt.date(2026, 11, 19))
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


def _check_models(models: dict[str, Any], errors: ConfigErrors) -> None:
    scores, baseline = models["scores"], models["baseline"]
    for name, text in scores.items() if isinstance(scores, dict) else ():
        errors.check("models", "scores", {name: text}, parse_score, name, text)
    if baseline is not None and baseline not in scores:
        reason = f"is none of the models {', '.join(map(repr, scores))}.{near(baseline, scores)}"
        errors.add("models", "baseline", baseline, reason)
    elif baseline is not None and len(scores) < 2:
        reason = "there is no other model to compare with it; add one to scores, or leave it out."
        errors.add("models", "baseline", baseline, reason)


def _check_columns(columns: dict[str, Any], scores: tuple[str, ...], errors: ConfigErrors) -> None:
    for part in ("label", "weight"):
        if columns[part] in scores:
            reason = "is a model too; name another column."
            errors.add("columns", part, columns[part], reason)


def _check_drift(columns: tuple[str, ...], scores: tuple[str, ...], errors: ConfigErrors) -> None:
    for name in columns:
        if name in scores:
            reason = f"has the model {name!r}, whose scores are compared anyway; leave it out."
            errors.add("drift", "columns", list(columns), reason)


def _check_options(tables: dict[str, dict[str, Any]], errors: ConfigErrors) -> None:
    options = tables["evaluate"]
    if options["ties"] == "item" and tables["columns"]["item"] is None:
        reason = "needs the column of item ids; add item to [columns]."
        errors.add("evaluate", "ties", "item", reason)


def _check_measures(
    options: dict[str, Any],
    columns: dict[str, Any] | None,
    scores: tuple[str, ...],
    errors: ConfigErrors,
) -> Callable[[Gate], None] | None:
    """Check measures; return a check of gates, or None after an error."""
    errors_before = len(errors.errors)
    for each in options["measures"]:
        errors.check("evaluate", "measures", each, requested_measures)
    if len(errors.errors) > errors_before:
        return None
    requested = requested_measures(list(options["measures"]))
    profile = None if options["profile"] is None else profile_of(options["profile"])
    measured = used_measures(requested, profile, options["sampling_rate"])
    choices = DEFAULTS if profile is None else {**DEFAULTS, **profile.choices}
    conventions = {name: options[name] or choices[name] for name in ("ties", "weight_rows")}
    refuses_weights = columns is not None and columns["weight"] is not None
    refuses_weights = refuses_weights and conventions["weight_rows"] == "refuse"
    for m in measured:
        refusal = m.refuses(conventions["ties"])
        if refusal:
            errors.add("evaluate", "measures", m.display_name, f"{refusal}.")
        if refuses_weights and not m.uses_row_weights:
            reason = "is a measure of rank positions, which cannot use weights of rows; leave it "
            reason += "out, leave weight out of [columns], or write weight_rows = 'ignore'."
            errors.add("evaluate", "measures", m.display_name, reason)
        if columns is not None and m.needs_subtopics and columns["subtopics"] is None:
            reason = "needs the column of subtopics; add subtopics to [columns]."
            errors.add("evaluate", "measures", m.display_name, reason)
    if len(errors.errors) > errors_before:
        return None
    names = {str(m): m.display_name for m in measured}
    renamed = requested_names(requested, measured)
    with_errors = [
        str(m) for m, used in zip(measured, _used_measures(options), strict=True) if used.has_error
    ]

    def require(each: Gate) -> None:
        keys = "measures", "scores"
        each.require(names, scores, renamed, options=keys, with_errors=with_errors)

    return require


def _used_measures(options: dict[str, Any]) -> tuple[Measure, ...]:
    """Return the measures that a night computes."""
    requested = with_standard_errors(requested_measures(list(options["measures"])))
    profile = None if options["profile"] is None else profile_of(options["profile"])
    return used_measures(requested, profile, options["sampling_rate"])
