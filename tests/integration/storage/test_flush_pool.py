"""Helper threads and processes."""

import os

from jobwire.storage.flush_pool import FlushPool


def test_after_a_fork() -> None:
    """A child has none of its parent's threads, and does its work."""
    pool = FlushPool(most=2)
    pool.each(lambda _: None, range(9))
    child = os.fork()
    if not child:
        done: list[int] = []
        pool.each(done.append, range(9))
        os._exit(len(done))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
