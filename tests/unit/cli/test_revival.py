"""When a part of a host that ended is started again."""

from jobwire.cli.live_part import HEALTHY_SECONDS, Revival


def test_the_pause_doubles_up_to_a_minute() -> None:
    """Ends in a row are waited after for 1, 2, 4 ... 60 seconds, however many there are."""
    revival, pauses = Revival(), []
    for _ in range(10_000):
        revival = revival.after(0.0)
        pauses.append(revival.pause_seconds)
    assert pauses[:8] == [1, 2, 4, 8, 16, 32, 60, 60]
    assert pauses[-1] == 60


def test_a_minute_of_health_is_a_new_beginning() -> None:
    """Who was well for a minute is started again after a second; who was well for less is not."""
    worn = Revival(5)
    assert worn.after(HEALTHY_SECONDS).pause_seconds == 1
    assert worn.after(HEALTHY_SECONDS - 0.1).pause_seconds == 32
