"""What to ask for, read from a quote: a hint, in one spelling."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.attestation.quote.collateral.conftest import VECTORS, Simulated

from affiant.attestation.quote.collateral.errors import SettingsInvalid
from affiant.attestation.quote.collateral.wanted import Authority, Platform, platform_of
from affiant.attestation.tdx.pki.pck import PCKCA
from affiant.attestation.tdx.quote.errors import CertificateMalformed
from affiant.attestation.tdx.quote.quote import TDQuote, parse_quote


@pytest.fixture(scope="module")
def quote(simulated: Simulated) -> TDQuote:
    return parse_quote(simulated.quote())


def test_a_quote_names_its_platform(quote: TDQuote, simulated: Simulated) -> None:
    assert platform_of(quote) == simulated.asked


@pytest.mark.parametrize(
    ("name", "fmspc", "authority"),
    [
        ("phala_emr_v4", "b0c06f000000", Authority.PLATFORM),
        ("google_v5_emr", "90c06f000000", Authority.PLATFORM),
        ("gcp_cos113_v4", "00806f050000", Authority.PLATFORM),
    ],
)
def test_genuine_quotes_name_theirs(name: str, fmspc: str, authority: Authority) -> None:
    path = VECTORS / "quotes" / f"{name}.bin"
    if not path.is_file():
        pytest.skip("the TDX vectors (../shared/vectors/tdx) are not there")
    assert platform_of(parse_quote(path.read_bytes())) == Platform.named(fmspc, authority)


def test_authorities_and_their_certificates_name_each_other() -> None:
    for ca in PCKCA:
        assert Authority.of(ca).pck_ca is ca


def chain_of(quote: TDQuote, pem: bytes) -> TDQuote:
    return replace(quote, authentication=replace(quote.authentication, certification_data=pem))


def test_a_chain_of_neither_authority_names_no_platform(quote: TDQuote) -> None:
    blocks = quote.authentication.pck_chain.split(b"-----END CERTIFICATE-----\n")
    leaf, root = blocks[0], blocks[2]
    end = b"-----END CERTIFICATE-----\n"
    for pem in (leaf + end, leaf + end + root + end):
        with pytest.raises(SettingsInvalid, match="neither"):
            platform_of(chain_of(quote, pem))


def test_a_chain_that_cannot_be_read_is_refused(quote: TDQuote) -> None:
    with pytest.raises(CertificateMalformed):
        platform_of(chain_of(quote, b"no chain"))


def test_a_platform_is_spelled_in_lower_case() -> None:
    assert str(Platform.named("90C06F000000", Authority.PROCESSOR)) == "FMSPC 90c06f000000 (processor CA)"
