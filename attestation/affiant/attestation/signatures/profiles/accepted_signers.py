"""Reads whose signatures over profiles are trusted, and when: plain keys, and identities under a sigstore trusted root.

As the gateway's configuration and files of signers list them (trust rules, 11)::

    {"value": {"key": <JWK>}, "from"?, "until"?, "revoked_at"?}
    {"value": {"trusted_root": {...}, "identity": "...", "issuer": "..."}, "from"?, "until"?, "revoked_at"?}

A file of signers is ``{"typ": "affiant-profile-signers/1", "signers": [...]}``; there a key may be PEM text too. Never
a pattern and never "anybody": a signer is one key, or one identity as one issuer knows it. An empty list is refused,
and so is a list with one signer twice, also for two times: whoever is revoked in one entry must not count by another.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from affiant.attestation.encoding.canonical import JSONError, parse_object
from affiant.attestation.schema.accepted_entry import PERIOD, Entry, entry_of
from affiant.attestation.signatures.profiles.errors import SignersInvalid, SigningKeyInvalid
from affiant.attestation.signatures.profiles.signing_keys import ProfileKey, parse_key_jwk, parse_public_pem
from affiant.attestation.signatures.sigstore.sigstore_root import SigstoreRoot, parse_sigstore_root
from affiant.attestation.signatures.timestamps.errors import AnchorSettingsInvalid

__all__ = [
    "MAX_SIGNERS_FILE",
    "AcceptedSigner",
    "ProfileSigner",
    "parse_signer",
    "parse_signers",
    "parse_signers_file",
    "require_once",
    "signer_name",
    "signers_document",
]

MAX_SIGNERS_FILE: Final = 1 << 20
_MAX_SIGNERS: Final = 16
_NAME: Final = re.compile("[!-~]([ -~]{0,1022}[!-~])?")
"""An identity or an issuer: printable ASCII, so that every reader agrees on what is printable."""
_TYP: Final = "affiant-profile-signers/1"

ProfileSigner = ProfileKey | SigstoreRoot
"""One key, or one identity under one trusted root."""


@dataclass(frozen=True, slots=True)
class AcceptedSigner:
    """A signer, and when they count."""

    entry: Entry
    signer: ProfileSigner

    def to_json(self) -> Mapping[str, object]:
        """As an entry of a list."""
        instants = (self.entry.valid_from, self.entry.until, self.entry.revoked_at)
        period = {
            name: f"{instant:%Y-%m-%dT%H:%M:%SZ}"
            for name, instant in zip(PERIOD, instants, strict=True)
            if instant is not None
        }
        return {"value": _value(self.signer), **period}

    def counts_for(self, at: datetime, *, known: datetime) -> bool:
        """Whether they count for what they signed at ``at``, and whether nobody knew better at ``known``."""
        return self.entry.counts_for(at, known=known)


def signer_name(signer: ProfileSigner) -> str:
    """A signer in one line, for people."""
    return f"key {signer.id}" if isinstance(signer, ProfileKey) else str(signer.signer)


def parse_signers(items: object) -> tuple[AcceptedSigner, ...]:
    """The signers of a list.

    Raises:
        SignersInvalid: none, too many, one twice, an unknown member, or one that cannot be meant.
    """
    if not isinstance(items, list) or not 0 < len(items) <= _MAX_SIGNERS:
        raise SignersInvalid(
            "not a list of signers", expected=f"1 to {_MAX_SIGNERS}: an empty list accepts nobody"
        )
    found = tuple(_accepted(item, f"signers[{index}]") for index, item in enumerate(items))
    require_once(found, "signers")
    return found


def require_once(signers: Sequence[AcceptedSigner], where: str) -> None:
    """Refuse a list with one signer twice.

    Raises:
        SignersInvalid: so; the text says which two entries.
    """
    first: dict[ProfileSigner, int] = {}
    for index, each in enumerate(signers):
        if first.setdefault(each.signer, index) != index:
            raise SignersInvalid(
                f"one signer twice: the {signer_name(each.signer)}",
                expected="each once: who is revoked in one entry would still count by the other",
                where=f"{where}[{first[each.signer]}], {where}[{index}]",
            )


def parse_signers_file(content: bytes) -> tuple[AcceptedSigner, ...]:
    """The signers of a file.

    Raises:
        SignersInvalid: not such a file.
    """
    try:
        document = parse_object(content, limit=MAX_SIGNERS_FILE, strict_form=False)
    except JSONError as error:
        raise SignersInvalid(f"the file of signers is not strict JSON: {error}") from error
    if set(document) != {"typ", "signers"} or document["typ"] != _TYP:
        raise SignersInvalid("not a file of signers", expected=f'{{"typ": "{_TYP}", "signers": [...]}}')
    return parse_signers(document["signers"])


def signers_document(signers: Sequence[AcceptedSigner]) -> list[Mapping[str, object]]:
    """The list that :func:`parse_signers` reads."""
    return [each.to_json() for each in signers]


def _value(signer: ProfileSigner) -> Mapping[str, object]:
    if isinstance(signer, ProfileKey):
        return {"key": signer.to_jwk()}
    return {
        "trusted_root": json.loads(signer.trusted_root),
        "identity": signer.signer.identity,
        "issuer": signer.signer.issuer,
    }


def _accepted(item: object, where: str) -> AcceptedSigner:
    if not isinstance(item, dict) or "value" not in item or not set(item) <= {"value", *PERIOD}:
        raise SignersInvalid(
            "not an entry", expected='{"value": ...} with "from", "until", "revoked_at"', where=where
        )
    try:
        return AcceptedSigner(entry_of(item, ""), _signer(item["value"]))
    except ValueError as error:
        raise SignersInvalid("not a timestamp", expected="2026-11-21T03:00:00Z", where=where) from error
    except SigningKeyInvalid as error:
        raise SignersInvalid(f"not a signer: {error}", where=where) from error
    except SignersInvalid as error:
        error.where = where
        raise


def parse_signer(value: object) -> ProfileSigner:
    """One signer: a key as a JWK, or an identity under a trusted root.

    Raises:
        SignersInvalid: another form, or an identity or issuer beyond printable ASCII.
    """
    try:
        if isinstance(value, dict) and set(value) == {"key"}:
            return parse_key_jwk(value["key"])
        root = parse_sigstore_root(value)
    except (AnchorSettingsInvalid, SigningKeyInvalid) as error:
        raise SignersInvalid(f"not a signer: {error}") from error
    if not all(_NAME.fullmatch(name) for name in (root.signer.identity, root.signer.issuer)):
        raise SignersInvalid("not a signer: an identity or an issuer beyond printable ASCII")
    return root


def _signer(value: object) -> ProfileSigner:
    match value:
        case {"key": str() as pem, **rest} if not rest:
            return parse_public_pem(pem.encode())
    return parse_signer(value)
