"""Figures of how large and how tangled the code is: ``make figures`` writes bench/FIGURES.md.

They take the code as it stands: nothing here lists files or classes of the package, but for
`CHECKS`, the files that look at arguments.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import threading
import tokenize
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
NAME = "fastrank_eval"
PACKAGE = ROOT / NAME
REPORT = ROOT / "bench" / "FIGURES.md"
#: Written by .ci/run and .ci/full: a stage and its seconds a line.
STAGES = ("build/ci_run.txt", "build/ci_full.txt")
#: Files whose calls are checks of arguments, wherever they are; so are functions that check.
CHECKS = ("arguments.py", "options.py", "config_checks.py")
CHECKING = ("check", "require", "refuse")


def python_files(folder: Path = PACKAGE) -> list[Path]:
    """List the Python files of a folder and those below it."""
    return sorted(folder.rglob("*.py"))


def docstrings(tree: ast.AST) -> list[ast.stmt]:
    """List the statements that are docstrings."""
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    first = [node.body[0] for node in ast.walk(tree) if isinstance(node, kinds) and node.body]
    texts = [one for one in first if isinstance(one, ast.Expr)]
    return [one for one in texts if isinstance(one.value, ast.Constant)]


def code_lines(source: str) -> int:
    r"""Count lines without docstrings, comments and blanks.

    Examples
    --------
    >>> code_lines('"A docstring."\n\nx = 1  # one\n# two\ny = (\n    2\n)\n')
    4
    """
    blank = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in (*blank, tokenize.ENDMARKER):
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in docstrings(ast.parse(source)):
        lines.difference_update(range(node.lineno, (node.end_lineno or 0) + 1))
    return len(lines)


def size(source: str) -> Counter[str]:
    r"""Count what a file is made of; a statement may take many lines, docstrings are none.

    Examples
    --------
    >>> dict(size('"A docstring."\nif x:\n    y = 1; z = 2\n'))
    {'files': 1, 'code lines': 2, 'statements': 3, 'classes': 0, 'functions': 0}
    """
    tree = ast.parse(source)
    nodes = [*ast.walk(tree)]
    return Counter(
        {
            "files": 1,
            "code lines": code_lines(source),
            "statements": sum(isinstance(n, ast.stmt) for n in nodes) - len(docstrings(tree)),
            "classes": sum(isinstance(n, ast.ClassDef) for n in nodes),
            "functions": sum(isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef) for n in nodes),
        }
    )


def sizes(files: Iterable[Path]) -> dict[str, Counter[str]]:
    """Count what each package is made of; files outside of any are under ``.``."""
    found: dict[str, Counter[str]] = {}
    for path in files:
        inside = path.relative_to(PACKAGE).parts
        total = found.setdefault(inside[0] if len(inside) > 1 else ".", Counter())
        total.update(size(path.read_text(encoding="utf-8")))
    return dict(sorted(found.items()))


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


class Call(NamedTuple):
    """A Python function that was entered."""

    path: Path
    function: str
    types: frozenset[type]  # of its arguments


def trace(call: Callable[[], object]) -> list[Call]:
    """List the functions of the package that a call enters, in their order."""
    found: list[Call] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(PACKAGE)):
            values = frame.f_locals.values()
            kinds = (value if isinstance(value, type) else type(value) for value in values)
            own = frozenset(kind for kind in kinds if kind.__module__.startswith(NAME))
            found.append(Call(Path(code.co_filename), code.co_name, own))

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return [one for one in found if one.path.exists()]


def evaluation(measure: str, rows: int) -> list[Call]:
    """List the functions that one score crosses, after imports and compilation.

    Numba's kernels count as entered where Python calls the functions that call them.
    """
    import numpy as np
    import pyarrow as pa

    import fastrank_eval as fe

    row = np.arange(rows)
    table = pa.table({"user": row // 10, "click": row * 7 % 11 < 3, "score": row * 37 % 101})

    def call() -> None:
        fe.evaluate(table, group="user", label="click", score="score", measures=measure)

    call()
    return trace(call)


def entered(calls: Iterable[Call]) -> list[Path]:
    """List the files that have a function entered."""
    return sorted({one.path for one in calls})


def checks(calls: Iterable[Call]) -> int:
    """Count the calls that look at arguments."""
    return sum(
        one.path.name in CHECKS or one.function.lstrip("_").startswith(CHECKING) for one in calls
    )


def before_kernels(calls: list[Call]) -> list[Call]:
    """Cut calls before the first one of a kernel."""
    kernel = [one.path.name == "jit.py" and one.function == "__call__" for one in calls]
    return calls[: kernel.index(True)]


def option_lists(least: int = 8) -> dict[str, set[str]]:
    """Map the places that list at least so many options of `evaluate` to these options.

    A place is the parameters of a function, the fields of a class, the texts in a tuple, list or
    dict, or the calls of a file that have the names of options among their arguments.
    """
    import inspect

    from fastrank_eval import evaluate

    names = {*inspect.signature(evaluate).parameters} - {"source"}
    found: dict[str, set[str]] = {}
    for path in python_files():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            listed = names & {text.replace("-", "_").lstrip("_") for text in _listed(node)}
            if len(listed) >= least:
                name = getattr(node, "name", f"line {getattr(node, 'lineno', 0)}")
                place = path.relative_to(PACKAGE).as_posix()
                if not isinstance(node, ast.Module):
                    place = f"{place} {name}"
                found.setdefault(place, set()).update(listed)
    return found


def _listed(node: ast.AST) -> Iterator[str]:
    """List the names that a syntax node has."""
    if isinstance(node, ast.FunctionDef):
        yield from (one.arg for one in [*node.args.args, *node.args.kwonlyargs])
    elif isinstance(node, ast.ClassDef):
        yield from (
            one.target.id
            for one in node.body
            if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)
        )
    elif isinstance(node, ast.Dict | ast.Tuple | ast.List | ast.Set | ast.Module):
        values: Iterable[ast.AST | None]
        if isinstance(node, ast.Module):
            calls = [one for one in ast.walk(node) if isinstance(one, ast.Call)]
            values = [value for one in calls for value in one.args]
        else:
            values = node.keys if isinstance(node, ast.Dict) else node.elts
        for value in values:
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield value.value


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
    """List the names and the first words of texts and of lines of tables in a file."""
    words = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Name):
            words.add(node.id)
        elif isinstance(node, ast.ClassDef | ast.alias):
            words.add(node.name)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            words.add(node.value.split("(")[0].split("@")[0])
            words.update(re.findall(r"^(\w+) +[.(@]", node.value, re.MULTILINE))
    return words


def report() -> str:
    """Write all figures as Markdown."""
    files = python_files()
    tests = python_files(ROOT / "tests")
    texts = {path: path.read_text(encoding="utf-8").splitlines() for path in [*files, *tests]}
    by_package = sizes(files)
    total = sum(by_package.values(), Counter())
    rings = circles(imports(files))
    gauc, auc = (evaluation(measure, 1000) for measure in ("GAUC", "AUC"))
    small = evaluation("GAUC", 100)
    first = before_kernels(small)
    places = option_lists()
    least, changed = recipe()
    rows: list[tuple[str, object]] = [
        *((f"{name} of the package", number) for name, number in total.items()),
        ("files directly in the package", by_package.get(".", Counter())["files"]),
        ("files in import circles, type-checking imports counted", sum(map(len, rings))),
        ("import circles", ", ".join(str(len(one)) for one in rings) or "none"),
        ("files of more than 900 lines", sum(len(texts[path]) > 900 for path in files)),
        ("files of fewer than 100 lines", sum(len(texts[path]) < 100 for path in files)),
        (
            "places where an option of `evaluate` is written, on average",
            f"{sum(map(len, places.values())) / len(set().union(*places.values())):.1f}",
        ),
        ('calls of evaluate(measures="GAUC") on 100 rows', len(small)),
        ("of these, checks of arguments", f"{checks(small)} ({checks(small) / len(small):.0%})"),
        ("files between `evaluate` and its first kernel", len(entered(first))),
        ("types of the package met there", len(frozenset().union(*(one.types for one in first)))),
        ('files entered by evaluate(measures="GAUC")', len(entered(gauc))),
        ('files entered by evaluate(measures="AUC")', len(entered(auc))),
        ("files that a new measure changes", len(changed)),
        ("lines of tests", sum(len(texts[path]) for path in tests)),
        ("lines of ARCHITECTURE.md", len((ROOT / "ARCHITECTURE.md").read_text().splitlines())),
    ]
    columns = ("files", "code lines", "statements")
    lines = [
        "# Size and shape of the code",
        "",
        "Written by `make figures`. Code lines have no docstrings, comments and blanks; statements",
        "have no docstrings.",
        "",
        *_table(("figure", ""), rows),
        *_table(
            ("package", *columns),
            ((name, *(one[column] for column in columns)) for name, one in by_package.items()),
        ),
        *_table(
            ("list of options of `evaluate`", "options"), ((p, len(o)) for p, o in places.items())
        ),
        *(_table(("stage of CI", "seconds"), stages) if (stages := ci_stages()) else ()),
        f"Files that name {least}, the measure in the fewest: {', '.join(changed)}.",
        "",
    ]
    lines += [f"Circle of {len(one)}: {', '.join(_short(m) for m in one)}.\n" for one in rings]
    return "\n".join(lines).rstrip("\n") + "\n"


def ci_stages() -> list[tuple[str, object]]:
    """List the stages of .ci/run and .ci/full that ran last, with their seconds."""
    texts = [path.read_text("utf-8") for name in STAGES if (path := ROOT / name).exists()]
    found = [line.split(" ", 1) for line in "".join(texts).splitlines()]
    return [(stage, int(seconds)) for seconds, stage in found]


def _table(heads: Iterable[str], rows: Iterable[Iterable[object]]) -> Iterator[str]:
    """Write rows in Markdown, numbers on the right."""
    heads = [*heads]
    yield f"| {' | '.join(heads)} |"
    yield f"| --- |{' ---: |' * (len(heads) - 1)}"
    for row in rows:
        cells = [f"{value:,}" if isinstance(value, int) else str(value) for value in row]
        yield f"| {' | '.join(cells)} |"
    yield ""


def _short(module: str) -> str:
    return module.removeprefix(f"{NAME}.")


if __name__ == "__main__":
    text = report()
    sys.stdout.write(text)
    REPORT.write_text(text, encoding="utf-8")
