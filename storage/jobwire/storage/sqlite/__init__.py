"""SQLite as every component uses it: one way to open, migrate, ask, change and fail."""
