"""README: its examples run and print what it says."""

from __future__ import annotations

import doctest
import inspect
import re
import runpy
import shlex
import sys
import tomllib
import types
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import sklearn.metrics
import sklearn.model_selection
from click.testing import CliRunner
from sklearn import linear_model

import fastrank_eval as fe
from fastrank_eval.apps.cli.main import cli
from fastrank_eval.apps.cli.nightly import serve
from fastrank_eval.apps.demo import write_parquet
from fastrank_eval.apps.demo.examples import write_month, write_month_report, write_samples

pytestmark = pytest.mark.no_kernels

README = Path(__file__).parent.parent / "README.md"


def text_of_readme() -> str:
    return README.read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text_of_readme(), re.MULTILINE | re.DOTALL)


def test_python_examples__run__as_printed() -> None:
    examples = "\n".join(blocks("python"))
    test = doctest.DocTestParser().get_doctest(examples, {}, "README.md", str(README), 0)
    assert len(test.examples) > 5
    report: list[str] = []
    doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test, out=report.append)
    assert report == []


def commands() -> list[list[str]]:
    """Each command of every block for a shell, as words; what ``&&`` joins is several."""
    text = "".join(re.findall(r"^```(?:bash|sh)\n(.*?)^```", text_of_readme(), re.M | re.S))
    found = []
    for line in text.replace("\\\n", " ").splitlines():
        words = shlex.split(re.sub(r"\s#.*", "", line))
        while "&&" in words:
            found.append(words[: words.index("&&")])
            words = words[words.index("&&") + 1 :]
        found.append(words)
    return found


COMMANDS = commands()
HERE = [words[1:] for words in COMMANDS if words[0] == "fastrank-eval"]
#: These make environments, or need a cluster: what they name is checked. `serve` waits for Ctrl-C:
#: its arguments are checked. All others run.
ONLY_CHECKED = ("make", "pip", ".", "python3.11", "venv-pack", "spark-submit")


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `make demo` writes to its folder, of fewer rows."""
    folder = tmp_path_factory.mktemp("demo")
    write_parquet(folder / "impressions.parquet", 3000, seed=1)
    write_samples(folder)
    write_month(folder / "month" / "logs", nights=19, rows=2500)
    write_month_report(folder / "month" / "nightly.toml")
    config = (folder / "month" / "nightly.toml").read_text(encoding="utf-8")
    assert config.count("min_rows = 10000") == 1
    few = config.replace("min_rows = 10000", "min_rows = 100")
    (folder / "month" / "nightly.toml").write_text(few, encoding="utf-8")
    return folder


def run(words: list[str]) -> str:
    """Run a command and return what it prints, which ``>`` sends to a file."""
    outcome = CliRunner().invoke(cli, words[: words.index(">")] if ">" in words else words)
    assert outcome.exit_code == 0, f"{shlex.join(words)}\n{outcome.output}"
    if ">" in words:
        Path(words[-1]).write_text(outcome.stdout, encoding="utf-8")
    return outcome.stdout


def test_commands__run_in_their_order_after_make_demo(
    demo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    makefile = (README.parent / "Makefile").read_text(encoding="utf-8")
    recipe = makefile[makefile.index("\ndemo:") : makefile.index("\ntest:")]
    assert "run_demo,$(BIN),build/demo" in recipe
    assert 'fastrank-eval" demo "$(2)"' in makefile
    monkeypatch.chdir(demo)
    there = {path.name for path in demo.iterdir()}
    assert len(HERE) > 25
    for words in HERE:
        if words[0] == "serve":
            serve.make_context("serve", words[1:])
            assert Path(words[1]).exists()  # of the night before
        else:
            run(words)
    assert {path.name for path in demo.iterdir()} - there == {
        "report.json", "roc.png", "users.parquet", "first.state", "second.state", "old.state",
        "new.state", "nightly.toml", "job.py",
    }  # fmt: skip


def test_other_commands__name_what_there_is() -> None:
    project = tomllib.loads((README.parent / "pyproject.toml").read_text(encoding="utf-8"))
    extras = project["project"]["optional-dependencies"]
    makefile = (README.parent / "Makefile").read_text(encoding="utf-8")
    others = [words for words in COMMANDS if words[0] not in ("fastrank-eval", "cd")]
    assert {words[0] for words in others} == set(ONLY_CHECKED)
    assert ["cd", "build/demo"] in COMMANDS
    for name, *words in others:
        if name == "make":
            assert f"\n{words[0]}:" in makefile
        elif name == "pip":
            assert words[0] == "install"
            named = [re.fullmatch(r"fastrank_eval\[(\w+)\]", word) for word in words[1:]]
            assert all(match[1] in extras for match in named if match)
            rest = {word for word, match in zip(words[1:], named, strict=True) if not match}
            assert rest <= {".", "venv-pack"}
    assert COMMANDS.index(["pip", "install", "."]) == 0


def test_columns__are_those_of_the_demo() -> None:
    """Names of files and columns that the demo does not have stand nowhere."""
    root = README.parent
    files = [README, *root.glob("docs/**/*.md"), *root.glob("fastrank_eval/apps/cli/*.py")]
    files.append(root / "fastrank_eval" / "__init__.py")
    texts = {file.name: file.read_text(encoding="utf-8") for file in files}
    wrong = re.compile(r"\b(pctr|ctr_old|model_a|model_b)\b")
    assert {name: set(wrong.findall(text)) for name, text in texts.items()} == {
        name: set() for name in texts
    }


# ---- blocks of Python that print nothing ---------------------------------------------------------


def spark_session() -> Any:
    """What `evaluate` below takes for a session: its table is the nights of the demo."""
    session = SimpleNamespace(table=lambda name: f"month/logs{name[:0]}", stop=lambda: None)
    builder = SimpleNamespace(getOrCreate=lambda: session)
    builder.appName = lambda name: builder
    return SimpleNamespace(SparkSession=SimpleNamespace(builder=builder), session=session)


@pytest.fixture
def no_cluster(demo: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Spark's `evaluate` and `compare` checked for their arguments, and then run without Spark."""
    from fastrank_eval import spark

    def here(name: str) -> Callable[..., object]:
        signature = inspect.signature(getattr(spark, name))

        def checked(rows: object, **options: Any) -> object:
            signature.bind(rows, **options)
            options.pop("partitions", None)
            return getattr(fe, name)(rows, **options)

        return checked

    found = spark_session()
    monkeypatch.setitem(sys.modules, "pyspark", types.ModuleType("pyspark"))
    monkeypatch.setitem(sys.modules, "pyspark.sql", found)
    for name in ("evaluate", "compare"):
        monkeypatch.setattr(spark, name, here(name))
    monkeypatch.chdir(demo)
    return found.session


def snippet(contains: str, **names: Any) -> dict[str, Any]:
    """Run the block that contains some text, where names stand for what its reader has."""
    (code,) = [block for block in plain_blocks() if contains in block]
    exec(compile(code, README.name, "exec"), names)  # noqa: S102 - our own text
    return names


def plain_blocks() -> list[str]:
    return [block for block in blocks("python") if not block.startswith(">>> ")]


def test_python_for_spark__takes_the_arguments_of_evaluate(no_cluster: Any) -> None:
    result = snippet("from fastrank_eval import spark", session=no_cluster)["result"]
    assert result.scores == ("score_a", "score_b")
    assert result.meta.rows > 100
    assert result.slices()


def test_job_for_spark__takes_the_options_that_are_given(
    no_cluster: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (submit,) = [words for words in COMMANDS if words[0] == "spark-submit"]
    Path("job.py").write_text(run(["spark-submit-example"]), encoding="utf-8")
    monkeypatch.setattr(sys, "argv", submit[submit.index("job.py") :])
    with pytest.raises(SystemExit) as end:
        runpy.run_path("job.py", run_name="__main__")
    assert end.value.code == 0
    assert "GAUC" in capsys.readouterr().out


def test_python_for_other_libraries__runs(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    user, click = np.repeat(np.arange(10), 6), np.tile([0, 1, 0, 0, 1, 0], 10)
    training, validation = (
        SimpleNamespace(
            get_label=lambda rows=rows: click[:rows],
            get_group=lambda: None,
            get_weight=lambda: None,
        )
        for rows in (30, 60)
    )

    def train(options: object, data: object, *, valid_sets: Any, feval: Any, **_: Any) -> None:
        seen.extend(feval(np.arange(float(len(d.get_label()))), d) for d in valid_sets)

    lightgbm = SimpleNamespace(train=train, early_stopping=lambda rounds: None)
    monkeypatch.setitem(sys.modules, "lightgbm", lightgbm)
    users = {"users_of_training": user[:30], "users_of_validation": user}
    snippet("import lightgbm", training=training, validation=validation, **users)
    assert [name for name, _, _ in seen] == ["GAUC", "GAUC"]
    monkeypatch.setattr(fe.integrations.ir_measures, "register", lambda: seen.append("register"))
    named = dict.fromkeys(("AP", "RR", "nDCG"), MatMul())
    provider = SimpleNamespace(calc_aggregate=lambda *_: seen.append("calculate"), **named)
    monkeypatch.setitem(sys.modules, "ir_measures", provider)
    snippet("import ir_measures", qrels={}, run={})
    assert seen[2:] == ["register", "calculate"]
    users = np.repeat(["a", "b", "c", "d", "e", "f"], 10)
    with sklearn.config_context():
        names = {"sklearn": sklearn, "fe": fe, "model": linear_model.LogisticRegression()}
        scored = {"X": np.arange(60.0)[:, None] % 7, "y": click, "users": users}
        assert snippet("sklearn", **names, **scored)["gauc"]
    assert len(plain_blocks()) == 4


class MatMul:
    """Takes ``@``."""

    def __matmul__(self, cutoff: int) -> MatMul:
        return self


def test_links__to_files_of_the_repository__lead_somewhere() -> None:
    targets = re.findall(r"\]\(([^)#]+)\)", README.read_text(encoding="utf-8"))
    missing = [target for target in targets if not (README.parent / target).exists()]
    assert missing == []
