"""The server against hostile peers, in this process: a thread, real sockets, a platform from a fixed seed."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.attestation.simulated.conftest import MRCONFIGID, NOW, counting_bytes, served

from affiant.attestation.release.boot import Image
from affiant.attestation.release.manifest import InstalledFileError
from affiant.attestation.release.memory import LaunchedImage
from affiant.attestation.simulated.platform.errors import (
    PlatformFullError,
    PlatformUnreachableError,
)
from affiant.attestation.simulated.platform.platform import SimulatedPlatform
from affiant.attestation.simulated.served import server as server_module
from affiant.attestation.simulated.served.client import PlatformClient, SimulatedTD
from affiant.attestation.simulated.served.host import PlatformHost
from affiant.attestation.simulated.served.messages import (
    MAX_REQUEST,
    CreateTD,
    Extend,
    GetStatus,
    Quote,
    Report,
    encode_request,
    parse_reply,
)
from affiant.attestation.simulated.served.server import listen
from affiant.attestation.tdx.event_log.eventlog import Event, replay
from affiant.attestation.tdx.quote.quote import parse_quote
from affiant.errors import AffiantError


def connected(path: Path) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.settimeout(5)
    connection.connect(str(path))
    return connection


def soon(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 3
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
    return condition()


def td_socket(td: SimulatedTD) -> socket.socket:
    return td._socket


# -- what a holder may do ---------------------------------------------------------------------------------------


def test_a_quote_shows_what_was_launched_and_extended(td: SimulatedTD) -> None:
    events = [Event("affiant-manifest", {"n": 1}), Event("affiant-profile", {"n": 2})]
    for event in events:
        td.extend(event)
    body = parse_quote(td.quote(b"r" * 64)).body
    assert (body.mrconfigid, body.mrtd, body.report_data) == (MRCONFIGID, b"m" * 48, b"r" * 64)
    assert body.rtmrs == td.report().rtmrs
    assert body.rtmrs[3] == replay(events)


def test_two_tds_know_nothing_of_each_other(client: PlatformClient, td: SimulatedTD) -> None:
    with SimulatedTD(client.create_td(image=Image.GATEWAY, mrconfigid=b"d" * 48)) as other:
        other.extend(Event("affiant-policy", {}))
        assert other.report().td_id != td.report().td_id
        assert td.report().rtmrs[3] == bytes(48)
        assert other.report().mrconfigid == b"d" * 48


# -- what nobody may do -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("request_", [CreateTD(Image.SESSION, bytes(48)), GetStatus()])
def test_whoever_holds_a_td_cannot_reach_the_platform(
    td: SimulatedTD, request_: CreateTD | GetStatus
) -> None:
    td_socket(td).send(encode_request(request_, "x"))
    reply = parse_reply(td_socket(td).recv(1 << 16), "x")
    assert isinstance(reply, tuple)
    assert reply[0] == "platform.request"


@pytest.mark.parametrize("request_", [Report(), Quote(bytes(64)), Extend(3, bytes(48))])
def test_whoever_reaches_the_platform_cannot_reach_a_td(
    path: Path, td: SimulatedTD, request_: Report | Quote | Extend
) -> None:
    with connected(path) as connection:
        connection.send(encode_request(request_, "x"))
        reply = parse_reply(connection.recv(1 << 16), "x")
    assert isinstance(reply, tuple)
    assert td.report().rtmrs[3] == bytes(48)


@pytest.mark.parametrize("rtmr", [0, 1, 2, 4, 2**40])
def test_no_launch_register_can_be_set_or_extended(td: SimulatedTD, rtmr: int) -> None:
    before = td.report()
    td_socket(td).send(encode_request(Extend(rtmr, b"d" * 48), "x"))
    assert parse_reply(td_socket(td).recv(1 << 16), "x")[0] == "platform.register"  # type: ignore[index]
    assert td.report() == before


def test_more_tds_than_there_may_be_are_refused(client: PlatformClient) -> None:
    held = [client.create_td(image=Image.SESSION, mrconfigid=MRCONFIGID) for _ in range(4)]
    with pytest.raises(PlatformFullError):
        client.create_td(image=Image.SESSION, mrconfigid=MRCONFIGID)
    for descriptor in held:
        os.close(descriptor)
    assert soon(lambda: client.status()["tds"] == 0)
    os.close(client.create_td(image=Image.SESSION, mrconfigid=MRCONFIGID))


def test_without_a_descriptor_left_a_launch_is_refused_and_the_platform_goes_on(
    client: PlatformClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_left(*_: object) -> tuple[socket.socket, socket.socket]:
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(socket, "socketpair", none_left)
        with pytest.raises(PlatformFullError, match="no descriptor left"):
            client.create_td(image=Image.SESSION, mrconfigid=MRCONFIGID)
    assert client.status()["tds"] == 0


def test_an_installation_that_cannot_be_measured_launches_nothing(
    platform: SimulatedPlatform, tmp_path: Path
) -> None:
    def broken(_: object) -> LaunchedImage:
        raise InstalledFileError("a link among the installed files")

    host = PlatformHost(platform, measure=broken, clock=lambda: NOW, random_bytes=counting_bytes("b"))
    with served(host, tmp_path / "broken.sock"):
        client = PlatformClient(tmp_path / "broken.sock")
        with pytest.raises(InstalledFileError, match="a link among"):
            client.create_td(image=Image.SESSION, mrconfigid=MRCONFIGID)
        assert client.status()["tds"] == 0


def test_more_connections_than_there_may_be_are_refused(
    path: Path, client: PlatformClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "MAX_CONNECTIONS", 2)
    with connected(path), connected(path):
        with pytest.raises((PlatformFullError, PlatformUnreachableError)):
            client.status()
    assert soon(lambda: not_refused(client))


def not_refused(client: PlatformClient) -> bool:
    try:
        client.status()
    except AffiantError:
        return False
    return True


# -- hostile bytes ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "packet",
    [
        b"\x00",
        b"{}",
        b"[]",
        b"null",
        b"\xff\xfe" * 10,
        b'{"id":"a","op":"create_td"}',
        b'{"op":"status"}',
        b'{"id":"a","id":"b","op":"status"}',
        b'{ "id":"a","op":"status"}',
        b'{"id":"a","op":"shutdown"}',
        b"[" * 2000,
        b'{"id":"' + b"a" * 1900 + b'","op":"status"}',
        b"x" * (MAX_REQUEST + 1),
        b"x" * 100_000,
    ],
)
def test_garbage_gets_a_refusal_and_the_platform_goes_on(
    path: Path, client: PlatformClient, td: SimulatedTD, packet: bytes
) -> None:
    with connected(path) as connection:
        connection.send(packet)
        assert b'"refused"' in connection.recv(1 << 16)
        connection.send(encode_request(GetStatus(), "x"))
        assert isinstance(parse_reply(connection.recv(1 << 16), "x"), dict)
    td_socket(td).send(packet)
    assert b'"refused"' in td_socket(td).recv(1 << 16)
    assert td.report().mrconfigid == MRCONFIGID
    assert client.status()["tds"] == 1


def test_an_empty_packet_is_the_end_and_nothing_worse(path: Path, client: PlatformClient) -> None:
    with connected(path) as connection:
        connection.send(b"")
        assert connection.recv(16) == b""
    assert client.status()["tds"] == 0


def test_descriptors_sent_to_the_platform_are_not_kept(path: Path, client: PlatformClient) -> None:
    reading, writing = os.pipe()
    with connected(path) as connection:
        socket.send_fds(connection, [encode_request(GetStatus(), "x")], [writing])
        connection.recv(1 << 16)
        os.close(writing)
        os.set_blocking(reading, False)
        assert os.read(reading, 1) == b""  # nobody else holds the writing end
    os.close(reading)


def test_a_peer_that_never_reads_is_dropped_and_delays_nobody(path: Path, client: PlatformClient) -> None:
    with connected(path) as connection:
        connection.setblocking(False)
        dropped = False
        for _ in range(100_000):
            try:
                connection.send(b"{}")
            except BlockingIOError:
                assert client.status()["tds"] == 0
            except (BrokenPipeError, ConnectionResetError):
                dropped = True
                break
        assert dropped
    assert client.status()["tds"] == 0


def test_a_peer_that_leaves_before_its_answer_harms_nobody(path: Path, client: PlatformClient) -> None:
    for _ in range(50):
        with connected(path) as connection:
            connection.send(encode_request(CreateTD(Image.SESSION, MRCONFIGID), "x"))
    assert soon(lambda: client.status()["tds"] == 0)


# -- the end of a TD --------------------------------------------------------------------------------------------


def test_a_td_ends_with_its_last_holder(client: PlatformClient) -> None:
    descriptor = client.create_td(image=Image.SESSION, mrconfigid=MRCONFIGID)
    second = os.dup(descriptor)
    os.close(descriptor)
    with SimulatedTD(second) as td:
        assert td.report().mrconfigid == MRCONFIGID
    assert soon(lambda: client.status()["tds"] == 0)


def test_an_old_socket_file_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "platform.sock"
    listen(path).close()
    assert path.is_socket()
    with listen(path):
        assert path.stat().st_mode & 0o777 == 0o600
