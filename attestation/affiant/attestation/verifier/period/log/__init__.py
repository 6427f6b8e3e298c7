"""What a period's log proves: coverage, time bounds, signers, population."""
