-- A step of its own: a rebuild puts the rows in before it, and sorting once is cheaper than keeping ten trees in order.
CREATE INDEX jobs_to_pick ON jobs (session, rank, position) WHERE status = 'pending' AND ready IS NULL;
CREATE INDEX jobs_to_pick_any ON jobs (rank, position) WHERE status = 'pending' AND ready IS NULL;
CREATE INDEX jobs_resting ON jobs (ready) WHERE ready IS NOT NULL;
CREATE INDEX jobs_open ON jobs (session, position) WHERE status IN ('pending', 'running', 'unreadable');
CREATE INDEX jobs_by_status ON jobs (status, position);
CREATE INDEX jobs_by_session ON jobs (session, status, position);
CREATE INDEX jobs_by_position ON jobs (position);
CREATE INDEX jobs_due ON jobs (due) WHERE due IS NOT NULL;
CREATE INDEX jobs_by_key ON jobs (idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX jobs_finished ON jobs (job_id, finished_at, cleared) WHERE finished_at IS NOT NULL;
