"""What is kept for how long: the table `[registry]` of jobwire.toml, under the command line."""

from pathlib import Path

from jobwire.core.errors import ConfigError
from jobwire.registry.purge import Rules

_DAY = 86400.0
# Key in the table -> field of Rules; days, 0 keeps for ever.
_KEYS = {"keep_retained_days": "retained_seconds", "keep_records_days": "record_seconds"}


def load_rules(home: Path, *, retained_days: float | None, record_days: float | None) -> Rules:
    """Return the rules; days that are given go before the table. Raises ConfigError naming the key."""
    table = _table(home / "jobwire.toml")
    given = {"keep_retained_days": retained_days, "keep_records_days": record_days}
    rules = Rules()
    for key, field in _KEYS.items():
        days = given[key] if given[key] is not None else table.get(key)
        if days is None:
            continue
        if isinstance(days, bool) or not isinstance(days, (int, float)) or not 0 <= days < float("inf"):
            raise ConfigError(f"[registry] {key} is {days!r}", hint="a number of days; 0 keeps for ever")
        rules = rules._replace(**{field: days * _DAY if days else None})
    return rules


def mtls_port(home: Path) -> int | None:
    """Return the port for client certificates where the home names one (`[mtls] port`)."""
    port = _read(home / "jobwire.toml").get("mtls", {})
    value = port.get("port") if isinstance(port, dict) else None
    return value if type(value) is int else None


def _table(path: Path) -> dict[str, object]:
    table = _read(path).get("registry", {})
    if not isinstance(table, dict):
        raise ConfigError(f"registry in {path} is not a table", hint="write [registry]")
    for key in table:
        if key not in _KEYS:
            raise ConfigError(
                f"unknown key {key!r} in {path} [registry]", hint=f"known: {', '.join(sorted(_KEYS))}"
            )
    return table


def _read(path: Path) -> dict[str, object]:
    import tomllib  # noqa: PLC0415 - many a home has no settings file

    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"cannot read {path}: {error}", path=str(path)) from error
