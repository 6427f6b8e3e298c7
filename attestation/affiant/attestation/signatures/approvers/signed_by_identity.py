"""Verifies what an identity signs instead of a key: an in-toto statement in a sigstore bundle, offline.

Two statements (in-toto Statement v1), each about one thing by its SHA-256. About an action, what a key's statement says
(``statement``)::

    {"_type": "https://in-toto.io/Statement/v1",
     "subject": [{"name": "action", "digest": {"sha256": "<the action's name>"}}],
     "predicateType": "tag:affiant.dev,2026:approval/1",
     "predicate": {"dec": "approve" or "deny", "exp": seconds, "via": "cli" or "console"}}

And about a key with which the identity reads at one gateway what waits (``reader_proof``)::

    {..., "subject": [{"name": "reader", "digest": {"sha256": "<the key's RFC 7638 thumbprint>"}}],
     "predicateType": "tag:affiant.dev,2026:approval-reader/1", "predicate": {"spki": "<of the gateway>"}}

Canonical (RFC 8785): there is one encoding. There is no ``iat``: when it was signed is the word of the log or of the
timestamp authority of the trusted root, never the signer's. The bundle's certificate, signature, log entry, inclusion
proof and time are verified as those of every signed file (``signatures.sigstore``), after what costs
nothing: that the bundle is of the one form, names somebody who may approve, and is about an action at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from affiant.attestation.encoding.binary_text import b64u, from_b64u
from affiant.attestation.schema.shapes import Enum, Int, Obj, Pattern
from affiant.attestation.signatures.approvers.errors import (
    ApproverExtraMissing,
    NotAnApprover,
    ReaderRefused,
    StatementMalformed,
    StatementUnproven,
)
from affiant.attestation.signatures.approvers.identities import MAX_SIGNED, ApproverIdentity, NamedIdentities
from affiant.attestation.signatures.in_toto import InTotoStatement, parse_in_toto
from affiant.attestation.signatures.sigstore.bundle import SignedBundle, parse_bundle
from affiant.attestation.signatures.sigstore.certificate_identity import certificate_of, signer_of
from affiant.attestation.signatures.sigstore.errors import ExtraMissing, TrustedRootUnusable
from affiant.attestation.signatures.sigstore.signed_statement import verify_signed_statement
from affiant.attestation.signatures.sigstore.trusted_identity import Signer
from affiant.errors import AffiantError

__all__ = [
    "READER_LIFETIME_S",
    "SignedAction",
    "SignedReader",
    "action_statement",
    "claimed_identity",
    "reader_statement",
    "verify_signed_action",
    "verify_signed_reader",
]

READER_LIFETIME_S: Final = 3600
"""Seconds after its signature for which a reader's key stands for an identity."""

_PREDICATE: Final = "tag:affiant.dev,2026:approval/1"
_READER_PREDICATE: Final = "tag:affiant.dev,2026:approval-reader/1"
_MAX_STATEMENT: Final = 1024


_ACTION: Final = Obj({"dec": Enum(("approve", "deny")), "exp": Int(), "via": Enum(("cli", "console"))})
_READER: Final = Obj({"spki": Pattern(r"[A-Za-z0-9_-]{43}", "43 characters of base64url")})
_SHA256: Final = Pattern("[0-9a-f]{64}", "64 hexadecimal digits")


@dataclass(frozen=True, slots=True)
class SignedAction:
    """What an identity that may approve has signed of one action; whether it counts now is not judged.

    Args:
        name: the identity's, as an approver. action: ``sha256:`` name.
        made: when it was signed, by the log or the timestamp authority; expires: by the signer; seconds since 1970.
    """

    name: str
    action: str
    approves: bool
    made: int
    expires: int
    via: str


@dataclass(frozen=True, slots=True)
class SignedReader:
    """A key that stands for an identity where requests are read.

    Args:
        name: the identity's, as an approver. kid: the key's thumbprint. until: seconds since 1970.
    """

    name: str
    kid: str
    until: int


def action_statement(*, action: str, approves: bool, expires: int, via: str = "cli") -> bytes:
    """What an identity signs of the action with this SHA-256 name.

    Raises:
        ShapeMismatch: not such a digest, time or way.
    """
    predicate = {"dec": "approve" if approves else "deny", "exp": expires, "via": via}
    return _statement(_ACTION, "action", action.removeprefix("sha256:"), _PREDICATE, predicate)


def reader_statement(*, kid: str, spki: str) -> bytes:
    """What an identity signs of the key with which it reads at the gateway that shows the TLS key ``spki``.

    Raises:
        EncodingError, ShapeMismatch: not such a thumbprint or key.
    """
    return _statement(_READER, "reader", from_b64u(kid).hex(), _READER_PREDICATE, {"spki": spki})


def claimed_identity(text: str) -> ApproverIdentity:
    """Whom a bundle names, before anything of it is believed.

    Raises:
        StatementMalformed: too large, or of another form.
    """
    return _claimed(text)[1]


def verify_signed_action(text: str, identities: NamedIdentities) -> SignedAction:
    """What an identity signed, and who; everything but whether it counts for one action now.

    Args:
        text: the bundle, as JSON.
        identities: who may approve, and under which trusted root that is judged.

    Raises:
        StatementMalformed: another form, or about no action. NotAnApprover: by nobody of ``identities``.
        StatementUnproven: certificate, signature, log or time do not hold.
        ApproverExtraMissing, TrustedRootUnusable: it cannot be judged at all.
    """
    bundle, identity = _named(text, identities)
    said = _said(bundle, _ACTION, "action", _PREDICATE)
    made = _signed_at(text, identity, identities)
    predicate, expires = said.predicate, said.predicate["exp"]
    assert isinstance(expires, int)
    return SignedAction(
        name=identities.name_of(identity),
        action=f"sha256:{said.sha256}",
        approves=predicate["dec"] == "approve",
        made=made,
        expires=expires,
        via=str(predicate["via"]),
    )


def verify_signed_reader(
    text: str, identities: NamedIdentities, *, kid: str, spki: str, now: float, tolerance_s: int
) -> SignedReader:
    """The key ``kid`` as one with which an identity reads at this gateway, for an hour from its signature on.

    Args:
        spki: of the TLS key with which this gateway serves. tolerance_s: by how much its clock may be behind the log's.

    Raises:
        ReaderRefused: about another key or gateway, or of another time. AffiantError: as :func:`verify_signed_action`.
    """
    bundle, identity = _named(text, identities)
    said = _said(bundle, _READER, "reader", _READER_PREDICATE)
    if b64u(bytes.fromhex(said.sha256)) != kid or said.predicate["spki"] != spki:
        raise ReaderRefused("signed for another key, or for another gateway", where="reader")
    made = _signed_at(text, identity, identities)
    if not made - tolerance_s <= now < made + READER_LIFETIME_S:
        raise ReaderRefused(
            "the signature over this key is too old, or of a time to come",
            expected=f"signed within the {READER_LIFETIME_S} s before {int(now)}",
            found=made,
        )
    return SignedReader(identities.name_of(identity), kid, made + READER_LIFETIME_S)


def _statement(
    shape: Obj, name: str, digest: str, predicate_type: str, predicate: Mapping[str, object]
) -> bytes:
    shape.check(predicate, "predicate")
    _SHA256.check(digest, "subject")
    return InTotoStatement(name, digest, predicate_type, predicate).to_bytes()


def _claimed(text: str) -> tuple[SignedBundle, ApproverIdentity]:
    try:
        raw = text.encode("utf-8") if len(text) <= MAX_SIGNED else b""
        if not 0 < len(raw) <= MAX_SIGNED:
            raise StatementMalformed("not a bundle", expected=f"1 to {MAX_SIGNED} bytes")
        bundle = parse_bundle(raw)
        signer = signer_of(certificate_of(bundle))
    except (AffiantError, UnicodeEncodeError) as error:
        raise StatementMalformed(f"not a statement that an identity has signed: {error}") from error
    return bundle, ApproverIdentity(signer.issuer, signer.identity)


def _named(text: str, identities: NamedIdentities) -> tuple[SignedBundle, ApproverIdentity]:
    bundle, identity = _claimed(text)
    if identity not in identities.who:
        raise NotAnApprover("signed by nobody who may approve", found=str(identity)[:200])
    return bundle, identity


def _said(bundle: SignedBundle, shape: Obj, name: str, predicate_type: str) -> InTotoStatement:
    """Only its canonical form is accepted: one statement has one encoding."""
    try:
        said = parse_in_toto(
            bundle.statement, predicate_type=predicate_type, limit=_MAX_STATEMENT, error=StatementMalformed
        )
        shape.check(said.predicate, "predicate")
    except AffiantError as error:
        raise StatementMalformed(f"a signed statement about something else: {error}") from error
    if said.subject != name or said.to_bytes() != bundle.statement:
        raise StatementMalformed("not a canonical statement about this subject", expected=name)
    return said


def _signed_at(text: str, identity: ApproverIdentity, identities: NamedIdentities) -> int:
    signer = Signer(identity.subject, identity.issuer)
    try:
        _, record = verify_signed_statement(
            text.encode("utf-8"), trusted_root=identities.trusted_root, signer=signer
        )
    except ExtraMissing as error:
        raise ApproverExtraMissing from error
    except TrustedRootUnusable:
        raise
    except AffiantError as error:
        raise StatementUnproven(
            f"not signed by {str(identity)[:200]} under the profile's trusted root: {error} [{error.code}]"
        ) from error
    return int(record.at.timestamp())
