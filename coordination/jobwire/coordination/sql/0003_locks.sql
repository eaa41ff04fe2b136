-- File locks: leases on paths below a run's root, and on names.

-- The folder that a run works on; paths of locks are relative to it.
CREATE TABLE runs (
    run_id TEXT PRIMARY KEY,
    root TEXT NOT NULL
) STRICT;

CREATE TABLE file_locks (
    run_id TEXT NOT NULL,
    target TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    mode TEXT NOT NULL CHECK (mode IN ('shared', 'exclusive')),
    incarnation TEXT NOT NULL DEFAULT '',
    -- The lock ends with this job at the latest.
    job_id TEXT NOT NULL DEFAULT '',
    -- The event of the grant: it rises with each new holder.
    token INTEGER NOT NULL,
    lease_seconds REAL NOT NULL,
    acquired_ms INTEGER NOT NULL,
    lease_until_ms INTEGER NOT NULL,
    -- Who asked to break it; somebody else must confirm.
    break_by TEXT NOT NULL DEFAULT '',
    break_reason TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (run_id, target, agent_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX file_locks_of_agent ON file_locks (agent_id);

CREATE TABLE lock_waits (
    -- The event of its beginning: first come, first served.
    wait_id INTEGER PRIMARY KEY,
    run_id TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    incarnation TEXT NOT NULL DEFAULT '',
    mode TEXT NOT NULL CHECK (mode IN ('shared', 'exclusive')),
    -- A JSON array of targets.
    targets TEXT NOT NULL,
    job_id TEXT NOT NULL DEFAULT '',
    since_ms INTEGER NOT NULL,
    -- The waiter's last sign of life.
    seen_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX lock_waits_of_agent ON lock_waits (agent_id);
