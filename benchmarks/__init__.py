"""Measurements: JSON and a table, as ratios against a peer in the same run."""
