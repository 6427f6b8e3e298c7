"""What approvers sign, and a story in which a request waits for two of them.

A statement passes the points ``statement:<step>`` (its members), ``approver:<step>`` (the name of the key that it
shows) and ``pen:<step>`` (that of the key which signs).
"""

from __future__ import annotations

from typing import Any

from vectors.making.documents import START
from vectors.making.encoding import canonical, sha256_name
from vectors.making.keys import jwk, p256_key, thumbprint
from vectors.making.records import Members, Session, compact, fixed_header
from vectors.making.scripts import boot, finish, ids, start
from vectors.making.story import Story

__all__ = ["ANOTHER", "approval_record", "approvals", "intent", "statement"]

ANOTHER = sha256_name(b"affiant vectors: the bytes of another action")
"""What one approver denies."""

_ACTION = sha256_name(b"affiant vectors: the bytes of an action")
_TARGET = "POST https://api.invalid:443/v1/items"


def _approver(name: str) -> str:
    """The thumbprint of the approver's key."""
    return thumbprint(p256_key(f"approver {name}"))


def _normal_form() -> Members:
    """Of a profile in which two of three approvers must agree; as far as anybody reads it."""
    return {
        "semantics": "affiant.policy/1",
        "tools": [],
        "approval": {
            "everything": False,
            "methods": ["POST"],
            "approvers": sorted(_approver(name) for name in ("ann", "bob", "cem")),
            "quorum": 2,
            "ttl": 600,
        },
    }


def statement(story: Story, step: str, name: str, **changes: Any) -> Members:
    """``apr`` with the statement of an approver."""
    name = story.faults.through(f"approver:{step}", name)
    key = p256_key(f"approver {name}")
    said = {
        "typ": "affiant-approval/1",
        "act": _ACTION,
        "dec": "approve",
        "iat": START,
        "exp": START + 600,
        "via": "cli",
        "jwk": jwk(key),
        **changes,
    }
    said = story.faults.through(f"statement:{step}", said)
    pen = p256_key(f"approver {story.faults.through(f'pen:{step}', name)}")
    text = compact(pen, fixed_header("affiant-approval+jwt", thumbprint(key)), canonical(said))
    return {"dig": said["act"], "kid": thumbprint(key), "sig": text, "exp": said["exp"], "via": said["via"]}


def approval_record(story: Story, told: Session, step: str, apr: Members, *, agrees: bool = True) -> Any:
    """The gateway keeps what an approver said."""
    return story.gateway_says(
        step,
        "approval",
        {
            "act": {"end": "complete" if agrees else "refused", "typ": "approval"},
            "pol": story.policy(told, "allow" if agrees else "deny"),
            "apr": apr,
        },
        {"act": {"name": "egress", "arg": apr["dig"], "tgt": _TARGET}, "pol": {"rules": ["egress.api"]}},
        of=told,
    )


def intent(story: Story, told: Session, step: str, apr: Members, *kept: Any) -> Any:
    """The supervisor is about to send what was approved."""
    members = {"act": {"typ": "egress"}, "pol": story.policy(told), "ph": "intent", "apr": apr}
    return story.supervisor_says(
        told, step, "egress", members | {"par": ids(*kept)}, {"act": {"name": "api.invalid", "tgt": _TARGET}}
    )


def approvals(story: Story) -> None:
    """Two approvers agree to a request, which is sent; one denies another."""
    story.policies[0] = canonical(story.faults.through("normal form", _normal_form()))
    boot(story)
    told = start(story)
    _approved(story, told)
    story.before("approvals-done")
    finish(story, told, cseq=-1)


def _approved(story: Story, told: Session) -> None:
    """From the statements to the outcome."""
    denial = statement(story, "denial", "cem", act=ANOTHER, dec="deny")
    approval_record(story, told, "denial", denial, agrees=False)
    first = approval_record(story, told, "first-approval", statement(story, "first", "ann"))
    completing = statement(story, "second", "bob")
    second = approval_record(story, told, "second-approval", completing)
    begun = intent(story, told, "approved-intent", completing, first, second)
    outcome = {"act": {"end": "complete", "typ": "egress"}, "pol": story.policy(told), "ph": "outcome"}
    hidden = {"act": {"name": "api.invalid", "tgt": _TARGET, "out": sha256_name(b"created")}}
    story.supervisor_says(told, "approved-outcome", "egress", outcome | {"par": ids(begun)}, hidden)
