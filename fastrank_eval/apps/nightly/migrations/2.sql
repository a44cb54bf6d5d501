-- The index reads one slice over time. `written_at` is the time when the numbers were computed.
CREATE INDEX value_over_time ON value (measure, score, slicing, slice, date);
ALTER TABLE night ADD COLUMN written_at TEXT NOT NULL DEFAULT '';
