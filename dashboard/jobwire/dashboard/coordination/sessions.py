"""Sessions: what the inventory and their panes say; stopped and brought back by a person."""

from jobwire.coordination.sessions.inventory import Inventory
from jobwire.coordination.sessions.states import SessionState
from jobwire.coordination.store import CoordinationStore
from jobwire.core.errors import InvalidInputError
from jobwire.dashboard.foreign import cut
from jobwire.sessions.listing import SessionView, views
from jobwire.sessions.opening import Opener
from jobwire.sessions.stopping import StopHow, Stopping

MOST_SESSIONS = 200
LINES = 12
_ORDER = {state: place for place, state in enumerate(SessionState)}


def session_list(store: CoordinationStore) -> list[dict[str, object]]:
    """Return the sessions, those that run first, with the last lines of their panes."""
    rows = Inventory(store).rows()
    rows.sort(key=lambda row: (_ORDER[row.standing], -row.changed_ms, row.name))
    return [_shown(view) for view in views(store.home, rows[:MOST_SESSIONS], lines=LINES)]


def _shown(view: SessionView) -> dict[str, object]:
    row, body = view.row, view.to_json()
    names = ("name", "state", "agent", "alive", "job_id", "job_status", "attention", "attach", "lines")
    return {
        **{name: body[name] for name in names},
        "agent_id": cut(row.agent_id),
        "title": cut(row.title),
        "directory": cut(row.directory),
        "reason": cut(row.reason),
        "idle": view.idle_for_seconds,
        "changed": row.changed_ms / 1000,
        "created": row.created_ms / 1000,
        "restarts": row.restarts,
    }


def stop_session(home: str, name: str, how: str, *, by: str) -> dict[str, object]:
    """End a session; raises as `Stopping.stop`."""
    if how not in set(StopHow):
        raise InvalidInputError(f"there is no stop {how!r:.40}", hint=f"one of {', '.join(StopHow)}")
    row = Stopping(home).stop(name, StopHow(how), by=by)
    return {"name": row.name, "state": row.state}


def resume_session(home: str, name: str) -> dict[str, object]:
    """Bring a session back; raises as `Opener.resume`."""
    row = Opener(home).resume(name)
    return {"name": row.name, "state": row.state}
