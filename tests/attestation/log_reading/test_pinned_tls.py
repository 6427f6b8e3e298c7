"""A server that signs its own certificate is known by its key, and by nothing else."""

from __future__ import annotations

import hashlib
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.x509.oid import NameOID
from tests.attestation.log_builder import LogBuilder
from tests.attestation.log_reading.conftest import VKEY
from tests.attestation.log_server import served

from affiant.attestation.cli.log.commands import log
from affiant.attestation.encoding.binary_text import b64u
from affiant.attestation.log_reading import pinned_tls
from affiant.attestation.log_reading.bounded_http import HTTPSettings
from affiant.attestation.log_reading.errors import LogSettingsInvalid, LogUnreachable, ServerNotAuthentic
from affiant.attestation.log_reading.http_prefix import open_http_log
from affiant.attestation.log_reading.reader import read_checkpoint

QUICK = HTTPSettings(answer_s=2.0, silence_s=2.0)


def identity(folder: Path, name: str, *, days: int = 1) -> tuple[ssl.SSLContext, str]:
    """A server's context as a gateway makes it (no name of a host), and the digest of its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    common = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "affiant gateway")])
    begin = datetime.now(UTC) - timedelta(days=2)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(common)
        .issuer_name(common)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(begin + timedelta(days=2 + days))
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / name).write_bytes(certificate.public_bytes(serialization.Encoding.PEM) + private)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / name)
    info = key.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return context, b64u(hashlib.sha256(info).digest())


@pytest.fixture
def gateway(built: LogBuilder, tmp_path: Path) -> Iterator[tuple[str, str]]:
    context, spki = identity(tmp_path, "server.pem")
    with served(built.folder, tls=context) as url:
        yield url, spki


def test_a_log_is_read_from_a_server_that_only_its_key_names(
    gateway: tuple[str, str], built: LogBuilder
) -> None:
    url, spki = gateway
    with open_http_log(url, QUICK, spki=("A" * 43, spki)) as source:
        assert read_checkpoint(source) == built.note()


def test_another_key_is_refused_before_anything_is_asked(gateway: tuple[str, str], tmp_path: Path) -> None:
    _, other = identity(tmp_path, "other.pem")
    with (
        pytest.raises(ServerNotAuthentic, match="the server's TLS key is another"),
        open_http_log(gateway[0], QUICK, spki=(other,)),
    ):
        pass


def test_without_the_pin_its_certificate_does_not_hold(gateway: tuple[str, str]) -> None:
    with open_http_log(gateway[0], QUICK) as source, pytest.raises(ServerNotAuthentic, match="--tls-spki"):
        read_checkpoint(source)


def test_a_certificate_that_has_ended_is_refused_under_its_own_pin(built: LogBuilder, tmp_path: Path) -> None:
    context, spki = identity(tmp_path, "old.pem", days=-1)
    with (
        served(built.folder, tls=context) as url,
        open_http_log(url, QUICK, spki=(spki,)) as source,
        pytest.raises(ServerNotAuthentic),
    ):
        read_checkpoint(source)


@pytest.mark.parametrize(
    ("url", "refusal"), [("http://127.0.0.1:1", LogSettingsInvalid), ("https://127.0.0.1:1", LogUnreachable)]
)
def test_what_cannot_be_pinned_is_refused(url: str, refusal: type[Exception]) -> None:
    with pytest.raises(refusal), open_http_log(url, QUICK, spki=("A" * 43,)):
        pass


def test_the_commands_take_the_pin(gateway: tuple[str, str], built: LogBuilder) -> None:
    url, spki = gateway
    asked = ["fsck", url, "--key", VKEY, "--tls-spki", spki]
    done = CliRunner().invoke(log, asked)
    assert done.exit_code == 0 and "affirming" in done.output
    wrong = CliRunner().invoke(log, [*asked[:-1], "not-a-digest"])
    assert wrong.exit_code == 2 and "43 characters" in wrong.output


@pytest.mark.parametrize(
    ("old", "new"), [("06032b6570", "06032b6577"), ("a003020102", "a003020104"), ("06032b6570", "07032b6570")]
)
def test_a_certificate_that_cannot_be_read_is_refused(
    monkeypatch: pytest.MonkeyPatch, old: str, new: str
) -> None:
    """A key of an unknown kind, a version that there is not, no certificate at all."""
    key = ed25519.Ed25519PrivateKey.generate()
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "affiant gateway")])
    begin = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), 1, begin, begin + timedelta(days=1))
        .sign(key, None)
        .public_bytes(serialization.Encoding.DER)
    )
    shown = certificate.replace(bytes.fromhex(old), bytes.fromhex(new))
    assert shown != certificate

    async def certificate_of(*_: object) -> bytes:
        return shown

    monkeypatch.setattr(pinned_tls, "_certificate", certificate_of)
    with (
        pytest.raises(ServerNotAuthentic, match="cannot be read"),
        open_http_log("https://127.0.0.1:1", QUICK, spki=("A" * 43,)),
    ):
        pass
