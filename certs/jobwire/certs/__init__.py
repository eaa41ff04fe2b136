"""A private certificate authority. Import from the modules: `values` needs no cryptography."""
