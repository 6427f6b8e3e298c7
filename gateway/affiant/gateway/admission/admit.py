"""Admits sessions: takes the nonce, has the evidence appraised beside the event loop, records the start.

A session exists from the moment its ``session-start`` is durable. An attempt that fails ends in a ``refusal``
that names its reason; nothing of the attempt is kept, except that its nonce is used up.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from affiant.attestation.encoding.binary_text import b64u
from affiant.attestation.statements.evidence import wrap_endorsements
from affiant.attestation.tdx.tcb.collateral import Collateral
from affiant.errors import NotFreshError
from affiant.gateway.admission.appraise_session import AdmissionRequest, Appraiser, parse_admission_request
from affiant.gateway.sessions.recorder import Recorded, Recorder, policy_members
from affiant.gateway.sessions.sessions import Admitted, Session, SessionTable
from affiant.gateway.wire.errors import Busy

__all__ = ["NONCE_LIFETIME_S", "Admissions", "Nonces"]

NONCE_LIFETIME_S: Final = 120
_MOST_NONCES: Final = 1024


class Nonces:
    """The nonces that are out, in memory: each is used once, and gone after two minutes."""

    def __init__(self, *, random_bytes: Callable[[int], bytes], limit: int = _MOST_NONCES) -> None:
        self._random_bytes = random_bytes
        self._limit = limit
        self._expiry: OrderedDict[str, float] = OrderedDict()

    def make(self, *, now: float) -> str:
        """A fresh nonce: 32 random bytes as 43 characters.

        Raises:
            Busy: too many are out.
        """
        self._forget(now)
        if len(self._expiry) >= self._limit:
            raise Busy("too many nonces are out", expected=f"at most {self._limit} in {NONCE_LIFETIME_S} s")
        nonce = b64u(self._random_bytes(32))
        self._expiry[nonce] = now + NONCE_LIFETIME_S
        return nonce

    def take(self, nonce: str | None, *, now: float) -> None:
        """Use ``nonce``, once.

        Raises:
            ``admission.nonce``: not made here, used before, or expired.
        """
        self._forget(now)
        if nonce is None or self._expiry.pop(nonce, None) is None:
            raise NotFreshError(
                "the statement's nonce is not one that is out",
                expected=f"one of this gateway's, at most {NONCE_LIFETIME_S} s old, used once",
                code="admission.nonce",
            )

    def _forget(self, now: float) -> None:
        while self._expiry and next(iter(self._expiry.values())) <= now:
            self._expiry.popitem(last=False)


@dataclass(frozen=True, slots=True)
class Admissions:
    """The one place where sessions begin.

    Args:
        collateral: gives the collateral in force; may read a file.
        appraising: bounds how many appraisals run at once.
        mark: writes what the chain has to say of time, right before a session's start.
    """

    recorder: Recorder
    sessions: SessionTable
    nonces: Nonces
    appraiser: Appraiser
    collateral: Callable[[], Collateral]
    clock: Callable[[], datetime]
    random_bytes: Callable[[int], bytes]
    session_max_s: int
    appraising: asyncio.Semaphore
    mark: Callable[[], None]

    def nonce(self) -> str:
        """A fresh nonce for one admission."""
        return self.nonces.make(now=self.clock().timestamp())

    async def admit(self, body: bytes) -> Mapping[str, object]:
        """Admit the session that ``body`` (an admission collection) is evidence of; the answer's members.

        Raises:
            AffiantError: the evidence is refused; see ``appraise_session``.
        """
        self.recorder.require()
        if self.appraising.locked():
            raise Busy("too many admissions at once")
        async with self.appraising:
            request = parse_admission_request(body)
            self.nonces.take(request.statement.nonce, now=self.clock().timestamp())
            collateral = await asyncio.to_thread(self.collateral)
            admitted = await asyncio.to_thread(self._appraise, request, collateral)
        self.sessions.require_new(admitted)
        session = self._begin(admitted)
        kept = self._keep_objects(session, collateral)
        self.mark()
        start = self._record_start(session)
        await asyncio.gather(start.durable, *kept)
        return {
            "session": session.id,
            "start": start.issued.sdjwt,
            "head": start.head.to_json(),
            "ksd": self.appraiser.keyset_digest,
            "expires": session.expires,
        }

    def _appraise(self, request: AdmissionRequest, collateral: Collateral) -> Admitted:
        return self.appraiser.appraise(
            request,
            collateral=collateral,
            now=self.clock(),
            random_text=lambda: b64u(self.random_bytes(16)),
        )

    def _begin(self, admitted: Admitted) -> Session:
        now = int(self.clock().timestamp())
        expires = min(admitted.activation.expires, now + self.session_max_s)
        session = Session(admitted, started=now, expires=expires)
        self.sessions.add(session)
        return session

    def _keep_objects(self, session: Session, collateral: Collateral) -> list[asyncio.Future[object]]:
        admitted = session.admitted
        objects = [
            ("keysets", admitted.statement.raw),
            ("evidence", admitted.evidence),
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
            "iso": admitted.isolation,
            "rfs": manifest.rootfs,
        }
        if activation.input_digest is not None:
            members["inp"] = activation.input_digest
        return self.recorder.session_record(
            session,
            "session-start",
            members,
            {"ini": {"sub": activation.starter["sub"]}},
            number=session.next_number(),
        )
