"""List the files of a path, folder, glob or URI."""

from __future__ import annotations

import fnmatch
import os
import posixpath
import re
from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import field
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.fs as pafs

from fastrank_eval._lib.arguments import is_text
from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.errors import SourceError, clean_address, near
from fastrank_eval.io.source import reading

#: The reader of each format name.
FORMATS = {
    "parquet": "parquet",
    "arrow": "arrow",
    "ipc": "arrow",
    "feather": "arrow",
    "csv": "csv",
    "tsv": "tsv",
}
_SUFFIXES = {f".{name}": kind for name, kind in FORMATS.items()} | {
    ".parq": "parquet",
    ".pq": "parquet",
    ".arrows": "arrow",
}
_COMPRESSED = (".gz", ".bz2", ".zst", ".lz4")
_MAGIC = {b"PAR1": "parquet", b"ARROW1": "arrow"}
_HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True)
class File:
    """One file to read.

    Attributes
    ----------
    filesystem : pyarrow.fs.FileSystem
    path : str
        Path in the file system.
    name : str
        Name in messages.
    format : {"parquet", "arrow", "csv", "tsv"}
    partitions : dict of str to str or None
        Columns of the folders of its path (``day=3/``); None is a null.
    text : frozenset of str
        Columns that are text, exactly as written, if the format has no types.
    """

    filesystem: Any
    path: str
    name: str
    format: str
    partitions: dict[str, str | None] = field(default_factory=dict)
    text: frozenset[str] = frozenset()

    @property
    def identity(self) -> Hashable:
        """What is equal for all names of the file."""
        if isinstance(self.filesystem, pafs.LocalFileSystem):
            return identity_of(self.path)
        return posixpath.normpath(self.name)


def refuse_repeated(names: Iterable[tuple[Hashable, str]]) -> None:
    """Refuse a file that has two names: its rows would count twice.

    Parameters
    ----------
    names : iterable of (hashable, str)
        The identity of each file, equal for all its names, and its name in messages.

    Raises
    ------
    SourceError
        With both names.
    """
    first_names: dict[Hashable, str] = {}
    for identity, name in names:
        first = first_names.get(identity)
        if first == name:
            raise SourceError(f"{name!r} is named twice: its rows would count twice. Name it once.")
        if first is not None:
            raise SourceError(
                f"{first!r} and {name!r} are one file, by a link or by another spelling of its "
                "path: its rows would count twice. Name it once; if both lie in one folder, take "
                "the link out, or name files."
            )
        first_names[identity] = name


def identity_of(path: str | os.PathLike[str]) -> Hashable:
    """Return what is equal for all names of a local file.

    Device and inode, or the path without links where there is no inode.
    """
    with suppress(OSError):
        status = os.stat(path)  # noqa: PTH116 - a Path takes twice as long
        if status.st_ino:
            return status.st_dev, status.st_ino
    return os.path.realpath(path)


def format_of_bytes(head: bytes) -> str | None:
    """Return the format of the first bytes of a file, or None."""
    return next((kind for magic, kind in _MAGIC.items() if head.startswith(magic)), None)


def sniff(filesystem: Any, path: str) -> str | None:
    """Read the first bytes of a file and return their format, or None."""
    with filesystem.open_input_file(path) as handle:
        return format_of_bytes(handle.read(8))


def expand(path_or_glob: str | os.PathLike[Any], format_name: str | None) -> list[File]:
    """List the files of a path, folder, glob or URI, in order."""
    text = os.fsdecode(os.fspath(path_or_glob))
    if not text:
        raise SourceError("The path is empty. Name a file, a folder or a glob.")
    if not is_text(text):
        raise SourceError(
            f"Cannot read {text!r}: its name is not UTF-8, and Arrow opens no such file. Rename it."
        )
    scheme, separator, rest = text.partition("://")
    with reading(repr(text), "Check the address, the credentials and the connection."):
        if separator:
            address, question, query = rest.partition("?")
            head, parts = _split_magic(address, "*[")
            filesystem, path = _open_uri(f"{scheme}://{head}{question}{query}")
            prefix = "" if scheme == "file" else f"{scheme}://"
        else:
            filesystem, prefix = pafs.LocalFileSystem(), ""
            path = str(Path(text).expanduser()) if text.startswith("~") else text
            path, parts = path.replace(os.sep, "/"), []
            if filesystem.get_file_info(path).type == pafs.FileType.NotFound:
                path, parts = _split_magic(path, "*?[")
        if parts:
            infos = list(_match(filesystem, path, parts))
            if not infos:
                raise SourceError(f"No file matches {text!r}. Check the folder and the pattern.")
        else:
            infos = [filesystem.get_file_info(path)]
        return _collect(filesystem, prefix, infos, text, format_name)


def _open_uri(uri: str) -> tuple[Any, str]:
    """Return file system and path of a URI; errors show no password."""
    try:
        return pafs.FileSystem.from_uri(uri)
    except (pa.ArrowException, OSError) as error:
        text = str(error).replace(uri, clean_address(uri))
        raise type(error)(text) from None


def would_read(
    path_or_glob: str, target: Path, format_name: str | None, arrow: bool = False
) -> bool:
    """Return whether reading a path, folder or glob would read a file.

    Parameters
    ----------
    path_or_glob : str
        As of `expand`.
    target : pathlib.Path
        The file, links resolved; it may not exist yet.
    format_name : str or None
        As of `expand`.
    arrow : bool
        Whether the file begins like Arrow, with any suffix.
    """
    if path_or_glob == "-" or "://" in path_or_glob:
        return False
    path, parts = str(Path(path_or_glob).expanduser()), list[str]()
    if not Path(path).exists():
        path, parts = _split_magic(path.replace(os.sep, "/"), "*?[")
    folder = os.path.realpath(path or ".")
    if not target.is_relative_to(folder):
        return False
    inside = list(target.relative_to(folder).parts)
    has_format = format_name is not None or arrow or _format_by_suffix(target.name) is not None
    return has_format and _matches(inside, parts)


def _matches(names: Sequence[str], parts: Sequence[str]) -> bool:
    """Return whether glob parts match a path below a folder.

    A match of a folder of this path counts too.
    """
    if not parts:
        return not any(map(_is_hidden, names))
    if not names:
        return False
    name, hidden = names[0], _is_hidden(names[0])
    if parts[0] == "**":
        return _matches(names, parts[1:]) or (not hidden and _matches(names[1:], parts))
    is_match = re.match(fnmatch.translate(parts[0]), name) is not None
    return is_match and (not hidden or _is_hidden(parts[0])) and _matches(names[1:], parts[1:])


def _is_hidden(part: str) -> bool:
    return part.startswith((".", "_"))


def _natural(path: str) -> tuple[object, ...]:
    """Return a sort key in natural order: part-2 comes before part-10."""
    keys = []
    for name in path.split("/"):
        tokens = re.split(r"([0-9]+)", name)
        tokens[1::2] = [f"{len(p.lstrip('0')):09d}{p.lstrip('0')}" for p in tokens[1::2]]
        keys.append(tuple(tokens))
    return (tuple(keys), path)


def _split_magic(path: str, characters: str) -> tuple[str, list[str]]:
    """Split a path at the first part with a wildcard."""
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
    """Find the paths below a folder that match glob parts.

    ``*`` skips hidden names.
    """
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


def _collect(
    filesystem: Any, prefix: str, infos: list[Any], text: str, format_name: str | None
) -> list[File]:
    files: dict[str, File] = {}
    ignored: list[str] = []

    def add(info: Any, inside: bool) -> None:
        file = _identify(filesystem, info.path, prefix + info.path.removeprefix("./"), format_name)
        if file:
            files[info.path] = file
        elif inside:
            ignored.append(info.base_name)
        else:
            raise SourceError(
                f"{prefix + info.path!r} is of no known format: neither its suffix nor its first "
                "bytes show one. Pass format='parquet', 'arrow', 'csv' or 'tsv'."
            )

    for info in infos:
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
            f"{text!r} has no Parquet, Arrow or CSV file{others}. Check the folder, or pass "
            "the files themselves with format=..."
        )
    return sorted(files.values(), key=lambda file: _natural(file.path))


def _identify(filesystem: Any, path: str, name: str, format_name: str | None) -> File | None:
    kind = FORMATS[format_name] if format_name else _format_by_suffix(path)
    if kind is None:
        with reading(repr(name), "Check the file."):
            kind = sniff(filesystem, path)
    return File(filesystem, path, name, kind, _partitions(path)) if kind else None


def _format_by_suffix(path: str) -> str | None:
    base = PurePosixPath(path.rpartition("/")[2].lower())
    if base.suffix not in _COMPRESSED:
        return _SUFFIXES.get(base.suffix)
    kind = _SUFFIXES.get(PurePosixPath(base.stem).suffix)
    return None if kind == "parquet" else kind


def _partitions(path: str) -> dict[str, str | None]:
    pairs = [part.partition("=") for part in path.split("/")[:-1]]
    return {
        unquote(key): None if value == _HIVE_NULL else unquote(value)
        for key, equals, value in pairs
        if key and equals
    }


def folder_of(file: File, key: str) -> str:
    """Return the folder of a file's path with a partition key."""
    folders = reversed(file.path.split("/")[:-1])
    return next(part for part in folders if unquote(part.partition("=")[0]) == key)
