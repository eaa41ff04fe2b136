-- name: made
-- From records of which form the index was made, whole and in this boot of the machine.
SELECT records FROM made WHERE boot = :boot;

-- name: set_made
-- Say so.
INSERT INTO made VALUES (:boot, :records);

-- name: put
-- One job as its record says.
INSERT OR REPLACE INTO jobs VALUES (
    :job_id, :status, :session, :rank, :position, :idempotency_key, :due, :finished_at, :cleared, :dismissed, :ready
);

-- name: put_unreadable
-- A job whose record cannot be read now; what is known of it stays.
INSERT INTO jobs VALUES (:job_id, 'unreadable', NULL, 0, 0, NULL, :due, NULL, 0, 0, NULL)
ON CONFLICT DO UPDATE SET status = 'unreadable', due = :due;

-- name: remove
-- A job without a record.
DELETE FROM jobs WHERE job_id = :job_id;

-- name: postpone
-- Not before then the reaper looks at it.
UPDATE jobs SET due = :until WHERE job_id = :job_id;

-- name: end_rests
-- Jobs that have rested long enough may be picked.
UPDATE jobs SET ready = NULL WHERE ready <= :now;

-- name: next_of_session
-- What is addressed to a session, or with NULL to nobody, best first.
SELECT rank, position, job_id FROM jobs INDEXED BY jobs_to_pick
WHERE status = 'pending' AND ready IS NULL AND session IS :session ORDER BY rank, position LIMIT :limit;

-- name: next_of_any
-- What may be picked, to whomever it is addressed, best first.
SELECT rank, position, job_id FROM jobs INDEXED BY jobs_to_pick_any
WHERE status = 'pending' AND ready IS NULL ORDER BY rank, position LIMIT :limit;

-- name: with_key
-- The job that was registered under an idempotency key.
SELECT job_id FROM jobs WHERE idempotency_key = :key LIMIT 1;

-- name: open_of_session
-- The unfinished jobs of a session, oldest first.
SELECT job_id FROM jobs INDEXED BY jobs_open
WHERE session = :session AND status IN ('pending', 'running', 'unreadable') ORDER BY position;

-- name: due
-- What may have reached a limit, longest overdue first.
SELECT job_id FROM jobs WHERE due <= :now ORDER BY due LIMIT :limit;

-- name: finished_before
-- Old finished jobs for the purge, page by page; without :cleared those whose messages were not cleared yet.
SELECT job_id FROM jobs INDEXED BY jobs_finished
WHERE finished_at IS NOT NULL AND job_id > :after AND finished_at < :stamp AND cleared <= :cleared
ORDER BY job_id LIMIT :limit;

-- name: failures
-- Jobs that failed and that nobody has dismissed, page by page.
SELECT job_id FROM jobs WHERE status = 'error' AND dismissed = 0 AND job_id > :after ORDER BY job_id LIMIT :limit;

-- name: of_status
-- All jobs in a state.
SELECT job_id FROM jobs WHERE status = :status;

-- name: finished_since
-- What finished at a time or later; a walk over an index.
SELECT job_id FROM jobs WHERE finished_at >= :stamp;

-- name: page_of_status
-- The newest jobs in a state below a position.
SELECT job_id, position FROM jobs INDEXED BY jobs_by_status
WHERE status = :status AND position < :below ORDER BY position DESC LIMIT :limit;

-- name: page_of_session
-- The newest jobs of a session in a state below a position.
SELECT job_id, position FROM jobs INDEXED BY jobs_by_session
WHERE session = :session AND status = :status AND position < :below ORDER BY position DESC LIMIT :limit;

-- name: counts
-- How many jobs there are in each state.
SELECT status, count(*) FROM jobs GROUP BY status ORDER BY status;

-- name: waiting_elsewhere
-- How many jobs that may be picked are addressed to some session.
SELECT count(*) FROM jobs WHERE status = 'pending' AND ready IS NULL AND session IS NOT NULL;

-- name: resting
-- How many pending jobs rest after a lost lease.
SELECT count(*) FROM jobs WHERE ready IS NOT NULL;

-- name: last_position
-- The position of the newest job.
SELECT max(position) FROM jobs;

-- name: newest
-- How the newest jobs in a state ended: for the status line, which has no time for a sort by end.
SELECT job_id, finished_at, dismissed FROM jobs WHERE status = :status ORDER BY position DESC LIMIT :limit;

-- name: status_of
-- The state of one job.
SELECT status FROM jobs WHERE job_id = :job_id;
