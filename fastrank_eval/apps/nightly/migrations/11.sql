-- The earlier night of a gate, which the text of its condition had at the end.
ALTER TABLE gate ADD COLUMN kind TEXT NOT NULL DEFAULT 'baseline';
UPDATE gate SET kind = 'yesterday', condition = substr(condition, 1, length(condition) - 18)
WHERE condition LIKE '% (since yesterday)';
UPDATE gate SET kind = 'last_week', condition = substr(condition, 1, length(condition) - 18)
WHERE condition LIKE '% (since last week)';
