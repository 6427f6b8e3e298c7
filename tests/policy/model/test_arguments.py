"""Typed constraints on the arguments of tools: JSON's own types, whole tokens, whole segments, nothing converted."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.policy import policies as some
from tests.properties import thorough

from affiant.errors import AffiantError
from affiant.policy.canonical.errors import ArgumentsRefused
from affiant.policy.decision.compiled import compile_policy, parse_normal_form
from affiant.policy.decision.decide import Effect
from affiant.policy.diff.argument_atoms import MAX_CALLS
from affiant.policy.diff.atoms import Atoms
from affiant.policy.diff.differences import Direction, compare_profiles
from affiant.policy.loading.load import load_profiles
from affiant.policy.loading.profile_set import Profile
from affiant.policy.model.arguments import MAX_ARGUMENTS, parse_arguments

Make = Callable[..., Profile]

APPLY = (
    "tools: [{name: apply, args: {namespace: {one_of: [staging, 5, true]}, file: {under: /w/infra},"
    " replicas: {min: 1, max: 5, optional: true}, note: {max_len: 4, optional: true},"
    " to: {host: '*.b.com', optional: true},"
    " run: {argv: [[git, status], [ls]], optional: true}, tags: {each: {one_of: [a, b]}, max_items: 2, optional: true},"
    " branch: {pattern: 'release/[0-9]{1,3}', optional: true}, id: {pattern: '[a-z]+', max_len: 5, optional: true},"
    " refs: {each: {pattern: 'v[0-9]'}, optional: true}, free: {optional: true}}}],"
    " filesystem_access: 'read:/w', network_egress: [{host: '*.b.com'}]"
)
GOOD = {"namespace": "staging", "file": "/w/infra/a.yaml"}


def reason(profile: Profile, arguments: object, tool: str = "apply") -> str:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return profile.compiled.decide_call(tool, text).reason


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, "allowed"),
        ({"namespace": 5}, "allowed"),
        ({"namespace": True}, "allowed"),
        ({"namespace": "5"}, "tool_argument_refused"),
        ({"namespace": 1}, "tool_argument_refused"),
        ({"namespace": "Staging"}, "tool_argument_refused"),
        ({"namespace": ["staging"]}, "tool_argument_refused"),
        ({"namespace": None}, "tool_argument_refused"),
        ({"replicas": 1}, "allowed"),
        ({"replicas": 5}, "allowed"),
        ({"replicas": 6}, "tool_argument_refused"),
        ({"replicas": 0}, "tool_argument_refused"),
        ({"replicas": 5.0}, "tool_argument_refused"),
        ({"replicas": True}, "tool_argument_refused"),
        ({"replicas": "5"}, "tool_argument_refused"),
        ({"replicas": [5]}, "tool_argument_refused"),
        ({"replicas": {"n": 5}}, "tool_argument_refused"),
        ({"replicas": None}, "tool_argument_refused"),
        ({"note": "four"}, "allowed"),
        ({"note": "five5"}, "tool_argument_refused"),
        ({"note": 5}, "tool_argument_refused"),
        ({"note": ["four"]}, "tool_argument_refused"),
        ({"file": "/w/infra"}, "allowed"),
        ({"file": "/w/infra2/a"}, "tool_argument_refused"),
        ({"file": "/w/infra/../x"}, "tool_argument_refused"),
        ({"file": "/w/infra/.."}, "tool_argument_refused"),
        ({"file": "/w/infra/x/../y"}, "tool_argument_refused"),
        ({"file": "//w/infra/x"}, "tool_argument_refused"),
        ({"file": "/w/infra/"}, "tool_argument_refused"),
        ({"file": "/w/infra\\..\\x"}, "tool_argument_refused"),
        ({"file": ["/w/infra/x"]}, "tool_argument_refused"),
        ({"file": "/w/infra//x"}, "tool_argument_refused"),
        ({"file": "/w/infra/./x"}, "tool_argument_refused"),
        ({"file": "/w/infra/x\0"}, "tool_argument_refused"),
        ({"file": "/w/infra/cafe\u0301"}, "tool_argument_refused"),
        ({"file": "w/infra/x"}, "tool_argument_refused"),
        ({"to": "a.b.com"}, "allowed"),
        ({"to": "A.b.com"}, "tool_argument_refused"),
        ({"to": ["a.b.com"]}, "tool_argument_refused"),
        ({"to": "a.b.com."}, "tool_argument_refused"),
        ({"to": "b.com"}, "tool_argument_refused"),
        ({"to": "a.b.com.evil.net"}, "tool_argument_refused"),
        ({"run": ["git", "status"]}, "allowed"),
        ({"run": ["git", "status", "--exec=sh"]}, "tool_argument_refused"),
        ({"run": ["git status"]}, "tool_argument_refused"),
        ({"run": "git status"}, "tool_argument_refused"),
        ({"run": ["ls", "&&", "rm"]}, "tool_argument_refused"),
        ({"run": [["ls"]]}, "tool_argument_refused"),
        ({"run": {"0": "ls"}}, "tool_argument_refused"),
        ({"tags": ["a", "b"]}, "allowed"),
        ({"tags": []}, "allowed"),
        ({"tags": ["a", "b", "a"]}, "tool_argument_refused"),
        ({"tags": ["a", "c"]}, "tool_argument_refused"),
        ({"tags": "a"}, "tool_argument_refused"),
        ({"tags": [["a"]]}, "tool_argument_refused"),
        ({"tags": {"a": "b"}}, "tool_argument_refused"),
        ({"branch": "release/12"}, "allowed"),
        ({"branch": "release/1234"}, "tool_argument_refused"),
        ({"branch": "release/12\n"}, "tool_argument_refused"),
        ({"branch": "x release/12"}, "tool_argument_refused"),
        ({"branch": "release/12 x"}, "tool_argument_refused"),
        ({"branch": "release/\u0661"}, "tool_argument_refused"),
        ({"branch": 12}, "tool_argument_refused"),
        ({"branch": ["release/12"]}, "tool_argument_refused"),
        ({"id": "abcde"}, "allowed"),
        ({"id": "abcdef"}, "tool_argument_refused"),
        ({"refs": ["v1", "v2"]}, "allowed"),
        ({"refs": ["v1", "w2"]}, "tool_argument_refused"),
        ({"free": {"any": [1, None]}}, "allowed"),
        ({"more": 1}, "tool_argument_not_listed"),
    ],
)
def test_each_constraint(profile_of: Make, change: dict[str, object], expected: str) -> None:
    assert reason(profile_of(APPLY), {**GOOD, **change}) == expected


@pytest.mark.parametrize(
    "bad",
    [
        *("/w2", "/w/../x", "/w//x", "/w/./x", "/w/x\0", "w/x", "/w/..", 5, ["/w/x"], None),
        *(f"/w/..{slash}x" for slash in "\u2044\u2215\u29f8"),
        *("/w/%2e%2e/x", "/w/%2E./x", "/w/..%2fx", "/w/%252e%252e/x", "/w/%5c..%5cx", "/w/%c0%ae%c0%ae/x"),
        *("/w/%u002e%u002E/x", "/w/..%U2215x"),
        *("/w/\uff0e\uff0e/x", "/w/\u2025/x", "/w/..\uff0fx", "/w/..\uff3cx"),
    ],
)
def test_one_path_of_a_list_that_leads_out_refuses_the_call(profile_of: Make, bad: object) -> None:
    rules = (
        "tools: [{name: x, args: {files: {each: {under: /w}}}}], filesystem_access: ['read:/w', 'read:/w2']"
    )
    assert reason(profile_of(rules), {"files": ["/w/a", "/w/100%", "/w/\uff11\u65e5"]}, "x") == "allowed"
    assert reason(profile_of(rules), {"files": ["/w/a", bad, "/w/b"]}, "x") == "tool_argument_refused"


def test_in_commands_and_values_no_character_stands_for_others(profile_of: Make) -> None:
    profile = profile_of(
        "tools: [{name: run, args: {argv: {argv: [[git, 'log*'], [ls, '-?'], [ls, '[a-z]']]}}},"
        " {name: sh, args: {command: {one_of: ['git *', 'ls ?', 'rm {a,b}']}}}]"
    )
    for tokens in (["git", "log*"], ["ls", "-?"], ["ls", "[a-z]"]):
        assert reason(profile, {"argv": tokens}, "run") == "allowed"
    for tokens in (
        ["git", "log"],
        ["git", "log --all"],
        ["git", "log*", "x"],
        ["git log*"],
        ["ls", "-l"],
        ["ls", "a"],
        [],
    ):
        assert reason(profile, {"argv": tokens}, "run") == "tool_argument_refused"
    assert reason(profile, {"command": "git *"}, "sh") == "allowed"
    for command in ("git push", "git ", "ls a", "rm a", "git * ", "git *\n", "git *; rm x", "git * && rm x"):
        assert reason(profile, {"command": command}, "sh") == "tool_argument_refused"


@pytest.mark.parametrize(
    "more", [";", "&&", "||", "|", "&", ">x", "`id`", "$(id)", "${IFS}", "\n", "*", "~", "#", ""]
)
def test_what_a_shell_would_read_is_a_token_like_any_other(profile_of: Make, more: str) -> None:
    profile = profile_of("tools: [{name: run, args: {argv: {argv: [[ls, -l]]}}}]")
    assert reason(profile, {"argv": ["ls", "-l"]}, "run") == "allowed"
    for tokens in (
        ["ls", "-l", more],
        ["ls", more],
        [more, "ls", "-l"],
        ["ls", f"-l {more}"],
        [f"ls {more}", "-l"],
    ):
        assert reason(profile, {"argv": tokens}, "run") == "tool_argument_refused"


def test_an_argument_that_is_not_optional_must_be_there(profile_of: Make) -> None:
    assert reason(profile_of(APPLY), {"namespace": "staging"}) == "tool_argument_missing"


def test_without_args_any_arguments_are_allowed_and_with_none_named_no_argument(profile_of: Make) -> None:
    profile = profile_of("tools: [free, {name: bare, args: {}}]")
    assert reason(profile, {"x": 1}, "free") == "allowed"
    assert reason(profile, {}, "bare") == "allowed"
    assert reason(profile, "", "bare") == "allowed"
    assert reason(profile, {"x": 1}, "bare") == "tool_argument_not_listed"
    assert profile.compiled.decide_call("free", None).allowed
    assert profile.compiled.decide_call("bare", None).reason == "tool_arguments_malformed"


def test_paths_and_hosts_must_pass_their_own_planes_too(profile_of: Make) -> None:
    profile = profile_of(
        "tools: [{name: put, args: {file: {under: /w, write: true}}}, {name: get, args: {file: {under: /w}}},"
        " {name: send, args: {to: {host: '**.b.com'}}}, {name: all, args: {files: {each: {under: /w}}}}],"
        " filesystem_access: ['read:/w', 'read-write:/w/out', 'none:/w/out/s'], network_egress: 'allowed:a.b.com'"
    )
    assert reason(profile, {"file": "/w/x"}, "get") == "allowed"
    assert reason(profile, {"file": "/w/x"}, "put") == "path_read_only"
    assert reason(profile, {"file": "/w/out/x"}, "put") == "allowed"
    assert reason(profile, {"file": "/w/out/s/x"}, "get") == "path_carved_out"
    assert reason(profile, {"to": "a.b.com"}, "send") == "allowed"
    assert reason(profile, {"to": "c.b.com"}, "send") == "host_not_listed"
    assert reason(profile, {"files": ["/w/a", "/w/out/s"]}, "all") == "path_carved_out"


def test_a_host_that_needs_approval_is_none_that_a_tool_may_be_given(profile_of: Make) -> None:
    profile = profile_of(
        "tools: [{name: send, args: {to: {host: '*.b.com'}}}], requires_human_approval: {egress: [POST]},"
        " network_egress: ['allowed:a.b.com', {host: p.b.com, tls: passthrough}]"
    )
    assert reason(profile, {"to": "a.b.com"}, "send") == "allowed"
    assert reason(profile, {"to": "p.b.com"}, "send") == "approval_no_approver"


def test_several_rules_for_one_tool_are_alternatives(profile_of: Make) -> None:
    profile = profile_of(
        "tools: [{name: x, args: {a: {const: 1}, b: {const: 1}}}, {name: x, args: {a: {const: 2}, b: {const: 2}}}]"
    )
    assert reason(profile, {"a": 1, "b": 1}, "x") == reason(profile, {"a": 2, "b": 2}, "x") == "allowed"
    assert reason(profile, {"a": 1, "b": 2}, "x") == "tool_argument_refused"


def test_a_denial_of_the_tool_wins_over_any_arguments(profile_of: Make) -> None:
    assert reason(profile_of("tools: [{name: x, args: {a: any}}, {deny: x}]"), {"a": 1}, "x") == "tool_denied"


def test_only_calls_that_need_approval_ask_for_it(profile_of: Make) -> None:
    profile = profile_of(
        "tools: [{name: x, args: {n: {max: 5}}}, {name: x, approval: true, args: {n: {min: 4}}}]"
    )
    compiled = compile_policy(profile.compiled.policy, asks=True)
    effects = [compiled.decide_call("x", json.dumps({"n": n})).effect for n in (1, 4, 9)]
    assert effects == [Effect.ALLOW, Effect.ASK, Effect.ASK]


# -- what a call is written as -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1, "a": 1}',
        '{"a": {"b": 1, "b": 2}}',
        '{"a": NaN}',
        '{"a": Infinity}',
        '{"a": 1e999}',
        '{"a": 9007199254740993}',
        '{"a": ' + "9" * 5000 + "}",
        "[1]",
        '"a"',
        "null",
        "{",
        '{"a": 1} {}',
        "{'a': 1}",
        '{"a": "' + "x" * MAX_ARGUMENTS + '"}',
        '{"a": ' + "[" * 5000 + "]" * 5000 + "}",
        '{"a": ' + "[" * 40 + "]" * 40 + "}",
        '{"a": "\ud800"}',
    ],
)
def test_what_two_readers_could_read_otherwise_is_denied_whatever_the_rule(
    profile_of: Make, text: str
) -> None:
    with pytest.raises(ArgumentsRefused):
        parse_arguments(text)
    assert reason(profile_of("tools: [x]"), text, "x") == "tool_arguments_malformed"


def padded(size: int, *, before: str, fill: str, after: str) -> str:
    """Arguments of ``size`` bytes, of which the last is refused."""
    rest = json.dumps({**GOOD, "replicas": 6})[1:]
    return before + fill * (size - len(before + after + rest)) + after + rest


@pytest.mark.parametrize("size", [16 * 1024, MAX_ARGUMENTS])
@pytest.mark.parametrize(
    "padding",
    [
        {"before": '{"free": "', "fill": "x", "after": '", '},
        {"before": '{"free": {"a": ["', "fill": "x", "after": '"]}, '},
        {"before": "{", "fill": " ", "after": ""},
    ],
    ids=["text", "nested", "white space"],
)
def test_an_offending_value_after_much_padding_is_found(
    profile_of: Make, padding: dict[str, str], size: int
) -> None:
    profile, text = profile_of(APPLY), padded(size, **padding)
    assert len(text) == size
    assert reason(profile, text.replace('"replicas": 6', '"replicas": 5')) == "allowed"
    assert reason(profile, text) == "tool_argument_refused"
    assert reason(profile, padded(MAX_ARGUMENTS + 1, **padding)) == "tool_arguments_malformed"


@thorough(150)
@given(
    text=st.text(max_size=60)
    | st.recursive(
        st.integers() | st.text(max_size=3) | st.floats() | st.none(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    ).map(json.dumps)
)
def test_no_text_does_more_than_be_decided(profile_of: Make, text: str) -> None:
    assert profile_of(APPLY).compiled.decide_call("apply", text).effect is Effect.DENY


# -- how rules are written ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "code"),
    [
        ("{a: {one_of: []}}", "policy.empty_list"),
        ("{a: {one_of: x}}", "policy.wrong_type"),
        ("{a: {oneof: [x]}}", "policy.unknown_key"),
        ("{a: {min: 5, max: 1}}", "policy.value"),
        ("{a: {max: '5'}}", "policy.wrong_type"),
        ("{a: {max: 1.5}}", "policy.wrong_type"),
        ("{a: {max: 99999999999999999999}}", "policy.wrong_type"),
        ("{a: {max: 9007199254740993}}", "policy.value"),
        ("{a: {max_len: 0}}", "policy.value"),
        ("{a: {under: w}}", "policy.path"),
        ("{a: {under: /}}", "policy.path"),
        ("{a: {under: '/w/*'}}", "policy.path"),
        ("{a: {under: '/w/%41'}}", "policy.path"),
        ("{a: {under: /w/\u2026}}", "policy.path"),
        ("{a: {under: /w/a\uff0fb}}", "policy.path"),
        ("{a: {each: {under: '/w/%2e'}}}", "policy.path"),
        ("{a: {host: '*.com'}}", "policy.host"),
        ("{a: {one_of: [x], max: 1}}", "policy.wrong_type"),
        ("{a: {max: 1, write: true}}", "policy.wrong_type"),
        ("{a: {max: 1, max_items: 2}}", "policy.wrong_type"),
        ("{a: {each: {argv: [[x]]}}}", "policy.unknown_key"),
        ("{a: {each: {}}}", "policy.wrong_type"),
        ("{a: {argv: [ls]}}", "policy.wrong_type"),
        ("{a: {argv: [[]]}}", "policy.empty_list"),
        ("{a: everything}", "policy.value"),
        ("{'a b': any}", "policy.name"),
        ("[a]", "policy.wrong_type"),
        ("{a: {pattern: '.*'}}", "policy.value"),
        ("{a: {pattern: '[a-z]*'}}", "policy.value"),
        ("{a: {pattern: '[a-z]{3}', max_len: 2}}", "policy.value"),
        ("{a: {pattern: '[a-z]{3}', max_len: 0}}", "policy.value"),
        ("{a: {pattern: x, const: x}}", "policy.wrong_type"),
        ("{a: {pattern: [x]}}", "policy.wrong_type"),
        ("{a: {each: {pattern: '(a|b)*a(a|b){12}', max_len: 20}}}", "policy.value"),
    ],
)
def test_a_constraint_that_is_none_is_refused_with_its_place(profile_of: Make, args: str, code: str) -> None:
    with pytest.raises(AffiantError) as refusal:
        profile_of(f"tools: [{{name: x, args: {args}}}]")
    assert refusal.value.code == code
    assert (refusal.value.where or "").startswith("profiles.yaml:1:")


def test_spelling_and_order_change_no_digest_and_every_type_does(profile_of: Make) -> None:
    def digest(args: str) -> str:
        return profile_of(f"tools: [{{name: x, args: {args}}}]").digest

    assert digest("{a: {one_of: [x, y, x]}, b: any}") == digest("{b: any, a: {one_of: [y, x]}}")
    assert digest("{a: {const: x}}") == digest("{a: {one_of: [x]}}")
    assert len({digest(f"{{a: {{const: {value}}}}}") for value in ("1", "'1'", "true", "'true'")}) == 4
    assert digest("{a: any}") == digest("{a: {}}") != digest("{a: {optional: true}}")
    assert profile_of("tools: [x]").digest != digest("{}")


@pytest.mark.parametrize(
    "text",
    [
        "no",
        "on",
        "yes",
        "off",
        "0o17",
        "017",
        "0x1F",
        "22:22",
        "1e3",
        "2024-01-01",
        "1_000",
        "+1",
        ".5",
        "~",
        "null",
    ],
)
def test_a_value_that_yaml_would_change_stays_text(profile_of: Make, text: str) -> None:
    args = f"{{a: {{one_of: [{text}]}}, b: {{argv: [[git, {text}]]}}, c: {{const: {text}}}}}"
    profile = profile_of(f"tools: [{{name: x, args: {args}}}]")
    meant = {"a": text, "b": ["git", text], "c": text}
    assert reason(profile, meant, "x") == "allowed"
    for other in (True, False, None, 0, 1, 15, 17, 31, 1000, 1342, 0.5):
        for name in meant:
            assert reason(profile, {**meant, name: other}, "x") == "tool_argument_refused"


@pytest.mark.parametrize("values", ["[1, true]", "[true, 1]", "['1', 1, true, 'true']"])
def test_values_that_python_calls_equal_stay_apart(profile_of: Make, values: str) -> None:
    profile = profile_of(f"tools: [{{name: x, args: {{a: {{one_of: {values}}}}}}}]")
    again = parse_normal_form(profile.normal_form)
    assert again.digest == profile.digest
    assert reason(profile, {"a": 1}, "x") == reason(profile, {"a": True}, "x") == "allowed"


def test_two_rules_that_differ_only_in_a_type_are_two_rules(profile_of: Make) -> None:
    profile = profile_of("tools: [{name: x, args: {a: {const: 1}}}, {name: x, args: {a: {const: true}}}]")
    assert len(profile.policy.tools) == len(parse_normal_form(profile.normal_form).policy.tools) == 2
    assert reason(profile, {"a": True}, "x") == reason(profile, {"a": 1}, "x") == "allowed"


def test_the_normal_form_is_read_back(profile_of: Make) -> None:
    profile = profile_of(APPLY)
    assert parse_normal_form(profile.normal_form).policy == profile.compiled.policy


def test_the_tests_of_a_profile_may_name_arguments(profile_of: Make) -> None:
    rules = "tools: [{name: x, args: {n: {max: 5}}}]"
    profile_of(rules + ", tests: [{allow: {tool: x, args: {n: 5}}}, {deny: {tool: x, args: {n: 6}}}]")
    with pytest.raises(AffiantError, match="wants deny"):
        profile_of(rules + ", tests: [{deny: {tool: x, args: {n: 5}}}]")


def test_patterns_of_one_meaning_are_no_difference_and_others_are_told_with_a_call(profile_of: Make) -> None:
    def differences(old: str, new: str) -> list[tuple[str, str]]:
        before, after = (profile_of(f"tools: [{{name: x, args: {{a: {each}}}}}]") for each in (old, new))
        return [(str(each.direction), each.request) for each in compare_profiles("dev", before, after)]

    assert differences("{pattern: '(a|b)c'}", "{pattern: '[ab]c'}") == []
    assert differences("{pattern: '[ab]'}", "{one_of: [a, b]}") == []
    assert differences("{pattern: 'a{1,4}'}", "{pattern: 'a+', max_len: 4}") == []
    assert differences("{pattern: 'v[0-9]'}", "{pattern: 'v[0-9]{1,2}'}") == [
        ("widens", 'tool:x {"a": "v00"}')
    ]
    assert differences("{pattern: '[a-z]{1,40}'}", "{pattern: '[a-y]{1,40}'}") == [
        ("narrows", 'tool:x {"a": "z"}')
    ]
    assert [each for each, _ in differences("{max_len: 3}", "{pattern: '[ -~]{0,3}'}")] == ["narrows"]


# -- compared ----------------------------------------------------------------------------------------------------------


@thorough(60)
@given(old=some.tool_rules(), new=some.tool_rules(), call=some.calls)
def test_a_call_on_which_two_policies_differ_is_told(old: str, new: str, call: str) -> None:
    before, after = (
        load_profiles(
            f"agent_configs: {{dev: {{{rules}, filesystem_access: [read:/w, none:/w/s]}}}}".encode()
        ).profile("dev")
        for rules in (old, new)
    )
    found = [each for each in compare_profiles("dev", before, after) if each.plane in ("call", "tool")]
    if any(each.direction is Direction.CHANGES for each in found):
        return
    ranks = [
        _RANK[compile_policy(each.compiled.policy, asks=True).decide_call("x", call).effect]
        for each in (before, after)
    ]
    if ranks[1] > ranks[0]:
        assert any(each.direction is Direction.WIDENS for each in found)
    if ranks[1] < ranks[0]:
        assert any(each.direction is Direction.NARROWS for each in found)


_RANK = {Effect.DENY: 0, Effect.ASK: 1, Effect.ALLOW: 2}


def test_more_calls_than_are_compared_count_as_wider(profile_of: Make) -> None:
    args = ", ".join(f"a{n}: {{one_of: [{', '.join(f'v{m}' for m in range(20))}]}}" for n in range(6))
    before = profile_of(f"tools: [{{name: x, args: {{{args}}}}}]")
    after = profile_of(f"tools: [{{name: x, args: {{{args.replace('v19', 'w19')}}}}}]")
    (found,) = compare_profiles("dev", before, after)
    assert found.direction is Direction.CHANGES and found.direction.is_wider
    assert Atoms(before.compiled.policy, after.compiled.policy).calls("x") is None
    assert MAX_CALLS < 20**6
