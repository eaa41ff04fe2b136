"""The durable record of every job.

Import from the modules: `store` (records), `queue` (register, pick, ...), `outbox`, `serve`. Nothing is
gathered here, so that `publish_event` loads only what it needs.
"""

__all__: list[str] = []
