"""Receipts that no launcher gathered: what the gateway of the state folder has of them."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest
from tests.raising import raises_code

from affiant.sandbox.session_state import recovery

ANSWERS = [
    b"HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n" + b"x" * 1001,
    b'HTTP/1.1 409 Conflict\r\nContent-Length: 46\r\n\r\n{"error":{"code":"session.bundle_too_large"}}\n',
]
"""What is larger than was asked for, and what the gateway does not even read."""


@pytest.mark.parametrize("said", ANSWERS, ids=["read", "refused"])
def test_a_bundle_beyond_the_limit_names_the_command_that_exports_it(tmp_path: Path, said: bytes) -> None:
    place = tmp_path / "operator.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place))
        listener.listen()

        def answer() -> None:
            with listener.accept()[0] as connection:
                connection.recv(4096)
                connection.sendall(said)

        serving = threading.Thread(target=answer)
        serving.start()
        with raises_code("session.bundle_too_large") as raised:
            recovery.fetch_session_bundle(place, "S" * 22, most=1000)
        serving.join()
    assert f"affiant bundle export --session {'S' * 22}" in str(raised.value.hint)
