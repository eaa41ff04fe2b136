"""A private certificate authority."""
