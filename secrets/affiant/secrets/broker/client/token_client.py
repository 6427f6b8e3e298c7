"""The supervisor's side of tokens: it asks whether one is at hand, and says when one is to be fetched.

No token ever comes to this side.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

from affiant.errors import MalformedError
from affiant.secrets.broker.client.client import BrokerClient
from affiant.secrets.broker.client.messages import UpstreamOutcome
from affiant.secrets.broker.client.protocol import FrameKind, read_frame, write_frame
from affiant.secrets.names.errors import BrokerGone

__all__ = ["fetch_token", "token_is_fresh"]


async def token_is_fresh(client: BrokerClient, name: str) -> bool:
    """Whether the broker has a token for the secret ``name`` that it can use now.

    Raises:
        AffiantError: the secret is not one that is exchanged, or the broker is gone.
    """
    answer = await _asked(client, {"op": "token", "name": name})
    match answer:
        case {"fresh": bool(fresh), **rest} if not rest:
            return fresh
        case _:
            raise _refusal(answer)


async def fetch_token(client: BrokerClient, name: str, address: str) -> UpstreamOutcome:
    """Have a token fetched, and kept by the broker. A refusal is in what came of it.

    Args:
        address: the checked address of the secret's token endpoint.

    Raises:
        BrokerGone: the broker ended, and the outcome is not known. ``broker.protocol``: it answers something else.
    """
    answer = await _asked(client, {"op": "fetch_token", "name": name, "address": address})
    return UpstreamOutcome.from_json(answer)


async def _asked(client: BrokerClient, question: Mapping[str, object]) -> Mapping[str, object]:
    reader, writer = await client.open_stream()
    try:
        await write_frame(writer, FrameKind.HEAD, question)
        frame = await read_frame(reader)
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
    if frame is None:
        raise BrokerGone("the broker closed the stream")
    if frame.kind is not FrameKind.END:
        raise MalformedError("a frame out of its order", code="broker.protocol")
    return frame.members()


def _refusal(answer: Mapping[str, object]) -> Exception:
    refusal = UpstreamOutcome.from_json(answer).refusal
    return (
        MalformedError("not an answer about a token", code="broker.protocol") if refusal is None else refusal
    )
