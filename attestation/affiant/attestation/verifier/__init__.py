"""Verifies bundles of receipts offline, against a trust file of the reader's own."""
