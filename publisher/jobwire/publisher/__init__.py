"""Workers say what happens to their job: `publish_event`, and `Publisher` for Python workers."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from jobwire.delivery.publishing import Published
    from jobwire.publisher.publisher import Publisher

__all__ = ["Published", "Publisher"]


def __getattr__(name: str) -> object:
    """Load what is asked for: the command needs neither."""
    if name == "Publisher":
        from jobwire.publisher.publisher import Publisher  # noqa: PLC0415

        return Publisher
    if name == "Published":
        from jobwire.delivery.publishing import Published  # noqa: PLC0415

        return Published
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
