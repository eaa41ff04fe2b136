-- The metric tables, the same text for SQLite and PostgreSQL. Readers (dashboard, `jobwire metrics
-- show`, any SQL client) use: windows, rejections, measured, error_rates, jobs, open_jobs, health.
-- Times: columns named *_us are microseconds since the epoch; window_start is whole seconds since the
-- epoch; columns named *_at are seconds since the epoch with fractions. All come from `received_at`,
-- the recorder's clock; the worker's own `timestamp` is used for delays only.
-- Every count is a sum over journal rows with offset < progress.next_offset, each row once.

-- One row: which form these tables have, and into how many shards the jobs are divided.
CREATE TABLE IF NOT EXISTS metrics_schema (version INTEGER NOT NULL PRIMARY KEY, shards INTEGER NOT NULL);

-- How far each journal (by its identity) is folded into each shard; changed in the same transaction.
-- A job is of the shard that its id's number leaves as remainder. One task at a time folds a shard; it
-- adds to rows of its own, and the views add up.
CREATE TABLE IF NOT EXISTS progress (
    journal TEXT NOT NULL,
    shard INTEGER NOT NULL,
    first_offset BIGINT NOT NULL,
    next_offset BIGINT NOT NULL,
    watermark_us BIGINT NOT NULL,
    updated_at DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (journal, shard)
);

-- When a journal was last seen to end at `next_offset`: so no window waits for one that is idle. Of all shards
-- (with SQLite in the first one's file). Recorders' clocks may differ by 10 s.
CREATE TABLE IF NOT EXISTS idle (
    journal TEXT NOT NULL PRIMARY KEY,
    next_offset BIGINT NOT NULL,
    until_us BIGINT NOT NULL
);

-- Accepted events by type and session; width_seconds is 10, 60 or 3600. Read the view `windows`.
CREATE TABLE IF NOT EXISTS window_counts (
    width_seconds INTEGER NOT NULL,
    window_start BIGINT NOT NULL,
    event_type TEXT NOT NULL,
    session TEXT NOT NULL,
    shard INTEGER NOT NULL,
    events BIGINT NOT NULL,
    PRIMARY KEY (width_seconds, window_start, event_type, session, shard)
);

-- Messages that were not accepted, by the reason of SPEC section 3. Read the view `rejections`.
CREATE TABLE IF NOT EXISTS rejection_counts (
    width_seconds INTEGER NOT NULL,
    window_start BIGINT NOT NULL,
    reason TEXT NOT NULL,
    shard INTEGER NOT NULL,
    events BIGINT NOT NULL,
    PRIMARY KEY (width_seconds, window_start, reason, shard)
);

-- Lengths of time as exact counts in buckets of at most 1.6 % (buckets.py), which add up over any range.
-- measure: delay    from the worker's clock to the recorder's, of each event;
--          ahead    events stamped more than a second in the future (bucket 0);
--          duration of each job that ended, from its start, in the window of its end;
--          waiting  for permission, of each job that waited and ended, in the window of its end;
--          begun    jobs that have ended, in the window of their start (bucket 0).
-- dimension: '' counts everything; 'session' what each session (`value`) did, in windows of 60 and 3600 s.
-- outcome is that of the job, '' for delay and ahead. Read the view `measured`.
CREATE TABLE IF NOT EXISTS histograms (
    width_seconds INTEGER NOT NULL,
    measure TEXT NOT NULL,
    dimension TEXT NOT NULL,
    window_start BIGINT NOT NULL,
    value TEXT NOT NULL,
    outcome TEXT NOT NULL,
    bucket INTEGER NOT NULL,
    shard INTEGER NOT NULL,
    events BIGINT NOT NULL,
    PRIMARY KEY (width_seconds, measure, dimension, window_start, value, outcome, bucket, shard)
);

-- One row a job, in integers so that any order of adding gives the same bytes. Read the view `jobs`.
-- first_* and last_* are the ends of the last run of seqs without a gap; `runs` holds the runs before it,
-- as a JSON list of [first_seq, last_seq, first_us, last_us, last_event], NULL where there are none.
CREATE TABLE IF NOT EXISTS job_totals (
    job_id TEXT NOT NULL PRIMARY KEY,
    session TEXT,
    started_us BIGINT NOT NULL,
    finished_us BIGINT,
    terminal_seq BIGINT,
    outcome TEXT NOT NULL,
    events BIGINT NOT NULL,
    attempts BIGINT NOT NULL,
    waiting_us BIGINT NOT NULL,
    first_seq BIGINT NOT NULL,
    first_us BIGINT NOT NULL,
    last_seq BIGINT NOT NULL,
    last_event TEXT NOT NULL,
    last_event_us BIGINT NOT NULL,
    runs TEXT
);
-- Changed when a job begins and ends only: an index over all jobs would double the cost of an event.
CREATE INDEX IF NOT EXISTS job_totals_open ON job_totals (job_id) WHERE outcome = 'open';

-- Sessions of jobs while a rebuild is under way; empty otherwise.
CREATE TABLE IF NOT EXISTS kept_sessions (
    job_id TEXT NOT NULL PRIMARY KEY,
    session TEXT NOT NULL
);

-- The query's own health, one row a micro-batch, the latest thousand. Not part of what replays equal.
-- `watermark_at`: no event received before it is expected any more; `backlog`: rows not read yet.
CREATE TABLE IF NOT EXISTS health (
    run_id TEXT NOT NULL,
    batch_id BIGINT NOT NULL,
    rows BIGINT NOT NULL,
    duration_ms BIGINT NOT NULL,
    backlog BIGINT NOT NULL,
    watermark_at DOUBLE PRECISION NOT NULL,
    updated_at DOUBLE PRECISION NOT NULL,
    phases TEXT NOT NULL,
    PRIMARY KEY (run_id, batch_id)
);
CREATE INDEX IF NOT EXISTS health_by_time ON health (updated_at);

-- What the registry decided (jobs/fact.py), by kind, in the window in which they happened; `timeout` is the limit of a timed_out one, else ''.
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

CREATE VIEW windows AS
SELECT window_start, width_seconds, event_type, session, CAST(SUM(events) AS BIGINT) AS events
FROM window_counts
GROUP BY window_start, width_seconds, event_type, session;

CREATE VIEW rejections AS
SELECT window_start, width_seconds, reason, CAST(SUM(events) AS BIGINT) AS events
FROM rejection_counts
GROUP BY window_start, width_seconds, reason;

CREATE VIEW measured AS
SELECT
    width_seconds, measure, dimension, window_start, value, outcome, bucket,
    CAST(SUM(events) AS BIGINT) AS events
FROM histograms
GROUP BY width_seconds, measure, dimension, window_start, value, outcome, bucket
HAVING SUM(events) <> 0;

-- outcome as in job_states. waiting_s is finished waiting; open_jobs tells the present one.
CREATE VIEW jobs AS
SELECT
    job_id,
    session,
    CAST(started_us AS DOUBLE PRECISION) / 1000000 AS started_at,
    CAST(finished_us AS DOUBLE PRECISION) / 1000000 AS finished_at,
    CAST(finished_us - started_us AS DOUBLE PRECISION) / 1000000 AS duration_s,
    CAST(waiting_us AS DOUBLE PRECISION) / 1000000 AS waiting_s,
    events,
    attempts,
    outcome,
    last_event,
    CAST(last_event_us AS DOUBLE PRECISION) / 1000000 AS last_event_at,
    last_seq,
    timeout,
    ended_by,
    worker,
    labels,
    requeues,
    CAST(registered_us AS DOUBLE PRECISION) / 1000000 AS registered_at,
    CAST(claimed_us AS DOUBLE PRECISION) / 1000000 AS claimed_at
FROM job_states;

-- "Stuck since" is now minus last_event_at, when it is read. waiting_since_at is null unless the job
-- waits for permission.
CREATE VIEW open_jobs AS
SELECT
    job_id,
    session,
    CAST(started_us AS DOUBLE PRECISION) / 1000000 AS started_at,
    last_event,
    CAST(last_event_us AS DOUBLE PRECISION) / 1000000 AS last_event_at,
    CAST(waiting_since_us AS DOUBLE PRECISION) / 1000000 AS waiting_since_at,
    CAST(waiting_us AS DOUBLE PRECISION) / 1000000 AS waiting_s,
    events,
    attempts,
    worker,
    labels
FROM job_states
WHERE outcome = 'open';

-- Of what ended in a window: errors (an error event, a timeout, or the registry gave up) / finished is the
-- error rate of jobs; rejected / (accepted + rejected) is that of messages.
-- final: 1 when the window lies before the watermark of every journal, or the time until which it was idle.
CREATE VIEW error_rates AS
SELECT
    window_start,
    width_seconds,
    accepted,
    rejected,
    finished,
    errors,
    CASE
        WHEN finished = 0 THEN 0 ELSE CAST(errors AS DOUBLE PRECISION) / CAST(finished AS DOUBLE PRECISION)
    END AS error_rate,
    CASE
        WHEN accepted + rejected = 0 THEN 0
        ELSE CAST(rejected AS DOUBLE PRECISION) / CAST(accepted + rejected AS DOUBLE PRECISION)
    END AS rejection_rate,
    CASE
        WHEN (window_start + width_seconds) * 1000000 <= (
            SELECT
                MIN(
                    CASE
                        WHEN i.next_offset = p.next_offset AND i.until_us > p.watermark_us THEN i.until_us
                        ELSE p.watermark_us
                    END
                )
            FROM progress AS p LEFT JOIN idle AS i ON i.journal = p.journal
        ) THEN 1
        ELSE 0
    END AS final,
    registered,
    claimed,
    requeued,
    cancelled,
    timed_out
FROM (
    SELECT
        window_start,
        width_seconds,
        CAST(SUM(CASE WHEN said = 'event' THEN n ELSE 0 END) AS BIGINT) AS accepted,
        CAST(SUM(CASE WHEN said = 'refusal' THEN n ELSE 0 END) AS BIGINT) AS rejected,
        CAST(SUM(CASE WHEN what IN ('completed', 'error', 'cancelled', 'timed_out', 'failed') THEN n ELSE 0 END) AS BIGINT)
        AS finished,
        CAST(SUM(CASE WHEN what IN ('error', 'timed_out', 'failed') THEN n ELSE 0 END) AS BIGINT) AS errors,
        CAST(SUM(CASE WHEN what = 'registered' THEN n ELSE 0 END) AS BIGINT) AS registered,
        CAST(SUM(CASE WHEN what = 'claimed' THEN n ELSE 0 END) AS BIGINT) AS claimed,
        CAST(SUM(CASE WHEN what = 'requeued' THEN n ELSE 0 END) AS BIGINT) AS requeued,
        CAST(SUM(CASE WHEN what = 'cancelled' THEN n ELSE 0 END) AS BIGINT) AS cancelled,
        CAST(SUM(CASE WHEN what = 'timed_out' THEN n ELSE 0 END) AS BIGINT) AS timed_out
    FROM (
        -- Events and facts have no name in common.
        SELECT window_start, width_seconds, 'event' AS said, event_type AS what, events AS n FROM window_counts
        UNION ALL
        SELECT window_start, width_seconds, 'refusal', '', events FROM rejection_counts
        UNION ALL
        SELECT window_start, width_seconds, 'fact', kind, facts FROM fact_counts
    ) AS counted
    GROUP BY window_start, width_seconds
) AS summed;
