"""What holds for everything signed. Import from the modules: `publish_event` loads only what it needs."""

__all__: list[str] = []
