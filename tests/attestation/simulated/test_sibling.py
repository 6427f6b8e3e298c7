"""A second machine under the same authorities: its own PCK, revoked alone."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import UTC, datetime

from tests.attestation.release_of_files import launched
from tests.raising import raises_code

from affiant.attestation.release.boot import Image
from affiant.attestation.simulated.platform.platform import SimulatedPlatform
from affiant.attestation.simulated.served.host import PlatformHost
from affiant.attestation.simulated.served.messages import CreateTD, Quote
from affiant.attestation.tdx.pki.roots import TrustRoots
from affiant.attestation.tdx.quote.quote import parse_quote
from affiant.attestation.tdx.tcb.collateral_verification import verify_collateral
from affiant.attestation.tdx.verify.verify import VerifiedQuote, verify_quote

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
FIRST = SimulatedPlatform.create(now=NOW, random_bytes=lambda size: bytes(range(size)))
SECOND = FIRST.sibling()
REVOKING = replace(FIRST, also_revoked=(SECOND.certificates.pck,))


def judged(platform: SimulatedPlatform, quote: bytes) -> VerifiedQuote:
    trust = TrustRoots.pinned([platform.root_spki()])
    collateral = verify_collateral(platform.collateral(NOW), now=NOW, trust=trust)
    return verify_quote(parse_quote(quote), collateral, now=NOW)


def host_quote(image: Image) -> bytes:
    host = PlatformHost(
        REVOKING, measure=lambda _: launched(), clock=lambda: NOW, random_bytes=os.urandom, sessions_on=SECOND
    )
    from affiant.attestation.encoding.binary_text import from_b64u

    return from_b64u(host.create_td(CreateTD(image, b"x" * 48)).answer(Quote(bytes(64)))["quote"])


def test_both_machines_are_judged_by_one_collateral() -> None:
    for machine in (FIRST, SECOND):
        registers = machine.launch(Image.SESSION, mrconfigid=b"x" * 48, mrtd=b"y" * 48, td_id=bytes(32))
        assert judged(FIRST, machine.quote(registers, bytes(64)))
    assert FIRST.certificates.pck != SECOND.certificates.pck
    assert FIRST.certificates.root == SECOND.certificates.root


def test_revoking_the_sessions_machine_leaves_the_gateways_alone() -> None:
    assert judged(REVOKING, host_quote(Image.GATEWAY))
    with raises_code("cert.revoked"):
        judged(REVOKING, host_quote(Image.SESSION))
