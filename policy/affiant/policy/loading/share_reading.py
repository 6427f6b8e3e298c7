"""Reads ``weight`` and ``priority`` of a profile."""

from __future__ import annotations

from collections.abc import Mapping

from affiant.policy.canonical.errors import located
from affiant.policy.canonical.strict_yaml import Node
from affiant.policy.model.share import NO_SHARE, PRIORITIES, Priority, Share
from affiant.policy.normal_form import schema

__all__ = ["read_priority", "read_share", "read_weight"]


def read_share(found: Mapping[str, Node]) -> Share:
    """The share that the sections of a profile say."""
    weight = read_weight(found["weight"]) if "weight" in found else NO_SHARE.weight
    return Share(weight, read_priority(found["priority"]) if "priority" in found else NO_SHARE.priority)


def read_weight(node: Node) -> int:
    """``weight``: a whole number.

    Raises:
        WrongType, ValueRefused: it is none, or out of range.
    """
    weight = schema.whole_number(node, what="'weight'")
    with located(node.mark):
        return Share(weight).weight


def read_priority(node: Node) -> Priority:
    """``priority``: one of three words."""
    return Priority(schema.one_of(node, tuple(each.value for each in PRIORITIES), what="'priority'"))
