"""Calls at the tool gate that a person must approve: what of each is shown, and how long the agent is held.

The calls of one body wait together, and are done together or not at all. The wait is bounded; after it the agent is
given the names of what waits, and the same body sent again finds the same actions.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Final

from affiant.errors import AffiantError
from affiant.gateway.approvals.queue import Approved, GatewayApprovals
from affiant.gateway.sessions.sessions import Session
from affiant.gateway.tool_gate.catalogue import ServedTool
from affiant.gateway.tool_gate.path_content import read_paths
from affiant.gateway.wire.errors import RequestMalformed
from affiant.policy.approvals.action import Action, BoundPath, Draft, tool_draft
from affiant.policy.approvals.bindable import every_bindable, paths_among
from affiant.policy.approvals.errors import (
    ActionUnshowable,
    ApprovalDenied,
    ApprovalExpired,
    ApprovalPending,
    ApprovalUsed,
    TooManyApprovals,
)
from affiant.policy.canonical.tool_messages import CallParams
from affiant.policy.decision.decide import Decision

__all__ = [
    "APPROVAL_REFUSALS",
    "ToolCallWaits",
    "approved_arguments",
    "approved_in_time",
    "call_draft",
    "claimed",
]

APPROVAL_REFUSALS: Final[tuple[type[AffiantError], ...]] = (
    ActionUnshowable,
    ApprovalDenied,
    ApprovalExpired,
    ApprovalPending,
    ApprovalUsed,
    TooManyApprovals,
)
"""Why a call that needs approval is not made."""


class ToolCallWaits(ApprovalPending):
    """A call at the tool gate waits for approval.

    ``actions`` are the names of what is asked for, ``not_after`` the second since 1970 when the first of them is over.
    """

    retryable = True

    def __init__(self, message: str, *, actions: tuple[str, ...], not_after: int) -> None:
        super().__init__(message, expected=f"approval until {not_after}", where=actions[0])
        self.actions = actions
        self.not_after = not_after


async def call_draft(
    session: Session, tool: ServedTool, params: CallParams, decision: Decision, *, folders: Sequence[str]
) -> tuple[Draft, tuple[BoundPath, ...]]:
    """What approvers are asked about one call, and the paths in it with what they lead to.

    Args:
        decision: the one that asks, with its rules.
        folders: where the tool's server and this gateway find the same files; none: no path can be approved.

    Raises:
        ActionUnshowable: it means more than can be shown: a path elsewhere, or to what is no file of text.
    """
    policy = session.admitted.policy
    if not every_bindable(policy.policy, decision.rules, folders):
        raise ActionUnshowable(
            "the call needs approval, and the content of its paths cannot be bound to one at the tool gate",
            expected="rules whose `args` list every argument, and paths to read below the folders of a server",
            found=", ".join(decision.rules)[:200],
        )
    named = paths_among(policy.policy, decision.rules, params.arguments)
    paths = await asyncio.to_thread(read_paths, folders, named) if named else ()
    draft = tool_draft(
        session=session.id,
        agent=None,
        policy=policy.digest,
        rules=decision.rules,
        tool=tool.name,
        server=tool.server,
        schema=tool.digest,
        arguments=params.text,
        paths=paths,
    )
    return draft, paths


def approved_arguments(action: Action, copies: Mapping[str, str]) -> Mapping[str, object]:
    """The arguments as approvers were shown them: made from the bytes that they signed, so in their order too.

    Most servers do not look at the order of an object's members, and some do: of a database's command the first member
    says what is done.

    Args:
        copies: path -> the copy that the server gets in its place.
    """
    call, paths = action.members["call"], action.members["paths"]
    assert isinstance(call, Mapping)
    assert isinstance(paths, list)
    arguments = json.loads(str(call["arguments"]))
    for name in {str(path["argument"]).partition("[")[0] for path in paths}:
        value = arguments[name]
        arguments[name] = [copies[each] for each in value] if isinstance(value, list) else copies[value]
    assert isinstance(arguments, dict)
    return arguments


async def approved_in_time(
    approvals: GatewayApprovals, session: Session, drafts: Sequence[Draft], *, hold_s: float
) -> tuple[Action, ...]:
    """Ask for all of ``drafts``, and wait until each is approved; nothing is taken yet.

    Args:
        hold_s: seconds.

    Raises:
        ToolCallWaits: not in time; they can still be approved. RequestMalformed: two of them are the same call.
        ApprovalDenied, ApprovalExpired, ApprovalUsed, TooManyApprovals, ActionUnshowable, ``session.closed``: as named.
    """
    if len({draft.key for draft in drafts}) != len(drafts):
        raise RequestMalformed(
            "the same call occurs twice in one body, and each needs an approval of its own",
            hint="Send them one after the other",
        )
    with approvals.holding(session):
        actions = approvals.ask(session, drafts)
        try:
            async with asyncio.timeout(hold_s):
                await approvals.approved(session, actions)
        except TimeoutError as error:
            raise _waits(actions) from error
    return actions


def claimed(approvals: GatewayApprovals, session: Session, actions: Sequence[Action]) -> tuple[Approved, ...]:
    """Take the approvals of all ``actions``, once, or of none.

    Raises:
        ToolCallWaits: one has ended before it was used. Others as :meth:`~..approvals.queue.GatewayApprovals.claim`.
    """
    try:
        return approvals.claim(session, actions)
    except ApprovalPending as error:
        raise _waits(actions) from error


def _waits(actions: Sequence[Action]) -> ToolCallWaits:
    return ToolCallWaits(
        "an approver must agree first: send the same again later",
        actions=tuple(action.name for action in actions),
        not_after=min(action.not_after for action in actions),
    )
