"""What a machine says that it is, by the files that Linux shows; none of it has been seen on TDX hardware."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from affiant.attestation.quote.providers.own_platform import PlatformName, PlatformSigns, own_platform

CPUINFO = "processor\t: 0\nmodel name\t: Intel(R) Xeon(R)\nflags\t\t: fpu vme {} hypervisor lahf_lm\n\nprocessor\t: 1\n"


@pytest.fixture
def signs(tmp_path: Path) -> PlatformSigns:
    """A machine without TDX."""
    (tmp_path / "cpuinfo").write_text(CPUINFO.format("aes"))
    return PlatformSigns(
        cpuinfo=tmp_path / "cpuinfo",
        tdx_device=tmp_path / "tdx_guest",
        dstack_socket=tmp_path / "dstack.sock",
        tappd_socket=tmp_path / "tappd.sock",
    )


def test_a_machine_that_shows_nothing_of_tdx_has_the_simulated_platform(signs: PlatformSigns) -> None:
    assert own_platform(signs) is PlatformName.SIMULATED


def test_a_machine_that_shows_no_processors_has_the_simulated_platform(signs: PlatformSigns) -> None:
    signs.cpuinfo.unlink()
    assert own_platform(signs) is PlatformName.SIMULATED


def test_the_device_of_the_kernel_says_that_it_is_a_tdx_guest(signs: PlatformSigns) -> None:
    signs.tdx_device.touch()
    assert own_platform(signs) is PlatformName.TDX


def test_a_tdx_guest_without_the_kernels_device_is_still_one(signs: PlatformSigns) -> None:
    """The processor says so: the simulated platform must not be used where a driver is missing."""
    signs.cpuinfo.write_text(CPUINFO.format("tdx_guest"))
    assert own_platform(signs) is PlatformName.TDX


def test_a_flag_with_a_longer_name_is_another_flag(signs: PlatformSigns) -> None:
    signs.cpuinfo.write_text(CPUINFO.format("tdx_guest_other"))
    assert own_platform(signs) is PlatformName.SIMULATED


@pytest.mark.parametrize("name", ["dstack_socket", "tappd_socket"])
def test_the_socket_of_the_agent_says_that_it_is_a_td_of_dstack(
    signs: PlatformSigns, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    signs.tdx_device.touch()
    path: Path = getattr(signs, name)
    monkeypatch.chdir(path.parent)  # the path of a socket is short
    with socket.socket(socket.AF_UNIX) as agent:
        agent.bind(path.name)
        assert own_platform(signs) is PlatformName.DSTACK


def test_a_file_at_the_place_of_the_socket_is_no_agent(signs: PlatformSigns) -> None:
    signs.dstack_socket.touch()
    assert own_platform(signs) is PlatformName.SIMULATED
