"""The labelled boot of a simulated TD: which events firmware and kernel would have measured, and into what.

A simulated TD has no firmware. What stands in RTMR0 to RTMR2 is one event each, named ``affiant-sim-...``, so
that the verifier's replay has something true to replay, and so that a gateway's TD and a session's differ: the
command line names the program that the image runs. The values are known before any quote exists.

Only the standard library: the build of the package computes them too.
"""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from affiant.attestation.encoding.canonical import canonical
from affiant.errors import ConfigurationError, MalformedError

__all__ = [
    "BootEvent",
    "Image",
    "InstalledFileError",
    "ReleaseMissingError",
    "boot_events",
    "boot_log",
    "boot_registers",
]


class ReleaseMissingError(ConfigurationError):
    """There is no release manifest beside the code."""

    code = "release.missing"


class InstalledFileError(MalformedError):
    """A file of the installation, which such a boot measures, cannot be measured."""

    code = "release.file"


class Image(enum.Enum):
    """What a TD runs."""

    GATEWAY = "gateway"
    SESSION = "session"


_COMMAND_LINE: Final = {Image.GATEWAY: "affiant gateway serve", Image.SESSION: "affiant supervisor"}


@dataclass(frozen=True, slots=True)
class BootEvent:
    """One measurement: into which RTMR, and what. The digest is computed, never stored."""

    rtmr: int
    name: str
    payload: Mapping[str, object]

    def digest(self) -> bytes:
        """48 bytes, as ``event_digest``, without importing the verifier."""
        preimage = {"typ": "affiant-event/1", "name": self.name, "payload": self.payload}
        return hashlib.sha384(canonical(preimage)).digest()


def boot_events(image: Image) -> tuple[BootEvent, ...]:
    """The events of ``image``'s boot, in their order."""
    command_line = {"simulated": True, "command": _COMMAND_LINE[image]}
    return (
        BootEvent(0, "affiant-sim-firmware", {"simulated": True, "version": 1}),
        BootEvent(1, "affiant-sim-kernel", {"simulated": True, "version": 1}),
        BootEvent(2, "affiant-sim-command-line", command_line),
    )


def boot_log(image: Image) -> bytes:
    """The event log of a TD that has only booted: RFC 8785 bytes."""
    events = [{"rtmr": e.rtmr, "name": e.name, "payload": e.payload} for e in boot_events(image)]
    return canonical({"typ": "affiant-eventlog/1", "events": events})


def boot_registers(image: Image) -> tuple[bytes, bytes, bytes, bytes]:
    """RTMR0 to RTMR3 after that boot: 48 bytes each, RTMR3 all zero."""
    registers = [bytes(48)] * 4
    for event in boot_events(image):
        registers[event.rtmr] = hashlib.sha384(registers[event.rtmr] + event.digest()).digest()
    return registers[0], registers[1], registers[2], registers[3]
