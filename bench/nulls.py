"""How often equal models differ in few users: ``python -m bench.nulls``, writes bench/NULLS.md.

Two scores of each row are drawn independently and alike, given the user and the row: an exchange of
the models changes nothing. Each table is a slice of one log, so that one comparison tests them all.
Seeds are those of the cell: users of a table, and click rate.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np

import fastrank_eval as fe
from bench.tables import NONE, table
from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval.stats.intervals import t_tail

#: Users of a table, and the largest share of p-values of at most 0.05 among the tests.
USERS = {3: 0.10, 10: 0.08, 40: 0.065}
RATES = (0.005, 0.03, 0.2)
#: Measures with an error, `{}` for a threshold that a tenth of the rows reach. Left out are those
#: that are 1 less another (RIG, FNR, FPR, ErrorRate), and other means over groups.
MEASURES = (
    "LogLoss", "NE", "NEPos", "Brier", "RMSE", "MAE", "PCOC", "Bias", "AUC(se='clustered')",
    "PPV({})", "NPV({})", "TPR({})", "TNR({})", "FScore({})", "Accuracy({})",
    "BalancedAccuracy({})", "MCC({})", "GroupPPV({})", "GroupTPR({})", "GroupFScore({})",
    "GroupMCC({})", "GAUC", "nDCG", "nDCG@5", "AP", "RR", "P@5", "R@5", "Success@5", "ERR", "RBP",
)  # fmt: skip
#: Reasons that leave a value without two groups to compare.
_NONE_TO_COMPARE = ("undefined", "one_group")
#: A true difference, in standard errors, and how much seldomer it may be found than before.
_TRUE, _MOST_LOST = 3, 0.02
_ALPHA = 0.05
_SEED = 42
_FILE = Path(__file__).with_name("NULLS.md")


@dataclass(frozen=True)
class Cell:
    """What the tests of one measure said about equal models in many tables.

    Parameters
    ----------
    carried : ndarray of bool, shape (tables,)
        Whether two or more groups carry the measure.
    p : ndarray of float64, shape (tables,)
        NaN where there is no test.
    found : ndarray of bool, shape (tables,)
        Whether a difference of three standard errors, added to the observed one, is significant.
    reasons : Counter of str
        Why the others were not tested.
    """

    carried: np.ndarray
    p: np.ndarray
    found: np.ndarray
    reasons: Counter[str]

    @property
    def p_values(self) -> np.ndarray:
        """Of the tests that were made."""
        return self.p[~np.isnan(self.p)]

    @property
    def compared(self) -> int:
        """Tables in which two or more groups carry the measure."""
        return int(self.carried.sum())

    @property
    def share(self) -> float:
        """Share of the tests that see a difference at 5 %."""
        return float(np.mean(self.p_values <= _ALPHA)) if len(self.p_values) else np.nan

    def power(self, tables: np.ndarray) -> float:
        """Share of some tables in which a difference of three errors is found."""
        return float(self.found[tables].mean()) if tables.any() else np.nan


def log_of(users: int, rate: float, tables: int) -> dict[str, np.ndarray]:
    """Draw tables of users with 5 to 35 rows, and two scores of each row."""
    random = np.random.default_rng([_SEED, users, round(1000 * rate)])
    groups = users * tables
    user = np.repeat(np.arange(groups), random.integers(5, 36, groups))
    quality = random.normal(0, 0.7, groups)[user] + random.normal(size=len(user))
    utility = quality + random.logistic(size=len(user))
    least = np.quantile(utility, 1 - rate)
    log: dict[str, np.ndarray] = {"user": user, "table": user // users}
    log["click"] = (utility > least).astype(np.int8)
    for model in ("one", "other"):
        wrong = random.normal(0, 0.3, groups)[user] + random.normal(0, 0.5, len(user))
        log[model] = 1 / (1 + np.exp(least - quality - wrong))
    return log


def cells(
    users: int, rate: float, tables: int, measures: Sequence[str] = MEASURES
) -> dict[str, Cell]:
    """Compare the models in every table, by each measure."""
    log = log_of(users, rate, tables)
    threshold = f"threshold={np.quantile(log['one'], 0.9):.2g}"
    texts = [text.format(threshold) for text in measures]
    compared = fe.compare(
        log, group="user", label="click", score=["one", "other"], baseline="one", measures=texts,
        by="table", correction="none", keep="", order="grouped",
    )  # fmt: skip
    rows: dict[str, list[fe.ComparedValue]] = {}
    for value in compared:
        if value.by is not None:
            rows.setdefault(value.measure, []).append(value)
    return {
        text: _cell(of_measure) for text, of_measure in zip(measures, rows.values(), strict=True)
    }


def _cell(values: list[fe.ComparedValue]) -> Cell:
    """Summarise the comparisons of one measure."""
    deltas = np.array([value.delta for value in values])
    moved = _TRUE * float(np.nanstd(deltas)) if np.isfinite(deltas).any() else 0.0
    return Cell(
        np.array([value.warning not in _NONE_TO_COMPARE for value in values]),
        np.array([value.p_value for value in values]),
        np.array([
            value.se > 0
            and not np.isnan(value.p_value)
            and t_tail((value.delta + moved) / value.se, value.degrees) <= _ALPHA
            for value in values
        ]),
        Counter(str(value.warning) for value in values if np.isnan(value.p_value)),
    )  # fmt: skip


#: The cells of all places, of users and click rate, by measure.
Found = dict[tuple[int, float], dict[str, Cell]]


def simulate(
    tables: int, measures: Sequence[str] = MEASURES, users: Iterable[int] = tuple(USERS)
) -> Found:
    """Compare the models in every table of every place."""
    return {(u, rate): cells(u, rate, tables, measures) for u in users for rate in RATES}


def dump(found: Found) -> str:
    """Write cells as JSON, for `load`."""
    return json.dumps([
        [*place, text, *(a.tolist() for a in (cell.carried, cell.p, cell.found)), cell.reasons]
        for place, of in found.items()
        for text, cell in of.items()
    ])  # fmt: skip


def load(written: str) -> Found:
    """Read the cells that `dump` wrote."""
    found: Found = {}
    for users, rate, text, carried, p, hits, reasons in json.loads(written):
        cell = Cell(np.array(carried), np.array(p), np.array(hits), Counter(reasons))
        found.setdefault((users, rate), {})[text] = cell
    return found


def page(found: Found, before: Found | None = None) -> str:
    """Write the page.

    Parameters
    ----------
    found : mapping
        The cells.
    before : mapping, optional
        Cells of some measures by an earlier version, of the same tables.
    """
    every = [cell for of_place in found.values() for cell in of_place.values()]
    least = min(float(cell.p_values.min(initial=1.0)) for cell in every)
    limits = ", ".join(f"{limit:.1%} with {users} users" for users, limit in USERS.items())
    untested = {
        place: sum((cell.reasons for cell in of.values()), Counter[str]())
        for place, of in found.items()
    }
    reasons = sorted(set().union(*untested.values()))
    lines = [
        [_name(place), *(f"{untested[place][reason]:,}" for reason in reasons)] for place in found
    ]
    return (
        "# Equal models in few users\n\n"
        f"Written by `python -m bench.nulls`: {len(every[0].p):,} tables a cell. A cell is named "
        "by the users of a table and the click rate. A user has 5 to 35 rows. Both models are "
        f"drawn alike. {_absent(found)}Tests are those of `compare` by default, without a "
        "correction; t is a threshold that a tenth of the rows reach.\n\n"
        "How often tests of equal models have p ≤ 0.05, and in parentheses the tests made. Wanted "
        f"are at most {limits}; ! marks more. The least p-value of all is {least:.1g}.\n\n"
        f"{_table(found, _share)}\n\n{_missed(found)}\n\n"
        "Tests made of the tables in which two or more groups carry the measure.\n\n"
        f"{_table(found, _made)}\n\nThe reasons of the other comparisons, of all measures.\n\n"
        + table(["cell", *reasons], lines, "l" + "r" * len(reasons))
        + "\n\nHow often a difference of three standard errors has p ≤ 0.05, of the tables in "
        "which two or more groups carry the measure. It is added to the observed difference; the "
        "standard error is the deviation of the differences of all tables.\n\n"
        f"{_table(found, _found)}\n" + (_changes(found, before) if before else "")
    )


#: Writes the entry of a table: the users, a cell, and the same cell before.
_Entry = Callable[[int, Cell, Cell], str]


def _table(found: Found, entry: _Entry, before: Found | None = None) -> str:
    """Write a table with a line for each measure and a column for each place."""
    columns = before or found
    lines = [
        [text.format("t"), *(entry(p[0], found[p][text], of[text]) for p, of in columns.items())]
        for text in next(iter(columns.values()))
    ]
    return table(["measure", *map(_name, columns)], lines, "l" + "r" * len(columns))


def _name(place: tuple[int, float]) -> str:
    return f"{place[0]}, {place[1]:.1%}"


def _share(users: int, cell: Cell, _: Cell) -> str:
    if not len(cell.p_values):
        return NONE
    mark = "!" if cell.share > USERS[users] else ""
    return f"{mark}{cell.share:.1%} ({len(cell.p_values):,})"


def _made(users: int, cell: Cell, _: Cell) -> str:
    return f"{len(cell.p_values) / cell.compared:.1%}" if cell.compared else NONE


def _found(users: int, cell: Cell, _: Cell) -> str:
    return f"{cell.power(cell.carried):.1%}" if cell.compared else NONE


def _absent(found: Found) -> str:
    """Say which users of a table were not simulated."""
    absent = [str(users) for users in USERS if not any(place[0] == users for place in found)]
    return f"Tables of {' and of '.join(absent)} users are not on this page. " if absent else ""


def _missed(found: Found) -> str:
    """Say which cells have more than the wanted share."""
    missed = [
        f"{text.format('t')} ({_name(place)}: {cell.share:.1%})"
        for place, of in found.items()
        for text, cell in of.items()
        if cell.share > USERS[place[0]]
    ]
    if not missed:
        return "Every cell holds its limit."
    return f"{len(missed)} cells exceed their limit: {'; '.join(missed)}."


def _changes(found: Found, before: Found) -> str:
    """Compare how often the difference is found with an earlier version."""
    lost = [
        f"{text.format('t')} ({_name(place)}: {_power_before(found[place][text], old)})"
        for place, of in before.items()
        for text, old in of.items()
        if _change(found[place][text], old) < -_MOST_LOST
    ]
    told = f"{len(lost)} cells lose more than {_MOST_LOST:.0%}: {'; '.join(lost)}."
    return (
        "\nThe change of these shares, in points, since errors of zero and of one group make no "
        "test, by the same tables. Left out are the measures with the same tests before and "
        "after. Tables in which one group carries the measure had tests before, and have none "
        "now.\n\n"
        f"{_table(found, _points, before)}\n\n"
        f"{told if lost else f'No cell loses more than {_MOST_LOST:.0%}.'}\n"
    )


def _change(cell: Cell, old: Cell) -> float:
    return cell.power(cell.carried) - old.power(cell.carried)


def _power_before(cell: Cell, old: Cell) -> str:
    return (
        f"{old.power(cell.carried):.1%} before, when {old.share:.1%} of the tests of equal models "
        f"had p ≤ 0.05, {cell.power(cell.carried):.1%} now"
    )


def _points(users: int, cell: Cell, old: Cell) -> str:
    return f"{100 * _change(cell, old):+.1f}" if cell.compared else NONE


def main() -> None:
    """Write bench/NULLS.md."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=2000)
    parser.add_argument("--save", help="write the cells to a file, for --before")
    parser.add_argument("--before", help="cells that an earlier version saved, to compare with")
    parser.add_argument("--users", type=int, nargs="+", choices=USERS, default=list(USERS))
    arguments = parser.parse_args()
    found = simulate(arguments.tables, users=arguments.users)
    if arguments.save:
        Path(arguments.save).write_text(dump(found), encoding="utf-8")
    before = Path(arguments.before).read_text(encoding="utf-8") if arguments.before else "[]"
    text = page(found, load(before))
    print(text)
    _FILE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
