-- Tasks: the nodes of a run's plan. Each has a thread once it could be worked on, and that its jobs.

CREATE TABLE tasks (
    run_id TEXT NOT NULL CHECK (length(run_id) BETWEEN 1 AND 128),
    task_id TEXT NOT NULL CHECK (
        length(task_id) BETWEEN 1 AND 64 AND task_id GLOB '[A-Za-z0-9_]*' AND task_id NOT GLOB '*[^A-Za-z0-9_.-]*'
    ),
    -- Its place in the order of addition within the run.
    number INTEGER NOT NULL,
    title TEXT NOT NULL CHECK (length(title) BETWEEN 1 AND 200),
    text TEXT NOT NULL DEFAULT '',
    -- Who works on it; empty: whoever claims it.
    owner TEXT NOT NULL DEFAULT '',
    intent TEXT NOT NULL DEFAULT '',
    risk TEXT NOT NULL DEFAULT '',
    priority TEXT NOT NULL DEFAULT 'normal' CHECK (priority IN ('high', 'normal', 'low')),
    -- JSON arrays of texts, of names, of seconds.
    acceptance TEXT NOT NULL DEFAULT '[]',
    review TEXT NOT NULL DEFAULT 'none' CHECK (review IN ('none', 'required')),
    reviewers TEXT NOT NULL DEFAULT '[]',
    max_attempts INTEGER NOT NULL DEFAULT 3 CHECK (max_attempts BETWEEN 1 AND 1000),
    retry_delays TEXT NOT NULL DEFAULT '[30, 120, 600]',
    on_failed_dependency TEXT NOT NULL DEFAULT 'wait' CHECK (on_failed_dependency IN ('wait', 'fail', 'skip')),
    created_by TEXT NOT NULL,
    created_ms INTEGER NOT NULL,
    thread_id TEXT NOT NULL UNIQUE,
    status TEXT NOT NULL DEFAULT 'pending' CHECK (
        status IN ('pending', 'in_progress', 'in_review', 'approved', 'completed', 'failed', 'cancelled')
    ),
    -- How many dependencies are not completed, and how many of those failed or were cancelled.
    open_deps INTEGER NOT NULL DEFAULT 0 CHECK (open_deps >= failed_deps),
    failed_deps INTEGER NOT NULL DEFAULT 0 CHECK (failed_deps >= 0),
    -- How many times it was given to its owner, and how many of its runs failed since the last retry.
    rounds INTEGER NOT NULL DEFAULT 0,
    failures INTEGER NOT NULL DEFAULT 0,
    worker TEXT NOT NULL DEFAULT '',
    not_before_ms INTEGER NOT NULL DEFAULT 0,
    reason TEXT NOT NULL DEFAULT '',
    -- What there is to merge.
    branch TEXT NOT NULL DEFAULT '',
    -- The dependency in consequence of which it failed or was skipped.
    fallen_with TEXT NOT NULL DEFAULT '',
    redriven INTEGER NOT NULL DEFAULT 0,
    dropped INTEGER NOT NULL DEFAULT 0,
    -- When its status changed last, the event of its last change, and how many changes it has seen.
    since_ms INTEGER NOT NULL,
    changed INTEGER NOT NULL,
    version INTEGER NOT NULL DEFAULT 1,
    rank INTEGER NOT NULL GENERATED ALWAYS AS (CASE priority WHEN 'high' THEN 0 WHEN 'normal' THEN 1 ELSE 2 END) VIRTUAL,
    PRIMARY KEY (run_id, task_id)
) STRICT;
CREATE UNIQUE INDEX tasks_numbered ON tasks (run_id, number);
CREATE INDEX tasks_ready ON tasks (run_id, owner, rank, number) WHERE status = 'pending' AND open_deps = 0;
CREATE INDEX tasks_of_status ON tasks (run_id, status, number);
CREATE INDEX tasks_failed ON tasks (changed) WHERE status = 'failed' AND dropped = 0;

CREATE TABLE task_needs (
    run_id TEXT NOT NULL,
    task_id TEXT NOT NULL,
    needs TEXT NOT NULL CHECK (needs <> task_id),
    PRIMARY KEY (run_id, task_id, needs),
    FOREIGN KEY (run_id, task_id) REFERENCES tasks (run_id, task_id),
    FOREIGN KEY (run_id, needs) REFERENCES tasks (run_id, task_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX task_needs_back ON task_needs (run_id, needs, task_id);

-- The runs of a task: one job each.
CREATE TABLE task_runs (
    job_id TEXT PRIMARY KEY,
    run_id TEXT NOT NULL,
    task_id TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    began_ms INTEGER NOT NULL,
    ended_ms INTEGER,
    outcome TEXT NOT NULL DEFAULT '',
    reason TEXT NOT NULL DEFAULT '',
    FOREIGN KEY (run_id, task_id) REFERENCES tasks (run_id, task_id)
) STRICT;
CREATE INDEX task_runs_of ON task_runs (run_id, task_id, began_ms);
