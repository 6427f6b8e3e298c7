"""Checks a whole log: every tile, entry and proof is derived again."""
