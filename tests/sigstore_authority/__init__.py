"""A sigstore deployment for tests: a certificate authority, its log, transparency logs, a timestamp authority."""
