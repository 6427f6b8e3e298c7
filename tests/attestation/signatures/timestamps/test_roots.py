"""A trust file names authorities by their roots, in one form, or is refused."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.serialization import Encoding
from tests.attestation.story import trust
from tests.sigstore_authority.timestamps import TimestampAuthority as DatedAuthority

from affiant.attestation.encoding.binary_text import b64u
from affiant.attestation.signatures.timestamps.errors import AnchorSettingsInvalid
from affiant.attestation.signatures.timestamps.roots import certificate_in
from affiant.attestation.verdict.trust_file import TrustFileMalformed


def pem_of(authority: DatedAuthority) -> str:
    return authority.root.public_bytes(Encoding.PEM).decode()


def test_pem_and_der_name_the_same_root(dated: DatedAuthority) -> None:
    der = dated.root.public_bytes(Encoding.DER)
    for text in (pem_of(dated), b64u(der)):
        found = trust(tsa_roots=[{"value": {"certificate": text, "policy": "1.2.3"}}]).tsa_roots
        assert found is not None
        assert (found[0][1].certificate, found[0][1].policy) == (der, "1.2.3")
    assert certificate_in(der) == certificate_in(pem_of(dated).encode()) == der


def test_a_trust_file_that_names_no_authority_asks_for_none() -> None:
    assert trust().tsa_roots is None


@pytest.mark.parametrize(
    "value",
    [
        "certificate",
        {},
        {"certificate": 7},
        {"certificate": "AAAA"},
        {"certificate": "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"},
        {"policy": "1.2.3"},
        {"certificate": ..., "policy": "1.02"},
        {"certificate": ..., "policy": None},
        {"certificate": ..., "policy": "anyPolicy"},
        {"certificate": ..., "name": "x"},
        {"certificate": "twice"},
        {"certificate": "leaf"},
    ],
)
def test_what_is_no_root_is_refused(dated: DatedAuthority, value: object) -> None:
    texts = {
        ...: pem_of(dated),
        "twice": 2 * pem_of(dated),
        "leaf": dated.certificate.public_bytes(Encoding.PEM).decode(),
    }
    if isinstance(value, dict) and value.get("certificate") in texts:
        value = {**value, "certificate": texts[value["certificate"]]}
    with pytest.raises(TrustFileMalformed, match="timestamp authority"):
        trust(tsa_roots=[{"value": value}])


def test_an_empty_list_is_refused() -> None:
    with pytest.raises(TrustFileMalformed, match="empty list"):
        trust(tsa_roots=[])


def test_a_file_of_another_kind_is_no_certificate() -> None:
    for data in (b"", b"nothing", b"-----BEGIN KEY-----\n", b"-----\xff"):
        with pytest.raises(AnchorSettingsInvalid):
            certificate_in(data)
