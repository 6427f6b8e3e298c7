"""Orders to erase records, and legal holds: who may give them, how they are signed, and how they travel."""
