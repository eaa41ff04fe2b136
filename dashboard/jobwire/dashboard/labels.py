"""What people read for a job's group: the words of docs/glossary.md. Light: the status line loads it."""

WAITS_FOR_YOU = "waits for you"
# As wide as the longest word of `state_word`.
STATE_WIDTH = len(WAITS_FOR_YOU)


def state_word(group: str, status: str) -> str:
    """Return the word for one job: a job that is done says how it ended."""
    if group == "waiting":
        return WAITS_FOR_YOU
    return status if group == "done" else group


def counted(count: int, group: str) -> str:
    """Return how many jobs of a group there are: 1 waits for you, 2 wait for you, 3 running."""
    words = "wait for you" if group == "waiting" and count != 1 else state_word(group, group)
    return f"{count} {words}"
