-- columns: message
-- A message, in the order of `InboxMessage`.
seq, id, ts_ms, from_agent, to_agent, type, correlation_id, in_reply_to, payload, payload_ref, thread_id, run_id,
task_id, kind, summary, body, body_ref, acceptance, risk, priority, class, expires_at_ms, hop, recipients, digest

-- columns: delivery
-- A delivery, in the order of `InboxDelivery`.
agent_id, seq, thread_id, state, attempts, not_before_ms, expires_at_ms, incarnation, lease_token, lease_seconds,
lease_until_ms, accepted_ms, delivered_ms, acted_ms, last_error, redriven

-- columns: task
-- A task, in the order of `tasks.states.Task`.
run_id, task_id, number, title, text, owner, intent, risk, priority, acceptance, review, reviewers, max_attempts,
retry_delays, on_failed_dependency, created_by, created_ms, thread_id, status, open_deps, failed_deps, rounds,
failures, worker, not_before_ms, reason, branch, fallen_with, redriven, dropped, since_ms, changed, version

-- columns: thread
-- A thread, in the order of `InboxThread`.
thread_id, run_id, task_id, subject, created_by, assigned_to, addressed_to, status, priority, latest_message_id,
created_at, updated_at, job_id, jobs, work, position, changed

-- columns: lock
-- A file lock, in the order of `FileLock`.
run_id, target, agent_id, mode, incarnation, job_id, token, lease_seconds, acquired_ms, lease_until_ms, break_by,
break_reason

-- columns: session
-- A session, in the order of `SessionRow`.
name, state, agent, delivery, agent_id, title, command, directory, socket, pane, pid, life, server, job_id, handing,
opener, conversation, idle_seconds, idle_policy, restarts, idle_told_ms, created_ms, changed_ms, ended_by, reason

-- columns: board
-- A board, in the order of `Board`.
board_id, run_id, thread_id, checkpoint, proposal, opened_by, members, quick, rounds, quorum, deadline_seconds, opened_ms,
asked, resolution

-- columns: agent
-- An agent with its last sign of life, in the order of `AgentView`.
a.agent_id, a.kind, a.roles, a.run_id, a.incarnation, a.host, a.pid, a.interval_seconds, a.joined_at_ms, a.left_at_ms,
coalesce(h.status, 'idle'), h.current_task, h.progress, coalesce(h.ts_ms, a.joined_at_ms)

-- name: schema_version
-- Of the tables, as other programs read it.
SELECT value FROM meta WHERE key = 'schema_version';

-- name: latest_event
-- The number of the last change.
SELECT coalesce(max(event_id), 0) FROM events;

-- name: insert_event
-- A change that is no message.
INSERT INTO events (run_id, task_id, thread_id, source, event_type, message_id, summary, payload_json, created_at)
VALUES (:run_id, :task_id, :thread_id, :source, :event_type, :message_id, :summary, :payload_json, :created_at)
RETURNING event_id;

-- name: events_after
-- Changes behind a cursor, oldest first; NULL matches any thread.
SELECT event_id, run_id, task_id, thread_id, source, event_type, message_id, summary, payload_json, created_at
FROM events WHERE event_id > :after AND (:thread_id IS NULL OR thread_id = :thread_id) ORDER BY event_id LIMIT :limit;

-- name: insert_message
-- One message; its number and its event come by themselves.
INSERT INTO messages (
    id, ts_ms, from_agent, to_agent, type, correlation_id, in_reply_to, payload, payload_ref, thread_id, run_id, task_id,
    kind, summary, body, body_ref, acceptance, risk, priority, class, expires_at_ms, hop, recipients, digest, indexed
) VALUES (
    :id, :ts_ms, :from_agent, :to_agent, :type, :correlation_id, :in_reply_to, :payload, :payload_ref, :thread_id, :run_id,
    :task_id, :kind, :summary, :body, :body_ref, :acceptance, :risk, :priority, :class, :expires_at_ms, :hop, :recipients,
    :digest, 1
);

-- name: insert_words
-- The words of a message, for search.
INSERT INTO message_words (rowid, summary, body, type) VALUES (:seq, :summary, :body, :type);

-- name: not_indexed
-- Messages of other programs whose words are not in the index yet.
SELECT seq, summary, body || ' ' || coalesce(payload, ''), type FROM messages WHERE indexed = 0 ORDER BY seq LIMIT :limit;

-- name: set_indexed
-- Their words are in.
UPDATE messages SET indexed = 1 WHERE seq = :seq;

-- name: search
-- Messages with these words, newest first, behind a number.
SELECT {m.message} FROM message_words AS w CROSS JOIN messages AS m ON m.seq = w.rowid
WHERE w.message_words MATCH :words AND w.rowid < :below ORDER BY w.rowid DESC LIMIT :limit;

-- name: last_seq
-- The number that the last insert of this connection gave.
SELECT last_insert_rowid();

-- name: insert_delivery
-- A message for one recipient.
INSERT INTO deliveries (agent_id, seq, thread_id, rank, expires_at_ms)
VALUES (:agent_id, :seq, :thread_id, :rank, :expires_at_ms);

-- name: insert_artifact
-- A file that a message names.
INSERT INTO artifacts (message_id, path, kind, metadata_json, sha256, created_at)
VALUES (:message_id, :path, :kind, :metadata_json, :sha256, :created_at);

-- name: artifacts_of
-- The files that a message names.
SELECT path, kind, metadata_json, sha256 FROM artifacts WHERE message_id = :id ORDER BY artifact_id;

-- name: insert_thread
-- A new conversation: it has had no job.
INSERT INTO threads (
    thread_id, run_id, task_id, subject, created_by, assigned_to, addressed_to, priority, created_at, updated_at, work, position, changed, status
) VALUES (
    :thread_id, :run_id, :task_id, :subject, :created_by, :assigned_to, :assigned_to, :priority, :at, :at, :work, :position, :position, 'pending'
);

-- name: thread
-- One thread.
SELECT {thread} FROM threads WHERE thread_id = :thread_id;

-- name: thread_of_job
-- The thread whose work a job does.
SELECT {thread} FROM threads WHERE job_id = :job_id ORDER BY position LIMIT 1;

-- name: candidates
-- Threads of one assignee in one status, the most urgent first, then the oldest.
SELECT {thread} FROM threads INDEXED BY threads_to_fetch
WHERE assigned_to = :assigned_to AND status = :status ORDER BY rank, position LIMIT :limit;

-- name: threads
-- Threads by what is named, the last changed first; NULL matches any.
SELECT {thread} FROM threads
WHERE (:statuses IS NULL OR instr(:statuses, ',' || status || ','))
    AND (:created_by IS NULL OR created_by = :created_by)
    AND (:assigned_to IS NULL OR assigned_to = :assigned_to)
    AND (:agent IS NULL OR created_by = :agent OR assigned_to = :agent)
    AND (:run_id IS NULL OR run_id = :run_id)
    AND (:below IS NULL OR changed < :below)
ORDER BY changed DESC LIMIT :limit;

-- name: unread_threads
-- Threads with something that the agent has not read, oldest first.
SELECT DISTINCT thread_id FROM deliveries INDEXED BY deliveries_unread
WHERE agent_id = :agent_id AND delivered_ms IS NULL AND state IN ('queued', 'leased') AND thread_id > :after
ORDER BY thread_id LIMIT :limit;

-- name: unread_in
-- How many messages of a thread an agent has not read.
SELECT count(*) FROM deliveries INDEXED BY deliveries_unread
WHERE agent_id = :agent_id AND thread_id = :thread_id AND delivered_ms IS NULL AND state IN ('queued', 'leased');

-- name: move_thread
-- What became of a thread.
UPDATE threads SET
    status = :status, assigned_to = :assigned_to, addressed_to = :addressed_to, job_id = :job_id, jobs = :jobs, work = :work, updated_at = :at, changed = :changed
WHERE thread_id = :thread_id;

-- name: message
-- One message by its id.
SELECT {message} FROM messages WHERE id = :id;

-- name: message_numbered
-- One message by its number.
SELECT {message} FROM messages WHERE seq = :seq;

-- name: messages_of_thread
-- A thread's first messages, oldest first.
SELECT {message} FROM messages WHERE thread_id = :thread_id ORDER BY seq LIMIT :limit;

-- name: last_messages_of_thread
-- A thread's last messages, newest first.
SELECT {message} FROM messages WHERE thread_id = :thread_id ORDER BY seq DESC LIMIT :limit;

-- name: messages_after
-- All messages behind a number, oldest first.
SELECT {message} FROM messages WHERE seq > :after ORDER BY seq LIMIT :limit;

-- name: last_from_others
-- Who wrote to the agent in the thread last.
SELECT m.from_agent, m.id, m.seq FROM deliveries AS d CROSS JOIN messages AS m ON m.seq = d.seq
WHERE d.thread_id = :thread_id AND d.agent_id = :agent_id ORDER BY d.seq DESC LIMIT 1;

-- name: messages_about
-- What was said in a thread about one matter, oldest first.
SELECT kind, id FROM messages WHERE correlation_id = :correlation_id AND thread_id = :thread_id ORDER BY seq;

-- name: takes_part
-- Whether an agent wrote or was written to in the thread.
SELECT 1 FROM deliveries WHERE thread_id = :thread_id AND agent_id = :agent_id
UNION ALL SELECT 1 FROM messages WHERE thread_id = :thread_id AND from_agent = :agent_id LIMIT 1;

-- name: agent_kind
-- What an agent is, and its roles.
SELECT kind, roles FROM agents WHERE agent_id = :agent_id;

-- name: agents_of_run
-- Who is in a run.
SELECT agent_id FROM agents WHERE run_id = :run_id AND left_at_ms IS NULL ORDER BY agent_id;

-- name: leads_of_run
-- Who leads a run.
SELECT agent_id FROM agents WHERE run_id = :run_id AND left_at_ms IS NULL AND kind = 'lead' ORDER BY agent_id;

-- name: next_deliveries
-- What an agent may take now: the first open one of each thread, the most urgent first.
SELECT {delivery} FROM deliveries AS d INDEXED BY deliveries_queued
WHERE agent_id = :agent_id AND state = 'queued' AND not_before_ms <= :now_ms
    AND NOT EXISTS (
        SELECT 1 FROM deliveries AS e INDEXED BY deliveries_open
        WHERE e.agent_id = d.agent_id AND e.thread_id = d.thread_id AND e.thread_id <> '' AND e.state IN ('queued', 'leased')
            AND e.seq < d.seq
    )
ORDER BY rank, seq LIMIT :limit;

-- name: lapsed_deliveries
-- Leases of an agent that ran out.
SELECT {delivery} FROM deliveries INDEXED BY deliveries_leased
WHERE agent_id = :agent_id AND state = 'leased' AND lease_until_ms <= :now_ms;

-- name: delivery
-- One message for one recipient.
SELECT {delivery} FROM deliveries WHERE agent_id = :agent_id AND seq = :seq;

-- name: deliveries_of
-- A message for each of its recipients.
SELECT {delivery} FROM deliveries WHERE seq = :seq ORDER BY agent_id;

-- name: open_deliveries
-- What is not final for an agent up to a number.
SELECT {delivery} FROM deliveries INDEXED BY deliveries_first
WHERE agent_id = :agent_id AND state IN ('queued', 'leased') AND seq <= :through ORDER BY seq LIMIT :limit;

-- name: open_in_thread
-- What is not final for an agent in a thread, up to a number.
SELECT {delivery} FROM deliveries INDEXED BY deliveries_open
WHERE agent_id = :agent_id AND thread_id = :thread_id AND state IN ('queued', 'leased') AND seq <= :through ORDER BY seq;

-- name: dead_deliveries
-- What was given up, newest first; NULL matches anybody.
SELECT {delivery} FROM deliveries INDEXED BY deliveries_dead
WHERE state = 'dead' AND (:agent_id IS NULL OR agent_id = :agent_id) ORDER BY seq DESC LIMIT :limit;

-- name: put_delivery
-- What became of a delivery.
UPDATE deliveries SET
    state = :state, attempts = :attempts, not_before_ms = :not_before_ms, expires_at_ms = :expires_at_ms,
    incarnation = :incarnation, lease_token = :lease_token, lease_seconds = :lease_seconds, lease_until_ms = :lease_until_ms,
    accepted_ms = :accepted_ms, delivered_ms = :delivered_ms, acted_ms = :acted_ms, last_error = :last_error, redriven = :redriven
WHERE agent_id = :agent_id AND seq = :seq;

-- name: read_in_thread
-- The agent has seen a thread's messages.
UPDATE deliveries SET delivered_ms = :now_ms
WHERE agent_id = :agent_id AND thread_id = :thread_id AND delivered_ms IS NULL AND state IN ('queued', 'leased') AND seq <= :through;

-- name: first_open
-- The first message for an agent that is not final, else one more than the last event.
SELECT coalesce(
    (
        SELECT seq FROM deliveries INDEXED BY deliveries_first
        WHERE agent_id = :agent_id AND state IN ('queued', 'leased') ORDER BY seq LIMIT 1
    ),
    (SELECT coalesce(max(event_id), 0) + 1 FROM events)
);

-- name: put_cursor
-- It goes forward only.
INSERT INTO cursors (agent_id, last_acked_seq, updated_at_ms) VALUES (:agent_id, :seq, :now_ms)
ON CONFLICT (agent_id) DO UPDATE SET last_acked_seq = excluded.last_acked_seq, updated_at_ms = excluded.updated_at_ms
WHERE excluded.last_acked_seq > last_acked_seq;

-- name: put_lease
-- Who holds a thread.
INSERT INTO leases (thread_id, agent_id, lease_token, claimed_at, expires_at, released_at, incarnation)
VALUES (:thread_id, :agent_id, :lease_token, :claimed_at, :expires_at, NULL, :incarnation)
ON CONFLICT (thread_id) DO UPDATE SET
    agent_id = excluded.agent_id,
    claimed_at = CASE lease_token WHEN excluded.lease_token THEN claimed_at ELSE excluded.claimed_at END,
    incarnation = CASE WHEN lease_token = excluded.lease_token AND excluded.incarnation = '' THEN incarnation ELSE excluded.incarnation END,
    lease_token = excluded.lease_token, expires_at = excluded.expires_at, released_at = NULL;

-- name: end_lease
-- Nobody holds a thread.
UPDATE leases SET released_at = :at WHERE thread_id = :thread_id AND released_at IS NULL;

-- name: lease
-- Who held a thread last.
SELECT agent_id, lease_token, claimed_at, expires_at, released_at, incarnation FROM leases WHERE thread_id = :thread_id;

-- name: prepare
-- What is to be said once the job's record has changed.
INSERT OR REPLACE INTO prepared (op_id, job_id, thread_id, history, message, created_at_ms)
VALUES (:op_id, :job_id, :thread_id, :history, :message, :now_ms);

-- name: prepared_of_job
-- What a crash may have left between the store and a job's record.
SELECT op_id, thread_id, history, message FROM prepared WHERE job_id = :job_id ORDER BY created_at_ms, op_id;

-- name: prepared_jobs
-- Jobs with something that is prepared.
SELECT DISTINCT job_id FROM prepared;

-- name: remove_prepared
-- It was said, or never will be.
DELETE FROM prepared WHERE op_id = :op_id;

-- name: blob_used
-- Whether a message refers to a blob.
SELECT 1 FROM messages WHERE payload_ref = :ref
UNION ALL SELECT 1 FROM messages WHERE body_ref = :ref
UNION ALL SELECT 1 FROM prepared WHERE instr(message, :ref) LIMIT 1;

-- name: blobs_in_use
-- The blobs that messages refer to.
SELECT payload_ref FROM messages WHERE payload_ref IS NOT NULL
UNION SELECT body_ref FROM messages WHERE body_ref IS NOT NULL;

-- name: broken_pages
-- What the file's own check finds: nothing where all is well.
SELECT integrity_check FROM pragma_integrity_check WHERE integrity_check <> 'ok';

-- name: broken_references
-- Rows that refer to what is not there.
SELECT "table", rowid, parent FROM pragma_foreign_key_check;

-- name: set_exported
-- They stand there.
UPDATE export_state SET last_seq = :seq WHERE id = 1;

-- name: boot
-- In which boot of the machine all threads were looked at.
SELECT value FROM meta WHERE key = 'boot';

-- name: set_boot
-- In this one.
INSERT OR REPLACE INTO meta (key, value) VALUES ('boot', :boot);

-- name: working_jobs
-- Jobs of threads that have not ended.
SELECT job_id FROM threads WHERE job_id IS NOT NULL AND status NOT IN ('done', 'failed', 'cancelled');

-- name: put_agent
-- Who joins; its earlier life is over.
INSERT INTO agents (agent_id, kind, roles, run_id, incarnation, host, pid, interval_seconds, joined_at_ms, left_at_ms)
VALUES (:agent_id, :kind, :roles, :run_id, :incarnation, :host, :pid, :interval_seconds, :now_ms, NULL)
ON CONFLICT (agent_id) DO UPDATE SET
    kind = excluded.kind, roles = excluded.roles, run_id = excluded.run_id, incarnation = excluded.incarnation,
    host = excluded.host, pid = excluded.pid, interval_seconds = excluded.interval_seconds,
    joined_at_ms = excluded.joined_at_ms, left_at_ms = NULL;

-- name: put_heartbeat
-- A sign of life, and what its agent does.
INSERT INTO heartbeats (agent_id, ts_ms, status, current_task, progress)
VALUES (:agent_id, :now_ms, :status, :current_task, :progress)
ON CONFLICT (agent_id) DO UPDATE SET
    ts_ms = excluded.ts_ms, status = excluded.status, current_task = excluded.current_task, progress = excluded.progress;

-- name: return_agent
-- It lives, whatever was thought.
UPDATE agents SET left_at_ms = NULL WHERE agent_id = :agent_id;

-- name: agent_left
-- It is gone.
UPDATE agents SET left_at_ms = :now_ms WHERE agent_id = :agent_id AND left_at_ms IS NULL;

-- name: agent
-- One agent and its last sign of life.
SELECT {agent} FROM agents AS a LEFT JOIN heartbeats AS h USING (agent_id) WHERE a.agent_id = :agent_id;

-- name: agents_present
-- Who has not left, with its last sign of life; NULL matches any run.
SELECT {agent} FROM agents AS a LEFT JOIN heartbeats AS h USING (agent_id)
WHERE a.left_at_ms IS NULL AND (:run_id IS NULL OR a.run_id = :run_id) ORDER BY a.agent_id;

-- name: held_work
-- What agents hold, the last changed last: the task, else the thread, and whether it is blocked; NULL matches any agent.
SELECT assigned_to, coalesce(nullif(task_id, ''), thread_id), status = 'blocked'
FROM threads INDEXED BY threads_assigned
WHERE status IN ('claimed', 'in_progress', 'blocked') AND (:agent_id IS NULL OR assigned_to = :agent_id)
ORDER BY changed;

-- name: names_of
-- The free names that an agent holds.
SELECT task_id FROM task_claims WHERE claimed_by = :agent_id;

-- name: free_name
-- Nobody holds the name.
DELETE FROM task_claims WHERE task_id = :task_id AND claimed_by = :agent_id;

-- name: last_question_of
-- The number of an agent's last question in a thread, else of its last message there.
SELECT coalesce(
    (SELECT max(seq) FROM messages WHERE thread_id = :thread_id AND from_agent = :agent_id AND kind = 'question'),
    (SELECT max(seq) FROM messages WHERE thread_id = :thread_id AND from_agent = :agent_id)
);

-- name: reply_after
-- The first message of others in a thread behind a number; NULL matches any kind.
SELECT seq FROM messages
WHERE thread_id = :thread_id AND seq > :after AND from_agent <> :agent_id
    AND (:kinds IS NULL OR instr(:kinds, ',' || kind || ',')) ORDER BY seq LIMIT 1;

-- name: activity_after
-- The first change by others behind a number in a thread that concerns an agent and has one of these statuses.
SELECT e.event_id, e.thread_id FROM events AS e CROSS JOIN threads AS t USING (thread_id)
WHERE e.event_id > :after AND e.event_id <= :through AND e.source <> :agent_id
    AND (:statuses IS NULL OR instr(:statuses, ',' || t.status || ','))
    AND (
        t.created_by = :agent_id OR t.assigned_to = :agent_id OR (t.assigned_to = '' AND t.status = 'pending')
        OR EXISTS (SELECT 1 FROM deliveries AS d WHERE d.thread_id = t.thread_id AND d.agent_id = :agent_id)
    )
ORDER BY e.event_id LIMIT 1;

-- name: unread_activity
-- The first message that an agent has not read in a thread with one of these statuses.
SELECT d.seq, d.thread_id FROM deliveries AS d INDEXED BY deliveries_unread CROSS JOIN threads AS t USING (thread_id)
WHERE d.agent_id = :agent_id AND d.delivered_ms IS NULL AND d.state IN ('queued', 'leased')
    AND (:statuses IS NULL OR instr(:statuses, ',' || t.status || ',')) ORDER BY d.seq LIMIT 1;

-- name: named_events_after
-- Changes behind a number with what a pattern is matched against.
SELECT
    e.event_id, e.run_id, e.task_id, e.thread_id, e.source, e.event_type, e.message_id, e.summary, e.payload_json, e.created_at,
    m.type, m.payload
FROM events AS e LEFT JOIN messages AS m ON m.id = e.message_id
WHERE e.event_id > :after ORDER BY e.event_id LIMIT :limit;

-- name: remote_request
-- What was answered to a request of an agent on another host.
SELECT digest, answer FROM remote_requests WHERE agent_id = :agent_id AND request_id = :request_id;

-- name: put_remote_request
-- It was applied, and this is the answer.
INSERT INTO remote_requests (agent_id, request_id, digest, answer, applied_at_ms)
VALUES (:agent_id, :request_id, :digest, :answer, :now_ms);

-- name: forget_remote_requests
-- Those too old to be asked for again.
DELETE FROM remote_requests WHERE applied_at_ms < :before;

-- name: concerned_between
-- Whom changes concern: recipients and writers in their threads, but for who made them.
SELECT DISTINCT d.agent_id FROM events AS e CROSS JOIN deliveries AS d ON d.thread_id = e.thread_id
WHERE e.event_id > :after AND e.event_id <= :through AND e.thread_id <> '' AND d.agent_id <> e.source
UNION
SELECT DISTINCT m.from_agent FROM events AS e CROSS JOIN messages AS m ON m.thread_id = e.thread_id
WHERE e.event_id > :after AND e.event_id <= :through AND e.thread_id <> '' AND m.from_agent <> e.source;

-- name: lock_moves
-- Who waits for a lock while locks were taken or given back.
SELECT DISTINCT w.agent_id FROM lock_waits AS w WHERE EXISTS (
    SELECT 1 FROM events AS e INDEXED BY events_of_type
    WHERE e.event_type IN ('FILE_LOCK', 'FILE_UNLOCK') AND e.event_id > :after AND e.event_id <= :through
);

-- name: notices
-- What somebody wants to be told once, oldest first.
SELECT value FROM meta WHERE key >= 'notify:' AND key < 'notify;' ORDER BY rowid;

-- name: put_notice
-- Somebody wants to be told.
INSERT INTO meta (key, value) VALUES (:key, :value);

-- name: remove_notice
-- It is told.
DELETE FROM meta WHERE key = :key;

-- name: results_of
-- The first result that an agent handed in behind a number.
SELECT summary FROM messages WHERE type IN ('result', 'receipt') AND from_agent = :agent_id AND seq > :after ORDER BY seq LIMIT 1;

-- name: blocked_of
-- The first thread of an agent that waits for somebody.
SELECT subject FROM threads WHERE assigned_to = :agent_id AND status = 'blocked' ORDER BY changed LIMIT 1;

-- name: data_version
-- Another number once another connection has committed (sqlite.org/pragma.html#pragma_data_version).
SELECT data_version FROM pragma_data_version;

-- Locks.

-- name: run_root
-- The folder that a run works on.
SELECT root FROM runs WHERE run_id = :run_id;

-- name: put_run_root
-- Set it; once locks stand there it stays.
INSERT INTO runs (run_id, root) VALUES (:run_id, :root)
ON CONFLICT (run_id) DO UPDATE SET root = excluded.root
WHERE NOT EXISTS (SELECT 1 FROM file_locks WHERE file_locks.run_id = excluded.run_id);

-- name: file_locks
-- All locks of a run, or of all runs, in the order of their targets.
SELECT {lock} FROM file_locks WHERE (:run_id IS NULL OR run_id = :run_id) ORDER BY run_id, target, agent_id;

-- name: file_locks_near
-- Locks of a run that overlap targets (`at` these and those above them, `below` folders), or are an agent's: by
-- the agent's index (+), since a run may hold ten thousand.
SELECT {lock} FROM file_locks WHERE run_id = :run_id AND target IN (SELECT value FROM json_each(:at))
UNION
SELECT {l.lock} FROM json_each(:below) AS folder CROSS JOIN file_locks AS l
WHERE l.run_id = :run_id AND l.target > folder.value || '/' AND l.target < folder.value || '0'
UNION
SELECT {lock} FROM file_locks WHERE agent_id IN (SELECT value FROM json_each(:agents)) AND +run_id = :run_id
ORDER BY 1, 2, 3;

-- name: file_locks_to_look_at
-- Those that have run out, and those whose job may have ended.
SELECT {lock} FROM file_locks WHERE lease_until_ms <= :now_ms OR job_id <> '' ORDER BY run_id, target, agent_id;

-- name: held_columns
-- Who holds what in a run now, as four arrays: a row of each of thousands takes twice as long.
SELECT json_group_array(agent_id), json_group_array(target), json_group_array(mode), json_group_array(job_id)
FROM file_locks WHERE run_id = :run_id AND lease_until_ms > :now_ms;

-- name: wanted_columns
-- Who waits for what in a run now, as four arrays.
SELECT
    json_group_array(agent_id), json_group_array(json(targets)), json_group_array(mode), json_group_array(wait_id)
FROM lock_waits WHERE run_id = :run_id AND seen_ms >= :since_ms;

-- name: runs_with_lock_waits
-- In which runs somebody waits.
SELECT DISTINCT run_id FROM lock_waits;

-- name: lock_wait_of
-- Whether one of these agents waits.
SELECT wait_id FROM lock_waits WHERE agent_id IN (SELECT value FROM json_each(:agents)) LIMIT 1;

-- name: lock_of_agent
-- Whether an agent holds anything.
SELECT target FROM file_locks WHERE agent_id = :agent_id LIMIT 1;

-- name: put_file_lock
-- Grant, extend or strengthen one.
INSERT OR REPLACE INTO file_locks ({lock}) VALUES ({:lock});

-- name: remove_file_lock
-- It ended.
DELETE FROM file_locks WHERE run_id = :run_id AND target = :target AND agent_id = :agent_id;

-- name: lock_waits
-- Who waits in a run, or in all, first come first.
SELECT wait_id, run_id, agent_id, incarnation, mode, targets, job_id, since_ms, seen_ms
FROM lock_waits WHERE (:run_id IS NULL OR run_id = :run_id) ORDER BY wait_id;

-- name: lock_waits_near
-- Who waits in a run for targets that overlap (`at` these and those above them, `below` folders), first come first.
SELECT w.wait_id, w.run_id, w.agent_id, w.incarnation, w.mode, w.targets, w.job_id, w.since_ms, w.seen_ms
FROM lock_waits AS w WHERE w.wait_id IN (
    SELECT t.wait_id FROM lock_wait_targets AS t
    WHERE t.run_id = :run_id AND t.target IN (SELECT value FROM json_each(:at))
    UNION
    SELECT t.wait_id FROM json_each(:below) AS folder CROSS JOIN lock_wait_targets AS t
    WHERE t.run_id = :run_id AND t.target > folder.value || '/' AND t.target < folder.value || '0'
) ORDER BY w.wait_id;

-- name: insert_lock_wait
-- Somebody begins to wait.
INSERT INTO lock_waits (wait_id, run_id, agent_id, incarnation, mode, targets, job_id, since_ms, seen_ms)
VALUES (:wait_id, :run_id, :agent_id, :incarnation, :mode, :targets, :job_id, :since_ms, :since_ms);

-- name: insert_lock_wait_targets
-- What for.
INSERT INTO lock_wait_targets (run_id, target, wait_id) SELECT :run_id, value, :wait_id FROM json_each(:targets);

-- name: see_lock_wait
-- The waiter is still there.
UPDATE lock_waits SET seen_ms = :now_ms WHERE wait_id = :wait_id;

-- name: remove_lock_wait
-- It got what it waited for, gave up, or is gone.
DELETE FROM lock_waits WHERE wait_id = :wait_id;

-- name: open_questions
-- Who waits for whose answer: the last question of each blocked thread that nobody has answered.
SELECT m.from_agent, m.to_agent FROM threads AS t
CROSS JOIN messages AS m ON m.seq = (
    SELECT max(q.seq) FROM messages AS q WHERE q.thread_id = t.thread_id AND q.kind IN ('question', 'answer')
)
WHERE t.status = 'blocked' AND m.kind = 'question' AND m.to_agent IS NOT NULL;

-- name: awaited_tasks
-- Who says that it is blocked, has a task that depends on one in progress, and who works on that one.
SELECT DISTINCT t.owner, n.worker FROM heartbeats AS h
CROSS JOIN tasks AS t ON t.owner = h.agent_id
CROSS JOIN task_needs AS d ON d.run_id = t.run_id AND d.task_id = t.task_id
CROSS JOIN tasks AS n ON n.run_id = d.run_id AND n.task_id = d.needs
WHERE h.status = 'blocked' AND t.status = 'pending' AND t.open_deps > 0
    AND n.status = 'in_progress' AND n.worker NOT IN ('', t.owner);

-- Boards.

-- name: insert_board
-- A board is opened.
INSERT INTO boards ({board}) VALUES ({:board});

-- name: board
-- One board.
SELECT {board} FROM boards WHERE board_id = :board_id;

-- name: boards
-- The boards, newest first; open ones only where asked, and of one who is on them or opened them; NULL matches any.
SELECT {board} FROM boards
WHERE (:open = 0 OR resolution IS NULL)
    AND (:agent IS NULL OR opened_by = :agent OR EXISTS (SELECT 1 FROM json_each(members) WHERE value = :agent))
ORDER BY opened_ms DESC, board_id LIMIT :limit;

-- name: set_asked
-- The members of this phase and round were asked.
UPDATE boards SET asked = :asked WHERE board_id = :board_id;

-- name: set_resolution
-- It is decided; that stays.
UPDATE boards SET resolution = :resolution WHERE board_id = :board_id AND resolution IS NULL;

-- name: insert_statement
-- A member had its turn.
INSERT INTO board_statements (number, board_id, member, turn, at_ms, content)
VALUES (:number, :board_id, :member, :turn, :at_ms, :content);

-- name: statements_of
-- What was said, in its order.
SELECT number, member, turn, at_ms, content FROM board_statements WHERE board_id = :board_id ORDER BY number;

-- Routing.

-- name: hops_of
-- How far the last request in a thread has come.
SELECT hop FROM messages WHERE thread_id = :thread_id AND kind = 'task' ORDER BY seq DESC LIMIT 1;

-- name: claimed_after
-- Whether a thread was claimed after an event.
SELECT 1 FROM events WHERE thread_id = :thread_id AND event_id > :after AND event_type = 'thread_claimed' LIMIT 1;

-- name: next_due_delivery
-- When the next of an agent's deliveries may be taken, or its lease ends; NULL: there is none.
SELECT min(due) FROM (
    SELECT min(not_before_ms) AS due FROM deliveries INDEXED BY deliveries_queued WHERE agent_id = :agent_id AND state = 'queued'
    UNION ALL
    SELECT min(lease_until_ms) FROM deliveries INDEXED BY deliveries_leased WHERE agent_id = :agent_id AND state = 'leased'
);

-- name: request_before
-- The last task of a thread before a number.
SELECT {message} FROM messages WHERE thread_id = :thread_id AND seq < :seq AND kind = 'task' ORDER BY seq DESC LIMIT 1;

-- name: known_agent
-- Whether an agent has joined, or was ever sent something.
SELECT 1 FROM agents WHERE agent_id = :agent_id
UNION ALL SELECT 1 FROM deliveries WHERE agent_id = :agent_id LIMIT 1;

-- name: task_known
-- Whether a run has a task.
SELECT 1 FROM tasks WHERE task_id = :task_id AND run_id = :run_id
UNION ALL SELECT 1 FROM threads WHERE task_id = :task_id AND run_id = :run_id LIMIT 1;

-- name: open_self_made
-- How many tasks of directives are open in a run.
SELECT count(*) FROM threads
WHERE thread_id GLOB 'd-*' AND run_id = :run_id AND work = 1 AND status NOT IN ('done', 'failed', 'cancelled');

-- Sessions.

-- name: agent_session
-- One session.
SELECT {session} FROM agent_sessions WHERE name = :name;

-- name: agent_sessions
-- All sessions, or those in a state.
SELECT {session} FROM agent_sessions WHERE (:state IS NULL OR state = :state) ORDER BY name;

-- name: put_agent_session
-- A session is opened, or changes.
INSERT OR REPLACE INTO agent_sessions ({session}) VALUES ({:session});

-- name: remove_agent_session
-- An ended one is forgotten.
DELETE FROM agent_sessions WHERE name = :name;

-- name: counted_sessions
-- How many sessions there are in each state.
SELECT state, count(*) FROM agent_sessions GROUP BY state;

-- name: put_nudge
-- An agent is told of a delivery in its pane.
INSERT OR IGNORE INTO session_nudges (agent_id, seq, at_ms) VALUES (:agent_id, :seq, :now_ms);

-- name: nudged
-- Whether it was told.
SELECT 1 FROM session_nudges WHERE agent_id = :agent_id AND seq = :seq;

-- name: first_untold
-- The first message that an agent has not read, and was not told of in its pane.
SELECT seq FROM deliveries INDEXED BY deliveries_unread
WHERE agent_id = :agent_id AND delivered_ms IS NULL AND state IN ('queued', 'leased')
AND seq NOT IN (SELECT seq FROM session_nudges WHERE agent_id = :agent_id) ORDER BY seq LIMIT 1;

-- For people who look on: parts of texts, so that no message is larger than a page.

-- name: found
-- The numbers of messages with these words, newest first, behind a number.
SELECT rowid FROM message_words WHERE message_words MATCH :words AND rowid < :below ORDER BY rowid DESC LIMIT :limit;

-- name: thread_counts
-- How many threads there are in each status.
SELECT status, count(*) FROM threads GROUP BY status;

-- name: threads_of_statuses
-- Threads in few statuses that few threads have, the last changed first; NULL matches any agent.
SELECT {thread} FROM threads INDEXED BY threads_assigned
WHERE status IN (SELECT value FROM json_each(:statuses)) AND (:below IS NULL OR changed < :below)
    AND (:agent IS NULL OR created_by = :agent OR assigned_to = :agent)
ORDER BY changed DESC LIMIT :limit;

-- name: threads_with_dead
-- Threads with deliveries that were given up, the newest of those first, behind a number.
SELECT {t.thread} FROM threads AS t
WHERE t.thread_id IN (SELECT thread_id FROM deliveries INDEXED BY deliveries_dead WHERE state = 'dead')
    AND (:below IS NULL OR t.changed < :below) AND (:agent IS NULL OR t.created_by = :agent OR t.assigned_to = :agent)
ORDER BY t.changed DESC LIMIT :limit;

-- name: message_head
-- What a message says in a line, by its id.
SELECT seq, ts_ms, from_agent, kind, type, summary FROM messages WHERE id = :id;

-- name: message_heads
-- A message in a line, with the beginning of its body, by its number.
SELECT seq, id, thread_id, ts_ms, from_agent, kind, type, summary, substr(body, 1, :most) FROM messages WHERE seq = :seq;

-- name: messages_shown
-- A thread's messages between two numbers, newest first; of long texts the beginning, and their length.
SELECT
    seq, id, ts_ms, from_agent, type, kind, summary, priority, class, in_reply_to, correlation_id, risk, expires_at_ms,
    substr(acceptance, 1, :most), substr(body, 1, :most), length(body), body_ref,
    substr(payload, 1, :most), length(payload), payload_ref
FROM messages WHERE thread_id = :thread_id AND seq > :after AND seq < :below ORDER BY seq DESC LIMIT :limit;

-- name: message_texts
-- The whole texts of a message.
SELECT body, body_ref, payload, payload_ref FROM messages WHERE seq = :seq;

-- name: deliveries_shown
-- What became of a message for its recipients.
SELECT agent_id, state, attempts, delivered_ms, acted_ms, last_error FROM deliveries WHERE seq = :seq ORDER BY agent_id LIMIT :limit;

-- name: artifacts_shown
-- The files that a message names.
SELECT path, kind, sha256 FROM artifacts WHERE message_id = :id ORDER BY artifact_id LIMIT :limit;

-- name: turns_of_thread
-- A thread's changes that are no messages, between two numbers, newest first.
SELECT event_id, source, event_type, substr(summary, 1, :most), created_at FROM events
WHERE thread_id = :thread_id AND event_type <> 'message' AND event_id > :after AND event_id < :below
ORDER BY event_id DESC LIMIT :limit;

-- name: unread_by
-- How many messages an agent has not read, counted up to a number.
SELECT count(*) FROM (
    SELECT 1 FROM deliveries INDEXED BY deliveries_unread
    WHERE agent_id = :agent_id AND delivered_ms IS NULL AND state IN ('queued', 'leased') LIMIT :limit
);

-- name: runs_of_tasks
-- The runs that have tasks, the one with the newest first.
SELECT run_id FROM tasks GROUP BY run_id ORDER BY max(created_ms) DESC, run_id LIMIT :limit;

-- name: unread_figures
-- How many messages are unread, and when the oldest of them was sent.
SELECT u.unread, m.ts_ms FROM (
    SELECT count(*) AS unread, min(seq) AS first FROM deliveries INDEXED BY deliveries_unread
    WHERE delivered_ms IS NULL AND state IN ('queued', 'leased')
) AS u LEFT JOIN messages AS m ON m.seq = u.first;

-- name: blocked_figures
-- How many threads are blocked, and since when the first of them.
SELECT count(*), min(updated_at) FROM threads WHERE status = 'blocked';

-- name: dead_figures
-- How many deliveries are dead.
SELECT count(*) FROM deliveries INDEXED BY deliveries_dead WHERE state = 'dead';

-- name: agents_gone
-- Who left or was found dead since a time, the last one first.
SELECT {agent} FROM agents AS a LEFT JOIN heartbeats AS h USING (agent_id)
WHERE a.left_at_ms >= :since ORDER BY a.left_at_ms DESC LIMIT :limit;

-- name: held_deliveries
-- What one incarnation of an agent was given and has not settled, oldest first.
SELECT {delivery} FROM deliveries INDEXED BY deliveries_leased
WHERE agent_id = :agent_id AND state = 'leased' AND incarnation = :incarnation ORDER BY seq;

-- Tasks.

-- name: insert_task
-- A node of a plan.
INSERT INTO tasks (
    run_id, task_id, number, title, text, owner, intent, risk, priority, acceptance, review, reviewers, max_attempts,
    retry_delays, on_failed_dependency, created_by, created_ms, thread_id, open_deps, since_ms, changed
) VALUES (
    :run_id, :task_id, :number, :title, :text, :owner, :intent, :risk, :priority, :acceptance, :review, :reviewers,
    :max_attempts, :retry_delays, :on_failed_dependency, :created_by, :created_ms, :thread_id, :open_deps, :created_ms,
    :changed
);

-- name: insert_need
-- A task waits for another.
INSERT INTO task_needs (run_id, task_id, needs) VALUES (:run_id, :task_id, :needs);

-- name: last_task_number
-- The number of the task that was added last.
SELECT coalesce(max(number), 0) FROM tasks WHERE run_id = :run_id;

-- name: task
-- One task.
SELECT {task} FROM tasks WHERE run_id = :run_id AND task_id = :task_id;

-- name: task_of_thread
-- The task that a thread works on.
SELECT {task} FROM tasks WHERE thread_id = :thread_id;

-- name: tasks_of_run
-- The tasks of a run, in the order of addition.
SELECT {task} FROM tasks WHERE run_id = :run_id ORDER BY number;

-- name: listed_tasks
-- The tasks of a run by what is named, behind a number, in the order of addition; NULL matches any. What may be claimed is ready.
SELECT {task} FROM tasks
WHERE run_id = :run_id AND number > :after AND (:owner IS NULL OR owner = :owner)
    AND (:stuck = 0 OR (status = 'pending' AND failed_deps > 0))
    AND (:statuses IS NULL OR instr(:statuses, ',' || CASE
        WHEN status = 'pending' AND open_deps = 0 AND not_before_ms <= :now_ms THEN 'ready' ELSE status END || ','))
ORDER BY number LIMIT :limit;

-- name: ready_tasks
-- What an owner may claim now, the most urgent first.
SELECT {task} FROM tasks INDEXED BY tasks_ready
WHERE run_id = :run_id AND owner = :owner AND status = 'pending' AND open_deps = 0 AND not_before_ms <= :now_ms
ORDER BY rank, number LIMIT :limit;

-- name: dependants_of
-- The tasks that wait for one, in the order of addition.
SELECT {t.task} FROM task_needs AS n CROSS JOIN tasks AS t ON t.run_id = n.run_id AND t.task_id = n.task_id
WHERE n.run_id = :run_id AND n.needs = :task_id ORDER BY t.number;

-- name: needs_of_run
-- Who waits for whom in a run.
SELECT task_id, needs FROM task_needs WHERE run_id = :run_id;

-- name: needs_of
-- What a task waits for, and where that is.
SELECT t.task_id, t.status FROM task_needs AS n CROSS JOIN tasks AS t ON t.run_id = n.run_id AND t.task_id = n.needs
WHERE n.run_id = :run_id AND n.task_id = :task_id ORDER BY t.number;

-- name: put_task
-- What became of a task.
UPDATE tasks SET
    status = :status, open_deps = :open_deps, failed_deps = :failed_deps, rounds = :rounds, failures = :failures, worker = :worker,
    not_before_ms = :not_before_ms, reason = :reason, branch = :branch, fallen_with = :fallen_with, redriven = :redriven,
    dropped = :dropped, since_ms = :since_ms, changed = :changed, version = version + 1
WHERE run_id = :run_id AND task_id = :task_id;

-- name: put_task_run
-- A job of a task, as it is now.
INSERT INTO task_runs (job_id, run_id, task_id, agent_id, began_ms, ended_ms, outcome, reason)
VALUES (:job_id, :run_id, :task_id, :agent_id, :now_ms, :ended_ms, :outcome, :reason)
ON CONFLICT (job_id) DO UPDATE SET
    agent_id = excluded.agent_id, ended_ms = excluded.ended_ms, outcome = excluded.outcome, reason = excluded.reason;

-- name: task_runs
-- The runs of a task, in their order.
SELECT job_id, agent_id, began_ms, ended_ms, outcome, reason FROM task_runs
WHERE run_id = :run_id AND task_id = :task_id ORDER BY began_ms, rowid;

-- name: jobs_of_tasks
-- The jobs of a run's tasks, in their order.
SELECT task_id, job_id FROM task_runs WHERE run_id = :run_id ORDER BY began_ms, rowid;

-- name: last_task_in
-- The last request in a thread, by its number.
SELECT seq FROM messages WHERE thread_id = :thread_id AND kind = 'task' ORDER BY seq DESC LIMIT 1;

-- name: put_off
-- A message is not delivered before a time.
UPDATE deliveries SET not_before_ms = :not_before_ms WHERE seq = :seq;

-- name: completed_tasks
-- Which tasks of a run are completed.
SELECT task_id FROM tasks WHERE run_id = :run_id AND status = 'completed';

-- name: is_planned
-- Whether a thread works on this task of a plan.
SELECT 1 FROM tasks WHERE run_id = :run_id AND task_id = :task_id AND thread_id = :thread_id;

-- name: failed_tasks
-- Tasks that failed by themselves and that nobody has dropped, the last first; NULL matches any run.
SELECT {task} FROM tasks INDEXED BY tasks_failed
WHERE status = 'failed' AND dropped = 0 AND fallen_with = '' AND (:run_id IS NULL OR run_id = :run_id)
ORDER BY changed DESC LIMIT :limit;

-- name: ways_in
-- Which way the messages of a thread went to whom, in order.
SELECT message_id, source, event_type, payload_json FROM events INDEXED BY events_of_thread
WHERE thread_id = :thread_id AND event_type IN ('nudged', 'taken', 'receipt') AND message_id IS NOT NULL ORDER BY event_id;

-- name: task_counts
-- How many tasks of a run are in each state, as people see it.
SELECT CASE
    WHEN status <> 'pending' THEN status WHEN failed_deps > 0 THEN 'stuck'
    WHEN open_deps = 0 AND not_before_ms <= :now_ms THEN 'ready' ELSE status END AS state, count(*)
FROM tasks WHERE run_id = :run_id GROUP BY state;

-- name: arranged_tasks
-- The tasks of a run in the order of their states, and in a state as they were added; '' matches any state.
SELECT task_id FROM (
    SELECT task_id, number, CASE
        WHEN status <> 'pending' THEN status WHEN failed_deps > 0 THEN 'stuck'
        WHEN open_deps = 0 AND not_before_ms <= :now_ms THEN 'ready' ELSE status END AS state
    FROM tasks WHERE run_id = :run_id
) WHERE :state IN ('', state) ORDER BY instr(:order, ',' || state || ','), number LIMIT :limit;

-- name: unread_by_all
-- How many messages each of these agents (a JSON array) has not read, counted up to a number.
SELECT a.value, (
    SELECT count(*) FROM (
        SELECT 1 FROM deliveries INDEXED BY deliveries_unread
        WHERE agent_id = a.value AND delivered_ms IS NULL AND state IN ('queued', 'leased') LIMIT :limit
    )
) FROM json_each(:agents) AS a;
