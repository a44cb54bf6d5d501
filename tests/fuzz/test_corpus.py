"""Every input of the corpus, through its target: seeds, and inputs that failed once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.targets import TARGETS

CORPUS = Path(__file__).parent / "corpus"


@pytest.mark.parametrize("target", TARGETS)
def test_inputs_of_the_corpus__raise_errors_of_ours_only(target: str) -> None:
    inputs = sorted((CORPUS / target).iterdir())
    assert inputs
    for path in inputs:
        try:
            TARGETS[target](path.read_bytes())
        except Exception as error:
            error.add_note(str(path))
            raise


def test_corpus__has_folders_of_targets_only__and_small_files() -> None:
    assert {folder.name for folder in CORPUS.iterdir()} == {*TARGETS}
    assert [str(file) for file in CORPUS.glob("*/*") if file.stat().st_size > 1 << 14] == []
