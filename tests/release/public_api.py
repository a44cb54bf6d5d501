"""Compare the public names of two versions of the package, with griffe.

``python -m tests.release.public_api OLD NEW`` compares two folders that hold the package. Modules
are read, not imported. The exit code is 1 if the newer one breaks the older one.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import griffe

PACKAGE = "fastrank_eval"
#: Modules that users import by name.
DOORS = ("integrations", "spark", "testing", "trec")
#: Its fields are the parameters of `evaluate` that other functions pass on.
PARAMETERS = f"{PACKAGE}.engine.option_types.CompareOptions"


def read_package(folder: Path) -> griffe.Module:
    """Read the package of a folder, with its stubs."""
    found = griffe.load(
        PACKAGE,
        search_paths=[folder.resolve()],
        try_relative_path=False,  # the package of the working folder
        resolve_aliases=True,
        resolve_implicit=True,
    )
    if not isinstance(found, griffe.Module):
        raise SystemExit(f"{folder}: has no package {PACKAGE}")
    return found


def public_paths(package: griffe.Module) -> set[str]:
    """The full names of all that users reach, where they are defined."""
    modules = [package, *(package.members[name] for name in DOORS if name in package.members)]
    paths = {PARAMETERS}
    for module in modules:
        for name, member in module.members.items():
            if isinstance(member, griffe.Alias):
                # Classes of measures have private names in the stub.
                paths |= {member.path, member.target_path}
            elif not member.is_module and not name.startswith("_"):
                paths.add(member.path)
    return {path for path in paths if path.startswith(PACKAGE)}


def breaking_changes(old: griffe.Module, new: griffe.Module) -> Iterator[str]:
    """Describe each change of a public name that breaks its users."""
    public = public_paths(old)
    found = set()
    for breakage in griffe.find_breaking_changes(old, new):
        path = breakage.obj.path
        if any(path == one or path.startswith(f"{one}.") for one in public):
            found.add(f"{path}: {_text(breakage)}")
    yield from sorted(found)


def _text(breakage: griffe.Breakage) -> str:
    old, new = (_shown(one) for one in (breakage.old_value, breakage.new_value))
    return f"{breakage.kind.value}: {old or 'nothing'} -> {new or 'nothing'}"


def _shown(value: object) -> str:
    if isinstance(value, griffe.Parameter):
        return value.name if value.default is None else f"{value.name}={value.default}"
    return "" if value is None else str(getattr(value, "name", value))


def main(old: str, new: str) -> int:
    """Print the breaking changes; return the exit code."""
    changes = list(breaking_changes(read_package(Path(old)), read_package(Path(new))))
    print("".join(f"{change}\n" for change in changes), end="")  # noqa: T201
    return int(bool(changes))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
