"""Verifies RFC 3161 timestamp tokens."""
