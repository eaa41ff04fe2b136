"""Where the files of one authority stand."""

from pathlib import Path

from jobwire.certs.index import Index
from jobwire.certs.values import Kind

# What the commands call the broker's own certificate; further servers have names of their own.
SERVER_NAME = "server"


class Places:
    """Paths below the authority's folder. Which certificate of the bundle signs is decided by `ca_key`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        # The trusted authority certificates: one, or two during a rollover.
        self.bundle = directory / "ca.pem"
        # The key that signs now.
        self.ca_key = directory / "ca.key"
        # The coming authority's key, from the beginning of a rollover to its switch.
        self.next_key = directory / "next.key"
        # The parting authority's key, from switch to finish: its revocation list still needs signing.
        self.previous_key = directory / "previous.key"
        self.server = directory / "server.pem"
        self.server_key = directory / "server.key"
        # The revocation lists, one for each certificate of the bundle.
        self.crl = directory / "crl.pem"
        # The serials issued and revoked.
        self.index = Index(directory / "index.ndjson")
        self.clients = directory / "clients"
        self.servers = directory / "servers"

    def client(self, name: str) -> Path:
        """Return the path of the certificate of user, role or job `name`."""
        return self.clients / f"{name}.pem"

    def server_of(self, name: str) -> Path:
        """Return the path of the certificate of a server: the broker's own is called SERVER_NAME."""
        return self.server if name == SERVER_NAME else self.servers / f"{name}.pem"

    def pair(self, name: str, kind: Kind) -> tuple[Path, Path]:
        """Return the paths of certificate and key of a server or client."""
        certfile = self.server_of(name) if kind is Kind.SERVER else self.client(name)
        return certfile, certfile.with_suffix(".key")

    def is_server(self, name: str) -> bool:
        """Tell whether `name` is the broker's or that of a further server issued here."""
        return name == SERVER_NAME or self.server_of(name).exists()

    def complete(self) -> bool:
        """Tell whether everything that `init` writes is there."""
        needed = (self.bundle, self.ca_key, self.server, self.server_key, self.crl, self.index.path)
        return all(path.is_file() for path in needed)
