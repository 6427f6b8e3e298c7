"""The server as a real process: C2SP's answers over HTTP, its bounds, and death at any point."""

from __future__ import annotations

import asyncio
import ipaddress
import random
import signal
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from tests.attestation.log.witness.conftest import FORK, KEYS, LOG, NAME, ORIGIN, QUICK_KEYS, opened, request
from tests.attestation.log_builder import log_signer
from tests.attestation.served_witness import Served
from tests.raising import raises_code

from affiant.attestation.log.witness.checkpoint_request import MAX_REQUEST_BYTES
from affiant.attestation.log.witness.client import ask_witness
from affiant.attestation.log.witness.witness import origin_hash
from affiant.attestation.log_reading.bounded_http import HTTPSettings, make_client
from affiant.attestation.tlog.checkpoint import parse_checkpoint
from affiant.attestation.tlog.note import Note, parse_note, parse_signature_lines, verify_note


@pytest.fixture
def served(home: Path) -> Iterator[Served]:
    server = Served(home)
    yield server
    if server.process.poll() is None:
        server.kill()


def test_the_answers_of_the_protocol_over_http(served: Served, home: Path) -> None:
    monitor = f"/{origin_hash(ORIGIN)}/checkpoint"
    assert served.ask("GET", monitor)[0] == 404
    status, media_type, body = served.add(request(0, 9))
    assert (status, media_type) == (200, "text/plain; charset=utf-8")
    verify_note(Note(LOG.note(9).text, parse_signature_lines(body.decode())), KEYS.verifiers())
    assert served.add(request(5, 12)) == (409, "text/x.tlog.size", b"9\n")
    assert served.add(request(9, 12))[0] == 200
    assert served.add(request(12, 12, FORK))[0] == 422
    assert served.add(b"nonsense")[0] == 400
    thief = log_signer(label="thief")
    text = LOG.note(20).text
    assert served.add(request(12, 20, note=Note(text, (thief.sign(text),))))[0] == 403
    other = log_signer("log.example/other")
    text = text.replace(ORIGIN, other.name)
    assert served.add(request(0, 20, note=Note(text, (other.sign(text),))))[0] == 404
    status, _, note = served.ask("GET", monitor)
    assert status == 200 and parse_checkpoint(parse_note(note).text).size == 12
    verify_note(parse_note(note), [*KEYS.verifiers(), log_signer().verifier])
    for method, path, expected in (
        ("GET", "/add-checkpoint", 405),
        ("POST", monitor, 405),
        ("GET", "/", 404),
        ("GET", monitor.upper(), 404),
        ("GET", f"/{'0' * 64}/checkpoint", 404),
    ):
        assert served.ask(method, path)[0] == expected
    assert served.add(b"x" * (MAX_REQUEST_BYTES + 1))[0] == 413
    code, error = served.stop()
    assert code == 0 and "CONTRADICTION" in error and str(home / "evidence") in error


def test_connections_beyond_the_bound_are_closed_and_the_witness_goes_on(served: Served) -> None:
    address = (urlsplit(served.url).hostname, urlsplit(served.url).port)
    idle = [socket.create_connection(address, timeout=5) for _ in range(64)]
    time.sleep(0.2)
    extra = socket.create_connection(address, timeout=5)
    extra.settimeout(5)
    try:
        assert extra.recv(1) == b""
    except ConnectionResetError:
        pass
    extra.close()
    for each in idle:
        each.close()
    time.sleep(0.2)
    assert served.add(request(0, 9))[0] == 200


def test_tls_is_served_and_verified_by_clients(home: Path, tmp_path: Path) -> None:
    certificate(tmp_path / "cert.pem", tmp_path / "key.pem")
    server = Served(home, "--tls-cert", str(tmp_path / "cert.pem"), "--tls-key", str(tmp_path / "key.pem"))
    try:

        async def ask(settings: HTTPSettings) -> int:
            async with make_client(settings) as client:
                found = await ask_witness(
                    server.url,
                    LOG.note(9),
                    lambda old: LOG.proof(old, 9),
                    keys=KEYS.verifiers(),
                    old=0,
                    now=int(time.time()),
                    client=client,
                )
                return len(found.lines)

        assert server.url.startswith("https://")
        assert asyncio.run(ask(HTTPSettings(tls_ca=tmp_path / "cert.pem"))) == 2
        with raises_code("witness.unreachable", match="TLS certificate"):
            asyncio.run(ask(HTTPSettings()))
    finally:
        server.kill()


def certificate(cert: Path, key: Path) -> None:
    private = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "witness")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(private.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
        .sign(private, hashes.SHA256())
    )
    cert.write_bytes(made.public_bytes(Encoding.PEM))
    key.write_bytes(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))


def test_ctrl_c_stops_it_in_order(served: Served) -> None:
    code, error = served.stop(signal.SIGINT)
    assert (code, error) == (0, "")


def test_a_key_without_its_database_does_not_serve(home: Path) -> None:
    (home / "w.key.sqlite").unlink()
    with pytest.raises(RuntimeError, match=r"witness\.state_lost"):
        Served(home)
    assert not (home / "w.key.sqlite").exists()


def test_killed_at_any_moment_it_never_cosigns_a_second_story(home: Path) -> None:
    """Two stories race for every size while the process is killed at random; what was given away is one story."""
    (home / "w.key").write_bytes(QUICK_KEYS.to_bytes())
    rng = random.Random(11)
    given: list[tuple[int, str]] = []
    at = [0]

    def ask(server: Served, log: object, stop: threading.Event) -> None:
        while not stop.is_set() and at[0] < 60:
            size = at[0] + 1
            for old in (at[0], size):
                try:
                    status, _, body = server.add(request(old, size, log))  # type: ignore[arg-type]
                except OSError:
                    return
                except Exception:  # http.client's own, of an answer that was cut off
                    return
                if status == 200:
                    given.append((size, log.checkpoint(size).root.hex()))  # type: ignore[attr-defined]
                    at[0] = max(at[0], size)
                elif status == 409:
                    at[0] = max(at[0], int(body))

    for _ in range(3):
        server = Served(home)
        stop = threading.Event()
        with ThreadPoolExecutor(4) as pool:
            asking = [pool.submit(ask, server, log, stop) for log in (LOG, FORK, LOG, FORK)]
            time.sleep(rng.uniform(0.02, 0.15))
            server.kill()
            stop.set()
            for each in asking:
                each.result()
    roots: dict[int, str] = {}
    for size, root in given:
        assert roots.setdefault(size, root) == root
    assert given and len({root == LOG.checkpoint(size).root.hex() for size, root in given}) == 1
    with opened(home, QUICK_KEYS) as witness:
        stored = witness.state.stored(ORIGIN)
        assert stored is not None and stored.size >= max(size for size, _ in given)
    assert NAME == QUICK_KEYS.name
