"""Formats documents and text that describe quotes, event logs and verdicts."""
