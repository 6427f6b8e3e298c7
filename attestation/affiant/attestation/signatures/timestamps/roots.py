"""Reads whose tokens a reader trusts: an authority's root certificate, and the policy that its tokens must name."""

from __future__ import annotations

import binascii
import re
import warnings
from dataclasses import dataclass
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from affiant.attestation.encoding.binary_text import EncodingError, from_b64u
from affiant.attestation.signatures.timestamps.errors import AnchorSettingsInvalid

__all__ = ["TSARoot", "certificate_in", "load_certificate", "parse_root"]

_POLICY: Final = re.compile(r"[0-2](?:\.(?:0|[1-9][0-9]{0,18})){1,20}\Z")
_PEM: Final = re.compile(r"-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----\s*\Z")
_MAX_CERTIFICATE: Final = 16 << 10


@dataclass(frozen=True, slots=True)
class TSARoot:
    """A self-signed certificate that a token's chain must end in.

    Args:
        certificate: DER.
        policy: the policy's OID, dotted; None: any that the authority names.

    Raises:
        AnchorSettingsInvalid: no certificate of an authority, or no OID.
    """

    certificate: bytes
    policy: str | None = None

    def __post_init__(self) -> None:
        loaded = load_certificate(self.certificate)
        if loaded.issuer != loaded.subject:
            raise AnchorSettingsInvalid(
                "not a root: another authority has issued it",
                found=loaded.subject.rfc4514_string()[:80],
                hint="Name the root that its chain ends in; tokens carry what stands between.",
            )
        if self.policy is not None and _POLICY.match(self.policy) is None:
            raise AnchorSettingsInvalid("not an OID", expected="dotted, 1.2.3", found=repr(self.policy[:60]))


def parse_root(value: object) -> TSARoot:
    """A root as trust files have it: ``{"certificate": <PEM, or base64url of DER>, "policy": <OID, optional>}``.

    Raises:
        AnchorSettingsInvalid: another form.
    """
    if not isinstance(value, dict) or not {"certificate"} <= set(value) <= {"certificate", "policy"}:
        raise AnchorSettingsInvalid("not a root", expected='{"certificate": ..., "policy": ...}')
    text, policy = value["certificate"], value.get("policy")
    if not isinstance(text, str) or not isinstance(policy, (str, type(None))):
        raise AnchorSettingsInvalid("certificate or policy is no text")
    if ("policy" in value) != (policy is not None):
        raise AnchorSettingsInvalid("a policy that is null", hint="Leave the member out to take any policy.")
    return TSARoot(_certificate_text(text), policy)


def certificate_in(data: bytes) -> bytes:
    """The one certificate of a file, PEM or DER, as DER.

    Raises:
        AnchorSettingsInvalid: none, or more than one.
    """
    if not data.lstrip().startswith(b"-----"):
        load_certificate(data)
        return data
    try:
        return _certificate_text(data.decode("ascii").strip())
    except UnicodeDecodeError as error:
        raise AnchorSettingsInvalid("neither PEM nor DER") from error


def _certificate_text(text: str) -> bytes:
    try:
        if not text.startswith("-----"):
            return from_b64u(text)
        if _PEM.match(text) is None or len(text) > 2 * _MAX_CERTIFICATE:
            raise AnchorSettingsInvalid(
                "not exactly one certificate", expected="one PEM block, nothing around it"
            )
        return x509.load_pem_x509_certificate(text.encode("ascii")).public_bytes(Encoding.DER)
    except (EncodingError, ValueError, binascii.Error) as error:
        raise AnchorSettingsInvalid(
            "a certificate that cannot be read", expected="PEM, or base64url of DER"
        ) from error


def load_certificate(data: bytes) -> x509.Certificate:
    """The certificate in ``data``, DER.

    Raises:
        AnchorSettingsInvalid: none, or too large.
    """
    if len(data) > _MAX_CERTIFICATE:
        raise AnchorSettingsInvalid(
            "a certificate is too large", expected=f"at most {_MAX_CERTIFICATE} bytes"
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # what the library deprecates is no certificate to rest on
            loaded = x509.load_der_x509_certificate(data)
            _ = loaded.subject, loaded.issuer, loaded.not_valid_before_utc, loaded.not_valid_after_utc
    except (ValueError, x509.InvalidVersion, Warning) as error:
        raise AnchorSettingsInvalid("a certificate that cannot be read", expected="X.509 in DER") from error
    return loaded
