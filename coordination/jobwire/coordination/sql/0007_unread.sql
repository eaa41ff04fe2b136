-- What is unread is counted without a look at each row: SQLite takes a partial index's condition from the row
-- unless the index has its columns.
DROP INDEX deliveries_unread;
CREATE INDEX deliveries_unread ON deliveries (agent_id, thread_id, seq, state, delivered_ms)
WHERE delivered_ms IS NULL AND state IN ('queued', 'leased');
