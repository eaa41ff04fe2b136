"""The umbrella command."""
