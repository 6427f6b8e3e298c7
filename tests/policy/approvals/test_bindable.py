"""Which rules for tools have calls that an approver can be shown whole."""

from __future__ import annotations

import pytest

from affiant.policy.approvals.bindable import bindable, every_bindable, paths_among, some_bindable
from affiant.policy.loading.load import load_profiles
from affiant.policy.model.profile import Policy, ToolRule

FOLDERS = ("/srv", "/w/deep")
RULES = {
    "{name: a}": (False, False, False),
    "{name: a, args: {}}": (True, True, True),
    "{name: a, args: {n: {max: 5}}}": (True, True, True),
    "{name: a, args: {n: any, h: {host: true}}}": (True, True, True),
    "{name: a, args: {n: any, p: {under: /w}}}": (False, True, True),
    "{name: a, args: {n: any, p: {under: /w/deep/er}}}": (False, True, True),
    "{name: a, args: {p: {under: /w/deeper}}}": (False, False, True),
    "{name: a, args: {p: {under: /w, optional: true}}}": (False, True, True),
    "{name: a, args: {p: {each: {under: /w}}}}": (False, True, True),
    "{name: a, args: {p: {each: {under: /other}}}}": (False, False, True),
    "{name: a, args: {p: {under: /w}, o: {under: /other}}}": (False, False, True),
    "{name: a, args: {p: {under: /w, write: true}}}": (False, False, False),
    "{name: a, args: {p: {each: {under: /w, write: true}}}}": (False, False, False),
}
"""Rule -> whether calls by it can be approved without folders, with these, and where nothing is known of a server."""


def policy(*rules: str) -> Policy:
    source = f"agent_configs: {{dev: {{tools: [{', '.join(rules)}]}}}}"
    return load_profiles(source.encode()).profile("dev").compiled.policy


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_binds_all_of_a_call_or_no_call_of_it_is_approved(rule: str) -> None:
    plain, held, somewhere = RULES[rule]
    for folders, expected in (((), plain), (FOLDERS, held)):
        assert every_bindable(policy(rule), ["tools/0"], folders) is expected
        assert some_bindable(policy(rule), ["tools/0"], folders) is expected
    (tool,) = policy(rule).tools
    assert isinstance(tool, ToolRule)
    assert bindable(tool) is somewhere


def test_what_one_of_several_rules_calls_a_path_is_one() -> None:
    rules = ("{name: a, args: {p: any, q: any}}", "{name: a, args: {p: {under: /w}, q: {each: {under: /w}}}}")
    arguments = {"q": ["/w/b", "/w/c"], "p": "/w/a"}
    of_both = paths_among(policy(*rules), ["tools/0", "tools/1"], arguments)
    assert of_both == [("p", "/w/a"), ("q[0]", "/w/b"), ("q[1]", "/w/c")]
    assert paths_among(policy(rules[0]), ["tools/0"], arguments) == []
    assert paths_among(policy(rules[1]), ["tools/0"], {"q": []}) == []


def test_of_several_rules_each_must_bind() -> None:
    both = policy("{name: a, args: {n: any}}", "{name: a, args: {p: {under: /w}}}")
    assert [every_bindable(both, rules) for rules in (["tools/0", "tools/1"], [], ["egress/0"])] == [
        False
    ] * 3
    assert some_bindable(both, ["tools/0", "tools/1"])
