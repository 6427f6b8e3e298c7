import pytest
from tests.raising import raises_code

from affiant.secrets.names.source import LocalReference, VaultReference, parse_reference


@pytest.mark.parametrize(
    ("text", "reference"),
    [
        ("local:GITHUB_TOKEN", LocalReference("GITHUB_TOKEN")),
        ("vault:kv/team/cloud#token", VaultReference("kv", "team/cloud", "token")),
        ("vault:kv/a#b", VaultReference("kv", "a", "b")),
    ],
)
def test_a_reference_is_parsed_and_spelled_again(text: str, reference: object) -> None:
    assert parse_reference(text) == reference
    assert str(parse_reference(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        "", "GITHUB_TOKEN", "local:", "local:A B", "local:1A", "LOCAL:A", "env:HOME", "file:/etc/passwd",
        "vault:", "vault:kv#f", "vault:kv/#f", "vault:/kv/a#f", "vault:kv/a", "vault:kv/a#", "vault:kv/a#f#g",
        "vault:kv/../sys/seal#f", "vault:kv/./a#f", "vault:../a#f", "vault:kv//a#f", "vault:kv/a/#f",
        "vault:kv/a%2f..#f", "vault:kv/a?version=1#f", "vault:kv/a b#f", "vault:kv/a#f/../g", "vault:kv/.hidden#f",
        "vault:kv/a\n#f", "vault:kv/a#f\n", "vault:kv/ä#f", "vault:kv/a\\b#f", "vault:kv/" + "a/" * 16 + "a#f",
        "vault:kv/" + "a" * 129 + "#f",
    ],
)  # fmt: skip
def test_any_other_spelling_is_refused(text: str) -> None:
    with raises_code("secret.reference"):
        parse_reference(text)
