"""Verifies what approvers sign: statements about one action, and proofs of who reads."""
