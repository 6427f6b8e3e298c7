"""Verifies sigstore bundles around files, statements and checkpoints, offline."""
