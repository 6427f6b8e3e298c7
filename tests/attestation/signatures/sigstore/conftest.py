"""A vendor who publishes: a sigstore deployment, a policy, and what a reader of it needs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.attestation.tdx.conftest import platform
from tests.attestation.tdx.policy.test_policy_file import SIMULATED
from tests.sigstore_authority.authority import Authority, encoded

from affiant.attestation.signatures.sigstore.statement import FileKind, SignedFile, file_statement
from affiant.attestation.signatures.sigstore.trusted_identity import Signer
from affiant.attestation.signatures.sigstore.verification import VerifiedFile, verify_signed_file

__all__ = ["platform", "vendor"]

AT = datetime(2026, 5, 4, 12, tzinfo=UTC)
IDENTITY = "release@vendor.example"
ISSUER = "https://accounts.vendor.example"
POLICY = SignedFile("appraisal.yaml", FileKind.APPRAISAL_POLICY, SIMULATED.encode())
STATEMENT = file_statement(POLICY)


@dataclass
class Vendor:
    """Signs with its own deployment; ``verify`` is its reader."""

    authority: Authority

    def sign(self, statement: bytes = STATEMENT, **changes: Any) -> dict[str, Any]:
        return self.authority.sign(statement, **{"identity": IDENTITY, "issuer": ISSUER, "at": AT, **changes})

    def verify(
        self,
        bundle: dict[str, Any] | bytes,
        *,
        trusted_root: bytes | None = None,
        signer: Signer | None = None,
    ) -> VerifiedFile:
        return verify_signed_file(
            bundle if isinstance(bundle, bytes) else encoded(bundle),
            trusted_root=encoded(self.authority.trusted_root()) if trusted_root is None else trusted_root,
            signer=signer or Signer(IDENTITY, ISSUER),
        )


@pytest.fixture(scope="session")
def vendor() -> Vendor:
    return Vendor(Authority())


def entry_of(bundle: dict[str, Any]) -> dict[str, Any]:
    """The bundle's one log entry."""
    (entry,) = bundle["verificationMaterial"]["tlogEntries"]
    return entry
