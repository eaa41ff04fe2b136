"""A place in a journal as Spark keeps it in its checkpoint: whose offset, and which."""

from typing import NamedTuple

from jobwire.core.errors import StorageError


class JournalOffset(NamedTuple):
    """Everything below `offset` of the journal `identity` is before this place."""

    identity: str
    offset: int

    def to_json(self) -> dict[str, str | int]:
        """Return what Spark stores. It compares texts, so the keys are in sorted order."""
        return {"journal": self.identity, "offset": self.offset}


def read_place(stored: dict[str, object]) -> JournalOffset:
    """Return the place in `stored`; raises StorageError when it is not one of ours."""
    identity, offset = stored.get("journal"), stored.get("offset")
    if not isinstance(identity, str) or not isinstance(offset, int):
        raise StorageError(
            f"the checkpoint holds no place in a journal: {sorted(stored)}",
            hint="it belongs to another source; give this query a checkpoint of its own",
        )
    return JournalOffset(identity, offset)
