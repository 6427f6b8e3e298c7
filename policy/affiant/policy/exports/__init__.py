"""Writes a profile as configuration of another tool, and reports what is lost."""
