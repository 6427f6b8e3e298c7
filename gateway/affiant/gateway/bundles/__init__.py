"""Bundles of sessions and periods, from the journal."""
