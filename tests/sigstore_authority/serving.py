"""The deployment's HTTP interfaces on 127.0.0.1, as far as a client that signs asks them.

POST /api/v2/signingCert     the certificate authority (Fulcio): a token and a signing request for a certificate
POST /api/v1/log/entries     the log of version 1
POST /api/v2/log/entries     the log of version 2
POST /api/v1/timestamp       the timestamp authority
"""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from tests.sigstore_authority.authority import Authority, pae
from tests.sigstore_authority.transparency_log import Signed

from affiant.attestation.encoding.der import SEQUENCE, children, read_single

AUDIENCE = "sigstore"


@dataclass
class Deployment:
    """A served authority: where it is, whose tokens it takes, and what it was asked."""

    authority: Authority
    issuer: str = "https://accounts.tests"
    token_key: bytes = b"only this deployment knows this key!"
    url: str = ""
    failing: set[str] = field(default_factory=set)
    """Paths that answer with an error that repeats what they were sent."""
    asked: list[str] = field(default_factory=list)

    def token(self, identity: str, *, expires_in: timedelta = timedelta(minutes=5), **claims: Any) -> str:
        """An identity token as an OIDC issuer makes it."""
        now = datetime.now(UTC)
        given = {"iss": self.issuer, "aud": AUDIENCE, "sub": identity, "iat": now - timedelta(minutes=10)}
        return jwt.encode({**given, "exp": now + expires_in, **claims}, self.token_key, algorithm="HS256")

    def trust_config(self, *, tiled: bool = False) -> dict[str, Any]:
        """What a client needs to sign here: services, and the trusted root."""
        start = {"start": "2026-01-01T00:00:00Z"}

        def service(path: str, version: int) -> dict[str, Any]:
            return {
                "url": self.url + path,
                "majorApiVersion": version,
                "validFor": start,
                "operator": "tests",
            }

        return {
            "mediaType": "application/vnd.dev.sigstore.clienttrustconfig.v0.1+json",
            "trustedRoot": self.authority.trusted_root(),
            "signingConfig": {
                "mediaType": "application/vnd.dev.sigstore.signingconfig.v0.2+json",
                "caUrls": [service("", 1)],
                "oidcUrls": [service("", 1)],
                "rekorTlogUrls": [service("", 2 if tiled else 1)],
                "rekorTlogConfig": {"selector": "ANY"},
                "tsaUrls": [service("/api/v1/timestamp", 1)] if tiled else [],
                "tsaConfig": {"selector": "ANY"},
            },
        }

    def certify(self, body: bytes, authorization: str) -> dict[str, Any]:
        claims = jwt.decode(
            authorization.removeprefix("Bearer "), self.token_key, algorithms=["HS256"], audience=AUDIENCE
        )
        request = x509.load_pem_x509_csr(base64.b64decode(json.loads(body)["certificateSigningRequest"]))
        assert request.is_signature_valid
        key = request.public_key()
        assert isinstance(key, ec.EllipticCurvePublicKey)
        authority = self.authority.certificates
        leaf = authority.issue(
            key,
            identity=claims["sub"],
            issuer=claims["iss"],
            at=datetime.now(UTC).replace(microsecond=0) - timedelta(seconds=5),
        )
        chain = [each.public_bytes(Encoding.PEM).decode() for each in (leaf, authority.root)]
        return {"signedCertificateEmbeddedSct": {"chain": {"certificates": chain}}}

    def log_v1(self, body: bytes) -> dict[str, Any]:
        proposed = json.loads(body)["spec"]["proposedContent"]
        envelope = json.loads(proposed["envelope"])
        certificate = x509.load_pem_x509_certificate(base64.b64decode(proposed["verifiers"][0]))
        statement = base64.b64decode(envelope["payload"])
        signature = base64.b64decode(envelope["signatures"][0]["sig"])
        encoded = pae(statement, envelope["payloadType"])
        _require_signed(certificate, signature, encoded)
        signed = Signed(statement, signature, encoded, certificate, proposed["envelope"].encode())
        entry = self.authority.log.add(signed, at=datetime.now(UTC))
        return {"24296fb24b8ad77a": _as_v1(entry)}

    def log_v2(self, body: bytes) -> dict[str, Any]:
        asked = json.loads(body)["hashedRekordRequestV002"]
        signature = asked["signature"]
        certificate = x509.load_der_x509_certificate(
            base64.b64decode(signature["verifier"]["x509Certificate"]["rawBytes"])
        )
        return self.authority.tiles.add_digest(
            base64.b64decode(asked["digest"]), base64.b64decode(signature["content"]), certificate
        )

    def stamp(self, body: bytes) -> bytes:
        imprint = children(read_single(body, SEQUENCE))[1]
        digest = children(imprint.content)[1].content
        return self.authority.timestamps.stamp(digest, at=datetime.now(UTC))


def _require_signed(certificate: x509.Certificate, signature: bytes, data: bytes) -> None:
    key = certificate.public_key()
    assert isinstance(key, ec.EllipticCurvePublicKey)
    key.verify(signature, data, ec.ECDSA(hashes.SHA256()))


def _as_v1(entry: dict[str, Any]) -> dict[str, Any]:
    """An entry as the first version's interface answers: numbers as numbers, digests in hexadecimal."""
    proof = entry["inclusionProof"]
    return {
        "body": entry["canonicalizedBody"],
        "integratedTime": int(entry["integratedTime"]),
        "logID": base64.b64decode(entry["logId"]["keyId"]).hex(),
        "logIndex": int(entry["logIndex"]),
        "verification": {
            "inclusionProof": {
                "checkpoint": proof["checkpoint"]["envelope"],
                "hashes": [base64.b64decode(item).hex() for item in proof["hashes"]],
                "logIndex": int(proof["logIndex"]),
                "rootHash": base64.b64decode(proof["rootHash"]).hex(),
                "treeSize": int(proof["treeSize"]),
            },
            "signedEntryTimestamp": entry["inclusionPromise"]["signedEntryTimestamp"],
        },
    }


@contextmanager
def serve(authority: Authority) -> Iterator[Deployment]:
    """Serve ``authority`` on a free port until the block ends."""
    deployment = Deployment(authority)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            deployment.asked.append(self.path)
            if self.path in deployment.failing:
                echoed = {"code": 400, "message": f"no: {self.headers['Authorization']}"}
                self.answer(400, json.dumps(echoed).encode())
                return
            match self.path:
                case "/api/v2/signingCert":
                    found = deployment.certify(body, self.headers["Authorization"])
                case "/api/v1/log/entries":
                    found = deployment.log_v1(body)
                case "/api/v2/log/entries":
                    found = deployment.log_v2(body)
                case "/api/v1/timestamp":
                    self.answer(201, deployment.stamp(body))
                    return
                case _:
                    self.answer(404, b"{}")
                    return
            self.answer(201, json.dumps(found).encode())

        def answer(self, status: int, content: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Silent."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    deployment.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield deployment
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
