"""What an import of the transport loads in a fresh interpreter, and what it leaves alone."""

import subprocess
import sys

_UNWANTED = "asyncio pydantic dataclasses rich tomllib http.client urllib.request email jobwire.transport.tls"


def run(code: str) -> str:
    """Return what a fresh interpreter prints."""
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout


def test_the_import_is_light() -> None:
    """Nothing heavy comes with the transport: start-up time is a promise of publish_event."""
    code = f"import sys, jobwire.transport; print([m for m in '{_UNWANTED}'.split() if m in sys.modules])"
    assert run(code) == "[]\n"


def test_deferred_modules_still_work() -> None:
    """Whoever needs urllib.request after us gets the real one, by either way of importing."""
    code = """
import jobwire.transport, urllib
print(urllib.request.getproxies.__module__)
import urllib.request
from urllib.request import urlopen
print(urllib.request.__file__ is not None, urlopen.__module__)
"""
    assert run(code) == "urllib.request\nTrue urllib.request\n"
