"""The key file of an approver (:mod:`affiant.attestation.key_file`). Profiles name the key by its thumbprint."""

from __future__ import annotations

from typing import Final

from affiant.attestation.approving.errors import ApproverKeyMalformed
from affiant.attestation.key_file import KeyFileKind

__all__ = ["APPROVER_KEY"]

APPROVER_KEY: Final = KeyFileKind(
    "affiant-approver-key/1", "an approver", "affiant approvals keygen", ApproverKeyMalformed
)
