"""Read JSON, CBOR, rows, ranked lists and objects of other libraries.

They become dicts or columns, so that each form is read once.
"""

from __future__ import annotations

import ast
import json
import re
import shlex
import struct
from collections.abc import Collection, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.errors import SourceError
from fastrank_eval._lib.lexer import shorten
from fastrank_eval.integrations.trec.lines import Text
from fastrank_eval.io.paths import expand
from fastrank_eval.io.source import reading, type_name

#: How JSON begins: an object with a key, or a list of lists or objects.
_JSON = re.compile(rb'\s*(?:\{\s*(?:["}]|\Z)|\[\s*(?:[\[{\]]|\Z))')
#: First bytes of the objects of CBOR, the binary JSON of ranx. No text of UTF-8 begins so.
_CBOR = range(0xA0, 0xBC)
_FLOATS = {25: ">e", 26: ">f", 27: ">d"}
#: What was passed if it is no text, in messages that name a part of it.
WHOLE = "source"
#: What MTEB writes beside the subsets of a task.
_MTEB_MODEL = "mteb_model_meta"
#: Layouts that are read, by the column of numbers: the fields of a line, and what it looks like.
_LAYOUTS = {
    "score": (
        (6, "lines 'qid Q0 docno rank score tag' (TREC)"),
        (3, "lines 'qid docno rank' (MS MARCO)"),
        (3, "CSV, TSV or a table with columns query_id, doc_id and score"),
        (1, "JSON {query: {doc: score}}"),
        (1, 'JSON lines {"query_id": ..., "doc_id": ..., "score": ...}'),
        (1, "JSON {query: [doc, ...]}, best first"),
    ),
    "grade": (
        (4, "lines 'qid iter docno rel' (TREC)"),
        (3, "CSV, TSV or a table with columns query-id, corpus-id and score (BEIR)"),
        (3, "lines 'qid docno rel'"),
        (1, "JSON {query: {doc: grade}}"),
        (1, 'JSON lines {"query_id": ..., "doc_id": ..., "relevance": ...}'),
        (1, "JSON {query: [doc, ...]}, all relevant"),
    ),
}


def nearest_layouts(number: str, fields: int) -> str:
    """Name the three layouts whose lines have about so many fields."""
    layouts = sorted(_LAYOUTS[number], key=lambda layout: abs(layout[0] - fields))
    return "; ".join(text for _, text in layouts[:3])


# ---- JSON ----------------------------------------------------------------------------------------


def is_json(text: Text) -> bool:
    """Return whether a text begins like JSON or CBOR."""
    return _JSON.match(text.head) is not None or text.head[:1] in {bytes([i]) for i in _CBOR}


def read_json(text: Text) -> Any:
    """Parse JSON, CBOR, or lines of JSON, which become a list.

    Raises
    ------
    SourceError
        If it is broken; names the line.
    """
    content = text.content()
    if content[0] in _CBOR:
        try:
            found, end = _cbor(content, 0)
            if end < len(content):
                raise ValueError(f"byte {end:,} comes after its end")
            return found
        except (ValueError, IndexError, TypeError, RecursionError, struct.error) as error:
            raise SourceError(
                f"{text.name}: its CBOR cannot be read: {error}. Write it anew, or as JSON."
            ) from error
    try:
        decoded = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        number = content.count(b"\n", 0, error.start) + 1
        raise SourceError(
            f"{text.name}, line {number:,}: it is not UTF-8. Write it as UTF-8."
        ) from error
    try:
        return _parse(decoded)
    except json.JSONDecodeError as error:
        if error.msg != "Extra data":
            raise _broken(text, error.lineno, error) from error
    except (ValueError, RecursionError) as error:
        raise _broken(text, None, error) from error
    rows = []
    for number, line in enumerate(decoded.split("\n"), 1):
        if line.strip():
            try:
                rows.append(_parse(line))
            except (ValueError, RecursionError) as error:
                raise _broken(text, number, error) from error
    return rows


def _unique(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    """Make the dict of an object; refuse a name that is there twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        name = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"an object has {shorten(name, 100)!r} twice")
    return found


#: `json.loads` would make a decoder for each line.
_parse = json.JSONDecoder(object_pairs_hook=_unique).decode


def _cbor(content: bytes, at: int) -> tuple[Any, int]:
    """Parse an object, text or number; return the byte after it too."""
    kind, size = content[at] >> 5, content[at] & 31
    start = at + 1
    at = start if size < 24 else start + (1 << size - 24)
    if kind == 7 and size in _FLOATS:
        return struct.unpack(_FLOATS[size], content[start:at])[0], at
    if kind not in (0, 1, 3, 5) or size > 27 or at > len(content):
        raise ValueError(f"byte {start - 1:,} begins no object, text or number")
    number = size if size < 24 else int.from_bytes(content[start:at], "big")
    if kind < 2:
        return -1 - number if kind else number, at
    if kind == 3:
        if at + number > len(content):
            raise ValueError("it is cut short")
        return content[at : at + number].decode(), at + number
    pairs = []
    for _ in range(number):
        name, at = _cbor(content, at)
        value, at = _cbor(content, at)
        pairs.append((name, value))
    return _unique(pairs), at


def _broken(text: Text, line: int | None, error: Exception) -> SourceError:
    reason = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
    where = text.name if line is None else f"{text.name}, line {line:,}"
    return SourceError(f"{where}: its JSON cannot be read: {reason}. Correct it, or write it anew.")


def read_header(text: Text, ids: Collection[str]) -> pa.Table:
    """Read a text whose first line names columns, divided by tabs or commas."""
    import pyarrow.csv as pacsv

    delimiter = "\t" if b"\t" in text.head.partition(b"\n")[0] else ","
    types = dict.fromkeys(ids, pa.string())
    with reading(text.name, "Correct it."):
        return pacsv.read_csv(
            pa.BufferReader(text.content()),
            parse_options=pacsv.ParseOptions(delimiter=delimiter),
            convert_options=pacsv.ConvertOptions(column_types=types),
        )


# ---- objects of Python, and what JSON has --------------------------------------------------------


def plain(source: Any, known: Collection[str], whole: str = WHOLE) -> Any:
    """Convert rows and objects of other libraries to dicts.

    Other sources are returned as they are.

    Parameters
    ----------
    source : object
        One of ``ranx.Qrels`` and ``ranx.Run``, the predictions of MTEB, and named tuples
        (ir_measures, ir_datasets) or dicts, one for each row, in a list or an iterator.
    known : collection of str
        Names of columns that may be needed.
    whole : str
        `WHOLE`, or the name of the text that the source is read from, for messages.
    """
    if type(source).__module__.partition(".")[0] == "ranx" and hasattr(source, "to_dict"):
        return source.to_dict()
    if isinstance(source, Mapping):
        if _MTEB_MODEL in source:
            return _predictions_of_mteb(source, whole)
        # One row may have a list of results; a dict of columns has columns alone.
        values = [value for name, value in source.items() if name in known]
        is_one_row = len(values) > 1 and not all(map(is_sized, values))
        return _columns([source], known) if is_one_row else source
    if isinstance(source, Iterator) and not hasattr(source, "schema"):
        first = next(source, None)
        source = chain([first], source) if first is not None else source
        return _columns(list(source), known) if is_row(first, known) else source
    is_list = isinstance(source, list | tuple) and len(source) > 0
    return _columns(source, known) if is_list and is_row(source[0], known) else source


def is_row(row: object, known: Collection[str]) -> bool:
    """Return whether this is a named tuple, or a dict by names of columns."""
    names = row if isinstance(row, Mapping) else getattr(row, "_fields", ())
    return sum(name in known for name in names) > 1


def _columns(rows: Sequence[Any], known: Collection[str]) -> dict[str, list[Any]]:
    """Make the columns of rows that may be needed; what a row lacks is None."""
    dicts = [row if isinstance(row, Mapping) else _fields(row) for row in rows]
    names = [name for name in dict.fromkeys(chain.from_iterable(dicts)) if name in known]
    return {name: [row.get(name) for row in dicts] for name in names}


def _fields(row: Any) -> dict[str, Any]:
    if not hasattr(row, "_fields"):
        raise SourceError(
            f"A list of rows holds {type_name(row)}: pass named tuples or dicts of one form."
        )
    return dict(zip(row._fields, row, strict=True))


def _predictions_of_mteb(source: Mapping[Any, Any], whole: str) -> Any:
    """Select the only subset and split of the predictions of MTEB."""
    parts = {
        (subset, split): queries
        for subset, splits in source.items()
        if subset != _MTEB_MODEL and isinstance(splits, Mapping)
        for split, queries in splits.items()
    }
    if len(parts) == 1:
        return next(iter(parts.values()))
    if not parts:
        raise SourceError("The predictions of MTEB have no subset. Pass those of one task.")
    names = ", ".join(f"{subset}/{split}" for subset, split in parts)
    subset, split = next(iter(parts))
    raise SourceError(
        f"The predictions of MTEB have {len(parts)} subsets and splits ({names}), and a run is one "
        f"of them. Pass one, such as {part_of(whole, (subset, split))}."
    )


def part_of(whole: str, keys: Sequence[Any]) -> str:
    """Write Python that selects a part, for texts a shell's command too."""
    selected = "".join(f"[{shorten(repr(key), 100)}]" for key in keys)
    if whole == WHOLE:
        return f"{WHOLE}{selected}"
    is_plain = whole[1:-1].endswith(".json")
    content = f"Path({whole}).read_text()" if is_plain else "..."
    file = shlex.quote(ast.literal_eval(whole)) if is_plain else "..."
    path = shlex.quote("." + "".join(f"[{shorten(json.dumps(key), 100)}]" for key in keys))
    return f"json.loads({content}){selected}, or <(jq {path} {file}) at a command line"


def is_ranked(source: object, known: Collection[str] = ()) -> bool:
    """Return whether this is a mapping of queries to lists or sets.

    A mapping with a known name of a column is a table.
    """
    return (
        isinstance(source, Mapping)
        and len(source) > 0
        and all(map(_is_list, source.values()))
        and not any(name in known for name in source)
    )


def _is_list(docs: object) -> bool:
    return isinstance(docs, list | tuple | AbstractSet) or (
        isinstance(docs, np.ndarray) and docs.ndim == 1
    )


def is_sized(value: object) -> bool:
    """Return whether this has elements; texts and numbers have none."""
    is_array = hasattr(value, "__len__") or hasattr(value, "__dlpack__")
    return is_array and not isinstance(value, str) and getattr(value, "ndim", 1) > 0


def are_paths(lists: Mapping[Any, Any]) -> bool:
    """Return whether lists of texts name files, by the first text of each.

    Raises
    ------
    SourceError
        If only some do.
    """
    firsts = [next(iter(one), None) for one in lists.values()]
    found = [first is not None and _is_path(first) for first in firsts]
    if any(found) and not all(found):
        name, missing = (list(values)[found.index(False)] for values in (lists, firsts))
        raise SourceError(
            f"Cannot read {shorten(repr(missing), 100)} of {shorten(repr(name), 100)}: no such "
            "file, and others are files. Name the files of each run; if these are documents, pass "
            "read_run(run)."
        )
    return bool(found) and all(found)


def _is_path(text: object) -> bool:
    if isinstance(text, Path):
        return True
    # To ask whether a remote file is there takes seconds, and documents may have such ids.
    if not isinstance(text, str) or ("://" in text and not text.startswith("file://")):
        return False
    try:
        return bool(expand(text, "csv"))
    except SourceError:
        return False
