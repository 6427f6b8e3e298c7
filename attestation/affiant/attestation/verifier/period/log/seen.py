"""What the first pass keeps of a receipt whose signature, form and profile hold: what rules over many of them need."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final, NamedTuple

from affiant.attestation.encoding.binary_text import b64u
from affiant.attestation.records.receipt import VerifiedReceipt, parse_receipt, verify_receipt
from affiant.attestation.statements.statement import KeysetStatement, parse_statement
from affiant.attestation.verdict.summary import Use, uses_of
from affiant.attestation.verifier.case.actors_met import Met, met_in
from affiant.attestation.verifier.checks.receipt_checks import KeyUnknown
from affiant.errors import AffiantError

__all__ = ["Refused", "Seen", "Statements", "look"]

_KEPT: Final = 4096
"""Statements kept parsed, of those that sign: a few KiB each."""


class Seen(NamedTuple):
    """One receipt.

    Args:
        leaf: the 66 bytes that the log must hold of it. kid: who signed.
        named: of a boot the keyset digest, of an epoch the count.
        ses, key, evd: of ``agt``; empty without. cp, cps: the checkpoint that an epoch names.
        lost, lost_seq: the chain and the number that a gap record names. close: why a session was closed.
        people: of whom it tells. uses: what it says was used, refused or ended.
    """

    leaf: bytes
    jti: str
    kid: str
    prev: str
    named: object
    ses: str
    key: str
    evd: str
    cp: str
    cps: int | None
    lost: str
    close: str = ""
    people: tuple[Met, ...] = ()
    lost_seq: int | None = None
    uses: tuple[Use, ...] = ()

    @property
    def rh(self) -> str:
        """The receipt hash."""
        return b64u(self.leaf[34:])


class Refused(NamedTuple):
    """One receipt that is refused: the code, what is said, where, and how it calls itself."""

    code: str
    text: str
    where: str


class Statements:
    """Keyset statements by the key that signs receipts, parsed when they are needed.

    Args:
        names: key -> ``sha256:`` name of the statement. keysets: name -> bytes.
    """

    __slots__ = ("_names", "of")

    def __init__(self, names: Mapping[str, str], keysets: Mapping[str, bytes]) -> None:
        self._names = names
        self.of = lru_cache(maxsize=_KEPT)(lambda kid: parse_statement(keysets[names[kid]]))

    def by(self, kid: str) -> KeysetStatement:
        """The statement that names ``kid``.

        Raises:
            KeyUnknown: none does.
        """
        if kid not in self._names:
            raise KeyUnknown("signed by a key that no keyset here names", found=kid)
        return self.of(kid)


def look(sdjwt: str, statements: Statements) -> Seen | Refused:
    """Verify one receipt: size, header, signature, canonical form, closed profile, role, disclosures."""
    try:
        text = parse_receipt(sdjwt)
        return _seen(verify_receipt(text, statements.by(text.split.kid)))
    except AffiantError as error:
        return Refused(error.code, str(error), error.where or "")


def _seen(record: VerifiedReceipt) -> Seen:
    payload = record.payload
    agent = payload.get("agt")
    ses, key, evd = (agent["ses"], agent["key"], agent["evd"]) if isinstance(agent, dict) else ("", "", "")
    named, cp, cps, lost, last, close = None, "", None, "", None, ""
    if record.kind == "boot":
        named = payload.get("ks")
    elif record.kind == "epoch":
        named, cp, cps = payload.get("n"), str(payload.get("cp") or ""), record.member("cps")
    elif record.kind == "gap":
        lost, last = str(record.member("lst", "chn")), record.member("lst", "seq")
    elif record.kind == "session-close":
        close = str(record.member("why") or "")
    return Seen(
        record.leaf.to_bytes(),
        record.jti,
        record.text.split.kid,
        record.prev,
        named,
        ses,
        key,
        evd,
        cp,
        cps if isinstance(cps, int) else None,
        lost,
        close,
        tuple(met_in(record)),
        last if isinstance(last, int) else None,
        tuple(uses_of(record)),
    )
