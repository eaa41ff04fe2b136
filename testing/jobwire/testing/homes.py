"""Homes of tests' own."""

from pathlib import Path

from jobwire.registry.layout import HomeLayout


def new_home(path: Path) -> Path:
    """Make `path` the home that `jobwire init` would make, and return it."""
    HomeLayout(path).make_layout()
    return path
