"""The fixtures of `jobwire.testing` for every test."""

pytest_plugins = ["jobwire.testing.fixtures"]
