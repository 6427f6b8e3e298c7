"""Reads ``requires_human_approval``: what a person must approve first, and who may approve.

Approvers are keys, by thumbprint, and identities, by issuer and subject under the trusted root that stands beside them:
whose word an identity is, is a part of who may approve.
"""

from __future__ import annotations

import re
from typing import Final

from affiant.attestation.signatures.approvers.identities import ApproverIdentity
from affiant.errors import MalformedError
from affiant.policy.canonical.errors import (
    EmptyList,
    ValueRefused,
    WrongType,
    excerpt,
    located,
)
from affiant.policy.canonical.names import check_approver, check_issuer, check_methods, check_subject
from affiant.policy.canonical.strict_yaml import MapNode, Node, ScalarNode
from affiant.policy.model.profile import (
    APPROVAL_TTL,
    MAX_APPROVERS,
    Approval,
    Approver,
    check_entries,
    trusted_root_text,
)
from affiant.policy.normal_form import schema

__all__ = ["DURATION", "read_approval"]

DURATION: Final = re.compile(r"([1-9][0-9]{0,4})(s|m|h)\Z")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600}
_WHAT: Final = "'requires_human_approval'"


def read_approval(node: Node, *, trusted_root: str = "") -> tuple[Approval, frozenset[str]]:
    """True, false, or ``{everything, tools, egress, approvers, trusted_root, quorum, ttl}``; and the tools it names.

    Args:
        trusted_root: the baseline policy's, under which identities are judged where the profile has none of its own.
    """
    if isinstance(node, ScalarNode):
        return Approval(schema.boolean(node, what=_WHAT)), frozenset()
    found = schema.keys(node, what=_WHAT)
    if not found:
        raise WrongType(
            f"{_WHAT} names nothing", expected="true, false, or what needs approval and who gives it"
        )
    for name in ("trusted_root", "quorum", "ttl"):
        if name in found and "approvers" not in found:
            raise MalformedError(
                f"{name!r} needs 'approvers' beside it",
                code="policy.missing_key",
                where=str(schema.key_mark(node, name)),
                hint="If the baseline policy names them, repeat those of this profile",
            )
    approvers = _approvers(found["approvers"]) if "approvers" in found else ()
    if "trusted_root" in found:
        with located(found["trusted_root"].mark):
            trusted_root = trusted_root_text(schema.text(found["trusted_root"], what="'trusted_root'"))
    elif not any(isinstance(each, ApproverIdentity) for each in approvers):
        trusted_root = ""
    everything = "everything" in found and schema.boolean(found["everything"], what="'everything'")
    with located(node.mark), schema.at_member(found, node):
        approval = Approval(
            everything=everything,
            methods=_methods(found["egress"]) if "egress" in found else (),
            approvers=approvers,
            quorum=_quorum(found["quorum"]) if "quorum" in found else 1,
            ttl=_duration(found["ttl"]) if "ttl" in found else APPROVAL_TTL,
            trusted_root=trusted_root,
        )
    return approval, frozenset(schema.texts(found["tools"], what="'tools'") if "tools" in found else ())


def _approvers(node: Node) -> tuple[Approver, ...]:
    found = tuple(map(_approver, schema.items(node, what="'approvers'")))
    if not found:
        raise EmptyList(
            "'approvers' is empty", where=str(node.mark), hint="Add an entry, or leave the key out"
        )
    if len(found) > MAX_APPROVERS:
        raise ValueRefused(
            "too many approvers", expected=f"at most {MAX_APPROVERS}", found=len(found), where=str(node.mark)
        )
    return found


def _approver(item: Node) -> Approver:
    """A thumbprint, or ``{issuer, subject}``."""
    if not isinstance(item, MapNode):
        thumbprint = schema.text(item, what="an entry of 'approvers'")
        with located(item.mark):
            check_approver(thumbprint)
        return thumbprint
    said = schema.keys(item, what="an approver")
    for name in ("issuer", "subject"):
        schema.required(said, name, item, what="an approver")
    issuer = schema.checked(said["issuer"], check_issuer, what="'issuer'")
    return ApproverIdentity(issuer, schema.checked(said["subject"], check_subject, what="'subject'"))


def _methods(node: Node) -> tuple[str, ...]:
    methods = schema.checked_texts(node, lambda method: check_methods((method,)), what="'egress'")
    with located(node.mark):
        check_entries(methods)
    return methods


def _quorum(node: Node) -> int:
    quorum = schema.whole_number(node, what="'quorum'")
    with located(node.mark):
        Approval(quorum=quorum)
    return quorum


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
    seconds = int(match.group(1)) * _SECONDS[match.group(2)]
    with located(node.mark):
        Approval(ttl=seconds)
    return seconds
