"""Runs: session life cycle, supervisor, isolation backends, egress."""
