"""Which platform a session gets: the one that was asked for, else what the machine is, and never another one.

The TDX guest is a fake kernel, whose files have the kernel's formats. None of it has been run on TDX hardware.
"""

from __future__ import annotations

import asyncio
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.attestation.quote.providers.conftest import launch, random_bytes
from tests.attestation.quote.providers.fake_kernel import FakeTDX
from tests.raising import raises_code

from affiant.attestation.quote.providers.base.errors import ProviderAbsent
from affiant.attestation.quote.providers.kernel.configfs_tsm import ConfigfsTSM
from affiant.attestation.quote.providers.kernel.measurements import Measurements
from affiant.attestation.quote.providers.kernel.rtmr import LoggedRTMR
from affiant.attestation.quote.providers.kernel.tdx_device import TDXDevice
from affiant.attestation.quote.providers.kernel.tdx_guest import TDXGuest
from affiant.attestation.quote.providers.own_platform import PlatformName, PlatformSigns
from affiant.attestation.release.boot import Image
from affiant.attestation.simulated.platform.platform import SimulatedPlatform, current_collateral
from affiant.sandbox.processes import services
from affiant.sandbox.processes.home import Home, open_home
from affiant.sandbox.processes.provisioner import (
    OwnTDProvisioner,
    Provisioner,
    SimulatedProvisioner,
    chosen_provisioner,
)
from affiant.sandbox.processes.services import GatewayChoice, ensure_services

NOW = datetime(2026, 5, 4, tzinfo=UTC)
AUTO, SIMULATED, TDX, DSTACK = (
    PlatformName.AUTO,
    PlatformName.SIMULATED,
    PlatformName.TDX,
    PlatformName.DSTACK,
)


@pytest.fixture(scope="module")
def machine() -> SimulatedPlatform:
    """Signs the quotes that the fake kernel hands out."""
    return SimulatedPlatform.create(now=NOW, random_bytes=random_bytes)


@pytest.fixture
def td(machine: SimulatedPlatform, tmp_path: Path) -> TDXGuest:
    tdx = FakeTDX(launch(machine), machine.quote)
    return TDXGuest(
        device=TDXDevice(calls=tdx),
        measurements=Measurements(files=tdx),
        tsm=ConfigfsTSM(random_bytes=os.urandom, files=tdx),
        rtmr3=LoggedRTMR(tmp_path / "rtmr3.log", files=tdx),
        random_bytes=os.urandom,
    )


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return open_home(tmp_path / "home")


def signs(folder: Path, *, device: bool = False) -> PlatformSigns:
    if device:
        (folder / "tdx_guest").touch()
    return PlatformSigns(
        cpuinfo=folder / "cpuinfo",
        tdx_device=folder / "tdx_guest",
        dstack_socket=folder / "dstack.sock",
        tappd_socket=folder / "tappd.sock",
    )


@pytest.mark.parametrize(
    ("asked", "device", "kind"),
    [
        (AUTO, False, SimulatedProvisioner),
        (AUTO, True, OwnTDProvisioner),
        (TDX, False, OwnTDProvisioner),
        (SIMULATED, True, SimulatedProvisioner),
    ],
)
def test_the_platform_is_the_one_that_was_asked_for_else_what_the_machine_is(
    asked: PlatformName, device: bool, kind: type[Provisioner], home: Home, td: TDXGuest, tmp_path: Path
) -> None:
    chosen = chosen_provisioner(asked, home, signs=signs(tmp_path, device=device), td=td)
    assert isinstance(chosen, kind)
    assert chosen.platform is (TDX if kind is OwnTDProvisioner else SIMULATED)


def test_a_tdx_guest_whose_kernel_fails_is_an_error_and_not_the_simulated_platform(
    home: Home, tmp_path: Path
) -> None:
    """The device says TDX, and gives no report: so it is on every machine where these tests run."""
    td = TDXGuest(
        device=TDXDevice(tmp_path / "absent"),
        measurements=Measurements(),
        tsm=ConfigfsTSM(random_bytes=os.urandom),
        rtmr3=LoggedRTMR(tmp_path / "rtmr3.log"),
        random_bytes=os.urandom,
    )
    chosen = chosen_provisioner(AUTO, home, signs=signs(tmp_path, device=True), td=td)
    with pytest.raises(ProviderAbsent) as refused:
        chosen.create_td(image=Image.SESSION, mrconfigid=bytes(48))
    assert refused.value.code == "source.absent"


def test_a_session_runs_in_this_td_if_it_was_launched_for_it(home: Home, td: TDXGuest) -> None:
    chosen = chosen_provisioner(TDX, home, td=td)
    assert chosen.create_td(image=Image.SESSION, mrconfigid=td.report().mrconfigid) is None


def test_a_td_that_was_launched_for_something_else_is_refused_and_says_for_what(
    home: Home, td: TDXGuest
) -> None:
    with raises_code("session.platform") as refused:
        chosen_provisioner(TDX, home, td=td).create_td(image=Image.SESSION, mrconfigid=b"\x07" * 48)
    assert refused.value.code == "session.platform"
    assert (b"\x07" * 48).hex() in str(refused.value)
    assert td.report().mrconfigid.hex() in str(refused.value)


def test_collateral_on_hardware_is_the_file_that_was_fetched(
    home: Home, td: TDXGuest, machine: SimulatedPlatform
) -> None:
    chosen = chosen_provisioner(TDX, home, td=td)
    with raises_code("session.platform", match="affiant collateral fetch"):
        chosen.collateral()
    issued = current_collateral(machine, None, now=NOW).collateral
    (home.path / "collateral.json").write_bytes(issued.to_bytes())
    assert chosen.collateral().to_bytes() == issued.to_bytes()


def test_a_td_of_dstack_is_refused_because_its_rtmr3_is_not_the_sessions(home: Home) -> None:
    with raises_code("session.platform", match="dstack") as refused:
        chosen_provisioner(DSTACK, home)
    assert refused.value.code == "session.platform"


@pytest.mark.parametrize(
    ("choice", "code"),
    [
        (GatewayChoice(), "session.platform"),
        (GatewayChoice(url="https://gateway.example"), "session.gateway_pin"),
    ],
)
def test_a_tdx_guest_starts_no_gateway_and_no_simulated_platform(
    choice: GatewayChoice, code: str, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(services, "start_service", lambda *_, **__: pytest.fail("a service was started"))
    monkeypatch.setattr(services, "simulated_reference", lambda *_, **__: pytest.fail("simulated values"))
    with raises_code(code):
        asyncio.run(ensure_services(home, choice, platform=TDX, now=NOW, random_bytes=os.urandom))
