"""Admits sessions: has the evidence verified beside the event loop, takes its nonce, appraises it, records the start.

A nonce says itself when it was made, under a MAC that only this process can make: so nothing is kept of one that is
out, and asking for many of them takes nothing from anyone. Which were used is remembered until they expire; a nonce
counts as used once a verified quote is over it, so this memory cannot be filled without a TD (ADR 0033).

A session exists from the moment its ``session-start`` is durable. An attempt that fails ends in a ``refusal``
that names its reason; nothing of the attempt is kept, except that its nonce is used up if the quote was genuine.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import struct
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from affiant.attestation.encoding.binary_text import EncodingError, b64u, from_b64u
from affiant.attestation.statements.evidence import wrap_endorsements
from affiant.attestation.tdx.tcb.collateral import Collateral
from affiant.attestation.tdx.verify.verify import VerifiedQuote
from affiant.errors import NotFreshError
from affiant.gateway.admission.appraise_session import AdmissionRequest, Appraiser, parse_admission_request
from affiant.gateway.admission.child_starts import ChildStarts
from affiant.gateway.sessions.recorder import Recorded, Recorder, policy_members
from affiant.gateway.sessions.sessions import Admitted, Session, SessionTable
from affiant.gateway.wire.errors import Busy

__all__ = ["NONCE_LIFETIME_S", "Admissions", "Nonces"]

NONCE_LIFETIME_S: Final = 120

_MOST_USED: Final = 1 << 16
"""Far more evidence than can be verified while a nonce is valid."""
_PURPOSE: Final = b"affiant nonce for a session's evidence\0"
_MAC_SIZE: Final = 16


class Nonces:
    """Nonces of 32 bytes: milliseconds since 1970 and random bytes (8 each), and a MAC over both (16).

    The key is made here and dies with the process, and so does the memory of those that were used.
    """

    def __init__(self, *, random_bytes: Callable[[int], bytes], limit: int = _MOST_USED) -> None:
        self._random_bytes = random_bytes
        self._key = random_bytes(32)
        self._limit = limit
        self._used: OrderedDict[str, float] = OrderedDict()

    def make(self, *, now: float) -> str:
        """A fresh nonce: 43 characters."""
        begin = struct.pack(">Q", int(now * 1000)) + self._random_bytes(8)
        return b64u(begin + self._mac(begin))

    def require(self, nonce: str | None, *, now: float) -> str:
        """``nonce``, if it can be used now.

        Raises:
            ``admission.nonce``: not made here, used before, or expired.
        """
        self._forget(now)
        if nonce is None or nonce in self._used or not self._is_current(nonce, now):
            raise NotFreshError(
                "not a nonce that can be used",
                expected=f"one of this gateway's, at most {NONCE_LIFETIME_S} s old, used once",
                code="admission.nonce",
            )
        return nonce

    def take(self, nonce: str | None, *, now: float) -> None:
        """Use ``nonce``, once.

        Raises:
            ``admission.nonce``: as :meth:`require`. Busy: too many were used.
        """
        taken = self.require(nonce, now=now)
        if len(self._used) >= self._limit:
            raise Busy("too many nonces were used", expected=f"at most {self._limit} in {NONCE_LIFETIME_S} s")
        self._used[taken] = now + NONCE_LIFETIME_S

    def _is_current(self, nonce: str, now: float) -> bool:
        try:
            data = from_b64u(nonce, size=32)
        except EncodingError:
            return False
        begin, mac = data[:-_MAC_SIZE], data[-_MAC_SIZE:]
        (made,) = struct.unpack(">Q", begin[:8])
        return hmac.compare_digest(mac, self._mac(begin)) and 0 <= now * 1000 - made < NONCE_LIFETIME_S * 1000

    def _mac(self, begin: bytes) -> bytes:
        return hmac.digest(self._key, _PURPOSE + begin, hashlib.sha256)[:_MAC_SIZE]

    def _forget(self, now: float) -> None:
        while self._used and next(iter(self._used.values())) <= now:
            self._used.popitem(last=False)


@dataclass(frozen=True, slots=True)
class Admissions:
    """The one place where sessions begin.

    Args:
        collateral: gives the collateral in force; may read a file.
        mark: writes what the chain has to say of time, right before a session's start.
        starts: which sessions may be admitted as children of others.
    """

    recorder: Recorder
    sessions: SessionTable
    nonces: Nonces
    appraiser: Appraiser
    collateral: Callable[[], Collateral]
    clock: Callable[[], datetime]
    random_bytes: Callable[[int], bytes]
    session_max_s: int
    mark: Callable[[], None]
    starts: ChildStarts

    def nonce(self) -> str:
        """A fresh nonce for one admission."""
        return self.nonces.make(now=self.clock().timestamp())

    def require_nonce(self, nonce: str | None) -> str:
        """``nonce``, which a request names before its body is read, if it can be used.

        Raises:
            ``admission.nonce``: it cannot.
        """
        return self.nonces.require(nonce, now=self.clock().timestamp())

    async def admit(
        self, body: bytes, nonce: str, *, require_serving: Callable[[], None]
    ) -> Mapping[str, object]:
        """Admit the session that ``body`` (an admission collection) is evidence of; the answer's members.

        Args:
            nonce: what the request names; the evidence must be over it.
            require_serving: raises while the gateway is about to be stopped; asked when the session begins.

        Raises:
            AffiantError: the evidence is refused; see ``appraise_session``.
        """
        self.recorder.require()
        request = parse_admission_request(body)
        if request.statement.nonce != nonce:
            raise NotFreshError(
                "the statement's nonce is not the one that the request names", code="admission.nonce"
            )
        collateral = await asyncio.to_thread(self.collateral)
        verified = await asyncio.to_thread(
            self.appraiser.verify, request, collateral=collateral, now=self.clock()
        )
        self.nonces.take(nonce, now=self.clock().timestamp())
        admitted = await asyncio.to_thread(self._appraise, request, verified, collateral)
        child = self.starts.of(admitted.activation.session, now=self.clock().timestamp())
        above = None if child is None else await asyncio.to_thread(child.require_no_wider, admitted.policy)
        require_serving()  # nothing is awaited from here until the session is in the table
        if child is not None and above is not None:
            child.require_current(above, now=self.clock().timestamp())
        self.sessions.require_new(admitted)
        session = self._begin(admitted, None if child is None else child.parent)
        kept = self._keep_objects(session, request.raw_evidence, collateral)
        self.mark()
        start = self._record_start(session)
        session.supervisor.tell(start.head)  # in the answer, which waits until the start is durable
        await asyncio.gather(start.durable, *kept)
        return {
            "session": session.id,
            "start": start.issued.sdjwt,
            "head": start.head.to_json(),
            "ksd": self.appraiser.keyset_digest,
            "expires": session.expires,
        }

    def _appraise(
        self, request: AdmissionRequest, verified: VerifiedQuote, collateral: Collateral
    ) -> Admitted:
        return self.appraiser.appraise(
            request,
            verified,
            collateral=collateral,
            now=self.clock(),
        )

    def _begin(self, admitted: Admitted, parent: Session | None = None) -> Session:
        now = int(self.clock().timestamp())
        # a record that rests on a result after its end would not be believed
        expires = min(admitted.activation.expires, now + self.session_max_s, admitted.until)
        if parent is not None:
            expires = min(expires, parent.expires)
        session = Session(admitted, started=now, expires=expires, parent=parent)
        self.sessions.add(session)
        self.starts.used(admitted)
        return session

    def _keep_objects(
        self, session: Session, evidence: bytes, collateral: Collateral
    ) -> list[asyncio.Future[object]]:
        admitted = session.admitted
        objects = [
            ("keysets", admitted.statement.raw),
            ("evidence", evidence),
            ("endorsements", wrap_endorsements(collateral.to_bytes())),
            ("results", admitted.ear.encode("ascii")),
            ("policies", admitted.policy.normal_form),
            *(() if admitted.signature is None else (("policies", admitted.signature),)),
        ]
        return [
            self.recorder.keep_object(name, data, session=session.id)  # type: ignore[misc]
            for name, data in objects
        ]

    def _record_start(self, session: Session) -> Recorded:
        admitted = session.admitted
        activation, manifest = admitted.activation, admitted.manifest
        members: dict[str, object] = {
            "pol": policy_members(session, "allow"),
            "att": {"ses": {"ear": admitted.ear_digest, "tier": admitted.tier}},
            "man": {"man": manifest.digest, "act": activation.digest},
            "ini": {"iss": activation.starter["iss"], "method": activation.starter["method"]},
            "iso": admitted.activation.isolation,
            "rfs": manifest.rootfs,
        }
        if activation.input_digest is not None:
            members["inp"] = activation.input_digest
        if activation.release is not None:
            members["rel"] = activation.release
        if activation.task is not None:
            members["tsk"] = {"_sd": list(activation.task)}
        return self.recorder.session_record(
            session,
            "session-start",
            members,
            {"ini": {"sub": activation.starter["sub"]}},
            number=session.next_number(),
        )
