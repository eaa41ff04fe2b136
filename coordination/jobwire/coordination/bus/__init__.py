"""The folders of other systems: written for their readers, and taken in."""
