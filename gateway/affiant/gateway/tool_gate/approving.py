"""Calls at the tool gate that a person must approve: what of each is shown, and how long the agent is held.

The calls of one body wait together, and are done together or not at all. The wait is bounded; after it the agent is
told the names of what waits, and the same body sent again finds the same actions.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Final

from affiant.errors import AffiantError
from affiant.gateway.approvals.mailbox import Approved, Mailbox
from affiant.gateway.errors import RequestMalformed
from affiant.gateway.sessions import Session
from affiant.gateway.tool_gate.catalogue import ServedTool
from affiant.policy.approvals.action import Action, Draft, tool_draft
from affiant.policy.approvals.bindable import every_bindable
from affiant.policy.approvals.refusals import (
    ActionUnshowable,
    ApprovalDenied,
    ApprovalExpired,
    ApprovalPending,
    ApprovalUsed,
    TooManyApprovals,
)
from affiant.policy.decide import Decision

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


def call_draft(session: Session, tool: ServedTool, arguments: str, decision: Decision) -> Draft:
    """What approvers are asked about one call.

    Args:
        arguments: the exact text of those that it is made with.
        decision: the one that asks, with its rules.

    Raises:
        ActionUnshowable: it means more than its arguments say, or they are no text.
    """
    policy = session.admitted.policy
    if not every_bindable(policy.policy, decision.rules):
        raise ActionUnshowable(
            "the call needs approval, and the content of its paths cannot be bound to one at the tool gate",
            expected="rules whose `args` list every argument, none of them `under` a path",
            found=", ".join(decision.rules)[:200],
        )
    return tool_draft(
        session=session.id,
        agent=None,
        policy=policy.digest,
        rules=decision.rules,
        tool=tool.name,
        server=tool.server,
        schema=tool.digest,
        arguments=arguments,
    )


def approved_arguments(action: Action) -> Mapping[str, object]:
    """The arguments as approvers were shown them: made from the bytes that they signed, so in their order too.

    Most servers do not look at the order of an object's members, and some do: of a database's command the first member
    says what is done.
    """
    call = action.members["call"]
    assert isinstance(call, Mapping)
    arguments = json.loads(str(call["arguments"]))
    assert isinstance(arguments, dict)
    return arguments


async def approved_in_time(
    mailbox: Mailbox, session: Session, drafts: Sequence[Draft], *, hold_s: float
) -> tuple[Action, ...]:
    """Ask for all of ``drafts``, and wait until each is approved; nothing is taken yet.

    Args:
        hold_s: seconds.

    Raises:
        ToolCallWaits: not in time; they can still be approved. RequestMalformed: two of them are the same call.
        ApprovalDenied, ApprovalExpired, ApprovalUsed, TooManyApprovals, ActionUnshowable, SessionClosed: as named.
    """
    if len({draft.key for draft in drafts}) != len(drafts):
        raise RequestMalformed(
            "the same call stands twice in one body, and each needs an approval of its own",
            hint="Send them one after the other",
        )
    with mailbox.holding(session):
        actions = mailbox.ask(session, drafts)
        try:
            async with asyncio.timeout(hold_s):
                await mailbox.approved(session, actions)
        except TimeoutError as error:
            raise _waits(actions) from error
    return actions


def claimed(mailbox: Mailbox, session: Session, actions: Sequence[Action]) -> tuple[Approved, ...]:
    """Take the approvals of all ``actions``, once, or of none.

    Raises:
        ToolCallWaits: one has ended before it was used. Others as :meth:`~..approvals.mailbox.Mailbox.claim`.
    """
    try:
        return mailbox.claim(session, actions)
    except ApprovalPending as error:
        raise _waits(actions) from error


def _waits(actions: Sequence[Action]) -> ToolCallWaits:
    return ToolCallWaits(
        "an approver must agree first: send the same again later",
        actions=tuple(action.name for action in actions),
        not_after=min(action.not_after for action in actions),
    )
