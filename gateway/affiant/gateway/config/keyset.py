"""The keys of one boot, the statement that names them, and fresh evidence for both.

All keys are made in the process at boot, have one use each, are never written out and die with the process. The
statement names them together with the digest of the configuration; a quote binds the statement. Evidence with
the nonce ``null`` is what records name as ``evd``; :meth:`Keyset.evidence_for` gives fresh evidence for a
caller's nonce, with the same keyset digest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from affiant.attestation.encoding.binary_text import b64u, b64u_sha256
from affiant.attestation.encoding.keys import Signer
from affiant.attestation.statements.evidence import Evidence, wrap_evidence
from affiant.attestation.statements.evidence_source import QuoteSource
from affiant.attestation.statements.gateway_config import GatewayConfig
from affiant.attestation.statements.statement import (
    KeysetStatement,
    LogIdentity,
    gateway_statement,
    parse_statement,
    report_data,
)
from affiant.errors import NotAuthenticError

__all__ = ["Keyset", "make_keyset", "require_bound"]

LIFETIME: Final = timedelta(days=366)
"""``not_after`` of a statement: a gateway is started again before."""


@dataclass(frozen=True, slots=True)
class _Names:
    """What a statement names, all but the nonce."""

    config: GatewayConfig
    chn: str
    receipt: Signer
    ear: Signer
    tls_spki: str
    log: LogIdentity
    cp: str | None
    not_after: int

    def statement(self, nonce: str | None) -> bytes:
        return gateway_statement(
            iss=self.config.iss,
            cls=self.config.cls,
            chn=(self.chn,),
            receipt=self.receipt.public_key,
            ear=self.ear.public_key,
            tls_spki=self.tls_spki,
            policy=self.config.digest,
            log=self.log,
            cp=self.cp,
            epoch_s=self.config.epoch_s,
            not_after=self.not_after,
            nonce=nonce,
        )


@dataclass(frozen=True, slots=True)
class Keyset:
    """One boot's keys and what is said of them.

    Args:
        statement: without a nonce.
        evidence: the evidence collection over that statement, as exact bytes.
        cosigned: the note that the statement names as ``cp``, if it names one.
    """

    statement: KeysetStatement
    evidence: bytes
    cosigned: bytes | None
    _names: _Names
    _source: QuoteSource
    _boot_log: bytes

    @property
    def chn(self) -> str:
        """The id of this boot's chain."""
        return self._names.chn

    @property
    def receipt(self) -> Signer:
        """The key that signs records, and nothing else."""
        return self._names.receipt

    @property
    def ear(self) -> Signer:
        """The key that signs attestation results, and nothing else."""
        return self._names.ear

    @property
    def evd(self) -> str:
        """Digest of :attr:`evidence`: what every record of this gateway names."""
        return b64u_sha256(self.evidence)

    @property
    def digest(self) -> str:
        """The keyset digest: what proofs, sessions and the ``boot`` record name."""
        return self.statement.keyset_digest

    def evidence_for(self, nonce: str) -> bytes:
        """Fresh evidence over ``nonce`` (43 characters). Asks the TD for a quote, so it blocks."""
        return _evidence(self._source, self._boot_log, self._names.statement(nonce))


def make_keyset(
    *,
    config: GatewayConfig,
    source: QuoteSource,
    boot_log: bytes,
    tls_spki: str,
    log: LogIdentity,
    cosigned: bytes | None = None,
    now: datetime,
    random_bytes: Callable[[int], bytes],
) -> Keyset:
    """Make the keys of this boot, and evidence for them.

    Args:
        cosigned: the log's newest note that witnesses have cosigned, if they have: the keys are not older.

    Raises:
        ``gateway.configuration_unbound``: MRCONFIGID of the TD is not SHA-384 of the configuration.
    """
    require_bound(config, source)
    names = _Names(
        config=config,
        chn=b64u(random_bytes(16)),
        receipt=Signer.generate(),
        ear=Signer.generate(),
        tls_spki=tls_spki,
        log=log,
        cp=None if cosigned is None else b64u_sha256(cosigned),
        not_after=int((now + LIFETIME).timestamp()),
    )
    statement = names.statement(None)
    evidence = _evidence(source, boot_log, statement)
    return Keyset(parse_statement(statement), evidence, cosigned, names, source, boot_log)


def require_bound(config: GatewayConfig, source: QuoteSource) -> None:
    """Return if the TD was launched for ``config``.

    Raises:
        ``gateway.configuration_unbound``: MRCONFIGID is not SHA-384 of it.
    """
    found = source.report().mrconfigid
    if found != config.mrconfigid:
        raise NotAuthenticError(
            "this TD was launched for another configuration",
            expected=config.mrconfigid.hex(),
            found=found.hex(),
            code="gateway.configuration_unbound",
        )


def _evidence(source: QuoteSource, boot_log: bytes, statement: bytes) -> bytes:
    quote = source.quote(report_data(statement))
    return wrap_evidence(Evidence(quote=quote, eventlog=boot_log, statement=statement))
