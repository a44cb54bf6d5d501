"""Parse measures from text, including the names of other tools."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from fastrank_eval._lib.arguments import is_list_like, named
from fastrank_eval._lib.errors import MeasureError
from fastrank_eval._lib.lexer import shorten
from fastrank_eval.measures.base import Measure, aliases, find_name, registry, text_of
from fastrank_eval.measures.names import instead_of, our_name, refuse_judged_only, refuse_plain_f1

#: Texts in quotes, which may lack their end, brackets and commas.
_SIGNS = re.compile(r"""'(?:[^'\\]|\\.)*'?|"(?:[^"\\]|\\.)*"?|[][(){},]""", re.DOTALL)

#: A name of MTEB with its cutoff: ``ndcg_at_10``.
_AT = re.compile(r"(\w+)_at_([1-9]\d*)", re.IGNORECASE)

#: A name with a cutoff written in another way: ``ndcg10``, ``P_10``, ``precision_at_10``.
_NUMBERED = re.compile(r"(.*?[a-z])(?:_at|_cut)?_?([1-9]\d*)", re.IGNORECASE)


@named
def measure(alias: str | Measure) -> Measure:
    """Read a measure from its text; return a measure unchanged.

    Parameters
    ----------
    alias : str or Measure
        ``"nDCG(gain='linear')@10"``, or another tool's name for one of ours (``"ndcg@10"``,
        ``"MAP"``, ``"ndcg_cut_10"``, ``"recall_at_5"``, ``"recip_rank"``, ``"nERR"``).

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
    if isinstance(alias, Measure):
        return alias
    if not isinstance(alias, str):
        raise MeasureError(no_text(alias))
    result = _read(alias)
    if type(result) is not registry.get(result.name):  # registered anew, as in a notebook
        _read.cache_clear()
    return _read(alias)


@lru_cache(maxsize=1024)
def _read(alias: str) -> Measure:
    text = alias.strip()
    refuse_plain_f1(text)
    refuse_judged_only(text)
    text, foreign = _our_text(text), text
    try:
        tree = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise MeasureError(_unreadable(alias)) from None
    cutoff: Any = None
    if isinstance(tree, ast.BinOp) and isinstance(tree.op, ast.MatMult):
        cutoff = _literal(tree.right, alias)
        if cutoff is None:
            raise MeasureError(_unreadable(alias))
        tree = tree.left
    options: dict[str, Any] = {}
    if isinstance(tree, ast.Call):
        if tree.args or any(word.arg is None for word in tree.keywords):
            raise MeasureError(_unreadable(alias))
        options = {str(word.arg): _option(word.value, alias) for word in tree.keywords}
        if len(options) < len(tree.keywords):
            raise MeasureError(f"'{alias}' has an option twice; leave one out.")
        tree = tree.func
    if not isinstance(tree, ast.Name):
        raise MeasureError(_unreadable(alias))
    name_and_preset = find_name(tree.id)
    if name_and_preset is None:
        wrong = f"measures: must name measures, got '{tree.id}' in '{alias}'"
        if instead := instead_of(tree.id):
            raise MeasureError(f"{wrong}; {instead}.")
        raise MeasureError(f"{wrong}.{similar_names(tree.id)} 'fastrank-eval measures' lists all.")
    name, preset = name_and_preset
    for option in preset:
        if option in options:
            raise MeasureError(
                f"'{alias}': the name {tree.id} already sets {option}={preset[option]!r}; to "
                f"set it, write {name}."
            )
    result = registry[name](cutoff, **preset, **options)
    result.check_complete()
    return result.with_alias(tree.id) if foreign == text else result.with_display_name(foreign)


def no_text(item: object) -> str:
    """Write the message for a measure that is no text, as of ir_measures."""
    if type(item).__module__.partition(".")[0] == "ir_measures":
        got, remedy = "a measure of ir_measures", "pass its text, str(measure)"
    else:
        got, remedy = type(item).__name__, "pass 'GAUC', say"
    return f"measures: must be text or a Measure, got {got}; {remedy}."


def commas_hint(text: str) -> str:
    """Suggest commas between names that blanks separate, or return ""."""
    names = text.split()
    if len(names) < 2 or not all(map(names_measure, names)):
        return ""
    return f" Separate names by commas: {','.join(names)!r}."


def similar_names(name: str, others: Iterable[str] = ()) -> str:
    """Suggest up to three measures with a similar name.

    A name that is not the first of its measure precedes the first one.

    Parameters
    ----------
    name : str
    others : iterable of str
        Other names that are allowed. They come first.

    Returns
    -------
    str
        ``" Did you mean 'x' or 'y'?"``, or ``""`` if no name is similar.

    Examples
    --------
    >>> similar_names("MAPP")
    " Did you mean 'MAP' (AP), 'GMAP' or 'MAP_IA' (AP_IA)?"
    >>> similar_names("mrr10")
    " Did you mean 'MRR@10' (RR@10)?"
    """
    from difflib import SequenceMatcher, get_close_matches

    numbered = _NUMBERED.fullmatch(name)
    stem, cutoff = (numbered[1], f"@{numbered[2]}") if numbered else (name, "")
    words = {word: word for word in others}
    for kind in registry.values():
        for word in (kind.name, *kind.aliases, *kind.presets):
            if kind.takes_cutoff or not cutoff:
                words.setdefault(word + cutoff, kind.name + cutoff)
    root = re.split("[(@]", stem)[0].lower() + cutoff

    def rank(word: str) -> tuple[float, bool]:
        return -SequenceMatcher(None, word.lower(), root).ratio(), words[word] != word

    spelled = {word.lower() for word in words}
    if cutoff:
        # The number makes all names with one alike: only the stem counts.
        exact = {word for word in (name.lower(), root) if word in spelled}
        alike = get_close_matches(name.lower(), spelled, 1, 0.8)
        bare = {word.removesuffix(cutoff): word for word in spelled if word.endswith(cutoff)}
        close = exact or {*alike, *(bare[w] for w in get_close_matches(stem.lower(), bare, 3))}
    else:
        close = {*get_close_matches(root, spelled, 9)}
    texts: dict[str, str] = {}
    for word in sorted((word for word in words if word.lower() in close), key=rank):
        first = words[word]
        texts.setdefault(first, f"'{word}'" if word == first else f"'{word}' ({first})")
    *nearest, last = [*texts.values()][:3] or [""]
    if not last:
        return ""
    return f" Did you mean {', '.join(nearest)}{' or ' if nearest else ''}{last}?"


def names_measure(name: str) -> bool:
    """Return whether a measure has this name, apart from options and cutoff."""
    root = re.split("[(@]", _our_text(name))[0].lower()
    return root == "f1" or find_name(root) is not None


def _our_text(text: str) -> str:
    """Write another tool's name as ours; a registered name stays as it is."""
    found = _AT.fullmatch(text)
    if found and text.lower() not in aliases and found[1].lower() in {*aliases, "f1"}:
        text = f"{found[1]}@{found[2]}"
    return our_name(text)


def text_with_options(measure: Measure) -> str:
    """Format a measure with all options that were passed, even as defaults.

    A profile does not change these options: under it ``nDCG`` and ``nDCG(gain='exp')`` may differ.
    """
    options = ", ".join(
        f"{param.name}={text_of(measure.option_values[param.name])}"
        for param in measure.options
        if param.name in measure.explicit_options
    )
    text = f"{measure.name}({options})" if options else measure.name
    return text if measure.cutoff is None else f"{text}@{measure.cutoff}"


def find_computed(
    wanted: Measure, measures: Collection[str], requested: Mapping[str, str]
) -> Measure | None:
    """Find the measure that an evaluation computed for another, or None.

    A requested name is looked up among the requested names. Any other name is the text of a
    computed measure, or a requested name with options that the profile does not change.

    Parameters
    ----------
    wanted : Measure
    measures : collection of str
        Texts of the computed measures.
    requested : mapping of str to str
        The name of each measure that was computed with other options, as `text_with_options`
        writes it, and the text of the computed measure.
    """
    text = requested.get(text_with_options(wanted))
    if text is None and str(wanted) in measures and str(wanted) not in requested:
        return wanted
    if text is None:
        text = next(
            (used for name, used in requested.items() if _requests(wanted, measure(name), used)),
            None,
        )
    return measure(text) if text is not None and text in measures else None


def _requests(wanted: Measure, requested: Measure, text: str) -> bool:
    """Return whether a profile maps a measure to the same as a requested one."""
    if wanted != requested or not requested.explicit_options <= wanted.explicit_options:
        return False
    used = measure(text)
    return all(used.option_values[n] == wanted.option_values[n] for n in wanted.explicit_options)


def _unreadable(alias: str) -> str:
    remedy = instead_of(alias.strip()) or (
        "write Name(option=value)@cutoff, for example nDCG(gain=linear)@10"
    )
    return f"cannot read the measure {shorten(alias, 100)!r}; {remedy}.{commas_hint(alias)}"


def _option(node: ast.expr, alias: str) -> Any:
    """Read the value of an option; a word needs no quotes."""
    return node.id if isinstance(node, ast.Name) else _literal(node, alias)


def _literal(node: ast.expr, alias: str) -> Any:
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        raise MeasureError(_unreadable(alias)) from None


@named
def parse_measures(measures: str | Measure | Sequence[str | Measure]) -> tuple[Measure, ...]:
    """Read one or several measures; commas inside brackets do not separate.

    Parameters
    ----------
    measures : str, Measure or sequence of them
        ``"GAUC,nDCG(gain={1: 1, 2: 3})@10"``.

    Returns
    -------
    tuple of Measure
        In input order, without duplicates.

    Raises
    ------
    MeasureError
        If there is none, or one cannot be read.

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
    """Read as `parse_measures`, but keep equal measures apart.

    A profile may map ``"nDCG"`` and ``"nDCG(gain='exp')"``, which are equal, to two measures.
    """
    several: Iterable[Any] = measures if is_list_like(measures) else [measures]
    read: dict[tuple[Measure, frozenset[str]], Measure] = {}
    for item in several:
        for part in split_measures(item) if isinstance(item, str) else [item]:
            one = measure(part)
            one.check_complete()
            read.setdefault((one, one.explicit_options), one)
    if not read:
        raise MeasureError(
            "measures: must name at least one, got none; 'fastrank-eval measures' lists all."
        )
    return tuple(read.values())


def split_measures(text: str) -> list[str]:
    """Split a text at commas outside of brackets; leave empty parts out."""
    parts, depth, start = [], 0, 0
    for match in _SIGNS.finditer(text):
        sign = match.group()
        depth += (sign in "([{") - (sign in ")]}")
        if sign == "," and depth == 0:
            parts.append(text[start : match.start()])
            start = match.end()
    return [part for part in (*parts, text[start:]) if part.strip()]
