"""A TDREPORT is read to its exact form, or refused; and it is never taken for a quote."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.attestation.quote.providers.conftest import REPORT_DATA
from tests.attestation.quote.providers.fake_kernel import td_report
from tests.properties import thorough
from tests.raising import raises_code

from affiant.attestation.quote.providers.base.errors import ResponseRefused
from affiant.attestation.quote.providers.kernel.local_td_report import parse_local_td_report
from affiant.attestation.statements.evidence_source import TDRegisters
from affiant.attestation.tdx.quote.quote import parse_quote

REGISTERS = TDRegisters(
    td_attributes=bytes(range(8)),
    xfam=bytes(range(8, 16)),
    mrtd=b"\x01" * 48,
    mrconfigid=b"\x02" * 48,
    mrowner=b"\x03" * 48,
    mrownerconfig=b"\x04" * 48,
    rtmrs=(b"\x05" * 48, b"\x06" * 48, b"\x07" * 48, b"\x08" * 48),
)
REPORT = td_report(REGISTERS, REPORT_DATA)
FREE = frozenset((*range(16, 32), *range(224, 256)))
"""CPUSVN and MAC: nothing inside of the report binds them."""


def test_every_register_stands_where_the_abi_puts_it() -> None:
    report = parse_local_td_report(REPORT, REPORT_DATA)
    assert report.registers == REGISTERS
    assert (report.report_data, report.cpusvn, report.mac) == (REPORT_DATA, b"\x06" * 16, b"\x33" * 32)
    assert (report.tee_tcb_svn, report.mrseam) == (b"\x05".ljust(16, b"\0"), b"\x11" * 48)
    assert report.service_td_hash is None


def test_version_1_says_which_service_tds_are_bound() -> None:
    report = parse_local_td_report(td_report(REGISTERS, REPORT_DATA, version=1), REPORT_DATA)
    assert (report.registers, report.service_td_hash) == (REGISTERS, b"\x22" * 48)


def test_any_changed_byte_is_refused_except_in_what_only_the_cpu_can_check() -> None:
    for at in range(1024):
        changed = REPORT[:at] + bytes((REPORT[at] ^ 0x40,)) + REPORT[at + 1 :]
        if at in FREE:
            assert parse_local_td_report(changed, REPORT_DATA).registers == REGISTERS
        else:
            with pytest.raises(ResponseRefused):
                parse_local_td_report(changed, REPORT_DATA)


@pytest.mark.parametrize("size", [0, 1, 584, 1023, 1025, 1088])
def test_another_size_is_refused(size: int) -> None:
    with pytest.raises(ResponseRefused, match="another size"):
        parse_local_td_report(REPORT[:size].ljust(size, b"\0"), REPORT_DATA)


def test_a_report_over_other_report_data_is_stale_or_somebody_elses() -> None:
    with pytest.raises(ResponseRefused, match="other report data"):
        parse_local_td_report(REPORT, bytes(64))


def test_an_unknown_version_is_refused_by_name() -> None:
    with pytest.raises(ResponseRefused, match="81 00 02"):
        parse_local_td_report(REPORT[:2] + b"\x02" + REPORT[3:], REPORT_DATA)


def test_the_mac_is_in_no_representation() -> None:
    assert "mac" not in repr(parse_local_td_report(REPORT, REPORT_DATA))


def test_it_is_no_remote_evidence() -> None:
    with raises_code("quote.local_report"):
        parse_quote(REPORT)


@thorough(200)
@given(st.binary(max_size=1100))
def test_anything_else_is_refused_and_nothing_else_is_raised(data: bytes) -> None:
    with pytest.raises(ResponseRefused):
        parse_local_td_report(data, REPORT_DATA)
