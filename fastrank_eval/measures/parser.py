"""Texts -> measures: our own spelling, and other tools' names for the same."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import lru_cache
from typing import Any

from fastrank_eval._lib.arguments import is_list_like
from fastrank_eval._lib.errors import MeasureError
from fastrank_eval.measures.base import Measure, registry, spelled, text_of

#: Names of trec_eval that carry a number, of ndeval with a hyphen, F1 with a cutoff, and how we
#: write them.
_TREC = [
    (re.compile(theirs, re.IGNORECASE), ours)
    for theirs, ours in (
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
        (r"(alpha)-(n?DCG\b.*)", r"\1_\2"),
        (r"(n?ERR|M?AP|P)-(IA\b.*)", r"\1_\2"),
    )
]
#: F1 without a cutoff: of whole lists, or of decisions at a threshold?
_F1 = re.compile(r"f1(?!\w)(?!.*@\s*\d)", re.IGNORECASE | re.DOTALL)


def measure(spelling: str | Measure) -> Measure:
    """Read a measure from its text; a measure is returned as it is.

    Parameters
    ----------
    spelling : str or Measure
        ``"nDCG(gain='linear')@10"``, or another tool's name for one of ours (``"ndcg@10"``,
        ``"MAP"``, ``"ndcg_cut_10"``, ``"recip_rank"``, ``"nERR"``).

    Returns
    -------
    Measure

    Raises
    ------
    MeasureError
        Unknown name (with the nearest one), unknown option, bad value or cutoff.

    Examples
    --------
    >>> from fastrank_eval.measures import measure
    >>> measure("ndcg_cut_10")
    nDCG@10
    """
    if isinstance(spelling, Measure):
        return spelling
    if not isinstance(spelling, str):
        raise MeasureError(f"a measure is a text or a Measure, not {type(spelling).__name__}.")
    return _read(spelling)


@lru_cache(maxsize=1024)
def _read(spelling: str) -> Measure:
    text = spelling.strip()
    refuse_plain_f1(text)
    for theirs, ours in _TREC:
        if theirs.fullmatch(text):
            text = theirs.sub(ours, text)
    try:
        tree = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise MeasureError(_unreadable(spelling)) from None
    cutoff: Any = None
    if isinstance(tree, ast.BinOp) and isinstance(tree.op, ast.MatMult):
        cutoff = _literal(tree.right, spelling)
        if cutoff is None:
            raise MeasureError(_unreadable(spelling))
        tree = tree.left
    options: dict[str, Any] = {}
    if isinstance(tree, ast.Call):
        if tree.args or any(word.arg is None for word in tree.keywords):
            raise MeasureError(_unreadable(spelling))
        options = {str(word.arg): _literal(word.value, spelling) for word in tree.keywords}
        if len(options) < len(tree.keywords):
            raise MeasureError(f"'{spelling}' gives an option twice.")
        tree = tree.func
    if not isinstance(tree, ast.Name):
        raise MeasureError(_unreadable(spelling))
    if tree.id.lower() not in spelled:
        close = get_close_matches(tree.id.lower(), spelled, 1)
        hint = f" Did you mean '{spelled[close[0]][0]}'?" if close else ""
        raise MeasureError(
            f"unknown measure '{tree.id}' in '{spelling}'.{hint} Known: {', '.join(registry)}."
        )
    name, preset = spelled[tree.id.lower()]
    for option in preset:
        if option in options:
            raise MeasureError(
                f"'{spelling}': the name {tree.id} already says {option}={preset[option]!r}; to "
                f"set it, write {name}."
            )
    found = registry[name](cutoff, **preset, **options)
    found.check_complete()
    return found


def refuse_plain_f1(text: str) -> None:
    """Refuse F1 without a cutoff, which two measures are called.

    Raises
    ------
    MeasureError
        Naming both.
    """
    if _F1.match(text):
        raise MeasureError(
            f"measure: must say which F1 is meant, got {_shortened(text)!r}; write F@10 for the "
            "first 10 rows of each ranking (F for all rows), or FScore(threshold=0.5) for "
            "decisions at a threshold."
        )


def names_measure(name: str) -> bool:
    """Whether a measure is called so, without its options and a cutoff after ``@``."""
    for theirs, ours in _TREC:
        if theirs.fullmatch(name):
            name = theirs.sub(ours, name)
    root = re.split("[(@]", name)[0].lower()
    return root in spelled or root == "f1"


def spelled_out(found: Measure) -> str:
    """The text of a measure with all options that were given, be it as their defaults.

    A profile leaves those alone, so that ``nDCG`` and ``nDCG(gain='exp')`` may differ under it.
    """
    options = ", ".join(
        f"{param.name}={text_of(found.chosen[param.name])}"
        for param in found.options
        if param.name in found.given
    )
    text = f"{found.name}({options})" if options else found.name
    return text if found.cutoff is None else f"{text}@{found.cutoff}"


def computed(
    found: Measure, measures: Sequence[str], requested: Mapping[str, str]
) -> Measure | None:
    """Find what an evaluation computed for a measure; None if it did not.

    A name that was requested answers for itself. Any other name is the canonical text of what was
    computed, or a requested name with options that the profile does not change.

    Parameters
    ----------
    found : Measure
    measures : sequence of str
        Texts of what it computed.
    asked : mapping of str to str
        Requested names, as `spelled_out` writes them, of measures that were computed with other
        options.
    """
    text = requested.get(spelled_out(found))
    if text is None and str(found) in measures and str(found) not in requested:
        return found
    if text is None:
        text = next(
            (used for name, used in requested.items() if _requests(found, measure(name), used)),
            None,
        )
    return measure(text) if text is not None and text in measures else None


def _requests(found: Measure, requested: Measure, text: str) -> bool:
    """Whether a profile makes the same of a measure as of one that was requested."""
    if found != requested or not requested.given <= found.given:
        return False
    used = measure(text)
    return all(used.chosen[name] == found.chosen[name] for name in found.given)


def _unreadable(spelling: str) -> str:
    return (
        f"cannot read the measure {_shortened(spelling)!r}; write Name(option=value)@cutoff, "
        "for example nDCG(gain='linear')@10."
    )


def _shortened(spelling: str) -> str:
    return spelling if len(spelling) <= 100 else f"{spelling[:100]}..."


def _literal(node: ast.expr, spelling: str) -> Any:
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        raise MeasureError(_unreadable(spelling)) from None


def parse_measures(measures: str | Measure | Sequence[str | Measure]) -> tuple[Measure, ...]:
    """Read one or several measures; commas inside brackets do not separate.

    Parameters
    ----------
    measures : str, Measure or sequence of them
        ``"GAUC,nDCG(gain={1: 1, 2: 3})@10"``.

    Returns
    -------
    tuple of Measure
        In the order given, each once.

    Raises
    ------
    MeasureError
        Nothing given, or one cannot be read.

    Examples
    --------
    >>> from fastrank_eval import AP, parse_measures
    >>> parse_measures("GAUC,nDCG(gain={1: 1, 2: 3})@10")
    (GAUC, nDCG(gain={1: 1, 2: 3})@10)
    >>> parse_measures(["MRR", AP @ 5, "RR"])
    (RR, AP@5)
    """
    return tuple(dict.fromkeys(requested_measures(measures)))


def requested_measures(measures: str | Measure | Sequence[str | Measure]) -> tuple[Measure, ...]:
    """As `parse_measures`, equal ones kept apart where not the same options were given.

    A profile makes two measures of ``"nDCG"`` and ``"nDCG(gain='exp')"``, which are equal.
    """
    several: Iterable[Any] = measures if is_list_like(measures) else [measures]
    read: dict[tuple[Measure, frozenset[str]], Measure] = {}
    for given in several:
        for part in _split(given) if isinstance(given, str) else [given]:
            found = measure(part)
            found.check_complete()
            read.setdefault((found, found.given), found)
    if not read:
        raise MeasureError(f"no measure given; known: {', '.join(registry)}.")
    return tuple(read.values())


def _split(text: str) -> list[str]:
    parts, depth, quote, start, escaped = [], 0, "", 0, False
    for at, letter in enumerate(text):
        if escaped:
            escaped = False
        elif quote:
            escaped = letter == "\\"
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        elif letter in "([{":
            depth += 1
        elif letter in ")]}":
            depth -= 1
        elif letter == "," and depth == 0:
            parts.append(text[start:at])
            start = at + 1
    parts.append(text[start:])
    return [part for part in parts if part.strip()]
