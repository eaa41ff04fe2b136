"""Doubles and real brokers for tests."""
