"""Who signs in a period bundle: of each keyset what the rules over many records need, a few hundred bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from affiant.attestation.verdict.errors import NotMade
from affiant.attestation.verifier.case.signer import Signer, signer_of
from affiant.attestation.verifier.checks.receipt_checks import DistinctKeysets

__all__ = ["Signers", "read_signers"]


@dataclass(frozen=True, slots=True)
class Signers:
    """All of them, by key and by chain; ``names``: key -> ``sha256:`` name of the statement."""

    by_kid: Mapping[str, Signer]
    by_chain: Mapping[str, Signer]
    names: Mapping[str, str]

    @property
    def gateways(self) -> tuple[Signer, ...]:
        """Those in the role ``gateway``."""
        return tuple(signer for signer in self.by_kid.values() if signer.role == "gateway")

    @property
    def sessions(self) -> Mapping[str, Signer]:
        """Session id -> its supervisor."""
        return {signer.session: signer for signer in self.by_kid.values() if signer.session}

    @property
    def simulated(self) -> bool:
        """Whether one says so of itself."""
        return any(signer.cls == "simulated" for signer in self.by_kid.values())


def read_signers(keysets: Mapping[str, bytes]) -> Signers:
    """Every keyset, in its closed form.

    Raises:
        NotMade: there is none. MalformedError, ChainBroken: as :class:`~..receipt_checks.DistinctKeysets`.
    """
    if not keysets:
        raise NotMade("the bundle has no keyset")
    distinct = DistinctKeysets()
    found = {name: signer_of(distinct.take(name, keysets[name])) for name in sorted(keysets)}
    return Signers(
        {each.kid: each for each in found.values()},
        {chn: each for each in found.values() for chn in each.chn},
        {each.kid: name for name, each in found.items()},
    )
