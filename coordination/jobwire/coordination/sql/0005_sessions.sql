-- Sessions: tmux containers in which agents live.

CREATE TABLE agent_sessions (
    name TEXT PRIMARY KEY CHECK (length(name) BETWEEN 1 AND 64),
    state TEXT NOT NULL CHECK (state IN ('running', 'stopped', 'terminated', 'archived')),
    -- What runs in it: a name of the table of known agents.
    agent TEXT NOT NULL,
    -- How instructions reach it: by what it is started with once a job, or in the pane where it lives on.
    delivery TEXT NOT NULL,
    -- Its name in the inbox.
    agent_id TEXT NOT NULL,
    title TEXT NOT NULL,
    -- A JSON array of words.
    command TEXT NOT NULL,
    directory TEXT NOT NULL,
    -- The tmux server, the pane there, its process, and which one of that number.
    socket TEXT NOT NULL,
    pane TEXT NOT NULL,
    pid INTEGER NOT NULL,
    life TEXT NOT NULL,
    server TEXT NOT NULL,
    -- The job that it works on, how far its instructions are, and which process hands them over.
    job_id TEXT NOT NULL,
    handing TEXT NOT NULL CHECK (handing IN ('', 'opening', 'handing', 'handed')),
    opener TEXT NOT NULL,
    -- The agent's own id of its conversation, for resume.
    conversation TEXT NOT NULL,
    idle_seconds REAL,
    idle_policy TEXT NOT NULL CHECK (idle_policy IN ('report', 'ask', 'stop', 'restart')),
    restarts INTEGER NOT NULL,
    idle_told_ms INTEGER NOT NULL,
    created_ms INTEGER NOT NULL,
    changed_ms INTEGER NOT NULL,
    ended_by TEXT NOT NULL,
    reason TEXT NOT NULL
) STRICT;
CREATE INDEX agent_sessions_by_state ON agent_sessions (state);
CREATE INDEX agent_sessions_by_job ON agent_sessions (job_id) WHERE job_id <> '';

-- Deliveries that an agent was told of in its pane, each once.
CREATE TABLE session_nudges (
    agent_id TEXT NOT NULL,
    seq INTEGER NOT NULL,
    at_ms INTEGER NOT NULL,
    PRIMARY KEY (agent_id, seq)
) STRICT, WITHOUT ROWID;
