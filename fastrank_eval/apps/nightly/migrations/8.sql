-- A night may be "provisional": it was judged before its labels were complete. SQLite cannot alter a
-- CHECK: the table is created again, while foreign keys are off.
CREATE TABLE new_night (
    date TEXT PRIMARY KEY,
    title TEXT NOT NULL,
    status TEXT NOT NULL
        CHECK (status IN ('fine', 'changed', 'provisional', 'regression', 'data_quality')),
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
    findings TEXT NOT NULL DEFAULT '[]',
    provisional INTEGER NOT NULL DEFAULT 0 CHECK (provisional IN (0, 1)),
    labels_complete TEXT,
    label_age REAL,
    judged_before TEXT
) WITHOUT ROWID;
INSERT INTO new_night (date, title, status, models, baseline, measures, sources, command, version,
    seconds, conventions, written_at, notes, findings)
SELECT date, title, status, models, baseline, measures, sources, command, version, seconds,
    conventions, written_at, notes, findings FROM night;
DROP TABLE night;
ALTER TABLE new_night RENAME TO night;
