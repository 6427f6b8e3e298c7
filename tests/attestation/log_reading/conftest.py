"""A log of 700 leaves in a folder, and a web server that can misbehave."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.attestation.log_builder import LogBuilder, chain, log_signer

from affiant.__main__ import cli

VKEY = log_signer().verifier.vkey()


@cache
def big() -> LogBuilder:
    """A log of 70,000 leaves, in memory alone."""
    return LogBuilder(Path("unused"), chain("big", 70_000))


@pytest.fixture
def built(tmp_path: Path) -> LogBuilder:
    """300 leaves of one chain and 400 of another; checkpoints at 300 and 700."""
    builder = LogBuilder(tmp_path / "log", chain("one", 300))
    builder.sign()
    builder.add(chain("two", 400, end=True))
    builder.sign()
    return builder


@pytest.fixture
def run() -> Callable[..., Result]:
    def call(*arguments: object) -> Result:
        return CliRunner().invoke(cli, [str(each) for each in arguments])

    return call


def trickle(handler: BaseHTTPRequestHandler) -> bool:
    """Headers, and then a byte now and then."""
    handler.send_response(200)
    handler.send_header("Content-Length", "8192")
    handler.end_headers()
    for _ in range(40):
        try:
            handler.wfile.write(b"x")
            handler.wfile.flush()
        except OSError:
            break
        time.sleep(0.1)
    handler.close_connection = True
    return True
