"""Explain differences from another tool, convention by convention."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from itertools import product
from typing import Any, NamedTuple

import pyarrow as pa

from fastrank_eval._lib.arguments import typed
from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.errors import ArgumentError
from fastrank_eval.engine.conventions import Profile, profile_of, with_options
from fastrank_eval.engine.options import DEFAULTS, check_names
from fastrank_eval.engine.plan import undefined_policies, undefined_text
from fastrank_eval.engine.records import JSON_SCHEMAS, Meta, plain_value
from fastrank_eval.io.reader import open_source
from fastrank_eval.measures import Measure, parse_measures, registry
from fastrank_eval.results.evaluate import evaluate
from fastrank_eval.results.notes import rows_left_out_notes
from fastrank_eval.results.report import Heading, Lines, Name, Report, Table, amount, printable
from fastrank_eval.results.views import View


class ExplainedValue(NamedTuple):
    """A value by our defaults and by a profile.

    Parameters
    ----------
    score, measure : str
    name : str
        The name of the measure that was asked for, such as MAP for AP.
    ours, theirs : float or None
        None where undefined.
    """

    score: str
    measure: str
    name: str
    ours: float | None
    theirs: float | None


class Choice(NamedTuple):
    """A convention in which a tool differs from our default.

    Parameters
    ----------
    name : str
        ``"ties"``, ``"undefined nDCG"``, ``"AP over"``.
    ours, theirs : str
    moves : tuple of (float or None)
        The change of each value by this convention alone, in the order of the values; None if a
        value is undefined.
    """

    name: str
    ours: str
    theirs: str
    moves: tuple[float | None, ...]


@dataclass(frozen=True, repr=False)
class Explanation(View):
    """The result of :func:`explain`.

    Parameters
    ----------
    profile : Profile
    values : tuple of ExplainedValue
    choices : tuple of Choice
        Conventions that apply to the requested measures, even if they change no value.
    meta : Meta
        Rows and conventions of our values.
    """

    profile: Profile
    values: tuple[ExplainedValue, ...]
    choices: tuple[Choice, ...]
    meta: Meta = field(compare=False)

    @property
    def notes(self) -> list[str]:
        """Sentences on rows that options have left out."""
        return rows_left_out_notes(self.meta)

    def records(self) -> pa.Table:
        """Return one row for each score and measure.

        Returns
        -------
        pyarrow.Table
            score, measure, name, ours, theirs: the values by our defaults and by the profile.
        """
        texts = [pa.field(name, pa.string()) for name in ("score", "measure", "name")]
        values = [pa.field(name, pa.float64()) for name in ("ours", "theirs")]
        return pa.Table.from_pylist(self.document()["values"], pa.schema([*texts, *values]))

    def document(self) -> dict[str, Any]:
        """Return the plain Python values that JSON has."""
        return {
            "schema": JSON_SCHEMAS["explanation"],
            "profile": self.profile.name,
            "tool": self.profile.tool,
            "values": [value._asdict() for value in self.values],
            "choices": [{**c._asdict(), "moves": list(c.moves)} for c in self.choices],
            "differs": list(self.profile.differs),
            **({"notes": self.notes} if self.notes else {}),
        }

    def _title(self, choice: str) -> str:
        """Name a choice, its measure as it was asked for unless it has two names."""
        words = {(_word(v.measure), _word(v.name)) for v in self.values}
        for text, name in words:
            if [word for word, _ in words].count(text) == 1:
                choice = re.sub(rf"\b{text}\b", name, choice)
        return choice

    @typed
    def report(self, *, wide: bool = False) -> Report:
        """Build the report that people read; `wide` changes nothing.

        Returns
        -------
        Report
            Our values, the change by each choice, their values.
        """
        several = len({v.score for v in self.values}) > 1
        titles = [
            Name(printable(f"{v.score} {v.name}" if several else v.name)) for v in self.values
        ]
        choices = (
            [self._title(c.name), c.ours, c.theirs, *map(_change_text, c.moves)]
            for c in self.choices
        )
        rows = [
            ["our defaults", "", "", *(_value_text(v.ours) for v in self.values)],
            *choices,
            [f"all of {self.profile.name}", "", "", *(_value_text(v.theirs) for v in self.values)],
        ]
        table = Table(["choice", "ours", "theirs", *titles], rows, 3, fixed=3)
        notes = map(printable, self.notes)
        differs = (f"not reproduced: {difference}" for difference in self.profile.differs)
        ends = Lines([], "legend"), Lines([*notes, *differs], "notes")
        title = f"Values of {self.profile.name} explained"
        return Report(title, [Heading(self.profile.tool), table, *ends])


@typed
def explain(
    source: object,
    *,
    profile: str,
    group: str | Sequence[str] | None = None,
    label: str,
    score: str | Sequence[str] | Mapping[str, str],
    measures: str | Measure | Sequence[str | Measure],
    **options: Any,
) -> Explanation:
    """Measure how each convention of another tool changes the values.

    Every convention in which the profile differs from our defaults is evaluated alone. Together
    they may change a value by more or less than the sum of their changes.

    Parameters
    ----------
    source : object
        As in `evaluate`, but not a stream: it is read once for each convention.
    profile : str
        Name of the profile.
    group, label, score, measures
        As in `evaluate`.
    **options
        Other arguments of `evaluate`. Conventions among them apply to both sides.

    Returns
    -------
    Explanation

    Raises
    ------
    ArgumentError
        If the profile is unknown, or the source can be read only once.
    FastRankEvalError
        As `evaluate` does.

    Examples
    --------
    >>> import fastrank_eval as fe
    >>> log = {"user": [1, 1, 2, 2], "click": [0, 1, 0, 0], "pctr": [0.1, 0.4, 0.2, 0.3]}
    >>> print(fe.explain(log, profile="catboost", group="user", label="click", score="pctr",
    ...                  measures="GAUC"))
    CatBoost 1.2.10
    choice             ours         theirs        GAUC
    our defaults                              1.000000
    ties               expected     worst            0
    GAUC weight        impressions  uniform          0
    GAUC single_class  None         0        -0.500000
    all of catboost                           0.500000
    """
    check_names("explain", {"label", "score", *options}, explain)
    tool_profile = profile_of(profile)
    requested = parse_measures(measures)
    fixed = {name: options[name] for name in DEFAULTS if options.get(name) is not None}
    standard_input = isinstance(source, str) and source == "-"
    if standard_input or not open_source(source, format=options.get("format")).rereadable:
        raise ArgumentError(
            "explain reads its source once for each choice, and this one can be read only once; "
            "pass a table or a file."
        )
    roles = {"group": group, "label": label, "score": score, **options, "keep": ""}

    metas: list[Meta] = []

    def values(measured: Sequence[Measure], **choices: str) -> tuple[float | None, ...]:
        # Two requested measures may be the same one, which is evaluated once.
        result = evaluate(source, measures=list(measured), **{**roles, **choices, **fixed})
        metas.append(result.meta)
        return tuple(plain_value(result.value(m, name)) for name in result.scores for m in measured)

    shared = {
        name: tool_profile.choices[name]
        for name in ("unretrieved", "unjudged")
        if name in tool_profile.choices
    }
    ours = values(requested, **shared)
    choices = [
        Choice(name, before, after, _changes_of(ours, values(measured, **{**shared, **changed})))
        for name, before, after, measured, changed in _changes(tool_profile, requested, fixed)
    ]
    scores = [score] if isinstance(score, str) else list(score)
    theirs = values(tool_profile.apply(requested), **dict(tool_profile.choices))
    explained = tuple(
        ExplainedValue(name, str(m), m.display_name, our, their)
        for (name, m), our, their in zip(product(scores, requested), ours, theirs, strict=True)
    )
    return Explanation(tool_profile, explained, tuple(choices), metas[0])


def _changes(
    profile: Profile, requested: Sequence[Measure], fixed: dict[str, Any]
) -> Iterator[tuple[str, str, str, Sequence[Measure], dict[str, str]]]:
    """List each convention alone: name, both choices, measures, arguments."""
    for name in ("ties", "score_type", "groups"):
        after = profile.choices.get(name, DEFAULTS[name])
        if after != DEFAULTS[name] and name not in fixed:
            yield name, DEFAULTS[name], after, requested, {name: after}
    if "undefined" not in fixed:
        our_policies = undefined_policies(DEFAULTS["undefined"])
        their_policies = undefined_policies(profile.choices.get("undefined", DEFAULTS["undefined"]))
        for measure in dict.fromkeys(m.name for m in requested):
            policy = their_policies.get(measure, their_policies["*"])
            has_option = "single_class" in profile.options.get(measure, {})
            if policy != our_policies["*"] and not has_option:
                changed = undefined_text({**our_policies, measure: policy})
                yield (
                    f"undefined {measure}",
                    our_policies["*"],
                    policy,
                    requested,
                    {"undefined": changed},
                )
    for measure, options in profile.options.items():
        for option, value in options.items():
            measured = tuple(
                with_options(m, {option: value}) if m.name == measure else m for m in requested
            )
            if measured != tuple(requested):
                known = registry[measure].options
                default = next(param.default for param in known if param.name == option)
                yield f"{measure} {option}", str(default), str(value), measured, {}


def _changes_of(
    before: Sequence[float | None], after: Sequence[float | None]
) -> tuple[float | None, ...]:
    return tuple(
        None if a is None or b is None else b - a for a, b in zip(before, after, strict=True)
    )


def _word(text: str) -> str:
    """Return the name of a measure without options and cutoff."""
    return re.split("[(@]", text)[0]


def _value_text(value: float | None) -> str:
    return "undefined" if value is None else amount(value, 6)


def _change_text(move: float | None) -> str:
    if move is None:
        return "undefined"
    return amount(move, 6, sign=True) if move else "0"
