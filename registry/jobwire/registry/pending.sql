-- The index is a cache of what the records say: any of it may be thrown away and made again.
CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;

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
) WITHOUT ROWID;

-- indexes
CREATE INDEX jobs_to_pick ON jobs (session, rank, position) WHERE status = 'pending' AND ready IS NULL;
CREATE INDEX jobs_to_pick_any ON jobs (rank, position) WHERE status = 'pending' AND ready IS NULL;
CREATE INDEX jobs_resting ON jobs (ready) WHERE ready IS NOT NULL;
CREATE INDEX jobs_open ON jobs (session, position) WHERE status IN ('pending', 'running', 'unreadable');
CREATE INDEX jobs_by_status ON jobs (status, position);
CREATE INDEX jobs_by_session ON jobs (session, position);
CREATE INDEX jobs_by_position ON jobs (position);
CREATE INDEX jobs_due ON jobs (due) WHERE due IS NOT NULL;
CREATE INDEX jobs_by_key ON jobs (idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX jobs_finished ON jobs (job_id, finished_at, cleared) WHERE finished_at IS NOT NULL;
