"""The launcher's and the guest's side, against a server in this process."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from tests.attestation.simulated.conftest import MRCONFIGID
from tests.raising import raises_code

from affiant.attestation.release.boot import Image
from affiant.attestation.simulated.platform.errors import (
    PlatformReplyError,
    PlatformUnreachableError,
)
from affiant.attestation.simulated.served.client import PlatformClient, SimulatedTD
from affiant.attestation.simulated.served.messages import Report, encode_request
from affiant.attestation.statements.evidence_source import QuoteSource
from affiant.attestation.tdx.event_log.eventlog import Event, replay
from affiant.errors import MalformedError


def test_a_simulated_td_is_a_quote_source(td: SimulatedTD) -> None:
    source: QuoteSource = td  # the type checker's claim; the same three calls as on hardware
    assert source.report().mrconfigid == MRCONFIGID


def test_threads_may_share_a_td_and_no_extension_is_lost(td: SimulatedTD) -> None:
    event = Event("affiant-policy", {})

    def extend_twenty_times() -> None:
        for _ in range(20):
            td.extend(event)

    threads = [threading.Thread(target=extend_twenty_times) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert td.report().rtmrs[3] == replay([event] * 80)


def test_a_new_descriptor_is_not_inherited_by_accident(client: PlatformClient) -> None:
    descriptor = client.create_td(image=Image.SESSION, mrconfigid=MRCONFIGID)
    try:
        assert not os.get_inheritable(descriptor)
    finally:
        os.close(descriptor)


def test_a_closed_td_answers_nothing(td: SimulatedTD) -> None:
    td.close()
    with raises_code("platform.td_ended"):
        td.report()


def test_a_number_that_is_no_td_is_refused(tmp_path: Path) -> None:
    with raises_code("platform.td_ended", match="not the descriptor"):
        SimulatedTD(10_000)
    with open(tmp_path / "file", "wb") as file, raises_code("platform.td_ended"):
        SimulatedTD(file.fileno())


def test_a_reply_to_somebody_else_ends_the_use_of_the_descriptor(client: PlatformClient) -> None:
    """Two processes on one descriptor take each other's replies; the client must notice, not use them."""
    descriptor = client.create_td(image=Image.SESSION, mrconfigid=MRCONFIGID)
    with SimulatedTD(descriptor) as td:
        td._socket.send(encode_request(Report(), "of another process"))
        with pytest.raises(PlatformReplyError, match="one process at a time"):
            td.quote(bytes(64))
        with raises_code("platform.td_ended"):
            td.quote(bytes(64))


def test_a_platform_that_is_not_there_is_unreachable(tmp_path: Path) -> None:
    with pytest.raises(PlatformUnreachableError, match="affiant platform serve") as caught:
        PlatformClient(tmp_path / "nothing" / "platform.sock").status()
    assert caught.value.retryable


@pytest.mark.parametrize("size", [0, 32, 63, 65])
def test_report_data_of_another_size_is_refused(td: SimulatedTD, size: int) -> None:
    with pytest.raises(MalformedError, match="64 bytes"):
        td.quote(bytes(size))
    assert td.quote(bytes(64))  # and the TD goes on
