"""A provisioning service on loopback, over real TLS, that answers with whatever bytes a test wants."""

from __future__ import annotations

import ipaddress
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import parse_qs, quote, urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from affiant.attestation.tdx.tcb.collateral import Collateral

Step = bytes | float
"""Bytes to send, or seconds to wait."""
Script = Callable[["Asked"], Sequence[Step]]

HEADERS = {
    "tcb_info": "TCB-Info-Issuer-Chain",
    "qe_identity": "SGX-Enclave-Identity-Issuer-Chain",
    "pck_crl": "SGX-PCK-CRL-Issuer-Chain",
}
EVALUATIONS_HEADER = "TCB-Evaluation-Data-Numbers-Issuer-Chain"
PATHS = {
    "/tdx/certification/v4/tcb": "tcb_info",
    "/tdx/certification/v4/qe/identity": "qe_identity",
    "/sgx/certification/v4/pckcrl": "pck_crl",
    "/sgx/certification/v4/rootcacrl": "root_ca_crl",
    "/tdx/certification/v4/tcbevaluationdatanumbers": "evaluation_numbers",
}


@dataclass(frozen=True)
class Asked:
    """One request as it came."""

    target: str
    headers: dict[str, str]

    @property
    def item(self) -> str | None:
        return PATHS.get(urlsplit(self.target).path)

    @property
    def query(self) -> dict[str, str]:
        return {name: values[0] for name, values in parse_qs(urlsplit(self.target).query).items()}


def reply(
    body: bytes = b"", *, status: str = "200 OK", length: int | None = None, **headers: str
) -> list[Step]:
    """One whole response; an underscore in a header's name stands for a hyphen, an empty value omits it."""
    given = {"content-length": str(len(body) if length is None else length)}
    given |= {name.replace("_", "-").lower(): value for name, value in headers.items()}
    lines = "".join(f"{name}: {value}\r\n" for name, value in given.items() if value)
    return [f"HTTP/1.1 {status}\r\n{lines}\r\n".encode("latin-1") + body]


def url_encoded(pem: bytes) -> str:
    """As Intel sends it."""
    return quote(pem.decode("ascii"), safe="")


def item_reply(collateral: Collateral, item: str, **headers: str) -> list[Step]:
    """The answer that the service gives for ``item``; ``headers`` change or remove some."""
    signed = item in ("tcb_info", "qe_identity")
    given = {"content-type": "application/json" if signed else "application/pkix-crl"}
    if item in HEADERS:
        given[HEADERS[item].lower()] = url_encoded(getattr(collateral, f"{item}_issuer_chain"))
    given |= {name.replace("_", "-").lower(): value for name, value in headers.items()}
    return reply(getattr(collateral, item), **given)


@dataclass
class PCSServer:
    port: int
    ca: Path
    collateral: Collateral
    scripts: dict[str, Script] = field(default_factory=dict)
    """Item -> what is answered instead of the collateral's."""
    asked: list[Asked] = field(default_factory=list)
    connections: int = 0

    @property
    def url(self) -> str:
        return f"https://localhost:{self.port}"

    def items(self) -> list[str | None]:
        return [asked.item for asked in self.asked]

    def steps(self, asked: Asked) -> Sequence[Step]:
        if asked.item is None:
            return reply(status="404 Not Found")
        script = self.scripts.get(asked.item)
        if script is not None:
            return script(asked)
        known = hasattr(self.collateral, asked.item)
        return item_reply(self.collateral, asked.item) if known else reply(status="404 Not Found")


@contextmanager
def serve(collateral: Collateral, folder: Path, *, name: str = "localhost") -> Iterator[PCSServer]:
    """Serve on 127.0.0.1 under a certificate for ``name`` until the block ends."""
    ca, certificate = folder / "tls-ca.pem", folder / "tls.pem"
    if not ca.exists():
        _issue(ca, certificate, name)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    listener = socket.create_server(("127.0.0.1", 0))
    server = PCSServer(listener.getsockname()[1], ca, collateral)
    stop = threading.Event()
    thread = threading.Thread(target=_accept, args=(listener, context, server, stop), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        stop.set()
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(5)


def _accept(
    listener: socket.socket, context: ssl.SSLContext, server: PCSServer, stop: threading.Event
) -> None:
    while not stop.is_set():
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        server.connections += 1
        threading.Thread(target=_converse, args=(connection, context, server, stop), daemon=True).start()


def _converse(
    connection: socket.socket, context: ssl.SSLContext, server: PCSServer, stop: threading.Event
) -> None:
    connection.settimeout(10)
    with suppress(OSError), connection:
        with context.wrap_socket(connection, server_side=True) as stream:
            while not stop.is_set():
                head = b""
                while b"\r\n\r\n" not in head:
                    got = stream.recv(4096)
                    if not got:
                        return
                    head += got
                line, *lines = head.decode("latin-1").split("\r\n")
                pairs = (text.partition(":") for text in lines if text)
                asked = Asked(line.split(" ")[1], {key.lower(): value.strip() for key, _, value in pairs})
                server.asked.append(asked)
                for step in server.steps(asked):
                    if isinstance(step, float):
                        if stop.wait(step):
                            return
                    elif step == b"CLOSE":
                        return
                    else:
                        stream.sendall(step)


def _issue(ca_file: Path, certificate_file: Path, name: str) -> None:
    """A throw-away authority, and a certificate of it for ``name``."""
    now = datetime.now(UTC)
    ca_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    ca_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test TLS authority")])

    def builder(subject: x509.Name, public: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        return x509.CertificateBuilder(
            issuer_name=ca_name,
            subject_name=subject,
            public_key=public,
            serial_number=x509.random_serial_number(),
            not_valid_before=now - timedelta(hours=1),
            not_valid_after=now + timedelta(days=1),
        )

    usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
    ca = (
        builder(ca_name, ca_key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(ca_key.public_key()), critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    names: list[x509.GeneralName] = [x509.DNSName(name)]
    if name == "localhost":
        names.append(x509.IPAddress(ipaddress.ip_address("127.0.0.1")))
    leaf = (
        builder(x509.Name([]), key.public_key())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(names), critical=True)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False
        )
        .sign(ca_key, hashes.SHA256())
    )
    ca_file.write_bytes(ca.public_bytes(Encoding.PEM))
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    certificate_file.write_bytes(leaf.public_bytes(Encoding.PEM) + secret)


def drip(steps: Sequence[Step], *, seconds: float, size: int = 1) -> Sequence[Step]:
    """The same bytes, a few at a time."""
    data = b"".join(step for step in steps if isinstance(step, bytes))
    out: list[Step] = []
    for offset in range(0, len(data), size):
        out += [data[offset : offset + size], seconds]
    return out


def slow(steps: Sequence[Step], seconds: float) -> Sequence[Step]:
    """The same, later."""
    return [seconds, *steps]


__all__ = [
    "EVALUATIONS_HEADER",
    "HEADERS",
    "Asked",
    "PCSServer",
    "drip",
    "item_reply",
    "reply",
    "serve",
    "slow",
    "url_encoded",
]
