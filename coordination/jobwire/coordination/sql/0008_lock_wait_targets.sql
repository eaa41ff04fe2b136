-- What is waited for, one row a target: who waits near a target is found without looking at all who wait.
CREATE TABLE lock_wait_targets (
    run_id TEXT NOT NULL,
    target TEXT NOT NULL,
    wait_id INTEGER NOT NULL REFERENCES lock_waits (wait_id) ON DELETE CASCADE,
    PRIMARY KEY (run_id, target, wait_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX lock_wait_targets_of ON lock_wait_targets (wait_id);
INSERT INTO lock_wait_targets (run_id, target, wait_id)
SELECT DISTINCT w.run_id, wanted.value, w.wait_id FROM lock_waits AS w CROSS JOIN json_each(w.targets) AS wanted;
