"""Holds collateral: the exact bytes that Intel's provisioning service serves about a kind of platform.

Format ``affiant-dcap-collateral/1``: RFC 8785 JSON ``{"typ":"affiant-dcap-collateral/1", ...}`` with the seven
members below, each base64url of the exact bytes received. Signatures cover those bytes, so nothing here is
decoded and written again. Every member is required: collateral without its revocation lists does not exist.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, fields
from typing import Final

from affiant.attestation.encoding.binary_text import EncodingError, b64u, from_b64u
from affiant.attestation.encoding.canonical import JSONError, parse_object
from affiant.attestation.tdx.quote.errors import CollateralMalformed

__all__ = ["ITEMS", "Collateral", "parse_collateral"]

COLLATERAL_TYPE: Final = "affiant-dcap-collateral/1"
MAX_COLLATERAL_BYTES: Final = 2 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Collateral:
    """Seven items as received. Nothing is verified; see ``collateral_verification``."""

    tcb_info: bytes = field(repr=False)
    """PCS body ``{"tcbInfo":{...},"signature":"<hex>"}``."""
    tcb_info_issuer_chain: bytes = field(repr=False)
    """PEM: TCB signing certificate, root."""
    qe_identity: bytes = field(repr=False)
    """PCS body ``{"enclaveIdentity":{...},"signature":"<hex>"}``."""
    qe_identity_issuer_chain: bytes = field(repr=False)
    """PEM: TCB signing certificate, root."""
    root_ca_crl: bytes = field(repr=False)
    """DER."""
    pck_crl: bytes = field(repr=False)
    """DER."""
    pck_crl_issuer_chain: bytes = field(repr=False)
    """PEM: Platform or Processor CA, root."""

    def to_bytes(self) -> bytes:
        """The document of the format named in the module: members in order, base64url needs no escapes."""
        members = [f'"{name}":"{b64u(getattr(self, name))}",' for name in sorted(ITEMS)]
        return f'{{{"".join(members)}"typ":"{COLLATERAL_TYPE}"}}'.encode("ascii")

    @property
    def digest(self) -> str:
        """SHA-256 of :meth:`to_bytes` as 43 characters: how records name their collateral."""
        return b64u(hashlib.sha256(self.to_bytes()).digest())


ITEMS: Final = tuple(item.name for item in fields(Collateral))
"""The seven names, in the order of the class."""


def parse_collateral(data: bytes) -> Collateral:
    """The collateral in an ``affiant-dcap-collateral/1`` document.

    Raises:
        CollateralMalformed: another form, another set of members, or an empty one.
    """
    try:
        members = parse_object(data, limit=MAX_COLLATERAL_BYTES)
    except JSONError as error:
        raise CollateralMalformed("collateral is not canonical JSON") from error
    if members.get("typ") != COLLATERAL_TYPE or members.keys() != {"typ", *ITEMS}:
        raise CollateralMalformed(
            "collateral of another form", expected=f"typ {COLLATERAL_TYPE} and {', '.join(ITEMS)}"
        )
    return Collateral(**{name: _item(name, members[name]) for name in ITEMS})


def _item(name: str, value: object) -> bytes:
    try:
        data = from_b64u(value) if isinstance(value, str) else b""
    except EncodingError as error:
        raise CollateralMalformed("not base64url", where=name) from error
    if not data:
        raise CollateralMalformed("an item of the collateral is empty or no text", where=name)
    return data
