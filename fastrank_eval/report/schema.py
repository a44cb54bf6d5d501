"""The tables of a history and the steps that bring older files up to date."""

from __future__ import annotations

__all__ = ["APPLICATION_ID", "MIGRATIONS", "TABLES", "VERSION"]

#: Marks the file, so that no other program's database is taken for a history: "frEh".
APPLICATION_ID = 0x66724568

_FIRST = """
CREATE TABLE night (
    date TEXT PRIMARY KEY,
    title TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('fine', 'regression', 'data_quality')),
    models TEXT NOT NULL,
    baseline TEXT,
    measures TEXT NOT NULL,
    sources TEXT NOT NULL,
    command TEXT NOT NULL,
    version TEXT NOT NULL,
    seconds REAL NOT NULL,
    conventions TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE quality (
    date TEXT PRIMARY KEY REFERENCES night ON DELETE CASCADE,
    "rows" INTEGER NOT NULL,
    "groups" INTEGER NOT NULL,
    positives INTEGER NOT NULL,
    ctr REAL,
    coverage REAL,
    single_class_share REAL,
    tie_rate REAL,
    nulls TEXT NOT NULL,
    volume_drift REAL,
    ctr_drift REAL,
    flags TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE value (
    date TEXT NOT NULL REFERENCES night ON DELETE CASCADE,
    place INTEGER NOT NULL,
    score TEXT NOT NULL,
    slicing TEXT NOT NULL,
    slice TEXT NOT NULL,
    measure TEXT NOT NULL,
    value REAL,
    se REAL,
    ci_low REAL,
    ci_high REAL,
    effective_groups REAL,
    "groups" INTEGER NOT NULL,
    groups_used INTEGER NOT NULL,
    rows_share REAL,
    positives_share REAL,
    dropped TEXT NOT NULL,
    caution TEXT,
    PRIMARY KEY (date, place)
) WITHOUT ROWID;
CREATE TABLE difference (
    date TEXT NOT NULL REFERENCES night ON DELETE CASCADE,
    place INTEGER NOT NULL,
    kind TEXT NOT NULL,
    score TEXT NOT NULL,
    baseline TEXT NOT NULL,
    slicing TEXT NOT NULL,
    slice TEXT NOT NULL,
    measure TEXT NOT NULL,
    delta REAL,
    se REAL,
    ci_low REAL,
    ci_high REAL,
    relative REAL,
    p_value REAL,
    p_adjusted REAL,
    verdict TEXT NOT NULL,
    PRIMARY KEY (date, place)
) WITHOUT ROWID;
CREATE TABLE curve (
    date TEXT NOT NULL REFERENCES night ON DELETE CASCADE,
    place INTEGER NOT NULL,
    kind TEXT NOT NULL,
    score TEXT NOT NULL,
    label TEXT NOT NULL,
    x TEXT NOT NULL,
    y TEXT NOT NULL,
    PRIMARY KEY (date, place)
) WITHOUT ROWID;
CREATE TABLE gate (
    date TEXT NOT NULL REFERENCES night ON DELETE CASCADE,
    place INTEGER NOT NULL,
    condition TEXT NOT NULL,
    passed INTEGER NOT NULL CHECK (passed IN (0, 1)),
    reason TEXT NOT NULL,
    PRIMARY KEY (date, place)
) WITHOUT ROWID;
CREATE TABLE state (
    date TEXT PRIMARY KEY REFERENCES night ON DELETE CASCADE,
    content BLOB NOT NULL
);
"""

# One slice over time reads its own lines only; who asks when a number was computed finds it.
_SECOND = """
CREATE INDEX value_over_time ON value (measure, score, slicing, slice, date);
ALTER TABLE night ADD COLUMN written_at TEXT NOT NULL DEFAULT '';
"""

# Whose nights these are: another report's are not to replace them.
_THIRD = """
CREATE TABLE report (name TEXT NOT NULL);
"""

# Sums and scores are kept apart, so that what is not needed is not read; the same rows on two
# nights are found by their fingerprint. What older versions kept stays, as one state of all.
_FOURTH = """
CREATE TABLE kept_state (
    date TEXT NOT NULL REFERENCES night ON DELETE CASCADE,
    kind TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    content BLOB NOT NULL,
    PRIMARY KEY (date, kind)
);
INSERT INTO kept_state SELECT date, 'all', '', content FROM state;
DROP TABLE state;
ALTER TABLE kept_state RENAME TO state;
CREATE INDEX state_by_fingerprint ON state (fingerprint, date);
ALTER TABLE night ADD COLUMN notes TEXT NOT NULL DEFAULT '[]';
"""

# A night may be "changed", and says what is wrong of what since when. SQLite alters no CHECK: the
# table is made anew, while foreign keys are off.
_FIFTH = """
CREATE TABLE new_night (
    date TEXT PRIMARY KEY,
    title TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('fine', 'changed', 'regression', 'data_quality')),
    models TEXT NOT NULL,
    baseline TEXT,
    measures TEXT NOT NULL,
    sources TEXT NOT NULL,
    command TEXT NOT NULL,
    version TEXT NOT NULL,
    seconds REAL NOT NULL,
    conventions TEXT NOT NULL,
    written_at TEXT NOT NULL DEFAULT '',
    notes TEXT NOT NULL DEFAULT '[]',
    findings TEXT NOT NULL DEFAULT '[]'
) WITHOUT ROWID;
INSERT INTO new_night (date, title, status, models, baseline, measures, sources, command, version,
    seconds, conventions, written_at, notes)
SELECT date, title, status, models, baseline, measures, sources, command, version, seconds,
    conventions, written_at, notes FROM night;
DROP TABLE night;
ALTER TABLE new_night RENAME TO night;
ALTER TABLE quality ADD COLUMN tie_rates TEXT NOT NULL DEFAULT '{}';
"""

#: The statements that lead from each version to the next; a new file takes them all. What has
#: been released is never edited: a change is a further step.
MIGRATIONS = (_FIRST, _SECOND, _THIRD, _FOURTH, _FIFTH)
VERSION = len(MIGRATIONS)

#: Tables of nights, in the order in which one is written.
TABLES = ("night", "quality", "value", "difference", "curve", "gate", "state")
