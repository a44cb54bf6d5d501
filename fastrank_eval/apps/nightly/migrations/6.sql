-- Distances of scores and columns from those of the nights before.
CREATE TABLE drift (
    date TEXT NOT NULL REFERENCES night ON DELETE CASCADE,
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
    PRIMARY KEY (date, place)
) WITHOUT ROWID;
