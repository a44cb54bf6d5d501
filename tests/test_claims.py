"""What results, reports and gates claim: no more than the rows say.

Each test is named by the number of a fault that use has found, and by what the user saw. Sections
have no order between them.
"""

from __future__ import annotations

import numpy as np
import pytest

import fastrank_eval as fe

# --- An error of zero is no error (1 to 4) -------------------------------------------------------

# --- Rows that leave unseen: null scores and NaN (5, 6) ------------------------------------------

# --- Rows that leave unseen: counts of dropped rows, empty sources (7, 10) -----------------------

# --- TREC queries without results, zeros that hide a mistake (8, 9) ------------------------------

# --- Gates (11 to 14) ----------------------------------------------------------------------------

# --- Nights (3, 15 to 17) ------------------------------------------------------------------------

# --- Negative grades and gains (18) --------------------------------------------------------------

# --- Numbers and names of other tools (19 to 24) -------------------------------------------------

# --- Tests of few groups (25, 26) ----------------------------------------------------------------


def all_better(groups: int, test: str) -> fe.ComparedValue:
    """Compare models; the candidate finds the one relevant row of every group first."""
    log = {"query": np.repeat(np.arange(groups), 2), "grade": [0, 1] * groups}
    log |= {"old": [2, 1] * groups, "new": [1, 2] * groups}
    comparison = fe.compare(
        log, group="query", label="grade", score=["old", "new"], baseline="old", measures="RR",
        test=test,
    )  # fmt: skip
    return comparison.find("RR")


@pytest.mark.parametrize("groups", [2, 3, 4, 5, 6, 12])
@pytest.mark.parametrize("test", ["wilcoxon", "bootstrap", "randomisation", "sign"])
def test_25_26__groups_all_better_by_the_same__have_p_of_their_changes_of_sign(test, groups):
    assert all_better(groups, test).p_value == 2 / 2**groups


@pytest.mark.parametrize("test", ["wilcoxon", "bootstrap"])
def test_25_26__four_groups_all_better_by_the_same__are_no_better_model(test):
    assert "better" not in all_better(4, test).verdict


def test_26__bootstrap_of_few_groups__has_no_interval_and_names_the_test_for_few() -> None:
    log = {"query": [1, 1, 2, 2, 3, 3, 3], "grade": [0, 1, 0, 1, 0, 0, 1]}
    log |= {"old": [2, 1, 2, 1, 3, 2, 1], "new": [1, 2, 1, 2, 1, 2, 3]}
    comparison = fe.compare(
        log, group="query", label="grade", score=["old", "new"], baseline="old", measures="RR",
        test="bootstrap",
    )  # fmt: skip
    line = comparison.find("RR")
    assert (line.p_value, line.se > 0) == (0.25, True)
    assert np.isnan([line.ci_low, line.ci_high]).all()
    assert "choose the test randomisation" in str(comparison)


# --- Sources: groups in parts, files with two names (27, 28) -------------------------------------

# --- Readers and numbers (29 to 31) --------------------------------------------------------------

# --- Messages (32) -------------------------------------------------------------------------------

# --- The front door (33, 34) ---------------------------------------------------------------------
