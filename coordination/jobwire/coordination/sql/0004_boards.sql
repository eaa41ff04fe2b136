-- Boards: deliberations with members, phases and a resolution.

CREATE TABLE boards (
    board_id TEXT PRIMARY KEY,
    run_id TEXT NOT NULL,
    -- Its conversation: what members are asked and what they say.
    thread_id TEXT NOT NULL,
    checkpoint TEXT NOT NULL,
    proposal TEXT NOT NULL,
    opened_by TEXT NOT NULL,
    -- A JSON array of names.
    members TEXT NOT NULL,
    quick INTEGER NOT NULL,
    rounds INTEGER NOT NULL,
    quorum INTEGER NOT NULL,
    deadline_seconds REAL NOT NULL,
    opened_ms INTEGER NOT NULL,
    -- The phase and round whose members were asked last.
    asked TEXT NOT NULL DEFAULT '',
    -- The sealed resolution, once there is one.
    resolution TEXT
) STRICT;
CREATE INDEX boards_open ON boards (board_id) WHERE resolution IS NULL;

-- What members said at their turns; a revision is a new row.
CREATE TABLE board_statements (
    -- The event of it.
    number INTEGER PRIMARY KEY,
    board_id TEXT NOT NULL REFERENCES boards (board_id),
    member TEXT NOT NULL,
    turn TEXT NOT NULL CHECK (turn IN ('assess', 'discuss', 'pass', 'vote')),
    at_ms INTEGER NOT NULL,
    -- A JSON object.
    content TEXT NOT NULL
) STRICT;
CREATE INDEX board_statements_of ON board_statements (board_id, number);
CREATE TRIGGER board_statements_stay BEFORE UPDATE ON board_statements BEGIN
    SELECT raise(ABORT, 'what was said stays');
END;
