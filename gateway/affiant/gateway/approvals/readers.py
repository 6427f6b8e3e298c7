"""Approvers at this gateway's door: whoever reads or decides proves with a key that a profile names.

What waits may hold what is private to the agent's user, so the operator's socket does not show it: an approver's key
is the only way to read it, and only what that key may approve. A proof is taken once.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from affiant.attestation.approving.errors import NotAnApprover, ReaderRefused
from affiant.attestation.approving.reader_proof import (
    READER_HEADER,
    READER_TOLERANCE_S,
    ReaderProof,
    verify_reader_proof,
)
from affiant.gateway.approvals.mailbox import Mailbox
from affiant.gateway.errors import ProofMissing
from affiant.gateway.http_request import Scope, header, target_of

__all__ = ["Readers"]

_MAX_SEEN = 1024
"""Proofs of one key within their time: nobody can fill the room of another approver."""


class Readers:
    """Judges the proofs of approvers.

    Args:
        spki: of the TLS key with which this gateway serves, 43 characters.
        clock: the present time, UTC.
    """

    def __init__(self, mailbox: Mailbox, *, spki: str, clock: Callable[[], datetime]) -> None:
        self._mailbox = mailbox
        self._spki = spki
        self._clock = clock
        self._seen: dict[str, dict[str, int]] = {}

    def require(self, scope: Scope, body: bytes) -> str:
        """The thumbprint of the approver who sent this request.

        Raises:
            ProofMissing: without a proof. StatementMalformed, ReaderRefused: it does not hold, or was seen before.
            NotAnApprover: no session of this gateway names the key.
        """
        text = header(scope, READER_HEADER)
        if text is None:
            raise ProofMissing("no proof of an approver's key", expected=f"the header {READER_HEADER}")
        now = self._clock().timestamp()
        method, target = scope["method"], target_of(scope)
        proof = verify_reader_proof(text, method, target, body, spki=self._spki, now=now)
        if not self._mailbox.names(proof.kid):
            raise NotAnApprover("nothing at this gateway waits for this key", found=proof.kid)
        self._take(proof, now)
        return proof.kid

    def _take(self, proof: ReaderProof, now: float) -> None:
        """Take a proof once. Only approvers' are kept, so strangers cannot push any out."""
        before = self._seen.get(proof.kid, {})
        seen = {jti: iat for jti, iat in before.items() if now - iat <= 2 * READER_TOLERANCE_S}
        self._seen[proof.kid] = seen
        if proof.jti in seen or len(seen) >= _MAX_SEEN:
            raise ReaderRefused("the proof was seen before, or there are too many at once", where="jti")
        seen[proof.jti] = proof.iat
