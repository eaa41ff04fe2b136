"""`jobwire broker render`: a folder that can be copied to the broker's host and started there."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from jobwire.broker.defaults import PRESENT_DAY_ITERATIONS
from jobwire.broker.files import read_text, write_private
from jobwire.broker.home import (
    ROLES,
    BrokerFiles,
    BrokerPaths,
    prepare_home,
    read_password,
    write_access_list,
)
from jobwire.broker.mosquitto import SERVICE_FILE, Listening, render_configuration, render_service
from jobwire.broker.passwd import PasswordFile, check_iterations
from jobwire.certs.authority import CertificateAuthority
from jobwire.certs.files import make_directory
from jobwire.certs.names import parse_server_names
from jobwire.core.errors import ConflictError
from jobwire.core.topics import Topics

_MOSQUITTO = "/usr/sbin/mosquitto"


class Deployment(NamedTuple):
    """What is to be deployed. `installed_at` is the folder's place on the broker's host."""

    server_names: Sequence[str]
    listening: Listening
    topic_root: str
    user: str
    installed_at: Path
    iterations: int = PRESENT_DAY_ITERATIONS


def render_deployment(home: Path, out: Path, deployment: Deployment, *, force: bool = False) -> list[Path]:
    """Write configuration, access list, passwords, certificates and unit to `out`; return the files.

    The authority and the plaintext passwords stay in `home`, which is created where it is missing. Raises
    ConflictError if `out` holds something and not `force`; blocks for one password hash a role.
    """
    _require_room(out, force=force)
    # Everything that can fail on its input is made before the first file is written.
    parse_server_names(deployment.server_names)
    check_iterations(deployment.iterations)
    Topics(deployment.topic_root)
    target, installed = (BrokerFiles(place, place / "certs") for place in (out, deployment.installed_at))
    configuration = render_configuration(installed, deployment.listening, user=deployment.user)
    service = render_service(
        installed, user=deployment.user, mosquitto=shutil.which("mosquitto") or _MOSQUITTO
    )
    paths = BrokerPaths(home)
    _prepare_authority(paths, deployment.server_names)
    prepare_home(
        home,
        host=deployment.server_names[0],
        port=deployment.listening.port,
        mtls_port=deployment.listening.mtls_port,
        topic_root=deployment.topic_root,
        protocol="5",
    )
    for folder in (out, target.certs, target.data):
        make_directory(folder)
    write_private(target.configuration, configuration)
    write_private(out / SERVICE_FILE, service, mode=0o644)
    write_access_list(target.acl, deployment.topic_root)
    _write_passwords(paths, target.passwd, deployment.iterations)
    for source, copy in (
        (paths.ca, target.ca),
        (paths.crl, target.crl),
        (paths.server_key, target.server_key),
        (paths.server_certificate, target.server_certificate),
    ):
        write_private(copy, read_text(source, "certificate file"))
    return sorted(path for path in out.rglob("*") if path.is_file())


def _require_room(out: Path, *, force: bool) -> None:
    if out.exists() and not out.is_dir():
        raise ConflictError(f"{out} is not a folder", hint="render into another --out", path=str(out))
    if out.exists() and any(out.iterdir()) and not force:
        raise ConflictError(
            f"{out} is not empty", hint="render again with --force, or into another folder", path=str(out)
        )


def _prepare_authority(paths: BrokerPaths, server_names: Sequence[str]) -> None:
    authority = CertificateAuthority(paths.certs)
    if not authority.exists():
        authority.init(server_names)
        return
    server = authority.inspect(paths.server_certificate)
    if not set(server_names) <= set(server.names):
        # Refused by the authority, with its reason, if it may not speak for these names.
        authority.renew("server", server_names=server_names)


def _write_passwords(paths: BrokerPaths, target: Path, iterations: int) -> None:
    # Users added to an earlier rendering stay; the roles follow the home's plaintext passwords.
    with PasswordFile.edit(target, create=True) as users:
        for role in ROLES:
            password = read_password(paths.password(role))
            present = users.entries.get(role)
            kept = present is not None and present.iterations == iterations
            if not (kept and users.verify(role, password.encode())):
                users.set(role, password, iterations=iterations)
