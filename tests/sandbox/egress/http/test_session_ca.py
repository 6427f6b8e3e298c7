"""The session's authority: what it signs is for exactly one host, and for this session only."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509

from affiant.sandbox.egress.http.session_ca import SessionCA


@pytest.fixture(scope="module")
def authority() -> SessionCA:
    return SessionCA(
        session="s" * 22, not_after=datetime.now(UTC) + timedelta(hours=2), clock=lambda: datetime.now(UTC)
    )


def shake(server: ssl.SSLContext, trusted: bytes, name: str) -> dict[str, object]:
    """A handshake in memory; the peer's certificate as the client saw it."""
    context = ssl.create_default_context(cadata=trusted.decode())
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(to_client, to_server, server_hostname=name)
    other = server.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(10):
        done = 0
        for side in (client, other):
            try:
                side.do_handshake()
                done += 1
            except ssl.SSLWantReadError:
                pass
        if done == 2:
            return client.getpeercert()
    raise AssertionError("no handshake")


def test_a_client_that_trusts_the_session_accepts_the_host(authority: SessionCA) -> None:
    seen = shake(authority.context("api.example.com"), authority.certificate_pem, "api.example.com")
    assert seen["subjectAltName"] == (("DNS", "api.example.com"),)


def test_a_leaf_is_for_no_other_host(authority: SessionCA) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        shake(authority.context("api.example.com"), authority.certificate_pem, "other.example.com")


def test_another_session_does_not_accept_it(authority: SessionCA) -> None:
    other = SessionCA(
        session="t" * 22, not_after=datetime.now(UTC) + timedelta(hours=2), clock=lambda: datetime.now(UTC)
    )
    with pytest.raises(ssl.SSLCertVerificationError):
        shake(authority.context("api.example.com"), other.certificate_pem, "api.example.com")


def test_contexts_are_made_once_for_each_host(authority: SessionCA) -> None:
    assert authority.context("a.example.com") is authority.context("a.example.com")
    assert authority.context("a.example.com") is not authority.context("b.example.com")


def test_the_authority_signs_leaves_only_and_ends_with_the_session(authority: SessionCA) -> None:
    certificate = x509.load_pem_x509_certificate(authority.certificate_pem)
    constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value
    assert (constraints.ca, constraints.path_length) == (True, 0)
    assert certificate.not_valid_after_utc < datetime.now(UTC) + timedelta(hours=4)


def test_old_contexts_are_given_up(authority: SessionCA, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("affiant.sandbox.egress.http.session_ca._MAX_CONTEXTS", 2)
    first = authority.context("first.example.com")
    for number in range(3):
        authority.context(f"h{number}.example.com")
    assert authority.context("first.example.com") is not first
