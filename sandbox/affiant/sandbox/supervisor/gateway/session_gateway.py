"""The appraised gateway as this session uses it: every request carries the session's proof of possession.

Six things are asked of it: inference and reads for the agent (:meth:`SessionGateway.send`), to take this session's
records, to restrict its profile, what it has decided of this session, to close the session, and for its bundle.
What is asked often (:meth:`~SessionGateway.send`, records, decisions) is proven by MAC, once the gateway has given a
key for that (:meth:`~SessionGateway.ask_for_mac_key`); all else by the session key, also what is asked after the close.
The key for MACs is in memory only. It comes over a connection whose TLS ends in the gateway's TD, at the key that its
quote binds.
Counters are taken here, one for each inference request, and never used twice; nothing that carries one is ever sent
again.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Final

from affiant.attestation.encoding.binary_text import EncodingError, from_b64u
from affiant.attestation.encoding.canonical import JSONError, canonical, parse_object
from affiant.attestation.encoding.keys import Signer
from affiant.attestation.records.head import Head
from affiant.attestation.records.proof import (
    FORWARDED_HEADERS,
    MAC_KEY_SIZE,
    PROOF_HEADER,
    MACKey,
    Request,
    issue_proof,
)
from affiant.sandbox.base.errors import GatewayUnreachable, SessionBundleTooLarge
from affiant.sandbox.egress.http.request_head import HeaderField
from affiant.sandbox.supervisor.gateway.admission import (
    ADMISSION_TYPE,
    SessionIdentity,
    fetch_nonce,
    gateway_refusal,
)
from affiant.sandbox.supervisor.gateway.gateway_client import NOTICED_S, GatewayClient, GatewayReply
from affiant.sandbox.supervisor.launch.errors import AdmissionError
from affiant.sandbox.supervisor.records.records import Submission

__all__ = ["SessionGateway"]

_MAX_ANSWER: Final = 64 * 1024
_MAX_BUNDLE: Final = 256 << 20
"""Bytes of a session's bundle with its sealed openings; the record budget keeps an agent below it."""

_JSON_BODY: Final[tuple[HeaderField, ...]] = ((b"Content-Type", b"application/json"),)

_OFTEN: Final = frozenset({"records", "decisions"})
"""What a session asks of its gateway while it runs, again and again."""

_TRY_AGAIN: Final = frozenset({408, 429, 500, 502, 503, 504})
"""Answers after which the same record may be submitted once more."""


class SessionGateway:
    """One session's side of its gateway."""

    def __init__(
        self,
        client: GatewayClient,
        identity: SessionIdentity,
        *,
        session: str,
        keyset_digest: str,
        clock: Callable[[], datetime],
    ) -> None:
        self._client = client
        self._identity = identity
        self._session = session
        self._keyset_digest = keyset_digest
        self._clock = clock
        self._mac_key: MACKey | None = None
        self._next = 0
        self._answers: dict[int, GatewayReply] = {}
        self._left: dict[int, float] = {}
        """Counters of requests that the gateway has and that were left before their answer -> when."""

    @property
    def unaccounted(self) -> Sequence[int]:
        """Counters of requests that were left, and of answers that began and did not end: if the gateway is gone, it
        may have no record of them."""
        began = {cseq for cseq, reply in self._answers.items() if reply.unaccounted}
        return sorted(began | {cseq for cseq, at in self._left.items() if time.monotonic() - at <= NOTICED_S})

    def has(self, cseq: int) -> bool:
        """Whether the gateway has the whole request with this counter, although no answer to it came."""
        return cseq in self._left

    @property
    def last_counter(self) -> int:
        """The last ``cseq`` taken; -1 if none was."""
        return self._next - 1

    def take_counter(self) -> int:
        """The next ``cseq``: from here on it ends in exactly one record."""
        counter, self._next = self._next, self._next + 1
        return counter

    async def send(
        self, method: str, target: str, headers: Sequence[HeaderField], body: bytes, *, cseq: int | None
    ) -> GatewayReply:
        """Send one request with the proof of this session (as :class:`~.gateway_route.InferenceGateway`).

        Raises:
            GatewayUnreachable, GatewayNotTheOne: no answer.
        """
        return await self._send(self._often, method, target, headers, body, cseq=cseq)

    async def ask_for_mac_key(self) -> bool:
        """Ask, once, for the key of proofs by MAC; whether there is one. Without one all proofs are signed.

        Raises:
            GatewayNotTheOne: the peer shows another key than the pinned one.
        """
        try:
            members = await self._asked("proof-key", (), b"")
            key = from_b64u(str(members.get("key")), size=MAC_KEY_SIZE)
        except (
            AdmissionError,
            GatewayUnreachable,
            EncodingError,
        ):  # an older gateway, or the answer was lost
            return False
        self._mac_key = MACKey(key, session=self._session)
        return True

    @property
    def _often(self) -> Signer | MACKey:
        """The key of what is asked often."""
        return self._mac_key or self._identity.signer

    async def _send(
        self,
        signer: Signer | MACKey,
        method: str,
        target: str,
        headers: Sequence[HeaderField],
        body: bytes,
        *,
        cseq: int | None = None,
    ) -> GatewayReply:
        proof = issue_proof(
            signer,
            Request.of(
                method,
                target,
                body,
                content_type=_value(headers, b"content-type"),
                nonce=_value(headers, b"affiant-nonce"),
                forwarded={
                    name: value
                    for name in FORWARDED_HEADERS
                    if (value := _value(headers, name.encode("ascii"))) is not None
                },
            ),
            session=self._session,
            cseq=cseq,
            keyset_digest=self._keyset_digest,
            now=self._clock(),
        )
        reply = await self._client.request(
            method,
            target,
            (*headers, (PROOF_HEADER.encode("ascii"), proof.encode("ascii"))),
            body,
            left=None if cseq is None else partial(self._note_left, cseq),
        )
        if cseq is not None:
            self._answers = {n: each for n, each in self._answers.items() if each.unaccounted}
            self._answers[cseq] = reply
        return reply

    def _note_left(self, cseq: int) -> None:
        now = time.monotonic()
        self._left = {n: at for n, at in self._left.items() if now - at <= NOTICED_S}
        self._left[cseq] = now

    async def submit(self, submission: Submission) -> Head:
        """Hand one record over; the gateway's own head for this session. Idempotent.

        Raises:
            GatewayUnreachable: no answer, or one that says to try again.
            AdmissionError: the gateway does not take the record.
        """
        headers: tuple[HeaderField, ...] = ((b"Content-Type", b"application/jose"),)
        if submission.openings is not None:
            headers = (*headers, (b"Affiant-Openings", submission.openings.encode("ascii")))
        members = await self._asked("records", headers, submission.jws.encode("ascii"))
        match members.get("head"):
            case {"chn": str(chn), "seq": int(seq), "rh": str(rh)}:
                return Head(chn, seq, rh)
            case _:
                raise GatewayUnreachable("the gateway's acknowledgement has no head")

    async def nonce(self) -> str:
        """A nonce for fresh evidence of this session (43 characters).

        Raises:
            GatewayUnreachable, AdmissionError: none was given.
        """
        return await fetch_nonce(self._client)

    async def restrict(self, admission: bytes) -> str:
        """Have the profile restricted; the gateway's attestation result of the new evidence. Never sent twice.

        Args:
            admission: a collection of that evidence and the new profile's normal form.

        Raises:
            AdmissionError: it is not restricted. GatewayUnreachable: it is not known whether it is.
        """
        members = await self._asked("narrow", (ADMISSION_TYPE,), admission)
        result = members.get("result")
        if not isinstance(result, str):
            raise GatewayUnreachable("the gateway's answer has no attestation result")
        return result

    async def announce_child(self, session: str, agent: str, policy: str) -> None:
        """Have the gateway admit a session as this one's child, once it asks to be admitted.

        Args:
            session: its id. agent: its agent, which this session's profile may start. policy: its profile's digest.

        Raises:
            AdmissionError: it will not be admitted. GatewayUnreachable: it is not known whether it will be.
        """
        members = {"session": session, "agent": agent, "policy": policy}
        await self._asked("children", _JSON_BODY, canonical(members))

    async def has_child(self, session: str) -> bool:
        """Whether the gateway has admitted the session with this id as this one's child.

        Raises:
            GatewayUnreachable, AdmissionError: it does not say.
        """
        members = await self._answered("GET", f"children/{session}", (), b"")
        return members.get("admitted") is True

    async def decisions(self, after: int | None) -> Mapping[str, object]:
        """What the gateway has denied to this session, and its decisions from number ``after`` on.

        Args:
            after: the gateway keeps no decision before this one any longer; None: none are wanted.

        Raises:
            GatewayUnreachable, AdmissionError: it does not say.
        """
        return await self._asked("decisions", _JSON_BODY, canonical({"after": after}))

    async def is_to_close(self) -> bool:
        """Whether the session is to be closed because the gateway will stop; it holds the question for a while.

        Raises:
            GatewayUnreachable, AdmissionError: it does not say.
        """
        members = await self._answered("GET", "draining", (), b"")
        return members.get("close") is True

    async def close(self, why: str) -> str:
        """Close the session; the gateway's close record. Idempotent.

        Raises:
            GatewayUnreachable, AdmissionError: it was not closed.
        """
        members = await self._asked("close", _JSON_BODY, canonical({"why": why}))
        record = members.get("close")
        if not isinstance(record, str):
            raise GatewayUnreachable("the gateway's answer has no close record")
        return record

    async def bundle(self) -> AsyncGenerator[bytes]:
        """The session's bundle with its sealed openings, as the gateway gives it, piece by piece.

        Raises:
            SessionBundleTooLarge: it is larger than any bundle. GatewayUnreachable: no answer.
            AdmissionError: refused.
        """
        reply = await self._send(
            self._identity.signer, "GET", f"/v1/sessions/{self._session}/bundle", (), b""
        )
        size = 0
        try:
            if reply.status != 200:
                refusal = gateway_refusal(_members(await reply.body(_MAX_ANSWER)), reply.status)
                if refusal.gateway_code == SessionBundleTooLarge.code:
                    raise SessionBundleTooLarge(self._session, limit=_MAX_BUNDLE) from refusal
                raise refusal
            async for piece in reply.chunks():
                size += len(piece)
                if size > _MAX_BUNDLE:
                    raise SessionBundleTooLarge(self._session, limit=_MAX_BUNDLE)
                yield piece
        finally:
            await reply.close()

    async def _asked(self, what: str, headers: Sequence[HeaderField], body: bytes) -> Mapping[str, object]:
        return await self._answered("POST", what, headers, body)

    async def _answered(
        self, method: str, what: str, headers: Sequence[HeaderField], body: bytes
    ) -> Mapping[str, object]:
        target = f"/v1/sessions/{self._session}/{what}"
        signer = self._often if what in _OFTEN else self._identity.signer
        reply = await self._send(signer, method, target, headers, body)
        try:
            data = await reply.body(_MAX_ANSWER)
        finally:
            await reply.close()
        if reply.status in _TRY_AGAIN:
            raise GatewayUnreachable(
                "the gateway cannot take it now", where=what, found=f"status {reply.status}"
            )
        if reply.status not in {200, 201}:
            raise gateway_refusal(_members(data), reply.status)
        return _members(data)


def _members(data: bytes) -> Mapping[str, object]:
    try:
        return parse_object(data, strict_form=False)
    except JSONError:  # said by its status alone
        return {}


def _value(headers: Sequence[HeaderField], name: bytes) -> str | None:
    for field, value in headers:
        if field.lower() == name:
            return value.decode("latin-1")
    return None
