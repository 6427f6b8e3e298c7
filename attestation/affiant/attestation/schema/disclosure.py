"""Makes and opens salted disclosures (RFC 9901): a record commits to a value without showing it.

A disclosure is base64url of the canonical JSON array ``[salt, name, value]``; its digest, base64url SHA-256 of
the disclosure's ASCII text, is in the ``_sd`` array of the object it belongs to. The salt is 16 fresh random
bytes (22 characters). Arrays have a fixed length and are filled with decoys: digests of random bytes, which
nobody can tell from real ones. Erasing a value is destroying its disclosure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from affiant.attestation.encoding.binary_text import b64u, from_b64u
from affiant.attestation.encoding.canonical import parse_canonical
from affiant.attestation.schema.records import objects_with_digests
from affiant.attestation.schema.shapes import Obj
from affiant.errors import NotAuthenticError

__all__ = ["Disclosed", "DisclosureInvalid", "disclosure_digest", "open_disclosures"]


class DisclosureInvalid(NotAuthenticError):
    """A disclosure is referenced nowhere, twice, in the wrong object, or under a reserved name."""

    code = "sd.invalid"


@dataclass(frozen=True, slots=True)
class Disclosed:
    """What the disclosures of one record say: ``path.member`` -> value (``req.dig``, ``sec[0].ref``)."""

    values: Mapping[str, object]

    def get(self, path: str) -> object:
        """The value, or None if it was not disclosed."""
        return self.values.get(path)

    def text(self, path: str) -> str | None:
        """The value if it is text."""
        value = self.values.get(path)
        return value if isinstance(value, str) else None


def disclosure_digest(disclosure: str) -> str:
    """43 characters: SHA-256 of the disclosure's ASCII text (RFC 9901, section 4.2.3)."""
    return b64u(hashlib.sha256(disclosure.encode("ascii")).digest())


def _read(disclosure: str) -> tuple[str, object]:
    parts = parse_canonical(from_b64u(disclosure), limit=16 * 1024)
    if not isinstance(parts, list) or len(parts) != 3 or not isinstance(parts[1], str):
        raise DisclosureInvalid("not a disclosure", expected="[salt, name, value]")
    if not isinstance(parts[0], str) or len(from_b64u(parts[0])) != 16:
        raise DisclosureInvalid("the salt is not 16 bytes")
    return parts[1], parts[2]


def open_disclosures(payload: Mapping[str, object], shape: Obj, disclosures: Sequence[str]) -> Disclosed:
    """Match ``disclosures`` to a verified payload.

    Raises:
        DisclosureInvalid: one is not referenced, is referenced or given twice, or names a member that its
            object does not hide (reserved names included).
        ShapeMismatch: a disclosed value has another shape.
    """
    places: dict[str, tuple[str, Obj]] = {}
    for path, node, node_shape in objects_with_digests(payload, shape):
        digests = node["_sd"]
        assert isinstance(digests, list)
        for digest in digests:
            if digest in places:
                raise DisclosureInvalid("a digest is in two places", where=path)
            places[digest] = (path, node_shape)
    values: dict[str, object] = {}
    for disclosure in disclosures:
        place = places.pop(disclosure_digest(disclosure), None)
        if place is None:
            raise DisclosureInvalid("a disclosure that the record does not reference, or one given twice")
        path, node_shape = place
        name, value = _read(disclosure)
        full = f"{path}.{name}" if path else name
        hidden = node_shape.hidden.get(name)
        if hidden is None or full in values:
            raise DisclosureInvalid("a disclosure for a member that is not hidden here", where=full)
        hidden.check(value, full)
        values[full] = value
    return Disclosed(values)
