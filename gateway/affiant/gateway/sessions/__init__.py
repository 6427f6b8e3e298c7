"""Admitted sessions: their state, limits, recorded decisions and records."""
