"""What Python programs use of jobwire; `jobwire` itself exports it."""

__all__: list[str] = []
