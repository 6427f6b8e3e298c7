"""The session's profile in force, and how it is restricted while the session runs: never wider, and never by halves.

In order; what is refused up to step 4 leaves everything as it was:

1. the request is read: the normal form of the new profile, the digest of its file, maybe a signature;
2. the two profiles are compared, exactly: the new one is narrower, in nothing that a running sandbox cannot take; it is
   signed where the gateway's configuration asks for that; the session has not been restricted too often;
3. new requests of the agent wait (``gate``), those under way end, or are cut after a while;
4. the gateway gives a nonce;
5. the broker releases what is withdrawn, RTMR3 is extended by the restriction, and a quote is taken over the nonce;
6. the gateway appraises that, compares the profiles itself, and goes by the new one from then on; its signed result
   must be of this evidence;
7. the ``policy`` record is signed, the first that names the new evidence, and acknowledged;
8. the supervisor itself goes by the new profile, and what waited goes on.

Whatever fails from step 5 on ends the session: the TD says that it was restricted, and it is not known which side goes
by what.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from affiant.attestation.statements.ear import verify_ear
from affiant.attestation.statements.evidence import Admission, evidence_digest, wrap_admission, wrap_evidence
from affiant.attestation.tdx.event_log.eventlog import EventLog, LoggedEvent
from affiant.errors import AffiantError, NotAuthenticError, StateError
from affiant.policy.decision.compiled import CompiledPolicy
from affiant.sandbox.egress.forward import Forwarder
from affiant.sandbox.egress.proxy import EgressProxy
from affiant.sandbox.egress.records_of_egress import PolicyFacts
from affiant.sandbox.supervisor.gateway.admission import make_evidence
from affiant.sandbox.supervisor.launch.errors import AdmissionError, RestrictionError
from affiant.sandbox.supervisor.launch.grants import kept_grants
from affiant.sandbox.supervisor.launch.restriction_request import RestrictionRequest, RestrictionResult
from affiant.sandbox.supervisor.records.records import SessionRecords
from affiant.secrets.broker.client.messages import KeptGrant

if TYPE_CHECKING:
    from affiant.sandbox.supervisor.attesting import Admitted
    from affiant.sandbox.supervisor.records.decision_log import SessionDecisions
    from affiant.sandbox.supervisor.restriction_plan import PlannedRestriction
    from affiant.sandbox.supervisor.starting import Started, Surroundings

__all__ = ["ProfileRestrictor", "RestrictableSession", "RestrictionTimes"]


@dataclass(frozen=True, slots=True)
class RestrictionTimes:
    """Seconds. ``drain``: for requests under way to end by themselves; ``cut``: for those that are cut to have their
    record; ``nonce``: for the gateway to give one; ``commit``: for all from step 5 on."""

    drain: float = 5.0
    cut: float = 3.0
    nonce: float = 10.0
    commit: float = 45.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RestrictableSession:
    """Everything of an open session that a restriction needs or changes.

    Args:
        placeholders: name -> its variables, as a command will get them; those that are withdrawn are taken out.
    """

    around: Surroundings
    started: Started
    admitted: Admitted
    records: SessionRecords
    proxy: EgressProxy
    decisions: SessionDecisions | None
    placeholders: MutableMapping[str, Mapping[str, str]]


class ProfileRestrictor:
    """Restricts one session's profile, one request after the other."""

    def __init__(self, session: RestrictableSession, *, times: RestrictionTimes | None = None) -> None:
        self._session = session
        self._times = times or RestrictionTimes()
        self._turn = asyncio.Lock()
        self._log = session.admitted.log
        self._epoch = 0
        self.policy = session.started.launch.policy
        """The profile in force."""
        self.changed = asyncio.Event()
        """Set when :attr:`policy` changes, and then another one."""
        self.committing = False
        """Whether a restriction is at a step that cannot be taken back."""

    async def restrict(self, request: RestrictionRequest) -> RestrictionResult:
        """Restrict the profile, or find that it allows the same.

        Raises:
            RestrictionError: it began and was not completed: the session must be ended. The gate stays held.
            ``session.narrowing_busy``: requests under way do not end.
            AffiantError: as the steps say; everything is as it was.
        """
        async with self._turn:
            if self.committing:
                raise StateError(
                    "a restriction failed, and the session is being ended", code="session.narrowing_busy"
                )
            planned = await asyncio.to_thread(self._plan, request)
            if planned is None:
                return RestrictionResult(self._epoch, self.policy.digest, changed=False)
            nonce = await self._held()
            self.committing = True
            try:
                async with asyncio.timeout(self._times.commit):
                    await self._commit(planned, nonce)
            except Exception as error:  # a defect of ours among them: half of it was done
                raise _failed(error) from error
            self.committing = False
            self._session.proxy.gate.release()
            return RestrictionResult(self._epoch, self.policy.digest, changed=True)

    def _plan(self, request: RestrictionRequest) -> PlannedRestriction | None:
        """Steps 1 and 2."""
        from affiant.sandbox.supervisor.restriction_plan import plan_restriction  # noqa: PLC0415 - only where one is asked for

        session = self._session
        return plan_restriction(
            request,
            now=self.policy,
            epoch=self._epoch + 1,
            signers=session.started.pins.config.profile_signers,
            at=session.around.clock(),
        )

    # -- 3 and 4 -------------------------------------------------------------------------------------------------------

    async def _held(self) -> str:
        """Hold the gate while nothing passes; the gateway's nonce."""
        session, times = self._session, self._times
        gate = session.proxy.gate
        gate.hold()
        try:
            if not await gate.empty(within_s=times.drain) and not await session.proxy.cut(within_s=times.cut):
                raise StateError(
                    "requests under way do not end", hint="Ask again", code="session.narrowing_busy"
                )
            await session.records.settled(times.cut)  # the gateway knows what they did, if that can be had
            async with asyncio.timeout(times.nonce):
                return await session.admitted.gateway.nonce()
        except TimeoutError as error:
            gate.release()
            raise StateError(
                "the gateway gives no nonce in time", hint="Ask again", code="session.narrowing_busy"
            ) from error
        except BaseException:  # whatever happened, nothing was changed; raised again
            gate.release()
            raise

    # -- 5 to 8 --------------------------------------------------------------------------------------------------------

    async def _commit(self, planned: PlannedRestriction, nonce: str) -> None:
        session = self._session
        kept = kept_grants(planned.policy, session.proxy.forwarder.table)
        forwarder = _restricted(session.proxy.forwarder, planned.policy, kept)
        await session.started.broker.restrict(kept)
        event = planned.restriction.event
        await asyncio.to_thread(session.around.td.extend, event)
        self._log = EventLog((*self._log.entries, LoggedEvent(3, event)))
        evidence = wrap_evidence(
            await asyncio.to_thread(
                make_evidence,
                session.around.td,
                session.started.launch,
                self._log,
                session.admitted.identity.signer,
                gks=session.admitted.appraised.statement.keyset_digest,
                chn=session.admitted.identity.chn,
                nonce=nonce,
            )
        )
        admission = Admission(evidence, planned.policy.normal_form, planned.signature)
        self._require_of(evidence, await session.admitted.gateway.restrict(wrap_admission(admission)))
        facts = PolicyFacts(
            session.started.launch.facts.name,
            planned.policy.digest,
            planned.restriction.file_digest,
            bind="rtmr3",
            epoch=planned.restriction.epoch,
        )
        await self._record(planned, facts, evidence_digest(evidence))
        self._follow(planned, facts, forwarder)

    def _require_of(self, evidence: bytes, result: str) -> None:
        """The gateway's word is of this evidence, signed by the key that its quote binds."""
        key = self._session.admitted.appraised.statement.ear_key
        assert key is not None
        found = verify_ear(result, key)
        if (found.peer, found.evd) != ("session", evidence_digest(evidence)):
            raise NotAuthenticError(
                "the gateway's result is not of this evidence",
                found=found.evd,
                code="session.admission_mismatch",
            )

    async def _record(self, planned: PlannedRestriction, facts: PolicyFacts, evd: str) -> None:
        members = {"pol": facts.pol("allow"), "old": planned.restriction.old, "dif": planned.difference}
        hidden = {"pol": {"id": facts.name, "rules": []}}
        await self._session.records.record("policy", members, hidden, acknowledged=True, evidence=evd)

    def _follow(self, planned: PlannedRestriction, facts: PolicyFacts, forwarder: Forwarder) -> None:
        """All that decides here goes by the new profile, in one turn of the event loop."""
        session, policy = self._session, planned.policy
        session.proxy.restrict(forwarder)
        session.proxy.forwarder.records.follow(facts)
        if session.decisions is not None:
            session.decisions.follow(policy.digest)
        if forwarder.approvals is not None:
            forwarder.approvals.restrict(policy=policy.digest, approval=policy.policy.approval)
        for name in set(session.placeholders) - {grant.name for grant in policy.secret_grants()}:
            del session.placeholders[name]
        self.policy, self._epoch = policy, facts.epoch
        changed, self.changed = self.changed, asyncio.Event()
        changed.set()


def _restricted(forwarder: Forwarder, policy: CompiledPolicy, kept: Sequence[KeptGrant]) -> Forwarder:
    """What requests will be judged by. Nothing is on its way, so what was counted until now is all there is."""
    return replace(
        forwarder,
        policy=policy,
        table=forwarder.table.narrowed_to({grant.name: grant.endpoints for grant in kept}),
        meters=forwarder.meters.restricted(policy),
    )


def _failed(error: BaseException) -> RestrictionError:
    code = error.code if isinstance(error, AffiantError) else type(error).__name__
    if isinstance(error, AdmissionError):
        code = error.gateway_code
    return RestrictionError(
        "the profile could not be restricted once that had begun, so the session is ended", found=code
    )
