"""The fleet on a page, in a terminal and for Prometheus."""
