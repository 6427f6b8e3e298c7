from __future__ import annotations

import os
import socket
from pathlib import Path

from affiant.socket_address import reachable_address


def test_a_path_longer_than_an_address_binds_and_connects(tmp_path: Path) -> None:
    path = tmp_path / ("long" * 40) / "s"
    path.parent.mkdir(parents=True)
    assert len(os.fsencode(path)) > 200
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        with reachable_address(path) as address:
            listener.bind(address)
        listener.listen()
        assert path.is_socket()
        with (
            socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client,
            reachable_address(path) as address,
        ):
            client.connect(address)


def test_a_short_path_is_its_own_address() -> None:
    with reachable_address(Path("/run/affiant/platform/platform.sock")) as address:
        assert address == "/run/affiant/platform/platform.sock"
