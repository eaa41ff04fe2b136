"""Deliveries that a command handles: each try is a job, and its end decides about the delivery with it."""
