"""Define the options of `evaluate`, and read them."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeAlias

from fastrank_eval._lib.arguments import (
    Reader,
    check_options,
    checked,
    column_name,
    column_names,
    integer,
    is_list_like,
    number,
    of_type,
    one_of,
    shown,
)
from fastrank_eval._lib.errors import ArgumentError, near
from fastrank_eval.engine import DEFAULT_MEASURES

if TYPE_CHECKING:
    from fastrank_eval.engine.conventions import Profile
    from fastrank_eval.engine.option_types import OptionFields
    from fastrank_eval.measures import Measure

    Measures: TypeAlias = str | Measure | Sequence[str | Measure]
else:
    OptionFields = object


class Option(NamedTuple):
    """An option of `evaluate`.

    Parameters
    ----------
    type : str
        Its annotation.
    help : str
        What it does, for the command line and the documentation.
    default : object
        ``...`` if it is required.
    reader : callable, optional
        Checks a value that is not the default. By default it must be of the type.
    choices : tuple of str
        The allowed words, if only a few are.
    convention : str
        The value if neither the caller nor a profile sets it.
    finish : callable, optional
        Checks and converts a value of the type, called with the name and the value.
    refused : str
        The functions that do not take it.
    spark : str
        What to do in Spark, which does not take it.
    section : str
        Its heading on the command line, which has no option without one.
    short : str
        Its letter there.
    metavar : str, optional
        What stands for its value there.
    example : str
        A value, for messages.
    table : str
        Its table in the configuration of the nightly report.
    """

    type: str
    help: str
    default: Any = None
    reader: Reader | None = None
    choices: tuple[str, ...] = ()
    convention: str = ""
    finish: Callable[[str, Any], Any] | None = None
    refused: str = "rows metrics classes"
    spark: str = ""
    section: str = ""
    short: str = ""
    metavar: str | None = None
    example: str = ""
    table: str = ""

    @property
    def form(self) -> Reader:
        """What checks a value."""
        return self.reader or (
            one_of(*self.choices) if self.choices else of_type(self.type, self.example)
        )

    def read(self, name: str, value: object) -> Any:
        """Return a value after a check."""
        value = checked(name, value, self.form)
        return value if self.finish is None else self.finish(name, value)


def _labels(name: str, value: Any) -> Any:
    return column_name(name, value) if isinstance(value, str) else column_names(name, value)


def _scores(name: str, value: Any) -> Any:
    names = column_names(name, value)
    return dict(value) if isinstance(value, Mapping) else names


def _once(name: str, value: Any) -> Any:
    """Read a list or an iterator; another value stays as it is."""
    return tuple(value) if is_list_like(value) and not isinstance(value, Mapping) else value


def _kept(name: str, value: Any) -> frozenset[str]:
    words = map(str.strip, value.split(",")) if isinstance(value, str) else value
    given = [] if words is None else list(words)
    kept = frozenset(checked(name, word, one_of(*KEPT)) for word in given if word != "")
    kept |= {"state"} if "clusters" in kept else set()
    return kept | {"values", "state"} if "groups" in kept else kept


# Commands read the table before they import NumPy, so these import what they call.
def _policies(_: str, value: Any) -> dict[str, str]:
    from fastrank_eval.engine.plan import undefined_policies

    return undefined_policies(value)


def _profile(_: str, value: str) -> Profile:
    from fastrank_eval.engine.conventions import profile_of

    return profile_of(value)


def _amount(_: str, value: Any) -> Any:
    from fastrank_eval._lib.threads import parse_memory

    parse_memory(value)
    return value


def _column(
    type: str,  # noqa: A002
    help: str,  # noqa: A002
    default: Any = None,
    finish: Callable[[str, Any], Any] = column_name,
    refused: str = "rows metrics trec classes",
    **more: Any,
) -> Option:
    more = {"section": "Columns", "metavar": "COLUMN", "table": "columns", **more}
    return Option(type, help, default, finish=finish, refused=refused, **more)


def _convention(type: str, help: str, default: Any = None, **more: Any) -> Option:  # noqa: A002
    more = {"refused": "rows classes", "section": "Conventions", "table": "evaluate", **more}
    return Option(type, help, default, **more)


def _choice(help: str, *choices: str, **more: Any) -> Option:  # noqa: A002
    return _convention("str | None", help, choices=choices, convention=choices[0], **more)


def _reading(type: str, help: str, default: Any = None, **more: Any) -> Option:  # noqa: A002
    return Option(type, help, default, **{"section": "Reading", **more})


#: What a result may keep.
KEPT = ("values", "groups", "scores", "state", "clusters")
#: How to keep values of groups, in messages: in Python and on the command line.
KEEP_VALUES, KEEP_GROUPS = "keep='values' (--per-group)", "keep='groups' (--keep-groups)"
KEEP_CLUSTERS = "keep='clusters' (--keep-clusters)"
CONFIDENCE = number(above=0, below=1, remedy="pass 0.95, for instance, or leave it out")
#: Every option by name, in the order of the parameters.
OPTIONS: dict[str, Option] = {
    "group": _column(
        "str | Sequence[str] | None",
        "Group key: query, user or session. Measures of all rows, such as AUC, need none. In CSV "
        "and TSV files it is text (007 is not 7). Repeat the option, or separate names by commas, "
        "for several columns.",
        finish=column_names,
        short="g",
        example="'user_id'",
    ),
    "cluster": _column(
        "str | Sequence[str] | None",
        "Independent unit, such as the user of queries; its groups lie in it whole. Errors and "
        "tests count clusters. By default each group is one. Repeat the option, or separate names "
        "by commas, for several columns.",
        finish=column_names,
        refused="rows metrics trec classes explain",
        example="'user_id'",
    ),
    "label": _column(
        "str | Sequence[str]",
        "Click (bool, 0/1), grade (integer) or gain (float).",
        ...,
        _labels,
        "metrics trec classes",
        short="l",
        example="'click'",
    ),
    "score": _column(
        "str | Sequence[str] | Mapping[str, str]",
        "Score of a model; higher is better. 'both = p_click * p_order' computes one from "
        "columns, numbers, + - * / and parentheses. For several models, repeat the option, or "
        "separate them by commas. In names, write \\, for a comma and \\= for an equals sign.",
        ...,
        _scores,
        "metrics trec classes",
        short="s",
        metavar="COLUMN|NAME=EXPRESSION",
        table="",
        example="'pctr'",
    ),
    "measures": Option(
        "str | Measure | Sequence[str | Measure] | Mapping[str, Any]",
        "Measures, separated by commas; 'fastrank-eval measures' lists them.",
        DEFAULT_MEASURES,
        reader=lambda value: value,  # the parser of measures raises clearer errors
        finish=_once,
        refused="rows metrics trec curve classes",
        section="Measures",
        short="m",
        metavar="LIST",
        table="evaluate",
    ),
    "weight": _column(
        "str | None",
        "Weight of each row: 0, or from 1e-30 to 1e30.",
        refused="metrics trec",
        short="w",
        example="'weight'",
    ),
    "item": _column(
        "str | None",
        "Item or document id, for --ties item; once in a group.",
        example="'item_id'",
    ),
    "subtopics": _column(
        "str | None",
        "Subtopics that each row covers, for measures of diversity: a list of numbers from 0 to "
        "63.",
        example="'subtopics'",
    ),
    "profile": _convention(
        "str | None",
        "Use the conventions of another tool: trec_eval_9, trec_eval_10, ir_measures, ranx, beir, "
        "mteb, sentence_transformers, llama_index, sklearn, gdeval, ndeval, catboost, xgboost, "
        "lightgbm, torchmetrics, din, recbole. Other options override them.",
        finish=_profile,
        metavar="TOOL",
        example="'sklearn'",
    ),
    "ties": _choice(
        "Rank of tied rows: mean over all orders (expected), order of the rows (input), "
        "descending item id (item), relevant rows first (best) or last (worst)",
        *("expected", "input", "item", "best", "worst"),
    ),
    "undefined": _convention(
        "str | Mapping[str, str] | None",
        "Value of a group, or of a class, whose measure is undefined: skip, zero, one or error; "
        "skip,nDCG=one sets single measures",
        finish=_policies,
        convention="skip",
        refused="rows",
        metavar="POLICY",
        example="'zero'",
    ),
    "groups": _choice(
        "Groups to evaluate: all, or those with a row of grade 1 or more", "all", "with_relevant"
    ),
    "unretrieved": _choice(
        "A null score is an error, a row that was not retrieved (below every other, never "
        "predicted positive), or its row leaves for every model",
        *("error", "allow", "drop"),
        refused="metrics classes",
    ),
    "unjudged": _choice(
        "A null label is an error, an unjudged row that takes a rank (a negative decision), or no "
        "row at all",
        *("error", "allow", "drop"),
        refused="metrics classes",
    ),
    "nan": _convention(
        "str",
        "NaN in scores, labels and weights is an error, or null and counted.",
        "error",
        choices=("error", "null"),
        refused="metrics classes",
    ),
    "null_groups": _convention(
        "str",
        "A null group key is an error, or its row is left out and counted.",
        "error",
        choices=("error", "drop"),
        refused="rows metrics classes",
    ),
    "weight_rows": _choice(
        "Refuse or ignore --weight in measures of rank positions", "refuse", "ignore"
    ),
    "score_type": _choice(
        "Compare scores as they are, or rounded to float32", "given", "float32", refused="classes"
    ),
    "sampling_rate": _convention(
        "float | None",
        "Share of the negatives that the models were trained on, above 0 and at most 1. Measures "
        "of probability correct p for this sampling; by default 1.",
        reader=number(above=0, most=1, remedy="pass the share of negatives that was kept"),
        refused="rows metrics classes",
        metavar="RATE",
    ),
    "confidence": Option(
        "float",
        "Confidence of the intervals of the values; clusters, by default groups, are independent.",
        0.95,
        CONFIDENCE,
        refused="rows metrics classes explain",
        section="Output",
        metavar="SHARE",
        table="evaluate",
    ),
    "by": Option(
        "str | SliceSpec | Sequence[str | SliceSpec] | None",
        "Evaluate each slice of the rows too: slot for each of its values, slot,country for each "
        "combination, age:18,25,35 between edges, age:quantile5 in bins of equally many rows, "
        "age:width10, ts:hour, day, week, month, hour_of_day or day_of_week, @rows:1,5,20,100 and "
        "@positives:0,1,5 by the number of rows of a group. Repeat the option for several.",
        finish=_once,
        refused="rows metrics curve classes explain",
        section="Slices",
        metavar="SLICES",
        example="'slot'",
    ),
    "min_groups": Option(
        "int",
        "Leave out slices of fewer groups, and print their number.",
        1,
        integer(1),
        refused="rows metrics curve classes explain",
        section="Slices",
    ),
    "order": _reading(
        "str",
        "Order of the rows: by group and descending score (sorted), by group (grouped), both "
        "verified while streaming; any (scattered), or detect it (auto).",
        "auto",
        choices=("auto", "sorted", "grouped", "scattered"),
        refused="rows metrics trec classes",
        spark="Spark brings rows into the order of their groups",
        table="evaluate",
    ),
    "threads": _reading(
        "int | None",
        "Threads; by default all cores. No number depends on it.",
        reader=integer(1),
        refused="",
        spark="Spark runs as many tasks at once as it has cores",
        table="evaluate",
    ),
    "keep": Option(
        "str | Sequence[str] | None",
        "What the result keeps: values of every group, groups (their keys and values in the state "
        "too), scores (every distinct score, for curves), state (sums to save and merge), clusters "
        "(in the state sums by a hash of the cluster, for errors of merged states).",
        finish=_kept,
        refused="rows metrics curve classes explain",
        example="keep='values'",
    ),
    "baseline": _column(
        "str | None",
        "Score column that all others are compared with. --save-state then keeps the sums that "
        "'merge --compare' needs, and AUC gets its clustered error. No value depends on it.",
        refused="rows metrics curve classes explain",
        section="Output",
        table="",
        example="'score_a'",
    ),
    "where": _reading(
        "str | pc.Expression | None",
        "Evaluate only the rows for which this is true: comparisons, in (...), between, is null, "
        "and, or, not. Put text in single quotes, and names with special characters in double "
        "quotes. Files and row groups that cannot match are not read.",
        refused="metrics",
        metavar="CONDITION",
        table="source",
        example="\"slot = 'side'\"",
    ),
    "limit": _reading(
        "int | None",
        "Evaluate only the first N rows that --where selects.",
        reader=integer(1, math.inf),
        refused="metrics",
        spark="call it with df.limit(...)",
    ),
    "memory": _reading(
        "str | int | None",
        "Memory that the run may use, such as 4GB; by default a share of the free memory. "
        "Scattered rows that do not fit are sorted in the folder of temporary files (TMPDIR; needs "
        "DuckDB). A run needs 0.5 to 1 GB in any case. No number depends on it.",
        finish=_amount,
        spark="set spark.executor.memory and spark.executor.pyspark.memory",
        metavar="SIZE",
        table="evaluate",
        example="'4GB'",
    ),
    "format": _reading(
        "str | None",
        "Format of SOURCES; by default from their suffix or first bytes.",
        choices=("parquet", "arrow", "csv", "tsv"),
        refused="metrics trec",
        spark="a DataFrame knows what it reads",
        table="source",
    ),
    "progress": Option(
        "Callable[[Progress], object] | None",
        "Called with the progress of the run.",
        refused="metrics",
        spark="Spark shows the progress of its jobs",
    ),
}
#: The conventions that neither the caller nor a profile sets.
DEFAULTS = {name: option.convention for name, option in OPTIONS.items() if option.convention}
#: `batch_rows`, the rows that a thread takes at a time, is no option: tests set it.
_DEFAULTS: dict[str, Any] = {
    "batch_rows": None,
    **{name: option.default for name, option in OPTIONS.items()},
}


@lru_cache(16)
def options_at(door: str) -> tuple[str, ...]:
    """List the options that a function takes."""
    return tuple(
        name
        for name, option in OPTIONS.items()
        if door not in option.refused.split() and not (door == "spark" and option.spark)
    )


def check_names(
    door: str,
    names: Collection[str],
    own: Callable[..., Any],
    caller: str = "",
    needs: Collection[str] = (),
) -> None:
    """Raise if a function does not take an option, or lacks one.

    Parameters
    ----------
    door : str
        As in `Option.refused`.
    names : collection of str
        The names of its keyword arguments.
    own : callable
        The function, which has other parameters too.
    caller : str
        Its name in messages, if that is not its own.
    needs : collection of str
        What it needs beside label and score.
    """
    caller = caller or own.__name__
    for name in names:
        if door == "spark" and name in OPTIONS and OPTIONS[name].spark:
            raise ArgumentError(f"{caller}() takes no {name} for Spark: {OPTIONS[name].spark}.")
    check_options(caller, names, options_at(door), own=own)
    for name in (*(name for name in ("label", "score") if name in options_at(door)), *needs):
        if name not in names:
            raise ArgumentError(f"{caller}() needs {name}=...")


@lru_cache(256)
def _read_text(name: str, text: str) -> Any:
    """Read a text that most calls have: the same columns, again and again."""
    return OPTIONS[name].read(name, text)


class Options(OptionFields):
    """A source and the options of its evaluation, checked.

    `replace` gives changed ones; equal ones have the same source and equal options.
    """

    def __init__(self, source: object, **given: Any) -> None:
        vars(self).update(_DEFAULTS, source=source, **given)

    @classmethod
    def read(cls, source: object, given: Mapping[str, Any]) -> Self:
        """Check options by name; others have their defaults.

        Raises
        ------
        ArgumentError
        """
        values = {}
        for name, value in given.items():
            option = OPTIONS[name]
            # A number that is the default may be another object.
            same = value is option.default or (type(value) is float and value == option.default)
            if same and value is not ...:
                continue
            # Measures may be registered after a text has named them.
            known = type(value) is str and name != "undefined"
            values[name] = (_read_text if known else option.read)(name, value)
        return cls(source, **values)

    def keeps(self, what: str) -> bool:
        """Return whether the caller asks to keep a thing, one of `KEPT`."""
        return self.keep is not None and what in self.keep

    def replace(self, **changes: Any) -> Self:
        """Return options with other values, which are not checked."""
        return type(self)(**{**vars(self), **changes})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Options) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]


def options_by_label(options: Options) -> dict[str, Options]:
    """Return the options of each label, for `run_together`.

    Raises
    ------
    ArgumentError
        As `measures_by_label` does.
    """
    measures = measures_by_label(options.label, options.measures)
    if isinstance(options.label, str):
        return {options.label: options}
    return {
        label: options.replace(label=label, measures=for_label)
        for label, for_label in measures.items()
    }


def measures_by_label(
    label: str | Sequence[str], measures: Measures | Mapping[str, Measures]
) -> dict[str, Measures]:
    """Return the measures of each label.

    Raises
    ------
    ArgumentError
        If labels are not distinct names, a label that is not in a list has a mapping of measures,
        or a mapping has not exactly the labels as its keys.
    """
    if isinstance(label, str):
        if isinstance(measures, Mapping):
            raise ArgumentError(
                f"measures: must be measures of one label, got {shown(measures)}; pass a list of "
                "labels, or the measures of the label alone."
            )
        return {label: measures}
    labels = column_names("label", label)
    if not isinstance(measures, Mapping):
        return dict.fromkeys(labels, measures)
    for name in measures:
        if name not in labels:
            raise ArgumentError(
                f"measures: must have the labels {', '.join(map(repr, labels))} as keys, got "
                f"{shown(name)}; add it to label, or leave it out.{near(str(name), labels)}"
            )
    missing = [name for name in labels if name not in measures]
    if missing:
        raise ArgumentError(
            f"measures: must have measures for every label, got none for "
            f"{', '.join(map(repr, missing))}; add them."
        )
    return {name: measures[name] for name in labels}
