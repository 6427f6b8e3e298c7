"""Keys, certificates and tokens of one authority, each made by a call of ``openssl``."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, field
from pathlib import Path

_SETTINGS = """
[tsa]
default_tsa = this
[this]
serial = serial
signer_cert = tsa.pem
certs = chain.pem
signer_key = tsa.key
signer_digest = {signer_digest}
default_policy = {policy}
digests = {digests}
accuracy = secs:1, millisecs:500
ordering = no
tsa_name = no
ess_cert_id_chain = no
ess_cert_id_alg = {ess}
"""
_PURPOSE = """
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = {purpose}
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
"""


@dataclass
class TimestampAuthority:
    """An authority in ``folder``: root, an issuing authority below it, and the signer below that."""

    folder: Path
    name: str = "tests"
    policy: str = "1.3.6.1.4.1.99999.1"
    digests: str = "sha256, sha512"
    signer_digest: str = "sha256"
    ess: str = "sha256"
    rsa: bool = False
    purpose: str = "critical, timeStamping"
    days: int = 30
    root: Path = field(init=False)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.root = self.folder / "root.pem"
        self._key("root")
        self._openssl(
            *("req", "-x509", "-new", "-key", "root.key", "-subj", f"/O=affiant tests/CN={self.name} root"),
            *("-days", "3650", "-out", "root.pem"),
            *("-addext", "keyUsage = critical, keyCertSign"),
        )
        self._issue(
            "issuing", "root", "basicConstraints = critical, CA:TRUE\nkeyUsage = critical, keyCertSign\n"
        )
        self._issue("tsa", "issuing", _PURPOSE.format(purpose=self.purpose))
        (self.folder / "chain.pem").write_bytes((self.folder / "issuing.pem").read_bytes())
        (self.folder / "serial").write_text("01\n")
        settings = {name: getattr(self, name) for name in ("policy", "digests", "signer_digest", "ess")}
        (self.folder / "settings").write_text(_SETTINGS.format(**settings))

    def answer(self, request: bytes) -> bytes:
        """The response to a request: a token, or a refusal."""
        (self.folder / "request").write_bytes(request)
        self._openssl("ts", "-reply", "-config", "settings", "-queryfile", "request", "-out", "response")
        return (self.folder / "response").read_bytes()

    def stamp(self, message: bytes, *, hashed: str = "sha256", certificates: bool = True) -> bytes:
        """The response to a request that ``openssl`` makes too."""
        (self.folder / "message").write_bytes(message)
        with_them = ("-cert",) if certificates else ()
        self._openssl("ts", "-query", "-data", "message", f"-{hashed}", *with_them, "-out", "query")
        return self.answer((self.folder / "query").read_bytes())

    def holds(self, response: bytes, message: bytes) -> bool:
        """What ``openssl ts -verify`` says."""
        (self.folder / "message").write_bytes(message)
        (self.folder / "judged").write_bytes(response)
        arguments = ("ts", "-verify", "-data", "message", "-in", "judged", "-CAfile", "root.pem")
        done = subprocess.run(
            ["openssl", *arguments], cwd=self.folder, check=False, capture_output=True, timeout=20
        )
        return done.returncode == 0

    def _key(self, name: str) -> None:
        how = ("rsa_keygen_bits:2048", "RSA") if self.rsa else ("ec_paramgen_curve:P-256", "EC")
        self._openssl("genpkey", "-algorithm", how[1], "-pkeyopt", how[0], "-out", f"{name}.key")

    def _issue(self, name: str, issuer: str, extensions: str) -> None:
        self._key(name)
        (self.folder / "extensions").write_text(extensions)
        subject = f"/O=affiant tests/CN={self.name} {name}"
        self._openssl("req", "-new", "-key", f"{name}.key", "-subj", subject, "-out", f"{name}.csr")
        self._openssl(
            *("x509", "-req", "-in", f"{name}.csr", "-CA", f"{issuer}.pem", "-CAkey", f"{issuer}.key"),
            *("-CAcreateserial", "-days", str(self.days), "-extfile", "extensions", "-out", f"{name}.pem"),
        )

    def _openssl(self, *arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=self.folder, check=True, capture_output=True, timeout=20)
