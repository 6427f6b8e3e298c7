"""Which rules for tools have calls that an approver can be shown whole."""

from __future__ import annotations

import pytest

from affiant.policy.approvals.bindable import every_bindable, some_bindable
from affiant.policy.load import load_profiles
from affiant.policy.profile import Policy

RULES = {
    "{name: a}": False,
    "{name: a, args: {}}": True,
    "{name: a, args: {n: {max: 5}}}": True,
    "{name: a, args: {n: any, h: {host: true}}}": True,
    "{name: a, args: {n: any, p: {under: /w}}}": False,
    "{name: a, args: {p: {under: /w, optional: true}}}": False,
    "{name: a, args: {p: {each: {under: /w}}}}": False,
}


def policy(*rules: str) -> Policy:
    source = f"agent_configs: {{dev: {{tools: [{', '.join(rules)}]}}}}"
    return load_profiles(source.encode()).profile("dev").compiled.policy


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_binds_all_of_a_call_or_no_call_of_it_is_approved(rule: str) -> None:
    assert every_bindable(policy(rule), ["tools/0"]) is RULES[rule]
    assert some_bindable(policy(rule), ["tools/0"]) is RULES[rule]


def test_of_several_rules_each_must_bind() -> None:
    both = policy("{name: a, args: {n: any}}", "{name: a, args: {p: {under: /w}}}")
    assert [every_bindable(both, rules) for rules in (["tools/0", "tools/1"], [], ["egress/0"])] == [
        False
    ] * 3
    assert some_bindable(both, ["tools/0", "tools/1"])
