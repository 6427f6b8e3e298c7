"""The fixtures of the verifier's tests: the collection of vectors, and a simulated platform."""

from tests.attestation.tdx.conftest import other_platform, platform, v4, v5, vectors

__all__ = ["other_platform", "platform", "v4", "v5", "vectors"]
