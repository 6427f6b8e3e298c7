"""Authenticates approvers: a person who reads or decides signs with a key that a profile names.

What waits may hold what is private to the agent's user, so the operator's socket does not show it: an approver's key
is the only way to read it, and only what that key may approve. A proof is taken once.

An identity has no key that a profile could name. It signs one for this gateway (:meth:`Readers.introduce`), which then
reads in its place for an hour, under the trusted roots of those profiles that name the identity and under no other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from affiant.attestation.signatures.approvers.errors import NotAnApprover, ReaderRefused, StatementUnproven
from affiant.attestation.signatures.approvers.identities import NamedIdentities
from affiant.attestation.signatures.approvers.reader_proof import (
    READER_HEADER,
    READER_TOLERANCE_S,
    ReaderProof,
    verify_reader_proof,
)
from affiant.attestation.signatures.approvers.signed_by_identity import (
    SignedReader,
    claimed_identity,
    verify_signed_reader,
)
from affiant.errors import AffiantError, NotAuthenticError
from affiant.gateway.approvals.queue import Approvers, GatewayApprovals
from affiant.gateway.wire.http_request import Scope, header, target_of

__all__ = ["Readers"]

_MAX_SEEN = 1024
"""Proofs of one key within their time: no approver can use up the memory of another."""
_MAX_KEYS = 16
"""Keys of one identity at the same time; another takes the place of the one that ends first."""


@dataclass(frozen=True, slots=True)
class _Introduced:
    """A key of an identity, by its name under each trusted root; ``until`` in seconds since 1970."""

    names: frozenset[str]
    until: int


class Readers:
    """Judges the proofs of approvers.

    Args:
        spki: of the TLS key with which this gateway serves, 43 characters.
        clock: the present time, UTC.
    """

    def __init__(self, approvals: GatewayApprovals, *, spki: str, clock: Callable[[], datetime]) -> None:
        self._approvals = approvals
        self._spki = spki
        self._clock = clock
        self._seen: dict[str, dict[str, int]] = {}
        self._introduced: dict[str, _Introduced] = {}
        self._verifying = asyncio.Semaphore(1)

    def require(self, scope: Scope, body: bytes) -> Approvers:
        """Who sent this request: an approver, by the thumbprint of a key or the names of an identity.

        Raises:
            ``proof.missing``: without a proof. StatementMalformed, ReaderRefused: it does not hold, or was seen before.
            NotAnApprover: no session of this gateway names the key, or its identity.
        """
        now = self._now()
        proof = self._proof(scope, body, now)
        who = {proof.kid, *self._standing(now).get(proof.kid, frozenset())}
        named = frozenset(filter(self._approvals.names, who))
        if not named:
            raise NotAnApprover("nothing at this gateway waits for this key", found=proof.kid)
        self._take(proof, now)
        return named

    async def introduce(self, scope: Scope, body: bytes) -> int:
        """Take the key of this request's proof as an identity's, by the bundle that it sends; the second that ends it.

        Raises:
            ``proof.missing``, StatementMalformed, ReaderRefused: the request's proof, or the bundle, does not hold.
            NotAnApprover: no session of this gateway names the identity. AffiantError: as it is verified.
        """
        now = self._now()
        proof = self._proof(scope, body, now)
        named = self._approvals.identities()  # as many roots as sessions may name: beside the event loop
        async with self._verifying:  # at most one of the process's threads for callers that are not known yet
            found = await asyncio.to_thread(
                self._verified, body.decode("utf-8", "replace"), proof.kid, now, named
            )
        self._take(proof, now)
        one = _Introduced(frozenset(each.name for each in found), min(each.until for each in found))
        self._make_room(one, now)
        self._introduced[proof.kid] = one
        return one.until

    def _make_room(self, one: _Introduced, now: float) -> None:
        """However many keys one person introduces, those of others stay."""
        self._standing(now)
        theirs = [(each.until, kid) for kid, each in self._introduced.items() if each.names & one.names]
        if len(theirs) >= _MAX_KEYS:
            del self._introduced[min(theirs)[1]]

    def _verified(
        self, text: str, kid: str, now: float, every: Iterable[NamedIdentities]
    ) -> list[SignedReader]:
        """The key under every trusted root whose profiles name the identity: each judges for itself."""
        identity = claimed_identity(text)
        found: list[SignedReader] = []
        refusal: AffiantError = NotAnApprover(
            "nothing at this gateway waits for this identity", found=str(identity)[:200]
        )
        for named in every:
            if identity not in named.who:
                continue
            try:
                found.append(
                    verify_signed_reader(
                        text, named, kid=kid, spki=self._spki, now=now, tolerance_s=READER_TOLERANCE_S
                    )
                )
            except AffiantError as error:
                # no signature under another session's root: report what is wrong with it under its own
                if not isinstance(error, StatementUnproven) or isinstance(refusal, NotAnApprover):
                    refusal = error
        if not found:
            raise refusal
        return found

    def _standing(self, now: float) -> Mapping[str, frozenset[str]]:
        self._introduced = {kid: each for kid, each in self._introduced.items() if now < each.until}
        return {kid: each.names for kid, each in self._introduced.items()}

    def _proof(self, scope: Scope, body: bytes, now: float) -> ReaderProof:
        text = header(scope, READER_HEADER)
        if text is None:
            raise NotAuthenticError(
                "no proof of an approver's key", expected=f"the header {READER_HEADER}", code="proof.missing"
            )
        method, target = scope["method"], target_of(scope)
        return verify_reader_proof(text, method, target, body, spki=self._spki, now=now)

    def _take(self, proof: ReaderProof, now: float) -> None:
        """Take a proof once. Only approvers' are kept, so strangers cannot push any out."""
        oldest = now - 2 * READER_TOLERANCE_S
        self._seen = {
            kid: held for kid, held in self._seen.items() if max(held.values(), default=0) >= oldest
        }
        before = self._seen.get(proof.kid, {})
        seen = {jti: iat for jti, iat in before.items() if now - iat <= 2 * READER_TOLERANCE_S}
        self._seen[proof.kid] = seen
        if proof.jti in seen or len(seen) >= _MAX_SEEN:
            raise ReaderRefused("the proof was seen before, or there are too many at once", where="jti")
        seen[proof.jti] = proof.iat

    def _now(self) -> float:
        return self._clock().timestamp()
