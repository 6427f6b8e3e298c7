"""Who may do one thing: every agent is answered as its own policy decides where that is enforced."""

from __future__ import annotations

from hypothesis import given
from tests.policy import policies as some
from tests.properties import thorough

from affiant.policy.authority.who_can import may, who_can
from affiant.policy.decision.compiled import CompiledPolicy, compile_policy
from affiant.policy.decision.decide import Decision, Effect
from affiant.policy.decision.effective import effective_egress
from affiant.policy.decision.questions import EgressQuestion, ModelQuestion, Question, answer, parse_question
from affiant.policy.loading.load import load_profiles
from affiant.policy.model.profile import Scheme


def decided(policy: CompiledPolicy, question: Question) -> Decision:
    if isinstance(question, EgressQuestion):
        return effective_egress(policy, question)
    if isinstance(question, ModelQuestion):
        return policy.decide_model(question.name, attested=True)
    return answer(policy, question)


@thorough(80)
@given(
    policy=some.policies(),
    question=some.tools | some.models | some.paths | some.egress | some.connections,
)
def test_what_an_agent_may_is_what_its_policy_decides(policy, question):
    compiled = compile_policy(policy, asks=True)
    assert may(compiled, question) == decided(compiled, question)


@thorough(80)
@given(policy=some.policies(), asked=some.secrets)
def test_a_secret_may_be_used_only_where_its_own_plane_lets_it(policy, asked):
    compiled = compile_policy(policy, asks=True)
    question, _ = asked
    if may(compiled, question).effect is not Effect.DENY:
        assert answer(compiled, question).effect is not Effect.DENY
        connection = EgressQuestion(question.host, question.port, Scheme.HTTPS)
        assert effective_egress(compiled, connection).effect is not Effect.DENY


def test_every_agent_is_answered_in_the_order_of_the_profiles():
    profiles = load_profiles(
        b"agent_configs: {z: {tools: [x]}, a: {}, m: {tools: [x], requires_human_approval: true}}"
    )
    answers = {
        found.profile.name: found.decision.effect for found in who_can(profiles, parse_question("tool:x"))
    }
    assert answers == {"z": Effect.ALLOW, "a": Effect.DENY, "m": Effect.ASK}
    assert list(answers) == list(profiles.profiles)


def test_a_model_at_an_attested_upstream_only_is_said_to_be_so():
    profiles = load_profiles(b"agent_configs: {a: {models: [{name: big, upstream: attested}]}, b: {}}")
    by_name = {found.profile.name: found for found in who_can(profiles, parse_question("model:big"))}
    assert (by_name["a"].may, by_name["a"].only) == (True, "at an attested upstream")
    assert (by_name["b"].may, by_name["b"].only) == (True, "")


def test_a_tool_with_arguments_may_be_called_with_those_or_not_at_all():
    args = "{file: {under: /w}}"
    profiles = load_profiles(
        f"agent_configs: {{a: {{tools: [{{name: t, args: {args}}}], filesystem_access: read:/w}}, "
        f"b: {{tools: [{{name: t, args: {args}}}]}}}}".encode()
    )
    by_name = {found.profile.name: found for found in who_can(profiles, parse_question("tool:t"))}
    assert (by_name["a"].may, by_name["a"].only) == (True, "with arguments that its rule allows")
    assert (by_name["b"].may, by_name["b"].decision.reason) == (False, "tool_argument_refused")
    asked = parse_question('tool:t {"file": "/w/a"}')
    assert [found.may for found in who_can(profiles, asked)] == [found.may for found in by_name.values()]
