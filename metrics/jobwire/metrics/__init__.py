"""Spark Structured Streaming over the journal."""
