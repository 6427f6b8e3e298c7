"""A supervisor's records: verified, in their place, durable, and only then acknowledged.

The gateway signs nothing about them but what its next record of the session says (``peer``) and the close
(``sup``). A record is taken if it is signed by the session's key, of a kind that a session signs, and continues
the session's chain exactly; the same record again gets the same answer.

Its records name one evidence until a record of kind ``policy``, which is taken once for each restriction that this
gateway has made, says exactly what was restricted, and names the evidence of that from itself on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from affiant.attestation.encoding.binary_text import b64u
from affiant.attestation.records.head import Head
from affiant.attestation.records.receipt import VerifiedReceipt, parse_receipt, verify_receipt
from affiant.attestation.records.sealed_disclosures import apart
from affiant.errors import MalformedError, StateError
from affiant.gateway.sessions.recorder import Recorder, policy_members
from affiant.gateway.sessions.sessions import Session, SessionState
from affiant.gateway.wire.errors import RequestMalformed

__all__ = ["MAX_OPENINGS", "Submissions", "check_place"]

MAX_OPENINGS: Final = 16 * 1024
"""Characters of the sealed openings of one record."""


def check_place(record: VerifiedReceipt, session: Session) -> None:
    """Return if ``record`` is what comes next in its session.

    Raises:
        ``record.out_of_place``: another chain, number or link, another session's ``agt``, an unknown ``peer``, a
            beginning that is no ``boot``, a restriction that was not made, or anything after ``end``.
    """
    chain = session.supervisor
    if chain.ended:
        raise _out_of_place("a record after the end of its chain", where="kind")
    evd = session.admitted.evd if record.kind == "policy" else chain.evd
    expected: dict[str, tuple[object, object]] = {
        "chn": (record.chn, chain.chn),
        "seq": (record.seq, chain.seq),
        "prev": (record.prev, chain.prev),
        "evd": (record.member("evd"), evd),
    }
    if record.kind == "policy":
        expected |= _expected_restriction(record, session)
    if chain.seq == 0:
        expected |= {
            "kind": (record.kind, "boot"),
            "ks": (record.member("ks"), session.admitted.statement.keyset_digest),
            "gks": (record.member("gks"), session.admitted.statement.gks),
        }
    elif record.kind == "boot":
        raise _out_of_place("a second boot in one chain", where="kind")
    if record.member("agt") is not None:
        expected |= {
            "agt.ses": (record.member("agt", "ses"), session.id),
            "agt.evd": (record.member("agt", "evd"), evd),
            "agt.key": (record.member("agt", "key"), session.admitted.statement.receipt_kid),
            "agt.seq": (record.member("agt", "seq"), None),
        }
    for name, (found, wanted) in expected.items():
        if found != wanted:
            raise _out_of_place("not what comes next", expected=wanted, found=found, where=name)
    _check_peer(record, session)


def _expected_restriction(record: VerifiedReceipt, session: Session) -> Mapping[str, tuple[object, object]]:
    """What a record of a restriction must say: of the one that was made last and has no record yet."""
    admitted = session.admitted
    if session.supervisor.epoch + 1 != admitted.epoch:
        raise _out_of_place("a restriction that was not made, or was recorded before", where="kind")
    return {
        "old": (record.member("old"), admitted.restrictions[-1].old),
        "dif": (record.member("dif"), admitted.difference),
        **{
            f"pol.{name}": (record.member("pol", name), value)
            for name, value in policy_members(session, "allow").items()
        },
    }


def _check_peer(record: VerifiedReceipt, session: Session) -> None:
    peer = record.member("peer")
    if peer is None:
        return
    head = session.signed(str(record.member("peer", "rh")))
    if head is None or head.to_json() != peer:
        raise _out_of_place("the record names another that this gateway did not sign", where="peer")
    if head.seq < session.supervisor.peer_seq:
        raise _out_of_place("the record names an earlier one than the record before it", where="peer")


def _out_of_place(what: str, *, where: str, expected: object = None, found: object = None) -> MalformedError:
    return MalformedError(what, where=where, expected=expected, found=found, code="record.out_of_place")


@dataclass(frozen=True, slots=True)
class Submissions:
    """Takes the records of all sessions. ``observe``: gets each record once it is taken."""

    recorder: Recorder
    observe: Callable[[Session, VerifiedReceipt], None] = lambda _session, _record: None

    async def take(self, session: Session, jws: str, *, sealed: str) -> Mapping[str, object]:
        """Take one record; the acknowledgement.

        Args:
            jws: without disclosures.
            sealed: its disclosures, sealed for the person who started the session, with the key to them; empty if there
                are none.

        Raises:
            ``session.closed``: the session has ended.
            ``record.out_of_place``, ``request.too_large``, RequestMalformed: as named.
            AffiantError: what verification of the record refuses with.
            JournalUnavailable: it is not durable, hence not acknowledged.
        """
        if len(sealed) > MAX_OPENINGS:
            raise MalformedError(
                "the sealed disclosures are too large",
                expected=f"at most {MAX_OPENINGS} characters",
                code="request.too_large",
            )
        text = parse_receipt(jws + "~")
        if text.disclosures:  # the journal is the operator's, and the leaf is of the JWS alone
            raise RequestMalformed(
                "a record with disclosures",
                expected="the JWS alone; what it hides, sealed in Affiant-Openings",
            )
        record = verify_receipt(text, session.admitted.statement)
        openings = dict(apart(jws, sealed)) if sealed else {}
        async with session.submitting:
            if record.rh not in session.supervisor.hashes:
                if session.state is SessionState.CLOSED:
                    raise StateError(
                        "the session has ended", found=session.state.value, code="session.closed"
                    )
                check_place(record, session)
                key = _require_same_key(session, openings, record.rh)
                head = session.head  # now: what is signed later would be named before it is durable
                await self.recorder.keep_peer(session, record, openings=openings)
                session.supervisor.sealed_key = key
                _advance(session, record, head)
                self.observe(session, record)
            named = session.supervisor.named
        assert named is not None, "a session has a start before it has anything else"
        return {"rh": record.rh, "leaf": b64u(record.leaf.leaf_hash), "head": named.to_json()}


def _require_same_key(session: Session, openings: dict[str, str], rh: str) -> str | None:
    """The key to the supervisor's sealed disclosures; it is taken out of ``openings`` where the journal has it.

    Raises:
        RequestMalformed: it is another one than before; what was sealed by that could not be opened any more.
    """
    known = session.supervisor.sealed_key
    for name in openings.keys() - {rh}:
        if known is None:
            return openings[name]
        if openings.pop(name) != known:
            raise RequestMalformed(
                "another key to sealed disclosures", expected="the session's first", where=name
            )
    return known


def _advance(session: Session, record: VerifiedReceipt, head: Head | None) -> None:
    chain = session.supervisor
    chain.named = head
    chain.hashes.add(record.rh)
    chain.prev, chain.seq = record.rh, record.seq + 1
    chain.ended = record.kind == "end"
    if record.kind == "policy":
        chain.epoch, chain.evd = chain.epoch + 1, session.admitted.evd
    peer = record.member("peer", "seq")
    if isinstance(peer, int):
        chain.peer_seq = peer
