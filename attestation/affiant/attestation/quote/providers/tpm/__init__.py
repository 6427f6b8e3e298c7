"""Talks to a TPM 2.0, as far as vTPM evidence needs it."""
