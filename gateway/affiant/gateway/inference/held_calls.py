"""Calls in a model's response that a person must approve: what of each is shown, and how long the response is held.

All calls of one response that need approval are asked for together, and go on together or not at all. Each waits for as
long as the profile lets an action wait. A call that the same session asked for before, and that still waits, is found
again: an agent whose client gave up asks its model once more.

The agent makes the call, in its own sandbox. So the gateway cannot keep unchanged what a path among the arguments leads
to, and a call with an argument that a rule says is a path cannot be approved here; at the tool gate it can. A call of a
server's tool is not held: the agent reaches the server only at the tool gate, and is asked for there, once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from affiant.attestation.encoding.binary_text import sha256_name
from affiant.gateway.approvals.queue import Approved, GatewayApprovals
from affiant.gateway.dialects.judged_calls import ToolCall
from affiant.gateway.requests.account import HeldCall
from affiant.gateway.sessions.sessions import Session
from affiant.gateway.wire.errors import ToolNotAllowedError
from affiant.policy.approvals.action import Action, Draft, tool_draft
from affiant.policy.approvals.bindable import paths_among
from affiant.policy.approvals.errors import ActionUnshowable
from affiant.policy.canonical.tool_origin import Origin
from affiant.policy.model.arguments import parse_arguments

__all__ = ["KEEP_ALIVE", "PassedCall", "agreed", "call_draft", "kept_alive"]

T = TypeVar("T")

KEEP_ALIVE: Final = b": a tool call waits for approval\n\n"
"""A comment: clients of streams read over it."""
_KEEP_ALIVE_S: Final = 10.0
_STEP_S: Final = 1.0
"""How soon a gateway that is being stopped ends a wait."""
_BY_THE_AGENT: Final = "the agent itself"
"""Who makes the call; no server has an id like it."""
_NO_DEFINITION: Final = sha256_name(b"")
"""What stands for the definition of a tool that the request does not define in a form that has a digest."""


@dataclass(slots=True)
class PassedCall:
    """A held call that approvers agreed to, until its outcome is signed."""

    recorded_as: HeldCall
    approved: Approved
    intent: str = ""
    signed: bool = False


def call_draft(session: Session, call: ToolCall, origin: Origin) -> Draft:
    """What approvers are asked about one call.

    Args:
        origin: of the tool: no server's.

    Raises:
        ActionUnshowable: it means more than can be shown: a path, or arguments that are no text to read.
    """
    assert call.waiting is not None
    assert origin.server is None
    policy, text = session.admitted.policy, call.waiting.text
    values = parse_arguments(text) if call.waiting.is_json else {}
    if paths_among(policy.policy, call.rules, values):
        raise ActionUnshowable(
            "the call names a path, and what that leads to in the agent's sandbox cannot be bound to an approval",
            hint="Let the agent call a tool of a server at the tool gate",
        )
    return tool_draft(
        session=session.id,
        agent=None,
        policy=policy.digest,
        rules=call.rules,
        tool=call.name,
        server=_BY_THE_AGENT,
        schema=origin.schema or _NO_DEFINITION,
        arguments=text,
    )


async def agreed(
    approvals: GatewayApprovals,
    session: Session,
    drafts: Sequence[Draft],
    *,
    keep_alive: Callable[[], Awaitable[None]],
    require_serving: Callable[[], None],
) -> Sequence[Action]:
    """Ask for all of ``drafts``, and wait until each is approved; nothing is taken yet. In the order of ``drafts``.

    Args:
        keep_alive: called every ten seconds of the wait.
        require_serving: raises once the gateway is being stopped.

    Raises:
        ApprovalDenied, ApprovalExpired, ApprovalUsed, TooManyApprovals, ActionUnshowable: one never will be.
        ToolNotAllowedError: two of them are the same call. ``session.closed``, ``session.narrowing``: meanwhile.
    """
    if len({draft.key for draft in drafts}) != len(drafts):
        raise ToolNotAllowedError(
            "the same call is twice in one response, and each needs an approval of its own",
            code="tool.needs_approval",
        )
    with approvals.holding(session):
        actions = approvals.ask(session, drafts)
        task = asyncio.create_task(approvals.approved(session, actions))
        ended = session.waits()
        try:
            await _one_done((task, ended), keep_alive=keep_alive, require_serving=require_serving)
            if ended.done():
                ended.result()
            task.result()
        finally:
            task.cancel()
            session.waits_no_more(ended)
            await asyncio.wait({task})
    return actions


async def kept_alive(
    work: Coroutine[Any, Any, T],
    *,
    keep_alive: Callable[[], Awaitable[None]],
    require_serving: Callable[[], None],
) -> T:
    """Do ``work``; what else :func:`agreed` does while it waits is done meanwhile.

    Raises:
        As ``work``, ``keep_alive`` and ``require_serving``.
    """
    task = asyncio.create_task(work)
    try:
        await _one_done((task,), keep_alive=keep_alive, require_serving=require_serving)
        return task.result()
    finally:
        task.cancel()
        await asyncio.wait({task})


async def _one_done(
    futures: Collection[asyncio.Future[Any]],
    *,
    keep_alive: Callable[[], Awaitable[None]],
    require_serving: Callable[[], None],
) -> None:
    waited = 0.0
    while not any(each.done() for each in futures):
        await asyncio.wait(futures, timeout=_STEP_S, return_when=asyncio.FIRST_COMPLETED)
        require_serving()
        waited += _STEP_S
        if waited >= _KEEP_ALIVE_S:
            waited = 0.0
            await keep_alive()
