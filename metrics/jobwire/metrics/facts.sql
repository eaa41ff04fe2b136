-- What the registry decided (jobs/fact.py), beside what workers said. Times and counts as in schema.sql.

-- Facts by kind, in the window in which they happened; `timeout` is the limit of a timed_out one, else ''.
-- Read the view `facts`.
CREATE TABLE IF NOT EXISTS fact_counts (
    width_seconds INTEGER NOT NULL,
    window_start BIGINT NOT NULL,
    kind TEXT NOT NULL,
    timeout TEXT NOT NULL,
    session TEXT NOT NULL,
    shard INTEGER NOT NULL,
    facts BIGINT NOT NULL,
    PRIMARY KEY (width_seconds, window_start, kind, timeout, session, shard)
);

-- One row a job: its facts so far. `place` is that of the last one; those up to it are in here.
-- outcome: null, or cancelled, timed_out, failed: how the registry ended it. worker: who claimed it last.
-- labels: a JSON object.
CREATE TABLE IF NOT EXISTS job_facts (
    job_id TEXT NOT NULL PRIMARY KEY,
    created_at TEXT NOT NULL,
    place BIGINT NOT NULL,
    session TEXT NOT NULL,
    registered_us BIGINT,
    claimed_us BIGINT,
    attempts BIGINT NOT NULL,
    requeues BIGINT NOT NULL,
    outcome TEXT,
    ended_us BIGINT,
    ended_by TEXT NOT NULL,
    timeout TEXT NOT NULL,
    worker TEXT NOT NULL,
    labels TEXT NOT NULL,
    purged_us BIGINT
);

-- What events say their jobs used (the agreed keys of `data`, jobs/usage.py), by the hour of receipt.
-- Tokens, and millionths of a dollar. Read the view `usage`.
CREATE TABLE IF NOT EXISTS usage_counts (
    window_start BIGINT NOT NULL,
    session TEXT NOT NULL,
    model TEXT NOT NULL,
    shard INTEGER NOT NULL,
    events BIGINT NOT NULL,
    tokens_in BIGINT NOT NULL,
    tokens_out BIGINT NOT NULL,
    cost_micro_usd BIGINT NOT NULL,
    PRIMARY KEY (window_start, session, model, shard)
);

-- By session, model and day (UTC; the epoch second at which it begins).
CREATE VIEW usage AS
SELECT
    window_start / 86400 * 86400 AS day_start,
    session,
    model,
    CAST(SUM(events) AS BIGINT) AS events,
    CAST(SUM(tokens_in) AS BIGINT) AS tokens_in,
    CAST(SUM(tokens_out) AS BIGINT) AS tokens_out,
    CAST(SUM(cost_micro_usd) AS DOUBLE PRECISION) / 1000000 AS cost_usd
FROM usage_counts
GROUP BY window_start / 86400 * 86400, session, model;

CREATE VIEW facts AS
SELECT window_start, width_seconds, kind, timeout, session, CAST(SUM(facts) AS BIGINT) AS facts
FROM fact_counts
GROUP BY window_start, width_seconds, kind, timeout, session;

-- Events and facts of each job together, in integers; a decision of the registry goes before a worker's
-- last word. outcome: pending (nobody took it), open, completed, error, cancelled, timed_out or failed.
CREATE VIEW job_states AS
SELECT
    t.job_id,
    CASE WHEN f.session <> '' THEN f.session ELSE COALESCE(t.session, '') END AS session,
    t.started_us,
    COALESCE(f.ended_us, t.finished_us) AS finished_us,
    COALESCE(f.outcome, t.outcome) AS outcome,
    t.events,
    CASE WHEN f.attempts > t.attempts THEN f.attempts ELSE t.attempts END AS attempts,
    t.waiting_us,
    CASE WHEN f.outcome IS NULL AND t.outcome = 'open' AND t.last_event = 'permission_required' THEN t.last_event_us END
    AS waiting_since_us,
    t.last_event,
    t.last_event_us,
    t.last_seq,
    f.registered_us,
    f.claimed_us,
    COALESCE(f.requeues, 0) AS requeues,
    COALESCE(f.timeout, '') AS timeout,
    COALESCE(f.ended_by, '') AS ended_by,
    COALESCE(f.worker, '') AS worker,
    COALESCE(f.labels, '{}') AS labels
FROM job_totals AS t
LEFT JOIN job_facts AS f ON f.job_id = t.job_id
UNION ALL
SELECT
    f.job_id,
    f.session,
    COALESCE(f.claimed_us, f.registered_us, f.ended_us, f.purged_us),
    f.ended_us,
    COALESCE(f.outcome, CASE WHEN f.claimed_us IS NULL THEN 'pending' ELSE 'open' END),
    0,
    f.attempts,
    0,
    NULL,
    CASE WHEN f.claimed_us IS NULL THEN 'registered' ELSE 'claimed' END,
    COALESCE(f.claimed_us, f.registered_us, f.ended_us, f.purged_us),
    0,
    f.registered_us,
    f.claimed_us,
    f.requeues,
    f.timeout,
    f.ended_by,
    f.worker,
    f.labels
FROM job_facts AS f
WHERE NOT EXISTS (SELECT 1 FROM job_totals AS t WHERE t.job_id = f.job_id);
