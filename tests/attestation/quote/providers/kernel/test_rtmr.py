"""RTMR and log tell one story: through crashes at every step, through races, or not at all."""

from __future__ import annotations

import errno
import os
import stat
import threading
from pathlib import Path

import pytest
from tests.attestation.quote.providers.fake_kernel import FakeRTMRs
from tests.raising import raises_code

from affiant.attestation.quote.providers.base.errors import (
    LogDamaged,
    ProviderAbsent,
    ProviderBusy,
    ProviderDenied,
    RegisterMismatch,
    SettingsInvalid,
)
from affiant.attestation.quote.providers.kernel import rtmr
from affiant.attestation.quote.providers.kernel.rtmr import LoggedRTMR
from affiant.attestation.tdx.event_log.eventlog import Event, event_digest, extend, parse_event_log, replay

EVENTS = tuple(Event(f"affiant-{index}", {"number": index, "text": "a:b\n\u00e9"}) for index in range(4))


@pytest.fixture
def kernel(tmp_path: Path) -> FakeRTMRs:
    return FakeRTMRs(tmp_path / "measurements")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "rtmr3.log"


def opened(log: Path, kernel: FakeRTMRs, **options: int) -> LoggedRTMR:
    return LoggedRTMR(log, root=kernel.root, files=kernel, **options)


def filled(log: Path, kernel: FakeRTMRs) -> LoggedRTMR:
    register = opened(log, kernel)
    for event in EVENTS:
        register.extend(event)
    return register


def test_the_log_replays_to_the_register(log: Path, kernel: FakeRTMRs) -> None:
    register = filled(log, kernel)
    events = parse_event_log(register.event_log().to_bytes())
    assert events.events(3) == EVENTS
    assert replay(events, 3) == kernel.value()
    assert stat.S_IMODE(log.stat().st_mode) == 0o600


def test_an_empty_log_is_that_of_an_empty_register(log: Path, kernel: FakeRTMRs) -> None:
    assert opened(log, kernel).recover() is None
    assert opened(log, kernel).event_log().entries == ()


def test_registers_are_apart(tmp_path: Path, kernel: FakeRTMRs) -> None:
    opened(tmp_path / "two", kernel, rtmr=2).extend(EVENTS[0])
    assert kernel.value(3) == bytes(48)
    with pytest.raises(LogDamaged, match="RTMR3"):
        opened(tmp_path / "two", kernel).recover()
    for number in (-1, 4, True):
        with pytest.raises(SettingsInvalid):
            opened(tmp_path / "x", kernel, rtmr=number)


# -- crashes ------------------------------------------------------------------------------------------------------


class Crash(BaseException):
    """The power goes."""


def test_the_entry_is_durable_before_the_register_moves(
    log: Path, kernel: FakeRTMRs, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: (seen.append("fsync"), real(fd)))
    write = kernel.write

    def noted(path: Path, data: bytes) -> None:
        seen.append("extend")
        write(path, data)

    monkeypatch.setattr(kernel, "write", noted)
    opened(log, kernel).extend(EVENTS[0])
    assert seen[-2:] == ["fsync", "extend"]


def test_a_crash_between_log_and_register_is_finished_by_the_next_to_open(
    log: Path, kernel: FakeRTMRs, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(log, kernel)

    def crash(*_: object) -> None:
        raise Crash

    monkeypatch.setattr(kernel, "write", crash)
    with pytest.raises(Crash):
        opened(log, kernel).extend(Event("affiant-last", {}))
    monkeypatch.undo()
    assert opened(log, kernel).recover() == Event("affiant-last", {})
    assert opened(log, kernel).recover() is None
    assert replay(opened(log, kernel).event_log(), 3) == kernel.value()
    opened(log, kernel).extend(Event("affiant-next", {}))


def test_a_crash_right_after_the_register_moved_changes_nothing(
    log: Path, kernel: FakeRTMRs, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(log, kernel)
    write = kernel.write

    def crash(path: Path, data: bytes) -> None:
        write(path, data)
        raise Crash

    monkeypatch.setattr(kernel, "write", crash)
    with pytest.raises(Crash):
        opened(log, kernel).extend(Event("affiant-last", {}))
    monkeypatch.undo()
    assert opened(log, kernel).recover() is None
    assert opened(log, kernel).event_log().events(3)[-1].name == "affiant-last"


def test_a_line_cut_short_at_any_byte_was_never_extended(log: Path, kernel: FakeRTMRs) -> None:
    """As long as its newline is missing it was not durable, so that its event counts as never logged."""
    filled(log, kernel)
    whole, value = log.read_bytes(), kernel.value()
    line = b'{"name":"affiant-last","payload":{}}\n'
    for size in range(1, len(line)):
        log.write_bytes(whole + line[:size])
        assert opened(log, kernel).recover() is None
        assert (log.read_bytes(), kernel.value()) == (whole, value)


def test_a_first_line_cut_short_is_no_log_yet(log: Path, kernel: FakeRTMRs) -> None:
    opened(log, kernel).recover()
    first = log.read_bytes()
    for size in range(len(first)):
        log.write_bytes(first[:size])
        opened(log, kernel).recover()
        assert log.read_bytes() == first


# -- other stories ------------------------------------------------------------------------------------------------


def test_an_extension_without_an_entry_is_refused(log: Path, kernel: FakeRTMRs) -> None:
    register = filled(log, kernel)
    kernel.values["rtmr3:sha384"] = extend(kernel.value(), bytes(48))
    before = log.read_bytes()
    for use in (register.recover, register.event_log, lambda: register.extend(EVENTS[0])):
        with pytest.raises(RegisterMismatch) as refused:
            use()
        assert refused.value.code == "source.register"
    assert log.read_bytes() == before


def test_a_register_that_is_not_empty_begins_no_log(log: Path, kernel: FakeRTMRs) -> None:
    kernel.values["rtmr3:sha384"] = extend(bytes(48), bytes(48))
    with pytest.raises(RegisterMismatch):
        opened(log, kernel).extend(EVENTS[0])
    assert kernel.writes == 0


def test_a_log_of_another_boot_is_refused(log: Path, kernel: FakeRTMRs) -> None:
    filled(log, kernel)
    kernel.values["rtmr3:sha384"] = bytes(48)
    with pytest.raises(RegisterMismatch, match="another boot"):
        opened(log, kernel).recover()


@pytest.mark.parametrize("change", ["dropped", "swapped", "changed", "doubled"])
def test_an_edited_log_is_refused(log: Path, kernel: FakeRTMRs, change: str) -> None:
    filled(log, kernel)
    first, *lines = log.read_bytes().splitlines(keepends=True)
    edited = {
        "dropped": [lines[0], *lines[2:]],
        "swapped": [lines[1], lines[0], *lines[2:]],
        "changed": [lines[0].replace(b'"number":0', b'"number":9'), *lines[1:]],
        "doubled": [*lines, lines[-1], lines[-1]],
    }[change]
    log.write_bytes(b"".join([first, *edited]))
    with pytest.raises(RegisterMismatch):
        opened(log, kernel).recover()


@pytest.mark.parametrize(
    "content",
    [b"notes\n", b"{}\n", b'{"rtmr":3,"typ":"affiant-rtmr-log/2"}\n', b"\xff\n", b"\n", b'{"typ":1}\n' * 2],
)
def test_another_file_is_left_alone(log: Path, kernel: FakeRTMRs, content: bytes) -> None:
    log.write_bytes(content)
    with pytest.raises(LogDamaged):
        opened(log, kernel).extend(EVENTS[0])
    assert (log.read_bytes(), kernel.writes) == (content, 0)


def test_an_event_without_canonical_form_touches_nothing(log: Path, kernel: FakeRTMRs) -> None:
    with raises_code("eventlog.malformed"):
        opened(log, kernel).extend(Event("affiant-x", {"half": 0.5}))
    assert (log.exists(), kernel.writes) == (False, 0)


def test_a_full_log_is_refused_before_anything_moves(
    log: Path, kernel: FakeRTMRs, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(log, kernel)
    monkeypatch.setattr(rtmr, "MAX_EVENTS", len(EVENTS))
    with pytest.raises(SettingsInvalid, match="full"):
        opened(log, kernel).extend(EVENTS[0])
    assert replay(opened(log, kernel).event_log(), 3) == kernel.value()


# -- the kernel's answers -----------------------------------------------------------------------------------------


def test_a_busy_register_is_tried_again(log: Path, kernel: FakeRTMRs) -> None:
    kernel.errors = [errno.EBUSY, errno.EINTR]
    opened(log, kernel).extend(EVENTS[0])
    assert kernel.writes == 1
    assert kernel.value() == extend(bytes(48), event_digest(EVENTS[0]))


def test_a_register_that_stays_busy_leaves_an_entry_that_is_finished_later(
    log: Path, kernel: FakeRTMRs
) -> None:
    kernel.errors = [errno.EBUSY] * 3
    with pytest.raises(ProviderBusy):
        opened(log, kernel).extend(EVENTS[0])
    assert opened(log, kernel).recover() == EVENTS[0]


def test_an_error_after_the_register_moved_does_not_extend_it_twice(
    log: Path, kernel: FakeRTMRs, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = kernel.write

    def late(path: Path, data: bytes) -> None:
        write(path, data)
        raise OSError(errno.EINTR, "interrupted")

    monkeypatch.setattr(kernel, "write", late)
    opened(log, kernel).extend(EVENTS[0])
    assert kernel.writes == 1


def test_a_machine_without_the_interface_is_named(log: Path, tmp_path: Path) -> None:
    with pytest.raises(ProviderAbsent, match=r"6\.16"):
        LoggedRTMR(log, root=tmp_path).extend(EVENTS[0])


def test_a_user_without_the_right_is_named(log: Path, kernel: FakeRTMRs) -> None:
    kernel.errors = [errno.EACCES]
    with pytest.raises(ProviderDenied):
        opened(log, kernel).extend(EVENTS[0])


def test_a_file_of_another_size_is_no_register(log: Path, tmp_path: Path) -> None:
    (tmp_path / "rtmr3:sha384").write_bytes(bytes(32))
    with pytest.raises(ProviderAbsent, match="another size"):
        LoggedRTMR(log, root=tmp_path).extend(EVENTS[0])


# -- others at the same time --------------------------------------------------------------------------------------


def test_a_hundred_events_of_many_threads_replay_to_the_register(log: Path, tmp_path: Path) -> None:
    """The order in the log is the order of the extensions, whoever comes first."""
    kernel = FakeRTMRs(tmp_path / "measurements", slow_s=0.001)
    failures: list[BaseException] = []

    def emit(number: int) -> None:
        try:
            register = opened(log, kernel)
            for index in range(25):
                register.extend(Event(f"affiant-{number}", {"index": index}))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=emit, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    events = opened(log, kernel).event_log()
    assert len(events.entries) == 100
    assert replay(events, 3) == kernel.value()


def test_a_link_in_the_logs_place_is_refused(log: Path, kernel: FakeRTMRs, tmp_path: Path) -> None:
    log.symlink_to(tmp_path / "target")
    with pytest.raises(SettingsInvalid):
        opened(log, kernel).extend(EVENTS[0])
    assert not (tmp_path / "target").exists()
