"""Watch jobs in the foreground until their verdict."""
