"""Finds tools whose calls both policies judge by the same rules, so that no call needs to be tried.

What decides about a call is the rules for the tool that fit its server and definition, whether everything needs
approval, and, where such a rule says that an argument is a path or a host, the plane of files or that of egress.
"""

from __future__ import annotations

from dataclasses import replace

from affiant.policy.canonical.tool_origin import ANY, Origin
from affiant.policy.decision.questions import ToolQuestion
from affiant.policy.model.arguments import Each, Host, Under
from affiant.policy.model.profile import Policy, ToolRule

__all__ = ["calls_judged_alike", "names_a"]


def calls_judged_alike(old: Policy, new: Policy, tool: ToolQuestion) -> bool:
    """Whether that is so, of a tool that neither policy denies by its name; False where it would have to be tried."""
    rules = _fitting(old, tool)
    if rules != _fitting(new, tool) or old.approval.everything != new.approval.everything:
        return False
    if any(names_a(rule, Under) for rule in rules) and old.filesystem != new.filesystem:
        return False
    egress = (old.egress, old.approval.methods) == (new.egress, new.approval.methods)
    return egress or not any(names_a(rule, Host) for rule in rules)


def names_a(rule: object, kind: type[Under | Host]) -> bool:
    """Whether ``rule`` is one for a tool that says that an argument of it, or each element of one, is of this kind."""
    arguments = rule.arguments if isinstance(rule, ToolRule) else None
    constraints = (argument.constraint for argument in arguments or ())
    return any(isinstance(each.item if isinstance(each, Each) else each, kind) for each in constraints)


def _fitting(policy: Policy, tool: ToolQuestion) -> frozenset[ToolRule]:
    """The rules for the tool that fit its origin, without what they say of it, and without limits."""
    return frozenset(
        replace(rule, server=None, schema=None, rate=())
        for rule in policy.tools
        if isinstance(rule, ToolRule) and rule.name == tool.name and _fits(rule, tool.origin)
    )


def _fits(rule: ToolRule, origin: Origin) -> bool:
    server = rule.server is None or origin.server in (rule.server, ANY)
    return server and (rule.schema is None or origin.schema in (rule.schema, ANY))
