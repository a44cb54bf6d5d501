"""The package itself: light to import, complete, typed."""

from __future__ import annotations

import ast
import functools
import importlib.metadata
import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from types import ModuleType

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fastrank_eval
from tests.public_names import STUB, listed, stub

pytestmark = pytest.mark.no_kernels

PACKAGE = Path(fastrank_eval.__file__).parent
HEAVY = ("numba", "numpy", "pandas", "polars", "pyarrow", "rich", "scipy")
UNUSED = ("duckdb", "pandas", "polars", "pyarrow.dataset", "sklearn")  # Numba imports scipy
#: Packages that a plain run needs; rich imports attr, pyarrow cloudpickle where they are installed.
NEEDED = {"attr", "click", "cloudpickle", "fastrank_eval", "llvmlite", "numpy", "pyarrow", "rich"}
#: Slow parts of the standard library and of needed packages.
SLOW = {
    *("asyncio", "email", "http", "importlib.metadata", "numpy.typing", "pyarrow.compute"),
    *("rich.live", "secrets", "sqlite3"),
}
COLUMNS = ["--group", "day,user", "--label", "click", "--score", "pctr"]


def run_python(code: str, folder: Path | None = None) -> str:
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=folder)
    return done.stdout.strip()


@pytest.mark.parametrize("enabled", [True, False])
def test_import__without_the_gil__is_refused(enabled: bool) -> None:
    code = f"import sys; sys._is_gil_enabled = lambda: {enabled}; import fastrank_eval"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == (0 if enabled else 1)
    assert ("ImportError: fastrank_eval needs" in done.stderr) is not enabled
    assert ("PYTHON_GIL=1" in done.stderr) is not enabled


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Holds logs/day=2026-11-19/part.parquet, whose users are grouped."""
    folder = tmp_path_factory.mktemp("start")
    day = folder / "logs" / "day=2026-11-19"
    day.mkdir(parents=True)
    rows = {"user": [7, 7, 8, 8], "click": [1, 0, 0, 1], "pctr": pa.array([0.3, 0.2, 0.2, 0.1])}
    rows["other"] = [0.1, 0.2, 0.3, 0.4]
    words = {"name": ["a", "b", "b", "a"], "page": [b"", b"x" * 99, b"y", b"z"]}
    pq.write_table(pa.table({**rows, **words}), day / "part.parquet")
    return folder


LIGHT = ["evaluate", "logs", *COLUMNS, "--output", "report.txt", "--overwrite"]


@pytest.mark.parametrize(
    "command",
    [
        [*LIGHT, "--order", "sorted"],
        [*LIGHT, "--order", "scattered", "--format", "csv"],
        [*LIGHT, "--order", "scattered", "--group", "name,page"],
        [*LIGHT, "--where", "day = '2026-11-19' and user in (7, 8) and name != 'c'"],
        [*LIGHT, "--per-group", "values.parquet", "--format", "json"],
        [*LIGHT, "--per-group", "values.csv", "--ties", "item", "--item", "name"],
        ["compare", "logs", *COLUMNS, "-s", "other", "--baseline", "pctr", *LIGHT[-3:]],
        ["trec", "qrels.txt", "run.txt"],
    ],
    ids=" ".join,
)
def test_command__with_libraries_installed__imports_none_that_it_does_not_use(
    folder: Path, command: list[str]
) -> None:
    (folder / "qrels.txt").write_text("1 0 a 1\n1 0 b 0\n2 0 a 1\n")
    (folder / "run.txt").write_text("1 Q0 a 1 2 t\n1 Q0 b 2 1 t\n3 Q0 a 1 1 t\n")
    code = (
        "import sys; from fastrank_eval.apps.cli.main import cli; "
        f"cli({command}, standalone_mode=False); print(loaded({UNUSED}))"
    )
    assert run_python(f"{LOADED}; {code}", folder).splitlines()[-1] == "[]"


@pytest.mark.parametrize("order", ["auto", "scattered"])
def test_command__in_a_fresh_process__imports_nothing_but_what_it_needs(
    folder: Path, order: str
) -> None:
    command = ["logs/day=2026-11-19/part.parquet", "--group", "user", *COLUMNS[2:], "-m", "GAUC"]
    code = (
        "import sys; before = set(sys.modules); from fastrank_eval.apps.cli.main import cli; "
        f"cli(['evaluate', '--order', {order!r}, *{command}], standalone_mode=False); "
        "new = {m for m in {*sys.modules} - before if getattr(sys.modules[m], '__file__', None)}; "
        "tops = {m.split('.')[0] for m in new if not m.startswith('_sysconfigdata')}; "
        f"print('unneeded:', *tops - set(sys.stdlib_module_names) - {NEEDED}, *new & {SLOW})"
    )
    run_python(code, folder)  # compiles what no earlier run has
    assert run_python(code, folder).splitlines()[-1] == "unneeded:"


LOADED = "loaded = lambda names: [name for name in names if name in sys.modules]"
#: What a fresh process runs and prints.
PROGRAMS = {
    "import of the package": (f"import fastrank_eval; print(loaded({HEAVY}))", "[]"),
    "import of the commands": (
        f"import fastrank_eval.apps.cli.main; print(loaded({HEAVY}))",
        "[]",
    ),
    "sorted integers need none of Arrow's functions": (
        "import fastrank_eval as fe; "
        "fe.evaluate('logs/day=2026-11-19/part.parquet', group='user', label='click', "
        "score='pctr', measures='GAUC', order='sorted', keep=''); "
        "print(loaded(['pyarrow.compute', 'fastrank_eval.io.filters']))",
        "[]",
    ),
    "NumPy's arrays need no pandas": (
        "import numpy as np, fastrank_eval as fe; "
        "log = {'user': np.array([1, 1, 2]), 'click': np.array([0, 1, 1]), "
        "'pctr': np.array([0.1, 0.4, 0.2], np.float32)}; "
        "result = fe.evaluate(log, group='user', label='click', score='pctr', measures='GAUC'); "
        "print(result.value('GAUC'), result.per_group.num_rows, loaded(['pandas']))",
        "1.0 2 []",
    ),
    "evaluate is the function whatever was imported first": (
        "import fastrank_eval.results.evaluate; import fastrank_eval; "
        "print(type(fastrank_eval.evaluate))",
        "<class 'function'>",
    ),
    "trec is imported when it is used": (
        "import fastrank_eval as fe; print(loaded(['fastrank_eval.trec']), "
        "fe.trec.join({'1': {'a': 1}}, b'1 Q0 a 1 2 t').queries, loaded(['pandas', 'polars']))",
        "[] 1 []",
    ),
    "integrations import none of the libraries that they serve": (
        "import fastrank_eval as fe; before = loaded(['fastrank_eval.integrations']); "
        "fe.integrations.lightgbm_metric(group=[1]); fe.integrations.scorer(); "
        "fe.integrations.ir_measures; fe.integrations.sentence_transformers; print(before, "
        "loaded(['catboost', 'ir_measures', 'lightgbm', 'sentence_transformers', 'sklearn', "
        "'torch', 'xgboost']))",
        "[] []",
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_fresh_process__imports_what_it_needs(name: str, folder: Path) -> None:
    program, printed = PROGRAMS[name]
    assert run_python(f"import sys; {LOADED}; {program}", folder) == printed


@pytest.mark.parametrize("name", fastrank_eval.__all__)
def test_public_name__listed__exists_and_shows_in_dir(name: str) -> None:
    assert getattr(fastrank_eval, name) is not None
    assert name in dir(fastrank_eval)


def test_package__is_a_plain_module__which_engines_send_to_workers_by_its_name() -> None:
    assert type(fastrank_eval) is ModuleType


def test_public_name__unknown__is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'evalute'"):
        _ = fastrank_eval.evalute  # type: ignore[attr-defined]


def test_stub__lists_what_is_public() -> None:
    assert listed(STUB.read_text(encoding="utf-8")) == listed(stub()), (
        "run python -m tests.public_names"
    )


def test_star_import__gives_every_public_name() -> None:
    names: dict[str, object] = {}
    exec("from fastrank_eval import *", names)  # noqa: S102
    assert names.keys() >= set(fastrank_eval.__all__)


def test_version__of_the_distribution__is_the_packages() -> None:
    assert importlib.metadata.version("fastrank_eval") == fastrank_eval.__version__


def test_types__are_published() -> None:
    assert files("fastrank_eval").joinpath("py.typed").is_file()


#: Libraries that are heavy, optional, for errors alone, or missing on some systems.
LOCAL_LIBRARIES = {
    *("difflib", "duckdb", "fcntl", "html", "importlib", "ir_measures", "jinja2", "llvmlite"),
    *("markupsafe", "polars", "pyarrow", "pyspark", "resource", "rich", "scipy", "uvicorn"),
}
#: Files of ours that import such a library at their top, that a facade method hands over to, or
#: that a plain run does not need: scattered rows, states and gates take 3 % of its start.
LOCAL_FILES = {
    "fastrank_eval/_lib/jit.py": {"_lib"},
    "fastrank_eval/apps/nightly/config_checks.py": {"io.filters"},
    "fastrank_eval/engine/options.py": {"_lib.threads", "engine.conventions", "engine.plan"},
    "fastrank_eval/engine/run.py": {"engine.evaluator", "slicing.slicer"},
    "fastrank_eval/io/reader.py": {"io.filters"},
    "fastrank_eval/results/curve_points.py": {"results.plot_files"},
    "fastrank_eval/results/plot_files.py": {"results.plots"},
    "fastrank_eval/results/evaluate.py": {"results", "results.state"},
    "fastrank_eval/results/labels.py": {"results.plot_files", "results.gate_judge"},
    "fastrank_eval/results/result.py": {
        *("results.differences", "results.compare", "results.compare_tests", "results.comparison"),
        "results.curve_points",
    },
}


@functools.cache
def trees() -> dict[str, ast.Module]:
    """Every file of the package, parsed."""
    return {
        file.relative_to(PACKAGE.parent).as_posix(): ast.parse(file.read_text(encoding="utf-8"))
        for file in sorted(PACKAGE.rglob("*.py"))
    }


def local_imports(tree: ast.Module) -> set[str]:
    """Names of modules that functions import."""
    names = set()
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for node in ast.walk(function):
                if isinstance(node, ast.Import):
                    names |= {alias.name for alias in node.names}
                elif isinstance(node, ast.ImportFrom):
                    names.add(str(node.module))
    return names


def test_imports_inside_functions__are_of_heavy_libraries_and_facade_methods_only() -> None:
    """Commands and `__main__` import what they run; other files import at their top."""
    others = {}
    for name, tree in trees().items():
        if name.startswith("fastrank_eval/apps/cli/") or name == "fastrank_eval/__main__.py":
            continue
        allowed = {f"fastrank_eval.{other}" for other in LOCAL_FILES.get(name, set())}
        imports = local_imports(tree) - allowed
        others[name] = {one for one in imports if one.split(".")[0] not in LOCAL_LIBRARIES}
    assert {name: imports for name, imports in others.items() if imports} == {}


def test_dataclasses__of_the_package__are_those_that_write_no_code_at_import() -> None:
    """The decorator of the standard library costs 0.75 ms a class, a tenth of a start."""
    others = [
        name
        for name, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "dataclasses"
        if "dataclass" in {alias.name for alias in node.names}
    ]
    assert others == ["fastrank_eval/_lib/dataclass.py"]


def test_families_of_measures__in_files__are_imported_with_the_package() -> None:
    """The package lists its files: looking for them takes 5 ms of each start."""
    files = {path.stem for path in (PACKAGE / "measures").glob("*.py")} - {"__init__"}
    code = (
        "import sys, fastrank_eval.measures; "
        "print(*(m.rpartition('.')[2] for m in sys.modules if m.startswith('fastrank_eval.mea')))"
    )
    assert files <= set(run_python(code).split())


def test_files__outside_of_100_to_600_lines__have_their_reason_written() -> None:
    lengths = {
        path.relative_to(PACKAGE).as_posix(): len(path.read_text(encoding="utf-8").splitlines())
        for path in PACKAGE.rglob("*.py")
        if path.name != "__init__.py"
    }
    assert [name for name, lines in lengths.items() if lines > 900] == []
    page = PACKAGE.parent / "docs" / "explanation" / "decisions.md"
    decisions = page.read_text(encoding="utf-8")
    listed_files = decisions.split("files are short")[1].split("\n## ")[0]
    short = [name for name, lines in lengths.items() if lines < 100]
    assert [name for name in short if f"`{name}`" not in listed_files] == []


def test_docstrings__first_lines__have_72_characters_at_most() -> None:
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    too_long = []
    for name, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, documented):
                first_line = (ast.get_docstring(node) or "").partition("\n")[0]
                if len(first_line) > 72:
                    too_long.append(f"{name}: {first_line}")
    assert too_long == []
