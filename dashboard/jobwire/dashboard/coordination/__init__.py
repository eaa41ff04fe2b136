"""Agents, conversations, locks and boards for people who look on: read from the store, never written."""
