"""What is listed as reachable is what the policy decides: all of it, and nothing else."""

from __future__ import annotations

from hypothesis import given
from tests.policy import policies as some
from tests.properties import thorough

from affiant.policy.canonical.hosts import covering_patterns
from affiant.policy.canonical.targets import METHODS, decoded_path, path_pattern
from affiant.policy.decision.compiled import compile_policy
from affiant.policy.decision.decide import Effect
from affiant.policy.decision.effective import effective_egress
from affiant.policy.decision.questions import EgressQuestion
from affiant.policy.diff.reachable import HostNames, Labels, Reach, reachable
from affiant.policy.diff.request_groups import Requests
from affiant.policy.model.profile import EgressDenial, EgressRule, Policy, TLSMode

MANY = thorough(60)


def listed(policy: Policy) -> tuple[Reach, ...]:
    return reachable(compile_policy(policy, asks=True).policy)


def says(reaches: tuple[Reach, ...], question: EgressQuestion) -> Effect:
    """What a reader of the list concludes about one request; it is in one group at most."""
    groups = [
        group
        for reach in reaches
        if _is_one_of(question.host, reach.names)
        and (question.port, question.scheme) == (reach.port, reach.scheme)
        for group in reach.requests
        if _is_in(question, group)
    ]
    assert len(groups) <= 1
    return groups[0].effect if groups else Effect.DENY


def _is_one_of(host: str, names: HostNames) -> bool:
    before = {
        Labels.NONE: host == names.name,
        Labels.ONE: host.partition(".")[2] == names.name,
        Labels.TWO_OR_MORE: host.partition(".")[2].endswith(f".{names.name}"),
        Labels.ONE_OR_MORE: host.endswith(f".{names.name}"),
    }
    named = any(pattern in names.other_than for pattern in covering_patterns(host))
    assert names.covers(host) == (before[names.labels] and not named)
    return names.covers(host)


def _is_in(question: EgressQuestion, group: Requests) -> bool:
    path = decoded_path(question.target or "/")
    return (
        (group.methods is None or question.method in group.methods)
        and (group.paths is None or any(path_pattern(each).covers(path) for each in group.paths))
        and not any(path_pattern(each.path).touches(path) for each in group.exceptions)
    )


@thorough(150)
@given(policy=some.policies(), question=some.egress)
def test_the_list_says_of_any_request_what_the_policy_decides(policy, question):
    decided = effective_egress(compile_policy(policy, asks=True), question)
    assert says(listed(policy), question) is decided.effect


@MANY
@given(policy=some.policies())
def test_the_sample_of_every_group_is_decided_as_the_list_says_by_its_rules(policy):
    compiled = compile_policy(policy, asks=True)
    for reach in listed(policy):
        for group in reach.requests:
            question = reach.sample(group)
            decided = effective_egress(compiled, question)
            assert decided.effect is group.effect is not Effect.DENY
            assert set(decided.rules) <= set(group.rules) <= set(reach.rules)
            assert says(listed(policy), question) is group.effect


@MANY
@given(policy=some.policies())
def test_what_is_seen_of_an_endpoint_is_what_the_policy_inspects(policy):
    compiled = compile_policy(policy, asks=True)
    for reach in listed(policy):
        if reach.tls is not None:
            assert compiled.tls_mode(reach.names.sample, reach.port) is reach.tls


@MANY
@given(policy=some.policies())
def test_an_exception_is_denied_by_the_rules_that_it_names(policy):
    compiled = compile_policy(policy, asks=True)
    for reach in listed(policy):
        for group in reach.requests:
            for exception in group.exceptions:
                target = exception.path.removesuffix("**").rstrip("/") + "/"
                question = EgressQuestion(
                    reach.names.sample, reach.port, reach.scheme, (group.methods or ("GET",))[0], target
                )
                decided = effective_egress(compiled, question)
                assert decided.effect is Effect.DENY
                assert set(exception.rules) <= set(decided.rules)


def test_a_wildcard_over_both_depths_is_one_entry_without_the_names_that_have_rules_of_their_own():
    rules = (EgressRule("**.b.c"), EgressDenial("a.b.c"), EgressRule("x.y.b.c", methods=("GET",)))
    (wide, named) = listed(Policy(egress=rules))
    assert (wide.names.pattern, wide.names.other_than) == ("**.b.c", ("a.b.c", "x.y.b.c"))
    assert (named.names.pattern, named.unrestricted) == ("x.y.b.c", True)


def test_a_path_that_narrows_nothing_is_no_narrowing():
    (reach,) = listed(Policy(egress=(EgressRule("a.b.c", methods=tuple(sorted(METHODS)), paths=("/**",)),)))
    assert reach.unrestricted
    assert (reach.requests[0].methods, reach.requests[0].paths) == (None, None)


def test_methods_or_paths_narrow_a_host():
    for rule in (EgressRule("a.b.c", methods=("GET",)), EgressRule("a.b.c", paths=("/v1/**",))):
        (reach,) = listed(Policy(egress=(rule,)))
        assert not reach.unrestricted


def test_a_denied_method_is_in_no_group():
    (reach,) = listed(Policy(egress=(EgressRule("a.b.c"), EgressDenial("a.b.c", methods=("DELETE",)))))
    (group,) = reach.requests
    assert set(group.methods or ()) == METHODS - {"DELETE"}
    assert reach.denials == ("egress/1",)


def test_what_is_passed_through_is_denied_whole_by_a_denial_of_a_part():
    allow = EgressRule("a.b.c", tls=TLSMode.PASSTHROUGH)
    assert len(listed(Policy(egress=(allow,)))) == 1
    assert listed(Policy(egress=(allow, EgressDenial("a.b.c", methods=("DELETE",))))) == ()


def test_the_longest_subtree_that_leaves_no_room_below_it_is_still_judged():
    path = "/" + "a" * 8189 + "/"  # with '**' the longest that a rule can write
    (reach,) = listed(Policy(egress=(EgressRule("a.b.c", paths=(path + "**",)),)))
    assert len(reach.requests[0].sample[1]) <= 8192
    assert (
        listed(Policy(egress=(EgressRule("a.b.c", paths=(path,)), EgressDenial("a.b.c", paths=(path,)))))
        == ()
    )
