"""A document that a person writes means what it shows, or is refused at its place."""

from __future__ import annotations

import pytest

from affiant.attestation.encoding.strict_yaml import (
    PLAIN,
    ListNode,
    MapNode,
    ScalarNode,
    YAMLRefused,
    compose,
)


def test_every_value_is_text_with_its_place() -> None:
    node = compose(b"a: no\nb:\n  - 0x10\n  - 'x'\n", source="f.yaml", dialect=PLAIN)
    assert isinstance(node, MapNode)
    a, b = (member.value for member in node.members)
    assert isinstance(a, ScalarNode)
    assert (a.text, a.plain, str(a.mark)) == ("no", True, "f.yaml:1:4")
    assert isinstance(b, ListNode)
    assert [(item.text, item.plain) for item in b.items if isinstance(item, ScalarNode)] == [
        ("0x10", True),
        ("x", False),
    ]
    assert str(node.members[1].key.mark) == "f.yaml:2:1"


@pytest.mark.parametrize(
    ("text", "where", "says"),
    [
        (b"a: 1\na: 2", "f.yaml:2:1", "stands twice"),
        (b"a: &x 1", "f.yaml:1:4", "an anchor"),
        (b"a: [&x 1, *x]", "f.yaml:1:5", "an anchor"),
        (b"a: *x", "f.yaml:1:4", "an alias"),
        (b"a: !!str 1", "f.yaml:1:4", "a tag"),
        (b"<<: {a: 1}", "f.yaml:1:1", "a merge key"),
        (b"? [a]\n: 1", "f.yaml:1:3", "no plain name"),
        (b"a: |\n  text\n", "f.yaml:1:4", "block scalar"),
        (b"a: 1\n---\nb: 2", "f.yaml:2:1", "second document"),
        (b"%YAML 1.1\n---\na: 1", "f.yaml:1:1", "directive"),
        (b"a:\n\tb: 1", "f.yaml:2:1", "U+0009"),
        (b"a: 1\r\n", "f.yaml:1:5", "U+000D"),
        ("a: x\u202ey".encode(), "f.yaml:1:5", "U+202E"),
        (b'a: "x\\u202ey"', "f.yaml:1:4", "U+202E"),
        (b'a: "x\\ny"', "f.yaml:1:4", "U+000A"),
        (b"\xff", "f.yaml:1", "not UTF-8"),
        (b"a: [1", "f.yaml:2:1", "not YAML"),
        (b"[" * 60_000, "f.yaml:1:13", "nested too deep"),
        (b"- 1\n" * 30_000, "f.yaml:20000:3", "too many values"),
        (b"#" * (PLAIN.max_bytes + 1), "f.yaml", "too large"),
    ],
)
def test_what_could_mean_something_else_is_refused_at_its_place(text: bytes, where: str, says: str) -> None:
    with pytest.raises(YAMLRefused) as refused:
        compose(text, source="f.yaml", dialect=PLAIN)
    assert says in str(refused.value)
    assert refused.value.where == where
