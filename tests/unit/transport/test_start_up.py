"""What an import of the transport loads, and what it leaves alone."""

import logging
import subprocess
import sys

import pytest

from jobwire.core.settings import BrokerSettings
from jobwire.transport.deferred import DeferredModule
from jobwire.transport.paho_client import PahoClient
from jobwire.transport.paho_transport import warn_of_plaintext

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


def test_a_module_that_is_loaded_is_not_replaced() -> None:
    """Deferring comes too late for what is there already."""
    before = sys.modules["json"]
    DeferredModule("json").install()
    assert sys.modules["json"] is before


def test_the_seam_in_paho_is_where_we_expect_it() -> None:
    """Paho still asks `_create_socket` for its socket: our override takes effect."""
    paho = PahoClient.__base__
    assert "_create_socket" in vars(paho)
    assert "_create_socket" in PahoClient.reconnect.__code__.co_names


@pytest.mark.parametrize(("host", "warned"), [("broker.example.org", True), ("127.0.0.1", False)])
def test_plaintext_is_warned_of_each_time(
    caplog: pytest.LogCaptureFixture, host: str, *, warned: bool
) -> None:
    """Every connection in the clear that leaves the host says so."""
    settings = BrokerSettings(host=host, tls=False, explicit_plaintext=True)
    with caplog.at_level(logging.WARNING):
        warn_of_plaintext(settings)
        warn_of_plaintext(settings)
    assert len(caplog.records) == (2 if warned else 0)
