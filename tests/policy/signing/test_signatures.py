"""A signature over a profile file is about this file, this meaning and this floor, and about nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from affiant.attestation.signatures.profiles.errors import ProfileSignatureMalformed, ProfileSignatureOther
from affiant.attestation.signatures.profiles.statement import SignedProfiles, parse_profile_statement
from affiant.policy.loading.load import load_profiles
from affiant.policy.loading.profile_set import ProfileSet
from affiant.policy.signing.signatures import require_about, require_profile, signed_profiles

TEXT = b"floor: floor.yaml\nagent_configs:\n  dev: {tools: [run_tests]}\n  ops: {tools: [deploy]}\n"
FLOOR = b"tools: [{deny: rm}]\n"
OTHER_FLOOR = b"tools: [{deny: dd}]\n"
FILE = load_profiles(TEXT, floor=FLOOR)
SIGNED = signed_profiles(FILE)


def file(text: bytes = TEXT, floor: bytes | None = FLOOR) -> ProfileSet:
    return load_profiles(text, floor=floor)


def test_the_signed_file_is_the_file() -> None:
    require_about(SIGNED, file())
    require_about(parse_profile_statement(SIGNED.to_bytes()), file())
    assert SIGNED.source == FILE.source_digest and SIGNED.digest == FILE.digest
    assert len(SIGNED.profiles) == 2 and SIGNED.semantics == "affiant.policy/1"


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (file(floor=OTHER_FLOOR), "another baseline policy"),
        (file(TEXT.replace(b"floor: floor.yaml\n", b""), None), "another baseline policy"),
        (file(TEXT.replace(b"run_tests", b"run_shell")), "other profiles"),
        (file(TEXT.replace(b"ops", b"dev2")), "other profiles"),  # the same profiles under other names
        (file(TEXT.replace(b"  ops: {tools: [deploy]}\n", b"")), "other profiles"),
        (
            file(TEXT + b"  own: {tools: [deploy]}\n"),
            "other profiles",
        ),  # a profile more, with rules that are there
        (file(TEXT + b"# reviewed\n"), "comments or layout"),
        (file(TEXT.replace(b"{tools: [deploy]}", b'{"tools": [deploy]}')), "comments or layout"),
    ],
)
def test_a_signature_is_about_no_other_file(other: ProfileSet, words: str) -> None:
    with pytest.raises(ProfileSignatureOther, match=words):
        require_about(SIGNED, other)


def test_a_floor_whose_comments_were_changed_is_the_same_floor() -> None:
    require_about(SIGNED, file(floor=FLOOR + b"# why\n"))


def test_a_signature_is_of_one_version_of_the_meaning() -> None:
    later = replace(SIGNED, semantics="affiant.policy/2")
    with pytest.raises(ProfileSignatureOther, match="another version"):
        require_about(later, file())
    with pytest.raises(ProfileSignatureOther, match="another version"):
        require_profile(later, FILE.profile("dev").compiled, file_digest=FILE.source_digest)


def test_nothing_is_not_signed() -> None:
    with pytest.raises(ProfileSignatureMalformed):
        signed_profiles(load_profiles(b""))


@pytest.mark.parametrize("agent", ["dev", "ops"])
def test_each_profile_of_the_file_is_covered(agent: str) -> None:
    require_profile(SIGNED, FILE.profile(agent).compiled, file_digest=FILE.source_digest)


@pytest.mark.parametrize(
    ("signed", "words"),
    [
        (replace(SIGNED, profiles=("sha384:" + "0" * 96,)), "other profiles"),
        (replace(SIGNED, source="sha256:" + "0" * 64), "another file"),
        (replace(SIGNED, floor=None), "another baseline policy"),
        (replace(SIGNED, floor="sha384:" + "0" * 96), "another baseline policy"),
    ],
)
def test_a_profile_is_not_covered_by_a_signature_about_another(signed: SignedProfiles, words: str) -> None:
    with pytest.raises(ProfileSignatureOther, match=words):
        require_profile(signed, FILE.profile("dev").compiled, file_digest=FILE.source_digest)
