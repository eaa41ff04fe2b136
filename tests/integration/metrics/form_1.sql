-- Tables as the first form had them: one job with a gap that ended, one that is open.
CREATE TABLE IF NOT EXISTS metrics_schema (version INTEGER NOT NULL PRIMARY KEY);

CREATE TABLE IF NOT EXISTS progress (
    journal TEXT NOT NULL PRIMARY KEY,
    first_offset BIGINT NOT NULL,
    next_offset BIGINT NOT NULL,
    watermark_us BIGINT NOT NULL,
    updated_at DOUBLE PRECISION NOT NULL
);

CREATE TABLE IF NOT EXISTS windows (
    window_start BIGINT NOT NULL,
    width_seconds INTEGER NOT NULL,
    event_type TEXT NOT NULL,
    session TEXT NOT NULL,
    events BIGINT NOT NULL,
    PRIMARY KEY (width_seconds, window_start, event_type, session)
);

CREATE TABLE IF NOT EXISTS rejections (
    window_start BIGINT NOT NULL,
    width_seconds INTEGER NOT NULL,
    reason TEXT NOT NULL,
    events BIGINT NOT NULL,
    PRIMARY KEY (width_seconds, window_start, reason)
);

CREATE TABLE IF NOT EXISTS delay_buckets (
    window_start BIGINT NOT NULL,
    width_seconds INTEGER NOT NULL,
    bucket INTEGER NOT NULL,
    events BIGINT NOT NULL,
    PRIMARY KEY (width_seconds, window_start, bucket)
);

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

CREATE TABLE IF NOT EXISTS kept_sessions (
    job_id TEXT NOT NULL PRIMARY KEY,
    session TEXT NOT NULL
);

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

CREATE VIEW jobs AS SELECT job_id, outcome FROM job_totals;

INSERT INTO metrics_schema VALUES (1);

INSERT INTO progress VALUES ('j', 0, 6, 52000000, 1.5);

INSERT INTO windows VALUES (0, 10, 'started', 'docs', 2), (0, 60, 'started', 'docs', 2),
    (60, 60, 'progress', 'docs', 1), (120, 60, 'progress', 'docs', 2);

INSERT INTO rejections VALUES (0, 60, 'malformed', 1);

INSERT INTO delay_buckets VALUES (0, 60, 4, 3), (60, 60, 4, 2);

INSERT INTO delays VALUES (0, 60, 3, 1, 1.0, 1.0, 1.0, 1.0);

INSERT INTO job_totals VALUES
    ('00000001', 'docs', 1000000, 61000000, 5, 'completed', 4, 1, 2000000, NULL, 'completed', 61000000, 5, 1000000,
    '[[1,2,1000000,2000000,"permission_required"],[4,5,3000000,61000000,"completed"]]'),
    ('00000002', '', 5000000, NULL, NULL, 'open', 1, 1, 0, NULL, 'started', 5000000, 1, 0,
    '[[1,1,5000000,5000000,"started"]]');
