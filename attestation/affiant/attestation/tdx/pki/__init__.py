"""Verifies Intel's certificate chains, revocation lists and signed JSON."""
