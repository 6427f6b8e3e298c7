from __future__ import annotations

import pytest

from affiant.attestation.release.boot import BootEvent, Image, boot_events, boot_log, boot_registers
from affiant.attestation.tdx.event_log.eventlog import Event, event_digest, parse_event_log, replay


@pytest.mark.parametrize("image", list(Image))
def test_the_verifiers_replay_of_the_boot_log_gives_the_launch_registers(image: Image) -> None:
    events = parse_event_log(boot_log(image))
    assert tuple(replay(events, rtmr) for rtmr in range(4)) == boot_registers(image)


def test_a_digest_is_the_verifiers() -> None:
    """The boot computes it without importing the verifier; both must agree."""
    for event in (*boot_events(Image.SESSION), BootEvent(3, "a.b", {"c": [1, None, "é"]})):
        assert event.digest() == event_digest(Event(event.name, event.payload))


def test_a_gateway_and_a_session_differ_in_the_command_line_alone() -> None:
    gateway, session = boot_registers(Image.GATEWAY), boot_registers(Image.SESSION)
    assert [a == b for a, b in zip(gateway, session, strict=True)] == [True, True, False, True]


@pytest.mark.parametrize("image", list(Image))
def test_rtmr3_is_untouched_and_the_others_are_not(image: Image) -> None:
    registers = boot_registers(image)
    assert registers[3] == bytes(48)
    assert bytes(48) not in registers[:3]


@pytest.mark.parametrize("image", list(Image))
def test_every_event_is_labelled_simulated(image: Image) -> None:
    assert all(event.name.startswith("affiant-sim-") for event in boot_events(image))
    assert all(event.payload["simulated"] is True for event in boot_events(image))
