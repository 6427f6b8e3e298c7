"""Azure's evidence as a document: one spelling, closed, and what went in comes out."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties import thorough
from tests.raising import raises_code

from affiant.attestation.encoding.canonical import canonical
from affiant.attestation.quote.judge.quote_file import read_quote_file
from affiant.attestation.quote.providers.base.errors import AzureEvidenceMalformed
from affiant.attestation.quote.providers.clouds.azure_document import (
    encode_azure_evidence,
    parse_azure_evidence,
)
from affiant.attestation.quote.providers.clouds.azure_vtpm import AzureVTPMEvidence, CollectedAzureEvidence

TAKEN = CollectedAzureEvidence(
    b"quote", AzureVTPMEvidence(b"report", b"attest", b"signature", {0: bytes(32), 23: b"\x07" * 32})
)
DOCUMENT = encode_azure_evidence(TAKEN)
MEMBERS = json.loads(DOCUMENT)


def test_what_went_in_comes_out() -> None:
    assert parse_azure_evidence(DOCUMENT) == TAKEN
    assert encode_azure_evidence(parse_azure_evidence(DOCUMENT)) == DOCUMENT


@pytest.mark.parametrize(
    "change",
    [
        {"typ": "affiant-azure-vtpm/2"},
        {"td_quote": "A"},
        {"td_quote": 7},
        {"pcrs": []},
        {"pcrs": {"24": "00" * 32}},
        {"pcrs": {"00": "00" * 32}},
        {"pcrs": {"-1": "00" * 32}},
        {"pcrs": {"0": "00" * 31}},
        {"pcrs": {"0": "AA" * 32}},
        {"pcrs": {"0": 7}},
        {"more": ""},
    ],
)
def test_another_form_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(AzureEvidenceMalformed):
        parse_azure_evidence(canonical({**MEMBERS, **change}))


@pytest.mark.parametrize("name", sorted(MEMBERS))
def test_a_missing_member_is_refused(name: str) -> None:
    with pytest.raises(AzureEvidenceMalformed):
        parse_azure_evidence(canonical({key: value for key, value in MEMBERS.items() if key != name}))


def test_another_spelling_of_the_same_is_refused() -> None:
    for data in (json.dumps(MEMBERS, indent=1).encode(), DOCUMENT + b"\n", b""):
        with pytest.raises(AzureEvidenceMalformed):
            parse_azure_evidence(data)


@thorough(100)
@given(st.binary(max_size=200))
def test_no_bytes_cause_anything_but_a_refusal(data: bytes) -> None:
    with pytest.raises(AzureEvidenceMalformed):
        parse_azure_evidence(data)


def test_it_is_no_plain_tdx_quote_and_the_refusal_names_it() -> None:
    with raises_code("quote.not_a_quote", match="Azure's vTPM evidence"):
        read_quote_file(DOCUMENT)
