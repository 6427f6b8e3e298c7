"""Verifies a quote's signatures against verified collateral, and explains each step."""
