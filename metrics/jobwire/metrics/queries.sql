-- Every statement of the sink, by name; `?` stands for a parameter in both databases.

-- name: schema_version
SELECT MAX(version) FROM metrics_schema

-- name: set_schema_version
INSERT INTO metrics_schema (version) VALUES (?)

-- name: all_progress
SELECT journal, first_offset, next_offset, watermark_us FROM progress

-- name: progress
SELECT first_offset, next_offset, watermark_us FROM progress WHERE journal = ?

-- name: put_progress
INSERT INTO progress (journal, first_offset, next_offset, watermark_us, updated_at) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (journal) DO UPDATE SET
    first_offset = excluded.first_offset, next_offset = excluded.next_offset,
    watermark_us = excluded.watermark_us, updated_at = excluded.updated_at

-- name: add_windows
INSERT INTO windows (width_seconds, window_start, event_type, session, events) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (width_seconds, window_start, event_type, session)
DO UPDATE SET events = windows.events + excluded.events

-- name: add_rejections
INSERT INTO rejections (width_seconds, window_start, reason, events) VALUES (?, ?, ?, ?)
ON CONFLICT (width_seconds, window_start, reason)
DO UPDATE SET events = rejections.events + excluded.events

-- name: add_delay_buckets
INSERT INTO delay_buckets (width_seconds, window_start, bucket, events) VALUES (?, ?, ?, ?)
ON CONFLICT (width_seconds, window_start, bucket)
DO UPDATE SET events = delay_buckets.events + excluded.events

-- name: buckets_between
SELECT window_start, bucket, events FROM delay_buckets
WHERE width_seconds = ? AND window_start BETWEEN ? AND ?

-- name: put_delays
INSERT INTO delays (width_seconds, window_start, events, ahead, p50_ms, p95_ms, p99_ms, max_ms)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (width_seconds, window_start) DO UPDATE SET
    events = excluded.events, ahead = delays.ahead + excluded.ahead,
    p50_ms = excluded.p50_ms, p95_ms = excluded.p95_ms, p99_ms = excluded.p99_ms, max_ms = excluded.max_ms

-- The list of ids is filled in by the caller.
-- name: job_totals_of
SELECT job_id, session, started_us, finished_us, terminal_seq, outcome, events, attempts, inner_waiting_us, runs
FROM job_totals WHERE job_id IN (...)

-- name: put_job_totals
INSERT INTO job_totals (
    job_id, session, started_us, finished_us, terminal_seq, outcome, events, attempts, waiting_us,
    waiting_since_us, last_event, last_event_us, last_seq, inner_waiting_us, runs
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (job_id) DO UPDATE SET
    started_us = excluded.started_us, finished_us = excluded.finished_us,
    terminal_seq = excluded.terminal_seq, outcome = excluded.outcome, events = excluded.events,
    attempts = excluded.attempts, waiting_us = excluded.waiting_us,
    waiting_since_us = excluded.waiting_since_us, last_event = excluded.last_event,
    last_event_us = excluded.last_event_us, last_seq = excluded.last_seq,
    inner_waiting_us = excluded.inner_waiting_us, runs = excluded.runs

-- name: put_health
INSERT INTO health (run_id, batch_id, rows, duration_ms, backlog, watermark_at, updated_at, phases)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (run_id, batch_id) DO UPDATE SET
    rows = excluded.rows, duration_ms = excluded.duration_ms, backlog = excluded.backlog,
    watermark_at = excluded.watermark_at, updated_at = excluded.updated_at, phases = excluded.phases

-- name: trim_health
DELETE FROM health WHERE updated_at < (SELECT updated_at FROM health ORDER BY updated_at DESC LIMIT 1 OFFSET 1000)

-- name: keep_sessions
INSERT INTO kept_sessions (job_id, session)
SELECT job_id, session FROM job_totals WHERE session <> ''
ON CONFLICT (job_id) DO NOTHING

-- name: kept_sessions
SELECT job_id, session FROM kept_sessions

-- name: drop_kept_sessions
DELETE FROM kept_sessions

-- Reading: `show`, `status`, `plot`, summaries. Times given are seconds since the epoch.

-- name: recent_batches
SELECT batch_id, rows, duration_ms, backlog, updated_at FROM health ORDER BY updated_at DESC LIMIT 100

-- name: show_windows
SELECT event_type, CAST(SUM(events) AS BIGINT) FROM windows
WHERE width_seconds = 60 AND window_start + 60 > ? GROUP BY event_type ORDER BY event_type

-- name: show_sessions
SELECT
    session, CAST(SUM(events) AS BIGINT),
    CAST(SUM(CASE WHEN event_type = 'error' THEN events ELSE 0 END) AS BIGINT)
FROM windows
WHERE width_seconds = 60 AND window_start + 60 > ? GROUP BY session ORDER BY 2 DESC, session LIMIT 20

-- name: show_rejections
SELECT reason, CAST(SUM(events) AS BIGINT) FROM rejections
WHERE width_seconds = 60 AND window_start + 60 > ? GROUP BY reason ORDER BY reason

-- name: show_delays
SELECT window_start, events, ahead, p50_ms, p95_ms, p99_ms FROM delays
WHERE width_seconds = 60 AND window_start + 60 > ? ORDER BY window_start DESC LIMIT 10

-- name: show_outcomes
SELECT outcome, COUNT(*), AVG(duration_s), AVG(waiting_s), MAX(attempts) FROM jobs
WHERE last_event_at > ? GROUP BY outcome ORDER BY outcome

-- name: show_slowest
SELECT job_id, session, duration_s, waiting_s, events, attempts, outcome FROM jobs
WHERE finished_at > ? ORDER BY duration_s DESC, job_id LIMIT 20

-- name: show_open_jobs
SELECT job_id, session, last_event, last_event_at, waiting_since_at, events, attempts FROM open_jobs
ORDER BY last_event_at, job_id LIMIT 20

-- name: total_events
SELECT event_type, CAST(SUM(events) AS BIGINT) FROM windows
WHERE width_seconds = 60 GROUP BY event_type ORDER BY event_type

-- name: total_rejections
SELECT reason, CAST(SUM(events) AS BIGINT) FROM rejections
WHERE width_seconds = 60 GROUP BY reason ORDER BY reason

-- name: latest_jobs
SELECT job_id, session, started_at, finished_at, duration_s, waiting_s, events, attempts, outcome FROM jobs
ORDER BY started_at DESC, job_id LIMIT 100

-- name: counted_jobs
SELECT job_id FROM job_totals

-- name: total_rows
SELECT CAST(SUM(next_offset - first_offset) AS BIGINT) FROM progress

-- name: plot_windows
SELECT window_start, event_type, CAST(SUM(events) AS BIGINT) FROM windows
WHERE width_seconds = ? AND window_start >= ? GROUP BY window_start, event_type

-- name: plot_rejections
SELECT window_start, CAST(SUM(events) AS BIGINT) FROM rejections
WHERE width_seconds = ? AND window_start >= ? GROUP BY window_start

-- name: plot_jobs
SELECT outcome, duration_s, waiting_s FROM jobs WHERE finished_at >= ? ORDER BY job_id
