"""The configuration that ``fastrank-eval nightly --init`` writes: every key, explained."""

from __future__ import annotations

__all__ = ["EXAMPLE"]

EXAMPLE = """\
# What `fastrank-eval nightly` reads, evaluates, compares, keeps and writes.
# Relative paths begin at the folder of this file. Keys with a '#' before them are optional and
# show an example, or the default.

title = "Click prediction"

[source]
# {date} is the night: 2026-11-19. {date:%Y%m%d} is 20261119. A path, a folder, a glob, or a list.
path = "logs/day={date}"
# format = "parquet"                  # parquet, arrow, csv, tsv; by default the files tell
# where = "slot <> 'footer'"          # only these rows; {date} may stand here too

[columns]
group = "user_id"                     # or a list: ["user_id", "session"]
label = "click"
# weight = "weight"                   # weight of each row
# item = "item_id"                    # for ties = "item"
# subtopics = "topics"                # for measures of diversity

[models]
scores = ["score_a", "score_b"]       # one column a model
baseline = "score_a"                  # the others are compared with it

[evaluate]
measures = ["GAUC", "AUC", "nDCG@10", "LogLoss", "PCOC"]    # AUC(se=None): faster, no interval
# confidence = 0.95
# profile = "catboost"                # the conventions of another tool
# ties = "expected"                   # expected, input, item, best, worst
# undefined = "skip"                  # skip, zero, one, error; "skip,nDCG=one"
# groups = "all"                      # all, with_relevant
# unretrieved = "error"               # null scores: error, allow
# unjudged = "error"                  # null labels: error, allow, drop
# weight_rows = "ignore"              # by default refuse: measures that weights mean nothing for
# score_type = "given"                # given, float32
# sampling_rate = 0.1                 # share of the negatives that models were trained on
# order = "auto"                      # auto, sorted, grouped, scattered
# threads = 4
# memory = "4GB"
# spill_dir = "."

[slices]
by = ["slot", "country", "@rows:1,5,20,100"]
min_groups = 30                       # slices of fewer groups are left out

[gates]
# Conditions that must not hold (exit code 3): on the night and its differences from the baseline,
fail_if = ["GAUC ci_high < 0.55", "GAUC delta_ci_high < -0.01"]
# on what each model differs from itself on the night before, and a week before.
# fail_if_yesterday = ["GAUC delta_ci_high < -0.02"]
# fail_if_last_week = ["GAUC delta_ci_high < -0.02"]
# and on models that give all rows, or those of a slice, fewer distinct scores; 0 allows any. By
# default one score fails the night, and 2 to 9 for 100 rows or more make it "changed".
# min_distinct_scores = 2

[quality]
# Limits of the rows themselves (exit code 4).
min_rows = 1000
min_groups = 30
max_single_class_share = 0.95
# min_coverage = 0.05                 # share of the groups that GAUC uses
# max_tie_rate = 0.2                  # rows that share their score with another of their group
# max_null_share = 0.01               # nulls of any column
# In scaled median absolute deviations of the last 14 nights with rows (of 28 days):
max_volume_drift = 10.0
max_ctr_drift = 10.0
# ties = true                         # false: leave the tie rate out, which takes time

[history]
file = "history.db"                   # SQLite; docs/HISTORY.md tells its tables
# report = "nightly"                  # whose nights it keeps; by default the name of this file
# states = "slices"                   # for weeks: everything, slices, rows, groups

[output]
# folder = "report"                   # a page for each night and index.html; needs [report]
# nights = 30                         # nights that a page shows
"""
