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
