"""What is kept for how long: the table `[registry]` of jobwire.toml, under the command line."""

from pathlib import Path

from jobwire.core.bounds import MAX_SECONDS
from jobwire.core.errors import ConfigError
from jobwire.journal.retention import RetentionPolicy
from jobwire.registry.purge import Rules
from jobwire.transport.settings_files import SETTINGS_FILE, read_settings

_DAY = 86400.0
_MIB = 1 << 20
# Keys of the table; 0 keeps for ever, or without a limit.
_DAYS = {"keep_retained_days": "retained_seconds", "keep_records_days": "record_seconds"}
_JOURNAL_DAYS = "keep_journal_days"
_JOURNAL_MIB = "keep_journal_mib"
_KEYS = frozenset({*_DAYS, _JOURNAL_DAYS, _JOURNAL_MIB})
_NO_LIMIT = 1 << 62


def load_rules(home: Path, *, retained_days: float | None, record_days: float | None) -> Rules:
    """Return the rules; days that are given go before the table. Raises ConfigError naming the key."""
    table = _table(home / SETTINGS_FILE)
    given = {"keep_retained_days": retained_days, "keep_records_days": record_days}
    ages: dict[str, float | None] = {}
    for key, field in _DAYS.items():
        days = _number(key, given[key] if given[key] is not None else table.get(key))
        if days is not None:
            ages[field] = days * _DAY if days else None
    return Rules(**{**Rules()._asdict(), **ages, "journal": _journal_limits(table)})


def _journal_limits(table: dict[str, object]) -> RetentionPolicy:
    """Return how much of the journal is kept once every consumer has read it."""
    limits = RetentionPolicy()
    days = _number(_JOURNAL_DAYS, table.get(_JOURNAL_DAYS))
    if days is not None:
        limits = limits._replace(keep_seconds=days * _DAY or float("inf"))
    mib = _number(_JOURNAL_MIB, table.get(_JOURNAL_MIB))
    if mib is not None:
        limits = limits._replace(keep_bytes=int(mib * _MIB) or _NO_LIMIT)
    return limits


def _number(key: str, value: object) -> float | None:
    if value is None:
        return None
    most = _NO_LIMIT / _MIB if key == _JOURNAL_MIB else MAX_SECONDS / _DAY
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
        unit = "MiB; 0 sets no limit" if key == _JOURNAL_MIB else "days; 0 keeps for ever"
        raise ConfigError(f"[registry] {key} is {value!r}", hint=f"at most {most:.0f} {unit}")
    return value


def _table(path: Path) -> dict[str, object]:
    table = read_settings(path).get("registry", {})
    if not isinstance(table, dict):
        raise ConfigError(f"registry in {path} is not a table", hint="write [registry]")
    for key in table:
        if key not in _KEYS:
            raise ConfigError(
                f"unknown key {key!r} in {path} [registry]", hint=f"known: {', '.join(sorted(_KEYS))}"
            )
    return table
