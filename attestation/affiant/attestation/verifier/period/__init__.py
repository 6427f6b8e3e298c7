"""Verifies period bundles: the rules of single bundles over any number of records."""
