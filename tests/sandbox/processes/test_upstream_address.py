"""Upstreams that the options name: plain http to another machine is an error, an address without a path a warning."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.raising import raises_code

from affiant.attestation.statements.gateway_config import DEV_ECHO
from affiant.sandbox.processes.upstream_address import lacks_path, read_root, require_encrypted

LOCAL = ("http://127.0.0.1:8000/v1", "http://127.1.2.3/v1", "http://[::1]:8000/v1", "http://localhost/v1")
ELSEWHERE = (
    "http://10.0.0.7/v1",
    "http://model.example/v1",
    "http://localhost.example/v1",
    "http://127.0.0.1.example/v1",
    "http://0.0.0.0/v1",
    "http://[::ffff:10.0.0.7]/v1",
)


@pytest.mark.parametrize("url", [*LOCAL, "https://model.example/v1", DEV_ECHO.url])
def test_prompts_that_stay_here_or_are_encrypted_may_go(url: str) -> None:
    require_encrypted(url, code="session.upstream")


@pytest.mark.parametrize("url", ELSEWHERE)
def test_prompts_do_not_leave_this_machine_over_plain_http(url: str) -> None:
    with raises_code("session.upstream") as refused:
        require_encrypted(url, code="session.upstream")
    assert "--upstream-plain-http" in str(refused.value.hint)


def test_an_address_of_a_host_alone_is_recognised() -> None:
    assert [lacks_path(f"http://h{path}") for path in ("", "/", "/v1", "/api/v3")] == [
        True,
        True,
        False,
        False,
    ]


@pytest.mark.parametrize("content", [b"", b"not PEM", None])
def test_a_certificate_that_cannot_be_read_is_named(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "ca.pem"
    if content is not None:
        path.write_bytes(content)
    with raises_code("session.upstream") as refused:
        read_root(path, code="session.upstream")
    assert refused.value.where == str(path)
