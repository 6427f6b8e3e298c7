"""Parses TD quotes, versions 4 and 5, and names the checks that a verifier makes."""
