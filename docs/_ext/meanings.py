"""Say what the fields of gates and the columns of the history mean.

Names come from the code: one without a meaning here ends the build.
"""

from __future__ import annotations

#: What the fields of gates mean.
FIELD_MEANINGS = {
    "value": "the value; it may be left out",
    "se": "its standard error",
    "ci_low": "lower end of its confidence interval",
    "ci_high": "upper end of its confidence interval",
    "effective_groups": "how many groups carry the variance",
    "weight": "sum of the weights of the groups used",
    "groups": "groups of the input",
    "groups_used": "groups with a value",
    "dropped_share": "groups without a value, over all groups",
    "rows_share": "rows of the groups used, over all rows",
    "positives_share": "relevant rows of the groups used, over all relevant rows",
    "delta": "value of the candidate less that of the baseline",
    "delta_se": "standard error of the difference",
    "delta_ci_low": "lower end of the interval of the difference",
    "delta_ci_high": "upper end of the interval of the difference",
    "relative": "difference over the value of the baseline",
    "p_value": "p-value of the difference",
    "p_adjusted": "p-value after the correction for several comparisons",
    "wins": "groups in which the candidate is better",
    "losses": "groups in which the candidate is worse",
    "ties": "groups in which both are equal",
    "mdd": "least true difference that the test finds with 80 % probability",
}

#: The columns of the history; ``table.`` is what a row of the table is for.
HISTORY = {
    "date": "the night, `2026-11-19`",
    "label_name": "the label, if the report has several; else empty",
    "place": "order in which the lines of a night are shown, from 0",
    "score": "the model: its score column",
    "baseline": "the model that the others are compared with",
    "measure": "canonical text of the measure",
    "slicing": "as in the configuration (`slot`); empty for all rows",
    "slice": "`slot=side`; `all` for all rows",
    "se": "standard error",
    "ci_low": "lower end of the interval",
    "ci_high": "upper end of the interval",
    "night.": "A row for each night.",
    "title": "of the configuration",
    "status": "`fine`, `changed`, `provisional`, `regression` or `data_quality`",
    "models": "JSON list of score columns",
    "measures": "JSON list",
    "sources": "JSON list of files and folders",
    "command": "the command that runs the night again",
    "version": "of fastrank_eval",
    "seconds": "of the evaluation",
    "conventions": "JSON object: every convention of the run",
    "written_at": "when the night was written, in UTC",
    "notes": "JSON list: earlier nights that the night is not compared with, and why",
    "findings": "JSON list of objects: what is wrong or new, its model and slice, the "
    "numbers, and since when",
    "provisional": "1 if the night was judged before its labels were complete, or without them; "
    "else 0",
    "labels_complete": "when labels are complete, `2026-11-22T00:00:00+00:00`; NULL without "
    "`labels_complete_after`",
    "label_age": "hours from the end of the night (00:00 UTC) to its judgement; NULL without "
    "`labels_complete_after`",
    "judged_before": "JSON object: status and values (model, measure, value) on all rows of the "
    "provisional judgement; NULL if there was none",
    "quality.": "A row for each night: its rows.",
    "rows": "rows of the night",
    "groups": "groups of the night",
    "positives": "relevant rows",
    "ctr": "share of relevant rows",
    "coverage": "groups that GAUC (else the first measure of groups) uses over all groups",
    "single_class_share": "groups with labels of one class over all groups",
    "tie_rate": "rows that share their score with another row of their group over all rows, of the "
    "baseline",
    "tie_rates": "JSON object: the tie rate of each model",
    "nulls": "JSON object: nulls by column",
    "volume_drift": "rows: distance from the median of the last 14 nights with rows (of 28 days), "
    "in scaled median absolute deviations",
    "ctr_drift": "the same of the click rate",
    "flags": "JSON list: what is wrong, in words",
    "value.": "A row for each model, slice and measure.",
    "value": "the value; NULL if it is undefined",
    "effective_groups": "groups that carry the variance",
    "value.groups": "groups of the slice",
    "groups_used": "groups with a value",
    "rows_share": "rows of the groups used over all rows",
    "positives_share": "relevant rows of the groups used over all relevant rows",
    "dropped": "JSON object: groups left out, by reason",
    "caution": "`few_groups` and other reasons why the interval is rough, or NULL",
    "difference.": "A row for each kind, model, slice and measure.",
    "difference.rows": "rows of the slice, in a difference from the baseline; else 0",
    "difference.kind": "`baseline`: from the baseline; `yesterday`, `last_week`: of the model from "
    "itself on the earlier night",
    "delta": "the difference",
    "relative": "the difference over the value of the baseline",
    "p_value": "NULL if nothing is tested",
    "p_adjusted": "Holm, over all rows, and over each slicing",
    "verdict": "`better`, `worse`, `higher`, `lower`, `not significant`, `not tested`",
    "curve.": "A row for each kind and model.",
    "curve.kind": "`roc` (x: false positive rate, y: true positive rate) or `calibration` (x: mean "
    "prediction, y: observed rate)",
    "label": "the name in the picture",
    "x": "JSON list",
    "y": "JSON list",
    "gate.": "A row for each gate.",
    "condition": "the gate, as the configuration has it",
    "gate.kind": "the differences in it: `baseline`, `yesterday` or `last_week`",
    "passed": "0 or 1",
    "reason": "why it failed, or was not judged",
    "drift.": "A row for each model or column, on all rows and on each slice: its distance from "
    "the nights before.",
    "drift.name": "the model, or a column of `[drift]`",
    "drift.rows": "rows, with those without a number",
    "drift.nulls": "rows without a number",
    "distinct": "distinct values; a lower bound above 256",
    "psi": "population stability index; NULL without earlier nights",
    "ks": "largest difference of the cumulative shares",
    "out_of_range": "share outside [0, 1]; NULL if half of the earlier nights have such numbers",
    "nights": "earlier nights that it is compared with",
    "reference_rows": "their rows with a number",
    "reference_nulls": "their rows without a number",
    "median": "median of the numbers: of an even number, the mean of the two middle ones; the "
    "middle of a bin stands for a number if there are many values",
    "mode_share": "share of the most frequent value; that of a bin, if there are many values",
    "reference_median": "median of the earlier nights",
    "reference_mode_share": "share of the most frequent value of the earlier nights",
    "drift.verdict": "`same`, `changed`, `failed` or `not judged`",
    "calibration.": "A row for each model and [MultiECCE](measures/MultiECCE.md), on all rows and "
    "on each of its worst 100 slices.",
    "calibration.slice": "all rows, or a slice by the columns of the measure",
    "calibration.rows": "rows with a weight above 0",
    "expected": "sum of the predictions, weighted",
    "observed": "sum of the positives, weighted",
    "error": "ECCE",
    "sigmas": "ECCE, over the standard deviation of observed less expected positives per row of a "
    "calibrated model",
    "calibration.p_adjusted": "Holm, over the slices",
    "min_detectable_error": "five sigmas",
    "state.": "A row for each night and kind of state. Week and month are merged from these.",
    "state.kind": "`groups`: measures of groups (GAUC, nDCG); `sums`: measures of all rows that "
    "are a few sums (LogLoss, PCOC); `scores`: measures that read the score of every row (AUC); "
    "`drift`: scores and columns in bins, of a form of its own; `provisional`: JSON, the values of "
    "the provisional judgement",
    "fingerprint": "equal for equal rows, of any nights",
    "content": "a [saved state](states.md)",
}
