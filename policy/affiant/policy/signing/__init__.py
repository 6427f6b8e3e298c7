"""Signs profile files and verifies their signatures: `affiant policy sign` and `verify`."""
