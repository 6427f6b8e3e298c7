"""Signs verdicts, and reads signed ones: who found what about which bundle.

A signed verdict is a DSSE envelope with one signature by a plain key (P-256, P-384 or Ed25519) over an in-toto
Statement v1::

    {"_type": "https://in-toto.io/Statement/v1",
     "subject": [{"name": "bundle", "digest": {"sha256": "<of the bundle's bytes>"}}],
     "predicateType": "tag:affiant.dev,2026:verdict/1",
     "predicate": {"typ": "affiant-verdict/1", "bundle": "sha256:<the same>", ..., "exit_code": 40}}

The predicate is the verdict's own document, member by member: the one that ``affiant verify --json`` prints. The
signature says that the key's holder states this, and nothing more. It proves neither that the verdict is right, nor
when it was signed: ``at`` is the time that was judged for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from affiant.attestation.signatures.in_toto import InTotoStatement, parse_in_toto
from affiant.attestation.signatures.profiles.envelope import Envelope, parse_envelope, sign_envelope
from affiant.attestation.signatures.profiles.errors import ProfileSignatureInvalid
from affiant.attestation.signatures.profiles.private_keys import SigningKey
from affiant.attestation.signatures.profiles.signing_keys import ProfileKey
from affiant.attestation.verdict.errors import (
    SignedVerdictInvalid,
    SignedVerdictMalformed,
    SignedVerdictOther,
)
from affiant.attestation.verdict.outcome import Outcome
from affiant.attestation.verdict.verdict import Tier, exit_code_of

__all__ = ["MAX_SIGNED_VERDICT", "PREDICATE_TYPE", "SignedVerdict", "parse_signed_verdict", "sign_verdict"]

PREDICATE_TYPE: Final = "tag:affiant.dev,2026:verdict/1"
"""A name in the project's one naming authority (RFC 4151), as those of receipts and evidence; nothing to fetch."""
MAX_SIGNED_VERDICT: Final = 24 << 20
"""Bytes of the file."""
_MAX_STATEMENT: Final = 16 << 20
_SUBJECT: Final = "bundle"
_TYPE: Final = "affiant-verdict/1"
_TIERS: Final = frozenset(map(str, Tier))
_OUTCOMES: Final = frozenset(map(str, Outcome))


@dataclass(frozen=True, slots=True)
class SignedVerdict:
    """A verdict in its envelope. Who signed it is not known before :meth:`verify`."""

    bundle: str
    """``sha256:`` name of the bundle's bytes."""
    document: Mapping[str, object]
    """The verdict's document; hostile text until the signature was verified, and the signer's word afterwards."""
    exit_code: int
    """What ``affiant verify`` ended with."""
    _envelope: Envelope

    def verify(self, key: ProfileKey) -> None:
        """Return if ``key`` signed the verdict.

        Raises:
            SignedVerdictInvalid: it did not, or the envelope names another key.
        """
        try:
            self._envelope.verify(key)
        except ProfileSignatureInvalid as error:
            raise SignedVerdictInvalid(
                "this key did not sign the verdict",
                expected=f"a signature by {key.id}",
                hint="Check it with the signer's own public key.",
            ) from error

    def require_about(self, bundle: str) -> None:
        """Return if the verdict is about the bundle named ``bundle`` (``sha256:``).

        Raises:
            SignedVerdictOther: it is about another.
        """
        if bundle != self.bundle:
            raise SignedVerdictOther(
                "the verdict is about another bundle", expected=self.bundle, found=bundle
            )


def sign_verdict(document: Mapping[str, object], key: SigningKey) -> bytes:
    """A verdict's document in its envelope, which :func:`parse_signed_verdict` reads again.

    Raises:
        SignedVerdictMalformed: the document is no verdict about one bundle, or too large.
        JSONError: it has no canonical form.
    """
    sha256 = str(document.get("bundle")).removeprefix("sha256:")
    signed = sign_envelope(InTotoStatement(_SUBJECT, sha256, PREDICATE_TYPE, document).to_bytes(), key)
    parse_signed_verdict(signed).verify(key.public)
    return signed


def parse_signed_verdict(raw: bytes) -> SignedVerdict:
    """The signed verdict in ``raw``, at most :data:`MAX_SIGNED_VERDICT` bytes. Nothing of it is verified.

    Raises:
        SignedVerdictMalformed: another form, another predicate, a subject that is not the verdict's bundle, members
            that contradict each other, or an exit code that they do not come to.
    """
    envelope = parse_envelope(
        raw, limit=MAX_SIGNED_VERDICT, statement=_MAX_STATEMENT, error=SignedVerdictMalformed
    )
    said = parse_in_toto(
        envelope.statement, predicate_type=PREDICATE_TYPE, limit=_MAX_STATEMENT, error=SignedVerdictMalformed
    )
    bundle = f"sha256:{said.sha256}"
    match said.predicate:
        case {"typ": typ, "bundle": name, "exit_code": int() as exit_code} if (
            (typ, name, said.subject) == (_TYPE, bundle, _SUBJECT)
            and not isinstance(exit_code, bool)
            and exit_code == _exit_code_of(said.predicate)
        ):
            return SignedVerdict(bundle, said.predicate, exit_code, envelope)
    raise SignedVerdictMalformed(
        "what is signed is no verdict about its subject",
        where="predicate",
        expected=f"an {_TYPE} document about the bundle that the subject names, with the exit code of its tier",
    )


def _exit_code_of(document: Mapping[str, object]) -> int | None:
    """What tier, platform, outcome and demand of the document come to; None: one of them is not there, or they do not
    agree: what is rejected is contraindicated, nothing else is, and what is simulated is none at best."""
    match document:
        case {
            "tier": str(tier),
            "simulated": bool(simulated),
            "outcome": str(outcome),
            "demand": {"unmet": list(unmet)},
        } if (
            tier in _TIERS
            and outcome in _OUTCOMES
            and (outcome == Outcome.REJECTED) == (tier == Tier.CONTRAINDICATED)
            and not (simulated and tier in (Tier.AFFIRMING, Tier.WARNING))
        ):
            short = outcome == Outcome.UNJUDGED or bool(unmet)
            return exit_code_of(Tier(tier), simulated=simulated, short=short)
    return None
