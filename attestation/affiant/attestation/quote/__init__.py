"""Serves `affiant quote` and `affiant collateral`: collateral, verdicts and evidence providers."""
