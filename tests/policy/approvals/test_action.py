"""Actions and their cards: what is shown is what is hashed, all of it, and nothing that could mislead."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.policy.approvals.making import NOW, POLICY, SESSION, draft, nonce
from tests.properties import thorough

from affiant.attestation.encoding.binary_text import sha256_name
from affiant.errors import AffiantError
from affiant.policy.approvals.action import MAX_ACTION, Action, BoundPath, parse_action, tool_draft
from affiant.policy.approvals.errors import ActionMalformed, ActionUnshowable
from affiant.policy.approvals.prompt import card_lines, headline


def issued(**changes: object) -> Action:
    return draft(**changes).issue(nonce="n" * 21 + "A", made=NOW, not_after=NOW + 600)


def call(arguments: str, *paths: BoundPath) -> Action:
    made = tool_draft(
        session=SESSION,
        agent=None,
        policy=POLICY,
        rules=("tools/0",),
        tool="pay",
        server="bank",
        schema="sha256:" + "ab" * 32,
        arguments=arguments,
        paths=paths,
    )
    return made.issue(nonce="n" * 21 + "A", made=NOW, not_after=NOW + 600)


def test_an_action_is_its_bytes_and_its_name_their_sha256() -> None:
    action = issued()
    assert parse_action(action.raw) == action
    assert action.name == sha256_name(action.raw)
    assert (action.session, action.policy, action.plane) == (SESSION, POLICY, "egress")


def test_the_card_says_every_member() -> None:
    body = b'{"n": 1}\n{\\}'
    action = issued(body=body)
    assert list(card_lines(action)) == [
        f"action   {action.name}",
        f"session  {SESSION}",
        "agent    'dev'",
        f"policy   {POLICY}",
        "rules    'egress/0'",
        f"asked    2027-01-15 08:00:00 UTC ({NOW})   nonce {'n' * 21}A",
        f"until    2027-01-15 08:10:00 UTC ({NOW + 600})",
        "",
        "request  POST https://api.example.com/v1/x",
        "header   content-type: application/json",
        f"body     12 bytes, {sha256_name(body)}",
        '  | {"n": 1}',
        "  | {\\\\}",
        "secret   KEY in header:authorization, to api.example.com:443",
    ]


def test_the_content_of_a_path_is_shown_as_it_is_hashed() -> None:
    action = call('{"file":"/w/a"}', BoundPath("file", "/w/a", b"rm x\nuntil never\x0d"))
    assert action.members["paths"] == [
        {
            "argument": "file",
            "path": "/w/a",
            "sha256": sha256_name(b"rm x\nuntil never\r"),
            "size": 17,
            "text": "rm x\nuntil never\r",
        }
    ]
    assert list(card_lines(action))[-5:] == [
        '  | {"file":"/w/a"}',
        "path     'file': '/w/a'",
        f"content  17 bytes, {sha256_name(b'rm x' + bytes([10]) + b'until never' + bytes([13]))}",
        "  | rm x",
        "  | until never\\u000d",
    ]
    assert headline(action).endswith("with 33 bytes of text on 3 lines")
    for member, other in (
        ("sha256", sha256_name(b"")),
        ("size", 16),
        ("text", "rm y\nuntil never\r"),
        ("path", ""),
    ):
        (path,) = action.members["paths"]
        with pytest.raises(ActionMalformed):
            parse_action(changed(action, paths=[{**path, member: other}]))
    assert (
        call("{}", BoundPath("file", "/w/a", b"1")).name != call("{}", BoundPath("file", "/w/a", b"2")).name
    )
    for content in (b"\xff", b"\x00", b"x" * (MAX_ACTION + 1), b"x" * (MAX_ACTION - 100)):
        with pytest.raises(ActionUnshowable):
            call("{}", BoundPath("file", "/w/a", content))


def test_one_line_says_what_it_is_after_a_card_of_any_length() -> None:
    assert (
        headline(issued(body=b"a\nb")) == "POST https://api.example.com/v1/x, with 3 bytes of text on 2 lines"
    )
    assert headline(issued(body=b"")) == "POST https://api.example.com/v1/x, with 0 bytes of text on 0 lines"
    assert headline(call('{"a":1}')).endswith(", with 7 bytes of text on 1 lines")
    assert len(headline(issued(url="https://api.example.com/" + "x" * 9000))) < 250


def test_what_an_agent_writes_is_no_line_of_the_card_and_turns_nothing_around() -> None:
    hostile = "ok\nuntil    never\r\u202edrow\u200b \\u202e "
    lines = card_lines(issued(body=hostile.encode()))
    assert "  | until    never\\u000d\\u202edrow\\u200b \\\\u202e\\u0020" in lines
    assert all(line.isprintable() for line in lines)
    assert [line for line in lines if line.startswith("until")] == [lines[6]]


@pytest.mark.parametrize(
    "unseen",
    ["\u3164", "\u115f", "\u1160", "\uffa0", "\u034f", "\u17b4", "\u180b", "\u2800", "\ufe0f", "\U000e0101"],
)
def test_what_nobody_sees_is_written_out(unseen: str) -> None:
    assert unseen.isprintable(), "so Python does not tell"
    point = ord(unseen)
    escaped = f"\\u{point:04x}" if point <= 0xFFFF else f"\\U{point:08x}"
    assert card_lines(issued(body=f"pay{unseen}".encode()))[-2] == f"  | pay{escaped}"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("to \u05d0 100, 200", "to \\u05d0 100, 200"),  # a terminal would show 200 ,100
        ("\u0627\u0663", "\\u0627\\u0663"),
        ("ke\u0336ep", "ke\\u0336ep"),  # struck through
        ("a\u20dd", "a\\u20dd"),
        ("\u0301a", "\\u0301a"),  # would stand on the card's own line
        ("1\u0301", "1\\u0301"),
        ("a" + "\u0301" * 5, "a" + "\u0301" * 3 + "\\u0301" * 2),
        ("\\\u0301", "\\\\\\u0301"),
        ("Tie\u0302\u0301ng, \u0939\u093f\u0928\u094d\u0926\u0940, \u00e9", None),
    ],
)
def test_what_a_terminal_would_show_elsewhere_or_otherwise_is_written_out(
    text: str, line: str | None
) -> None:
    assert card_lines(issued(body=text.encode()))[-2] == f"  | {line or text}"


TEXT = st.text(st.sampled_from("ab\\u0 '\n\r\t|\u202e\u200b\u00e9,:\u0301\u05d0\u3164"), max_size=8)


@thorough(300)
@given(one=TEXT, other=TEXT)
def test_two_texts_never_have_one_card(one: str, other: str) -> None:
    first, second = (tuple(card_lines(call(text)))[1:] for text in (one, other))
    assert (first == second) == (one == other)


@pytest.mark.parametrize(
    "changes",
    [
        {"body": b"\xff\xfe"},
        {"body": b"a\x00b"},
        {"body": b"\x1b[2J"},
        {"body": "\x9b2J".encode()},
        {"body": b"x" * (MAX_ACTION + 1)},
        {"body": b"x" * (MAX_ACTION - 100)},
        {"headers": ((b"X-A", b"caf\xe9"),)},
        {"headers": ((b"X-A", b"a\tb"),)},
        {"url": "https://api.example.com/" + "x" * 17_000},
        {"rules": ("x" * 65,)},
    ],
)
def test_what_nobody_can_be_shown_cannot_be_asked_for(changes) -> None:
    with pytest.raises(ActionUnshowable):
        issued(**changes)


def changed(action: Action, **members: object) -> bytes:
    from affiant.attestation.encoding.canonical import canonical  # noqa: PLC0415

    return canonical({**action.members, **members})


def test_bytes_in_another_form_are_no_action() -> None:
    action = issued()
    request = dict(action.members["request"])
    body = dict(request["body"])
    drawing = {"text": "\x1b[2J", "sha256": sha256_name(b"\x1b[2J"), "size": 4}
    for raw in (
        b"",
        b"[]",
        json.dumps(dict(action.members)).encode(),
        action.raw + b" ",
        action.raw[:-1] + b',"typ":"affiant-action/1"}',
        changed(action, more=1),
        changed(action, plane="file"),
        changed(action, plane="tool"),
        changed(action, typ="affiant-action/2"),
        changed(action, not_after=NOW),
        changed(action, request={**request, "body": {**body, "text": "x"}}),
        changed(action, request={**request, "body": {**body, "size": 1}}),
        changed(action, request={**request, "body": {**body, "sha256": sha256_name(b"")}}),
        changed(action, request={**request, "body": drawing}),
        changed(call("{}"), call={**call("{}").members["call"], "arguments": "\x1b[2J"}),
        changed(action, request={**request, "headers": [["a: b", "c"]]}),
        changed(action, secrets=[{"name": "A in x", "place": "y", "to": "z"}]),
    ):
        with pytest.raises(ActionMalformed):
            parse_action(raw)


@thorough(200)
@given(st.integers(0, 10**6), st.integers(1, 255))
def test_any_changed_byte_is_another_action_or_none(at: int, by: int) -> None:
    action = issued()
    raw = bytearray(action.raw)
    raw[at % len(raw)] ^= by
    try:
        other = parse_action(bytes(raw))
    except AffiantError:
        return
    assert other.name != action.name
    assert card_lines(other) != card_lines(action)


def test_drafts_of_the_same_action_have_one_key_and_others_another() -> None:
    assert draft().key == draft().key
    assert draft().key != draft(body=b"{}").key
    assert draft().issue(nonce=nonce(), made=NOW, not_after=NOW + 1).name != issued().name
