-- Every statement of the sink, by name; `?` stands for a parameter in both databases.

-- name: form
SELECT MAX(version) FROM metrics_schema

-- name: shards
SELECT MAX(shards) FROM metrics_schema

-- name: set_shards
UPDATE metrics_schema SET shards = ?

-- name: put_form
INSERT INTO metrics_schema (version, shards) VALUES (?, ?)

-- A shard that has nothing of a journal yet begins where the others began.
-- name: all_progress
SELECT
    journal, MIN(first_offset),
    CASE WHEN COUNT(*) < (SELECT MAX(shards) FROM metrics_schema) THEN MIN(first_offset) ELSE MIN(next_offset) END,
    MIN(watermark_us)
FROM progress GROUP BY journal

-- name: uneven_progress
SELECT
    journal,
    CASE WHEN COUNT(*) < (SELECT MAX(shards) FROM metrics_schema) THEN MIN(first_offset) ELSE MIN(next_offset) END,
    MAX(next_offset)
FROM progress GROUP BY journal
HAVING COUNT(*) < (SELECT MAX(shards) FROM metrics_schema) OR MIN(next_offset) < MAX(next_offset)

-- name: progress
SELECT first_offset, next_offset, watermark_us FROM progress WHERE journal = ? AND shard = ?

-- name: begin_progress
INSERT INTO progress (journal, shard, first_offset, next_offset, watermark_us, updated_at)
VALUES (?, ?, ?, ?, 0, ?) ON CONFLICT (journal, shard) DO NOTHING

-- Given whole rows of jobs that are there and have not ended (SQLite).
-- name: go_on
UPDATE job_totals SET
    started_us = ?3, events = ?7, attempts = ?8, waiting_us = ?9, last_seq = ?12, last_event = ?13,
    last_event_us = ?14, runs = ?15
WHERE job_id = ?1

-- The list of ids is filled in by the caller.
-- name: job_totals_of
SELECT * FROM job_totals WHERE job_id IN (...)

-- The list of ids is filled in by the caller.
-- name: job_facts_of
SELECT * FROM job_facts WHERE job_id IN (...)

-- When a job was first heard of, by its worker's word or a fact. The lists of ids are filled in by the caller.
-- name: begun_of
SELECT job_id, MIN(begun_us) FROM (
    SELECT job_id, started_us AS begun_us FROM job_totals WHERE job_id IN (...)
    UNION ALL
    SELECT job_id, COALESCE(registered_us, claimed_us, ended_us, purged_us) FROM job_facts WHERE job_id IN (...)
) AS heard GROUP BY job_id

-- name: created_at_of
SELECT created_at FROM job_facts WHERE job_id = ?

-- name: set_aside_job_totals
UPDATE job_totals SET job_id = ? WHERE job_id = ?

-- name: set_aside_job_facts
UPDATE job_facts SET job_id = ? WHERE job_id = ?

-- name: trim_health
DELETE FROM health WHERE updated_at < (SELECT updated_at FROM health ORDER BY updated_at DESC LIMIT 1 OFFSET 1000)

-- name: keep_sessions
INSERT INTO kept_sessions (job_id, session)
SELECT job_id, session FROM job_totals WHERE session <> ''
ON CONFLICT (job_id) DO NOTHING

-- name: any_kept_session
SELECT 1 FROM kept_sessions LIMIT 1

-- The list of ids is filled in by the caller.
-- name: kept_sessions_of
SELECT job_id, session FROM kept_sessions WHERE job_id IN (...)

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
SELECT window_start, measure, bucket, CAST(SUM(events) AS BIGINT) FROM histograms
WHERE
    width_seconds = 60 AND measure IN ('delay', 'ahead') AND dimension = ''
    AND window_start >= (
        SELECT MAX(window_start) FROM histograms
        WHERE width_seconds = 60 AND measure = 'delay' AND dimension = ''
    ) - 600
    AND window_start + 60 > ?
GROUP BY window_start, measure, bucket

-- name: show_outcomes
SELECT outcome, COUNT(*), AVG(duration_s), AVG(waiting_s), MAX(attempts) FROM jobs
WHERE last_event_at > ? GROUP BY outcome ORDER BY outcome

-- name: show_facts
SELECT kind, timeout, CAST(SUM(facts) AS BIGINT) FROM fact_counts
WHERE width_seconds = 60 AND window_start + 60 > ? GROUP BY kind, timeout

-- name: show_ends
SELECT outcome, CAST(SUM(events) AS BIGINT) FROM histograms
WHERE width_seconds = 60 AND measure = 'duration' AND dimension = '' AND window_start + 60 > ?
GROUP BY outcome HAVING SUM(events) > 0

-- name: show_spreads
SELECT measure, dimension, value, bucket, CAST(SUM(events) AS BIGINT) FROM histograms
WHERE
    measure IN ('duration', 'waiting', 'queued', 'pickup')
    AND (
        (width_seconds = 60 AND dimension IN ('', 'session') AND window_start + 60 > ?)
        OR (width_seconds = 3600 AND dimension IN ('worker', 'label', 'attempt') AND window_start + 3600 > ?)
    )
GROUP BY measure, dimension, value, bucket HAVING SUM(events) > 0

-- name: show_usage
SELECT day_start, session, model, events, tokens_in, tokens_out, cost_usd FROM usage
WHERE day_start + 86400 > ? ORDER BY day_start DESC, cost_usd DESC, session, model LIMIT 20

-- name: show_slowest
SELECT job_id, session, duration_s, waiting_s, events, attempts, outcome FROM jobs
WHERE finished_at > ? ORDER BY duration_s DESC, job_id LIMIT 20

-- name: show_open_jobs
SELECT job_id, session, worker, last_event, last_event_at, waiting_since_at, events, attempts FROM open_jobs
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

-- The list of ids is filled in by the caller.
-- name: counted_jobs_of
SELECT job_id FROM (SELECT job_id FROM job_totals UNION ALL SELECT job_id FROM job_facts) AS jobs
WHERE job_id IN (...)

-- name: total_rows
SELECT CAST(SUM(rows) AS BIGINT)
FROM (SELECT MIN(next_offset) - MIN(first_offset) AS rows FROM progress GROUP BY journal) AS journals

-- name: plot_windows
SELECT window_start, event_type, CAST(SUM(events) AS BIGINT) FROM windows
WHERE width_seconds = ? AND window_start >= ? GROUP BY window_start, event_type

-- name: plot_rejections
SELECT window_start, CAST(SUM(events) AS BIGINT) FROM rejections
WHERE width_seconds = ? AND window_start >= ? GROUP BY window_start

-- name: plot_lengths
SELECT measure, outcome, bucket, CAST(SUM(events) AS BIGINT) FROM histograms
WHERE width_seconds = ? AND measure IN ('duration', 'waiting') AND dimension = '' AND window_start >= ?
GROUP BY measure, outcome, bucket
HAVING SUM(events) > 0
