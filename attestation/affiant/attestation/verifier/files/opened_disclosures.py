"""Opens sealed disclosures with a tenant's key, compares each with its receipt, and counts them all.

Whoever knows the public key can seal to it, and the store that keeps openings is not trusted: what was opened counts
only if every disclosure in it is one that its receipt commits to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from affiant.attestation.bundle.period.layout import MAX_LINE
from affiant.attestation.bundle.period.lines import disclosures_line, parse_disclosures
from affiant.attestation.encoding.binary_text import from_b64u
from affiant.attestation.encoding.canonical import parse_object
from affiant.attestation.encoding.jws import MAX_PAYLOAD
from affiant.attestation.records.receipt import parse_receipt
from affiant.attestation.records.sealed_disclosures import DisclosureReader, SealedDisclosureInvalid
from affiant.attestation.schema.disclosure import open_disclosures
from affiant.attestation.schema.records import shape_of
from affiant.errors import AffiantError

__all__ = ["Opener", "Outcome", "told"]


class Outcome(StrEnum):
    """What became of the opening of a receipt that hides something."""

    OPENED = "opened"
    OTHER_KEY = "other_key"
    """It is sealed to another key than was given, or was changed."""
    UNFIT = "unfit"
    """It is open, and is not what the receipt commits to."""
    ERASED = "erased"
    """It is gone, and an order to erase names the receipt."""
    ABSENT = "absent"
    """It is not here: whoever started the session named no key, or it was removed without an order."""


_WORDS: Final[Mapping[Outcome, str]] = {
    Outcome.OPENED: "opened",
    Outcome.OTHER_KEY: "sealed to another key",
    Outcome.UNFIT: "open, and not what the receipt commits to",
    Outcome.ERASED: "erased by order",
    Outcome.ABSENT: "without an opening here",
}


@dataclass(slots=True)
class Opener:
    """Opens one receipt after another.

    Args:
        keys: of tenants; each is tried.
        counts: of every outcome, over all receipts that hide something.
    """

    keys: Sequence[X25519PrivateKey] = field(repr=False)
    counts: dict[Outcome, int] = field(default_factory=lambda: dict.fromkeys(Outcome, 0))
    _readers: list[DisclosureReader] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._readers = [DisclosureReader(key) for key in self.keys]

    def disclosures(
        self, jws: str, find: Callable[[str], str | None], *, rh: str, erased: bool
    ) -> tuple[str, ...]:
        """The disclosures of one receipt; none where they are not to be had.

        Args:
            find: what is kept under a receipt hash, or under the name of a session's key; None: nothing is.
            rh: its receipt hash, 43 characters.
            erased: whether an order to erase names it.
        """
        try:
            payload = parse_object(from_b64u(jws.split(".")[1]), limit=MAX_PAYLOAD)
        except (
            AffiantError,
            IndexError,
        ):  # whatever stands there instead of a receipt: the verifier refuses it
            payload = {}
        if "_sd_alg" not in payload and find(rh) is None:
            return ()  # it hides nothing
        outcome, found = self._opened(jws, payload, find, rh, erased=erased)
        self.counts[outcome] += 1
        return found

    def _opened(
        self,
        jws: str,
        payload: Mapping[str, Any],
        find: Callable[[str], str | None],
        rh: str,
        *,
        erased: bool,
    ) -> tuple[Outcome, tuple[str, ...]]:
        for reader in self._readers:
            try:
                found = reader.open(jws, find)
                if found is None:
                    return (Outcome.ERASED if erased else Outcome.ABSENT), ()
                _demand_fit(jws, payload, found, rh)
            except SealedDisclosureInvalid:
                continue
            except (AffiantError, KeyError, ValueError):
                return Outcome.UNFIT, ()
            return Outcome.OPENED, found
        return Outcome.OTHER_KEY, ()


def _demand_fit(jws: str, payload: Mapping[str, Any], found: tuple[str, ...], rh: str) -> None:
    """Every disclosure is one that the receipt commits to, and a reader of bundles takes them.

    Raises:
        AffiantError, KeyError, ValueError: not.
    """
    shape = shape_of(str(payload["kind"]), role=str(payload["role"]), cls=str(payload["cls"]))
    shape.check(payload, "")
    open_disclosures(payload, shape, found)
    parse_receipt("~".join((jws, *found, "")))
    if found:
        line = disclosures_line(rh, found)
        parse_disclosures(line.rstrip(b"\n"), where=rh)
        if len(line) > MAX_LINE:
            raise ValueError


def told(counts: Mapping[Outcome, int]) -> str:
    """The counts in words; what is none is left out, but the first."""
    return ", ".join(
        f"{counts[outcome]} {words}"
        for outcome, words in _WORDS.items()
        if counts[outcome] or outcome is Outcome.OPENED
    )
