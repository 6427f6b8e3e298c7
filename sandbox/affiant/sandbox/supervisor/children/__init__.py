"""The sessions that a session's agent starts."""
