"""How a mosquitto.conf differs from one that is rendered for the same place."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from jobwire.broker.configuration import Listening, render_configuration
from jobwire.broker.home import BrokerFiles
from jobwire.certs.values import Finding, Level

# An operator's choice: addresses, and how much is kept and logged. Who may do what is not among it.
_CHOSEN = re.compile(
    "(listener|user|pid_file|sys_interval|connection_messages|queue_qos0_messages) "
    "|max_|log_|autosave_|persistent_client_expiration"
)
_FILES = ("acl_file ", "password_file ", "persistence_location ")
_ANYWHERE = Listening("127.0.0.1", 1, 2)


def differences(text: str, files: BrokerFiles) -> Iterator[Finding]:
    """Yield what is missing from a configuration for `files`, or stands in it and must not."""
    fresh = settings(render_configuration(files, _ANYWHERE, user="mosquitto"))
    # A listener's are those below the listeners, which are the last of a rendering; all others are the
    # broker's, wherever they stand (mosquitto.conf(5)).
    first = next(number for number, line in enumerate(fresh) if line.startswith("listener "))
    of_listeners = {line.partition(" ")[0] for line in fresh[first:]}
    present = _sections(settings(text), of_listeners)
    if len(present) != len(("the broker", "passwords", "certificates")):
        hint = "one for passwords, one for certificates: jobwire broker render --force"
        yield _error(f"it has {len(present) - 1} listeners, not 2", hint)
        return
    installed = render_configuration(_installed(present[0], files), _ANYWHERE, user="mosquitto")
    for here, rendered in zip(present, _sections(settings(installed), of_listeners), strict=True):
        where = next((f"{line}: " for line in here if line.startswith("listener ")), "")
        for line in sorted(line for line in here ^ rendered if not _CHOSEN.match(line)):
            said, remedy = ("is not what render writes", "remove") if line in here else ("is missing", "add")
            yield _error(f"{where}`{line}` {said}", f"{remedy} the line, or jobwire broker render --force")


def settings(text: str) -> list[str]:
    """Return the lines of a mosquitto.conf that are no comments, their words one blank apart."""
    lines = (" ".join(line.split()) for line in text.splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def _sections(lines: list[str], of_listeners: set[str]) -> list[set[str]]:
    """Return the lines for the whole broker, then each listener's, those for certificates last."""
    found: list[set[str]] = [set()]
    for line in lines:
        name = line.partition(" ")[0]
        if name == "listener":
            found.append(set())
        found[-1 if name in of_listeners else 0].add(line)
    return [found[0], *sorted(found[1:], key=lambda section: "require_certificate true" in section)]


def _installed(lines: set[str], files: BrokerFiles) -> BrokerFiles:
    """Return the files where the configuration says most of them are: the folder's place on its host."""
    places = [Path(line.partition(" ")[2]).parent for line in lines if line.startswith(_FILES)]
    broker = Counter(places or [files.broker]).most_common(1)[0][0]
    beside = files.certs.parent != files.broker
    return BrokerFiles(broker, (broker.parent if beside else broker) / "certs")


def _error(message: str, hint: str) -> Finding:
    return Finding(Level.ERROR, "mosquitto.conf", message, hint)
