"""Collateral from Intel's provisioning service: asked for, verified, kept. The one way out of `attestation`.

Nothing here is part of a verdict: verifiers take collateral as an argument and never fetch. What is fetched is
believed for its signatures, never for the connection it came over.
"""
