"""The configuration of a nightly report."""

from __future__ import annotations

import datetime as dt
import os
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastrank_eval._lib.arguments import CHOICES, typed
from fastrank_eval._lib.errors import ArgumentError, near
from fastrank_eval.apps.nightly.config_checks import (
    ConfigErrors,
    Key,
    TableReader,
    check_together,
    choice,
    count,
    names,
    names_if_any,
    number,
    share,
    text,
)
from fastrank_eval.apps.nightly.dates import MOST_NIGHTS, dated, dates_in
from fastrank_eval.apps.nightly.night import MOST_SCORES, STATES, GateTexts, QualityLimits
from fastrank_eval.groups.ties import TIES
from fastrank_eval.io.paths import would_read

__all__ = ["EXAMPLE", "TABLES", "NightlyConfig", "read_config"]


EXAMPLE = """\
# What `fastrank-eval nightly` reads, evaluates, compares, keeps and writes.
# Relative paths begin at the folder of this file. Keys with a '#' before them are optional and
# show an example, or the default.

title = "Click prediction"

[source]
# {date} is the night: 2026-11-19. {date:%Y%m%d} is 20261119. A path, a folder, a glob, or a list.
path = "logs/day={date}"
# format = "parquet"                  # parquet, arrow, csv, tsv; by default the files tell
# where = "slot <> 'footer'"          # only these rows; {date} may stand here too

[columns]
group = "user_id"                     # or a list: ["user_id", "session"]
label = "click"
# weight = "weight"                   # weight of each row
# item = "item_id"                    # for ties = "item"
# subtopics = "topics"                # for measures of diversity

[models]
scores = ["score_a", "score_b"]       # one column a model
baseline = "score_a"                  # the others are compared with it

[evaluate]
measures = ["GAUC", "AUC", "nDCG@10", "LogLoss", "PCOC"]    # AUC(se=None): faster, no interval
# confidence = 0.95
# profile = "catboost"                # the conventions of another tool
# ties = "expected"                   # expected, input, item, best, worst
# undefined = "skip"                  # skip, zero, one, error; "skip,nDCG=one"
# groups = "all"                      # all, with_relevant
# unretrieved = "error"               # null scores: error, allow
# unjudged = "error"                  # null labels: error, allow, drop
# weight_rows = "ignore"              # by default refuse: measures that weights mean nothing for
# score_type = "given"                # given, float32
# sampling_rate = 0.1                 # share of the negatives that models were trained on
# order = "auto"                      # auto, sorted, grouped, scattered
# threads = 4
# memory = "4GB"
# spill_dir = "."

[slices]
by = ["slot", "country", "@rows:1,5,20,100"]
min_groups = 30                       # slices of fewer groups are left out

[gates]
# Conditions that must not hold (exit code 3): on the night and its differences from the baseline,
fail_if = ["GAUC ci_high < 0.55", "GAUC delta_ci_high < -0.01"]
# on what each model differs from itself on the night before, and a week before.
# fail_if_yesterday = ["GAUC delta_ci_high < -0.02"]
# fail_if_last_week = ["GAUC delta_ci_high < -0.02"]
# and on models that give all rows, or those of a slice, fewer distinct scores; 0 allows any. By
# default one score fails the night, and 2 to 9 for 100 rows or more make it "changed".
# min_distinct_scores = 2

[quality]
# Limits of the rows themselves (exit code 4).
min_rows = 1000
min_groups = 30
max_single_class_share = 0.95
# min_coverage = 0.05                 # share of the groups that GAUC uses
# max_tie_rate = 0.2                  # rows that share their score with another of their group
# max_null_share = 0.01               # nulls of any column
# In scaled median absolute deviations of the last 14 nights with rows (of 28 days):
max_volume_drift = 10.0
max_ctr_drift = 10.0
# ties = true                         # false: leave the tie rate out, which takes time

[history]
file = "history.db"                   # SQLite; docs/HISTORY.md tells its tables
# report = "nightly"                  # whose nights it keeps; by default the name of this file
# states = "slices"                   # for weeks: everything, slices, rows, groups

[output]
# folder = "report"                   # a page for each night and index.html; needs [report]
# nights = 30                         # nights that a page shows
"""

_FORMATS = ("parquet", "arrow", "csv", "tsv")


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("true or false")
    return value


#: Every table with its keys; `""` are the keys before the first table.
TABLES: dict[str, dict[str, Key]] = {
    "": {"title": Key(text, "Nightly report")},
    "source": {
        "path": Key(names, (), required=True),
        "format": Key(choice(*_FORMATS)),
        "where": Key(text),
    },
    "columns": {
        "group": Key(names, (), required=True),
        "label": Key(text, "", required=True),
        "weight": Key(text),
        "item": Key(text),
        "subtopics": Key(text),
    },
    "models": {"scores": Key(names, (), required=True), "baseline": Key(text)},
    "evaluate": {
        "measures": Key(names, ("GAUC", "AUC", "nDCG@10", "LogLoss", "PCOC")),
        "confidence": Key(number(0), 0.95),
        "profile": Key(text),
        "ties": Key(choice(*TIES)),
        "undefined": Key(text),
        "groups": Key(choice(*CHOICES["groups"])),
        "unretrieved": Key(choice(*CHOICES["unretrieved"])),
        "unjudged": Key(choice(*CHOICES["unjudged"])),
        "weight_rows": Key(choice(*CHOICES["weight_rows"])),
        "score_type": Key(choice(*CHOICES["score_type"])),
        "sampling_rate": Key(number(0)),
        "order": Key(choice(*CHOICES["order"])),
        "threads": Key(count(1)),
        "memory": Key(text),
        "spill_dir": Key(text),
    },
    "slices": {"by": Key(names_if_any, ()), "min_groups": Key(count(1), 30)},
    "gates": {
        "fail_if": Key(names_if_any, ()),
        "fail_if_yesterday": Key(names_if_any, ()),
        "fail_if_last_week": Key(names_if_any, ()),
        "min_distinct_scores": Key(count(0, MOST_SCORES)),
    },
    "quality": {
        "min_rows": Key(count(0), 1),
        "min_groups": Key(count(0), 1),
        "min_coverage": Key(share),
        "max_single_class_share": Key(share),
        "max_tie_rate": Key(share),
        "max_null_share": Key(share),
        "max_volume_drift": Key(number(0)),
        "max_ctr_drift": Key(number(0)),
        "ties": Key(_truth, True),
    },
    "history": {
        "file": Key(text, "history.db"),
        "report": Key(text),
        "states": Key(choice(*STATES), "slices"),
    },
    "output": {"folder": Key(text), "nights": Key(count(1, MOST_NIGHTS), 30)},
}


@dataclass(frozen=True)
class NightlyConfig:
    """A configuration file, checked.

    Parameters
    ----------
    file : Path
        Where it was read from. Relative paths in it begin at its folder.
    title : str
    paths : tuple of str
        Where the rows of a night are, with ``{date}`` in it; see `dates.dated`.
    where : str or None
        A condition on rows, ``{date}`` too.
    scores : tuple of str
        Models.
    baseline : str or None
        The model that the others are compared with.
    measures : tuple of str
    options : dict of str to object
        Other arguments of `evaluate`, by name; those left out are not there.
    gates : GateTexts
    quality : QualityLimits
    history : Path
    report : str
        Whose nights the history keeps; by default the name of the file without its suffix.
    states : str
        What history keeps to merge nights, one of `night_state.STATES`.
    folder : Path or None
        Where pages are written; None: none is.
    nights : int
        How many nights a page shows.
    """

    file: Path
    title: str
    paths: tuple[str, ...]
    where: str | None
    scores: tuple[str, ...]
    baseline: str | None
    measures: tuple[str, ...]
    options: dict[str, Any]
    gates: GateTexts
    quality: QualityLimits
    history: Path
    report: str
    folder: Path | None
    nights: int = 30
    states: str = "slices"

    def sources(self, date: dt.date) -> list[str]:
        """The paths of a night."""
        return [_beside(self.file, dated(path, date)) for path in self.paths]

    def source_of(self, path: str | os.PathLike[str]) -> str | None:
        """Return the path of the source that a file must not lie in, or None.

        A night would read the folder or the pattern that the file lies in. Of folders such as
        ``logs/day={date}`` that is also ``logs``: who reads all nights reads that folder. The
        folder of the configuration is allowed.

        Parameters
        ----------
        path : path
        """
        target = Path(os.path.realpath(path))
        for source in self.paths:
            every = source
            for date in dates_in(source):
                every = every.replace(date, "*")
            place = dated(every, dt.date.min)
            places = [place, *self._above_partitions(place)]
            # With a format given, files of any suffix count.
            if any(would_read(_beside(self.file, each), target, "parquet") for each in places):
                return source
        return None

    def _above_partitions(self, place: str) -> list[str]:
        """The folder above the first folder ``key=value`` of a path with wildcards, if any."""
        parts = place.rstrip("/").split("/")
        # A last part with a suffix is a file.
        folders = parts[:-1] if Path(parts[-1]).suffix else parts
        found = (at for at, part in enumerate(folders) if re.match(r"[^*?\[]+=.*\*", part))
        first = next(found, None)
        if first is None:
            return []
        above = "/".join(parts[:first]) or ("/" if first else ".")
        own = os.path.realpath(self.file.parent)
        return [] if os.path.realpath(_beside(self.file, above)) == own else [above]

    def condition(self, date: dt.date) -> str | None:
        """The condition on the rows of a night."""
        return None if self.where is None else dated(self.where, date)


@typed
def read_config(path: str | os.PathLike[str]) -> NightlyConfig:
    """Read a configuration and refuse whatever in it could fail later, all at once.

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
        A line for everything that is wrong: file, table, key, value and remedy.
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
        why = "too many brackets" if isinstance(error, RecursionError) else error
        raise ArgumentError(f"{shown}: is not TOML that can be read: {why}.") from None
    complaints = ConfigErrors(shown)
    reader = TableReader(complaints)
    known = [name for name in TABLES if name]
    for name, value in content.items():
        if isinstance(value, dict) and name not in known:
            why = f"there is no such table.{near(name, known)} Tables are {', '.join(known)}."
            complaints.add(name, "", None, why)
    given = {name: reader.table(name, content.get(name), TABLES[name]) for name in known}
    top = {k: v for k, v in content.items() if k not in known and not isinstance(v, dict)}
    given[""] = reader.table("", top, TABLES[""])
    check_together(given, complaints)
    if complaints.found:
        raise ArgumentError("\n".join(complaints.found))
    return _config(Path(path), given)


def _config(file: Path, given: dict[str, dict[str, Any]]) -> NightlyConfig:
    evaluated = {k: v for k, v in given["evaluate"].items() if k != "measures"}
    options = {**given["columns"], **given["slices"], **evaluated}
    options["format"] = given["source"]["format"]
    if not options["by"]:
        del options["by"], options["min_groups"]
    if options["spill_dir"] is not None:
        options["spill_dir"] = _beside(file, options["spill_dir"])
    folder = given["output"]["folder"]
    return NightlyConfig(
        file=file,
        title=given[""]["title"],
        paths=given["source"]["path"],
        where=given["source"]["where"],
        scores=given["models"]["scores"],
        baseline=given["models"]["baseline"],
        measures=given["evaluate"]["measures"],
        options={name: value for name, value in options.items() if value is not None},
        gates=GateTexts(**given["gates"]),
        quality=QualityLimits(**given["quality"]),
        history=Path(_beside(file, given["history"]["file"])),
        report=given["history"]["report"] or file.stem,
        states=given["history"]["states"],
        folder=None if folder is None else Path(_beside(file, folder)),
        nights=given["output"]["nights"],
    )


def _beside(file: Path, path: str) -> str:
    """A path that begins at the folder of the configuration, unless it is absolute or a URI."""
    return path if "://" in path else str(file.parent / path)
