-- The calibration of the worst slices of multicalibration errors.
CREATE TABLE calibration (
    date TEXT NOT NULL REFERENCES night ON DELETE CASCADE,
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
    PRIMARY KEY (date, place)
) WITHOUT ROWID;
