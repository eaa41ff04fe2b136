"""Tables of an earlier form, taken over into the present one: what is counted stays counted.

Form 3 had no table `idle`. Runs inside the transaction that makes the tables.
"""

from jobwire.metrics.database import Database
from jobwire.metrics.errors import SinkError
from jobwire.metrics.statements import queries, schema

FORM = 4
# From this one on the tables tell how many shards there are.
OLDEST = 3


def bring_up(database: Database, found: int, shards: int) -> None:
    """Make the tables for `shards` where `found` is 0, or bring those of form `found` to the present one."""
    if 0 < found < OLDEST:
        raise SinkError(
            f"the metric tables have form {found}, of a jobwire before its first release",
            hint="move them away: `jobwire metrics once` computes them from the journal and its sealed files",
        )
    database.drop_views()
    for statement in schema():
        database.execute(statement)
    # How many shards there are, the older row tells.
    database.execute(queries()["put_form"], (FORM, 1 if found else shards))
