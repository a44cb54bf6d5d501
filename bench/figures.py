"""Figures of how large and how tangled the code is: ``make figures`` writes bench/FIGURES.md."""

from __future__ import annotations

import argparse
import ast
import io
import sys
import threading
import tokenize
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import FrameType

ROOT = Path(__file__).parent.parent
NAME = "fastrank_eval"
PACKAGE = ROOT / NAME
REPORT = ROOT / "bench" / "FIGURES.md"


def python_files(folder: Path = PACKAGE) -> list[Path]:
    """List the Python files of a folder and those below it."""
    return sorted(folder.rglob("*.py"))


def code_lines(source: str) -> int:
    r"""Count lines without docstrings, comments and blanks.

    Examples
    --------
    >>> code_lines('"A docstring."\n\nx = 1  # one\n# two\ny = (\n    2\n)\n')
    4
    """
    docstrings: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                docstrings.update(range(first.lineno, (first.end_lineno or 0) + 1))
    blank = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in (*blank, tokenize.ENDMARKER):
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - docstrings)


def sizes(files: Iterable[Path]) -> dict[str, tuple[int, int]]:
    """Count files and code lines by package; files outside of any are under ``.``."""
    found: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for path in files:
        inside = path.relative_to(PACKAGE).parts
        package = inside[0] if len(inside) > 1 else "."
        found[package][0] += 1
        found[package][1] += code_lines(path.read_text(encoding="utf-8"))
    return {package: (count, lines) for package, (count, lines) in sorted(found.items())}


def module_of(path: Path) -> str:
    """Name the module of a file."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(files: Iterable[Path]) -> dict[str, set[str]]:
    """Map each module to those of the package that it imports, anywhere and for any reason."""
    paths = {module_of(path): path for path in files}
    edges: dict[str, set[str]] = {}
    for module, path in paths.items():
        names = _imported(ast.parse(path.read_text(encoding="utf-8")), module, path)
        edges[module] = {name for name in (_longest(n, paths) for n in names) if name} - {module}
    return edges


def _imported(tree: ast.Module, module: str, path: Path) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                up = node.level - (path.name == "__init__.py")
                start = ".".join(module.split(".")[: -up or None])
                base = f"{start}.{base}".rstrip(".")
            yield from (f"{base}.{alias.name}" for alias in node.names)


def _longest(name: str, modules: Mapping[str, Path]) -> str:
    """Cut a dotted name down to a module."""
    while name and name not in modules:
        name = name.rpartition(".")[0]
    return name


def circles(edges: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """Find the strongly connected sets of more than one module, the largest first.

    Examples
    --------
    >>> circles({"a": ["b"], "b": ["c"], "c": ["a"], "d": ["a"]})
    [['a', 'b', 'c']]
    """
    reach = {start: _reached(start, edges) for start in edges}
    sets = {
        tuple(sorted(other for other in those if start in reach.get(other, ())))
        for start, those in reach.items()
    }
    return sorted((list(one) for one in sets if len(one) > 1), key=lambda one: (-len(one), one))


def _reached(start: str, edges: Mapping[str, Iterable[str]]) -> set[str]:
    seen: set[str] = set()
    waiting = list(edges[start])
    while waiting:
        module = waiting.pop()
        if module not in seen:
            seen.add(module)
            waiting += edges.get(module, ())
    return seen


def entered(call: Callable[[], object]) -> list[Path]:
    """List the files of the package that have a function entered during a call."""
    names: set[str] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            names.add(frame.f_code.co_filename)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    paths = (Path(name) for name in names if name.startswith(str(PACKAGE)))
    return sorted(path for path in paths if path.exists())


def walks() -> dict[str, int]:
    """Count the files that one score crosses, by measure.

    Numba's kernels count as entered where Python calls the functions that call them. The call is
    made once before, so that imports and compilation are not counted.
    """
    import numpy as np
    import pyarrow as pa

    import fastrank_eval as fe

    rows = np.arange(1000)
    table = pa.table({"user": rows // 10, "click": rows * 7 % 11 < 3, "score": rows * 37 % 101})
    counts = {}
    for measure in ("GAUC", "AUC"):

        def call(measure: str = measure) -> None:
            fe.evaluate(table, group="user", label="click", score="score", measures=measure)

        call()
        counts[measure] = len(entered(call))
    return counts


def recipe() -> tuple[str, list[str]]:
    """Find the measure that the fewest Python files name, and those files.

    A new measure changes them: a file that had to name every measure would be among them.
    """
    from fastrank_eval.measures import MEASURES

    words = {
        path: _words(path) for folder in (PACKAGE, ROOT / "tests") for path in python_files(folder)
    }
    named = {
        measure: [path.relative_to(ROOT).as_posix() for path in words if measure in words[path]]
        for measure in MEASURES
    }
    # Without the measures that follow from others, as GroupPPV from PPV.
    defined = [
        name for name, files in named.items() if any("eval/measures/" in file for file in files)
    ]
    least = min(defined, key=lambda measure: len(named[measure]))
    return least, named[least]


def _words(path: Path) -> set[str]:
    """List the names and the first words of texts in a file."""
    words = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Name):
            words.add(node.id)
        elif isinstance(node, ast.ClassDef | ast.alias):
            words.add(node.name)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            words.add(node.value.split("(")[0].split("@")[0])
    return words


def report() -> str:
    """Write all figures as Markdown."""
    files = python_files()
    by_package = sizes(files)
    rings = circles(imports(files))
    lengths = Counter({path: len(path.read_text("utf-8").splitlines()) for path in files})
    crossed = walks()
    least, changed = recipe()
    architecture = len((ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").splitlines())
    rows: list[tuple[str, object]] = [
        ("files directly in the package", by_package.get(".", (0, 0))[0]),
        ("Python files in the package", len(files)),
        ("code lines in the package", sum(lines for _, lines in by_package.values())),
        ("files in import circles, type-checking imports counted", sum(map(len, rings))),
        ("import circles", ", ".join(str(len(one)) for one in rings) or "none"),
        ("files of more than 600 lines", sum(lines > 600 for lines in lengths.values())),
        ("files of fewer than 100 lines", sum(lines < 100 for lines in lengths.values())),
        *((f'files entered by evaluate(measures="{name}")', n) for name, n in crossed.items()),
        ("files that a new measure changes", len(changed)),
        ("lines of ARCHITECTURE.md", architecture),
    ]
    lines = [
        "# Size and shape of the code",
        "",
        "Written by `make figures`. Code lines have no docstrings, comments and blanks.",
        "",
        "| figure | |",
        "| --- | ---: |",
        *(
            f"| {name} | {value:,} |" if isinstance(value, int) else f"| {name} | {value} |"
            for name, value in rows
        ),
        "",
        "| package | files | code lines |",
        "| --- | ---: | ---: |",
        *(f"| {name} | {count:,} | {code:,} |" for name, (count, code) in by_package.items()),
        "",
        f"Files that name {least}, the measure in the fewest: {', '.join(changed)}.",
        "",
    ]
    lines += [f"Circle of {len(one)}: {', '.join(_short(m) for m in one)}.\n" for one in rings]
    return "\n".join(lines).rstrip("\n") + "\n"


def _short(module: str) -> str:
    return module.removeprefix(f"{NAME}.")


def main(arguments: list[str] | None = None) -> None:
    """Write the figures, or print them alone."""
    parser = argparse.ArgumentParser(prog="python -m bench.figures", description=__doc__)
    parser.add_argument("--print", action="store_true", help="print them, write no file")
    options = parser.parse_args(arguments)
    text = report()
    if options.print:
        sys.stdout.write(text)
    else:
        REPORT.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
