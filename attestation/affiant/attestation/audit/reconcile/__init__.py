"""Matches every item of an independent record with the receipt that explains it."""
