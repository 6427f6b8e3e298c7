"""Receipts that no launcher gathered: what the gateway of the state folder has of them."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

from tests.raising import raises_code

from affiant.sandbox.session_state import recovery


def test_a_bundle_beyond_the_limit_names_the_command_that_exports_it(tmp_path: Path) -> None:
    place = tmp_path / "operator.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place))
        listener.listen()

        def answer() -> None:
            with listener.accept()[0] as connection:
                connection.recv(4096)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n" + b"x" * 1001)

        serving = threading.Thread(target=answer)
        serving.start()
        with raises_code("session.bundle_too_large") as raised:
            recovery.fetch_session_bundle(place, "S" * 22, most=1000)
        serving.join()
    assert f"affiant bundle export --session {'S' * 22}" in str(raised.value.hint)
