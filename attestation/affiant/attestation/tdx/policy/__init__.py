"""Reads appraisal policies that people write, and appraises verified quotes by them."""
