"""A real S3 server on loopback: versitygw over a folder, where it is installed.

It is looked for in ``AFFIANT_VERSITYGW``, on the PATH, and in ``~/.cache/affiant-tests``. Made with:
``GOBIN=~/.cache/affiant-tests go install github.com/versity/versitygw/cmd/versitygw@v1.8.0``.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

KEY, SECRET, BUCKET = "affiant-tests", "not-a-secret-of-anybody", "bucket"
_BEGIN_S = 15.0


@dataclass(frozen=True)
class S3Server:
    """A running server, its bucket's folder, and what a client reads from the environment."""

    folder: Path
    environment: Mapping[str, str]

    def url(self, prefix: str) -> str:
        return f"s3://{BUCKET}/{prefix}"


def found_server() -> str | None:
    named = os.environ.get("AFFIANT_VERSITYGW")
    kept = Path.home() / ".cache" / "affiant-tests" / "versitygw"
    return named or shutil.which("versitygw") or (str(kept) if kept.is_file() else None)


@contextmanager
def s3_server(folder: Path) -> Iterator[S3Server]:
    """The server over ``folder``; skips the test where there is none."""
    program = found_server()
    if program is None:
        pytest.skip(
            "no S3 server: versitygw is neither in AFFIANT_VERSITYGW, on the PATH nor in ~/.cache/affiant-tests"
        )
    (folder / BUCKET).mkdir()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    child = subprocess.Popen(
        [program, "--port", f"127.0.0.1:{port}", "--quiet", "posix", str(folder)],
        env={"ROOT_ACCESS_KEY": KEY, "ROOT_SECRET_KEY": SECRET, "HOME": str(folder)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _await(port, child)
        yield S3Server(
            folder / BUCKET,
            {
                "AWS_ACCESS_KEY_ID": KEY,
                "AWS_SECRET_ACCESS_KEY": SECRET,
                "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
                "AWS_REGION": "us-east-1",
                "AWS_ALLOW_HTTP": "true",
            },
        )
    finally:
        child.kill()
        child.wait()


def _await(port: int, child: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + _BEGIN_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            assert child.poll() is None and time.monotonic() < end, "versitygw did not begin"
            time.sleep(0.05)
