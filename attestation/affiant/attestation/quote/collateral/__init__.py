"""Fetches collateral from Intel's provisioning service, verifies it and keeps it."""
