"""Reads one file of collateral into its seven items of bytes. There are two forms, both closed:

* ``affiant-dcap-collateral/1``, the project's own (``collateral``);
* the JSON object that `dcap-qvl` calls ``QuoteCollateralV3``: issuer chains as PEM text, ``tcb_info`` and
  ``qe_identity`` as the exact signed text, signatures and revocation lists in hexadecimal. The signed bodies are
  put together around the exact text; whether it is one document is judged where it is cut out again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from affiant.attestation.encoding.canonical import JSONError, parse_object
from affiant.attestation.tdx.quote.errors import CollateralMalformed
from affiant.attestation.tdx.tcb.collateral import MAX_COLLATERAL_BYTES, Collateral, parse_collateral

__all__ = ["MAX_COLLATERAL_FILE", "parse_collateral_file"]

MAX_COLLATERAL_FILE: Final = MAX_COLLATERAL_BYTES
_MEMBERS: Final = frozenset(
    (
        "pck_crl_issuer_chain",
        "root_ca_crl",
        "pck_crl",
        "tcb_info_issuer_chain",
        "tcb_info",
        "tcb_info_signature",
        "qe_identity_issuer_chain",
        "qe_identity",
        "qe_identity_signature",
    )
)
_UNUSED: Final = "pck_certificate_chain"
"""For quotes without a chain of their own, which are refused; so this one is never read."""


def parse_collateral_file(content: bytes) -> Collateral:
    """The collateral in a file's ``content``.

    Raises:
        CollateralMalformed: neither form, a member too many or too few, or one that is no text.
    """
    try:
        members = parse_object(content, limit=MAX_COLLATERAL_FILE, strict_form=False)
    except JSONError as error:
        raise CollateralMalformed(f"the collateral is not strict JSON: {error}") from error
    if "typ" in members:
        return parse_collateral(content.removesuffix(b"\n"))
    missing, unknown = _MEMBERS - members.keys(), members.keys() - _MEMBERS - {_UNUSED}
    if missing or unknown:
        raise CollateralMalformed(
            "collateral of another form",
            expected="affiant-dcap-collateral/1, or the members of dcap-qvl's QuoteCollateralV3",
            found=f"missing {', '.join(sorted(missing)) or 'none'}, "
            f"unknown {', '.join(repr(name[:40]) for name in sorted(unknown)) or 'none'}",
        )
    return Collateral(
        tcb_info=_signed(members, "tcbInfo", "tcb_info"),
        tcb_info_issuer_chain=_text(members, "tcb_info_issuer_chain"),
        qe_identity=_signed(members, "enclaveIdentity", "qe_identity"),
        qe_identity_issuer_chain=_text(members, "qe_identity_issuer_chain"),
        root_ca_crl=_hexadecimal(members, "root_ca_crl"),
        pck_crl=_hexadecimal(members, "pck_crl"),
        pck_crl_issuer_chain=_text(members, "pck_crl_issuer_chain"),
    )


def _text(members: Mapping[str, object], name: str) -> bytes:
    value = members[name]
    if not isinstance(value, str):
        raise CollateralMalformed("a member is no text", where=name)
    try:
        return value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise CollateralMalformed("a member holds a lone surrogate", where=name) from error


def _signed(members: Mapping[str, object], inner: str, name: str) -> bytes:
    """The body as the provisioning service sends it, around the exact text."""
    return b'{"%s":%s,"signature":"%s"}' % (
        inner.encode("ascii"),
        _text(members, name),
        _text(members, f"{name}_signature"),
    )


def _hexadecimal(members: Mapping[str, object], name: str) -> bytes:
    """The bytes; :meth:`bytes.fromhex` would ignore spaces, so that they are refused before. An empty text is
    an empty list of bytes, which its parser refuses by name."""
    text = _text(members, name)
    try:
        if text.isalnum() or not text:
            return bytes.fromhex(text.decode("ascii"))
    except ValueError as error:
        raise CollateralMalformed("not hexadecimal", where=name) from error
    raise CollateralMalformed("not hexadecimal", where=name)
