"""The append-only store of everything that crossed the wire."""
