"""Signs and verifies what an approver says of one action: a compact JWS (ES256, header byte-fixed; ``jws``).

Type ``affiant-approval+jwt``, over the canonical form of::

    {"typ": "affiant-approval/1", "act": "sha256:<64 hex>", "dec": "approve" or "deny",
     "iat": seconds, "exp": seconds, "via": "cli" or "console", "jwk": {"crv", "kty", "x", "y"}}

``act`` is SHA-256 of the action's exact bytes, which name the session, the policy and a nonce, so that a statement is
good for nothing else. The key is in it so that whoever knows the approvers' thumbprints (a profile names them)
needs nothing more to check it: a key is believed only as the one whose thumbprint is the header's ``kid``, and that
thumbprint counts only if the profile names it. There is one algorithm, and no way to ask for another.

``via`` says where the approver saw the action: in a client of their own, or on a page that the operator serves.

An identity instead of a key says the same in a sigstore bundle (``signed_by_identity``).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from affiant.attestation.encoding import jws
from affiant.attestation.encoding.binary_text import sha256_name
from affiant.attestation.encoding.canonical import parse_object
from affiant.attestation.encoding.keys import Signer, public_jwk, public_key_of
from affiant.attestation.schema.shapes import Const, Enum, Int, Obj, Pattern, Text
from affiant.attestation.signatures.approvers.clock_tolerance import CLOCK_TOLERANCE_S
from affiant.attestation.signatures.approvers.errors import (
    NotAnApprover,
    StatementForAnother,
    StatementMalformed,
    StatementStale,
)
from affiant.attestation.signatures.approvers.identities import NO_IDENTITIES, NamedIdentities, is_bundle
from affiant.errors import AffiantError

__all__ = [
    "MAX_STATEMENT",
    "Statement",
    "judge_statement",
    "read_statement",
    "sign_statement",
]

MAX_STATEMENT: Final = 1024
"""Characters, as ``apr.sig`` of a record holds them."""

_TYPE: Final = "affiant-approval+jwt"
_SHAPE: Final = Obj(
    {
        "typ": Const("affiant-approval/1"),
        "act": Pattern(r"sha256:[0-9a-f]{64}", "`sha256:` and 64 hexadecimal digits"),
        "dec": Enum(("approve", "deny")),
        "iat": Int(),
        "exp": Int(),
        "via": Enum(("cli", "console")),
        "jwk": Obj({"crv": Text(8), "kty": Text(8), "x": Text(43), "y": Text(43)}),
    }
)


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement whose signature holds, of a key or of an identity; whether they may approve, is judged apart.

    Args:
        kid: the key's RFC 7638 thumbprint, or the identity's name. action: SHA-256 name of what it is about.
        approves: or denies. made, expires: seconds since 1970, by the approver's clock; ``made`` of an identity's by
            the log or the timestamp authority that says when it was signed.
        via: ``cli`` or ``console``. text: the JWS, or the bundle.
    """

    kid: str
    action: str
    approves: bool
    made: int
    expires: int
    via: str
    text: str

    @property
    def bundle(self) -> bytes | None:
        """The bundle of an identity's statement, which is kept beside the records; of a key's there is none."""
        return self.text.encode("utf-8") if is_bundle(self.text) else None

    @property
    def sig(self) -> str:
        """As ``apr.sig`` of a record has it: the JWS, or the SHA-256 name of the bundle."""
        return self.text if self.bundle is None else sha256_name(self.bundle)


def sign_statement(
    signer: Signer, *, action: str, approves: bool, made: int, expires: int, via: str = "cli"
) -> str:
    """The statement that ``signer`` makes about the action with this SHA-256 name.

    Raises:
        ShapeMismatch: not such a digest, time or way.
    """
    payload: dict[str, object] = {
        "typ": "affiant-approval/1",
        "act": action,
        "dec": "approve" if approves else "deny",
        "iat": made,
        "exp": expires,
        "via": via,
        "jwk": dict(public_jwk(signer.public_key)),
    }
    _SHAPE.check(payload, "statement")
    return jws.sign(signer, payload, typ=_TYPE)


def read_statement(text: str, identities: NamedIdentities = NO_IDENTITIES) -> Statement:
    """The statement in ``text``, whose signature holds; whether its key may approve is not judged.

    Args:
        identities: who may approve by identity: a bundle is verified as one of theirs, under their trusted root.

    Raises:
        StatementMalformed: too long, of another form or type, or not signed by the key whose thumbprint it names.
        AffiantError: of a bundle, as :func:`~.signed_by_identity.verify_signed_action`.
    """
    if is_bundle(text):
        from affiant.attestation.signatures.approvers.signed_by_identity import (  # noqa: PLC0415 - most profiles need none of it
            verify_signed_action,
        )

        signed = verify_signed_action(text, identities)
        return Statement(
            signed.name, signed.action, signed.approves, signed.made, signed.expires, signed.via, text
        )
    if len(text) > MAX_STATEMENT:
        raise StatementMalformed("not a statement", expected=f"at most {MAX_STATEMENT} characters")
    try:
        parts = jws.split(text, typ=_TYPE)
        claimed = parse_object(parts.payload, limit=MAX_STATEMENT).get("jwk")
        payload = jws.verify(parts, public_key_of(claimed))  # refuses a key that is not the header's kid
        _SHAPE.check(payload, "statement")
    except AffiantError as error:
        raise StatementMalformed(f"not a statement that its key has signed: {error}") from error
    made, expires = payload["iat"], payload["exp"]
    assert isinstance(made, int)
    assert isinstance(expires, int)
    approves = payload["dec"] == "approve"
    return Statement(parts.kid, str(payload["act"]), approves, made, expires, str(payload["via"]), text)


def judge_statement(
    statement: Statement,
    *,
    action: str,
    approvers: Collection[str],
    never: Collection[str] = (),
    made: int,
    not_after: int,
    now: float,
) -> None:
    """Return if ``statement`` counts for one action now.

    Args:
        action: SHA-256 name of the action's bytes.
        approvers: thumbprints and names of identities that the profile names; none: nobody counts.
        never: thumbprints of whoever asks, which never count, whatever the profile says.
        made, not_after: when the action was asked for, and until when it may wait; seconds since 1970.
        now: of the clock that judges.

    Raises:
        NotAnApprover, StatementForAnother, StatementStale: as named.
    """
    if statement.kid not in approvers or statement.kid in never:
        raise NotAnApprover("signed by nobody who may approve this", found=statement.kid)
    if statement.action != action:
        raise StatementForAnother("a statement about another action", expected=action, found=statement.action)
    if not made - CLOCK_TOLERANCE_S <= statement.made <= now + CLOCK_TOLERANCE_S:
        raise StatementStale(
            "the statement's time is off", expected=f"from {made} to {int(now)}", where="iat"
        )
    if statement.expires > not_after:
        raise StatementStale("a statement for longer than the action waits", expected=not_after, where="exp")
    if statement.bundle is not None and statement.made >= statement.expires:
        raise StatementStale("signed after its own end", expected=statement.expires, found=statement.made)
    if now >= statement.expires:
        raise StatementStale("the statement's time is over", found=statement.expires, where="exp")
