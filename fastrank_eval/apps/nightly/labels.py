"""Read the labels of a report that has several, with tables of their own."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from fastrank_eval._lib.errors import near
from fastrank_eval.apps.nightly.config_checks import ConfigErrors, Key, check_tables, read_table
from fastrank_eval.apps.nightly.night import LABEL_LIMITS

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
    for label in labels or ("",):
        for_label = ConfigErrors(errors.file, tables=set(errors.tables))
        if _table_name(label) not in errors.tables:
            check_tables(tables_of(tables, label, own.get(label, {})), for_label)
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
