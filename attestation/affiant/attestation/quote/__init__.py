"""What `affiant quote` and `affiant collateral` work with: collateral, verdicts and evidence providers."""
