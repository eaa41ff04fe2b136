"""Agents, conversations, deliveries and leases: one SQLite store beside the records, and its commands."""
