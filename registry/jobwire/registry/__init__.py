"""The durable record of every job."""
