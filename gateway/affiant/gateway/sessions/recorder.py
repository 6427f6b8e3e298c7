"""Signs this gateway's records, in chain order, and hands each to the journal before it leaves the gateway.

Signing and appending happen in one turn of the event loop, so that the chain's order is the journal's. A caller
awaits :attr:`Recorded.durable` before the effect: before the first byte goes upstream (``open``), before the
last byte goes to the client (a record). Once the journal refuses, nothing more is signed: a signed record that
was not kept would be a gap.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from affiant.attestation.encoding.binary_text import b64u, from_b64u
from affiant.attestation.encoding.canonical import parse_strict
from affiant.attestation.records.chain import ChainSigner
from affiant.attestation.records.head import Head
from affiant.attestation.records.receipt import Issued, VerifiedReceipt
from affiant.attestation.records.sealed_disclosures import SessionSealing
from affiant.attestation.schema.records import shape_of
from affiant.attestation.schema.shapes import Obj, ShapeMismatch
from affiant.gateway.sessions.sessions import Session
from affiant.gateway.store.entries import (
    ObjectEntry,
    OpenEntry,
    OpeningEntry,
    PeerEntry,
    RecordEntry,
    encode_entry,
)
from affiant.gateway.store.journal import Journal, Place
from affiant.gateway.store.leaves import Logged

__all__ = ["Place", "Recorded", "Recorder", "agent_members", "for_agent", "policy_members"]

_WITHHELD: Final = frozenset({"user", "ten"})
"""The owner of the session: for the supervisor, never for the agent (trust rules, 10)."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """A signed record on its way to the disk."""

    issued: Issued
    head: Head
    durable: asyncio.Future[Place]
    """Resolves once it is, and its sealed opening too."""

    @property
    def jti(self) -> str:
        """The receipt id."""
        return str(self.issued.payload["jti"])


def agent_members(session: Session, *, number: int | None, cseq: int | None) -> Mapping[str, object]:
    """The clear members of ``agt``."""
    admitted = session.admitted
    members: dict[str, object] = {
        "ses": session.id,
        "evd": admitted.evd,
        "key": admitted.statement.receipt_kid,
        "bind": "pop",
        "iso": admitted.activation.isolation,
    }
    if number is not None:
        members["seq"] = number
    if cseq is not None:
        members["cseq"] = cseq
    return members


def policy_members(session: Session, decision: str) -> Mapping[str, object]:
    """The clear members of ``pol``; ``decision``: allow, deny, redact or ask."""
    return {"dec": decision, **session.admitted.policy_members}


class Recorder:
    """The one place that signs records of this gateway's chain."""

    def __init__(self, chain: ChainSigner, journal: Journal) -> None:
        self._chain = chain
        self._journal = journal
        self._shape = partial(shape_of, role=chain.statement.role, cls=chain.statement.cls)
        self._shape("inference").compile()  # of these there are many; at boot, since it takes its time

    @property
    def head(self) -> Head | None:
        """The last record that was signed."""
        return self._chain.head

    @property
    def count(self) -> int:
        """Records signed so far."""
        head = self._chain.head
        return 0 if head is None else head.seq + 1

    @property
    def healthy(self) -> bool:
        """Whether records can still be made durable."""
        return self._journal.healthy

    def require(self) -> None:
        """Return if records can be made durable, else raise :class:`~.errors.JournalUnavailable`."""
        self._journal.require()

    def new_id(self) -> str:
        """A fresh receipt id: 22 characters."""
        return self._chain.new_id()

    def open(self, session: Session, *, jti: str, number: int) -> asyncio.Future[Place]:
        """Append the ``open`` of a request; nothing goes upstream before the future resolves."""
        entry = OpenEntry(jti=jti, ses=session.id, n=number)
        return self._journal.append(encode_entry(entry), note=entry)

    def record(
        self,
        kind: str,
        members: Mapping[str, object],
        hidden: Mapping[str, Mapping[str, object]] | None = None,
        *,
        jti: str | None = None,
    ) -> Recorded:
        """Sign a record that belongs to no session.

        Raises:
            JournalUnavailable: nothing is signed. ShapeMismatch: not such a record; nothing is signed.
        """
        self._journal.require()
        issued = self._chain.issue(kind, members, hidden, jti=jti)
        return self._append(issued, kind)

    def require_formable(
        self, kind: str, members: Mapping[str, object], hidden: Mapping[str, Mapping[str, object]]
    ) -> None:
        """Return if what is given of a record of this gateway is of its kind's form; nothing is signed.

        Raises:
            ShapeMismatch: a member is not.
        """
        _check_given(self._shape(kind), members, hidden)

    def session_record(
        self,
        session: Session,
        kind: str,
        members: Mapping[str, object],
        hidden: Mapping[str, Mapping[str, object]] | None = None,
        *,
        number: int | None,
        cseq: int | None = None,
        jti: str | None = None,
    ) -> Recorded:
        """Sign a record of ``session``.

        ``agt.id`` is the agent's name, which this gateway does not get: the activation, and so ``agt.evd``, commits
        to it. Its place under ``_sd`` is a decoy here, and the supervisor's records disclose it.

        Args:
            number: its ``agt.seq``, from :meth:`~.sessions.Session.next_number`; None: the next one, which is
                not used up if there is no record.

        Raises:
            JournalUnavailable: nothing is signed. ShapeMismatch: not such a record; nothing is signed.
        """
        self._journal.require()
        sealing = self._sealing(session)
        seq = session.upcoming if number is None else number
        activation = session.admitted.activation
        peer = session.supervisor.peer
        issued = self._chain.issue(
            kind,
            {
                **members,
                "agt": agent_members(session, number=seq, cseq=cseq),
                **({} if peer is None else {"peer": peer}),
            },
            {**(hidden or {}), "agt": {"user": activation.starter["sub"]}},
            jti=jti,
        )
        sealed = ""
        if sealing is not None and issued.disclosures:
            sealed = sealing.seal(issued.disclosures, rh=issued.rh)
        recorded = self._append(issued, kind, session=session.id, sealed=sealed)
        session.recorded(session.next_number() if number is None else number, issued, recorded.head)
        return recorded

    def keep_peer(
        self, session: Session, record: VerifiedReceipt, *, openings: Mapping[str, str]
    ) -> asyncio.Future[Place]:
        """Append a supervisor's record; it is acknowledged once the future resolves.

        Args:
            openings: its sealed disclosures, and the key to them where the journal lacks it, by what each is kept
                under.
        """
        entry = PeerEntry(jws=record.text.jws, ses=session.id, seq=record.seq)
        openings_of = (_opening(name, session.id, sealed) for name, sealed in openings.items())
        return self._journal.append_all((encode_entry(entry), Logged(entry, record.leaf)), *openings_of)

    def keep_object(self, name: str, data: bytes, *, session: str = "") -> asyncio.Future[Place]:
        """Append an object of the bundle map ``name``."""
        entry = ObjectEntry(map=name, data=b64u(data), ses=session)
        return self._journal.append(encode_entry(entry), note=entry)

    def _append(self, issued: Issued, kind: str, *, session: str = "", sealed: str = "") -> Recorded:
        head = self._chain.head
        assert head is not None
        entry = RecordEntry(
            jws=issued.jws, jti=str(issued.payload["jti"]), kind=kind, seq=head.seq, ses=session
        )
        opening = [_opening(issued.rh, session, sealed)] if sealed else []
        durable = self._journal.append_all((encode_entry(entry), Logged(entry, issued.leaf)), *opening)
        return Recorded(issued, head, durable)

    def _sealing(self, session: Session) -> SessionSealing | None:
        """What seals the session's disclosures, its key in the journal; None: its starter named no key."""
        to = session.admitted.activation.openings
        if to is not None and session.sealing is None:
            session.sealing = self._chain.sealing(to=to, session=session.id)
            payload, entry = _opening(session.sealing.name, session.id, session.sealing.sealed_key)
            self._journal.append(payload, note=entry)
        return session.sealing


def _opening(name: str, session: str, sealed: str) -> tuple[bytes, OpeningEntry]:
    """The entry of a sealed text."""
    entry = OpeningEntry(rh=name, ses=session, sealed=sealed)
    return encode_entry(entry), entry


def _check_given(
    shape: Obj, members: Mapping[str, object], hidden: Mapping[str, Mapping[str, object]]
) -> None:
    for hidden_name, hidden_value in hidden.get("", {}).items():
        shape.hidden[hidden_name].check(hidden_value, hidden_name)
    for name, value in members.items():
        inner = shape.required.get(name) or shape.optional.get(name)
        if inner is None:
            raise ShapeMismatch("a member that the kind does not have", found=name)
        if isinstance(inner, Obj) and inner.sd:
            assert isinstance(value, Mapping)
            _check_given(inner, value, {})
            for hidden_name, hidden_value in hidden.get(name, {}).items():
                inner.hidden[hidden_name].check(hidden_value, f"{name}.{hidden_name}")
        else:
            inner.check(value, name)


def for_agent(sdjwt: str) -> str:
    """The receipt without the disclosures of user and tenant."""
    jws, *disclosures, _ = sdjwt.split("~")
    return "~".join([jws, *(text for text in disclosures if _name_of(text) not in _WITHHELD), ""])


def _name_of(disclosure: str) -> object:
    parts = parse_strict(from_b64u(disclosure))
    return parts[1] if isinstance(parts, list) else None
