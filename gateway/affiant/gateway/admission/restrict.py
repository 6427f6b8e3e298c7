"""Restricts the profiles of sessions: takes the nonce, has the evidence appraised, changes the session in one step.

Order: everything that can be refused is judged while the session goes on as it is. Then what bundles carry of it is
made durable; then nothing new of the session is begun, and what is under way ends (a little while; then it is given
up, with its record); then, in one turn of the event loop, evidence, result, profile and limits are replaced and what
waits for approval under the old profile expires. So no record of the old profile follows one of the new, and no request
is judged by one profile and recorded under another. A request that was sent before and comes after is judged by the new
profile like any other.

All waiting is bounded. Where the journal does not answer, or requests do not end although they were abandoned, the
profile in force stays: a record of theirs that becomes durable later is of the profile that the session still has.

What is refused changes nothing here; its supervisor ends the session, because its RTMR3 says more than its gateway.
So a session whose restriction was judged and not made, for whatever reason, is not restricted again. Restrictions are
judged one after the other: comparing profiles takes a processor for up to some seconds, which no session gets twice for
nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from affiant.attestation.statements.evidence import wrap_endorsements
from affiant.attestation.tdx.tcb.collateral import Collateral
from affiant.errors import StateError
from affiant.gateway.admission.admit import Admissions
from affiant.gateway.admission.appraise_restriction import RestrictionAppraiser
from affiant.gateway.admission.appraise_session import AdmissionRequest, parse_admission_request
from affiant.gateway.approvals.queue import GatewayApprovals
from affiant.gateway.sessions.sessions import Admitted, Session, session_held
from affiant.gateway.store.journal import DURABLE_WITHIN_S, durable

__all__ = ["Restrictions"]


@dataclass(frozen=True, slots=True)
class Restrictions:
    """The one place where sessions are changed.

    Args:
        grace_s: seconds that requests under way get to end by themselves.
        recorded_s: seconds that those which are abandoned have until their records, and the journal for what is kept.
    """

    admissions: Admissions
    approvals: GatewayApprovals
    grace_s: float
    recorded_s: float = DURABLE_WITHIN_S
    _judging: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(1))

    async def restrict(self, session: Session, body: bytes) -> Mapping[str, object]:
        """Restrict the profile of ``session`` to the one in ``body`` (an admission collection); the answer's members.

        Raises:
            AffiantError: refused, and the session is as it was; see ``appraise_restriction``.
            ``narrowing.unsettled``, JournalUnavailable: the same, for what it would have had to wait for.
        """
        admissions = self.admissions
        admissions.recorder.require()
        async with session.restricting:
            self._require_order(session)
            request = parse_admission_request(body)
            admissions.nonces.take(request.statement.nonce, now=admissions.clock().timestamp())
            collateral = await asyncio.to_thread(admissions.collateral)
            with _once(session):
                admitted = await self._judged(session, request, collateral)
                await self._keep(session, admitted, collateral)
                with _held(session):
                    await self._settle(session)
                    session.require_open(now=admissions.clock().timestamp())
                    session.restrict(admitted)
                    self.approvals.restricted(session)
        return {
            "session": session.id,
            "epoch": admitted.epoch,
            "evd": admitted.evd,
            "result": admitted.ear,
            "ksd": admissions.appraiser.keyset_digest,
        }

    def _require_order(self, session: Session) -> None:
        session.require_open(now=self.admissions.clock().timestamp())
        if session.restriction_failed:
            raise StateError(
                "a restriction of this session failed, so no other is made", code="narrowing.out_of_turn"
            )
        if session.supervisor.epoch != session.admitted.epoch:
            raise StateError(
                "the supervisor has not recorded the previous restriction", code="narrowing.out_of_turn"
            )

    async def _judged(self, session: Session, request: AdmissionRequest, collateral: Collateral) -> Admitted:
        async with self._judging:
            return await asyncio.to_thread(self._appraise, request, session.admitted, collateral)

    def _appraise(self, request: AdmissionRequest, admitted: Admitted, collateral: Collateral) -> Admitted:
        admissions = self.admissions
        return RestrictionAppraiser(admissions.appraiser).appraise(
            request,
            admitted,
            collateral=collateral,
            now=admissions.clock(),
        )

    async def _keep(self, session: Session, admitted: Admitted, collateral: Collateral) -> None:
        """As an admission, but for the keyset: it is the same one, and the evidence holds its new statement."""
        objects = [
            ("evidence", admitted.evidence),
            ("endorsements", wrap_endorsements(collateral.to_bytes())),
            ("results", admitted.ear.encode("ascii")),
            ("policies", admitted.policy.normal_form),
            *(() if admitted.signature is None else (("policies", admitted.signature),)),
        ]
        recorder = self.admissions.recorder
        kept = [recorder.keep_object(name, data, session=session.id) for name, data in objects]
        await durable(*kept, within_s=self.recorded_s)

    async def _settle(self, session: Session) -> None:
        """Let the requests under way end, then give up what is left of them.

        Raises:
            ``narrowing.unsettled``: they do not end: one that was refused meanwhile may wait for a journal that stalls.
        """
        if not await session.idle(within_s=self.grace_s):
            session.give_up()
            if not await session.idle(within_s=self.recorded_s):
                raise StateError(
                    "requests under way do not end", found=session.under_way, code="narrowing.unsettled"
                )


@contextmanager
def _once(session: Session) -> Iterator[None]:
    """Whatever goes wrong from here on, the session's TD is not what is known of it."""
    try:
        yield
    except BaseException:  # raised again
        session.restriction_failed = True
        raise


@contextmanager
def _held(session: Session) -> Iterator[None]:
    session.held = True
    session.end_waits(session_held())  # what has no turn yet is asked again, and judged by the new profile
    try:
        yield
    finally:
        session.held = False
