"""Verifies a bundle's signatures through the ``sigstore`` library (the extra ``sigstore``), without the network.

Only this module and ``sigstore_signing`` import the library; loading it takes
about a second, so that they are imported where a bundle is at hand.

The library decides: certificate chain, certificate transparency timestamp, signature, log entry, checkpoint, promise
and timestamps. Before it does, the trusted root is cut down to

* what counted when the bundle says it was signed. The library takes every key that ever counted, so that one that
  leaked after its retirement could sign into the present. The time is the bundle's claim, for which what is left
  must then vouch;
* the one log that the entry names. The library tries every key where it does not know the name, so that promise and
  checkpoint could be two logs' words.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final, TypeVar

from cryptography import x509
from rfc3161_client import decode_timestamp_response
from sigstore.errors import CertValidationError
from sigstore.errors import Error as SigstoreError
from sigstore.models import Bundle, InvalidBundle, TrustedRoot
from sigstore.verify import Verifier
from sigstore_models.common.v1 import TimeRange
from sigstore_models.trustroot.v1 import CertificateAuthority, TransparencyLogInstance
from sigstore_models.trustroot.v1 import TrustedRoot as TrustedRootDocument

from affiant.attestation.encoding.canonical import JSONError, parse_object
from affiant.attestation.signatures.in_toto import PAYLOAD_TYPE
from affiant.attestation.signatures.sigstore.bundle import SignedBundle
from affiant.attestation.signatures.sigstore.certificate_identity import certificate_of, signer_of
from affiant.attestation.signatures.sigstore.errors import (
    BundleMalformed,
    NotLogged,
    OtherSigner,
    OutsideValidity,
    SignatureNotAuthentic,
    TrustedRootUnusable,
)
from affiant.attestation.signatures.sigstore.trusted_identity import MAX_TRUSTED_ROOT, Signer
from affiant.errors import AffiantError

__all__ = ["require_usable", "verify_signatures"]

_EXCERPT: Final = 160
_LOG_WORDS: Final = ("log entry", "checkpoint", "inclusion p")
_TIME_WORDS: Final = ("expired at time of signing", "verified time", "signed timestamp")
_Part = TypeVar("_Part", CertificateAuthority, TransparencyLogInstance)


class _ExactSigner:
    """The library's ``VerificationPolicy``: one name, one issuer, nothing else in their place."""

    def __init__(self, signer: Signer) -> None:
        self._signer = signer

    def verify(self, cert: x509.Certificate) -> None:
        """Refuse the certificate of anybody else."""
        found = signer_of(cert)
        if found != self._signer:
            raise OtherSigner("signed by somebody else", expected=self._signer, found=str(found)[:_EXCERPT])


def require_usable(trusted_root: bytes) -> None:
    """Refuse a trusted root under which nothing could be verified, before anything is.

    Raises:
        TrustedRootUnusable: it is no such document, or trusts nobody.
    """
    _trusted_root(trusted_root)


def verify_signatures(bundle: SignedBundle, *, trusted_root: bytes, signer: Signer) -> datetime:
    """Verify every signature of ``bundle`` under a trusted root, and return when it was signed.

    Args:
        bundle: taken apart; its inclusion proof is held against its checkpoint elsewhere.
        trusted_root: the reader's own ``trusted_root.json`` (sigstore protobuf-specs, ``TrustedRoot``).
        signer: who must have signed.

    Raises:
        TrustedRootUnusable: the trusted root is no such document, or trusts nobody.
        OtherSigner, NotLogged, OutsideValidity, SignatureNotAuthentic, BundleMalformed: as they say.
    """
    trusted = _trusted_root(trusted_root)
    certificate = certificate_of(bundle)
    signed_at = _claimed_time(bundle)
    if not certificate.not_valid_before_utc <= signed_at <= certificate.not_valid_after_utc:
        raise OutsideValidity(
            "signed when the certificate did not count",
            expected=f"{_shown(certificate.not_valid_before_utc)} to {_shown(certificate.not_valid_after_utc)}",
            found=_shown(signed_at),
        )
    counting = _counting(
        trusted, bundle.entry.log_id, signed_at=signed_at, issued_at=certificate.not_valid_before_utc
    )
    try:
        parsed = Bundle.from_json(bundle.raw)
        signed = Verifier(trusted_root=TrustedRoot(counting)).verify_dsse(parsed, _ExactSigner(signer))
    except AffiantError:
        raise
    except Exception as error:  # foreign parsers on hostile bytes: whatever they raise is an error
        raise _refusal(error) from error
    if signed != (PAYLOAD_TYPE, bundle.statement):
        raise BundleMalformed("the library read another statement than we did")
    return signed_at


def _claimed_time(bundle: SignedBundle) -> datetime:
    """When the bundle says it was signed: the log's promise, or the one timestamp. Verified afterwards, as it must be
    the only source that is left (a second timestamp could be one that nobody vouches for)."""
    if bundle.entry.promised_at is not None:
        return bundle.entry.promised_at
    if len(bundle.timestamps) != 1:
        raise OutsideValidity(
            "nobody says when this was signed",
            expected="the log's promise, or exactly one timestamp",
            found=f"{len(bundle.timestamps)} timestamps",
        )
    try:
        return decode_timestamp_response(bundle.timestamps[0]).tst_info.gen_time
    except ValueError as error:
        raise BundleMalformed("the timestamp cannot be read", where="rfc3161Timestamps") from error


def _trusted_root(content: bytes) -> TrustedRootDocument:
    """The trusted root in a file, its certificates read; those of its keys that cannot be read verify nothing."""
    try:
        parse_object(content, limit=MAX_TRUSTED_ROOT, strict_form=False)
        document = TrustedRootDocument.from_json(content)
        for name in ("certificate_authorities", "ctlogs", "tlogs"):
            if not getattr(document, name):
                raise TrustedRootUnusable(
                    "the trusted root trusts nobody", where=name, expected="at least one"
                )
        periods = [log.public_key.valid_for for log in (*document.tlogs, *document.ctlogs)]
        authorities = (*document.certificate_authorities, *document.timestamp_authorities)
        if any(_naive(period) for period in (*periods, *(each.valid_for for each in authorities))):
            raise TrustedRootUnusable("a period of the trusted root has no time zone", expected="UTC")
        readable = TrustedRoot(document)
        readable.get_fulcio_certs()
        readable.get_timestamp_authorities()
    except (JSONError, SigstoreError, ValueError) as error:
        raise TrustedRootUnusable(
            "the trusted root cannot be read", expected="a sigstore trusted_root.json, version 0.1"
        ) from error
    return document


def _naive(period: TimeRange | None) -> bool:
    return period is not None and any(
        instant is not None and instant.tzinfo is None for instant in (period.start, period.end)
    )


def _counting(
    document: TrustedRootDocument, log_id: bytes, *, signed_at: datetime, issued_at: datetime
) -> TrustedRootDocument:
    """What of the trusted root counted then: the log and authorities at the signature, certificate logs at issuance."""
    named = [log for log in document.tlogs if log.log_id.key_id == log_id]
    if not named:
        raise NotLogged("the entry is of a log that the trusted root does not name", found=log_id.hex())
    return document.model_copy(
        update={
            "tlogs": _within(named, signed_at, "transparency log"),
            "ctlogs": _within(document.ctlogs, issued_at, "certificate log"),
            "certificate_authorities": _within(
                document.certificate_authorities, signed_at, "certificate authority"
            ),
        }
    )


def _within(parts: Sequence[_Part], when: datetime, name: str) -> list[_Part]:
    counting = [part for part in parts if _counts(_period(part), when)]
    if not counting:
        raise OutsideValidity(
            f"no {name} of the trusted root counted when this was signed", found=_shown(when)
        )
    return counting


def _period(part: CertificateAuthority | TransparencyLogInstance) -> TimeRange | None:
    return part.valid_for if isinstance(part, CertificateAuthority) else part.public_key.valid_for


def _counts(period: TimeRange | None, when: datetime) -> bool:
    return period is None or (period.start <= when and (period.end is None or when <= period.end))


def _refusal(error: Exception) -> AffiantError:
    """One of ours for what the library raised. Its words choose a code and are quoted short; none of them accepts."""
    text = str(error)
    found = "".join(char if char.isprintable() else " " for char in text[:_EXCERPT])
    if isinstance(error, InvalidBundle):
        return BundleMalformed("the bundle is not well-formed", found=found)
    if isinstance(error, CertValidationError):
        return SignatureNotAuthentic(
            "the certificate is of no authority that the trusted root names", found=found
        )
    if isinstance(error, SigstoreError) and any(words in text for words in _TIME_WORDS):
        return OutsideValidity("nobody that the trusted root names says when this was signed", found=found)
    if isinstance(error, SigstoreError) and any(words in text for words in _LOG_WORDS):
        return NotLogged("no log that the trusted root names holds this entry", found=found)
    return SignatureNotAuthentic("the signature does not hold", found=found)


def _shown(when: datetime) -> str:
    return f"{when:%Y-%m-%dT%H:%M:%SZ}"
