"""Values of a result by what a caller calls them: measure, score column, slice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastrank_eval.held_names import held_measure, held_score, held_slices, held_value
from fastrank_eval.relative_improvement import refuse_without_chance, rela_impr
from fastrank_eval.reported import Reported
from fastrank_eval.typed_arguments import typed

if TYPE_CHECKING:
    from fastrank_eval.measure_value import MeasureValue
    from fastrank_eval.measures import Measure
    from fastrank_eval.result import Result

__all__ = ["NamedValues"]


class NamedValues(Reported):
    """The values that `Result` tells by name."""

    measures: tuple[str, ...]
    asked: dict[str, str]

    @typed
    def value(
        self,
        measure: str | Measure,
        score: str | None = None,
        *,
        slice: str = "all",  # noqa: A002 - what it is called everywhere
    ) -> float:
        """Value of a measure over all groups, or over those of a slice.

        Parameters
        ----------
        measure : str or Measure
            In any accepted spelling: ``"nDCG@10"``, ``"ndcg_cut_10"`` or ``nDCG @ 10``.
        score : str, optional
            Score column; may be left out if there is one.
        slice : str, default "all"
            Label of a slice, ``"slot=1"``; `slices` lists them.

        Returns
        -------
        float
            The value; NaN where undefined.

        Raises
        ------
        MeasureError
            If the measure was not part of the evaluation.
        ArgumentError
            If the score column or the slice was not part of it, or the score column is left out
            where there are several.
        """
        return self._line(measure, score, slice).value

    @typed
    def interval(
        self,
        measure: str | Measure,
        score: str | None = None,
        *,
        slice: str = "all",  # noqa: A002 - what it is called everywhere
    ) -> tuple[float, float]:
        """Confidence interval of a measure over all groups, groups being independent clusters.

        ``value -+ t * se`` with Student's t of one degree of freedom less than groups; of a
        geometric mean the exponentials of the interval of its logarithm.

        Parameters
        ----------
        measure : str or Measure
            In any accepted spelling.
        score : str, optional
            Score column; may be left out if there is one.
        slice : str, default "all"
            Label of a slice.

        Returns
        -------
        low, high : float
            NaN where no standard error is known. They are not cut off at the range of the measure.

        Raises
        ------
        MeasureError, ArgumentError
            As `value` does.

        References
        ----------
        Deng, Knoblich & Lu (2018), doi:10.1145/3219819.3219919.
        """
        line = self._line(measure, score, slice)
        return line.ci_low, line.ci_high

    @typed
    def slices(self, by: str | None = None) -> tuple[str, ...]:
        """Labels of the slices, in their order: by value, nulls last.

        Parameters
        ----------
        by : str, optional
            Of this slicing only, ``"slot,country"``.

        Returns
        -------
        tuple of str
            Without slices that `min_groups` left out.

        Raises
        ------
        ArgumentError
            If the rows were not sliced by that.
        """
        return held_slices(by, self.values)

    def _line(self, measure: str | Measure, score: str | None, part: str) -> MeasureValue:
        return self._line_of(str(self._known(measure)), score, part)

    def _line_of(self, text: str, score: str | None, part: str | None = None) -> MeasureValue:
        """Find a line by the canonical text of its measure."""
        least = self.meta.conventions.get("min_groups")
        return held_value(text, self._score(score), part or "all", self.values, least)

    @typed
    def rela_impr(
        self,
        measure: str | Measure,
        score: str,
        base: str | Result,
        base_score: str | None = None,
    ) -> float:
        """Relative improvement of one model's AUC or GAUC over another's, chance taken off both.

        ``(value - 0.5) / (base - 0.5) - 1``

        Parameters
        ----------
        measure : str or Measure
            AUC or GAUC, with any options but `max_fpr`.
        score : str
            Score column of the model.
        base : str or Result
            Score column of the base model; or the result that holds it.
        base_score : str, optional
            Its score column in that result; may be left out if there is one.

        Returns
        -------
        float
            A share: 0.05 is five per cent. NaN where a value is undefined or the base model is no
            better than chance.

        Raises
        ------
        MeasureError
            If the measure is another one, or was not part of the evaluation.
        ArgumentError
            If a score column was not part of it.

        References
        ----------
        Zhou et al. (2018), doi:10.1145/3219819.3219823.
        """
        known = self._known(measure)
        refuse_without_chance(known)
        text, other = str(known), self if isinstance(base, str) else base
        base_name = base if isinstance(base, str) else base_score
        return rela_impr(self._line_of(text, score).value, other._line_of(text, base_name).value)

    def _known(self, wanted: str | Measure) -> Measure:
        return held_measure(wanted, self.measures, self.asked)

    def _score(self, wanted: str | None) -> str:
        return held_score(wanted, self.scores, self.measures)
