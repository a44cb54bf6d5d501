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
    "effective_groups": "how many groups, or clusters, carry the variance",
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
    "label": "the label, if the report has several; else empty",
    "place": "order in which the lines of a night are shown, from 0",
    "score": "the model: its score column",
    "baseline": "the model that the others are compared with",
    "measure": "canonical text of the measure",
    "slicing": "as in the configuration (`slot`); NULL for all rows",
    "by": "as in the configuration (`slot`); missing for all rows",
    "slice": "`slot=side`; `all` for all rows",
    "se": "standard error",
    "ci_low": "lower end of the interval",
    "ci_high": "upper end of the interval",
    "night.": "A row for each night and label.",
    "document": "JSON: all else of the night; see below",
    "document.": "JSON. A key whose value is empty, 0, false or does not exist may be missing. "
    "`json_extract(document, '$.quality.rows')` of SQLite reads a number.",
    "quality": "object: the rows of the night",
    "curves": "object: by kind, `roc` (x: false positive rate, y: true positive rate) or "
    "`calibration` (x: mean prediction, y: observed rate), a list of lines",
    "gates": "list: the gates",
    "drift": "list: for each model or column, on all rows and on each slice, its distance from "
    "the nights before",
    "calibration": "list: for each model and [MultiECCE](measures/MultiECCE.md), all rows and the "
    "worst 100 slices",
    "title": "of the configuration",
    "not_evaluated.": "A row for each night and label that ended with an error, and that `night` "
    "lacks.",
    "not_evaluated.reason": "the error",
    "status": "`fine`, `changed`, `provisional`, `regression` or `data_quality`",
    "models": "list of score columns",
    "measures": "list",
    "sources": "list of files and folders",
    "command": "the command that runs the night again",
    "version": "of fastrank_eval",
    "seconds": "of the evaluation",
    "conventions": "object: every convention of the run",
    "written_at": "when the night was written, in UTC",
    "notes": "list: earlier nights that the night is not compared with, and why",
    "findings": "list of objects: what is wrong or new, its model and slice, the "
    "numbers, and since when",
    "provisional": "true if the night was judged before its labels were complete, or without them",
    "labels_complete": "when labels are complete, `2026-11-22T00:00:00+00:00`; missing without "
    "`labels_complete_after`",
    "label_age": "hours from the end of the night (00:00 UTC) to its judgement; missing without "
    "`labels_complete_after`",
    "judged_before": "object: status and values (model, measure, value) on all rows of the "
    "provisional judgement; missing if there was none",
    "quality.": "The rows of the night.",
    "rows": "rows of the night",
    "groups": "groups of the night",
    "positives": "relevant rows",
    "ctr": "share of relevant rows",
    "coverage": "groups that GAUC (else the first measure of groups) uses over all groups",
    "single_class_share": "groups with labels of one class over all groups",
    "tie_rate": "rows that share their score with another row of their group over all rows, of the "
    "baseline",
    "tie_rates": "object: the tie rate of each model",
    "slices": "object: rows of each slice, by slicing; without slicings by time, label, quantile, "
    "and of more than 1,000 slices",
    "nulls": "object: nulls by column",
    "volume_drift": "rows: distance from the median of the last 14 nights with rows (of 28 days), "
    "in scaled median absolute deviations",
    "ctr_drift": "the same of the click rate",
    "unusual": "whether the flags are only that numbers differ from those of earlier nights",
    "flags": "list: what is wrong, in words",
    "value.": "A row for each model, slice and measure.",
    "value": "the value; NULL if it is undefined",
    "effective_groups": "groups, or clusters, that carry the variance",
    "clusters": "clusters behind the error, if `cluster` is given or the measure counts them",
    "value.groups": "groups of the slice",
    "groups_used": "groups with a value",
    "rows_share": "rows of the groups used over all rows",
    "positives_share": "relevant rows of the groups used over all relevant rows",
    "dropped": "JSON object: groups left out, by reason",
    "warning": "`few_groups` and other reasons why the interval is rough, or NULL",
    "difference.": "A row for each kind, model, slice and measure.",
    "difference.rows": "rows of the slice, in a difference from the baseline; else 0",
    "difference.kind": "`baseline`: from the baseline; `yesterday`, `last_week`: of the model from "
    "itself on the earlier night",
    "delta": "the difference",
    "relative": "the difference over the value of the baseline",
    "p_value": "NULL if nothing is tested",
    "p_adjusted": "Holm, over all rows, and over each slicing",
    "verdict": "`better`, `worse`, `higher`, `lower`, `not significant`, `not tested`",
    "curves.": "A line of a picture.",
    "curves.label": "the name in the picture",
    "x": "list",
    "y": "list",
    "gates.": "A gate.",
    "condition": "the gate, as the configuration has it",
    "gates.kind": "the differences in it: `baseline`, `yesterday` or `last_week`",
    "passed": "true or false",
    "reason": "why it failed, or was not judged",
    "exception": "`not judged` or `fails so far`, if `passed` does not say whether it holds",
    "drift.": "The drift of a model or column.",
    "drift.name": "the model, or a column of `[drift]`",
    "drift.rows": "rows, with those without a number",
    "drift.nulls": "rows without a number",
    "distinct": "distinct values; a lower bound above 256",
    "psi": "population stability index; null without earlier nights",
    "ks": "largest difference of the cumulative shares",
    "out_of_range": "share outside [0, 1]; null if half of the earlier nights have such numbers",
    "nights": "earlier nights that it is compared with",
    "reference_rows": "their rows with a number",
    "reference_nulls": "their rows without a number",
    "median": "median of the numbers: of an even number, the mean of the two middle ones; the "
    "middle of a bin stands for a number if there are many values",
    "mode_share": "share of the most frequent value; that of a bin, if there are many values",
    "reference_median": "median of the earlier nights",
    "reference_mode_share": "share of the most frequent value of the earlier nights",
    "drift.verdict": "`same`, `changed`, `failed` or `not judged`",
    "calibration.": "The calibration of a model on a slice.",
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
    "are a few sums (LogLoss, PCOC); `bins`: AUC in bins; `scores`: measures that read the score "
    "of every row (AUC); "
    "`drift`: scores and columns in bins, of a form of its own; `provisional`: JSON, the values of "
    "the provisional judgement",
    "fingerprint": "equal for equal rows, of any nights",
    "content": "a [saved state](states.md)",
}
