"""Read the configuration of a nightly report, with its labels."""

from __future__ import annotations

import datetime as dt
import json
import os
import re
import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from itertools import chain
from pathlib import Path
from typing import Any

from fastrank_eval import Measure
from fastrank_eval._lib.arguments import typed
from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.errors import ArgumentError, OutputError, near
from fastrank_eval.apps.nightly.config_checks import (
    TABLES,
    ConfigErrors,
    Key,
    check_tables,
    read_table,
    settings,
    with_headings,
)
from fastrank_eval.apps.nightly.night import LABEL_LIMITS, Settings
from fastrank_eval.apps.nightly.periods import date_fields, fill_date
from fastrank_eval.io.paths import would_read

#: The keys of ``[labels.x]``, and the general table that each replaces a key of.
KEY_TABLES = {
    "scores": "models",
    "baseline": "models",
    "measures": "evaluate",
    "by": "slices",
    "min_groups": "slices",
    "fail_if": "gates",
    "fail_if_yesterday": "gates",
    "fail_if_last_week": "gates",
    "min_distinct_scores": "gates",
    "alarm": "gates",
    "alarm_since": "gates",
    "provisional": "gates",
    "labels_complete_after": "source",
    **dict.fromkeys(LABEL_LIMITS, "quality"),
}

_Tables = dict[str, dict[str, Any]]


#: What a configuration of several labels has for each of them.
FOR_LABEL = (
    *("label", "scores", "baseline", "measures", "options"),
    *("gates", "labels_complete_after", "quality"),
)


def folder_name(label: str) -> str:
    """Return the name of the folder of a label's pages.

    Other characters than ASCII letters, digits, ``_`` and ``-`` are escaped, so that the name is
    one part of a path, and needs no quotes in an address.

    Examples
    --------
    >>> folder_name("order_7d"), folder_name("../a b")
    ('order_7d', '~2e~2e~2fa~20b')
    """
    return re.sub(
        r"[^A-Za-z0-9_-]",
        lambda match: "".join(f"~{byte:02x}" for byte in match[0].encode("utf-8", "replace")),
        label,
    )


def read_labels(
    given: object, labels: Sequence[str], keys: Mapping[str, Key], errors: ConfigErrors
) -> dict[str, dict[str, Any]]:
    """Return the keys of each table ``[labels.x]``.

    Parameters
    ----------
    given : object
        The table ``labels`` in TOML; None if it is missing.
    labels : sequence of str
        ``label`` of ``[columns]``.
    keys : mapping of str to Key
        Of each table.
    errors : ConfigErrors
        Errors are added.

    Returns
    -------
    dict of str to dict
        By label, the given keys only.
    """
    if given is not None and not isinstance(given, Mapping):
        errors.add("", "labels", given, "must be a table for each label; write [labels.NAME].")
        return {}
    tables = {}
    for name, table in (given or {}).items():
        if not isinstance(table, Mapping):
            example = _table_name(labels[0] if labels else "NAME")
            reason = f"is a key of one label; write it below [{example}]."
            errors.add("labels", name, table, reason)
        elif labels and name not in labels:
            shown = ", ".join(map(repr, labels))
            reason = f"is none of the labels {shown} of [columns].{near(name, labels)}"
            errors.add(_table_name(name), "", None, reason)
        else:
            values = read_table(_table_name(name), table, keys, errors)
            tables[name] = {key: values[key] for key in table if key in keys}
    return tables


def tables_of(tables: _Tables, label: str, own: Mapping[str, Any]) -> _Tables:
    """Return the tables of one label.

    Parameters
    ----------
    tables : dict of str to dict
        The general tables.
    label : str
    own : mapping of str to object
        The keys of ``[labels.x]``. If they have models without the general baseline, the label has
        no baseline, and no alarm but its own.
    """
    merged = {name: dict(values) for name, values in tables.items()}
    merged["columns"]["label"] = label
    for key, value in own.items():
        merged[KEY_TABLES[key]][key] = value
    models, baseline = merged["models"], tables["models"]["baseline"]
    general = tables["models"]["scores"]
    if isinstance(general, Mapping) and set(models["scores"]) <= general.keys():
        models["scores"] = {name: general[name] for name in models["scores"]}
    if "scores" in own and "baseline" not in own and baseline not in (None, *models["scores"]):
        models["baseline"] = None
        if "alarm" not in own:
            merged["gates"].update(alarm=None, alarm_since=None)
    return merged


def check_labels(
    tables: _Tables,
    labels: Sequence[str],
    own: Mapping[str, Mapping[str, Any]],
    errors: ConfigErrors,
) -> None:
    """Check the tables of every label against each other.

    Parameters
    ----------
    tables : dict of str to dict
        The general tables.
    labels : sequence of str
    own : mapping of str to mapping
        The result of `read_labels`.
    errors : ConfigErrors
        Errors of single keys; new errors are added, once if all labels have them.
    """
    errors_by_label: dict[str, list[tuple[str, str, object, str]]] = {}
    scores = [tables["models"]["scores"], *(each.get("scores") or () for each in own.values())]
    models = [*dict.fromkeys(chain.from_iterable(scores))]
    for label in labels or ("",):
        for_label = ConfigErrors(errors.file, tables=set(errors.tables))
        if _table_name(label) not in errors.tables:
            check_tables(tables_of(tables, label, own.get(label, {})), for_label, models, labels)
        errors_by_label[label] = for_label.records
    # Their tables were not checked, or not as a whole.
    with_mistakes = {
        label
        for label, records in errors_by_label.items()
        if _table_name(label) in errors.tables
        or any(_is_own(table, key, own.get(label, {})) for table, key, *_ in records)
    }
    for label, errors_for_label in errors_by_label.items():
        for error in errors_for_label:
            table, key, value, reason = error
            if _is_own(table, key, own.get(label, {})):
                table = _table_name(label)
            elif KEY_TABLES.get(key) == table and not all(
                error in others or (other in with_mistakes and key not in own.get(other, {}))
                for other, others in errors_by_label.items()
            ):
                reason += f" It is so for {label!r}: [{_table_name(label)}] can have its own {key}."
            errors.add(table, key, value, reason)
    folders = [label.lower() for label in labels]
    if tables["output"]["folder"] is not None and len(set(folders)) < len(folders):
        reason = "must differ in more than case, since each has a folder of pages; rename one."
        errors.add("columns", "label", list(labels), reason)


def _is_own(table: str, key: str, own: Mapping[str, Any]) -> bool:
    """Return whether a label replaces a key of a general table."""
    return KEY_TABLES.get(key) == table and key in own


def _table_name(label: str) -> str:
    """Return the name of the table of a label, as TOML writes it."""
    bare = re.fullmatch(r"[A-Za-z0-9_-]+", label)
    return f"labels.{label if bare else json.dumps(label, ensure_ascii=False)}"


#: Tables without effect if they are left out.
_OPTIONAL_TABLES = ("notify",)
#: The keys of the table of a label, ``[labels.x]``.
_LABEL_KEYS = {key: Key(TABLES[table][key].read) for key, table in KEY_TABLES.items()}


@dataclass(frozen=True)
class NightlyConfig:
    """A configuration file, checked.

    Parameters
    ----------
    file : Path
        The file. Relative paths in it begin at its folder.
    title : str
    paths : tuple of str
        Paths of the rows of a night, with ``{date}``; see `night.fill_date`.
    where : str or None
        A condition on rows, also with ``{date}``.
    scores : tuple of str, or dict of str to str
        Score columns of the models, or expressions by model, as `evaluate` takes them.
    baseline : str or None
        The model that the others are compared with.
    measures : tuple of str
    options : dict of str to object
        The other arguments of `evaluate` in the file, by name.
    gates, quality, drift : Settings
        The tables of these names.
    history : Path
    report : str
        Name of the report in history; by default the name of the file without its suffix.
    states : str
        States kept to merge nights, as in ``[history]``.
    folder : Path or None
        Folder of the pages; None for no pages.
    nights : int
        Number of nights on a page.
    groups : int
        The most groups written for a failed gate; 0 for no file.
    notify : Settings or None
        The table, if there is one.
    labels_complete_after : datetime.timedelta or None
        The time from the end of a night until its labels are complete; None if they are at once.
    label : str
        The label, if the report has several; empty if it has one.
    labels : tuple of str
        All labels of the report, if it has several.
    alarms : int
        Number of labels with an alarm.
    parts : tuple of NightlyConfig
        The configurations of several labels; see `for_labels`.
    """

    file: Path
    title: str
    paths: tuple[str, ...]
    where: str | None
    scores: tuple[str, ...] | dict[str, str]
    baseline: str | None
    measures: tuple[str | Measure, ...]
    options: dict[str, Any]
    gates: Settings
    quality: Settings
    drift: Settings
    history: Path
    report: str
    folder: Path | None
    nights: int = 30
    states: str = "slices"
    groups: int = 20
    notify: Settings | None = None
    labels_complete_after: dt.timedelta | None = None
    label: str = ""
    labels: tuple[str, ...] = ()
    alarms: int = 1
    parts: tuple[NightlyConfig, ...] = ()

    def for_labels(self) -> tuple[NightlyConfig, ...]:
        """Return a configuration for each label, with its own folder of pages."""
        if not self.parts:
            return (self,)
        return tuple(
            replace(
                self,
                **{name: getattr(part, name) for name in FOR_LABEL},
                folder=None if self.folder is None else self.folder / folder_name(part.label),
                parts=(),
            )
            for part in self.parts
        )

    def select(self, labels: Collection[str]) -> NightlyConfig:
        """Return the configuration of some labels, as `for_labels` names them."""
        return replace(self, parts=tuple(part for part in self.parts if part.label in labels))

    @property
    def models(self) -> tuple[str, ...]:
        """The names of the models."""
        return tuple(self.scores)

    def scores_of(self, models: Sequence[str]) -> tuple[str, ...] | dict[str, str]:
        """Return the scores of some models, as `evaluate` takes them."""
        if isinstance(self.scores, dict):
            return {model: self.scores[model] for model in models}
        return tuple(models)

    def sources(self, date: dt.date) -> list[str]:
        """Return the paths of a night."""
        return [_resolve(self.file, fill_date(path, date)) for path in self.paths]

    def check_outside(
        self, path: str | os.PathLike[str], argument: str, shown: str, remedy: str
    ) -> None:
        """Refuse a file that a source would read.

        A source reads its folder or pattern. For ``logs/day={date}`` that includes ``logs``, which
        a reader of all nights reads. The folder of the configuration is allowed.

        Parameters
        ----------
        path : path
        argument, shown : str
            The option that names the file, and what it names.
        remedy : str
            What a later run would do, and what to do.

        Raises
        ------
        OutputError
        """
        target = Path(os.path.realpath(path))
        for source in self.paths:
            pattern = source
            for date in date_fields(source):
                pattern = pattern.replace(date, "*")
            pattern = fill_date(pattern, dt.date.min)
            paths = [pattern, *self._partition_root(pattern)]
            # A format makes a source read files of any suffix.
            if any(would_read(_resolve(self.file, each), target, "parquet") for each in paths):
                raise OutputError(
                    f"{argument}: must lie outside the source {source!r}, got {shown!r}; a later "
                    f"run would {remedy}."
                )

    def _partition_root(self, path: str) -> list[str]:
        """Return the folder above the first ``key=value`` with a wildcard."""
        parts = path.rstrip("/").split("/")
        # A last part with a suffix is a file.
        folders = parts[:-1] if Path(parts[-1]).suffix else parts
        indices = (index for index, part in enumerate(folders) if re.match(r"[^*?\[]+=.*\*", part))
        first = next(indices, None)
        if first is None:
            return []
        root_path = "/".join(parts[:first]) or ("/" if first else ".")
        own = os.path.realpath(self.file.parent)
        return [] if os.path.realpath(_resolve(self.file, root_path)) == own else [root_path]

    def condition(self, date: dt.date) -> str | None:
        """Return the condition on the rows of a night."""
        return None if self.where is None else fill_date(self.where, date)


def example() -> str:
    """Return a configuration with every key explained."""
    return files("fastrank_eval.apps.nightly").joinpath("example.toml").read_text("utf-8")


@typed
def read_config(path: str | os.PathLike[str]) -> NightlyConfig:
    """Read a configuration and report all errors in it at once.

    Parameters
    ----------
    path : path
        A TOML file; ``fastrank-eval nightly --init`` writes one with every key explained.

    Returns
    -------
    NightlyConfig

    Raises
    ------
    ArgumentError
        One line per error: file, table, key, value and remedy.
    """
    shown = os.fspath(path)
    try:
        content = tomllib.loads(Path(path).read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise ArgumentError(
            f"{shown}: there is no such file; 'fastrank-eval nightly --init {shown}' writes an "
            "example."
        ) from None
    except OSError as error:
        raise ArgumentError(f"{shown}: cannot be read: {error.strerror or error}.") from None
    except UnicodeDecodeError as error:
        raise ArgumentError(f"{shown}: is not UTF-8 text: {error.reason}.") from None
    except tomllib.TOMLDecodeError as error:
        raise ArgumentError(f"{shown}: is not TOML: {error}.") from None
    except (ValueError, RecursionError) as error:
        reason = "too many brackets" if isinstance(error, RecursionError) else error
        raise ArgumentError(f"{shown}: is TOML that cannot be read: {reason}.") from None
    errors = ConfigErrors(shown)
    table_names = [name for name in TABLES if name]
    given_labels = content.pop("labels", None)
    for name, value in content.items():
        if isinstance(value, dict) and name not in table_names:
            known = [*table_names, "labels"]
            reason = f"there is no such table.{near(name, known)} Tables are {', '.join(known)}."
            errors.add(name, "", None, reason)
    tables = {
        name: read_table(name, content.get(name), TABLES[name], errors)
        for name in table_names
        if name in content or name not in _OPTIONAL_TABLES
    }
    top = {k: v for k, v in content.items() if k not in table_names and not isinstance(v, dict)}
    tables[""] = read_table("", top, TABLES[""], errors)
    limits = content.get("quality")
    if isinstance(limits, dict) and not tables["quality"]["ties"]:
        for key, off in (("max_tie_rate", None), ("max_tie_rise", 0)):
            if limits.get(key, off) != off:
                reason = "limits tie rates, which ties = false leaves out; leave one of them out."
                errors.add("quality", key, limits[key], reason)
    labels = tables["columns"]["label"]
    own = read_labels(given_labels, labels, _LABEL_KEYS, errors)
    check_labels(tables, labels, own, errors)
    if errors.errors:
        refusal = ArgumentError("\n".join(errors.errors))
        refusal.lines = errors.errors
        raise refusal
    configs = [_config(Path(path), tables_of(tables, each, own.get(each, {}))) for each in labels]
    if len(configs) == 1:
        return configs[0]
    parts = tuple(replace(each, label=each.options["label"]) for each in configs)
    alarms = sum(part.gates.alarm is not None for part in parts)
    return replace(configs[0], labels=labels, parts=parts, alarms=max(1, alarms))


def _config(file: Path, tables: dict[str, dict[str, Any]]) -> NightlyConfig:
    options_of_evaluate = {k: v for k, v in tables["evaluate"].items() if k != "measures"}
    options = {**tables["columns"], **tables["slices"], **options_of_evaluate}
    options["format"] = tables["source"]["format"]
    if not options["by"]:
        del options["by"], options["min_groups"]
    folder = tables["output"]["folder"]
    return NightlyConfig(
        file=file,
        title=tables[""]["title"],
        paths=tables["source"]["path"],
        where=tables["source"]["where"],
        scores=tables["models"]["scores"],
        baseline=tables["models"]["baseline"],
        measures=tuple(with_headings(tables["evaluate"]["measures"])),
        options={name: value for name, value in options.items() if value is not None},
        gates=settings("gates", **tables["gates"]),
        quality=settings("quality", **tables["quality"]),
        history=Path(_resolve(file, tables["history"]["file"])),
        report=tables["history"]["report"] or file.stem,
        states=tables["history"]["states"],
        folder=None if folder is None else Path(_resolve(file, folder)),
        nights=tables["output"]["nights"],
        groups=tables["output"]["groups"],
        notify=settings("notify", **tables["notify"]) if "notify" in tables else None,
        drift=settings("drift", **tables["drift"]),
        labels_complete_after=tables["source"]["labels_complete_after"],
    )


def _resolve(file: Path, path: str) -> str:
    """Resolve a path from the folder of the configuration; keep a URI."""
    return path if "://" in path else str(file.parent / path)
