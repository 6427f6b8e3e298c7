"""A monitor of transparency logs: sees that a log only grows, shows everybody the same, and lacks no record."""
