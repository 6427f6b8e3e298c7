"""Verifies one token: who says that these bytes existed, and by when. RFC 3161, through ``rfc3161-client``.

The library decides signature and chain (extra ``timestamps``; it is imported where a token is at hand). Beside it:

1.  The response is taken apart, strictly (``response``).
2.  The signer's certificate is for timestamps and for nothing else (RFC 3161, section 2.3), and was valid at the time
    that the token names. Whether it has expired *since* is not asked: that is what makes a token worth keeping.
3.  The imprint is the SHA-256 or SHA-512 of the bytes that are asked for.
4.  Signature and chain lead to a root that the caller accepts at that time, under the policy that it pins.
5.  Not after = the token's time + its accuracy, rounded up to a second.

Revocation lists of the authority are not read: who learns that its key is lost says so in the trust file
(``revoked_at``), and tokens that were renewed before go on counting (``renewal``).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from affiant.attestation.signatures.timestamps.errors import (
    AnchorExtraMissing,
    AnchorSettingsInvalid,
    AnchorUntrusted,
)
from affiant.attestation.signatures.timestamps.imprint import Digest
from affiant.attestation.signatures.timestamps.response import SignedResponse, parse_response
from affiant.attestation.signatures.timestamps.roots import TSARoot, load_certificate
from affiant.errors import MalformedError, NotAllowedError, NotAuthenticError, NotFreshError

if TYPE_CHECKING:
    from rfc3161_client import TimeStampResponse

__all__ = ["VerifiedToken", "verify_token"]

_MAX_ACCURACY: Final = timedelta(days=1)
_MAX_NAME: Final = 200


@dataclass(frozen=True, slots=True)
class VerifiedToken:
    """Bytes existed by ``not_after``, says ``authority``. Only :func:`verify_token` makes one.

    Args:
        at: the token's own time, UTC.
        not_after: seconds since 1970: its time and accuracy, rounded up.
        authority: subject of the signer's certificate (RFC 4514); chosen by the authority.
        policy: OID, dotted. serial: the authority's number of it.
        nonce: of the request; None: it had none.
    """

    at: datetime
    not_after: int
    authority: str
    policy: str
    serial: int
    nonce: int | None


def verify_token(
    response: bytes, message: bytes, *, roots: Callable[[datetime], Sequence[TSARoot]]
) -> VerifiedToken:
    """The token in ``response``, over ``message``, under one of the roots.

    Args:
        response: RFC 3161 TimeStampResp, DER.
        message: what must be stamped, see ``imprint``.
        roots: the token's own time -> the roots that are accepted for it.

    Raises:
        AnchorExtraMissing: the library is not installed.
        ``anchor.refused``, ``anchor.token``, ``anchor.purpose``, ``anchor.expired``, ``anchor.imprint``,
            AnchorUntrusted, ``anchor.policy``: as
            they say.
    """
    taken = parse_response(response)
    decoded = _decoded(taken)
    at, accuracy = _time(decoded)
    name = _demand_purpose(taken, at)
    _demand_imprint(decoded, message)
    accepted = roots(at)
    anchored = [root for root in accepted if _chains_to(decoded, root)]
    if not anchored:
        raise AnchorUntrusted(
            "no root that the reader accepts at the token's time vouches for it",
            expected=f"one of {len(accepted)} roots" if accepted else "a root that counts then",
            found=f"{name}, at {at:%Y-%m-%dT%H:%M:%SZ}",
        )
    policy = decoded.tst_info.policy.dotted_string
    if not any(root.policy in (None, policy) for root in anchored):
        raise NotAllowedError(
            "stamped under another policy",
            expected=" or ".join(sorted({str(root.policy) for root in anchored})),
            found=policy,
            code="anchor.policy",
        )
    return VerifiedToken(
        at=at,
        not_after=math.ceil((at + accuracy).timestamp()),
        authority=name,
        policy=policy,
        serial=decoded.tst_info.serial_number,
        nonce=decoded.tst_info.nonce,
    )


def _decoded(taken: SignedResponse) -> TimeStampResponse:
    try:
        from rfc3161_client import decode_timestamp_response  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        raise AnchorExtraMissing(
            "timestamp tokens need the library 'rfc3161-client', which is not installed",
            hint="Install it with: pip install 'affiant[timestamps]'",
        ) from error
    try:
        decoded = decode_timestamp_response(taken.sorted_bytes)
        info = decoded.tst_info
        _ = info.gen_time, info.accuracy, info.message_imprint.message, info.policy, info.serial_number
    except Exception as error:  # a foreign parser on hostile bytes: whatever it raises is an error
        raise MalformedError(
            "the token cannot be read", found=str(error)[:160], code="anchor.token"
        ) from error
    return decoded


def _time(decoded: TimeStampResponse) -> tuple[datetime, timedelta]:
    info = decoded.tst_info
    at = info.gen_time
    if at.tzinfo is None:
        raise MalformedError("a time without a zone", code="anchor.token")
    accuracy = timedelta()
    # The library's annotations do not say that the member is optional.
    if (said := info.accuracy) is not None:  # pyright: ignore[reportUnnecessaryComparison]
        seconds, millis, micros = (part or 0 for part in (said.seconds, said.millis, said.micros))
        if (
            not 0 <= seconds <= _MAX_ACCURACY.total_seconds()
            or not 0 <= millis < 1000
            or not 0 <= micros < 1000
        ):
            raise MalformedError(
                "an accuracy that nobody could use", expected="at most a day", code="anchor.token"
            )
        accuracy = timedelta(seconds=seconds, milliseconds=millis, microseconds=micros)
    try:
        _ = at + accuracy
    except OverflowError as error:
        raise MalformedError("a time that no calendar has", code="anchor.token") from error
    return at.astimezone(UTC), accuracy


def _demand_purpose(taken: SignedResponse, at: datetime) -> str:
    """The subject of the signer's certificate, which is for timestamps and was valid ``at`` that time."""
    try:
        certificate = load_certificate(taken.certificate)
        usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage)
    except (AnchorSettingsInvalid, x509.ExtensionNotFound, x509.DuplicateExtension, ValueError) as error:
        raise NotAuthenticError(
            "the signer's certificate does not say that it is for timestamps", code="anchor.purpose"
        ) from error
    if not usage.critical or list(usage.value) != [ExtendedKeyUsageOID.TIME_STAMPING]:
        raise NotAuthenticError(
            "the signer's certificate is not for timestamps alone",
            expected="a critical extended key usage of timeStamping",
            code="anchor.purpose",
        )
    begins, ends = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if not begins <= at <= ends:
        raise NotFreshError(
            "the authority's certificate was not valid at the token's time",
            expected=f"{begins:%Y-%m-%dT%H:%M:%SZ} to {ends:%Y-%m-%dT%H:%M:%SZ}",
            found=f"{at:%Y-%m-%dT%H:%M:%SZ}",
            code="anchor.expired",
        )
    return certificate.subject.rfc4514_string()[:_MAX_NAME] or "an authority without a name"


def _demand_imprint(decoded: TimeStampResponse, message: bytes) -> None:
    imprint = decoded.tst_info.message_imprint
    found = imprint.hash_algorithm.dotted_string
    digest = next((each for each in Digest if each.oid == found), None)
    if digest is None:
        raise NotAuthenticError(
            "an imprint of another hash function",
            expected="SHA-256 or SHA-512",
            found=found,
            code="anchor.imprint",
        )
    if imprint.message != digest.of(message):
        raise NotAuthenticError(
            "the token is about other bytes",
            expected=digest.of(message).hex(),
            found=imprint.message.hex()[:128],
            code="anchor.imprint",
        )


def _chains_to(decoded: TimeStampResponse, root: TSARoot) -> bool:
    """Whether the library finds signature and chain in order, under this root alone, at the token's time."""
    from rfc3161_client import VerifierBuilder  # noqa: PLC0415 - as above

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            verifier = VerifierBuilder(roots=[load_certificate(root.certificate)]).build()
            return verifier.verify(decoded, decoded.tst_info.message_imprint.message)
    except Exception:  # noqa: BLE001 - as above; what it does not accept has no root
        return False
