-- The index is a cache of what the records say: any of it may be thrown away and made again.

-- One row as soon as the jobs of all records are in: of which boot of the machine, and of which form of record.
CREATE TABLE made (boot TEXT NOT NULL, records INTEGER NOT NULL) STRICT;

-- due: no earlier than this epoch second the job needs the reaper; position: the order of registration.
CREATE TABLE jobs (
    job_id TEXT PRIMARY KEY,
    status TEXT NOT NULL,
    session TEXT,
    rank INTEGER NOT NULL,
    position INTEGER NOT NULL,
    idempotency_key TEXT,
    due REAL,
    finished_at TEXT,
    -- 1 when the job's retained messages were cleared at the broker
    cleared INTEGER NOT NULL,
    -- 1 when a person dismissed the failure: it counts no more
    dismissed INTEGER NOT NULL,
    -- until this epoch second a pending job rests; NULL: it may be picked
    ready REAL
) STRICT, WITHOUT ROWID;
