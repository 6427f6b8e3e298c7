"""The epochs of a session's profile: which one is in force at which record of either signer.

Epoch 0 is the profile of the manifest. Each ``policy`` record of the supervisor begins the next, in both chains: the
supervisor's from that record on, the gateway's from where it acted on it, at the latest where it had that record.
Whether a profile is narrower than the one before is not judged here: the measured supervisor and gateway compared them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from affiant.attestation.records.receipt import VerifiedReceipt
from affiant.attestation.statements.restriction import Narrowing, binding_of, demand_next, logged_narrowings
from affiant.attestation.tdx.event_log.eventlog import parse_event_log
from affiant.attestation.verdict.errors import EvidenceUnbound
from affiant.attestation.verifier.case.case import Session
from affiant.errors import AffiantError, NotAllowedError

__all__ = ["Epoch", "PolicyUnbound", "begun_by", "demand_epochs", "epochs_of", "narrowings_of", "received"]


class PolicyUnbound(EvidenceUnbound):
    """The session's MRCONFIGID, manifest, profile and records do not bind each other."""

    code = "pol.unbound"


class Epoch(NamedTuple):
    """What records of one epoch name as ``pol``: the members ``dig``, ``fil``, ``bind`` and ``epoch``."""

    profile_digest: str
    file_digest: str
    bind: str
    number: int


def epochs_of(session: Session) -> tuple[Epoch, ...]:
    """Every epoch of the session, as far as ``Session.narrowings`` are known."""
    manifest = session.manifest
    assert manifest is not None
    first = Epoch(manifest.profile_digest, manifest.file_digest, binding_of(0), 0)
    later = (
        Epoch(each.profile_digest, each.file_digest, binding_of(each.epoch), each.epoch)
        for each in session.narrowings
    )
    return first, *later


def narrowings_of(session: Session) -> tuple[Narrowing, ...]:
    """What the supervisor's ``policy`` records tell; and what the event log does of a last one that it did not come to
    record.

    Raises:
        ``narrowing.event``, ``narrowing.malformed``, ``narrowing.order``: not one after the other, or not of the
            profile in force.
    """
    assert session.manifest is not None
    first = session.manifest.profile_digest
    told: list[Narrowing] = []
    for record in _policy_records(session):
        narrowing = _told_by(record)
        try:
            demand_next(narrowing, told, first=first)
        except AffiantError as error:
            error.where = record.jti
            raise
        told.append(narrowing)
    last = session.supervisor.quoted[-1]
    if last.recorded:
        return tuple(told)
    logged = logged_narrowings(parse_event_log(last.evidence.eventlog), first=first)
    if logged[:-1] != tuple(told):
        raise NotAllowedError(
            "the event log has other restrictions than the records", where=session.id, code="narrowing.order"
        )
    return logged


def _told_by(record: VerifiedReceipt) -> Narrowing:
    policy = record.member("pol")
    assert isinstance(policy, dict)
    return Narrowing(policy["epoch"], policy["dig"], policy["fil"], old=str(record.member("old")))


def _policy_records(session: Session) -> list[VerifiedReceipt]:
    records = [record for record in session.supervisor.records if record.kind == "policy"]
    return sorted(records, key=lambda record: (record.chn, record.seq))


def begun_by(session: Session) -> Mapping[str, list[int]]:
    """Chain of the supervisor -> numbers of its ``policy`` records, in order."""
    begun: dict[str, list[int]] = {}
    for record in _policy_records(session):
        begun.setdefault(record.chn, []).append(record.seq)
    return begun


def demand_epochs(session: Session) -> None:
    """Each decision of either signer names the profile of its epoch, and no chain goes back to an earlier one.

    Raises:
        PolicyUnbound: one does not.
    """
    epochs = epochs_of(session)
    for record, least, most in (*_of_supervisor(session), *_of_gateway(session, last=len(epochs) - 1)):
        policy = record.member("pol")
        assert isinstance(policy, dict)
        if not least <= policy["epoch"] <= most:
            raise PolicyUnbound(
                "a record of another epoch than is in force",
                expected=str(least) if least == most else f"{least} to {most}",
                found=policy["epoch"],
                where=record.jti,
            )
        if (policy["dig"], policy["fil"], policy["bind"]) != epochs[policy["epoch"]][:3]:
            raise PolicyUnbound("a record judged under another profile or binding", where=record.jti)


def _of_supervisor(session: Session) -> Iterator[tuple[VerifiedReceipt, int, int]]:
    """Records with ``pol``, and the epoch: as many as ``policy`` records until it."""
    epoch = 0
    for record in sorted(session.supervisor.records, key=lambda each: (each.chn, each.seq)):
        epoch += record.kind == "policy"
        if record.member("pol") is not None:
            yield record, epoch, epoch


def _of_gateway(session: Session, *, last: int) -> Iterator[tuple[VerifiedReceipt, int, int]]:
    """The same of the gateway: not before the record before it, nor before what it had received of the supervisor; what
    it admitted is epoch 0."""
    begun, least = begun_by(session), 0
    for record in session.gateway:
        least = max(least, received(record, begun))
        policy = record.member("pol")
        if isinstance(policy, dict):
            yield record, least, 0 if record.kind == "session-start" else last
            least = max(least, policy["epoch"])


def received(record: VerifiedReceipt, begun: Mapping[str, list[int]]) -> int:
    """How many of the supervisor's ``policy`` records a gateway record follows, by its ``peer``."""
    if not begun:  # of most sessions
        return 0
    chn, seq = record.member("peer", "chn"), record.member("peer", "seq")
    return bisect_right(begun.get(str(chn), []), seq) if isinstance(seq, int) else 0
