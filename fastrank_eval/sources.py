"""Open anything that holds columns and read it as one ordered stream of Arrow record batches."""

from __future__ import annotations

import fnmatch
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.fs as pafs
import pyarrow.parquet as papq

from fastrank_eval.errors import ArgumentError, ColumnError, FastRankEvalError, SourceError, near

__all__ = ["Source", "open_source", "require_columns"]

_BATCH_ROWS = 1 << 17
_READ_BUFFER = {True: 1 << 20, False: 1 << 23}  # bytes a column, by "is the file local"
_CSV_SAMPLE = 4 << 20
_SCAN_READAHEAD = {"batch_readahead": 4, "fragment_readahead": 1}

_SUFFIXES = {
    ".parquet": "parquet",
    ".parq": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".arrows": "arrow",
    ".ipc": "arrow",
    ".feather": "arrow",
    ".csv": "csv",
    ".tsv": "tsv",
}
_FORMATS = {
    "parquet": "parquet",
    "arrow": "arrow",
    "ipc": "arrow",
    "feather": "arrow",
    "csv": "csv",
    "tsv": "tsv",
}
_COMPRESSED = (".gz", ".bz2", ".zst", ".lz4")
_MAGIC = {b"PAR1": "parquet", b"ARROW1": "arrow"}
_DELIMITER = {"csv": ",", "tsv": "\t"}
_HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
_BATCHES = Callable[[Sequence[str]], Iterator[pa.RecordBatch]]


# ------------------------------------------------------------------------------------ public


class Source:
    """An ordered stream of record batches, and what is known before reading it.

    Attributes
    ----------
    name : str
        What messages call it: a path, or the type of the object.
    schema : pyarrow.Schema
        Every column that can be asked for.
    rows : int or None
        Rows, where known without reading them.
    rereadable : bool
        Whether `batches` may be called more than once.
    """

    def __init__(
        self,
        name: str,
        schema: pa.Schema,
        read: _BATCHES,
        *,
        rows: int | None = None,
        rereadable: bool = True,
    ) -> None:
        self.name = name
        self.schema = schema
        self.rows = rows
        self.rereadable = rereadable
        self._read = read
        self._spent = False

    def __repr__(self) -> str:
        rows = "" if self.rows is None else f", {self.rows} rows"
        return f"<Source {self.name}: {len(self.schema)} columns{rows}>"

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Read the rows in their order, as batches of just these columns.

        Parameters
        ----------
        columns : sequence of str
            Distinct names; the batches carry them in this order.

        Returns
        -------
        iterator of pyarrow.RecordBatch
            Never of zero rows. In-memory data comes in its own chunks, without a copy.

        Raises
        ------
        ColumnError
            At the call, if a column is missing or its name occurs twice.
        SourceError
            At the call, if the source was read before and cannot be read again, or if its files
            disagree on a column; while reading, naming the file that cannot be read.
        """
        require_columns(self.schema, columns, source=self.name)
        if self._spent:
            raise SourceError(
                f"{self.name} can be read only once and was read before. "
                "Pass a table, a file or a fresh reader."
            )
        rows = self._read(columns)
        self._spent = not self.rereadable
        return (batch for batch in rows if batch.num_rows)


def open_source(source: object, *, format: str | None = None) -> Source:  # noqa: A002
    """Open a table, an Arrow stream, files or arrays as one stream of record batches.

    Parameters
    ----------
    source : object
        One of

        * pyarrow Table, RecordBatch, RecordBatchReader or Dataset;
        * a path or URI (``s3://...``) of a Parquet, Arrow IPC (file, stream, Feather 2), CSV or
          TSV file (these two also compressed, ``.csv.gz``); of a folder, read recursively with
          hive partitions (``day=3/``) as columns and hidden files (``.x``, ``_x``) left out; or
          a glob (``*``, ``?``, ``[...]``, ``**`` for any depth), files in natural order
          (``part-2`` before ``part-10``);
        * a list or tuple of such paths, read in the given order;
        * ``"-"``: an Arrow IPC stream on standard input;
        * any object with ``__arrow_c_stream__`` or ``__arrow_c_array__`` (pandas and polars
          frames, DuckDB relations);
        * a mapping of column name to one-dimensional array (NumPy, Arrow, or a sequence).
    format : {"parquet", "arrow", "ipc", "feather", "csv", "tsv"}, optional
        Format of the files. By default the suffix tells, else the first bytes.

    Returns
    -------
    Source

    Raises
    ------
    SourceError
        If it cannot be read, has no known format, or holds no file.
    ColumnError
        If an array of a mapping is not one-dimensional, or not as long as the others.
    ArgumentError
        If `format` is unknown, or given for something that is not a file.

    Examples
    --------
    >>> source = open_source({"user": np.array([1, 1, 2]), "click": np.array([0, 1, 1])})
    >>> source.rows
    3
    >>> [batch.num_rows for batch in source.batches(["click"])]
    [3]
    """
    if format is not None and format not in _FORMATS:
        known = ", ".join(_FORMATS)
        raise ArgumentError(f"format={format!r} is unknown.{near(format, _FORMATS)} Use {known}.")
    if isinstance(source, str) and source == "-":
        return _open_standard_input(format)
    if isinstance(source, (str, os.PathLike)):
        return _open_files([source], format)
    if isinstance(source, (list, tuple)):
        return _open_files(source, format)
    if format is not None:
        raise ArgumentError(
            f"format={format!r} applies to files; {_type_name(source)} needs none: leave it out."
        )
    if isinstance(source, pa.Table):
        return _open_table(source, _type_name(source))
    if isinstance(source, pa.RecordBatch):
        return _open_table(pa.Table.from_batches([source]), _type_name(source))
    if isinstance(source, pa.RecordBatchReader):
        return _open_reader(source, _type_name(source))
    if hasattr(source, "get_fragments") and hasattr(source, "scanner"):
        return _open_dataset(source)
    if isinstance(source, Mapping):
        return _open_arrays(source)
    if hasattr(source, "__arrow_c_stream__"):
        return _open_stream_object(source)
    if hasattr(source, "__arrow_c_array__"):
        with _foreign(_type_name(source)):
            return _open_table(pa.Table.from_batches([pa.record_batch(source)]), _type_name(source))
    raise SourceError(
        f"Cannot read rows from {_type_name(source)}. Pass a path, a pyarrow Table or reader, "
        "an object with __arrow_c_stream__ (pandas, polars, DuckDB), or a dict of arrays."
    )


def require_columns(
    schema: pa.Schema,
    names: Iterable[str],
    *,
    role: str | None = None,
    source: str | None = None,
) -> None:
    """Check that each column exists exactly once.

    Parameters
    ----------
    schema : pyarrow.Schema
    names : iterable of str
    role : str, optional
        The option that asked for the columns, such as ``"label"``; it begins the message.
    source : str, optional
        Name of the source, for the message.

    Raises
    ------
    ColumnError
        Names the first column that is missing, and the nearest one that is not.

    Examples
    --------
    >>> schema = pa.schema([("user", pa.int64()), ("label", pa.int8())])
    >>> require_columns(schema, ["lable"], role="label")
    Traceback (most recent call last):
    fastrank_eval.errors.ColumnError: label: no column 'lable'. Did you mean 'label'? \
Columns: user, label.
    """
    prefix = f"{role}: " if role else ""
    where = f" in {source}" if source else ""
    for name in names:
        times = len(schema.get_all_field_indices(name))
        if times > 1:
            raise ColumnError(
                f"{prefix}column {name!r} occurs {times} times{where}. Rename all but one."
            )
        if times == 0:
            shown = ", ".join(schema.names[:20]) or "none"
            more = f", and {len(schema) - 20} more" if len(schema) > 20 else ""
            raise ColumnError(
                f"{prefix}no column {name!r}{where}.{near(name, schema.names)} "
                f"Columns: {shown}{more}."
            )


# --------------------------------------------------------------------------------- in memory


def _type_name(value: object) -> str:
    kind = type(value)
    root = kind.__module__.partition(".")[0].lstrip("_")
    return kind.__qualname__ if root == "builtins" else f"{root}.{kind.__qualname__}"


def _first_line(error: BaseException) -> str:
    text = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    line = next(iter(text.strip().splitlines()), "").rstrip(".")
    return line or type(error).__name__


@contextmanager
def _foreign(name: str) -> Iterator[None]:
    """Errors of another library's export, whatever their type, as SourceError."""
    try:
        yield
    except (FastRankEvalError, pa.ArrowCancelled, MemoryError):
        raise
    except Exception as error:
        raise SourceError(
            f"Cannot read {name} as a table of Arrow columns: {_first_line(error)}. "
            "Pass a table whose columns Arrow can hold, or only the columns needed."
        ) from error


def _open_table(table: pa.Table, name: str) -> Source:
    def read(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        return iter(table.select(list(columns)).to_batches())

    return Source(name, table.schema, read, rows=table.num_rows)


def _select(reader: pa.RecordBatchReader, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    places = [reader.schema.get_field_index(name) for name in columns]
    for batch in reader:
        yield batch.select(places)


def _open_reader(reader: pa.RecordBatchReader, name: str) -> Source:
    def read(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        with _reading(name, "Produce the stream again."):
            yield from _select(reader, columns)

    return Source(name, reader.schema, read, rereadable=False)


def _open_stream_object(source: object) -> Source:
    """Anything with ``__arrow_c_stream__``; a container (it has a length) can be read again."""
    name = _type_name(source)
    with _foreign(name):
        first: list[pa.RecordBatchReader] = [pa.RecordBatchReader.from_stream(source)]

    def read(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        with _foreign(name):
            reader = first.pop() if first else pa.RecordBatchReader.from_stream(source)
            with reader:
                yield from _select(reader, columns)

    return Source(name, first[0].schema, read, rereadable=hasattr(source, "__len__"))


def _open_dataset(dataset: Any) -> Source:
    def read(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        names = list(columns)
        try:
            fragments = list(dataset.get_fragments())
        except ValueError:  # a filtered dataset hides its fragments: errors name no file then
            with _reading("the dataset", "Write the file again."):
                yield from dataset.scanner(
                    columns=names, batch_size=_BATCH_ROWS, **_SCAN_READAHEAD
                ).to_batches()
            return
        for fragment in fragments:
            with _reading(repr(getattr(fragment, "path", name)), "Write the file again."):
                yield from fragment.scanner(
                    schema=dataset.schema,
                    columns=names,
                    batch_size=_BATCH_ROWS,
                    **_SCAN_READAHEAD,
                ).to_batches()

    name = _type_name(dataset)
    return Source(name, dataset.schema, read)


def _open_arrays(arrays: Mapping[Any, Any]) -> Source:
    if not arrays:
        raise SourceError("The mapping holds no column. Pass {name: array, ...}.")
    columns: dict[str, Any] = {}
    for name, values in arrays.items():
        if not isinstance(name, str):
            raise ColumnError(f"Column name {name!r} is {_type_name(name)}: use a string.")
        columns[name] = _arrow_column(name, values)
    first, *others = columns
    for name in others:
        if len(columns[name]) != len(columns[first]):
            raise ColumnError(
                f"Column {name!r} has {len(columns[name])} rows, but column {first!r} has "
                f"{len(columns[first])}. Pass arrays of equal length."
            )
    return _open_table(pa.table(columns), "the mapping of arrays")


def _arrow_column(name: str, values: Any) -> Any:
    """One column of a mapping; a contiguous NumPy array of numbers is wrapped, not copied."""
    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        return values
    if isinstance(values, np.ndarray):
        if values.ndim != 1:
            raise ColumnError(
                f"Column {name!r} has shape {values.shape}: one-dimensional arrays only. "
                "Pass one array a column."
            )
        if not values.dtype.isnative:
            values = values.astype(values.dtype.newbyteorder("="))
    elif isinstance(values, (str, bytes)) or not hasattr(values, "__len__"):
        raise ColumnError(f"Column {name!r} is {_type_name(values)}: pass an array.")
    try:
        if not isinstance(values, np.ndarray) and hasattr(values, "__arrow_c_stream__"):
            return pa.chunked_array(values)
        return pa.array(values)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        kind = f"of dtype {values.dtype}" if hasattr(values, "dtype") else _type_name(values)
        raise ColumnError(
            f"Column {name!r} ({kind}) does not fit an Arrow type: {_first_line(error)}. "
            "Use numbers, booleans, strings or dates of one type."
        ) from error


def _open_standard_input(forced: str | None) -> Source:
    if forced is not None and _FORMATS[forced] != "arrow":
        raise ArgumentError(
            f"format={forced!r}: standard input ('-') is read as an Arrow IPC stream only. "
            "Pass the path of the file."
        )
    name = "standard input"
    remedy = "Pipe in an Arrow IPC stream (pyarrow.ipc.new_stream), complete to its end."
    stream = getattr(sys.stdin, "buffer", None)
    if stream is None or sys.stdin.isatty():
        raise SourceError(f"Nothing is piped into {name}. {remedy}")
    with _reading(name, remedy):
        reader = pa.ipc.open_stream(stream)
        _decode_names(reader.schema)

    def read(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        with _reading(name, remedy):
            yield from _checked(_select(reader, columns))

    return Source(name, reader.schema, read, rereadable=False)


def _decode_names(schema: pa.Schema) -> pa.Schema:
    """Decode the column names now, where a name that is no text can still be blamed on its file."""
    _ = schema.names
    return schema


def _checked(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Refuse what Arrow reads on trust: offsets and indices out of range, text that is no UTF-8."""
    for batch in batches:
        batch.validate(full=True)
        yield batch


@contextmanager
def _reading(name: str, remedy: str, file: _File | None = None) -> Iterator[None]:
    """Turn what Arrow and the system raise into a SourceError that names the file."""
    try:
        yield
    except (FastRankEvalError, pa.ArrowCancelled):
        raise
    except FileNotFoundError as error:
        raise SourceError(f"Cannot read {name}: no such file (any more).") from error
    except PermissionError as error:
        raise SourceError(
            f"Cannot read {name}: permission denied. Allow this user to read it."
        ) from error
    except (pa.ArrowException, OSError, EOFError, KeyError, UnicodeDecodeError) as error:
        state = _condition(file) if file else ""
        raise SourceError(f"Cannot read {name}: {state}{_first_line(error)}. {remedy}") from error


# ------------------------------------------------------------------------------------- paths


@dataclass(frozen=True)
class _File:
    filesystem: Any
    path: str
    name: str
    format: str
    partitions: dict[str, str | None] = field(default_factory=dict)

    @property
    def local(self) -> bool:
        return isinstance(self.filesystem, pafs.LocalFileSystem)


def _is_hidden(part: str) -> bool:
    return part.startswith((".", "_"))


def _natural(path: str) -> tuple[object, ...]:
    """Sort key, part by part of the path: part-2 comes before part-10."""
    keys = []
    for part in path.split("/"):
        pieces = re.split(r"([0-9]+)", part)
        pieces[1::2] = [f"{len(p.lstrip('0')):09d}{p.lstrip('0')}" for p in pieces[1::2]]
        keys.append(tuple(pieces))
    return (tuple(keys), path)


def _home(path: str) -> str:
    return str(Path(path).expanduser()) if path.startswith("~") else path


def _split_magic(path: str, characters: str) -> tuple[str, list[str]]:
    """Folder before the first part with a wildcard, and the parts from there."""
    parts = path.split("/")
    cut = next((i for i, part in enumerate(parts) if set(characters) & set(part)), len(parts))
    return "/".join(parts[:cut]) or ("/" if path.startswith("/") and cut else ""), parts[cut:]


def _list(filesystem: Any, folder: str, recursive: bool = False) -> list[Any]:
    return list(
        filesystem.get_file_info(
            pafs.FileSelector(folder or ".", recursive=recursive, allow_not_found=True)
        )
    )


def _match(filesystem: Any, folder: str, parts: list[str]) -> Iterator[Any]:
    """Find what the glob parts match below a folder; ``*`` leaves hidden names out."""
    if parts[0] == "**":
        if len(parts) == 1:
            yield filesystem.get_file_info(folder or ".")
            return
        yield from _match(filesystem, folder, parts[1:])
        for info in _list(filesystem, folder):
            if info.type == pafs.FileType.Directory and not _is_hidden(info.base_name):
                yield from _match(filesystem, info.path, parts)
        return
    matches = re.compile(fnmatch.translate(parts[0])).match
    for info in _list(filesystem, folder):
        base = info.base_name
        if not matches(base) or (_is_hidden(base) and not _is_hidden(parts[0])):
            continue
        if len(parts) == 1:
            yield info
        elif info.type == pafs.FileType.Directory:
            yield from _match(filesystem, info.path, parts[1:])


def _expand(place: str | os.PathLike[Any], forced: str | None) -> list[_File]:
    """List the files that a path, folder, glob or URI stands for, in order."""
    text = os.fsdecode(os.fspath(place))
    if not text:
        raise SourceError("The path is empty. Name a file, a folder or a glob.")
    scheme, separator, rest = text.partition("://")
    with _reading(repr(text), "Check the address, the credentials and the connection."):
        if separator:
            address, question, query = rest.partition("?")
            head, parts = _split_magic(address, "*[")
            filesystem, path = pafs.FileSystem.from_uri(f"{scheme}://{head}{question}{query}")
            prefix = "" if scheme == "file" else f"{scheme}://"
        else:
            filesystem, prefix = pafs.LocalFileSystem(), ""
            path, parts = _home(text).replace(os.sep, "/"), []
            if filesystem.get_file_info(path).type == pafs.FileType.NotFound:
                path, parts = _split_magic(path, "*?[")
        if parts:
            found = list(_match(filesystem, path, parts))
            if not found:
                raise SourceError(f"No file matches {text!r}. Check the folder and the pattern.")
        else:
            found = [filesystem.get_file_info(path)]
        return _collect(filesystem, prefix, found, text, forced)


def _collect(
    filesystem: Any, prefix: str, found: list[Any], text: str, forced: str | None
) -> list[_File]:
    files: dict[str, _File] = {}
    ignored: list[str] = []

    def add(info: Any, inside: bool) -> None:
        file = _identify(filesystem, info.path, prefix + info.path.removeprefix("./"), forced)
        if file:
            files[info.path] = file
        elif inside:
            ignored.append(info.base_name)
        else:
            raise SourceError(
                f"{prefix + info.path!r} is of no known format: neither its suffix nor its first "
                f"bytes tell. Pass format= ({', '.join(_FORMATS)})."
            )

    for info in found:
        if info.type == pafs.FileType.NotFound:
            folder = info.path.rpartition("/")[0]
            names = [other.base_name for other in _list(filesystem, folder)]
            raise SourceError(f"Cannot read {text!r}: no such file.{near(info.base_name, names)}")
        if info.type == pafs.FileType.File:
            add(info, inside=False)
        elif info.type == pafs.FileType.Directory:
            root = info.path.rstrip("/") + "/"
            for below in _list(filesystem, info.path, recursive=True):
                hidden = any(map(_is_hidden, below.path.removeprefix(root).split("/")))
                if below.type == pafs.FileType.File and not hidden:
                    add(below, inside=True)
        else:
            raise SourceError(
                f"{text!r} is a device or a pipe. Use '-' to read an Arrow stream from a pipe."
            )
    if not files:
        others = f" ({len(ignored)} of other kinds, such as {ignored[0]!r})" if ignored else ""
        raise SourceError(
            f"{text!r} holds no Parquet, Arrow or CSV file{others}. Check the folder, or pass "
            "the files themselves with format=."
        )
    return sorted(files.values(), key=lambda file: _natural(file.path))


def _identify(filesystem: Any, path: str, name: str, forced: str | None) -> _File | None:
    base = path.rpartition("/")[2].lower()
    kind = _FORMATS[forced] if forced else None
    if kind is None:
        plain = next((base[: -len(c)] for c in _COMPRESSED if base.endswith(c)), None)
        kind = _SUFFIXES.get(PurePosixPath(plain or base).suffix)
        if plain is not None and kind == "parquet":
            kind = None
        if kind is None:
            with _reading(repr(name), "Check the file."):
                kind = _sniff(filesystem, path)
    if kind is None:
        return None
    partitions: dict[str, str | None] = {}
    for part in path.split("/")[:-1]:
        key, equals, value = part.partition("=")
        if key and equals:
            partitions[unquote(key)] = None if value == _HIVE_NULL else unquote(value)
    return _File(filesystem, path, name, kind, partitions)


def _sniff(filesystem: Any, path: str) -> str | None:
    with filesystem.open_input_file(path) as handle:
        head = handle.read(8)
    return next((kind for magic, kind in _MAGIC.items() if head.startswith(magic)), None)


# ------------------------------------------------------------------------------------- files


def _open_files(places: Sequence[Any], forced: str | None) -> Source:
    files: list[_File] = []
    for place in places:
        if not isinstance(place, (str, os.PathLike)):
            raise SourceError(
                f"A list of sources holds {_type_name(place)}: paths only. "
                "Join tables first (pyarrow.concat_tables)."
            )
        files += _expand(place, forced)
    if not files:
        raise SourceError("The list of paths is empty. Name at least one file.")
    seen: set[str] = set()
    for file in files:
        if file.name in seen:
            raise SourceError(
                f"{file.name!r} is named twice: its rows would count twice. Name it once."
            )
        seen.add(file.name)
    name = repr(files[0].name) if len(files) == 1 else f"{places[0]!r} ({len(files)} files)"
    with ThreadPoolExecutor(max_workers=8) as pool:
        inspected = list(pool.map(_inspect, files))
    counts = [rows for _, rows in inspected if rows is not None]
    schemas = [schema for schema, _ in inspected]
    files = [_without_own(file, schema) for file, schema in zip(files, schemas, strict=True)]
    columns = _unify(files, schemas)

    def read(names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        for column in names:
            if columns.faults.get(column):
                raise SourceError(columns.faults[column])
        targets = {column: columns.schema.field(column).type for column in names}
        return (batch for file in files for batch in _read_file(file, targets))

    rows = sum(counts) if len(counts) == len(files) else None
    return Source(name, columns.schema, read, rows=rows)


def _without_own(file: _File, schema: pa.Schema) -> _File:
    """Drop the partition keys that the file holds as a column too: the column wins."""
    own = set(schema.names)
    return replace(file, partitions={k: v for k, v in file.partitions.items() if k not in own})


@dataclass(frozen=True)
class _Columns:
    """One schema for all files, and for each column they disagree on, the error to raise."""

    schema: pa.Schema
    faults: dict[str, str]


def _unify(files: Sequence[_File], schemas: Sequence[pa.Schema]) -> _Columns:
    types: dict[str, pa.DataType] = {}
    doubled: dict[str, pa.Field] = {}
    faults: dict[str, str] = {}
    text = all(file.format in _DELIMITER for file in files)
    hive = _hive_types(files)
    for file, schema in zip(files, schemas, strict=True):
        own = {key: hive[key] for key in file.partitions}
        for column in schema:
            if len(schema.get_all_field_indices(column.name)) > 1:
                doubled[column.name] = column
            kind = column.type
            own[column.name] = kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind
        for name in own.keys() ^ types.keys():
            if file is files[0]:
                break
            lacking, others = (file, own) if name in types else (files[0], schemas[0].names)
            faults.setdefault(
                name,
                f"Column {name!r} is missing in {lacking.name!r} but not in every file. Leave "
                f"that file out, or write it again with the column.{near(name, others)}",
            )
        for name, kind in own.items():
            common = _common_type(types.setdefault(name, kind), kind, text)
            if common is None:
                faults.setdefault(
                    name,
                    f"Column {name!r} is {kind} in {file.name!r} but {types[name]} in the files "
                    "before it. Write the files with one type.",
                )
            else:
                types[name] = common
    fields = [pa.field(name, kind) for name, kind in types.items()]
    return _Columns(pa.schema(fields + list(doubled.values())), faults)


def _common_type(a: pa.DataType, b: pa.DataType, text: bool) -> pa.DataType | None:
    """Find the type that holds both, if there is one (for CSV files at worst the text)."""
    if a.equals(b):
        return a
    a, b = (kind.value_type if pa.types.is_dictionary(kind) else kind for kind in (a, b))
    pair = [
        pa.large_string() if pa.types.is_string_view(kind) and not a.equals(b) else kind
        for kind in (a, b)
    ]
    if any(map(pa.types.is_boolean, pair)) and any(map(pa.types.is_integer, pair)) and not text:
        return next(filter(pa.types.is_integer, pair))
    try:
        merged = pa.unify_schemas(
            [pa.schema([("", kind)]) for kind in pair], promote_options="permissive"
        )
    except pa.ArrowException:
        return pa.string() if text else None
    return merged.field(0).type


def _hive_types(files: Sequence[_File]) -> dict[str, pa.DataType]:
    """int64 where every value of a partition key is one, else string."""
    values: dict[str, set[str]] = {}
    for file in files:
        for key, value in file.partitions.items():
            values.setdefault(key, set()).update([] if value is None else [value])
    return {
        key: pa.int64()
        if found and all(re.fullmatch(r"-?[0-9]{1,18}", value) for value in found)
        else pa.string()
        for key, found in values.items()
    }


def _remedy(file: _File) -> str:
    if file.format in _DELIMITER:
        return (
            "Correct that line. Column types come from the first lines of the file: if they "
            "mislead, write it as Parquet."
        )
    return "Write or copy the file again."


def _condition(file: _File) -> str:
    """Tell from its first and last bytes why a file cannot be read."""
    try:
        with file.filesystem.open_input_file(file.path) as handle:
            size = handle.size()
            head = handle.read(8)
            handle.seek(max(0, size - 6))
            tail = handle.read(6)
    except (pa.ArrowException, OSError):
        return ""
    if size == 0:
        return "it is empty (0 bytes): "
    kind = next((kind for magic, kind in _MAGIC.items() if head.startswith(magic)), None)
    if head.startswith(b"FEA1"):
        return "it is Feather version 1 (write it as version 2): "
    if kind not in (None, file.format):
        return f"it is read as {file.format} but begins like {kind} (pass format={kind!r}): "
    if file.format == "parquet":
        if kind is None:
            return "it does not begin like a Parquet file: "
        return "it is corrupt: " if tail.endswith(b"PAR1") else "it is truncated (no footer): "
    if kind == "arrow" and tail != b"ARROW1":
        return "it is truncated (no footer): "
    return "it is truncated or corrupt: " if file.format == "arrow" else ""


def _inspect(file: _File) -> tuple[pa.Schema, int | None]:
    """Read the schema, and the number of rows where the metadata tells."""
    with _reading(repr(file.name), _remedy(file), file):
        if file.format == "parquet":
            with _parquet(file) as parquet:
                return _decode_names(parquet.schema_arrow), parquet.metadata.num_rows
        if file.format == "arrow":
            with _arrow(file) as (reader, _):
                return _decode_names(reader.schema), None
        return _decode_names(_csv_schema(file)), None


def _read_file(file: _File, targets: dict[str, pa.DataType]) -> Iterator[pa.RecordBatch]:
    readers = {"parquet": _read_parquet, "arrow": _read_arrow}
    with _reading(repr(file.name), _remedy(file), file):
        for batch in readers.get(file.format, _read_csv)(file, targets):
            yield _conform(batch, file, targets)


def _conform(batch: pa.RecordBatch, file: _File, targets: dict[str, pa.DataType]) -> pa.RecordBatch:
    """Give the asked columns their order and type, and fill in partition columns."""
    arrays = []
    for name, target in targets.items():
        if name in batch.schema.names:
            array = batch.column(name)
            try:
                arrays.append(array if array.type.equals(target) else array.cast(target))
            except pa.ArrowException as error:
                raise SourceError(
                    f"Column {name!r} of {file.name!r} is {array.type} and does not fit the type "
                    f"{target} that the files share: {_first_line(error)}. "
                    "Write the files with one type."
                ) from error
        else:
            value = pa.scalar(file.partitions[name], pa.string()).cast(target)
            arrays.append(pa.repeat(value, batch.num_rows))
    return pa.RecordBatch.from_arrays(arrays, list(targets))


# ----------------------------------------------------------------------------------- formats


@contextmanager
def _parquet(file: _File) -> Iterator[Any]:
    # Not memory mapped: a file cut short while it is read would kill the process (SIGBUS).
    # Not through a dataset scan: it decodes whole row groups ahead, so memory follows the file.
    with (
        file.filesystem.open_input_file(file.path) as handle,
        papq.ParquetFile(
            handle,
            buffer_size=_READ_BUFFER[file.local],
            pre_buffer=False,
            page_checksum_verification=True,
        ) as parquet,
    ):
        yield parquet


def _read_parquet(file: _File, names: Iterable[str]) -> Iterator[pa.RecordBatch]:
    with _parquet(file) as parquet:
        own = [name for name in names if name in parquet.schema_arrow.names]
        yield from _checked(parquet.iter_batches(batch_size=_BATCH_ROWS, columns=own))


@contextmanager
def _arrow(file: _File, names: Iterable[str] = ()) -> Iterator[tuple[Any, bool]]:
    """Reader of an IPC file or stream, told apart by the first bytes."""
    if _sniff(file.filesystem, file.path) is None:
        with (
            file.filesystem.open_input_stream(file.path, compression="detect") as handle,
            pa.ipc.open_stream(handle) as reader,
        ):
            yield reader, False
        return
    with file.filesystem.open_input_file(file.path) as handle:
        with pa.ipc.open_file(handle) as reader:
            schema = reader.schema
        wanted = sorted(i for name in names for i in schema.get_all_field_indices(name))
        options = pa.ipc.IpcReadOptions(included_fields=wanted)
        with pa.ipc.open_file(handle, options=options) as reader:
            yield reader, True


def _read_arrow(file: _File, names: Iterable[str]) -> Iterator[pa.RecordBatch]:
    with _arrow(file, names) as (reader, seekable):
        if seekable:
            yield from _checked(map(reader.get_batch, range(reader.num_record_batches)))
        else:
            own = [name for name in names if name in reader.schema.names]
            yield from _checked(_select(reader, own))


def _csv_options(file: _File, targets: dict[str, pa.DataType]) -> dict[str, Any]:
    return {
        "parse_options": pacsv.ParseOptions(delimiter=_DELIMITER[file.format]),
        # "nan" is not among the nulls: a NaN score is a fault, not a missing row.
        "convert_options": pacsv.ConvertOptions(
            null_values=["", "NULL", "null", "\\N"],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            include_columns=list(targets) or None,
            column_types=targets or None,
        ),
    }


def _csv_schema(file: _File) -> pa.Schema:
    """Names and types from the first lines, cut at a line end."""
    parts, size = [], 0
    with file.filesystem.open_input_stream(file.path, compression="detect") as handle:
        while size < _CSV_SAMPLE and (part := handle.read(_CSV_SAMPLE - size)):
            parts.append(part)
            size += len(part)
    sample = b"".join(parts)
    if size >= _CSV_SAMPLE:
        sample = sample[: sample.rfind(b"\n") + 1] or sample
    return pacsv.read_csv(pa.BufferReader(sample), **_csv_options(file, {})).schema


def _read_csv(file: _File, targets: dict[str, pa.DataType]) -> Iterator[pa.RecordBatch]:
    own = {name: kind for name, kind in targets.items() if name not in file.partitions}
    with file.filesystem.open_input_stream(file.path, compression="detect") as handle:
        yield from pacsv.open_csv(handle, **_csv_options(file, own))
