"""Files that sign and check profiles: a key, and a sigstore deployment served on loopback."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from tests.sigstore_authority.authority import encoded
from tests.sigstore_authority.serving import Deployment

from affiant.__main__ import cli
from affiant.attestation.signatures.profiles.signing_keys import parse_public_pem

TEXT = "floor: floor.yaml\nagent_configs:\n  dev: {tools: [run_tests]}\n"
IDENTITY = "reviewer@team.example"


@dataclass
class Desk:
    """A reviewer's folder: a file of profiles with its floor, and a key."""

    folder: Path

    def __post_init__(self) -> None:
        (self.folder / "profiles.yaml").write_text(TEXT)
        (self.folder / "floor.yaml").write_text("tools: [{deny: rm}]\n")
        self.make_key("key")

    def make_key(self, name: str) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        private = self.folder / f"{name}.pem"
        private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        private.chmod(0o600)
        public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        (self.folder / f"{name}.pub").write_bytes(public)

    def path(self, name: str) -> str:
        return str(self.folder / name)

    def read(self, name: str) -> bytes:
        return (self.folder / name).read_bytes()

    def write(self, name: str, content: str | bytes) -> None:
        data = content.encode() if isinstance(content, str) else content
        (self.folder / name).write_bytes(data)

    def call(self, command: str, *arguments: str, env: dict[str, str] | None = None) -> Result:
        return CliRunner().invoke(cli, ["policy", command, self.path("profiles.yaml"), *arguments], env=env)

    def sign(self, *more: str, key: str = "key.pem") -> Result:
        return self.call("sign", "--key", self.path(key), *more)

    def verify(self, *more: str, key: str = "key.pub") -> Result:
        return self.call("verify", "--key", self.path(key), *more)

    def signers(self, *items: dict[str, Any]) -> str:
        self.write("signers.json", json.dumps({"typ": "affiant-profile-signers/1", "signers": list(items)}))
        return self.path("signers.json")

    def key_value(self, name: str = "key") -> dict[str, Any]:
        return {"key": dict(parse_public_pem(self.read(f"{name}.pub")).to_jwk())}

    def sign_at(self, deployment: Deployment, *more: str, token: str | None = None) -> Result:
        self.write("config.json", encoded(deployment.trust_config()))
        self.write("root.json", encoded(deployment.authority.trusted_root()))
        self.write("token", (deployment.token(IDENTITY) if token is None else token) + "\n")
        services = ("--trust-config", self.path("config.json"), "--identity-token", self.path("token"))
        return self.call("sign", "--sigstore", *services, *more)
