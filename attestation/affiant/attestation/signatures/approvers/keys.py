"""Names the key file of an approver (``key_file``). Profiles name the key by its thumbprint."""

from __future__ import annotations

from typing import Final

from affiant.attestation.encoding.key_file import KeyFileKind
from affiant.attestation.signatures.approvers.errors import ApproverKeyMalformed

__all__ = ["APPROVER_KEY"]

APPROVER_KEY: Final = KeyFileKind(
    "affiant-approver-key/1", "an approver", "affiant approvals keygen", ApproverKeyMalformed
)
