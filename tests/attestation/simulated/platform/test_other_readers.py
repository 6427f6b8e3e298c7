"""Quotes of the simulated platform, as google/go-tdx-guest reads them: chain, collateral and revocation lists."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from urllib.parse import quote as escaped

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from tests.attestation.simulated.conftest import MRCONFIGID, NOW
from tests.other_readers import go_reader

from affiant.attestation.release.boot import Image
from affiant.attestation.simulated.platform.pki import CertificateRole
from affiant.attestation.simulated.platform.platform import SimulatedPlatform
from affiant.attestation.tdx.tcb.collateral import Collateral

pytestmark = pytest.mark.slow

PCS = "https://api.trustedservices.intel.com"
"""Where the library looks for what a certificate does not name the place of; nothing is fetched from there."""


@pytest.fixture(scope="module")
def reader() -> Path:
    return go_reader("tdx_quote")


def lists_of(certificate: x509.Certificate) -> list[str]:
    points = certificate.extensions.get_extension_for_class(x509.CRLDistributionPoints).value
    return [name.value for point in points for name in point.full_name or ()]


def responses(platform: SimulatedPlatform, collateral: Collateral) -> Mapping[str, object]:
    """What a caching service would answer: the collateral, each part with the chain in its header."""

    def response(body: bytes, header: str | None = None, chain: bytes = b"") -> Mapping[str, object]:
        headers = {} if header is None else {header: [escaped(chain.decode("ascii"))]}
        return {"header": headers, "body": base64.b64encode(body).decode()}

    fmspc = platform.machine.fmspc.hex()
    (root_list,) = lists_of(platform.certificates.root)
    return {
        f"{PCS}/tdx/certification/v4/tcb?fmspc={fmspc}": response(
            collateral.tcb_info, "Tcb-Info-Issuer-Chain", collateral.tcb_info_issuer_chain
        ),
        f"{PCS}/tdx/certification/v4/qe/identity": response(
            collateral.qe_identity, "Sgx-Enclave-Identity-Issuer-Chain", collateral.qe_identity_issuer_chain
        ),
        f"{PCS}/sgx/certification/v4/pckcrl?ca=platform&encoding=der": response(
            collateral.pck_crl, "Sgx-Pck-Crl-Issuer-Chain", collateral.pck_crl_issuer_chain
        ),
        root_list: response(collateral.root_ca_crl),
    }


def judged(reader: Path, platform: SimulatedPlatform, quote: bytes) -> tuple[int, str]:
    """The exit code, and what the library said."""
    collateral = platform.collateral(NOW)
    question = {
        "quote": base64.b64encode(quote).decode(),
        "now": int((NOW + timedelta(hours=1)).timestamp()),
        "root": base64.b64encode(platform.certificates.root.public_bytes(Encoding.PEM)).decode(),
        "responses": responses(platform, collateral),
    }
    done = subprocess.run(
        [reader], input=json.dumps(question), capture_output=True, text=True, check=False, timeout=60
    )
    return done.returncode, done.stdout.strip()


def quote_of(platform: SimulatedPlatform) -> bytes:
    registers = platform.launch(Image.GATEWAY, mrconfigid=MRCONFIGID, mrtd=b"m" * 48, td_id=bytes(32))
    return platform.quote(registers, b"r" * 64)


def test_go_tdx_guest_accepts_a_simulated_quote_under_its_own_root(
    reader: Path, platform: SimulatedPlatform
) -> None:
    assert judged(reader, platform, quote_of(platform)) == (0, "")


def test_go_tdx_guest_rejects_what_is_wrong_with_one(
    reader: Path, platform: SimulatedPlatform, other_platform: SimulatedPlatform
) -> None:
    quote = quote_of(platform)
    changed = bytearray(quote)
    changed[48 + 520] ^= 1  # REPORTDATA
    assert judged(reader, platform, bytes(changed))[0] == 1
    assert judged(reader, other_platform, quote)[0] == 1
    for role, said in (
        (CertificateRole.PCK, "PCK Leaf certificate in PCK certificate chain was revoked"),
        (CertificateRole.PCK_ISSUER, "intermediate certificate in PCK certificate chain was revoked"),
    ):
        revoked = replace(platform, revoked=frozenset({role}))
        code, text = judged(reader, revoked, quote_of(revoked))
        assert (code, said in text) == (1, True), text
