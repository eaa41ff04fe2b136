"""The append-only store of everything that crossed the wire. Import from the modules."""
