"""`affiant collateral`: fetches, shows and verifies collateral."""
