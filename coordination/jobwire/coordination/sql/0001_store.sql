-- Conversation and plan have their one truth here; execution has its own in the registry's records.
-- The first columns of messages, cursors, heartbeats, task_claims, meta and export_state are a contract with
-- programs that know SQLite and not jobwire: what they write gets its deliveries and its number by the triggers.

CREATE TABLE messages (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE CHECK (length(id) BETWEEN 1 AND 64),
    ts_ms INTEGER NOT NULL CHECK (ts_ms BETWEEN 0 AND 253402300799999),
    from_agent TEXT NOT NULL CHECK (
        length(from_agent) BETWEEN 1 AND 64 AND from_agent GLOB '[A-Za-z0-9_]*' AND from_agent NOT GLOB '*[^A-Za-z0-9_.-]*'
    ),
    -- NULL: to all, or to several, who stand in recipients.
    to_agent TEXT CHECK (
        length(to_agent) BETWEEN 1 AND 64 AND to_agent GLOB '[A-Za-z0-9_]*' AND to_agent NOT GLOB '*[^A-Za-z0-9_.-]*'
    ),
    type TEXT NOT NULL CHECK (length(type) BETWEEN 1 AND 128),
    correlation_id TEXT CHECK (length(correlation_id) <= 256),
    in_reply_to TEXT CHECK (length(in_reply_to) <= 64),
    payload TEXT CHECK (length(payload) <= 16777216),
    payload_ref TEXT CHECK (
        payload_ref GLOB 'sha256-*' AND substr(payload_ref, 8) NOT GLOB '*[^0-9a-f]*' AND length(payload_ref) = 71
    ),
    thread_id TEXT CHECK (length(thread_id) BETWEEN 1 AND 64),
    run_id TEXT NOT NULL DEFAULT 'default',
    task_id TEXT,
    kind TEXT NOT NULL DEFAULT 'event' CHECK (
        kind IN ('task', 'progress', 'question', 'answer', 'result', 'control', 'event')
    ),
    summary TEXT NOT NULL DEFAULT '' CHECK (length(summary) <= 1024),
    body TEXT NOT NULL DEFAULT '',
    body_ref TEXT CHECK (
        body_ref GLOB 'sha256-*' AND substr(body_ref, 8) NOT GLOB '*[^0-9a-f]*' AND length(body_ref) = 71
    ),
    -- A JSON array of texts.
    acceptance TEXT NOT NULL DEFAULT '[]',
    risk TEXT NOT NULL DEFAULT '',
    priority TEXT NOT NULL DEFAULT 'normal' CHECK (priority IN ('high', 'normal', 'low')),
    class TEXT NOT NULL DEFAULT 'turn' CHECK (class IN ('turn', 'interrupt')),
    expires_at_ms INTEGER,
    hop INTEGER NOT NULL DEFAULT 0 CHECK (hop BETWEEN 0 AND 8),
    -- A JSON array of names, fixed at sending. NULL: another program wrote the row.
    recipients TEXT,
    -- Of what the sender said: the same id with another digest is another message.
    digest TEXT,
    -- Whether its words are in message_words: no trigger may write there.
    indexed INTEGER NOT NULL DEFAULT 0,
    CHECK (payload IS NULL OR payload_ref IS NULL),
    CHECK (body = '' OR body_ref IS NULL)
) STRICT;
CREATE INDEX messages_to ON messages (to_agent, seq);
CREATE INDEX messages_correlated ON messages (correlation_id, seq);
CREATE INDEX messages_of_type ON messages (type, from_agent, ts_ms);
CREATE INDEX messages_of_thread ON messages (thread_id, seq);
CREATE INDEX messages_not_indexed ON messages (seq) WHERE indexed = 0;
CREATE INDEX messages_payloads ON messages (payload_ref) WHERE payload_ref IS NOT NULL;
CREATE INDEX messages_bodies ON messages (body_ref) WHERE body_ref IS NOT NULL;

-- Without a copy of the text: rows are found by their words and read in messages.
CREATE VIRTUAL TABLE message_words USING fts5 (summary, body, type, content = '', tokenize = 'unicode61 remove_diacritics 2');

CREATE TABLE threads (
    thread_id TEXT PRIMARY KEY,
    run_id TEXT NOT NULL DEFAULT 'default',
    task_id TEXT NOT NULL DEFAULT '',
    subject TEXT NOT NULL DEFAULT '',
    created_by TEXT NOT NULL,
    -- Who works on it; empty: open to whoever claims it. addressed_to is who it was sent to.
    assigned_to TEXT NOT NULL DEFAULT '',
    addressed_to TEXT NOT NULL DEFAULT '',
    status TEXT NOT NULL DEFAULT 'pending' CHECK (
        status IN ('pending', 'claimed', 'in_progress', 'blocked', 'done', 'failed', 'cancelled')
    ),
    priority TEXT NOT NULL DEFAULT 'normal' CHECK (priority IN ('high', 'normal', 'low')),
    latest_message_id TEXT,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    -- The job that does its work now, and how many it has had.
    job_id TEXT,
    jobs INTEGER NOT NULL DEFAULT 0,
    -- Whether it asks for work: it began with a task, or was claimed.
    work INTEGER NOT NULL DEFAULT 0,
    -- The event of its beginning, and of its last change.
    position INTEGER NOT NULL,
    changed INTEGER NOT NULL,
    rank INTEGER NOT NULL GENERATED ALWAYS AS (CASE priority WHEN 'high' THEN 0 WHEN 'normal' THEN 1 ELSE 2 END) VIRTUAL
) STRICT;
CREATE INDEX threads_assigned ON threads (status, assigned_to, updated_at);
CREATE INDEX threads_to_fetch ON threads (assigned_to, status, rank, position);
CREATE INDEX threads_changed ON threads (changed);
CREATE INDEX threads_of_task ON threads (task_id) WHERE task_id <> '';
CREATE INDEX threads_of_job ON threads (job_id) WHERE job_id IS NOT NULL;

-- One message for one recipient.
CREATE TABLE deliveries (
    agent_id TEXT NOT NULL,
    seq INTEGER NOT NULL REFERENCES messages (seq),
    thread_id TEXT NOT NULL DEFAULT '',
    state TEXT NOT NULL DEFAULT 'queued' CHECK (state IN ('queued', 'leased', 'done', 'dead', 'dropped')),
    rank INTEGER NOT NULL DEFAULT 1,
    attempts INTEGER NOT NULL DEFAULT 0,
    not_before_ms INTEGER NOT NULL DEFAULT 0,
    expires_at_ms INTEGER,
    incarnation TEXT,
    lease_token INTEGER,
    lease_seconds REAL,
    lease_until_ms INTEGER,
    accepted_ms INTEGER,
    delivered_ms INTEGER,
    acted_ms INTEGER,
    last_error TEXT NOT NULL DEFAULT '',
    redriven INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (agent_id, seq)
) STRICT, WITHOUT ROWID;
CREATE INDEX deliveries_of_message ON deliveries (seq);
CREATE INDEX deliveries_queued ON deliveries (agent_id, rank, seq) WHERE state = 'queued';
CREATE INDEX deliveries_first ON deliveries (agent_id, seq) WHERE state IN ('queued', 'leased');
CREATE INDEX deliveries_open ON deliveries (agent_id, thread_id, seq) WHERE state IN ('queued', 'leased');
CREATE INDEX deliveries_leased ON deliveries (agent_id, lease_until_ms) WHERE state = 'leased';
CREATE INDEX deliveries_unread ON deliveries (agent_id, thread_id) WHERE delivered_ms IS NULL AND state IN ('queued', 'leased');
CREATE INDEX deliveries_of_thread ON deliveries (thread_id, agent_id);
CREATE INDEX deliveries_dead ON deliveries (seq) WHERE state = 'dead';

-- Every change has one number; a message's seq is the number of its arrival.
CREATE TABLE events (
    event_id INTEGER PRIMARY KEY AUTOINCREMENT,
    run_id TEXT NOT NULL DEFAULT 'default',
    task_id TEXT NOT NULL DEFAULT '',
    thread_id TEXT NOT NULL DEFAULT '',
    source TEXT NOT NULL DEFAULT '',
    event_type TEXT NOT NULL,
    message_id TEXT,
    summary TEXT NOT NULL DEFAULT '',
    payload_json TEXT NOT NULL DEFAULT '{}',
    created_at TEXT NOT NULL
) STRICT;
CREATE INDEX events_of_thread ON events (thread_id, event_id);
CREATE INDEX events_of_type ON events (event_type, event_id);

CREATE TABLE artifacts (
    artifact_id INTEGER PRIMARY KEY,
    message_id TEXT NOT NULL REFERENCES messages (id),
    path TEXT NOT NULL CHECK (length(path) BETWEEN 1 AND 4096),
    kind TEXT NOT NULL DEFAULT 'file',
    metadata_json TEXT NOT NULL DEFAULT '{}',
    sha256 TEXT,
    created_at TEXT NOT NULL
) STRICT;
CREATE INDEX artifacts_of_message ON artifacts (message_id);

-- Who holds a thread of work, as its job's record said last.
CREATE TABLE leases (
    thread_id TEXT PRIMARY KEY,
    agent_id TEXT NOT NULL,
    lease_token TEXT NOT NULL,
    claimed_at TEXT NOT NULL,
    expires_at TEXT NOT NULL,
    released_at TEXT,
    incarnation TEXT NOT NULL DEFAULT ''
) STRICT;

CREATE TABLE agents (
    agent_id TEXT PRIMARY KEY,
    kind TEXT NOT NULL DEFAULT 'worker' CHECK (kind IN ('worker', 'lead', 'director', 'person', 'service')),
    -- A JSON array of words.
    roles TEXT NOT NULL DEFAULT '[]',
    run_id TEXT NOT NULL DEFAULT 'default',
    incarnation TEXT NOT NULL DEFAULT '',
    host TEXT NOT NULL DEFAULT '',
    pid INTEGER,
    interval_seconds REAL NOT NULL DEFAULT 10 CHECK (interval_seconds > 0),
    joined_at_ms INTEGER NOT NULL,
    -- When it left, or was found dead; NULL: it is here.
    left_at_ms INTEGER
) STRICT;
CREATE INDEX agents_of_run ON agents (run_id);

CREATE TABLE heartbeats (
    agent_id TEXT PRIMARY KEY,
    ts_ms INTEGER NOT NULL,
    status TEXT NOT NULL,
    current_task TEXT,
    progress REAL
) STRICT;

CREATE TABLE cursors (
    agent_id TEXT PRIMARY KEY,
    last_acked_seq INTEGER NOT NULL DEFAULT 0,
    updated_at_ms INTEGER NOT NULL
) STRICT;

-- Leases of free names.
CREATE TABLE task_claims (
    task_id TEXT PRIMARY KEY,
    claimed_by TEXT NOT NULL,
    claimed_at_ms INTEGER NOT NULL,
    lease_until_ms INTEGER NOT NULL,
    incarnation TEXT NOT NULL DEFAULT '',
    lease_seconds REAL,
    -- The event of the claim: it rises with each new holder.
    token INTEGER
) STRICT;

CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT) STRICT;
INSERT INTO meta VALUES ('schema_version', '1');
CREATE TABLE export_state (id INTEGER PRIMARY KEY CHECK (id = 1), last_seq INTEGER NOT NULL DEFAULT 0) STRICT;
INSERT INTO export_state VALUES (1, 0);

-- What is to be said once a job's record has changed: invisible until then. op_id is the message's id.
CREATE TABLE prepared (
    op_id TEXT PRIMARY KEY,
    job_id TEXT NOT NULL,
    thread_id TEXT NOT NULL,
    -- How long the job's history was: the change's line comes after that.
    history INTEGER NOT NULL,
    -- JSON: the message, and where its body and payload are.
    message TEXT NOT NULL,
    created_at_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX prepared_of_job ON prepared (job_id);

CREATE VIEW inbox_messages AS
SELECT
    id AS message_id,
    coalesce(thread_id, '') AS thread_id,
    from_agent,
    coalesce(to_agent, '') AS to_agent,
    kind,
    summary,
    body,
    coalesce(payload, '{}') AS payload_json,
    strftime('%Y-%m-%dT%H:%M:%fZ', ts_ms / 1000.0, 'unixepoch') AS created_at
FROM messages;

-- One line of numbers for messages and events, whoever inserts: both sequences go on from the highest event.
INSERT INTO sqlite_sequence (name, seq) VALUES ('messages', 0);
INSERT INTO sqlite_sequence (name, seq) VALUES ('events', 0);
CREATE TRIGGER events_numbered AFTER INSERT ON events BEGIN
    UPDATE sqlite_sequence SET seq = max(seq, NEW.event_id) WHERE name = 'messages';
END;
CREATE TRIGGER messages_checked BEFORE INSERT ON messages
WHEN NEW.seq > 0 AND NEW.seq <= (SELECT max(event_id) FROM events) BEGIN
    SELECT raise(ABORT, 'seq is given by the store');
END;
-- A row of another program: a thread, its deliveries, and what its type means to us.
CREATE TRIGGER messages_foreign AFTER INSERT ON messages WHEN NEW.recipients IS NULL BEGIN
    UPDATE messages SET
        thread_id = coalesce(
            NEW.thread_id,
            (SELECT thread_id FROM messages WHERE id = NEW.in_reply_to),
            (SELECT thread_id FROM messages WHERE correlation_id = NEW.correlation_id AND seq < NEW.seq ORDER BY seq DESC LIMIT 1),
            'x-' || NEW.seq
        ),
        kind = CASE NEW.type
            WHEN 'task_assign' THEN 'task'
            WHEN 'task_progress' THEN 'progress'
            WHEN 'task_blocked' THEN 'question'
            WHEN 'review_request' THEN 'question'
            WHEN 'review_result' THEN 'answer'
            WHEN 'task_done' THEN 'result'
            WHEN 'task_failed' THEN 'result'
            ELSE NEW.kind
        END
    WHERE seq = NEW.seq;
    INSERT OR IGNORE INTO threads (
        thread_id, run_id, task_id, subject, created_by, assigned_to, addressed_to, priority, created_at, updated_at, work,
        position, changed
    )
    SELECT
        thread_id, run_id, coalesce(task_id, ''), CASE summary WHEN '' THEN type ELSE substr(summary, 1, 200) END,
        from_agent, coalesce(to_agent, ''), coalesce(to_agent, ''), priority,
        strftime('%Y-%m-%dT%H:%M:%fZ', ts_ms / 1000.0, 'unixepoch'),
        strftime('%Y-%m-%dT%H:%M:%fZ', ts_ms / 1000.0, 'unixepoch'),
        kind = 'task', seq, seq
    FROM messages WHERE seq = NEW.seq;
    INSERT INTO deliveries (agent_id, seq, thread_id, rank, expires_at_ms)
    SELECT NEW.to_agent, seq, thread_id, CASE priority WHEN 'high' THEN 0 WHEN 'normal' THEN 1 ELSE 2 END, expires_at_ms
    FROM messages WHERE seq = NEW.seq AND NEW.to_agent IS NOT NULL;
    INSERT INTO deliveries (agent_id, seq, thread_id, rank, expires_at_ms)
    SELECT agents.agent_id, messages.seq, messages.thread_id, CASE messages.priority WHEN 'high' THEN 0 WHEN 'normal' THEN 1 ELSE 2 END, messages.expires_at_ms
    FROM messages CROSS JOIN agents
    WHERE messages.seq = NEW.seq AND NEW.to_agent IS NULL AND agents.run_id = NEW.run_id
        AND agents.left_at_ms IS NULL AND agents.agent_id <> NEW.from_agent;
    -- Names need no escapes, and SQLite lets no trigger use its aggregate of JSON where schemas are not trusted.
    UPDATE messages SET recipients = coalesce(
        (SELECT '["' || group_concat(agent_id, '","') || '"]' FROM deliveries WHERE seq = NEW.seq HAVING count(*) > 0), '[]'
    ) WHERE seq = NEW.seq;
    INSERT INTO events (event_id, run_id, task_id, thread_id, source, event_type, message_id, summary, created_at)
    SELECT
        seq, run_id, coalesce(task_id, ''), thread_id, from_agent, 'message', id, summary,
        strftime('%Y-%m-%dT%H:%M:%fZ', ts_ms / 1000.0, 'unixepoch')
    FROM messages WHERE seq = NEW.seq;
    UPDATE threads SET
        latest_message_id = NEW.id,
        updated_at = strftime('%Y-%m-%dT%H:%M:%fZ', NEW.ts_ms / 1000.0, 'unixepoch'),
        changed = NEW.seq
    WHERE thread_id = (SELECT thread_id FROM messages WHERE seq = NEW.seq);
END;
-- The one event of a message, and its thread's last word.
CREATE TRIGGER messages_arrived AFTER INSERT ON messages WHEN NEW.recipients IS NOT NULL BEGIN
    INSERT INTO events (event_id, run_id, task_id, thread_id, source, event_type, message_id, summary, created_at)
    VALUES (
        NEW.seq, NEW.run_id, coalesce(NEW.task_id, ''), NEW.thread_id, NEW.from_agent, 'message', NEW.id, NEW.summary,
        strftime('%Y-%m-%dT%H:%M:%fZ', NEW.ts_ms / 1000.0, 'unixepoch')
    );
    UPDATE threads SET
        latest_message_id = NEW.id,
        updated_at = strftime('%Y-%m-%dT%H:%M:%fZ', NEW.ts_ms / 1000.0, 'unixepoch'),
        changed = NEW.seq
    WHERE thread_id = NEW.thread_id;
END;
CREATE TRIGGER messages_stay BEFORE UPDATE OF
    seq, id, ts_ms, from_agent, to_agent, type, correlation_id, in_reply_to, payload, payload_ref, summary, body, body_ref,
    acceptance, risk, priority, class, hop, digest
ON messages BEGIN
    SELECT raise(ABORT, 'a message never changes');
END;
CREATE TRIGGER events_stay BEFORE UPDATE ON events BEGIN
    SELECT raise(ABORT, 'an event never changes');
END;

-- A foreign reader's cursor makes what lies below it done; it goes forward only.
CREATE TRIGGER cursors_forward BEFORE UPDATE OF last_acked_seq ON cursors WHEN NEW.last_acked_seq < OLD.last_acked_seq BEGIN
    SELECT raise(ABORT, 'a cursor goes forward only');
END;
CREATE TRIGGER cursors_begun AFTER INSERT ON cursors BEGIN
    UPDATE deliveries SET state = 'done', acted_ms = NEW.updated_at_ms
    WHERE agent_id = NEW.agent_id AND state IN ('queued', 'leased') AND seq <= NEW.last_acked_seq;
END;
CREATE TRIGGER cursors_moved AFTER UPDATE OF last_acked_seq ON cursors BEGIN
    UPDATE deliveries SET state = 'done', acted_ms = NEW.updated_at_ms
    WHERE agent_id = NEW.agent_id AND state IN ('queued', 'leased') AND seq <= NEW.last_acked_seq;
END;

-- A free name that is claimed: finished work is not claimed again, and each holder has a token.
CREATE TRIGGER task_claims_checked BEFORE INSERT ON task_claims
WHEN EXISTS (
    SELECT 1 FROM threads WHERE task_id = NEW.task_id AND task_id <> '' AND status IN ('done', 'failed', 'cancelled')
    UNION ALL
    SELECT 1 FROM threads WHERE thread_id = NEW.task_id AND status IN ('done', 'failed', 'cancelled')
) BEGIN
    SELECT raise(ABORT, 'already_terminal');
END;
CREATE TRIGGER task_claims_taken AFTER INSERT ON task_claims BEGIN
    INSERT INTO events (task_id, source, event_type, created_at)
    VALUES (
        NEW.task_id, NEW.claimed_by, 'name_claimed', strftime('%Y-%m-%dT%H:%M:%fZ', NEW.claimed_at_ms / 1000.0, 'unixepoch')
    );
    UPDATE task_claims SET
        token = (SELECT max(event_id) FROM events),
        lease_seconds = coalesce(NEW.lease_seconds, (NEW.lease_until_ms - NEW.claimed_at_ms) / 1000.0)
    WHERE task_id = NEW.task_id;
END;
CREATE TRIGGER task_claims_left AFTER DELETE ON task_claims BEGIN
    INSERT INTO events (task_id, source, event_type, created_at)
    VALUES (OLD.task_id, OLD.claimed_by, 'name_released', strftime('%Y-%m-%dT%H:%M:%fZ', 'now'));
END;
