"""The TDX device: one request, one TDREPORT over what was asked, or a named refusal."""

from __future__ import annotations

import ctypes
import errno
from pathlib import Path

import pytest
from tests.attestation.quote.providers import fake_kernel as kernel
from tests.attestation.quote.providers.conftest import REPORT_DATA
from tests.attestation.quote.providers.fake_kernel import FakeTDX

from affiant.attestation.quote.providers.base.errors import (
    ProviderAbsent,
    ProviderBusy,
    ProviderDenied,
    ResponseRefused,
    SettingsInvalid,
)
from affiant.attestation.quote.providers.kernel.tdx_device import GET_REPORT0, TDX_DEVICE, TDXDevice
from affiant.errors import AffiantError


def device(tdx: FakeTDX) -> TDXDevice:
    return TDXDevice(calls=tdx)


def refusal(tdx: FakeTDX) -> AffiantError:
    with pytest.raises(AffiantError) as refused:
        device(tdx).report(REPORT_DATA)
    return refused.value


def test_the_request_is_the_headers() -> None:
    """_IOWR by the rules of asm-generic/ioctl.h, over the struct as a compiler lays it out."""

    class TDXReportRequest(ctypes.Structure):
        _fields_ = (("reportdata", ctypes.c_uint8 * 64), ("tdreport", ctypes.c_uint8 * 1024))

    size = ctypes.sizeof(TDXReportRequest)
    assert GET_REPORT0 == kernel.GET_REPORT0 == (1 | 2) << 30 | size << 16 | 0x54 << 8 | 1
    assert TDX_DEVICE == kernel.DEVICE


def test_a_report_is_over_exactly_what_was_asked(tdx: FakeTDX) -> None:
    report = device(tdx).report(REPORT_DATA)
    assert (report.report_data, report.registers) == (REPORT_DATA, tdx.registers())
    assert tdx.asked == [REPORT_DATA]


@pytest.mark.parametrize("size", [0, 32, 63, 65])
def test_report_data_of_another_size_is_not_sent(tdx: FakeTDX, size: int) -> None:
    with pytest.raises(SettingsInvalid):
        device(tdx).report(bytes(size))
    assert tdx.asked == []


@pytest.mark.parametrize("number", [errno.EBUSY, errno.EINTR, errno.EAGAIN])
def test_what_may_pass_is_tried_three_times(tdx: FakeTDX, number: int) -> None:
    tdx.errors = [number] * 2
    device(tdx).report(REPORT_DATA)
    tdx.errors = [number] * 3
    found = refusal(tdx)
    assert isinstance(found, ProviderBusy)
    assert found.retryable is True


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (errno.ENOENT, ProviderAbsent),
        (errno.ENOTTY, ProviderAbsent),
        (errno.EACCES, ProviderDenied),
        (errno.EIO, ResponseRefused),
    ],
)
def test_every_other_error_is_final_and_named(
    tdx: FakeTDX, number: int, expected: type[AffiantError]
) -> None:
    tdx.errors = [number]
    found = refusal(tdx)
    assert isinstance(found, expected)
    assert errno.errorcode[number] in str(found)


def test_an_older_report_is_noticed(tdx: FakeTDX) -> None:
    tdx.report = lambda _: kernel.td_report(tdx.registers(), bytes(64))
    assert "other report data" in str(refusal(tdx))


# -- the real calls -----------------------------------------------------------------------------------------------


def test_a_machine_without_the_device_is_named(tmp_path: Path) -> None:
    with pytest.raises(ProviderAbsent, match="ENOENT"):
        TDXDevice(tmp_path / "tdx_guest").report(REPORT_DATA)


def test_another_device_is_no_tdx_device() -> None:
    with pytest.raises(ProviderAbsent, match="ENOTTY"):
        TDXDevice(Path("/dev/null")).report(REPORT_DATA)
