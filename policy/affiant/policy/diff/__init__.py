"""Compares two policies exactly, without a solver: each difference with a request that shows it."""
