"""Files that survive a crash: the one durable write, the file system as a port, and its doubles."""
