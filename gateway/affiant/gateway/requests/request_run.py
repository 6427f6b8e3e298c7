"""One request of a session, from its first byte to the record that ends it, whatever it asks for.

What inference and the tool gate share, in this order (trust rules, 3):

1. the session, from the proof's key; the proof, for the head: from here on the request has an ``agt.seq``;
2. the body, bounded by itself and with all others; its SHA-256, for which the proof must be too;
3. the answer, which is the subclass's (:meth:`SessionRequest.answer`);
4. however that ends, one record with the proof's counter, durable before the last byte of the answer leaves.

The record has the proof's counter, with two exceptions. A proof that is refused has none. A request whose body
never came to its end, and that was not answered, leaves the counter to its supervisor, who had no answer either
and writes the refusal that carries it. A body that is refused unread (too large by far, too late, no memory) is
answered, so the counter is here. In both cases ``lim`` says ``body-unread``: the session's key signed for this
head and counter, but the digest that it signed was not compared with a body.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from typing import Final, Protocol

from affiant.attestation.encoding.binary_text import sha256_name
from affiant.attestation.records.proof import PROOF_HEADER, ProofOfHead
from affiant.attestation.schema.shapes import ShapeMismatch
from affiant.errors import AffiantError, MalformedError, NotAllowedError, StateError
from affiant.gateway.log.published_log import PublishedLog
from affiant.gateway.requests.account import Account
from affiant.gateway.requests.authentication import Authenticator, is_of_session
from affiant.gateway.sessions.decisions import GatewayDecisions
from affiant.gateway.sessions.recorder import Recorded, Recorder
from affiant.gateway.sessions.sessions import Session
from affiant.gateway.wire.bodies import Bodies, Body, Share, drop_rest
from affiant.gateway.wire.connections import prove
from affiant.gateway.wire.errors import (
    Busy,
    GatewayDraining,
    JournalUnavailable,
    RequestAbandoned,
    ToolNotAllowedError,
)
from affiant.gateway.wire.errors_http import error_body, error_headers, status_of
from affiant.gateway.wire.http_request import (
    ClientGone,
    ClientResponse,
    Receive,
    Scope,
    Send,
    header,
    proof_head,
)
from affiant.policy.approvals.errors import ApprovalExpired, ApprovalPending, ApprovalUsed
from affiant.policy.decision.decide import Decision

__all__ = ["NOTHING", "RefusalBudget", "Route", "SessionRequest"]

NOTHING: Final[Mapping[str, object]] = {"dig": sha256_name(b""), "len": 0}
"""Of an answer of which nothing was handed over."""
_LONGEST_PATH: Final = 128
"""Characters of the path of a member, in a session's summary."""
_WITH_PATH: Final = frozenset(
    {"request.unlisted", "upstream.unlisted", "url.not_allowed", "url.not_canonical"}
)
"""Codes of errors whose ``where`` is the path of a member, and no other text of the agent's."""
_log = logging.getLogger("affiant.gateway")


class RefusalBudget:
    """How many refusals of unknown callers are recorded: one bucket for all of them, and a count of the rest.

    Every record is signed and synced to the disk. Any client that can connect could otherwise fill the journal with
    refusals. What a session's key has signed is never counted here: it has its record, whatever it is.

    Args:
        per_second: tokens that come back each second. burst: tokens at first, and at most.
        seconds: a clock that never goes back.
    """

    __slots__ = ("_burst", "_left", "_per_second", "_seconds", "_then", "_unrecorded")

    def __init__(self, *, per_second: float, burst: int, seconds: Callable[[], float]) -> None:
        self._per_second = per_second
        self._burst = burst
        self._seconds = seconds
        self._then = seconds()
        self._left = float(burst)
        self._unrecorded = 0

    def take(self) -> None:
        """Take one token for one record.

        Raises:
            Busy: there is none; the error is returned and counted, and not recorded.
        """
        now = self._seconds()
        self._left = min(self._left + (now - self._then) * self._per_second, float(self._burst))
        self._then = now
        if self._left < 1:
            self._unrecorded += 1
            raise Busy("too many refused requests", hint="This rejection has no receipt")
        self._left -= 1

    def take_count(self) -> int:
        """How many were not recorded since this was asked last."""
        count, self._unrecorded = self._unrecorded, 0
        return count


class Route(Protocol):
    """What every route for requests of sessions is made of."""

    @property
    def recorder(self) -> Recorder: ...
    @property
    def log(self) -> PublishedLog: ...
    @property
    def authenticator(self) -> Authenticator: ...
    @property
    def keyset_digest(self) -> str: ...
    @property
    def body_max(self) -> int: ...
    @property
    def bodies(self) -> Bodies: ...
    @property
    def refusals(self) -> RefusalBudget: ...
    @property
    def decisions(self) -> GatewayDecisions: ...
    @property
    def draining(self) -> Callable[[], bool]: ...
    @property
    def seconds(self) -> Callable[[], float]: ...


class SessionRequest(ABC):
    """One request under way."""

    def __init__(
        self, route: Route, scope: Scope, receive: Receive, send: Send, *, account: Account, share: Share
    ) -> None:
        self._route = route
        self._scope = scope
        self._receive = receive
        self._client = ClientResponse(send, keyset=route.keyset_digest, receipt=account.jti)
        self._account = account
        self._share = share
        self._body: Body | None = None
        self._left = False
        self._denied: list[Decision] = []
        """Denials that a sink has counted."""
        self._receipted = True
        """Whether the answer names its record: not where a session's supervisor would take it for its counter's."""

    async def run(self) -> None:
        """Serve the request; whatever happens, it ends in a record if one can be made."""
        try:
            self._route.recorder.require()
            self._route.log.require()
            await self.answer(await self._authenticate())
        except AffiantError as error:
            await self._fail(error)
        except ClientGone:
            self._abandon()
        except asyncio.CancelledError:
            self._abandon()
            raise
        except Exception:  # noqa: BLE001 - a mistake of ours must still end in a record
            _log.exception("a request failed")
            self._receipted = self._account.number is not None
            await self._fail(StateError("the gateway failed", code="gateway.error"))

    # -- the subclass's ------------------------------------------------------------------------------------

    @abstractmethod
    async def answer(self, session: Session) -> None:
        """Answer what ``session`` asks, with a record; or raise, and it is refused with one."""

    def failure(
        self, error: AffiantError, body: bytes, hidden: Mapping[str, object], *, status: int
    ) -> Recorded:
        """Sign that the request ended with ``error`` and the response ``body``.

        Args:
            hidden: digest and length of what was handed to the client. status: of the answer.
        """
        del hidden, status
        return self._account.refusal(error, body)

    def denials(self, error: AffiantError) -> Sequence[tuple[str, str]]:
        """Kind and name of what ``error`` denied, for the summary of the session."""
        if isinstance(error, ToolNotAllowedError) and error.tool:
            return (("tool", error.tool),)
        where = f" {error.where}"[:_LONGEST_PATH] if error.code in _WITH_PATH and error.where else ""
        return (("request", f"{self._account.method} {self._account.path}{where}"),)

    def response_to(self, error: AffiantError) -> tuple[int, bytes]:
        """Status and body of the answer to a request that ends with ``error``."""
        return status_of(error), error_body(error)

    async def end_started(self, error: AffiantError) -> None:
        """End, with ``error``, an answer that has begun."""
        raise ConnectionAbortedError("the answer was cut") from error

    @property
    def handed(self) -> Mapping[str, object]:
        """Digest and length of what the client was handed."""
        return NOTHING

    # -- who asks, and for what ----------------------------------------------------------------------------

    async def _authenticate(self) -> Session:
        route, account = self._route, self._account
        proof = header(self._scope, PROOF_HEADER)
        session = route.authenticator.session_of(proof)
        assert proof is not None
        try:
            head = proof_head(self._scope)
        except AffiantError:  # the proof cannot be judged, so no record is the session's
            self._receipted = False
            raise
        try:
            held = route.authenticator.verify(session, proof, head, counted=True)
        except AffiantError as error:
            if is_of_session(error) and not session.sealed:
                account.belongs_to(session)
            raise
        prove(self._scope, session.id)
        if session.sealed:  # its close is the last record: none can hold this counter, so none is named to it
            self._receipted = False
            session.require_open(now=route.authenticator.clock().timestamp())
        account.belongs_to(session)  # whatever follows is recorded
        session.require_not_held()
        await self._read(held)
        session.require_open(now=route.authenticator.clock().timestamp())
        if route.draining():
            raise GatewayDraining("the gateway is being stopped")
        return session

    async def _read(self, held: ProofOfHead) -> None:
        """Read the body; it is the one that was signed for, or refused."""
        account, route = self._account, self._route
        account.unread = True
        try:
            body = await route.bodies.read(self._scope, self._receive, self._share, limit=route.body_max)
        except Exception as error:  # raised again; a client that is still there is answered
            account.cseq = None if isinstance(error, ClientGone) else held.cseq
            raise
        self._body, account.unread = body, False
        account.digest, account.size = f"sha256:{body.sha256.hex()}", body.size
        account.cseq = held.covering(body.sha256).cseq

    @property
    def _request_body(self) -> bytes:
        assert self._body is not None
        return self._body.require(self._route.body_max)

    def forget_body(self) -> None:
        """The body is not needed any more: its memory is another request's."""
        assert self._body is not None
        self._body = replace(self._body, data=None)
        self._share.give_back()

    async def _unless_gone(self, work: Coroutine[None, None, None]) -> None:
        """Do ``work``, but abandon it once the client is gone, or was abandoned (``bounded_http``)."""
        task = asyncio.current_task()
        assert task is not None
        watch = asyncio.create_task(self._watch(task))
        try:
            await work
        except (asyncio.CancelledError, AffiantError) as error:
            if not self._left or task.uncancel():  # it failed, or the server ends too
                raise
            raise ClientGone from error
        finally:
            watch.cancel()

    async def _watch(self, task: asyncio.Task[object]) -> None:
        """Cancel ``task`` once the client is gone."""
        while (await self._receive())["type"] != "http.disconnect":
            pass
        if not self._client.ended:  # else the server says so of a client that has everything
            self._left = True
            task.cancel()

    def _require_client(self) -> None:
        """Return if what was just sent was handed over: once the client is gone, the server drops it.

        Raises:
            ClientGone: it was not.
        """
        if self._left:
            raise ClientGone

    # -- how it ends otherwise -----------------------------------------------------------------------------

    async def _fail(self, error: AffiantError) -> None:
        """End with ``error``: recorded, durable, then returned."""
        account = self._account
        if isinstance(error, JournalUnavailable) or account.recorded is not None:
            await self._fail_unrecorded(error)
            return
        self._count_denial(error)
        try:
            if self._client.started:
                await self.end_started(error)
                return
            if account.number is None:
                self._route.refusals.take()
            status, body = self.response_to(error)
            hidden = {"dig": sha256_name(body), "len": len(body)}
            await self._record_failure(error, body, hidden, status=status).durable
            await self._send_error(error, status, body, receipt=self._receipted)
        except (JournalUnavailable, Busy) as failure:
            await self._fail_unrecorded(failure)

    def _count_denial(self, error: AffiantError) -> None:
        """Count what was denied, if no sink has counted it: by a limit, by its form, by a person, as unknown."""
        session, ours = self._account.session, not error.code.startswith("upstream.")
        denied = isinstance(error, (NotAllowedError, ApprovalExpired, ApprovalUsed))
        malformed = isinstance(error, MalformedError) and ours
        waits = isinstance(error, ApprovalPending)
        if session is None or self._denied or waits or not (denied or malformed):
            return
        for kind, name in self.denials(error):
            self._route.decisions.denied(session, kind, name, error.code)

    def _record_failure(
        self, error: AffiantError, body: bytes, hidden: Mapping[str, object], *, status: int
    ) -> Recorded:
        """The record of a request that failed; if its own cannot be formed, one that says only that."""
        try:
            return self.failure(error, body, hidden, status=status)
        except ShapeMismatch as failure:
            _log.error("a record could not be formed: %s", failure.where)
            return self._account.last_refusal(
                StateError("the record could not be formed", code="gateway.error"), body
            )

    async def _fail_unrecorded(self, error: AffiantError) -> None:
        """Nothing durable says how this ended: the client gets an error, or a stream that is cut."""
        if self._client.started:
            raise ConnectionAbortedError("no record, no answer")
        reported = (
            error
            if isinstance(error, (JournalUnavailable, Busy))
            else StateError("the gateway failed", code="gateway.error")
        )
        await self._send_error(reported, *self.response_to(reported), receipt=False)

    async def _send_error(self, error: AffiantError, status: int, body: bytes, *, receipt: bool) -> None:
        """Answer with ``error``. Where the body has not been read, the answer goes first, and then the body."""
        unread = self._body is None
        headers = (*error_headers(error), (b"connection", b"close")) if unread else error_headers(error)
        await self._client.whole(status, body, headers, receipt=receipt, more=unread)
        if unread:
            await drop_rest(self._receive)
            await self._client.body(b"", more=False)

    def _abandon(self) -> None:
        """The client is gone, or the server ends: the record says what it was handed."""
        account = self._account
        if account.recorded is not None or not account.recorder.healthy:
            return
        if account.number is not None:
            gone = RequestAbandoned("the client closed the connection, or took nothing of its answer")
            self._record_failure(gone, b"", self.handed, status=self._client.status)
