"""Follows every item of an independent record to the receipt that explains it: ``affiant reconcile``."""
