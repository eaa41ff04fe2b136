-- name: told
-- How far one job is told.
SELECT created_at, place, line, offset, purged FROM told WHERE job_id = :job_id;

-- name: put
-- So far it is now.
INSERT OR REPLACE INTO told VALUES (:job_id, :created_at, :place, :line, :offset, :purged);

-- name: drop_purged
-- Jobs that are gone.
DELETE FROM told WHERE purged = 1;
