-- Whatever an agent does here is a sign of life, by whatever program; a clock that is ahead gives it no longer life.
CREATE TRIGGER messages_show_life AFTER INSERT ON messages BEGIN
    UPDATE heartbeats SET ts_ms = NEW.ts_ms
    WHERE agent_id = NEW.from_agent AND ts_ms < NEW.ts_ms
        AND NEW.ts_ms <= (julianday('now') - 2440587.5) * 86400000.0 + 1000;
END;
CREATE TRIGGER deliveries_show_life AFTER UPDATE OF lease_until_ms, acted_ms ON deliveries
WHEN NEW.state IN ('leased', 'done') BEGIN
    UPDATE heartbeats SET ts_ms = max(
        ts_ms, coalesce(CAST(NEW.lease_until_ms - NEW.lease_seconds * 1000 AS INTEGER), NEW.acted_ms, 0)
    )
    WHERE agent_id = NEW.agent_id;
END;

-- Requests of agents on other hosts that were applied, each once, with what was answered.
CREATE TABLE remote_requests (
    agent_id TEXT NOT NULL,
    request_id TEXT NOT NULL CHECK (length(request_id) BETWEEN 1 AND 64),
    digest TEXT NOT NULL,
    answer TEXT NOT NULL,
    applied_at_ms INTEGER NOT NULL,
    PRIMARY KEY (agent_id, request_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX remote_requests_by_age ON remote_requests (applied_at_ms);
