"""Who signs in a period bundle: of each keyset what the rules over many records need, a few hundred bytes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from affiant.attestation.statements.statement import LogIdentity
from affiant.attestation.verdict.errors import NotMade
from affiant.attestation.verifier.checks.receipt_checks import DistinctKeysets
from affiant.attestation.verifier.trace import TracedKeyset

__all__ = ["Signer", "Signers", "read_signers"]


@dataclass(frozen=True, slots=True)
class Signer:
    """One keyset: its receipt key, digests, issuer, class, cadence; ``session`` is empty for a gateway's."""

    kid: str
    role: str
    name: str
    keyset: str
    gks: str | None
    iss: str
    cls: str
    session: str
    epoch_s: int
    log: LogIdentity | None
    cp: str | None


@dataclass(frozen=True, slots=True)
class Signers:
    """All of them, by key and by chain."""

    by_kid: Mapping[str, Signer]
    by_chain: Mapping[str, Signer]
    simulated: bool

    @property
    def gateways(self) -> tuple[Signer, ...]:
        """Those in the role ``gateway``."""
        return tuple(signer for signer in self.by_kid.values() if signer.role == "gateway")

    @property
    def sessions(self) -> Mapping[str, Signer]:
        """Session id -> its supervisor."""
        return {signer.session: signer for signer in self.by_kid.values() if signer.session}

    @property
    def names(self) -> Mapping[str, str]:
        """Key -> ``sha256:`` name of the statement."""
        return {kid: signer.name for kid, signer in self.by_kid.items()}

    def traced(self) -> Iterator[TracedKeyset]:
        """Every name that one of them claims."""
        for kid, signer in self.by_kid.items():
            yield TracedKeyset("key", kid, signer.keyset)
            if signer.role == "session":
                yield TracedKeyset("session", signer.iss, signer.keyset)
        for chn, signer in self.by_chain.items():
            yield TracedKeyset("chain", chn, signer.keyset)


def read_signers(keysets: Mapping[str, bytes]) -> Signers:
    """Every keyset, in its closed form.

    Raises:
        NotMade: there is none. MalformedError, ChainBroken: as :class:`~..receipt_checks.DistinctKeysets`.
    """
    by_kid: dict[str, Signer] = {}
    by_chain: dict[str, Signer] = {}
    distinct, simulated = DistinctKeysets(), False
    for name in sorted(keysets):
        statement = distinct.take(name, keysets[name])
        session = statement.iss.rpartition(":")[2] if statement.role == "session" else ""
        signer = Signer(
            kid=statement.receipt_kid,
            role=statement.role,
            name=name,
            keyset=statement.keyset_digest,
            gks=statement.gks,
            iss=statement.iss,
            cls=statement.cls,
            session=session,
            epoch_s=statement.epoch_s,
            log=statement.log,
            cp=statement.cp,
        )
        by_kid[signer.kid] = signer
        by_chain |= dict.fromkeys(statement.chn, signer)
        simulated |= statement.cls == "simulated"
    if not by_kid:
        raise NotMade("the bundle has no keyset")
    return Signers(by_kid, by_chain, simulated)
