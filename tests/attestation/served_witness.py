"""A witness in a process of its own, as its operator runs it."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

from tests.attestation.log_builder import log_signer


class Served:
    """``affiant witness serve``; ``kill`` and ``stop`` end it."""

    def __init__(self, home: Path, *options: str) -> None:
        reading, writing = os.pipe()
        try:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "affiant", "witness", "serve", "--key", str(home / "w.key")),
                    *("--log", log_signer().verifier.vkey(), "--listen", "127.0.0.1:0"),
                    *("--ready-fd", str(writing), *options),
                ],
                pass_fds=[writing],
                stderr=subprocess.PIPE,
            )
        finally:
            os.close(writing)
        with open(reading, "rb") as file:
            line = file.readline()
        if not line:
            _, error = self.process.communicate(timeout=30)
            raise RuntimeError(error.decode())
        self.url: str = json.loads(line)["url"]

    def connection(self) -> http.client.HTTPConnection:
        parts = urlsplit(self.url)
        return http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=20)

    def ask(self, method: str, path: str, body: bytes | None = None) -> tuple[int, str, bytes]:
        connection = self.connection()
        try:
            connection.request(method, path, body)
            response = connection.getresponse()
            return response.status, response.headers["content-type"], response.read()
        finally:
            connection.close()

    def add(self, body: bytes) -> tuple[int, str, bytes]:
        return self.ask("POST", "/add-checkpoint", body)

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate(timeout=30)

    def stop(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        self.process.send_signal(number)
        _, error = self.process.communicate(timeout=30)
        return self.process.returncode, error.decode()
