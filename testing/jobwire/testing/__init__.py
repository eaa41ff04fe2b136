"""Doubles as a product: waiting for facts, a manual clock, an in-memory broker, real brokers on loopback."""

from jobwire.testing.clock import ManualClock
from jobwire.testing.waiting import wait_for

__all__ = ["ManualClock", "wait_for"]
