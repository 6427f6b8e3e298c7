"""Reads records that others keep: proxy logs, bills, OpenTelemetry spans."""
