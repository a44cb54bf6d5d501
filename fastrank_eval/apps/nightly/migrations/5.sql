-- A night may be "changed", and has findings with their first date. SQLite cannot alter a CHECK: the
-- table is created again, while foreign keys are off.
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
