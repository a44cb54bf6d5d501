-- The median, nulls and most frequent value of a night and of the nights before.
ALTER TABLE drift RENAME COLUMN score TO name;
ALTER TABLE drift ADD COLUMN median REAL;
ALTER TABLE drift ADD COLUMN mode_share REAL;
ALTER TABLE drift ADD COLUMN reference_nulls INTEGER NOT NULL DEFAULT 0;
ALTER TABLE drift ADD COLUMN reference_median REAL;
ALTER TABLE drift ADD COLUMN reference_mode_share REAL;
