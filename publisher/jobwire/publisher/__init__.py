"""Workers say what happens to their job."""
