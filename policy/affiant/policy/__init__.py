"""Decides: permission profiles, normal form, digest, decisions, the reviewer's tools. Reads files only."""
