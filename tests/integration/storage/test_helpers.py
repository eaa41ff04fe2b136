"""Helper threads and processes."""

import os

from jobwire.storage.helpers import Helpers


def test_after_a_fork() -> None:
    """A child has none of its parent's threads, and does its work."""
    helpers = Helpers(most=2)
    helpers.each(lambda _: None, range(9))
    child = os.fork()
    if not child:
        done: list[int] = []
        helpers.each(done.append, range(9))
        os._exit(len(done))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
