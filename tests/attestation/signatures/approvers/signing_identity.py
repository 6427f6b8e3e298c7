"""Somebody who approves by identity: signs through a deployment that is made in the test."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from tests.sigstore_authority.authority import Authority

from affiant.attestation.encoding.canonical import canonical
from affiant.attestation.signatures.approvers.identities import ApproverIdentity, NamedIdentities
from affiant.attestation.signatures.approvers.signed_by_identity import action_statement, reader_statement

__all__ = ["ISSUER", "SigningIdentity", "named", "root_of"]

ISSUER = "https://accounts.tests"


@dataclass
class SigningIdentity:
    authority: Authority = field(default_factory=Authority)
    subject: str = "ann@example.org"
    issuer: str = ISSUER

    @property
    def who(self) -> ApproverIdentity:
        return ApproverIdentity(self.issuer, self.subject)

    @property
    def name(self) -> str:
        return named(self).name_of(self.who)

    def document(self, statement: bytes, *, at: datetime | float, **more: Any) -> dict[str, Any]:
        """A bundle over any statement, signed at an instant."""
        when = at if isinstance(at, datetime) else datetime.fromtimestamp(int(at), UTC)
        given = {"identity": self.subject, "issuer": self.issuer, **more}
        return self.authority.sign(statement, at=when, **given)

    def bundle(self, statement: bytes, *, at: datetime | float, **more: Any) -> str:
        return json.dumps(self.document(statement, at=at, **more), separators=(",", ":"), ensure_ascii=False)

    def says(
        self,
        action: str,
        *,
        at: datetime | float,
        expires: int,
        approves: bool = True,
        via: str = "cli",
        **more: Any,
    ) -> str:
        statement = action_statement(action=action, approves=approves, expires=expires, via=via)
        return self.bundle(statement, at=at, **more)

    def introduces(self, kid: str, *, spki: str, at: datetime | float, **more: Any) -> str:
        return self.bundle(reader_statement(kid=kid, spki=spki), at=at, **more)


def root_of(authority: Authority) -> bytes:
    """The deployment's trusted root as a profile holds it."""
    return canonical(authority.trusted_root())


def named(*who: SigningIdentity) -> NamedIdentities:
    """Identities of one deployment as a profile names them."""
    return NamedIdentities(frozenset(each.who for each in who), root_of(who[0].authority))
