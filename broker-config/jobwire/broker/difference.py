"""How a mosquitto.conf differs from one that is rendered for the same place."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from jobwire.broker.configuration import Listening, render_configuration
from jobwire.broker.home import BrokerFiles
from jobwire.certs import Finding, Level

# These belong to the listener above them, all others to the broker, wherever they stand (mosquitto.conf(5)).
_OF_A_LISTENER = {
    "listener",
    "cafile",
    "certfile",
    "keyfile",
    "crlfile",
    "tls_version",
    "max_connections",
    "require_certificate",
    "use_identity_as_username",
    "use_username_as_clientid",
}
# An operator's choice: addresses, and how much is kept and logged. Who may do what is not among it.
_CHOSEN = (
    "listener ",
    "user ",
    "pid_file ",
    "max_",
    "log_",
    "autosave_",
    "persistent_client_expiration ",
    "queue_qos0_messages ",
    "sys_interval ",
    "connection_messages ",
)
_FILES = ("acl_file ", "password_file ", "persistence_location ")
_ANYWHERE = Listening("127.0.0.1", 1, 2)


def differences(text: str, files: BrokerFiles) -> Iterator[Finding]:
    """Yield what is missing from a configuration for `files`, or stands in it and must not."""
    present = _sections(text)
    if len(present) != len(("the broker", "passwords", "certificates")):
        hint = "one for passwords, one for certificates: jobwire broker render --force"
        yield _error(f"it has {len(present) - 1} listeners, not 2", hint)
        return
    fresh = _sections(render_configuration(_installed(present[0], files), _ANYWHERE, user="mosquitto"))
    for here, rendered in zip(present, fresh, strict=True):
        where = next((f"{line}: " for line in here if line.startswith("listener ")), "")
        for line in sorted(line for line in here ^ rendered if not line.startswith(_CHOSEN)):
            said, remedy = ("is not what render writes", "remove") if line in here else ("is missing", "add")
            yield _error(f"{where}`{line}` {said}", f"{remedy} the line, or jobwire broker render --force")


def _sections(text: str) -> list[set[str]]:
    """Return the lines for the whole broker, then each listener's, those for certificates last."""
    found: list[set[str]] = [set()]
    for line in (" ".join(line.split()) for line in text.splitlines()):
        name = line.partition(" ")[0]
        if name == "listener":
            found.append(set())
        if name and not name.startswith("#"):
            found[-1 if name in _OF_A_LISTENER else 0].add(line)
    return [found[0], *sorted(found[1:], key=lambda lines: "require_certificate true" in lines)]


def _installed(lines: set[str], files: BrokerFiles) -> BrokerFiles:
    """Return the files where the configuration says most of them are: the folder's place on its host."""
    places = [Path(line.partition(" ")[2]).parent for line in lines if line.startswith(_FILES)]
    broker = Counter(places or [files.broker]).most_common(1)[0][0]
    beside = files.certs.parent != files.broker
    return BrokerFiles(broker, (broker.parent if beside else broker) / "certs")


def _error(message: str, hint: str) -> Finding:
    return Finding(Level.ERROR, "mosquitto.conf", message, hint)
