"""Orders to erase records and legal holds: who may give them, and how they are signed."""
