from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from tests.attestation.release_of_files import launched
from tests.attestation.simulated.conftest import NOW, counting_bytes

from affiant.attestation.encoding.canonical import canonical
from affiant.attestation.release.boot import Image, boot_registers
from affiant.attestation.simulated.platform.errors import PlatformFullError, RegisterError
from affiant.attestation.simulated.platform.platform import SimulatedPlatform
from affiant.attestation.simulated.served.host import PlatformHost
from affiant.attestation.simulated.served.messages import (
    CreateTD,
    Extend,
    GetCollateral,
    GetStatus,
    Quote,
    Report,
)
from affiant.attestation.tdx.pki.roots import TrustRoots
from affiant.attestation.tdx.tcb.collateral import parse_collateral
from affiant.attestation.tdx.tcb.collateral_verification import verify_collateral

LAUNCH = CreateTD(Image.SESSION, b"c" * 48)


class Installed:
    """Files that change, and a clock that moves."""

    mrtd = b"m" * 48
    now: datetime = NOW


@pytest.fixture
def installed() -> Installed:
    return Installed()


@pytest.fixture
def host(platform: SimulatedPlatform, installed: Installed) -> PlatformHost:
    return PlatformHost(
        platform,
        measure=lambda _: launched(installed.mrtd),
        clock=lambda: installed.now,
        random_bytes=counting_bytes("host"),
        max_tds=3,
    )


def test_a_td_starts_with_what_the_launcher_and_the_installation_say(host: PlatformHost) -> None:
    registers = host.create_td(LAUNCH).registers
    assert (registers.mrconfigid, registers.mrtd) == (LAUNCH.mrconfigid, b"m" * 48)
    assert registers.rtmrs == boot_registers(Image.SESSION)


def test_the_installation_is_measured_at_each_launch(host: PlatformHost, installed: Installed) -> None:
    before = host.create_td(LAUNCH)
    installed.mrtd = b"n" * 48
    assert host.create_td(LAUNCH).registers.mrtd == b"n" * 48
    assert before.registers.mrtd == b"m" * 48


def test_no_two_tds_have_one_id(host: PlatformHost) -> None:
    assert len({host.create_td(LAUNCH).registers.td_id for _ in range(3)}) == 3


def test_the_number_of_tds_is_bounded_and_freed(host: PlatformHost) -> None:
    for _ in range(3):
        host.create_td(LAUNCH)
    with pytest.raises(PlatformFullError):
        host.create_td(LAUNCH)
    host.end_td()
    host.create_td(LAUNCH)
    assert host.answer(GetStatus()) == {"tds": 3, "tds_max": 3}


def test_an_extension_reaches_one_td_only(host: PlatformHost) -> None:
    one, two = host.create_td(LAUNCH), host.create_td(LAUNCH)
    one.answer(Extend(3, b"d" * 48))
    assert one.registers.rtmrs[3] != bytes(48)
    assert two.registers.rtmrs[3] == bytes(48)


@pytest.mark.parametrize("rtmr", [0, 1, 2, 4, -1])
def test_a_refused_extension_leaves_the_registers(host: PlatformHost, rtmr: int) -> None:
    td = host.create_td(LAUNCH)
    before = td.registers
    with pytest.raises(RegisterError):
        td.answer(Extend(rtmr, b"d" * 48))
    assert td.registers == before


def test_a_report_and_a_quote_show_the_registers_of_that_moment(host: PlatformHost) -> None:
    td = host.create_td(LAUNCH)
    first = td.answer(Quote(bytes(64)))
    td.answer(Extend(3, b"d" * 48))
    assert td.answer(Quote(bytes(64))) != first
    assert td.answer(Report())["rtmr3"] == td.registers.rtmrs[3].hex()


def test_collateral_is_kept_and_renewed_before_it_ends(
    host: PlatformHost, platform: SimulatedPlatform, installed: Installed
) -> None:
    trust = TrustRoots.pinned([platform.root_spki()])
    seen = set()
    for day in range(0, 120, 5):
        installed.now = NOW + timedelta(days=day)
        document = canonical(host.answer(GetCollateral())["collateral"])
        verify_collateral(parse_collateral(document), now=installed.now + timedelta(days=6), trust=trust)
        seen.add(document)
    assert 4 <= len(seen) <= 6


def test_a_revoked_platform_serves_its_own_revocation(platform: SimulatedPlatform) -> None:
    from affiant.attestation.simulated.platform.pki import CertificateRole

    revoked = replace(platform, revoked=frozenset({CertificateRole.PCK}))
    host = PlatformHost(
        revoked, measure=lambda _: launched(), clock=lambda: NOW, random_bytes=counting_bytes("r")
    )
    ours = parse_collateral(canonical(host.answer(GetCollateral())["collateral"]))
    assert ours.pck_crl != platform.collateral(NOW).pck_crl
