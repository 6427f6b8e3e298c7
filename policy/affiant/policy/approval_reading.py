"""``requires_human_approval``: what a person must approve first, and who may.

Approvers are keys, by thumbprint. An issuer and subject would be known by a token that somebody else verifies; nothing
here does, so they are refused.
"""

from __future__ import annotations

import re
from typing import Final

from affiant.policy import schema
from affiant.policy.profile import APPROVAL_TTL, Approval
from affiant.policy.refusals import MissingKey, NotEnforcedYet, PolicyConflict, WrongType, excerpt, located
from affiant.policy.strict_yaml import MapNode, Node, ScalarNode

__all__ = ["DURATION", "merged_approval", "read_approval"]

DURATION: Final = re.compile(r"([1-9][0-9]{0,4})(s|m|h)\Z")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600}
_KEYS: Final = ("everything", "tools", "egress", "approvers", "quorum", "ttl")
_WHAT: Final = "'requires_human_approval'"


def read_approval(node: Node) -> tuple[Approval, frozenset[str]]:
    """True, false, or ``{everything, tools, egress, approvers, quorum, ttl}``; the second value names the tools."""
    if isinstance(node, ScalarNode):
        return Approval(schema.boolean(node, what=_WHAT)), frozenset()
    found = schema.keys(node, _KEYS, what=_WHAT)
    if not found:
        raise WrongType(
            f"{_WHAT} names nothing", expected="true, false, or what needs approval and who gives it"
        )
    for name in ("quorum", "ttl"):
        if name in found and "approvers" not in found:
            raise MissingKey(
                f"{name!r} needs 'approvers' beside it",
                where=str(found[name].mark),
                hint="Where a floor names them, name those of this profile once more",
            )
    with located(node.mark):
        approval = Approval(
            everything="everything" in found and schema.boolean(found["everything"], what="'everything'"),
            methods=schema.texts(found["egress"], what="'egress'") if "egress" in found else (),
            approvers=_approvers(found["approvers"]) if "approvers" in found else (),
            quorum=schema.whole_number(found["quorum"], what="'quorum'") if "quorum" in found else 1,
            ttl=_duration(found["ttl"]) if "ttl" in found else APPROVAL_TTL,
        )
    return approval, frozenset(schema.texts(found["tools"], what="'tools'") if "tools" in found else ())


def merged_approval(own: Approval, floor: Approval) -> Approval:
    """What holds where a floor demands ``floor``: all that either demands, and whoever both let approve.

    Where the floor names approvers, a profile may name some of those and no others; without any of its own, all of
    the floor's may approve.

    Raises:
        PolicyConflict: the profile names another approver, or too few of them for the floor's quorum.
    """
    others = sorted(set(own.approvers) - set(floor.approvers)) if floor.approvers else []
    if others:
        raise PolicyConflict(
            "'requires_human_approval' names an approver whom the floor does not",
            found=others[0],
            hint="Leave 'approvers' out: those of the floor may approve; or name some of them",
        )
    named = [each for each in (own, floor) if each.approvers]
    return Approval(
        everything=own.everything or floor.everything,
        methods=(*own.methods, *floor.methods),
        approvers=named[0].approvers if named else (),
        quorum=max((each.quorum for each in named), default=1),
        ttl=min((each.ttl for each in named), default=APPROVAL_TTL),
    )


def _approvers(node: Node) -> tuple[str, ...]:
    for item in schema.items(node, what="'approvers'"):
        if isinstance(item, MapNode):
            raise NotEnforcedYet(
                "an approver by issuer and subject is known, but nothing verifies their tokens in this version",
                where=str(item.mark),
                hint="Name the approver's key by its thumbprint: affiant approvals keygen",
            )
    return schema.texts(node, what="'approvers'")


def _duration(node: Node) -> int:
    match = DURATION.match(node.text) if isinstance(node, ScalarNode) else None
    if match is None:
        shown = excerpt(node.text) if isinstance(node, ScalarNode) else "no value"
        raise WrongType(
            "wrong type",
            expected="a time such as 90s, 10m or 2h for 'ttl'",
            found=shown,
            where=str(node.mark),
        )
    return int(match.group(1)) * _SECONDS[match.group(2)]
