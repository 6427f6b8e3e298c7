"""The gateway as one value: what its two faces (``control_plane``, ``inference``) are made from."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from affiant.attestation.encoding.binary_text import from_b64u, sha256_name
from affiant.attestation.statements.gateway_config import GatewayConfig
from affiant.errors import AffiantError
from affiant.gateway.admission.admit import Admissions
from affiant.gateway.admission.closing import Closing
from affiant.gateway.admission.draining import Draining, DrainState
from affiant.gateway.admission.restrict import Restrictions
from affiant.gateway.admission.submissions import Submissions
from affiant.gateway.approvals.queue import GatewayApprovals
from affiant.gateway.approvals.readers import Readers
from affiant.gateway.bundles.bundles import Bundles
from affiant.gateway.config.keyset import Keyset
from affiant.gateway.erasure.erasing import Erasing
from affiant.gateway.log.published_log import PublishedLog
from affiant.gateway.requests.authentication import Authenticator
from affiant.gateway.requests.request_run import RefusalBudget
from affiant.gateway.service.tool_offers import ToolOffers
from affiant.gateway.sessions.recorder import Recorded, Recorder
from affiant.gateway.sessions.sessions import Session, SessionState, SessionTable
from affiant.gateway.upstream.model_routing import Upstreams
from affiant.gateway.wire.bodies import Bodies
from affiant.gateway.wire.connections import Turns
from affiant.gateway.wire.errors import GatewayDraining
from affiant.gateway.wire.errors_http import error_body, status_of
from affiant.steady_clock import ClockStepped

__all__ = ["Service"]

_AT_ONCE = 8
_WAITING = 56


@dataclass(slots=True)
class Service:
    """Everything of one boot that serves requests.

    Args:
        clock: the time that records are dated by, UTC. seconds: a clock that never goes back.
        require_clock: raises while the machine's clock is another than ``clock``.
        bodies: bounds what request bodies hold. refusals: bounds the records of unknown callers.
        approvals: what waits for approval. readers: who may see it.
        drain: empties the gateway before it is stopped. draining: set once it takes nothing at all any more.
    """

    config: GatewayConfig
    keyset: Keyset
    recorder: Recorder
    log: PublishedLog
    sessions: SessionTable
    authenticator: Authenticator
    admissions: Admissions
    submissions: Submissions
    closing: Closing
    drain: Draining
    bundles: Bundles
    upstreams: Upstreams
    bodies: Bodies
    refusals: RefusalBudget
    erasing: Erasing
    approvals: GatewayApprovals
    restrictions: Restrictions
    readers: Readers
    clock: Callable[[], datetime]
    seconds: Callable[[], float]
    require_clock: Callable[[], None]
    tools: ToolOffers | None = None
    """The servers of tools, if the configuration names any."""
    draining: bool = False
    quoting: Turns = field(default_factory=lambda: Turns(_AT_ONCE, _WAITING))
    """Who asks for evidence of this gateway."""
    appraising: Turns = field(default_factory=lambda: Turns(_AT_ONCE, _WAITING))
    """Who asks to be admitted."""

    @property
    def ready(self) -> bool:
        """Whether new sessions and requests are taken."""
        try:
            self.require_clock()
        except ClockStepped:
            return False
        return self.recorder.healthy and self.log.keeps_up and self.serving

    @property
    def serving(self) -> bool:
        """Whether the gateway is not about to be stopped."""
        return self.drain.state is DrainState.SERVING and not self.draining

    def require_serving(self) -> None:
        """Return if the gateway takes new sessions, as far as it is not about to be stopped.

        Raises:
            GatewayDraining: it is.
        """
        if self.draining:
            raise GatewayDraining("the gateway is being stopped")
        self.drain.require_serving()

    async def attest(self, nonce: str) -> bytes:
        """Fresh evidence over a caller's nonce (43 characters).

        Raises:
            EncodingError: not 32 bytes.
        """
        from_b64u(nonce, size=32)
        return await asyncio.to_thread(self.keyset.evidence_for, nonce)

    async def admit(self, body: bytes, nonce: str) -> Mapping[str, object]:
        """Admit a session; see :class:`~.admissions.Admissions`."""
        self.require_serving()
        self.require_clock()
        self.log.require()
        await self.log.require_witnessed()
        return await self.admissions.admit(body, nonce, require_serving=self.require_serving)

    async def restrict(self, session: Session, body: bytes) -> Mapping[str, object]:
        """Restrict a session's profile; see :class:`~.restrict.Restrictions`."""
        if self.draining:
            raise GatewayDraining("the gateway is being stopped")
        self.require_clock()
        return await self.restrictions.restrict(session, body)

    def record_refusal(self, error: AffiantError, *, path: str, body: bytes) -> Recorded:
        """Sign that an attempt to be admitted was refused.

        Raises:
            Busy: too many were, just now. JournalUnavailable: it cannot be made durable.
        """
        self.recorder.require()
        self.refusals.take()
        return self.recorder.record("refusal", *_refused(error, path=path, body=body))

    def record_rejected_restriction(
        self, session: Session, error: AffiantError, *, path: str, body: bytes
    ) -> Recorded | None:
        """Sign that a restriction was rejected; nothing where the session has ended meanwhile.

        Raises:
            JournalUnavailable: it cannot be made durable.
        """
        if session.state is not SessionState.OPEN:
            return None
        members, hidden = _refused(error, path=path, body=body)
        return self.recorder.session_record(session, "refusal", members, hidden, number=None)

    async def overview(self) -> bytes:
        """The sessions of this boot, for the operator: no names, only ids and states. JSON."""
        sessions = [
            {"session": s.id, "state": s.state.value, "started": s.started, "expires": s.expires}
            for s in self.sessions
        ]
        overview = {
            "sessions": sessions,
            "drain": self.drain.report(),
            "records": self.recorder.count,
            "log": self.log.report(),
            "upstreams": self.upstreams.report(),
        }
        return json.dumps(overview).encode("ascii")


def _refused(
    error: AffiantError, *, path: str, body: bytes
) -> tuple[Mapping[str, object], Mapping[str, Mapping[str, object]]]:
    """The clear and the hidden members of the refusal of what a session is, or is to become."""
    answer = error_body(error)
    members = {
        "rsn": error.code,
        "act": {"typ": "session", "end": "refused"},
        "req": {"m": "POST", "p": path},
        "res": {"st": status_of(error), "end": "complete"},
    }
    hidden = {
        "req": {"dig": sha256_name(body), "len": len(body)},
        "res": {"dig": sha256_name(answer), "len": len(answer)},
    }
    return members, hidden
