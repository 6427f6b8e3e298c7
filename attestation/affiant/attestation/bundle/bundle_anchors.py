"""How a single bundle carries anchors: the member ``anchors``, closed and bounded; nothing in it is verified here.

::

    {"tsr": [{"checkpoint": "sha256:<hex>", "consistency": [<43-char base64url>, ...], "tokens": [<base64url>, ...]}],
     "sigstore": [{"checkpoint": ..., "consistency": ..., "bundle": <base64url>}]}

``checkpoint`` names the anchored note among the bundle's ``checkpoints``, so that its log's signature travels along.
``consistency`` are the hashes that show that it and the checkpoint of the bundle's proofs are of one tree, from the
smaller to the larger of the two (RFC 9162, section 2.1.4); none where their sizes are equal. ``tokens`` are RFC 3161
responses as they came, oldest first: the first stamps the note's text, each later one all before it. ``bundle`` is a
sigstore bundle, as JSON, over an in-toto statement about that text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from affiant.attestation.encoding.binary_text import EncodingError, b64u, from_b64u, is_sha256_name
from affiant.attestation.tlog.tree import HASH_SIZE, MAX_PATH

__all__ = [
    "MAX_ANCHORS",
    "MAX_SIGSTORE",
    "Anchors",
    "AnchorsForm",
    "PublishedCheckpoint",
    "StampedCheckpoint",
    "parse_anchors",
]

MAX_ANCHORS: Final = 16
"""Anchors of each kind in one bundle."""
MAX_SIGSTORE: Final = 256 << 10
"""Bytes of one sigstore bundle; with two log entries it has some 12,000."""
_MAX_TOKENS: Final = 64
_MAX_TOKEN: Final = 64 << 10
"""Bytes of one response, as ``MAX_RESPONSE``."""


class AnchorsForm(ValueError):
    """Another form. Internal: the reader of bundles chains it under a refusal of its own."""

    def __init__(self, message: str, where: str) -> None:
        super().__init__(message)
        self.message, self.where = message, where


@dataclass(frozen=True, slots=True)
class StampedCheckpoint:
    """A checkpoint with timestamp tokens, as carried.

    Args:
        checkpoint: ``sha256:`` name of the note's bytes.
        consistency: hashes of 32 bytes.
        tokens: responses, oldest first.
    """

    checkpoint: str
    consistency: tuple[bytes, ...]
    tokens: tuple[bytes, ...]

    def to_json(self) -> Mapping[str, object]:
        """The entry."""
        return {
            "checkpoint": self.checkpoint,
            "consistency": [b64u(each) for each in self.consistency],
            "tokens": [b64u(each) for each in self.tokens],
        }


@dataclass(frozen=True, slots=True)
class PublishedCheckpoint:
    """A checkpoint in a sigstore bundle, as carried; ``checkpoint`` and ``consistency`` as above."""

    checkpoint: str
    consistency: tuple[bytes, ...]
    bundle: bytes

    def to_json(self) -> Mapping[str, object]:
        """The entry."""
        return {
            "checkpoint": self.checkpoint,
            "consistency": [b64u(each) for each in self.consistency],
            "bundle": b64u(self.bundle),
        }


@dataclass(frozen=True, slots=True)
class Anchors:
    """The member ``anchors``."""

    tsr: tuple[StampedCheckpoint, ...] = ()
    sigstore: tuple[PublishedCheckpoint, ...] = ()

    def to_json(self) -> Mapping[str, object]:
        """The member."""
        return {
            "tsr": [each.to_json() for each in self.tsr],
            "sigstore": [each.to_json() for each in self.sigstore],
        }


def parse_anchors(value: object) -> Anchors:
    """Read the member ``anchors``.

    Raises:
        AnchorsForm: another form, or more than is allowed.
    """
    members = _members(value, ("tsr", "sigstore"), "anchors")
    stamped = _list(members["tsr"], MAX_ANCHORS, "anchors.tsr", at_least=0)
    published = _list(members["sigstore"], MAX_ANCHORS, "anchors.sigstore", at_least=0)
    return Anchors(
        tuple(_stamped(entry, f"anchors.tsr[{index}]") for index, entry in enumerate(stamped)),
        tuple(_published(entry, f"anchors.sigstore[{index}]") for index, entry in enumerate(published)),
    )


def _stamped(value: object, where: str) -> StampedCheckpoint:
    entry = _members(value, ("checkpoint", "consistency", "tokens"), where)
    tokens = _list(entry["tokens"], _MAX_TOKENS, f"{where}.tokens", at_least=1)
    return StampedCheckpoint(
        _name(entry["checkpoint"], where),
        _hashes(entry["consistency"], f"{where}.consistency"),
        tuple(_bytes(each, _MAX_TOKEN, f"{where}.tokens") for each in tokens),
    )


def _published(value: object, where: str) -> PublishedCheckpoint:
    entry = _members(value, ("checkpoint", "consistency", "bundle"), where)
    return PublishedCheckpoint(
        _name(entry["checkpoint"], where),
        _hashes(entry["consistency"], f"{where}.consistency"),
        _bytes(entry["bundle"], MAX_SIGSTORE, f"{where}.bundle"),
    )


def _name(value: object, where: str) -> str:
    if not isinstance(value, str) or not is_sha256_name(value):
        raise AnchorsForm("names no checkpoint", where)
    return value


def _hashes(value: object, where: str) -> tuple[bytes, ...]:
    hashes = tuple(_bytes(each, HASH_SIZE, where) for each in _list(value, MAX_PATH, where, at_least=0))
    if any(len(each) != HASH_SIZE for each in hashes):
        raise AnchorsForm("a hash of another size", where)
    return hashes


def _members(value: object, names: tuple[str, ...], where: str) -> Mapping[str, object]:
    if not isinstance(value, dict) or set(value) != set(names):
        raise AnchorsForm("missing or foreign members", where)
    return value


def _list(value: object, at_most: int, where: str, *, at_least: int) -> list[object]:
    if not isinstance(value, list) or not at_least <= len(value) <= at_most:
        raise AnchorsForm(f"no list of {at_least} to {at_most}", where)
    return value


def _bytes(value: object, limit: int, where: str) -> bytes:
    if not isinstance(value, str) or not 0 < len(value) <= (limit * 4 + 2) // 3:
        raise AnchorsForm(f"no text for 1 to {limit} bytes", where)
    try:
        return from_b64u(value)
    except EncodingError as error:
        raise AnchorsForm("not base64url", where) from error
