"""The reader: a document means what it shows, or is refused with its line and column."""

import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties import thorough

from affiant.attestation.encoding.strict_yaml import INVISIBLE
from affiant.errors import AffiantError
from affiant.policy.canonical.strict_yaml import (
    MAX_BYTES,
    MAX_DEPTH,
    ListNode,
    MapNode,
    Node,
    ScalarNode,
    compose,
)


def plain(node: Node | None) -> object:
    match node:
        case ScalarNode(text):
            return text
        case ListNode(items):
            return [plain(item) for item in items]
        case MapNode(members):
            return {member.key.text: plain(member.value) for member in members}
        case _:
            return None


def refused(text: str | bytes) -> AffiantError:
    with pytest.raises(AffiantError) as caught:
        compose(text.encode() if isinstance(text, str) else text, source="p.yaml")
    return caught.value


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("a: 1\na: 2\n", "p.yaml:2:1"),
        ("x:\n  y:\n    k: 1\n    'k': 2\n", "p.yaml:4:5"),
        ("- {a: 1, b: 2, a: 3}\n", "p.yaml:1:16"),
        ("1: a\n'1': b\n", "p.yaml:2:1"),
    ],
)
def test_a_duplicate_key_at_any_level_is_refused_with_its_place(text: str, where: str) -> None:
    error = refused(text)
    assert (error.code, error.where) == ("policy.duplicate_key", where)


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("a: &x 1\n", "p.yaml:1:4"),
        ("&x a: 1\n", "p.yaml:1:1"),
        ("a: &x [1]\nb: *x\n", "p.yaml:1:4"),
        ("b: *x\n", "p.yaml:1:4"),
        ("a: {<<: {b: 1}}\n", "p.yaml:1:5"),
        ("a: !!str 1\n", "p.yaml:1:4"),
        ("a: !local {b: 1}\n", "p.yaml:1:4"),
        ("a: ! 1\n", "p.yaml:1:4"),
        ("a: !!python/object:os.system {}\n", "p.yaml:1:4"),
        ("a: 1\n---\nb: 2\n", "p.yaml:2:1"),
        ("a: 1\n...\n---\n...\n", "p.yaml:3:1"),
        ("%YAML 1.1\n---\na: 1\n", "p.yaml:1:1"),
        ("%TAG ! tag:x,2000:\n---\na: 1\n", "p.yaml:1:1"),
        ("? [a, b]\n: 1\n", "p.yaml:1:3"),
        ("a: |\n  text\n", "p.yaml:1:4"),
        ("a: >-\n  text\n", "p.yaml:1:4"),
    ],
)
def test_whatever_makes_a_document_mean_something_else_is_refused(text: str, where: str) -> None:
    error = refused(text)
    assert error.where == where
    assert error.code == "policy.yaml_feature"


def test_sixty_thousand_brackets_are_refused_and_not_followed() -> None:
    for text in ("[" * 60_000, "{a: " * 60_000, "- " * 60_000, "[" * 60_000 + "]" * 60_000):
        assert refused(text).code in {"policy.too_large", "policy.yaml"}


def test_the_deepest_level_is_a_limit_and_not_an_accident() -> None:
    assert compose(b"[" * MAX_DEPTH + b"]" * MAX_DEPTH, source="p.yaml") is not None
    assert refused("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1)).code == "policy.too_large"


def test_an_alias_bomb_is_refused_at_its_first_anchor() -> None:
    bomb = "a: &a [x]\n" + "".join(f"{n}: &{n} [*a, *a]\n" for n in "bcdefgh")
    assert refused(bomb).where == "p.yaml:1:4"


def test_too_many_bytes_or_values_are_refused() -> None:
    assert refused(b"#" * (MAX_BYTES + 1)).code == "policy.too_large"
    assert refused("[" + "a," * 200_000 + "]").code == "policy.too_large"


@pytest.mark.parametrize(
    "text",
    [
        "a: '" + "x" * 500_000,
        "{" + "a: b, " * 80_000,
        "? " * 200_000,
        "a: " + "'" * 200_001,
        "- - - " * 50_000,
    ],
)
def test_hostile_documents_are_refused_quickly(text: str) -> None:
    start = time.process_time()
    refused(text)
    assert time.process_time() - start < 5


@pytest.mark.parametrize(
    "text", ["no", "on", "0o17", "22:22", "1e3", "2024-01-01", "~", "null", ".inf", "0x1F", "+1", "1_000"]
)
def test_a_value_stays_the_text_it_is(text: str) -> None:
    assert plain(compose(f"a: {text}\n".encode(), source="p.yaml")) == {"a": text}


@pytest.mark.parametrize(
    "char", ["\ufeff", "\x00", "\t", "\r", "\x85", "\u200b", "\u202e", "\u2066", "\u2028", "\x07", "\u00ad"]
)
def test_a_character_that_cannot_be_seen_is_refused_wherever_it_stands(char: str) -> None:
    for text in (f"{char}a: 1\n", f"a: x{char}y\n", f"a: 1 # {char}\n", f"a:{char} 1\n"):
        assert refused(text).code == "policy.character"


@pytest.mark.parametrize(
    "escape", [r"\0", r"\t", r"\n", r"\u202e", r"\u200b", r"\x7f", r"\U000e0041", r"\N", r"\L"]
)
def test_an_escape_writes_no_character_that_cannot_be_seen(escape: str) -> None:
    assert refused(f'a: "x{escape}y"\n').code == "policy.character"


def test_every_invisible_category_of_unicode_is_covered() -> None:
    points = [chr(point) for point in range(0x110000) if chr(point) != "\n"]
    hidden = [char for char in points if unicodedata.category(char) in {"Cc", "Cf", "Cs", "Zl", "Zp"}]
    assert [hex(ord(char)) for char in hidden if INVISIBLE.search(char) is None] == []


def test_the_place_of_a_character_is_its_line_and_column() -> None:
    assert refused("a: 1\nbc: \u202e\n").where == "p.yaml:2:5"
    assert refused("\u202e").where == "p.yaml:1:1"


@pytest.mark.parametrize("data", [b"\xff\xfea\x00", b"a: \xc0\xae", b"a: \xed\xa0\x80", b"a\x00:\x00"])
def test_bytes_that_are_not_utf_8_are_refused(data: bytes) -> None:
    assert refused(data).code in {"policy.yaml", "policy.character"}


@pytest.mark.parametrize("data", [b"", b"\n\n", b"# nothing\n"])
def test_no_document_is_none(data: bytes) -> None:
    assert compose(data, source="p.yaml") is None


def test_a_profile_pasted_without_line_breaks_is_told_so(seed: bytes) -> None:
    lines = seed.decode().splitlines()
    for flat in (" ".join(lines), " ".join(line.strip() for line in lines[1:])):
        error = refused(flat)
        assert error.code == "policy.line_breaks"
        assert "line breaks are missing" in str(error)


def test_places_count_from_one_and_name_the_source() -> None:
    node = compose(b"a:\n  - x\n", source="p.yaml")
    assert isinstance(node, MapNode)
    (member,) = node.members
    assert isinstance(member.value, ListNode)
    assert str(member.value.items[0].mark) == "p.yaml:2:5"


@thorough(150)
@given(st.binary(max_size=200) | st.text("ab:-?[]{},&*!|>'\"#%@`\n ~<", max_size=80).map(str.encode))
def test_any_bytes_are_read_or_refused_with_a_place(data: bytes) -> None:
    try:
        compose(data, source="p.yaml")
    except AffiantError as error:
        assert error.code.startswith("policy.")
        assert error.where is not None
        assert error.where.startswith("p.yaml")


@thorough(100)
@given(
    st.recursive(
        st.text("abc01: -", min_size=1, max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", min_size=1), inner, max_size=3)
        ),
        max_leaves=8,
    )
)
def test_what_json_writes_is_read_back(value: object) -> None:
    import json

    assert plain(compose(json.dumps(value).encode(), source="p.yaml")) == value
