"""The session's bundle, with its hidden values opened: what the starter of a session takes home.

A gateway gives a session's bundle without disclosures, and beside it, for each receipt hash, the disclosures
sealed to the session's starter. Opening them puts them back behind the receipt that they belong to; the
receipts themselves do not change by a byte. Nothing here judges: that is ``affiant verify``.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO, Final

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from affiant.attestation.bundle.bundle import MAX_BUNDLE, Bundle, parse_bundle
from affiant.attestation.encoding.canonical import parse_object, parse_strict
from affiant.attestation.records.receipt import parse_receipt, receipt_hash
from affiant.attestation.records.sealed_disclosures import DisclosureReader, apart
from affiant.attestation.verifier.files.opened_disclosures import Opener
from affiant.errors import MalformedError
from affiant.sandbox.base.user_files import write_user_file
from affiant.sandbox.supervisor.records.spool import SpoolEntry, read_signed

__all__ = [
    "SealedBundle",
    "boundary_record",
    "close_in",
    "close_of",
    "open_bundle",
    "open_bundle_file",
    "open_counted",
    "parse_sealed_bundle",
    "read_sealed_bundle",
    "read_spooled",
    "spooled_hashes",
    "with_spooled",
    "write_bundle",
]

_LIMIT: Final = 2 * MAX_BUNDLE


@dataclass(frozen=True, slots=True)
class SealedBundle:
    """A bundle without disclosures, and the sealed disclosures by receipt hash."""

    bundle: Bundle
    openings: Mapping[str, str]


def read_sealed_bundle(path: Path) -> SealedBundle:
    """What the supervisor left at ``path``.

    Raises:
        ``session.bundle``, BundleMalformed: it is not what it should be.
    """
    with open_bundle_file(path) as file:
        return parse_sealed_bundle(file.read(_LIMIT + 1))


def open_bundle_file(path: Path) -> BufferedReader:
    """The file at ``path``, in a folder that others could write to: no link is followed, and no pipe is waited for.

    Raises:
        ``session.bundle``: there is none, or it is no plain file.
    """
    try:
        file = open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb")  # noqa: SIM115 - the caller's
    except OSError as error:
        raise MalformedError(
            "the session left no bundle", found=error.strerror, code="session.bundle"
        ) from error
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise MalformedError("the session's bundle is no plain file", code="session.bundle")
    return file


def parse_sealed_bundle(data: bytes) -> SealedBundle:
    """The answer of ``GET /v1/sessions/{id}/bundle``."""
    value = parse_strict(data, limit=_LIMIT)
    match value:
        case {"bundle": dict() as bundle, "openings": dict() as openings}:
            if not all(isinstance(text, str) for text in openings.values()):
                raise MalformedError("an opening is no text", code="session.bundle")
            return SealedBundle(parse_bundle(json.dumps(bundle).encode("ascii")), openings)
        case _:
            raise MalformedError(
                "not a session's bundle", expected="bundle and sealed disclosures", code="session.bundle"
            )


def read_spooled(path: Path) -> tuple[SpoolEntry, ...]:
    """The records that a supervisor's journal at ``path`` holds, in chain order; none where there is no journal.

    Raises:
        ``session.bundle``: it is no plain file.
    """
    with _journal(path) as file:
        return () if file is None else read_signed(file.read(_LIMIT))


def spooled_hashes(path: Path) -> Iterator[str]:
    """The hashes of the same records, whatever the journal's size.

    Raises:
        ``session.bundle``: it is no plain file.
    """
    with _journal(path) as file:
        for line in file or ():
            yield from (entry.rh for entry in read_signed(line))


@contextmanager
def _journal(path: Path) -> Iterator[BinaryIO | None]:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        yield None
        return
    except OSError as error:
        raise MalformedError(
            "the session's journal cannot be read", found=error.strerror, code="session.bundle"
        ) from error
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise MalformedError("the session's journal is no plain file", code="session.bundle")
        yield file


def with_spooled(
    sealed: SealedBundle, entries: Sequence[SpoolEntry], *, session: str
) -> tuple[SealedBundle, int]:
    """The bundle with those records of the supervisor's journal that it lacks, and how many stay out.

    They stay out if ``session`` has a close there that speaks for both sides: it says which record was the last, and
    stays true. One that says ``lost`` speaks for the gateway alone.
    """
    known = {receipt_hash(text.partition("~")[0]) for text in sealed.bundle.receipts}
    new = tuple(entry for entry in entries if entry.rh not in known)
    if close_of(sealed, session) not in {None, "lost"}:
        return sealed, len(new)
    if not new:
        return sealed, 0
    whole = SealedBundle(
        replace(sealed.bundle, receipts=(*sealed.bundle.receipts, *(f"{entry.jws}~" for entry in new))),
        {**sealed.openings, **_openings_of(new)},
    )
    return whole, 0


def _openings_of(entries: Sequence[SpoolEntry]) -> Mapping[str, str]:
    handed_on = (apart(entry.jws, entry.openings) for entry in entries if entry.openings is not None)
    return {name: text for each in handed_on for name, text in each.items()}


def close_of(sealed: SealedBundle, session: str) -> str | None:
    """``why`` of the session's close; None: the bundle has none."""
    return next(
        (why for text in sealed.bundle.receipts if (why := close_in(text, session)) is not None), None
    )


def close_in(sdjwt: str, session: str) -> str | None:
    """``why``, if the receipt is the close of ``session``."""
    match parse_object(parse_receipt(sdjwt).split.payload):
        case {"kind": "session-close", "why": str(why), "agt": {"ses": str(named)}} if named == session:
            return why
    return None


def boundary_record(receipts: Iterable[str], session: str) -> tuple[str, str] | None:
    """Kind and receipt hash of the session's close, else of its start; None: neither is among ``receipts``."""
    found: dict[str, str] = {}
    for text in receipts:
        receipt = parse_receipt(text)
        match parse_object(receipt.split.payload):
            case {"kind": ("session-close" | "session-start") as kind, "agt": {"ses": str(named)}} if (
                named == session
            ):
                found[str(kind)] = receipt.rh
    kind = "session-close" if "session-close" in found else "session-start"
    return (kind, found[kind]) if kind in found else None


def open_bundle(sealed: SealedBundle, key: X25519PrivateKey) -> Bundle:
    """The bundle, each receipt followed by the disclosures that were sealed for it.

    Raises:
        SealedDisclosureInvalid: an opening is for another key or receipt.
    """
    reader = DisclosureReader(key)
    return replace(
        sealed.bundle,
        receipts=tuple(_opened(text, sealed.openings, reader) for text in sealed.bundle.receipts),
    )


def open_counted(sealed: SealedBundle, opener: Opener) -> Bundle:
    """The same with whatever ``opener`` opens; what it does not is counted there, and stays hidden."""
    erased = frozenset(_ordered_to_be_erased(sealed.bundle))

    def opened(text: str) -> str:
        jws = text.partition("~")[0]
        rh = receipt_hash(jws)
        found = opener.disclosures(jws, sealed.openings.get, rh=rh, erased=rh in erased)
        return "~".join([jws, *found, ""])

    return replace(sealed.bundle, receipts=tuple(opened(text) for text in sealed.bundle.receipts))


def _ordered_to_be_erased(bundle: Bundle) -> Iterator[str]:
    for text in bundle.receipts:
        match parse_object(parse_receipt(text).split.payload):
            case {"kind": "erasure", "del": list() as items}:
                yield from (str(item["rh"]) for item in items if isinstance(item, dict) and "rh" in item)


def _opened(text: str, openings: Mapping[str, str], reader: DisclosureReader) -> str:
    jws = text.partition("~")[0]
    found = reader.open(jws, openings.get)
    return text if found is None else "~".join([jws, *found, ""])


def write_bundle(path: Path, bundle: Bundle, *, stream: bool = False) -> None:
    """Write the bundle, readable for its owner alone: it holds what the receipts hide.

    Args:
        stream: whether ``path`` may name something that is no file; only a path of the user's own choice.

    Raises:
        BundleMalformed: it could not be read back.
        OutputPlaceError: the machine did not let us write there.
    """
    data = bundle.to_bytes()
    parse_bundle(data)
    write_user_file(path, data, mode=0o600, stream=stream)
