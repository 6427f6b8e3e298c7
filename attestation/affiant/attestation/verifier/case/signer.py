"""Who signs: of a keyset what verdicts and rules over many records need, a few hundred bytes."""

from __future__ import annotations

from dataclasses import dataclass

from affiant.attestation.statements.statement import KeysetStatement, LogIdentity

__all__ = ["Signer", "signer_of"]


@dataclass(frozen=True, slots=True)
class Signer:
    """One keyset: its receipt key, digest, issuer, class, cadence; ``session`` is empty for a gateway's."""

    kid: str
    role: str
    keyset: str
    gks: str | None
    iss: str
    cls: str
    session: str
    epoch_s: int
    log: LogIdentity | None
    cp: str | None
    chn: frozenset[str]


def signer_of(statement: KeysetStatement) -> Signer:
    """The signer that a statement names."""
    return Signer(
        kid=statement.receipt_kid,
        role=statement.role,
        keyset=statement.keyset_digest,
        gks=statement.gks,
        iss=statement.iss,
        cls=statement.cls,
        session=statement.iss.rpartition(":")[2] if statement.role == "session" else "",
        epoch_s=statement.epoch_s,
        log=statement.log,
        cp=statement.cp,
        chn=statement.chn,
    )
