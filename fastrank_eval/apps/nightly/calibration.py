"""Report the calibration of a night by slice, the worst slices first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fastrank_eval.apps.nightly.night import Night, NightCalibration
from fastrank_eval.apps.nightly.text import VerdictText, amount, confidence_of, count
from fastrank_eval.engine.run import Evaluation
from fastrank_eval.engine.totals import calibration_tables
from fastrank_eval.results.gates import ALL
from fastrank_eval.results.report import p_text

#: The most slices of a model and measure that a night keeps, without all rows.
_MOST_SLICES = 100
#: The most slices in text.
_MOST_IN_TEXT = 3


def calibration_of(evaluation: Evaluation) -> tuple[NightCalibration, ...]:
    """Return the worst 100 slices, and all rows, of each model and measure.

    Parameters
    ----------
    evaluation : Evaluation

    Returns
    -------
    tuple of NightCalibration
        By measure; the most sigmas first.
    """
    plan = evaluation.plan
    worst: list[NightCalibration] = []
    for (score, measure), table in calibration_tables(plan, evaluation.totals).items():
        for index, row in enumerate(table.to_pylist()):
            if index < _MOST_SLICES or row["slice"] == ALL:
                worst.append(NightCalibration(score=score, measure=measure, **row))
    indices = {measure: index for index, measure in enumerate(map(str, plan.measures))}
    return tuple(sorted(worst, key=lambda one: (indices[one.measure], -one.sigmas)))


def worst_slices(night: Night) -> Iterator[tuple[str, Sequence[NightCalibration], int]]:
    """Yield the worst slices of each measure, if they are not calibrated.

    Yields
    ------
    tuple
        Name of the measure; at most three slices; number of others that are not calibrated.
    """
    for measure, slices in by_measure(night):
        significant = [one for one in slices if _is_significant(one, night)]
        if significant:
            yield (
                night.name_of(measure),
                significant[:_MOST_IN_TEXT],
                len(significant[_MOST_IN_TEXT:]),
            )


def calibration_texts(night: Night) -> list[str]:
    """Describe `worst_slices`, a line for each slice of a model."""
    worst: dict[tuple[str, str], NightCalibration] = {}
    for _, slices, _ in worst_slices(night):
        for one in slices:
            worst.setdefault((one.score, one.slice), one)
    return [
        f"{one.score} is not calibrated "
        f"{'on all rows' if one.slice == ALL else f'in {one.slice}'}: {slice_text(one)}"
        for one in worst.values()
    ]


def slice_text(one: NightCalibration) -> str:
    """Write the sigmas, positives and p-value of a slice."""
    return (
        f"{amount(one.sigmas, 1)} sigmas, {positives(one.expected)} positives expected and "
        f"{positives(one.observed)} observed, p {p_text(one.p_adjusted)}"
    )


def positives(number: float) -> str:
    """Format a sum of positives, with a decimal below 1,000.

    Examples
    --------
    >>> positives(362.31), positives(92.0), positives(3001.6)
    ('362.3', '92', '3,002')
    """
    whole = number >= 1000 or float(number).is_integer()
    return count(number) if whole else amount(number, 1)


def by_measure(night: Night) -> list[tuple[str, list[NightCalibration]]]:
    """Return the slices of each measure."""
    return [
        (measure, [one for one in night.calibration if one.measure == measure])
        for measure in dict.fromkeys(one.measure for one in night.calibration)
    ]


def calibration_verdict(one: NightCalibration, night: Night) -> VerdictText:
    """Return whether a slice is shown not to be calibrated."""
    if _is_significant(one, night):
        return VerdictText("not calibrated", "bad")
    return VerdictText("no error shown", "none")


def _is_significant(one: NightCalibration, night: Night) -> bool:
    return one.p_adjusted <= 1 - confidence_of(night)
