"""Workers say what happens to their job: `publish_event`, and `Publisher` for Python workers."""

from jobwire.delivery.publishing import Published
from jobwire.publisher.publisher import Publisher

__all__ = ["Published", "Publisher"]
