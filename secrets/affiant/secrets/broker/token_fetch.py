"""Fetching a token: one request to the token endpoint, over a connection of its own.

The supervisor says when, because it records before it happens, and gives the address that it checked; where it goes
and what is sent is in the configuration and nowhere else. TLS is verified as with any host, a redirect is no
answer, and size and time are bounded. A restriction of the profile interrupts it.
"""

from __future__ import annotations

import asyncio
from typing import Final

import h11

from affiant.errors import AffiantError, NotAllowedError
from affiant.policy.model.token_exchange import TokenExchange
from affiant.secrets.broker.client.messages import UpstreamOutcome, UpstreamRequest
from affiant.secrets.broker.request import PreparedRequest
from affiant.secrets.broker.session import BrokerSession, Held
from affiant.secrets.broker.tokens.token_request import TokenRequest, token_request
from affiant.secrets.broker.tokens.token_response import MAX_TOKEN_RESPONSE, parse_token_response
from affiant.secrets.broker.tokens.tokens import Credential
from affiant.secrets.broker.upstream import Upstream, dial
from affiant.secrets.names.errors import (
    BrokerFailed,
    TokenResponseInvalid,
    TokenUnavailable,
    UpstreamCertificateInvalid,
    UpstreamMalformed,
    UpstreamTimedOut,
    UpstreamTruncated,
    UpstreamUnreachable,
)

__all__ = ["fetch_token"]

_WITHIN_S: Final = 15.0
"""For all of it: requests of the agent wait for it."""
_NO_CONNECTION: Final = (
    UpstreamCertificateInvalid,
    UpstreamMalformed,
    UpstreamTimedOut,
    UpstreamTruncated,
    UpstreamUnreachable,
)


async def fetch_token(held: Held, name: str, address: str) -> UpstreamOutcome:
    """Ask for a token and keep it. A refusal is in what came of it; a token is not.

    Args:
        name: of a secret that is exchanged. address: the checked address of its token endpoint, an IP literal.
    """
    fetch = _Fetch(held, name, address)
    try:
        async with held.until_restricted():
            await fetch.run()
    except AffiantError as error:
        return fetch.outcome(error)
    except Exception as error:  # noqa: BLE001 - a mistake of ours ends one fetch; its text may hold a value
        return fetch.outcome(BrokerFailed("the broker failed", found=type(error).__name__))
    return fetch.outcome(None)


class _Fetch:
    def __init__(self, held: Held, name: str, address: str) -> None:
        self._held = held
        self._name = name
        self._address = address
        self._upstream: Upstream | None = None
        self._status: int | None = None

    def outcome(self, refusal: AffiantError | None) -> UpstreamOutcome:
        """For the record."""
        upstream = self._upstream
        if upstream is None:
            return UpstreamOutcome(refusal=refusal)
        return UpstreamOutcome(
            bytes_out=upstream.bytes_out,
            bytes_in=upstream.bytes_in,
            sent_digest=upstream.sent_digest if upstream.bytes_out else None,
            request_complete=upstream.request_complete,
            spki_sha256=upstream.spki_sha256,
            status=self._status,
            refusal=refusal,
        )

    async def run(self) -> None:
        """Send, receive, keep.

        Raises:
            TokenUnavailable, TokenRejected, TokenResponseInvalid: no token came of it.
        """
        session = self._held.session
        credential = session.tokens.credential(self._name)
        asked_at = session.tokens.instants.monotonic()
        try:
            async with asyncio.timeout(_WITHIN_S):
                headers, body = await self._exchanged(session, credential)
        except TimeoutError:
            raise TokenUnavailable(
                "the token endpoint does not answer in time", found=f"{_WITHIN_S} s"
            ) from None
        except _NO_CONNECTION as error:  # not chained: one text for all of them
            raise TokenUnavailable("the token endpoint cannot be asked", found=error.code) from None
        assert self._status is not None
        issued = parse_token_response(self._status, headers, body, grant=credential.exchange.grant)
        await session.tokens.keep(self._name, issued, asked_at=asked_at)
        if self._held.session is not session:  # kept by a session that is not used any more
            raise NotAllowedError(
                "the profile was restricted while a token was fetched", code="broker.request"
            )

    async def _exchanged(
        self, session: BrokerSession, credential: Credential
    ) -> tuple[tuple[tuple[bytes, bytes], ...], bytes]:
        """The answer's headers and body."""
        exchange, instants = credential.exchange, session.tokens.instants
        request = _endpoint(exchange, self._address)
        values = ((credential.value, self._name),)
        session.echoes.require(request.host, values)
        async with dial(request, session) as upstream:
            await asyncio.to_thread(session.echoes.sent, request.host, values)
            self._upstream = upstream
            sent, recorded = token_request(
                exchange,
                credential.value,
                placeholder=credential.placeholder,
                now=int(instants.unix_time()),
                random_bytes=instants.random_bytes,
            )
            await upstream.send_head(_prepared(request, sent, recorded))
            await upstream.send_filled(sent.body, recorded=recorded.body)
            await upstream.end_request()
            received = await upstream.receive_head()
            self._status = received.status_code
            body = bytearray()
            async for event in upstream.receive_body():
                if isinstance(event, h11.Data):
                    body += event.data
                if len(body) > MAX_TOKEN_RESPONSE:
                    raise TokenResponseInvalid(
                        "the token endpoint's answer is too large",
                        expected=f"at most {MAX_TOKEN_RESPONSE} bytes",
                    )
            return tuple((bytes(field), bytes(value)) for field, value in received.headers), bytes(body)


def _endpoint(exchange: TokenExchange, address: str) -> UpstreamRequest:
    return UpstreamRequest(
        id="token",
        scheme="https",
        host=exchange.host,
        port=exchange.port,
        address=address,
        method="POST",
        target=exchange.path.encode("ascii"),
        headers=(),
        has_body=True,
    )


def _prepared(request: UpstreamRequest, sent: TokenRequest, recorded: TokenRequest) -> PreparedRequest:
    host = request.host if request.port == 443 else f"{request.host}:{request.port}"
    heads = [
        h11.Request(
            method=request.method,
            target=request.target,
            headers=[(b"Host", host.encode("ascii")), *each.headers],
        )
        for each in (sent, recorded)
    ]
    recorded_head = h11.Connection(h11.CLIENT).send(heads[1])
    return PreparedRequest(heads[0], recorded_head or b"", b"", sent.body, recorded.body)
