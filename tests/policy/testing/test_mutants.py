"""Each mutant is wrong in one place: what it loosens it only loosens, and nothing that no profile may say is made."""

from __future__ import annotations

from hypothesis import given
from tests.policy import policies as some
from tests.policy.trials import profile
from tests.properties import thorough

from affiant.policy.decision.compiled import CompiledPolicy, compile_policy
from affiant.policy.decision.questions import parse_question
from affiant.policy.diff.differences import Direction, compare_profiles
from affiant.policy.loading.load import load_profiles
from affiant.policy.model.profile import Policy, ToolRule
from affiant.policy.testing.mutants import Mutant, mutants_of, mutated


def changes(sections: str, *asked: str) -> list[tuple[str | None, str]]:
    policy = loaded(sections)
    made = mutants_of(policy, [parse_question(text) for text in asked])
    return [(mutant.rule, mutant.change) for mutant in made if mutated(policy.policy, mutant) is not None]


def loaded(sections: str) -> CompiledPolicy:
    return load_profiles(f"agent_configs: {{dev: {{{sections}}}}}".encode()).profile("dev").compiled


@thorough(20)
@given(policy=some.policies())
def test_what_is_loosened_is_only_wider(policy: Policy):
    compiled = compile_policy(policy)
    for mutant in mutants_of(compiled, []):
        changed = mutated(compiled.policy, mutant)
        if mutant.put and changed is not None and not _asks_more(mutant):
            found = compare_profiles("dev", profile(compiled.policy), profile(changed))
            # two rules that become one have the room of one
            directions = {each.direction for each in found if each.plane not in ("tls", "limit")}
            assert directions <= {Direction.WIDENS}, mutant


def _asks_more(mutant: Mutant) -> bool:
    """A rule that asks for approval, and would now ask for it where it did not."""
    asks = any(isinstance(rule, ToolRule) and rule.approval for rule in mutant.put)
    return asks and mutant.change in ("at any server", "with any definition")


def test_each_kind_of_rule_is_dropped_and_loosened():
    sections = (
        "tools: [a, {name: b, approval: true}, {deny: c}],"
        "filesystem_access: ['read:/w', 'read-write:/v', 'none:/w/s'],"
        "network_egress: [{host: a.b.com, methods: [GET], paths: [/x, '/y/**']}, {deny: d.b.com}, 'allowed:e.b.com'],"
        "secrets_access: [{name: KEY, hosts: [a.b.com]}], models: [{name: big, upstream: attested}],"
        "requires_human_approval: {egress: [POST]}"
    )
    assert changes(sections) == [
        ("tools/0", "dropped"),
        ("tools/1", "dropped"),
        ("tools/1", "without approval"),
        ("tools/2", "dropped"),
        ("filesystem/0", "dropped"),
        ("filesystem/1", "dropped"),
        ("filesystem/1", "read becomes read-write"),
        ("filesystem/2", "dropped"),
        ("egress/0", "dropped"),
        ("egress/0", "any method"),
        ("egress/0", "any path"),
        ("egress/0", "all below /x"),
        ("egress/0", "every name under b.com"),
        ("egress/0", "any port"),
        ("egress/1", "dropped"),
        ("egress/1", "every name under b.com"),
        ("egress/1", "any port"),
        ("egress/2", "dropped"),
        ("secrets/0", "dropped"),
        ("secrets/0", "at every https host of the profile"),
        ("models/0", "dropped"),
        ("models/0", "at any upstream"),
        (None, "POST needs no approval"),
        (None, "any model may be called"),
    ]


def test_what_no_profile_may_say_is_no_mutant():
    private = "network_egress: [{host: db.b.com, address: 10.0.0.0/8}]"
    assert ("egress/0", "every name under b.com") not in changes(private)
    assert ("egress/0", "every name under com") not in changes("network_egress: 'allowed:b.com'")
    bound = "network_egress: [{host: a.b.com}, {host: c.b.com, tls: passthrough}],"
    bound += "secrets_access: [{name: KEY, hosts: [a.b.com]}]"
    assert ("secrets/0", "at every https host of the profile") not in changes(bound, "secret:KEY@c.b.com")


def test_any_port_is_every_one_that_a_test_asks_for():
    policy = loaded("network_egress: 'allowed:a.b.com'")
    asked = [parse_question("connect:a.b.com:22"), parse_question("connect:a.b.com:99999")]
    (mutant,) = [each for each in mutants_of(policy, asked) if each.change == "any port"]
    changed = mutated(policy.policy, mutant)
    assert changed is not None
    assert [rule.port for rule in changed.egress] == [443, 22, 8443, 8444]
