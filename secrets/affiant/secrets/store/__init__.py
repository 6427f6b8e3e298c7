"""Where secrets are kept: the encrypted local store, and Vault."""
