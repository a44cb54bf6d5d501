"""Name the slices of multicalibration errors, and list them, worst first."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arrow import arrow_column, bytes_column
from fastrank_eval._lib.threads import map_jobs
from fastrank_eval.engine.plan import Plan
from fastrank_eval.engine.state_arrays import fields_of
from fastrank_eval.engine.totals import Totals
from fastrank_eval.measures.multicalibration import MulticalibrationError, SliceCalibration
from fastrank_eval.slicing.encode import value_texts
from fastrank_eval.stats.scores import CellScores

#: The tables of a run, by score column and canonical text of the measure.
CalibrationTables = Mapping[tuple[str, str], pa.Table]
#: The texts of the values of each column, by their codes.
ValueLabels = Mapping[str, list[str]]
_SCHEMA = pa.schema(
    [
        *(("slice", pa.string()), ("rows", pa.int64())),
        *((name, pa.float64()) for name in ("expected", "observed", "error", "sigmas")),
        *((name, pa.float64()) for name in ("p_value", "p_adjusted", "min_detectable_error")),
    ]
)


def calibration_tables(plan: Plan, totals: Totals) -> CalibrationTables:
    """Build the table of slices of each model and measure of multicalibration.

    Parameters
    ----------
    plan : Plan
    totals : Totals

    Returns
    -------
    mapping of (str, str) to pyarrow.Table
        By score column and measure: `slice`, `rows`, `expected` and `observed` (positives,
        weighted), `error` (ECCE), `sigmas`, `p_value`, `p_adjusted` (Holm), `min_detectable_error`
        (five sigmas of the slice); the most sigmas first. Empty where the measure is undefined.
    """
    tables, texts = {}, value_labels(plan)
    for measure in plan.measures:
        if isinstance(measure, MulticalibrationError):
            for name, states in zip(plan.roles.scores, totals.overall_states.models, strict=True):
                state = measure.state_in(states)
                slices = measure.slices(state, partial(map_jobs, plan.threads))
                tables[name, str(measure)] = _table(slices, texts)
    return tables


def value_labels(plan: Plan) -> ValueLabels:
    """Write the values of the columns whose slices are compared, by code."""
    measures = (m for m in plan.measures if isinstance(m, MulticalibrationError))
    names = {name for measure in measures for name in measure.columns_named()}
    return {one.name: value_texts(one.values()) for one in fields_of(plan) if one.name in names}


def worst_slice(
    measure: MulticalibrationError, state: CellScores, texts: ValueLabels
) -> Mapping[str, float]:
    """Return the ECCE of the slice with the most sigmas, named by its label."""
    slices = measure.slices(state, map)
    if slices is None:
        return {}
    sigmas = slices.sigmas
    worst = np.flatnonzero(sigmas == sigmas.max())
    labels = _labels(slices.columns, slices.codes[worst], texts)
    first = 0 if len(labels) == 1 else _order(sigmas[worst], slices.codes[worst], labels)[0]
    return {f"ECCE of {labels[first]}": float(slices.error[worst[first]])}


def _labels(columns: tuple[str, ...], codes: np.ndarray, texts: ValueLabels) -> list[str]:
    """Write the label of each slice, as slicings do; "all" for all rows."""
    return [
        ",".join(
            f"{name}={texts[name][code]}"
            for name, code in zip(columns, codes_of_slice, strict=True)
            if code >= 0
        )
        or "all"
        for codes_of_slice in codes.tolist()
    ]


def _order(sigmas: np.ndarray, codes: np.ndarray, labels: list[str]) -> np.ndarray:
    """Sort slices: the most sigmas first, then the fewest columns."""
    columns = np.count_nonzero(codes >= 0, axis=1)
    ranks = np.argsort(np.argsort(np.array(labels, object), kind="stable"), kind="stable")
    return np.lexsort((ranks, columns, -sigmas))


def _table(slices: SliceCalibration | None, texts: ValueLabels) -> pa.Table:
    if slices is None:
        return _SCHEMA.empty_table()
    labels = _labels(slices.columns, slices.codes, texts)
    order = _order(slices.sigmas, slices.codes, labels)
    p, adjusted = slices.p_values()
    numbers = (
        *(slices.rows, slices.expected, slices.observed),
        *(slices.error, slices.sigmas, p, adjusted, slices.min_detectable_error),
    )
    names = bytes_column([labels[i].encode() for i in order.tolist()], pa.string())
    columns = [arrow_column(np.ascontiguousarray(each[order])) for each in numbers]
    return pa.table([names, *columns], schema=_SCHEMA)
