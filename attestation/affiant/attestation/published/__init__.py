"""Policies and reference values as their author signed them: a sigstore bundle around the exact bytes of a file."""
