"""The ledger of a run; `--parity FILE` writes it down."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from fastrank_eval.engine.conventions import PROFILES
from tests.conformance.parity import Ledger
from tests.conformance.samples import Sample, real_samples

LEDGER = Ledger()
#: What the extra `conformance` installs, by the name to import; `conformance-full` has the others.
REQUIRED = (
    *("catboost", "cwl", "ir_measures", "lightgbm", "pyndeval", "pytrec_eval", "sklearn"),
    *("statsmodels", "xgboost"),
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--parity", type=Path, help="write what was compared to this file")
    parser.addoption(
        "--require-peers",
        action="store_true",
        help=f"fail, rather than skip, without perl or one of {', '.join(REQUIRED)}",
    )


def pytest_configure(config: pytest.Config) -> None:
    if not config.getoption("--require-peers", default=False):
        return
    missing = [name for name in REQUIRED if find_spec(name) is None]
    if shutil.which("perl") is None:
        missing.append("perl, which runs gdeval.pl")
    if missing:
        raise pytest.UsageError(f"--require-peers: not installed: {', '.join(missing)}")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Warnings of the peers are theirs."""
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker(pytest.mark.filterwarnings("ignore"))


@pytest.fixture
def ledger(request: pytest.FixtureRequest) -> Ledger:
    """The ledger, which knows the packages that the file of the test names."""
    LEDGER.packages.update(getattr(request.module, "PACKAGES", {}))
    return LEDGER


@pytest.fixture(scope="session")
def real(shared_data: Path) -> dict[str, Sample]:
    return real_samples(shared_data)


@pytest.hookimpl(wrapper=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> Iterator[None]:
    yield
    target = session.config.getoption("--parity", default=None)
    if target is None:
        return
    missing = [profile for profile in PROFILES if profile not in LEDGER.agreed]
    if exitstatus != 0 or missing or session.testsfailed:
        told = f"not written: {target} (failed, or not compared: {', '.join(missing) or 'none'})"
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(LEDGER.markdown(), encoding="utf-8")
        told = f"written: {target}"
    os.write(2, f"\n{told}\n".encode())
