"""Tasks: a run's plan as a graph; what is ready goes to its owner, and each work on it is a job."""
