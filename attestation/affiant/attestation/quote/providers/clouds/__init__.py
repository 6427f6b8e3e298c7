"""Collects evidence in clouds: Azure's paravisor and dstack."""
