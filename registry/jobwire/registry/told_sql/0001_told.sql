-- What of each job's history stands in the journal: up to which fact, and from where the next look reads on.
CREATE TABLE told (
    job_id TEXT PRIMARY KEY,
    -- ids come back: of which job
    created_at TEXT NOT NULL,
    -- the place of the last fact (jobs/fact.py)
    place INTEGER NOT NULL,
    -- whole lines, and bytes, of the history that need not be read again
    line INTEGER NOT NULL,
    offset INTEGER NOT NULL,
    -- 1 when the job is gone, and this row can go as soon as nothing is left to be told of it
    purged INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX told_purged ON told (job_id) WHERE purged = 1;
