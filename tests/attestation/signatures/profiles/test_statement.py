"""The statement says one thing about one file, in one way."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.attestation.signatures.profiles.conftest import SIGNED

from affiant.attestation.signatures.profiles.errors import ProfileSignatureMalformed
from affiant.attestation.signatures.profiles.statement import (
    MAX_STATEMENT,
    SignedProfiles,
    parse_profile_statement,
)

HEX64, HEX96 = (
    st.text("0123456789abcdef", min_size=64, max_size=64),
    st.text("0123456789abcdef", min_size=96, max_size=96),
)
DIGEST = HEX96.map("sha384:".__add__)
SIGNED_PROFILES = st.builds(
    SignedProfiles,
    source=HEX64.map("sha256:".__add__),
    digest=DIGEST,
    floor=st.none() | DIGEST,
    profiles=st.sets(DIGEST, min_size=1, max_size=4).map(sorted).map(tuple),
    semantics=st.just("affiant.policy/1"),
)


@given(SIGNED_PROFILES)
def test_what_was_written_is_read(signed: SignedProfiles) -> None:
    assert parse_profile_statement(signed.to_bytes()) == signed
    document = json.loads(signed.to_bytes())
    assert parse_profile_statement(json.dumps(document, indent=3).encode()) == signed
    assert document["subject"][0]["digest"]["sha256"] == signed.source.removeprefix("sha256:")


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.update(_type="https://in-toto.io/Statement/v0.1"),
        lambda d: d.update(predicateType="tag:affiant.dev,2026:publication/1"),
        lambda d: d.update(more=1),
        lambda d: d["subject"].append(d["subject"][0]),
        lambda d: d["subject"].clear(),
        lambda d: d["subject"][0].update(name="other"),
        lambda d: d["subject"][0]["digest"].update(sha512="0" * 128),
        lambda d: d["subject"][0]["digest"].update(sha256="A" * 64),
        lambda d: d["predicate"].update(note=1),
        lambda d: d["predicate"].pop("floor"),
        lambda d: d["predicate"].update(floor=""),
        lambda d: d["predicate"].update(semantics="affiant.policy/01"),
        lambda d: d["predicate"].update(semantics=1),
        lambda d: d["predicate"].update(digest="sha256:" + "0" * 64),
        lambda d: d["predicate"].update(profiles=[]),
        lambda d: d["predicate"]["profiles"].reverse(),
        lambda d: d["predicate"]["profiles"].append(d["predicate"]["profiles"][-1]),
        lambda d: d["predicate"].update(profiles=[1]),
    ],
)
def test_any_other_statement_is_refused(change: Callable[[dict[str, Any]], object]) -> None:
    document = json.loads(SIGNED.to_bytes())
    change(document)
    with pytest.raises(ProfileSignatureMalformed):
        parse_profile_statement(json.dumps(document).encode())


@pytest.mark.parametrize(
    "bad", [b"", b"{}", b"[]", b"null", b"{" * 5000, SIGNED.to_bytes() + b" " * MAX_STATEMENT]
)
def test_what_is_no_statement_is_refused(bad: bytes) -> None:
    with pytest.raises(ProfileSignatureMalformed):
        parse_profile_statement(bad)


def test_a_member_that_stands_twice_is_refused() -> None:
    twice = SIGNED.to_bytes().replace(b'"floor":', b'"floor":null,"floor":')
    with pytest.raises(ProfileSignatureMalformed):
        parse_profile_statement(twice)


def test_more_profiles_than_fit_are_not_signed() -> None:
    many = tuple(sorted(f"sha384:{number:096x}" for number in range(1000)))
    with pytest.raises(ProfileSignatureMalformed, match="too many profiles"):
        replace(SIGNED, profiles=many).to_bytes()
