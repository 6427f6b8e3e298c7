"""What may be published: what its own reader takes, and never a trust file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.attestation.tdx.conftest import RELEASE
from tests.attestation.tdx.policy.test_policy_file import SIMULATED
from tests.raising import raises_code

from affiant.attestation.release.manifest import reference_values
from affiant.attestation.signatures.sigstore.content import file_to_sign, require_readable
from affiant.attestation.signatures.sigstore.errors import SettingsInvalid
from affiant.attestation.signatures.sigstore.statement import MAX_CONTENT, FileKind, SignedFile
from affiant.errors import AffiantError, MalformedError

REFERENCE = reference_values(RELEASE, b"root key")
TRUST = Path(__file__).resolve().parents[4] / "docs" / "formats" / "vectors" / "trust.json"


def test_the_kind_is_the_files_own() -> None:
    assert file_to_sign("a.yaml", SIMULATED.encode()).kind is FileKind.APPRAISAL_POLICY
    assert file_to_sign("r.json", REFERENCE).kind is FileKind.REFERENCE_VALUES
    laid_out = json.dumps(json.loads(REFERENCE), indent=2).encode()
    assert file_to_sign("r.json", laid_out).content == laid_out


def test_a_trust_file_is_not_published() -> None:
    with raises_code("published.kind") as refused:
        file_to_sign("trust.json", TRUST.read_bytes())
    assert refused.value.code == "published.kind"


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (SIMULATED.replace("machines:", "machine:").encode(), "appraisal_policy.key"),
        (b"typ: affiant-appraisal/1\n", "appraisal_policy.key"),
        (b'{"typ":"affiant-reference-values/1"}', "reference.malformed"),
        (b'{"typ":"something else"}', "appraisal_policy.value"),
        (b"\x00\xff", "yaml.refused"),
    ],
)
def test_what_its_reader_refuses_is_not_published(content: bytes, code: str) -> None:
    with pytest.raises(MalformedError) as refused:
        file_to_sign("a.yaml", content)
    assert refused.value.code == code


def test_empty_and_huge_files_are_not_published() -> None:
    for content in (b"", b" " * (MAX_CONTENT + 1)):
        with pytest.raises(SettingsInvalid):
            file_to_sign("a.yaml", content)


def test_a_file_that_is_said_to_be_of_another_kind_is_refused() -> None:
    for kind, content in (
        (FileKind.REFERENCE_VALUES, SIMULATED.encode()),
        (FileKind.APPRAISAL_POLICY, REFERENCE),
    ):
        with pytest.raises(AffiantError):
            require_readable(SignedFile("a", kind, content))
