"""Compares a verified quote with reference values."""
