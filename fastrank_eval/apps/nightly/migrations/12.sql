-- The rows of the slice of a difference from the baseline, 0 where they are not known.
ALTER TABLE difference ADD COLUMN "rows" INTEGER NOT NULL DEFAULT 0;
