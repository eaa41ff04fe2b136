"""What an import of the transport loads in a fresh interpreter, and what it leaves alone."""

import subprocess
import sys

_UNWANTED = "asyncio pydantic dataclasses rich tomllib http.client urllib.request email jobwire.transport.tls"


def run(code: str) -> str:
    """Return what a fresh interpreter prints."""
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout


def test_the_import_is_light() -> None:
    """Nothing heavy comes with the transport: start-up time is a promise of publish_event."""
    loaded = f"[name for name in '{_UNWANTED}'.split() if name in sys.modules]"
    code = f"import sys, jobwire.transport.paho_client; print({loaded})"
    assert run(code) == "[]\n"


def test_deferred_modules_still_work() -> None:
    """Whoever needs urllib.request after us gets the real one, by either way of importing."""
    code = """
import jobwire.transport.paho_client, urllib
print(urllib.request.getproxies.__module__)
import urllib.request
from urllib.request import urlopen
print(urllib.request.__file__ is not None, urlopen.__module__)
"""
    assert run(code) == "urllib.request\nTrue urllib.request\n"
