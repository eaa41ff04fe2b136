"""Watch jobs in the foreground until their verdict. Import from the modules."""
