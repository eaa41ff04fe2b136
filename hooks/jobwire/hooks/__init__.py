"""What the hooks of coding agents say, as events and requests of their jobs, and what they are answered."""
