"""Tokens and signing keys that the broker fetches or derives."""
