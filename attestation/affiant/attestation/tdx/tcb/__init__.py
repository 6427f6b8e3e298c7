"""Verifies TCB information and QE identity, and derives a platform's TCB status."""
