"""The session's own certificate authority: how the proxy reads what an agent sends over TLS.

Made at session start, kept in memory, trusted only inside that one sandbox, and gone with the supervisor. Each
inspected host gets a P-256 leaf with exactly its name; contexts are cached per host. OpenSSL takes certificates
from files only, so key and chain go through an anonymous memory file (memfd_create(2)), never a disk.
"""

from __future__ import annotations

import os
import ssl
from collections import OrderedDict
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

__all__ = ["SessionCA"]

_MAX_CONTEXTS: Final = 256
_BACKDATED: Final = timedelta(minutes=5)
"""So that a sandbox whose clock is a little behind accepts what was just made."""


class SessionCA:
    """Issues one certificate for each inspected host.

    Args:
        session: the session id; part of the CA's name.
        not_after: when the session ends; no certificate is valid longer than an hour beyond.
        clock: the present time.
    """

    def __init__(self, *, session: str, not_after: datetime, clock: Callable[[], datetime]) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._leaf_key = ec.generate_private_key(ec.SECP256R1())
        self._not_after = not_after + timedelta(hours=1)
        self._clock = clock
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"affiant session {session}")])
        self._certificate = self._root()
        self._contexts: OrderedDict[str, ssl.SSLContext] = OrderedDict()

    @property
    def certificate_pem(self) -> bytes:
        """The CA's certificate: the only part that ever enters the sandbox."""
        return self._certificate.public_bytes(serialization.Encoding.PEM)

    def context(self, host: str) -> ssl.SSLContext:
        """A server's TLS context for ``host`` (canonical); TLS 1.2 at least, HTTP/1.1 only."""
        context = self._contexts.get(host)
        if context is None:
            context = self._new_context(host)
            self._contexts[host] = context
            if len(self._contexts) > _MAX_CONTEXTS:
                self._contexts.popitem(last=False)
        self._contexts.move_to_end(host)
        return context

    def _new_context(self, host: str) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        context.num_tickets = 0
        pem = self._leaf_key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ) + self._leaf(host).public_bytes(serialization.Encoding.PEM)
        descriptor = os.memfd_create("affiant-leaf", os.MFD_CLOEXEC)
        try:
            with open(descriptor, "wb", closefd=False) as file:
                file.write(pem)
            context.load_cert_chain(f"/proc/self/fd/{descriptor}")
        finally:
            os.close(descriptor)
        return context

    def _builder(self, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(self._clock() - _BACKDATED)
            .not_valid_after(self._not_after)
        )

    def _root(self) -> x509.Certificate:
        return (
            self._builder(self._key)
            .subject_name(self._name)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs_certificates=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )

    def _leaf(self, host: str) -> x509.Certificate:
        return (
            self._builder(self._leaf_key)
            .subject_name(x509.Name([]))
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=True)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False
            )
            .sign(self._key, hashes.SHA256())
        )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
