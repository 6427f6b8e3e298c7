"""Keeps a signer's chain: who signs, under which statement, and what comes next.

:class:`ChainSigner` issues records one after another: ``seq`` from 0, ``prev`` of seq 0 the keyset digest, of
every other the receipt hash before. It does no I/O and is not thread-safe: its owner makes each record durable
before it acts on it. A chain that could not make a record durable must stop; :meth:`ChainSigner.issue` moves the
head when it signs, and a signed record that was not kept would be a gap.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime

from affiant.attestation.encoding.binary_text import b64u
from affiant.attestation.encoding.keys import Signer
from affiant.attestation.records.head import Head
from affiant.attestation.records.issuing import issue_receipt
from affiant.attestation.records.receipt import Issued
from affiant.attestation.records.sealed_disclosures import SessionSealing
from affiant.attestation.statements.statement import KeysetStatement

__all__ = ["ChainSigner"]


class ChainSigner:
    """Issues the records of one chain."""

    def __init__(
        self,
        *,
        signer: Signer,
        statement: KeysetStatement,
        chn: str,
        evd: str,
        random_bytes: Callable[[int], bytes],
        clock: Callable[[], datetime],
    ) -> None:
        self._signer = signer
        self.statement = statement
        self.chn = chn
        self.evd = evd
        self._random_bytes = random_bytes
        self._clock = clock
        self._next = 0
        self._prev = statement.keyset_digest

    @property
    def head(self) -> Head | None:
        """The last record, or None before the first."""
        return None if self._next == 0 else Head(self.chn, self._next - 1, self._prev)

    def new_id(self) -> str:
        """A fresh receipt id: 22 characters. Made at request start, so that it can be in a stream's head."""
        return b64u(self._random_bytes(16))

    def sealing(self, *, to: str, session: str) -> SessionSealing:
        """A new key of this signer's for the disclosures of one session, sealed to its starter's key ``to``."""
        return SessionSealing(to=to, session=session, kid=self._signer.kid, random_bytes=self._random_bytes)

    def issue(
        self,
        kind: str,
        members: Mapping[str, object],
        hidden: Mapping[str, Mapping[str, object]] | None = None,
        *,
        jti: str | None = None,
    ) -> Issued:
        """Sign the next record and move the head.

        Raises:
            ShapeMismatch: not a record of this kind; nothing was signed and the head stays.
        """
        issued = issue_receipt(
            signer=self._signer,
            statement=self.statement,
            kind=kind,
            chn=self.chn,
            seq=self._next,
            prev=self._prev,
            evd=self.evd,
            jti=jti or self.new_id(),
            now=self._clock(),
            members=members,
            hidden=hidden or {},
            random_bytes=self._random_bytes,
        )
        self._next += 1
        self._prev = issued.rh
        return issued
