"""Recorded decisions in the forms that others read: OCSF, OpenTelemetry, a table. Pure."""
