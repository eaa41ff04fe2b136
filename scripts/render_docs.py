#!/usr/bin/env python3
"""Write the documents that are made from code: `render-docs` writes, `render-docs --check` only compares."""

import json
import sys
from pathlib import Path

import yaml

from jobwire.cli.schema import asyncapi
from jobwire.core.bounds import DEFAULT_MAX_ATTEMPTS
from jobwire.core.exit_codes import MEANINGS, ExitCode
from jobwire.core.setting_tables import ROLE_TABLES, TABLES, Setting
from jobwire.jobs.lifecycle import EVENT_TRANSITIONS, TRANSITIONS

_MADE = "<!-- Made by `make docs` from the code; do not edit. -->\n"


def render_all(root: Path) -> dict[Path, str]:
    """Return path -> text of every document made from code."""
    return {
        root / "docs" / "asyncapi.yaml": render_asyncapi(),
        root / "docs" / "lifecycle.md": render_lifecycle(),
        root / "docs" / "exit-codes.md": render_exit_codes(),
        root / "docs" / "settings.md": render_settings(),
    }


def render_asyncapi() -> str:
    """Return the AsyncAPI description as YAML."""
    header = "# Made by `make docs` from the code; do not edit.\n"
    return header + yaml.safe_dump(asyncapi(), sort_keys=False, allow_unicode=True, width=100)


def render_lifecycle() -> str:
    """Return the lifecycle as a drawing and two tables."""
    edges = "\n".join(f"    {before} --> {after}: {cause}" for (before, after), cause in TRANSITIONS.items())
    changes = "\n".join(f"| {before} | {after} | {cause} |" for (before, after), cause in TRANSITIONS.items())
    events = "\n".join(
        f"| {status} | {event} | {after} |" for (status, event), after in EVENT_TRANSITIONS.items()
    )
    return (
        f"{_MADE}# The life of a job\n\n```mermaid\nstateDiagram-v2\n    [*] --> pending\n{edges}\n```\n\n"
        f"| from | to | by |\n|---|---|---|\n{changes}\n\n"
        "What is not in the table is refused, with both states in the message.\n\n"
        f"| state | event | state after it |\n|---|---|---|\n{events}\n\n"
        "`started` opens every attempt and comes once in it. `permission_required` sets the record's\n"
        "`attention`; the next event clears it. Where it carries a request with an id, that request's own\n"
        "resolution does: its answer, an event with `data.resolved: [id]`, its time limit, or the end of\n"
        "the job or attempt. Several may be open at once.\n\n"
        "Every running job has a lease: what `pick` or `claim` granted, or an hour (the job's idle limit\n"
        "where that is longer) for a worker that started by its first event. Each event, and each `renew`,\n"
        "extends it by "
        "the seconds that were granted. The registry process enforces leases and the job's own limits; a\n"
        "renewal is no event for the idle limit. While a job asks for permission it is not idle, and its\n"
        "lease is believed for a day longer. A watcher's own limits end the watch, not the job; both are\n"
        "exit code 2.\n\n"
        f"A job has {DEFAULT_MAX_ATTEMPTS} attempts where `register --max-attempts` says no other number.\n"
        "After a lost lease it rests before it can be picked: 5 s, then twice as long after each further\n"
        "attempt, 10 minutes at most. A released job does not rest. `update JOB --status pending` is a\n"
        "person's retry: the next attempt at once, one more than the limit if need be; for a job at\n"
        "rest, the end of its rest.\n"
    )


def render_exit_codes() -> str:
    """Return the exit codes as a table."""
    rows = "\n".join(f"| {int(code)} | {code.name} | {MEANINGS[code]} |" for code in ExitCode)
    head = f"{_MADE}# Exit codes\n\nOne table for every command.\n\n"
    return f"{head}| code | name | meaning |\n|---|---|---|\n{rows}\n"


def render_settings() -> str:
    """Return every table and key of jobwire.toml."""
    names = [name for name in TABLES if name not in ROLE_TABLES]
    tables = "".join(f"\n## [{name}]\n\n{_rows(TABLES[name])}" for name in names)
    roles = ", ".join(f"`[{name}]`" for name in ROLE_TABLES)
    return (
        f"{_MADE}# Settings\n\n"
        "`jobwire.toml` in the home; `jobwire settings` shows what holds and where it comes from. Highest\n"
        "first: the command line, the `broker` of a job's record, the environment, the role's table,\n"
        "`[broker]`, the default. Relative paths are relative to the file. A table or key that is not here\n"
        "is an error, and so is a value that its setting does not take.\n\n"
        "What runs code of others or gives something away no home can ask for: a setting that says\n"
        "*own file* takes more in `~/.config/jobwire/jobwire.toml` (or below `$XDG_CONFIG_HOME`), which\n"
        "must be yours and not writable by others.\n"
        f"{tables}\n## Roles\n\n{roles}: for that account, where nothing above names a user or a\n"
        f"certificate.\n\n{_rows(next(iter(ROLE_TABLES.values())))}"
    )


def _rows(settings: tuple[Setting, ...]) -> str:
    rows = "".join(
        f"| `{one.name}` | {one.help} | {one.values.words}{_own(one)} | {_default(one)} |"
        f" {f'`{one.variable}`' if one.variable else ''} |\n"
        for one in settings
    )
    return f"| key | what | takes | default | environment |\n|---|---|---|---|---|\n{rows}"


def _own(setting: Setting) -> str:
    return "" if setting.own is None else f"; *own file*: {setting.own.words}"


def _default(setting: Setting) -> str:
    text = str(setting.default)
    return text[1:-1] if text.startswith("(") else f"`{json.dumps(setting.default)}`"


def main() -> int:
    """Write the documents, or with --check name those that differ and return 1."""
    root = Path(__file__).resolve().parents[1]
    stale = {
        path: text for path, text in render_all(root).items() if not path.exists() or path.read_text() != text
    }
    for path, text in stale.items():
        name = path.relative_to(root)
        if "--check" in sys.argv[1:]:
            print(f"stale: {name} (run `make docs`)")
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            print(f"wrote {name}")
    return 1 if stale and "--check" in sys.argv[1:] else 0


if __name__ == "__main__":
    sys.exit(main())
