"""A whole TD through the kernel: what it reports, extends and quotes is one TD, and a verifier agrees.

The quotes are signed by the simulated platform: the verdict on them is simulated, and no hardware has run this.
"""

from __future__ import annotations

import errno
import hashlib
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.attestation.quote.providers.conftest import REPORT_DATA
from tests.attestation.quote.providers.fake_kernel import FakeTDX
from tests.attestation.story import Story

from affiant.attestation.quote.providers.base.errors import (
    ProviderAbsent,
    ProviderDenied,
    RegisterMismatch,
    ResponseRefused,
)
from affiant.attestation.quote.providers.kernel.configfs_tsm import ConfigfsTSM
from affiant.attestation.quote.providers.kernel.measurements import Measurements
from affiant.attestation.quote.providers.kernel.rtmr import LoggedRTMR
from affiant.attestation.quote.providers.kernel.tdx_device import TDXDevice
from affiant.attestation.quote.providers.kernel.tdx_guest import TDXGuest
from affiant.attestation.simulated.platform.platform import SimulatedPlatform
from affiant.attestation.statements.evidence_source import QuoteSource, TDRegisters
from affiant.attestation.statements.manifest import session_events
from affiant.attestation.tdx.event_log.eventlog import Event, event_digest, parse_event_log
from affiant.attestation.tdx.event_log.measured_log import measured, verify_replay
from affiant.attestation.tdx.pki.roots import TrustRoots
from affiant.attestation.tdx.quote.quote import parse_quote
from affiant.attestation.tdx.tcb.collateral_verification import verify_collateral
from affiant.attestation.tdx.verify.verify import verify_quote

NOW = datetime(2026, 5, 4, tzinfo=UTC)


class Counted:
    """Random bytes that are never the same twice."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, size: int) -> bytes:
        self.calls += 1
        return hashlib.shake_256(self.calls.to_bytes(8, "big")).digest(size)


def guest(tdx: FakeTDX, log: Path) -> TDXGuest:
    random_bytes = Counted()
    return TDXGuest(
        device=TDXDevice(calls=tdx),
        measurements=Measurements(files=tdx),
        tsm=ConfigfsTSM(random_bytes=random_bytes, files=tdx),
        rtmr3=LoggedRTMR(log, files=tdx),
        random_bytes=random_bytes,
    )


@pytest.fixture
def td(tdx: FakeTDX, tmp_path: Path) -> TDXGuest:
    return guest(tdx, tmp_path / "rtmr3.log")


def session() -> tuple[Event, ...]:
    """The five events that a supervisor extends, of a real manifest and activation."""
    story = Story().tell()
    return tuple(Event(name, payload) for name, payload in session_events(story.manifest, story.activation))


def test_a_session_in_this_td_is_accepted_by_the_verifier_as_simulated(
    td: TDXGuest, machine: SimulatedPlatform
) -> None:
    source: QuoteSource = td
    assert source.report().rtmrs[3] == bytes(48)
    events = session()
    for event in events:
        source.extend(event)
    quote = parse_quote(source.quote(REPORT_DATA))
    trust = TrustRoots.pinned((machine.root_spki(),))
    verified = verify_quote(quote, verify_collateral(machine.collateral(NOW), now=NOW, trust=trust), now=NOW)
    log = parse_event_log(td.event_log().to_bytes())
    assert str(verified.evidence_class) == "simulated"
    assert verify_replay(measured(log), verified.quote.body) == (3,)
    assert log.events(3) == events
    assert verified.quote.body.report_data == REPORT_DATA
    assert verified.quote.body.rtmrs == source.report().rtmrs


def test_the_report_is_what_the_td_was_launched_with(td: TDXGuest, tdx: FakeTDX) -> None:
    assert td.report() == tdx.registers()
    assert td.report().td_id is None


def test_each_report_is_over_fresh_bytes(td: TDXGuest, tdx: FakeTDX) -> None:
    td.report()
    td.report()
    assert len(set(tdx.asked)) == 2


def test_an_older_kernel_without_measurements_still_reports_and_quotes(td: TDXGuest, tdx: FakeTDX) -> None:
    tdx.files, tdx.rtmrs.root = {}, Path("/nowhere")
    assert td.report() == tdx.registers()
    assert parse_quote(td.quote(REPORT_DATA)).body.report_data == REPORT_DATA
    with pytest.raises(ProviderAbsent, match=r"6\.16"):
        td.extend(Event("affiant-ready", {}))


@pytest.mark.parametrize("name", ["mrtd:sha384", "mrconfigid", "mrowner", "mrownerconfig"])
def test_a_kernel_that_tells_two_stories_is_refused(td: TDXGuest, tdx: FakeTDX, name: str) -> None:
    tdx.files[name] = b"\x77" * 48
    with pytest.raises(RegisterMismatch, match=name):
        td.report()
    assert len(tdx.asked) == 3


def test_an_extension_between_two_reads_is_no_second_story(td: TDXGuest, tdx: FakeTDX) -> None:
    tdx.after_report = [lambda: td.extend(Event("affiant-ready", {}))]
    assert td.report().rtmrs[3] == tdx.rtmrs.value(3) != bytes(48)
    assert len(tdx.asked) == 2


def test_a_register_of_another_size_or_out_of_reach_is_refused(td: TDXGuest, tdx: FakeTDX) -> None:
    tdx.files["mrtd:sha384"] = bytes(47)
    with pytest.raises(ResponseRefused, match="another size"):
        td.report()


@pytest.mark.parametrize(
    ("number", "expected"), [(errno.EACCES, ProviderDenied), (errno.EIO, ResponseRefused)]
)
def test_a_register_that_cannot_be_read_is_no_missing_one(
    tdx: FakeTDX, number: int, expected: type[Exception]
) -> None:
    def read(path: Path, *, limit: int) -> bytes:
        raise OSError(number, "no")

    tdx.read = read  # type: ignore[method-assign]
    with pytest.raises(expected):
        Measurements(files=tdx).compare(tdx.registers())


def test_as_many_files_as_there_are_were_compared(tdx: FakeTDX) -> None:
    measurements = Measurements(files=tdx)
    assert measurements.compare(tdx.registers()) == 8
    del tdx.files["mrowner"]
    assert measurements.compare(tdx.registers()) == 7


@pytest.mark.parametrize(
    "changed",
    [{"mrtd": b"\x09" * 48}, {"mrconfigid": b"\x09" * 48}, {"td_attributes": b"\x01" + bytes(7)}],
)
def test_a_quote_of_another_td_is_refused(
    td: TDXGuest, tdx: FakeTDX, machine: SimulatedPlatform, changed: dict[str, bytes]
) -> None:
    """A relayed one: genuine, over our report data, of a TD that is not this one."""
    other: TDRegisters = replace(tdx.launched, **changed)
    tdx.tsm.make = lambda data: machine.quote(other, data)
    with pytest.raises(ResponseRefused, match=f"another TD: {next(iter(changed))}"):
        td.quote(REPORT_DATA)


def test_the_log_survives_the_program(td: TDXGuest, tdx: FakeTDX, tmp_path: Path) -> None:
    td.extend(Event("affiant-manifest", {}))
    again = guest(tdx, tmp_path / "rtmr3.log")
    again.extend(Event("affiant-profile", {}))
    log = again.event_log()
    assert [entry.event.name for entry in log.entries] == ["affiant-manifest", "affiant-profile"]
    first = hashlib.sha384(bytes(48) + event_digest(log.entries[0].event)).digest()
    assert again.report().rtmrs[3] == hashlib.sha384(first + event_digest(log.entries[1].event)).digest()


def test_a_machine_that_is_no_td_is_named(tmp_path: Path) -> None:
    td = TDXGuest.of_this_machine(tmp_path / "rtmr3.log", random_bytes=Counted())
    if Path("/dev/tdx_guest").exists():
        pytest.skip("this machine is a TDX guest")
    with pytest.raises(ProviderAbsent):
        td.report()
