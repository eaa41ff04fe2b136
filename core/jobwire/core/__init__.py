"""The rules of jobwire without any I/O: events, signatures, topics, lifecycle, admission, settings."""
