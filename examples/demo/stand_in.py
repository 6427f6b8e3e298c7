"""A web API of the demo's own: TLS with its own certificate authority, and a log of what it really received.

``GET /echo`` answers with the credential that it got, as careless APIs do. The log is a list in this process: it is
what the demo holds the receipts against.
"""

from __future__ import annotations

import json
import ssl
import tempfile
import threading
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from typing import Any, Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@dataclass(frozen=True)
class Received:
    """One request as it arrived."""

    method: str
    host: str
    target: str
    authorization: str | None
    body: bytes


@dataclass
class StandIn:
    """The hosts ``names``, all on ``address`` and at each of ``ports``; use as a context manager."""

    names: tuple[str, ...]
    address: str
    ports: tuple[int, ...]
    received: list[Received] = field(default_factory=list)
    ca_pem: bytes = b""

    def __enter__(self) -> Self:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.ca_pem, chain = self._certificates()
        with tempfile.NamedTemporaryFile(prefix="affiant-stand-in-") as file:  # ssl reads files alone
            file.write(chain)
            file.flush()
            context.load_cert_chain(file.name)
        self._servers = [self._serve(port, context) for port in self.ports]
        return self

    @property
    def bound_ports(self) -> tuple[int, ...]:
        """Where it listens; a port of 0 was chosen by the system."""
        return tuple(server.server_address[1] for server, _ in self._servers)

    def _serve(self, port: int, context: ssl.SSLContext) -> tuple[ThreadingHTTPServer, threading.Thread]:
        server = ThreadingHTTPServer((self.address, port), self._handler())
        server.daemon_threads = True
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        return server, thread

    def __exit__(self, *exc: object) -> None:
        for server, thread in self._servers:
            server.shutdown()
            server.server_close()
            thread.join(5)

    def _certificates(self) -> tuple[bytes, bytes]:
        now = datetime.now(UTC)
        authority, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
        issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "affiant demo stand-in CA")])
        names = [*map(x509.DNSName, self.names), x509.IPAddress(ip_address(self.address))]

        def build(subject: x509.Name, public: Any, *, ca: bool) -> x509.Certificate:
            builder = (
                x509.CertificateBuilder()
                .subject_name(subject)
                .issuer_name(issuer)
                .public_key(public)
                .serial_number(x509.random_serial_number())
                .not_valid_before(now - timedelta(hours=1))
                .not_valid_after(now + timedelta(days=2))
                .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
                .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
                .add_extension(
                    x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key()), critical=False
                )
            )
            if not ca:
                builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
            else:
                usage = dict.fromkeys(
                    (
                        "digital_signature",
                        "content_commitment",
                        "key_encipherment",
                        "data_encipherment",
                        "key_agreement",
                        "encipher_only",
                        "decipher_only",
                    ),
                    False,
                )
                builder = builder.add_extension(
                    x509.KeyUsage(key_cert_sign=True, crl_sign=True, **usage), critical=True
                )
            return builder.sign(authority, hashes.SHA256())

        root = build(issuer, authority.public_key(), ca=True)
        leaf = build(
            x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, self.names[0])]), key.public_key(), ca=False
        )
        pem = serialization.Encoding.PEM
        private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        return root.public_bytes(pem), private + leaf.public_bytes(pem)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        log = self.received

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _answer(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                body = self.rfile.read(length) if length else b""
                credential = self.headers.get("Authorization")
                log.append(Received(self.command, self.headers.get("Host", ""), self.path, credential, body))
                answer = json.dumps(
                    {"you": "authenticated" if credential else "nobody", "with": credential}
                ).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(answer)))
                self.send_header("X-Echo", credential or "none")
                self.end_headers()
                self.wfile.write(answer)

            do_GET = _answer  # noqa: N815 - the name that http.server looks for
            do_POST = _answer  # noqa: N815

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                """The log is the list."""

        return Handler
