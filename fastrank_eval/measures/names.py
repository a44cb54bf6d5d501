"""Say which names have a meaning before a measure has them.

Other tools' names of our measures, the words of gates, and the entry points of packages.
"""

from __future__ import annotations

import keyword
import os
import re
import sys
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING

from fastrank_eval._lib.errors import MeasureError
from fastrank_eval._lib.lexer import shorten

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint, EntryPoints

#: Fields of a value in a gate ...
VALUE_FIELDS = (
    "value", "se", "ci_low", "ci_high", "effective_groups", "weight", "groups", "groups_used",
    "dropped_share", "rows_share", "positives_share",
)  # fmt: skip
#: ... and fields of a comparison with a baseline.
COMPARISON_FIELDS = (
    "delta", "delta_se", "delta_ci_low", "delta_ci_high", "relative", "p_value", "p_adjusted",
    "wins", "losses", "ties", "mdd",
)  # fmt: skip
#: Fields that only measures with a standard error have.
ERROR_FIELDS = frozenset({
    "se", "ci_low", "ci_high", "effective_groups", "delta_se", "delta_ci_low", "delta_ci_high",
    "p_value", "p_adjusted", "mdd",
})  # fmt: skip
#: Fields that only measures of groups have.
PAIR_FIELDS = frozenset({"wins", "losses", "ties"})
#: Numbers of the whole result.
COUNTS = ("rows", "groups", "confidence")
KEYWORDS = frozenset({"and", "or", "not"})
FUNCTIONS = ("abs", "min", "max", "worse")
#: All words of gates, which `results/gates.py` parses.
GATE_WORDS = frozenset((*VALUE_FIELDS, *COMPARISON_FIELDS, *COUNTS, *KEYWORDS, *FUNCTIONS))

#: Group of entry points with measures of other packages. They are named as the measures.
ENTRY_POINTS = "fastrank_eval.measures"


def _ratio_of_set_f(match: re.Match[str]) -> str:
    """Write SetF of ir_measures, which takes the square of beta."""
    before, beta, after = match.groups()
    return f"F({before}alpha={1 / (1 + float(beta))!r}{after})"


def _table_of_gains(match: re.Match[str]) -> str:
    """Write the scale of a user model of ir_measures as gains of grades."""
    name, text, cutoff = match.groups()
    options = [option.strip() for option in text.split(",")]
    least, most = (
        next((int(of[8:]) for of in options if of.startswith(f"{bound}_rel=")), default)
        for bound, default in (("min", 0), ("max", 0))
    )
    if not 0 <= least < most <= _LARGEST_SCALE:
        raise MeasureError(
            f"{name}: must have whole numbers min_rel < max_rel from 0 to {_LARGEST_SCALE}, got "
            f"{shorten(match[0], 100)!r}; or give gains: {name}(gain={{1: 0.5, 2: 1}})."
        )
    rest = [option for option in options if not option.startswith(("min_rel=", "max_rel="))]
    gains = {g: max(g - least, 0) / (most - least) for g in range(1, most + 1)}
    return f"{name}({', '.join([*rest, f'gain={gains}'])}){cutoff}"


#: The largest max_rel of ir_measures: each grade gets a gain.
_LARGEST_SCALE = 1000
#: Patterns of foreign names and our alias: trec_eval's names with a number, ndeval's with a
#: hyphen, F1 with a cutoff, Accuracy of embeddings, ranx's names with parameters, ir_measures'
#: measures of sets and its options.
_FOREIGN: list[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]]] = [
    (re.compile(pattern, re.IGNORECASE), alias)
    for pattern, alias in (
        (r"([\w-]+?)(@\d+)?-l([1-9]\d*)", r"\1(rel=\3)\2"),
        (r"ndcg_cut_([1-9]\d*)", r"nDCG@\1"),
        (r"map_cut_([1-9]\d*)", r"AP@\1"),
        (r"P_([1-9]\d*)", r"P@\1"),
        (r"relative_P_([1-9]\d*)", r"RelP@\1"),
        (r"recall_([1-9]\d*)", r"R@\1"),
        (r"success_([1-9]\d*)", r"Success@\1"),
        (r"unj_([1-9]\d*)", r"Unjudged@\1"),
        (r"iprec_at_recall_(\d+\.\d+)", r"IPrec@\1"),
        (r"Rprec_mult_(\d+\.\d+)", r"Rprec(mult=\1)"),
        (r"11pt_avg", r"IPrec11"),
        (r"F1\b(.*@.*)", r"F\1"),
        (r"Accuracy\b(.*@.*)", r"Success\1"),
        (r"(n?dcg)_burges(@.*)?", r"\1(gain=exp)\2"),
        (r"rbp\.(\d+)", r"RBP(p=0.\1)"),
        (r"r-precision(\(.*\))?", r"Rprec\1"),
        (r"SetF\(([^()]*)\bbeta\s*=\s*(\d+\.?\d*)([^()]*)\)", _ratio_of_set_f),
        (r"SetRelP(\b.*)", r"RelP\1"),
        (
            r"(BPM|INSQ|INST|SDCG|NERR8|NERR9|NERR10|NERR11)"
            r"\(((?=[^()]*(?:min|max)_rel=)[\w=., ]*)\)(.*)",
            _table_of_gains,
        ),
        (r"SetP\(\s*relative\s*=\s*True\s*(?:,\s*(.*))?\)", r"RelP(\1)"),
        (r"Set([PR]\b.*)", r"\1"),
        (r"Set(F(?:\(\s*rel\s*=[^,]*\))?)", r"\1"),
        (r"NumRet(\(\s*rel\b.*)", r"NumRelRet\1"),
        (r"nDCG\(\s*dcg\s*=\s*['\"]exp-log2['\"]\s*\)(.*)", r"nDCG(gain=exp)\1"),
        (r"nDCG\(\s*dcg\s*=\s*['\"]?log2['\"]?\s*\)(.*)", r"nDCG(gain=linear)\1"),
        (r"nDCG\(\s*gains\s*=(.*)", r"nDCG(gain=\1"),
        (r"(alpha)-(n?DCG\b.*)", r"\1_\2"),
        (r"(n?ERR|M?AP|P)-(IA\b.*)", r"\1_\2"),
    )
]
#: How names of other tools begin that no measure here has, and what to take.
_INSTEAD = {
    re.compile(r"numq\b", re.IGNORECASE): "take the count of groups that each result has",
    re.compile(r"naucs?(?![a-z])", re.IGNORECASE): (
        "compute it from a result by fastrank_eval.trec.nauc"
    ),
}
#: The option of ir_measures for condensed lists.
_JUDGED_ONLY = re.compile(r"\bjudged_only\s*=")
#: F1 without a cutoff, which is ambiguous: of whole lists, or of decisions at a threshold.
_F1 = re.compile(r"f1(?!\w)(?!.*@\s*\d)", re.IGNORECASE | re.DOTALL)


def our_name(text: str) -> str:
    """Write another tool's name of a measure as ours; return other texts."""
    for pattern, replacement in _FOREIGN:
        if pattern.fullmatch(text):
            text = pattern.sub(replacement, text)
    return text


def instead_of(text: str) -> str:
    """Say what to take for another tool's name, or return an empty text."""
    return next((remedy for name, remedy in _INSTEAD.items() if name.match(text)), "")


def refuse_judged_only(text: str) -> None:
    """Raise MeasureError if one measure alone leaves documents out.

    Raises
    ------
    MeasureError
        The message has the argument for all measures.
    """
    if _JUDGED_ONLY.search(text):
        raise MeasureError(
            f"measures: must rank the same documents, got {shorten(text, 100)!r}; leave "
            "judged_only out, and pass fe.trec.evaluate(..., judged_only=True), or -J."
        )


def refuse_plain_f1(text: str) -> None:
    """Raise MeasureError for F1 without a cutoff: two measures have this name.

    Raises
    ------
    MeasureError
        The message names both.
    """
    if _F1.match(text):
        raise MeasureError(
            f"measure: must say which F1 is meant, got {shorten(text, 100)!r}; write F@10 for the "
            "first 10 rows of each ranking (F for all rows), or FScore(threshold=0.5) for "
            "decisions at a threshold."
        )


def is_word(name: str) -> bool:
    """Return whether a name can stand in the text of a measure."""
    return name.isascii() and name.isidentifier() and not keyword.iskeyword(name)


def reserved_for(name: str) -> str | None:
    """Say what a name means that no measure may have, or return None."""
    if name.lower() in GATE_WORDS:
        return "a word of gates"
    if _F1.match(name):
        return "a name of both F and FScore"
    ours = our_name(name)
    return None if ours == name else f"another name of {ours}"


def entry_point(name: str) -> EntryPoint | None:
    """Find the entry point of a measure by its name in lower case, or None.

    Raises
    ------
    MeasureError
        Several packages have it; the message names them.
    """
    points = [one for one in _entry_points(_folders()) if one.name.lower() == name]
    if len(points) > 1:
        raise MeasureError(
            f"measure: must be of one package, got {points[0].name!r} of "
            f"{' and '.join(sorted(map(package_of, points)))}; uninstall all but one."
        )
    return points[0] if points else None


def _folders() -> tuple[tuple[str, int], ...]:
    """List the folders of packages with their times of change."""
    times = []
    for name in sys.path:
        try:
            times.append((name, os.stat(name or os.curdir).st_mtime_ns))  # noqa: PTH116 - no Path
        except OSError:
            times.append((name, 0))
    return tuple(times)


@lru_cache(maxsize=1)
def _entry_points(folders: tuple[tuple[str, int], ...]) -> EntryPoints:
    """Read the entry points of measures, again if a folder has changed."""
    from importlib.metadata import entry_points

    return entry_points(group=ENTRY_POINTS)


def package_of(point: EntryPoint) -> str:
    """Return the name of the package that has an entry point, in quotes."""
    return repr(point.dist.name if point.dist else "unknown")
