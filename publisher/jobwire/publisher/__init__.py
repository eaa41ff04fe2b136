"""Workers say what happens to their job: `publish_event`, and `Publisher` for Python workers."""

from jobwire.publisher.publisher import Publisher
from jobwire.publisher.publishing import Published

__all__ = ["Published", "Publisher"]
