"""A command as a job: the process that runs it and says what happens to it."""
