"""What an import of the transport changes, and what it leaves alone."""

import logging
import sys

import pytest

from jobwire.core.settings import BrokerSettings
from jobwire.transport.deferred import DeferredModule
from jobwire.transport.paho_transport import warn_of_plaintext


def test_a_module_that_is_loaded_is_not_replaced() -> None:
    """Deferring comes too late for what is there already."""
    before = sys.modules["json"]
    DeferredModule("json").install()
    assert sys.modules["json"] is before


@pytest.mark.parametrize(("host", "warned"), [("broker.example.org", True), ("127.0.0.1", False)])
def test_plaintext_is_warned_of_each_time(
    caplog: pytest.LogCaptureFixture, host: str, *, warned: bool
) -> None:
    """Every connection in the clear that leaves the host says so."""
    settings = BrokerSettings(host=host, tls=False)
    with caplog.at_level(logging.WARNING):
        warn_of_plaintext(settings)
        warn_of_plaintext(settings)
    assert len(caplog.records) == (2 if warned else 0)
