-- The name of the report, so that another report does not replace its nights.
CREATE TABLE report (name TEXT NOT NULL);
