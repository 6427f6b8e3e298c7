"""What one bundle leaves behind when it was judged: digests and numbers that another bundle can contradict.

Several bundles are held against each other by these alone (``across``), so that none of them stays in memory. Only
records whose signature holds are traced, and only checkpoints that a log has signed: what two bundles disagree about
was then said twice by one signer, or by two that claim the same name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from affiant.attestation.tlog.note import parse_note
from affiant.attestation.verifier.case.case import Case
from affiant.attestation.verifier.case.signer import Signer, signer_of
from affiant.attestation.verifier.checks.anchor_checks import of_this_log
from affiant.attestation.verifier.verify_bundle import Examined
from affiant.errors import AffiantError

__all__ = [
    "NOTHING",
    "Trace",
    "TracedKeyset",
    "TracedRecord",
    "TracedRoot",
    "keysets_of",
    "left_by",
    "trace_of",
]


class TracedRecord(NamedTuple):
    """One authentic record.

    Args:
        rh: receipt hash, 43 characters. prev: that of the record before it on its chain.
        key: thumbprint of the key that signed it.
        session: the session that it is about, if any. close: ``why`` of a ``session-close``.
        gap: the chain that a ``gap`` record names.
        place: origin of a log and index of the record's leaf in it, where that was proven.
    """

    rh: str
    prev: str
    key: str
    chn: str
    seq: int
    jti: str
    kind: str
    role: str
    session: str | None = None
    close: str | None = None
    gap: str | None = None
    place: tuple[str, int] | None = None


class TracedKeyset(NamedTuple):
    """One name that a keyset claims: a key, a chain or a session."""

    what: str
    name: str
    keyset: str
    """The keyset digest."""


class TracedRoot(NamedTuple):
    """One checkpoint that its log has signed."""

    origin: str
    size: int
    root: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """One bundle's.

    Args:
        records: read once.
        judged: the sessions that the bundle's verdict is about.
        anchored: checkpoints that anchors are over, signed by the log; whether the anchors hold is not asked.
        authentic, logged, witnessed: whether all its records are; else it can hide what it contradicts. The operator's
            own witness does not count.
    """

    records: Iterable[TracedRecord] = ()
    keysets: Iterable[TracedKeyset] = ()
    roots: Iterable[TracedRoot] = ()
    anchored: Iterable[TracedRoot] = ()
    judged: frozenset[str] = frozenset()
    authentic: bool = False
    logged: bool = False
    witnessed: bool = False


_AUTHENTIC: Final = frozenset({"fmt.keysets", "sig.receipts"})
_LOGGED: Final = frozenset({"log.inclusion"})
_WITNESSED: Final = frozenset({"wit.quorum"})

NOTHING: Final = Trace()
"""Of a bundle that cannot be read."""


def left_by(examined: Examined) -> Trace:
    """What a bundle leaves behind; a bundle that cannot be read leaves nothing."""
    if examined.trace is not None:
        return examined.trace
    return NOTHING if examined.case is None else trace_of(examined.case)


def trace_of(case: Case) -> Trace:
    """The trace of a case that was examined; it holds the case until it was read."""
    return Trace(
        records=_records(case),
        keysets=keysets_of(signer_of(party.statement) for party in case.parties),
        roots=_roots(case),
        anchored=_anchored(case),
        judged=frozenset(session.id for session in case.sessions),
        authentic=case.established >= _AUTHENTIC,
        logged=case.established >= _LOGGED,
        witnessed=case.established >= _WITNESSED
        and all(seen.independent for seen in case.witnessed.values()),
    )


def _records(case: Case) -> Iterator[TracedRecord]:
    for record in case.records:
        session, gap = record.member("agt", "ses"), record.member("lst", "chn")
        close = record.member("why") if record.kind == "session-close" else None
        yield TracedRecord(
            rh=record.rh,
            prev=record.prev,
            key=record.text.split.kid,
            chn=record.chn,
            seq=record.seq,
            jti=record.jti,
            kind=record.kind,
            role=record.role,
            session=session if isinstance(session, str) else None,
            close=close if isinstance(close, str) else None,
            gap=gap if isinstance(gap, str) else None,
            place=case.places.get(record.rh),
        )


def keysets_of(signers: Iterable[Signer]) -> Iterator[TracedKeyset]:
    """Every name that one of them claims."""
    for signer in signers:
        yield TracedKeyset("key", signer.kid, signer.keyset)
        for chn in sorted(signer.chn):
            yield TracedKeyset("chain", chn, signer.keyset)
        if signer.role == "session":
            yield TracedKeyset("session", signer.iss, signer.keyset)


def _roots(case: Case) -> Iterator[TracedRoot]:
    seen = [witnessed.checkpoint for witnessed in case.witnessed.values()]
    for checkpoint in (*case.checkpoints.values(), *seen):
        yield TracedRoot(checkpoint.origin, checkpoint.size, checkpoint.root)


def _anchored(case: Case) -> Iterator[TracedRoot]:
    """Whoever made the anchors: that the log has signed two trees needs nobody else's word."""
    if not case.established >= _LOGGED:
        return
    anchors = case.bundle.anchors
    names = {each.checkpoint for each in anchors.tsr} | {each.checkpoint for each in anchors.sigstore}
    for name in sorted(names):
        try:
            checkpoint = of_this_log(case, parse_note(case.bundle.checkpoints.get(name, b"")))
        except AffiantError:
            continue  # nobody's word, or no note: the checks of anchors say so where they are asked
        yield TracedRoot(checkpoint.origin, checkpoint.size, checkpoint.root)
