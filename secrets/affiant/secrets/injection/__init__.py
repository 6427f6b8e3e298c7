"""Placeholders, and the places of a request into which a secret may be put."""
