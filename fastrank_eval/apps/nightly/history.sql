-- A number that does not exist is NULL. Lists and mappings are JSON.
CREATE TABLE report (name TEXT NOT NULL, labels TEXT NOT NULL) STRICT;
CREATE TABLE night (
    date TEXT NOT NULL,
    label TEXT NOT NULL,
    status TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    document TEXT NOT NULL CHECK (json_valid(document)),
    PRIMARY KEY (label, date)
) STRICT;
CREATE TABLE value (
    date TEXT NOT NULL,
    label TEXT NOT NULL,
    place INTEGER NOT NULL,
    score TEXT NOT NULL,
    slicing TEXT,
    slice TEXT NOT NULL,
    measure TEXT NOT NULL,
    value REAL,
    se REAL,
    ci_low REAL,
    ci_high REAL,
    effective_groups REAL,
    clusters INTEGER,
    "groups" INTEGER NOT NULL,
    groups_used INTEGER NOT NULL,
    rows_share REAL,
    positives_share REAL,
    dropped TEXT NOT NULL,
    warning TEXT,
    PRIMARY KEY (label, date, place),
    FOREIGN KEY (label, date) REFERENCES night ON DELETE CASCADE ON UPDATE CASCADE
) STRICT, WITHOUT ROWID;
CREATE TABLE difference (
    date TEXT NOT NULL,
    label TEXT NOT NULL,
    place INTEGER NOT NULL,
    kind TEXT NOT NULL,
    score TEXT NOT NULL,
    baseline TEXT NOT NULL,
    slicing TEXT,
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
    "rows" INTEGER NOT NULL,
    PRIMARY KEY (label, date, place),
    FOREIGN KEY (label, date) REFERENCES night ON DELETE CASCADE ON UPDATE CASCADE
) STRICT, WITHOUT ROWID;
CREATE TABLE state (
    date TEXT NOT NULL,
    label TEXT NOT NULL,
    kind TEXT NOT NULL,
    content BLOB NOT NULL,
    PRIMARY KEY (label, date, kind),
    FOREIGN KEY (label, date) REFERENCES night ON DELETE CASCADE ON UPDATE CASCADE
) STRICT;
CREATE TABLE not_evaluated (
    date TEXT NOT NULL,
    label TEXT NOT NULL,
    reason TEXT NOT NULL,
    written_at TEXT NOT NULL,
    PRIMARY KEY (label, date)
) STRICT;
CREATE INDEX value_over_time ON value (measure, score, slicing, slice, label, date);
CREATE INDEX night_by_fingerprint ON night (fingerprint, label, date);
