"""Collects the facts of a review page: versions, changes, flows, warnings. Pure."""
