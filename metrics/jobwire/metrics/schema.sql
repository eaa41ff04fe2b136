-- The metric tables, the same text for SQLite and PostgreSQL. Readers (dashboard, `jobwire metrics
-- show`, any SQL client) use: windows, rejections, delays, error_rates, jobs, open_jobs, health.
-- Times: columns named *_us are microseconds since the epoch; window_start is whole seconds since the
-- epoch; columns named *_at are seconds since the epoch with fractions. All come from `received_at`,
-- the recorder's clock; the worker's own `timestamp` is used for delays only.
-- Every count is a sum over journal rows with offset < progress.next_offset, each row once.

-- One row: which form these tables have.
CREATE TABLE IF NOT EXISTS metrics_schema (version INTEGER NOT NULL PRIMARY KEY);

-- How far each journal (by its identity) is folded into the tables; changed in the same transaction.
CREATE TABLE IF NOT EXISTS progress (
    journal TEXT NOT NULL PRIMARY KEY,
    first_offset BIGINT NOT NULL,
    next_offset BIGINT NOT NULL,
    watermark_us BIGINT NOT NULL,
    updated_at DOUBLE PRECISION NOT NULL
);

-- Accepted events by type and session; width_seconds is 10 or 60.
CREATE TABLE IF NOT EXISTS windows (
    window_start BIGINT NOT NULL,
    width_seconds INTEGER NOT NULL,
    event_type TEXT NOT NULL,
    session TEXT NOT NULL,
    events BIGINT NOT NULL,
    PRIMARY KEY (width_seconds, window_start, event_type, session)
);

-- Messages that were not accepted, by the reason of SPEC section 3.
CREATE TABLE IF NOT EXISTS rejections (
    window_start BIGINT NOT NULL,
    width_seconds INTEGER NOT NULL,
    reason TEXT NOT NULL,
    events BIGINT NOT NULL,
    PRIMARY KEY (width_seconds, window_start, reason)
);

-- From the worker's clock to the recorder's, exact counts in buckets of at most 1.6 % (buckets.py).
CREATE TABLE IF NOT EXISTS delay_buckets (
    window_start BIGINT NOT NULL,
    width_seconds INTEGER NOT NULL,
    bucket INTEGER NOT NULL,
    events BIGINT NOT NULL,
    PRIMARY KEY (width_seconds, window_start, bucket)
);

-- The percentiles of delay_buckets. `ahead`: events stamped more than a second in the future.
CREATE TABLE IF NOT EXISTS delays (
    window_start BIGINT NOT NULL,
    width_seconds INTEGER NOT NULL,
    events BIGINT NOT NULL,
    ahead BIGINT NOT NULL,
    p50_ms DOUBLE PRECISION NOT NULL,
    p95_ms DOUBLE PRECISION NOT NULL,
    p99_ms DOUBLE PRECISION NOT NULL,
    max_ms DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (width_seconds, window_start)
);

-- One row a job, in integers so that any order of adding gives the same bytes. Read the view `jobs`.
-- `runs`: the seqs seen, as a JSON list of [first_seq, last_seq, first_us, last_us, last_event].
CREATE TABLE IF NOT EXISTS job_totals (
    job_id TEXT NOT NULL PRIMARY KEY,
    session TEXT NOT NULL,
    started_us BIGINT NOT NULL,
    finished_us BIGINT,
    terminal_seq BIGINT,
    outcome TEXT NOT NULL,
    events BIGINT NOT NULL,
    attempts BIGINT NOT NULL,
    waiting_us BIGINT NOT NULL,
    waiting_since_us BIGINT,
    last_event TEXT NOT NULL,
    last_event_us BIGINT NOT NULL,
    last_seq BIGINT NOT NULL,
    inner_waiting_us BIGINT NOT NULL,
    runs TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS job_totals_by_outcome ON job_totals (outcome, last_event_us);
CREATE INDEX IF NOT EXISTS job_totals_by_finish ON job_totals (finished_us);

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

-- outcome: open, completed or error. waiting_s is finished waiting; open_jobs tells the present one.
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
    last_seq
FROM job_totals;

-- "Stuck since" is now minus last_event_at, when it is read. waiting_since_at is null unless the job
-- waits for permission. A job that was cancelled says nothing on its topic: the registry knows it.
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
    attempts
FROM job_totals
WHERE outcome = 'open';

-- errors / finished is the error rate of jobs, rejected / (accepted + rejected) that of messages.
-- final: 1 when the window lies before the watermark of every journal.
CREATE VIEW error_rates AS
SELECT
    window_start,
    width_seconds,
    CAST(SUM(accepted) AS BIGINT) AS accepted,
    CAST(SUM(rejected) AS BIGINT) AS rejected,
    CAST(SUM(finished) AS BIGINT) AS finished,
    CAST(SUM(errors) AS BIGINT) AS errors,
    CASE
        WHEN SUM(finished) = 0 THEN 0
        ELSE CAST(SUM(errors) AS DOUBLE PRECISION) / CAST(SUM(finished) AS DOUBLE PRECISION)
    END AS error_rate,
    CAST(SUM(rejected) AS DOUBLE PRECISION)
    / CAST(SUM(accepted) + SUM(rejected) AS DOUBLE PRECISION) AS rejection_rate,
    CASE
        WHEN (window_start + width_seconds) * 1000000 <= (SELECT MIN(watermark_us) FROM progress) THEN 1
        ELSE 0
    END AS final
FROM (
    SELECT
        window_start,
        width_seconds,
        events AS accepted,
        0 AS rejected,
        CASE WHEN event_type IN ('completed', 'error') THEN events ELSE 0 END AS finished,
        CASE WHEN event_type = 'error' THEN events ELSE 0 END AS errors
    FROM windows
    UNION ALL
    SELECT window_start, width_seconds, 0, events, 0, 0 FROM rejections
) AS counted
GROUP BY window_start, width_seconds;
