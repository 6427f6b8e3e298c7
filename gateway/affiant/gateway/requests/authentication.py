"""Who asks: the session whose key signed the proof over exactly this request.

The session is found by the proof's ``kid``; nothing is believed before the signature over method, target, body
digest, content type, nonce, session, counter and keyset digest held (trust rules, 10). All of that but the digest
is judged before a byte of the body is read: no body is held for a caller that no session's key vouches for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from affiant.attestation.encoding import jws
from affiant.attestation.records.proof import (
    PROOF_TYPE,
    ProofMismatch,
    ProofOfHead,
    ProofReplayed,
    ProofStale,
    RequestHead,
    verify_proof_of_head,
)
from affiant.errors import AffiantError, NotAuthenticError
from affiant.gateway.sessions.sessions import Session, SessionTable

__all__ = ["Authenticator", "is_of_session"]


def is_of_session(error: AffiantError) -> bool:
    """Whether a refused proof was signed by its session's key: refused for what it says, not for who says it."""
    return isinstance(error, (ProofMismatch, ProofReplayed, ProofStale))


@dataclass(frozen=True, slots=True)
class Authenticator:
    """Judges proofs of possession."""

    sessions: SessionTable
    keyset_digest: str
    clock: Callable[[], datetime]

    def session_of(self, proof: str | None) -> Session:
        """The session that ``proof`` claims; nothing about it is verified yet.

        Raises:
            ``proof.missing``: there is none. JWSMalformed: it is none. ``session.unknown``: no such key.
        """
        if proof is None:
            raise NotAuthenticError(
                "no proof of possession", expected="the header Affiant-Proof", code="proof.missing"
            )
        return self.sessions.of_key(jws.split(proof, typ=PROOF_TYPE).kid)

    def verify(self, session: Session, proof: str, head: RequestHead, *, counted: bool) -> ProofOfHead:
        """The proof as verified for ``head``; a counter is taken, for this request alone, whatever its body is.

        Raises:
            ProofMismatch, ProofStale, ProofReplayed: by the session's key, but not for this request and now.
            AffiantError: not by the session's key.
        """
        now = self.clock()
        verified = verify_proof_of_head(
            proof,
            head,
            key=session.admitted.statement.receipt_key,
            session=session.id,
            keyset_digest=self.keyset_digest,
            counted=counted,
            now=now,
        )
        if verified.cseq is not None:
            session.window.take(verified.cseq)
        session.last_proof = int(now.timestamp())
        return verified
