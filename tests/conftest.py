"""Where test data lives: small fixtures in the repository, larger real data beside it."""

import json
import os
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Folder of the shared real data: ``../shared/data``, or what FASTRANK_SHARED names."""
    root = Path(os.environ.get("FASTRANK_SHARED", HERE.parent.parent / "shared"))
    data = root / "data" if (root / "data").is_dir() else root
    if not (data / "seed_examples.json").is_file():
        pytest.skip(f"needs ../shared: no real data under {root} (set FASTRANK_SHARED)")
    return data


@pytest.fixture(scope="session")
def fixtures() -> Path:
    return HERE / "fixtures"


@pytest.fixture(scope="session")
def worked_examples(fixtures: Path) -> dict[str, dict]:
    """Worked examples by id."""
    cases = json.loads((fixtures / "worked_examples.json").read_text(encoding="utf-8"))
    return {case["id"]: case for case in cases}
