"""Spark Structured Streaming over the journal: figures about the fleet, exactly once."""
