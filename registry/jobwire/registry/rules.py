"""What is kept for how long: the table `[registry]` of jobwire.toml, under the command line."""

from pathlib import Path

from jobwire.core.setting_tables import TABLES, check_value
from jobwire.journal.retention import RetentionPolicy
from jobwire.registry.purge import RetentionRules
from jobwire.storage.settings_file import read_settings

_DAY = 86400.0
_MIB = 1 << 20
_NO_LIMIT = 1 << 62
_SETTINGS = {setting.name: setting for setting in TABLES["registry"]}


def load_rules(home: Path, *, retained_days: float | None, record_days: float | None) -> RetentionRules:
    """Return the rules; days that are given go before the table. Raises ConfigError naming the key.

    0 keeps for ever, or without a limit.
    """
    given = {"keep_retained_days": retained_days, "keep_records_days": record_days}
    said = {key: value for key, value in given.items() if value is not None}
    for key, value in said.items():
        check_value(_SETTINGS[key], value, "the command line")
    table = {**read_settings(home).tables.get("registry", {}), **said}
    numbers = {key: float(str(value)) for key, value in table.items()}
    rules = RetentionRules()
    if (days := numbers.get("keep_retained_days")) is not None:
        rules = rules._replace(retained_seconds=days * _DAY or None)
    if (days := numbers.get("keep_records_days")) is not None:
        rules = rules._replace(record_seconds=days * _DAY or None)
    return rules._replace(journal=_journal_limits(numbers))


def _journal_limits(numbers: dict[str, float]) -> RetentionPolicy:
    """Return how much of the journal is kept of what every consumer has read, and of what not."""
    limits = RetentionPolicy()
    if (days := numbers.get("keep_journal_days")) is not None:
        limits = limits._replace(keep_seconds=days * _DAY or float("inf"))
    if (mib := numbers.get("keep_journal_mib")) is not None:
        limits = limits._replace(keep_bytes=int(mib * _MIB) or _NO_LIMIT)
    if (days := numbers.get("keep_unread_days")) is not None:
        limits = limits._replace(lag_seconds=days * _DAY or float("inf"))
    if (mib := numbers.get("keep_unread_mib")) is not None:
        limits = limits._replace(lag_bytes=int(mib * _MIB) or _NO_LIMIT)
    return limits
