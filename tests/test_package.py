"""The package itself: light to import, complete, typed."""

from __future__ import annotations

import ast
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


@pytest.mark.parametrize("module", ["fastrank_eval", "fastrank_eval.apps.cli.main"])
def test_import__alone__loads_nothing_heavy(module: str) -> None:
    loaded = run_python(f"import sys, {module}; print(*(m for m in {HEAVY} if m in sys.modules))")
    assert loaded == ""


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


@pytest.mark.parametrize(
    "options",
    [
        ["--order", "sorted"],
        ["--order", "scattered", "--format", "csv"],
        ["--order", "scattered", "--group", "name,page"],
        ["--where", "day = '2026-11-19' and user in (7, 8) and pctr >= 0.1 and name != 'c'"],
        ["--per-group", "values.parquet", "--format", "json"],
        ["--per-group", "values.csv", "--ties", "item", "--item", "name"],
    ],
    ids=" ".join,
)
def test_command__with_libraries_installed__imports_none_that_it_does_not_use(
    folder: Path, options: list[str]
) -> None:
    command = ["logs", *COLUMNS, "--output", "report.txt", "--overwrite", *options]
    code = (
        "import sys; from fastrank_eval.apps.cli.main import cli; "
        f"cli(['evaluate', *{command}], standalone_mode=False); "
        f"print(*(m for m in {UNUSED} if m in sys.modules))"
    )
    assert run_python(code, folder).splitlines()[-1:] == []


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


@pytest.mark.parametrize(
    "command",
    [
        ["compare", "logs", *COLUMNS, "-s", "other", "--baseline", "pctr"],
        ["trec", "qrels.txt", "run.txt"],
    ],
    ids=lambda command: command[0],
)
def test_command__with_pandas_installed__does_not_import_it(
    folder: Path, command: list[str]
) -> None:
    (folder / "qrels.txt").write_text("1 0 a 1\n1 0 b 0\n2 0 a 1\n")
    (folder / "run.txt").write_text("1 Q0 a 1 2 t\n1 Q0 b 2 1 t\n3 Q0 a 1 1 t\n")
    code = (
        "import sys; from fastrank_eval.apps.cli.main import cli; "
        f"cli({command}, standalone_mode=False); print('pandas' in sys.modules)"
    )
    assert run_python(code, folder).splitlines()[-1] == "False"


def test_command__over_sorted_integers__does_without_arrows_functions(folder: Path) -> None:
    code = (
        "import sys, fastrank_eval as fe; "
        "fe.evaluate('logs/day=2026-11-19/part.parquet', group='user', label='click', "
        "score='pctr', measures='GAUC', order='sorted', keep=''); "
        "print('pyarrow.compute' in sys.modules, 'fastrank_eval.io.filters' in sys.modules)"
    )
    assert run_python(code, folder) == "False False"


def test_evaluate__of_numpy_arrays__does_without_pandas() -> None:
    code = (
        "import sys, numpy as np, fastrank_eval as fe; "
        "log = {'user': np.array([1, 1, 2]), 'click': np.array([0, 1, 1]), "
        "'pctr': np.array([0.1, 0.4, 0.2], np.float32)}; "
        "result = fe.evaluate(log, group='user', label='click', score='pctr', measures='GAUC,RR'); "
        "print(result.value('GAUC'), result.per_group.num_rows, 'pandas' in sys.modules)"
    )
    assert run_python(code) == "1.0 2 False"


@pytest.mark.parametrize(
    "first",
    [
        "import fastrank_eval",
        "import fastrank_eval.results.evaluate",
        "from fastrank_eval.results.evaluate import evaluate",
    ],
)
def test_evaluate__whatever_was_imported_first__is_the_function(first: str) -> None:
    kind = run_python(f"{first}; import fastrank_eval; print(type(fastrank_eval.evaluate))")
    assert kind == "<class 'function'>"


def test_trec__as_an_attribute__is_imported_when_it_is_used() -> None:
    code = (
        "import sys, fastrank_eval as fe; before = 'fastrank_eval.trec' in sys.modules; "
        "joined = fe.trec.join({'1': {'a': 1}}, b'1 Q0 a 1 2 t'); "
        "print(before, joined.queries, *(m for m in ('pandas', 'polars') if m in sys.modules))"
    )
    assert run_python(code) == "False 1"


def test_neighbours__import_none_of_the_libraries_they_serve() -> None:
    code = (
        "import sys, fastrank_eval as fe; before = 'fastrank_eval.integrations' in sys.modules; "
        "fe.integrations.lightgbm_metric(group=[1]); fe.integrations.scorer(); "
        "fe.integrations.ir_measures; print(before, *(m for m in ('catboost', 'ir_measures', "
        "'lightgbm', 'sklearn', 'xgboost') if m in sys.modules))"
    )
    assert run_python(code) == "False"


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
NIGHT_CHARTS = {"analysis.plots", "apps.nightly", "apps.nightly.time_charts"}
#: Files of ours that import such a library at their top, that a facade method hands over to, or
#: that a plain run does not need: scattered rows, states and gates take 3 % of its start.
LOCAL_FILES = {
    "fastrank_eval/_lib/jit.py": {"_lib"},
    "fastrank_eval/analysis/curve.py": {"analysis.plot_files"},
    "fastrank_eval/analysis/plot_files.py": {"analysis.forest", "analysis.plots"},
    "fastrank_eval/apps/nightly/config_checks.py": {"io.filters"},
    "fastrank_eval/apps/nightly/page.py": NIGHT_CHARTS,
    "fastrank_eval/apps/nightly/web_content.py": NIGHT_CHARTS,
    "fastrank_eval/engine/run.py": {"slicing.slicer"},
    "fastrank_eval/engine/strategy.py": {"engine.scattered"},
    "fastrank_eval/io/reader.py": {"io.filters"},
    "fastrank_eval/results/evaluate.py": {"results.state"},
    "fastrank_eval/results/labels.py": {"analysis.plot_files", "results.gate_judge"},
    "fastrank_eval/results/result.py": {
        *("analysis.attribution", "analysis.compare_results", "analysis.curve"),
    },
    "fastrank_eval/results/state.py": {"analysis.compare_results"},
}


def local_imports(text: str) -> set[str]:
    """Names of modules that functions import."""
    names = set()
    for function in ast.walk(ast.parse(text)):
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
    for file in sorted(PACKAGE.rglob("*.py")):
        name = file.relative_to(PACKAGE.parent).as_posix()
        if name.startswith("fastrank_eval/apps/cli/") or name == "fastrank_eval/__main__.py":
            continue
        allowed = {f"fastrank_eval.{other}" for other in LOCAL_FILES.get(name, set())}
        imports = local_imports(file.read_text(encoding="utf-8")) - allowed
        others[name] = {one for one in imports if one.split(".")[0] not in LOCAL_LIBRARIES}
    assert {name: imports for name, imports in others.items() if imports} == {}


def test_dataclasses__of_the_package__are_those_that_write_no_code_at_import() -> None:
    """The decorator of the standard library costs 0.75 ms a class, a tenth of a start."""
    others = [
        file.relative_to(PACKAGE).as_posix()
        for file in sorted(PACKAGE.rglob("*.py"))
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module == "dataclasses"
        if "dataclass" in {alias.name for alias in node.names}
    ]
    assert others == ["_lib/dataclass.py"]


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
    for file in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, documented):
                first_line = (ast.get_docstring(node) or "").partition("\n")[0]
                if len(first_line) > 72:
                    too_long.append(f"{file.relative_to(PACKAGE).as_posix()}: {first_line}")
    assert too_long == []
