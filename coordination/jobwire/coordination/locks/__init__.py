"""File locks: leases on paths and names, with waiters, and deadlocks that are found."""
