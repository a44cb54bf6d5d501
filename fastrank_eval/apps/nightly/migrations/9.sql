-- Several labels of one night: a night is identified by its label and its date. SQLite cannot alter a
-- primary key: the tables are created again, while foreign keys are off.
ALTER TABLE report ADD COLUMN labels TEXT NOT NULL DEFAULT '[]';
CREATE TABLE new_night (
    date TEXT NOT NULL,
    label_name TEXT NOT NULL DEFAULT '',
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
    judged_before TEXT,
    PRIMARY KEY (label_name, date)
) WITHOUT ROWID;
INSERT INTO new_night (date, title, status, models, baseline, measures, sources, command, version,
    seconds, conventions, written_at, notes, findings, provisional, labels_complete, label_age,
    judged_before)
SELECT date, title, status, models, baseline, measures, sources, command, version, seconds,
    conventions, written_at, notes, findings, provisional, labels_complete, label_age,
    judged_before FROM night;
DROP TABLE night;
ALTER TABLE new_night RENAME TO night;
CREATE TABLE new_quality (
    date TEXT NOT NULL,
    label_name TEXT NOT NULL DEFAULT '',
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
    flags TEXT NOT NULL,
    tie_rates TEXT NOT NULL DEFAULT '{}',
    PRIMARY KEY (label_name, date),
    FOREIGN KEY (label_name, date) REFERENCES night ON DELETE CASCADE ON UPDATE CASCADE
) WITHOUT ROWID;
INSERT INTO new_quality (date, "rows", "groups", positives, ctr, coverage, single_class_share,
    tie_rate, nulls, volume_drift, ctr_drift, flags, tie_rates)
SELECT date, "rows", "groups", positives, ctr, coverage, single_class_share, tie_rate, nulls,
    volume_drift, ctr_drift, flags, tie_rates FROM quality;
DROP TABLE quality;
ALTER TABLE new_quality RENAME TO quality;
CREATE TABLE new_value (
    date TEXT NOT NULL,
    label_name TEXT NOT NULL DEFAULT '',
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
    PRIMARY KEY (label_name, date, place),
    FOREIGN KEY (label_name, date) REFERENCES night ON DELETE CASCADE ON UPDATE CASCADE
) WITHOUT ROWID;
INSERT INTO new_value (date, place, score, slicing, slice, measure, value, se, ci_low, ci_high,
    effective_groups, "groups", groups_used, rows_share, positives_share, dropped, caution)
SELECT date, place, score, slicing, slice, measure, value, se, ci_low, ci_high, effective_groups,
    "groups", groups_used, rows_share, positives_share, dropped, caution FROM value;
DROP TABLE value;
ALTER TABLE new_value RENAME TO value;
CREATE TABLE new_difference (
    date TEXT NOT NULL,
    label_name TEXT NOT NULL DEFAULT '',
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
    PRIMARY KEY (label_name, date, place),
    FOREIGN KEY (label_name, date) REFERENCES night ON DELETE CASCADE ON UPDATE CASCADE
) WITHOUT ROWID;
INSERT INTO new_difference (date, place, kind, score, baseline, slicing, slice, measure, delta,
    se, ci_low, ci_high, relative, p_value, p_adjusted, verdict)
SELECT date, place, kind, score, baseline, slicing, slice, measure, delta, se, ci_low, ci_high,
    relative, p_value, p_adjusted, verdict FROM difference;
DROP TABLE difference;
ALTER TABLE new_difference RENAME TO difference;
CREATE TABLE new_curve (
    date TEXT NOT NULL,
    label_name TEXT NOT NULL DEFAULT '',
    place INTEGER NOT NULL,
    kind TEXT NOT NULL,
    score TEXT NOT NULL,
    label TEXT NOT NULL,
    x TEXT NOT NULL,
    y TEXT NOT NULL,
    PRIMARY KEY (label_name, date, place),
    FOREIGN KEY (label_name, date) REFERENCES night ON DELETE CASCADE ON UPDATE CASCADE
) WITHOUT ROWID;
INSERT INTO new_curve (date, place, kind, score, label, x, y)
SELECT date, place, kind, score, label, x, y FROM curve;
DROP TABLE curve;
ALTER TABLE new_curve RENAME TO curve;
CREATE TABLE new_gate (
    date TEXT NOT NULL,
    label_name TEXT NOT NULL DEFAULT '',
    place INTEGER NOT NULL,
    condition TEXT NOT NULL,
    passed INTEGER NOT NULL CHECK (passed IN (0, 1)),
    reason TEXT NOT NULL,
    PRIMARY KEY (label_name, date, place),
    FOREIGN KEY (label_name, date) REFERENCES night ON DELETE CASCADE ON UPDATE CASCADE
) WITHOUT ROWID;
INSERT INTO new_gate (date, place, condition, passed, reason)
SELECT date, place, condition, passed, reason FROM gate;
DROP TABLE gate;
ALTER TABLE new_gate RENAME TO gate;
CREATE TABLE new_drift (
    date TEXT NOT NULL,
    label_name TEXT NOT NULL DEFAULT '',
    place INTEGER NOT NULL,
    score TEXT NOT NULL,
    slicing TEXT NOT NULL,
    slice TEXT NOT NULL,
    "rows" INTEGER NOT NULL,
    nulls INTEGER NOT NULL,
    "distinct" INTEGER NOT NULL,
    psi REAL,
    ks REAL,
    out_of_range REAL,
    nights INTEGER NOT NULL,
    reference_rows INTEGER NOT NULL,
    verdict TEXT NOT NULL,
    PRIMARY KEY (label_name, date, place),
    FOREIGN KEY (label_name, date) REFERENCES night ON DELETE CASCADE ON UPDATE CASCADE
) WITHOUT ROWID;
INSERT INTO new_drift (date, place, score, slicing, slice, "rows", nulls, "distinct", psi, ks,
    out_of_range, nights, reference_rows, verdict)
SELECT date, place, score, slicing, slice, "rows", nulls, "distinct", psi, ks, out_of_range,
    nights, reference_rows, verdict FROM drift;
DROP TABLE drift;
ALTER TABLE new_drift RENAME TO drift;
CREATE TABLE new_calibration (
    date TEXT NOT NULL,
    label_name TEXT NOT NULL DEFAULT '',
    place INTEGER NOT NULL,
    score TEXT NOT NULL,
    measure TEXT NOT NULL,
    slice TEXT NOT NULL,
    "rows" INTEGER NOT NULL,
    expected REAL,
    observed REAL,
    error REAL,
    sigmas REAL,
    p_value REAL,
    p_adjusted REAL,
    min_detectable_error REAL,
    PRIMARY KEY (label_name, date, place),
    FOREIGN KEY (label_name, date) REFERENCES night ON DELETE CASCADE ON UPDATE CASCADE
) WITHOUT ROWID;
INSERT INTO new_calibration (date, place, score, measure, slice, "rows", expected, observed, error,
    sigmas, p_value, p_adjusted, min_detectable_error)
SELECT date, place, score, measure, slice, "rows", expected, observed, error, sigmas, p_value,
    p_adjusted, min_detectable_error FROM calibration;
DROP TABLE calibration;
ALTER TABLE new_calibration RENAME TO calibration;
CREATE TABLE new_state (
    date TEXT NOT NULL,
    label_name TEXT NOT NULL DEFAULT '',
    kind TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    content BLOB NOT NULL,
    PRIMARY KEY (label_name, date, kind),
    FOREIGN KEY (label_name, date) REFERENCES night ON DELETE CASCADE ON UPDATE CASCADE
);
INSERT INTO new_state (date, kind, fingerprint, content)
SELECT date, kind, fingerprint, content FROM state;
DROP TABLE state;
ALTER TABLE new_state RENAME TO state;
CREATE INDEX value_over_time ON value (measure, score, slicing, slice, label_name, date);
CREATE INDEX state_by_fingerprint ON state (fingerprint, label_name, date);
