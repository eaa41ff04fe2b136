"""`jobwire broker check DIR`: is this folder ready to deploy? Looked at, and tried.

Its configuration is held against a fresh rendering, accounts and access list against the table of who may do
what, and Mosquitto is started on both.
"""

import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from jobwire.broker.access_table import ALLOWED, MEANING, Action, Identity
from jobwire.broker.acl import AccessList, Right
from jobwire.broker.address import free_port
from jobwire.broker.examinations import examine_certificate_port, examine_strangers, examine_way
from jobwire.broker.files import read_text, require_writable
from jobwire.broker.home import BrokerFiles, concerns_broker, rendered_root
from jobwire.broker.mosquitto import Listening, Mosquitto, find_mosquitto, render_configuration
from jobwire.broker.passwd import MACHINE_ITERATIONS, PasswordFile
from jobwire.certs.authority import CertificateAuthority
from jobwire.certs.values import Finding, Level
from jobwire.core.clock import SystemClock
from jobwire.core.errors import JobwireError, NotFoundError
from jobwire.core.roles import Role
from jobwire.core.settings import BrokerSettings
from jobwire.core.topics import Topics, agent_identity
from jobwire.storage.named_files import exposure
from jobwire.storage.user import user_name

_HOST = "127.0.0.1"
# An operator's choice: addresses, and how much is kept and logged. Who may do what is not among it.
_CHOSEN = re.compile(
    "(listener|user|pid_file|sys_interval|connection_messages|queue_qos0_messages) "
    "|max_|log_|autosave_|persistent_client_expiration"
)
_FILES = ("acl_file ", "password_file ", "persistence_location ")
_ANYWHERE = Listening("127.0.0.1", 1, 2)
# Two jobs and two agents that stand for all: the identity's own, and another's.
_OWN, _OTHER = "aaaaaaaa", "bbbbbbbb"
_AGENT, _OTHER_AGENT = "A", "B"


def check_deployment(directory: Path, *, warn_seconds: float) -> list[Finding]:
    """Return what is wrong with a rendered folder, the worst first; empty if it is fit.

    Starts Mosquitto on free loopback ports with the folder's files for some seconds. `warn_seconds` is how
    long before an expiry the warning begins. Raises NotFoundError where there is no such folder, and nothing
    for what it finds.
    """
    if not directory.is_dir():
        raise NotFoundError(f"no folder {directory}", hint=f"jobwire broker render --out {directory}")
    files = BrokerFiles.of_folder(directory)
    if found := list(_missing(files)):
        # What the others would say follows from this.
        return found
    for part in (_permissions, _configuration, _access):
        found += _guarded(part, files)
    found += _certificates(files, warn_seconds)
    if not any(finding.level is Level.ERROR for finding in found):
        found += _guarded(_trial, files)
    return sorted(found, key=lambda finding: list(Level).index(finding.level))


def _guarded(part: Callable[[BrokerFiles], Iterator[Finding]], files: BrokerFiles) -> list[Finding]:
    try:
        return list(part(files))
    except JobwireError as error:
        return [Finding.of(Path(str(error.facts.get("path", "broker"))).name, error)]


def _missing(files: BrokerFiles) -> Iterator[Finding]:
    certificates = (files.ca, files.crl, files.server_certificate, files.server_key)
    for path in (files.configuration, files.acl, files.passwd, files.data, *certificates):
        if not path.exists():
            yield Finding(Level.ERROR, path.name, f"{path} is missing", "jobwire broker render --force")


def _permissions(files: BrokerFiles) -> Iterator[Finding]:
    # The server's key is looked at with the other certificates.
    for path in (files.passwd, files.acl, files.configuration, files.data, files.certs, files.broker):
        if error := exposure(path, to_write=path != files.passwd):
            yield Finding.of(path.name, error)
    if (error := exposure(files.data)) and not exposure(files.data, to_write=True):
        yield Finding(Level.WARNING, "data", f"others may read what is queued ({error.message})", error.hint)
    require_writable(files.data, "persistence folder")


def _configuration(files: BrokerFiles) -> Iterator[Finding]:
    text = read_text(files.configuration, "configuration", hint="jobwire broker render --force")
    return differences(text, files)


def _certificates(files: BrokerFiles, warn_seconds: float) -> list[Finding]:
    # The authority's own key and index do not belong on the broker's host, so their absence is no finding;
    # in a home, where single clients' certificates lie beside, those do not make a broker unfit.
    absent = {"ca.key", "index.ndjson"}
    return [
        finding
        for finding in CertificateAuthority(files.certs).check(warn_seconds=warn_seconds)
        if finding.subject not in absent and (finding.level is not Level.ERROR or concerns_broker(finding))
    ]


def _trial(files: BrokerFiles) -> Iterator[Finding]:
    """Run Mosquitto on the folder's settings, accounts and rights, as a server for this host, and try it."""
    ports = free_port(), free_port()
    with tempfile.TemporaryDirectory(prefix="jobwire-check-") as name, tempfile.TemporaryFile() as log:
        own = BrokerFiles(Path(name), Path(name) / "certs")
        own.acl, own.passwd = files.acl.absolute(), files.passwd.absolute()
        own.data, own.pid = own.broker, own.broker / "broker.pid"
        CertificateAuthority(own.certs).init()
        lines = _settings(read_text(files.configuration, "configuration"))
        own.configuration.write_text(_tried(lines, own, ports), encoding="utf-8")
        broker = Mosquitto(own.configuration, host=_HOST, ports=ports, log=log.fileno())
        try:
            broker.start()
            listener = max(number for number, line in enumerate(lines) if line.startswith("listener "))
            last = listener < lines.index("require_certificate true")
            port, mtls_port = ports if last else reversed(ports)
            tried = BrokerSettings(host=_HOST, port=port, ca_certs=str(own.ca), protocol="5")
            found = [*examine_way(tried, SystemClock()), *examine_strangers(tried)]
            found.append(examine_certificate_port(tried, mtls_port))
            yield from (item._replace(level=Level.ERROR) for item in found if item.level is not Level.WELL)
        except JobwireError as error:
            log.seek(0)
            said = log.read().decode(errors="replace").strip().splitlines()[-1:] or [error.message]
            hint = f"{find_mosquitto()} -v -c ..."
            yield Finding(Level.ERROR, "mosquitto", f"it does not start: {said[0]}", hint)
        finally:
            broker.stop()


def _tried(present: Sequence[str], own: BrokerFiles, ports: tuple[int, int]) -> str:
    """Return the configuration on other ports and for other places: nothing that is deployed is touched."""
    fresh = _settings(render_configuration(own, Listening(_HOST, *ports), user=user_name()))
    listeners = (line for line in fresh if line.startswith("listener "))
    # Lines with places, whatever host the folder is rendered for.
    named = {line.partition(" ")[0]: line for line in fresh}
    places = {name: line for name, line in named.items() if "/" in line or name == "user"}
    names = (line.partition(" ")[0] for line in present)
    lines = zip(names, present, strict=True)
    return "".join(
        f"{next(listeners) if name == 'listener' else places.get(name, line)}\n" for name, line in lines
    )


def differences(text: str, files: BrokerFiles) -> Iterator[Finding]:
    """Yield what is missing from a configuration for `files`, or stands in it and must not."""
    fresh = _settings(render_configuration(files, _ANYWHERE, user="mosquitto"))
    # A listener's are those below the listeners, which are the last of a rendering; all others are the
    # broker's, wherever they stand (mosquitto.conf(5)).
    first = next(number for number, line in enumerate(fresh) if line.startswith("listener "))
    of_listeners = {line.partition(" ")[0] for line in fresh[first:]}
    present = _sections(_settings(text), of_listeners)
    if len(present) != len(("the broker", "passwords", "certificates")):
        hint = "one for passwords, one for certificates: jobwire broker render --force"
        yield _unlike(f"it has {len(present) - 1} listeners, not 2", hint)
        return
    installed = render_configuration(_installed(present[0], files), _ANYWHERE, user="mosquitto")
    for here, rendered in zip(present, _sections(_settings(installed), of_listeners), strict=True):
        where = next((f"{line}: " for line in here if line.startswith("listener ")), "")
        for line in sorted(line for line in here ^ rendered if not _CHOSEN.match(line)):
            said, remedy = ("is not what render writes", "remove") if line in here else ("is missing", "add")
            yield _unlike(f"{where}`{line}` {said}", f"{remedy} the line, or jobwire broker render --force")


def _settings(text: str) -> list[str]:
    """Return the lines of a mosquitto.conf that are no comments, their words one blank apart.

    Whatever else is blank for people is part of a word for Mosquitto, and a comment begins its line.
    """
    lines = (line.rstrip("\r").split(" ") for line in text.split("\n") if not line.startswith("#"))
    return [" ".join(filter(None, words)) for words in lines if any(words)]


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


def _unlike(message: str, hint: str) -> Finding:
    return Finding(Level.ERROR, "mosquitto.conf", message, hint)


def _access(files: BrokerFiles) -> Iterator[Finding]:
    """Yield what is wrong with accounts and rights; raises ConfigError for a file that cannot be read."""
    users, access = PasswordFile.load(files.passwd), AccessList.load(files.acl)
    yield from examine_accounts(users, access)
    root = rendered_root(read_text(files.acl, "access list"))
    if root is not None:
        yield from examine_rights(users, access, root)
        return
    text = "the rights of the roles were not examined: the line that names the topic root is gone"
    yield Finding(Level.NOTE, "acl", text, "keep the line `# Rendered by jobwire for the topic root ...`")


def examine_accounts(users: PasswordFile, access: AccessList) -> Iterator[Finding]:
    """Yield weak hashes, accounts without rights, and rights of nobody."""
    for name, entry in users.entries.items():
        if entry.iterations < MACHINE_ITERATIONS:
            text = f"the hash of {name} has only {entry.iterations} iterations"
            yield Finding(Level.WARNING, "passwd", text, f"jobwire broker passwd add {name} --replace")
        if name not in access.users:
            hint = f"add `user {name}` and topics to the acl"
            yield Finding(Level.NOTE, "acl", f"no rights for user {name}", hint)
    if access.anonymous:
        text = f"line {access.anonymous[0].line} gives rights to anonymous clients"
        yield Finding(Level.ERROR, "acl", text, "move it below a `user` line")


def examine_rights(users: PasswordFile, access: AccessList, topic_root: str) -> Iterator[Finding]:
    """Yield where a role or a job has other rights than docs/security.md says.

    A right too many is an error; one too few keeps its owner from its work and is a warning.
    """
    known = [(str(role), str(role), Identity(role.value)) for role in Role if role in users.entries]
    certified = [
        ("a job", _OWN, Identity.JOB_A),
        ("an agent", agent_identity(_AGENT), Identity.AGENT_A),
    ]
    for who, user, identity in [*certified, *known]:
        for action, (right, topic) in _attempts(Topics(topic_root)).items():
            wanted, happens = action in ALLOWED[identity], access.allowed(user, user, right, topic)
            if happens and not wanted:
                text = f"{who} may {action.value}: {MEANING[action]}"
                hint = "take the line out that gives this right; `jobwire broker access-table` shows all"
                yield Finding(Level.ERROR, "acl", text, hint)
            elif wanted and not happens:
                text = f"{who} may not {action.value}: {MEANING[action]}"
                hint = f"compare with a fresh rendering for the topic root {topic_root}"
                yield Finding(Level.WARNING, "acl", text, hint)


def _attempts(topics: Topics) -> dict[Action, tuple[Right, str]]:
    """Return what the access list alone decides about, as questions to it."""
    return {
        Action.PUBLISH_OWN: (Right.PUBLISH, topics.events(_OWN)),
        Action.PUBLISH_OTHERS: (Right.PUBLISH, topics.events(_OTHER)),
        Action.PUBLISH_STATE: (Right.PUBLISH, topics.state(_OWN)),
        Action.SUBSCRIBE_OWN: (Right.RECEIVE, topics.state(_OWN)),
        Action.SUBSCRIBE_EVENTS: (Right.RECEIVE, topics.events(_OTHER)),
        Action.SUBSCRIBE_ALL: (Right.RECEIVE, "elsewhere"),
        Action.SUBSCRIBE_SYS: (Right.RECEIVE, "$SYS/broker/uptime"),
        Action.PUBLISH_OUTBOX: (Right.PUBLISH, topics.agent(_AGENT, "outbox")),
        Action.PUBLISH_OTHERS_OUTBOX: (Right.PUBLISH, topics.agent(_OTHER_AGENT, "outbox")),
        Action.PUBLISH_INBOX: (Right.PUBLISH, topics.agent(_OTHER_AGENT, "inbox")),
        Action.WILL_PRESENCE: (Right.PUBLISH, topics.agent(_AGENT, "presence")),
        Action.SUBSCRIBE_INBOX: (Right.RECEIVE, topics.agent(_AGENT, "inbox")),
        Action.SUBSCRIBE_OTHERS_INBOX: (Right.RECEIVE, topics.agent(_OTHER_AGENT, "inbox")),
        Action.SUBSCRIBE_OUTBOX: (Right.RECEIVE, topics.agent(_OTHER_AGENT, "outbox")),
        Action.SUBSCRIBE_PRESENCE: (Right.RECEIVE, topics.agent(_OTHER_AGENT, "presence")),
    }
