"""Who asks: the session whose key signed the proof over exactly this request.

The session is found by the proof's ``kid``; nothing is believed before the signature over method, target, body
digest, content type, nonce, session, counter and keyset digest held (trust rules, 10). All of that but the digest
is judged before a byte of the body is read: no body is held for a caller that no session's key vouches for.

A proof by MAC is under the key that :meth:`Authenticator.give_mac_key` gave the session, once, on a proof by the
session key. That key is in memory alone, here and in the supervisor, and ends with the session.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from cryptography.hazmat.primitives.asymmetric import ec

from affiant.attestation.records.proof import (
    MAC_KEY_SIZE,
    MAC_PROOF_TYPE,
    MACKey,
    ProofMismatch,
    ProofOfHead,
    ProofReplayed,
    ProofStale,
    RequestHead,
    proven_by,
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
    random_bytes: Callable[[int], bytes]

    def session_of(self, proof: str | None) -> Session:
        """The session that ``proof`` claims; nothing about it is verified yet.

        Raises:
            ``proof.missing``: there is none. JWSMalformed: it is none. ``session.unknown``: no such key or session.
        """
        if proof is None:
            raise NotAuthenticError(
                "no proof of possession", expected="the header Affiant-Proof", code="proof.missing"
            )
        typ, kid = proven_by(proof)
        return self.sessions.of_id(kid) if typ == MAC_PROOF_TYPE else self.sessions.of_key(kid)

    def give_mac_key(self, session: Session) -> bytes:
        """A new key for the session's proofs by MAC: 32 bytes, given once and kept in memory alone.

        Raises:
            ``session.closed``: the session takes nothing any more. ``proof.key_given``: it was given one before.
        """
        session.require_open(now=self.clock().timestamp())
        key = self.random_bytes(MAC_KEY_SIZE)
        session.take_mac_key(MACKey(key, session=session.id))
        return key

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
            key=_key_for(session, proof),
            session=session.id,
            keyset_digest=self.keyset_digest,
            counted=counted,
            now=now,
        )
        if verified.cseq is not None:
            session.window.take(verified.cseq)
        session.last_proof = int(now.timestamp())
        return verified


def _key_for(session: Session, proof: str) -> ec.EllipticCurvePublicKey | MACKey:
    """The session's key of the kind that the proof's type names, and no other.

    Raises:
        ``proof.no_key``: it has none for proofs by MAC.
    """
    if proven_by(proof)[0] != MAC_PROOF_TYPE:
        return session.admitted.statement.receipt_key
    if session.mac_key is None:
        raise NotAuthenticError(
            "the session has no key for proofs by MAC",
            expected="a proof by the session key",
            code="proof.no_key",
        )
    return session.mac_key
