"""Files that survive a crash: the one durable write, and the file system as a port."""
