"""Extends an RTMR through sysfs (Linux 6.16 and later), and keeps its own log. Not yet run on TDX hardware.

Source: Documentation/ABI/testing/sysfs-devices-virtual-misc-tdx_guest. ``rtmr3:sha384`` reads as the register's 48
bytes; writing exactly 48 bytes at offset 0 extends it. The kernel keeps no log, so that this module does:

1. take the log's lock (other threads and processes wait);
2. the register must be what the log replays to;
3. append the event, durably;
4. extend the register;
5. the register must be what the log replays to now.

A crash between 3 and 4 leaves a last entry that the register does not know: the next to open the log finds the register
one event behind, and extends it by that event (its writer meant it, and a register cannot go back). A line that a crash
cut short was not durable, so it was never extended; it is removed. Every other difference is refused, because no
verifier would believe this TD again.

The log's file: ``affiant-rtmr-log/1``, one RFC 8785 object in a line, first ``{"rtmr":3,"typ":...}``, then one
``{"name":...,"payload":{...}}`` for each event. It must lie on a file system that ends with the boot (``/run``): a
register begins at zero, and so does its log.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from affiant.attestation.encoding.canonical import canonical, parse_object
from affiant.attestation.quote.providers.base.errors import (
    LogDamaged,
    ProviderAbsent,
    ProviderBusy,
    ProviderDenied,
    RegisterMismatch,
    SettingsInvalid,
)
from affiant.attestation.quote.providers.kernel.kernel_files import KernelFiles, OSKernelFiles
from affiant.attestation.tdx.event_log.eventlog import (
    EMPTY_REGISTER,
    MAX_EVENTS,
    MAX_LOG_BYTES,
    Event,
    EventLog,
    LoggedEvent,
    event_digest,
    extend,
)
from affiant.errors import AffiantError
from affiant.files import sync_folder

__all__ = ["MEASUREMENTS_ROOT", "LoggedRTMR"]

MEASUREMENTS_ROOT: Final = Path("/sys/devices/virtual/misc/tdx_guest/measurements")
_TYP: Final = "affiant-rtmr-log/1"
_REGISTER_SIZE: Final = 48
_EXTEND_ATTEMPTS: Final = 3


@dataclass(frozen=True, slots=True)
class _Read:
    """The log as it lies there: its events, the register before the last of them and after it, and how many bytes
    are whole."""

    events: tuple[Event, ...]
    before_last: bytes
    register: bytes
    whole: int
    size: int


class LoggedRTMR:
    """One RTMR and its log. Threads and processes may share both; each call is whole.

    Args:
        log: the log's file; made, 0600, where it is missing.
        rtmr: 0 to 3. Only 3 is the application's own by convention.
        root: the folder of the measurements' files.
        files: how it is reached.
    """

    def __init__(
        self,
        log: Path,
        *,
        rtmr: int = 3,
        root: Path = MEASUREMENTS_ROOT,
        files: KernelFiles | None = None,
    ) -> None:
        if type(rtmr) is not int or not 0 <= rtmr <= 3:
            raise SettingsInvalid("no such register", expected="0 to 3", found=rtmr)
        self._log = log
        self._rtmr = rtmr
        self._file = root / f"rtmr{rtmr}:sha384"
        self._files = OSKernelFiles() if files is None else files

    def recover(self) -> Event | None:
        """Bring log and register together after a crash; the event that had to be extended, if there was one.

        Raises:
            RegisterMismatch: they differ by more than one crash can explain.
            LogDamaged: the log is not what this program wrote.
            ProviderAbsent, ProviderDenied, ProviderBusy: the register cannot be reached.
        """
        with self._opened() as descriptor:
            return self._recover(descriptor)[1]

    def extend(self, event: Event) -> None:
        """Log ``event``, then extend the register by its digest. An earlier crash is recovered from first.

        Raises:
            As :meth:`recover`; and ``eventlog.malformed``: the payload has no canonical form.
        """
        digest = event_digest(event)
        line = _line({"name": event.name, "payload": event.payload})
        with self._opened() as descriptor:
            log, _ = self._recover(descriptor)
            if len(log.events) >= MAX_EVENTS or log.whole + len(line) > MAX_LOG_BYTES:
                raise SettingsInvalid("the event log is full", expected=f"at most {MAX_EVENTS} events")
            _append(descriptor, line, at=log.whole)
            self._extend(digest)
            self._demand(extend(log.register, digest))

    def event_log(self) -> EventLog:
        """All events in order, which replay to the register now.

        Raises:
            As :meth:`recover`.
        """
        with self._opened() as descriptor:
            log, _ = self._recover(descriptor)
        return EventLog(tuple(LoggedEvent(self._rtmr, event) for event in log.events))

    # -- inside the lock ------------------------------------------------------------------------------------------

    @contextmanager
    def _opened(self) -> Iterator[int]:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            descriptor = os.open(self._log, flags, 0o600)
        except OSError as error:
            raise SettingsInvalid(
                "the event log cannot be opened", where=str(self._log), found=error.strerror
            ) from error
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise LogDamaged("the event log is no regular file", where=str(self._log))
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield descriptor
        finally:
            os.close(descriptor)

    def _recover(self, descriptor: int) -> tuple[_Read, Event | None]:
        log = self._read(descriptor)
        register = self._register()
        if log.size == 0:
            self._begin(descriptor, register)
            return self._read(descriptor), None
        if register == log.register:
            finished = None
        elif log.events and register == log.before_last:
            finished = log.events[-1]
            self._extend(event_digest(finished))
            self._demand(log.register)
        else:
            raise self._mismatch(register, log.register)
        if log.whole < log.size:
            os.ftruncate(descriptor, log.whole)
            os.fsync(descriptor)
        return log, finished

    def _begin(self, descriptor: int, register: bytes) -> None:
        """A new log, which must begin where the register begins."""
        if register != EMPTY_REGISTER:
            raise self._mismatch(register, EMPTY_REGISTER)
        _append(descriptor, _line({"typ": _TYP, "rtmr": self._rtmr}), at=0)
        sync_folder(self._log.parent)

    def _read(self, descriptor: int) -> _Read:
        size = os.fstat(descriptor).st_size
        if size > MAX_LOG_BYTES + _REGISTER_SIZE:
            raise LogDamaged("the event log is too large", where=str(self._log))
        data = os.pread(descriptor, size, 0)
        whole = data.rfind(b"\n") + 1
        lines = data[:whole].splitlines()
        try:
            if lines and parse_object(lines[0]) != {"typ": _TYP, "rtmr": self._rtmr}:
                raise LogDamaged(
                    "the event log is of another form or register",
                    where=str(self._log),
                    expected=f"{_TYP} of RTMR{self._rtmr}",
                )
            events = tuple(_event(line) for line in lines[1:])
        except (AffiantError, ValueError) as error:
            if isinstance(error, LogDamaged):
                raise
            raise LogDamaged(f"the event log cannot be read: {error}", where=str(self._log)) from error
        before = register = EMPTY_REGISTER
        for event in events:
            before, register = register, extend(register, event_digest(event))
        # A first line that a crash cut short is no log yet.
        return _Read(events, before, register, whole, size if whole else 0)

    def _register(self) -> bytes:
        try:
            value = self._files.read(self._file, limit=_REGISTER_SIZE)
        except OSError as error:
            raise self._refusal(error) from error
        if len(value) != _REGISTER_SIZE:
            raise ProviderAbsent(
                "the register's file has another size",
                where=str(self._file),
                expected=f"{_REGISTER_SIZE} bytes",
                found=f"{len(value)} bytes",
            )
        return value

    def _extend(self, digest: bytes) -> None:
        """One write of 48 bytes. A write that failed may be tried again only if the register did not move."""
        before = self._register()
        for _ in range(_EXTEND_ATTEMPTS):
            try:
                self._files.write(self._file, digest)
            except OSError as error:
                if error.errno not in (errno.EBUSY, errno.EINTR, errno.EAGAIN):
                    raise self._refusal(error) from error
                if self._register() != before:
                    return
            else:
                return
        raise ProviderBusy("the register could not be extended", where=str(self._file))

    def _demand(self, expected: bytes) -> None:
        if (register := self._register()) != expected:
            raise self._mismatch(register, expected)

    def _mismatch(self, found: bytes, expected: bytes) -> RegisterMismatch:
        return RegisterMismatch(
            f"RTMR{self._rtmr} is not what its log says",
            where=str(self._log),
            expected=expected.hex(),
            found=found.hex(),
            hint="Somebody else extended it, or the log is of another boot. Only a new TD begins again.",
        )

    def _refusal(self, error: OSError) -> ProviderAbsent | ProviderDenied:
        found = f"{errno.errorcode.get(error.errno or 0, '?')}: {error.strerror}"
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            return ProviderDenied("the register may not be used", where=str(self._file), found=found)
        return ProviderAbsent(
            "the register cannot be reached",
            where=str(self._file),
            found=found,
            hint="A TDX guest with Linux 6.16 or later has it.",
        )


def _line(members: dict[str, object]) -> bytes:
    return canonical(members) + b"\n"


def _event(line: bytes) -> Event:
    match parse_object(line, limit=MAX_LOG_BYTES):
        case {"name": str() as name, "payload": dict() as payload, **rest} if not rest:
            return Event(name, payload)
        case _:
            raise ValueError("an entry of another form")


def _append(descriptor: int, data: bytes, *, at: int) -> None:
    """After what is whole, durable before the return."""
    os.ftruncate(descriptor, at)
    done = 0
    while done < len(data):
        done += os.pwrite(descriptor, data[done:], at + done)
    os.fsync(descriptor)
