"""Reads a folder of test vectors: ``expected.json`` and the files that it names, never a file outside of the folder.

The schema, version 1, is docs/formats/conformance.md. Members that it does not name are ignored, so that a
collection can carry its provenance; those that it does name are strict.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from affiant.attestation.encoding.binary_text import EncodingError, from_hex
from affiant.attestation.encoding.canonical import JSONError, parse_object
from affiant.errors import AffiantError, ConfigurationError

__all__ = [
    "EventLogCase",
    "QuoteCase",
    "VectorFolder",
    "VectorFolderInvalid",
    "VectorUnreadable",
    "open_vectors",
]

MAX_EXPECTED_BYTES: Final = 64 << 20
MAX_FILE_BYTES: Final = 8 << 20
SCHEMA: Final = 1
_REGISTERS: Final = ("rtmr0", "rtmr1", "rtmr2", "rtmr3")


class VectorFolderInvalid(ConfigurationError):
    """The folder is no collection of vectors: nothing was compared."""

    code = "conformance.folder"


class VectorUnreadable(AffiantError):
    """A case names a file that is not there, is too large, or lies outside of the folder."""

    code = "conformance.file"


@dataclass(frozen=True, slots=True)
class QuoteCase:
    """One quote, judged at one time under one root, and what must come of it."""

    identifier: str
    group: str
    description: str
    quote: str
    collateral: str
    root: str
    """``intel``, or the path of a certificate."""
    now: datetime
    accepted: bool | None
    """None: either answer is allowed."""
    status: str | None
    advisories: frozenset[str] | None
    reason: str | None
    """A hint; which of several faults is met first is the verifier's own."""


@dataclass(frozen=True, slots=True)
class EventLogCase:
    """One event log, the registers that it must replay to, and whether it must be accepted."""

    identifier: str
    """The log's path, which is its name too."""
    quote: str | None
    """Whose registers it must replay to; None: none is known."""
    accepted: bool
    registers: Mapping[int, bytes]
    """RTMR number -> what replay must give, for those that the collection lists."""
    matches: tuple[bool, ...] | None = None
    """Whether RTMR0 to 3 replay to the quote's, one by one; None: all that the log speaks of must."""


@dataclass(frozen=True, slots=True)
class VectorFolder:
    """A collection whose cases were read; their files are read one by one."""

    path: Path
    cases: tuple[QuoteCase, ...]
    event_logs: tuple[EventLogCase, ...]

    def read(self, name: str) -> bytes:
        """The bytes of a file in the folder.

        Raises:
            VectorUnreadable: absent, too large, or not within the folder (links are followed before judging).
        """
        root = self.path.resolve()
        path = (root / name).resolve()
        if not path.is_relative_to(root):
            raise VectorUnreadable("a case names a file outside of its folder", found=repr(name[:80]))
        try:
            with path.open("rb") as opened:
                content = opened.read(MAX_FILE_BYTES + 1)
        except (OSError, ValueError) as error:
            raise VectorUnreadable(
                "a case names a file that cannot be read", found=repr(name[:80])
            ) from error
        if len(content) > MAX_FILE_BYTES:
            raise VectorUnreadable("a case names a file that is too large", found=repr(name[:80]))
        return content


def open_vectors(path: Path) -> VectorFolder:
    """The collection in the folder ``path``.

    Raises:
        VectorFolderInvalid: no ``expected.json``, another schema, no case, or one of another form.
    """
    try:
        with (path / "expected.json").open("rb") as opened:
            content = opened.read(MAX_EXPECTED_BYTES + 1)
    except OSError as error:
        raise VectorFolderInvalid(
            f"{path.name!r} holds no expected.json that can be read", hint="docs/formats/conformance.md"
        ) from error
    try:
        document = parse_object(content, limit=MAX_EXPECTED_BYTES, strict_form=False)
    except JSONError as error:
        raise VectorFolderInvalid(f"expected.json is not strict JSON: {error}") from error
    if document.get("schema") != SCHEMA or type(document.get("schema")) is not int:
        raise VectorFolderInvalid("expected.json of another schema", expected=f'"schema": {SCHEMA}')
    entries = document.get("cases")
    if not isinstance(entries, list) or not entries:
        raise VectorFolderInvalid("expected.json has no case: agreeing with nothing proves nothing")
    cases = tuple(_case(entry, index) for index, entry in enumerate(entries))
    if len({case.identifier for case in cases}) != len(cases):
        raise VectorFolderInvalid("two cases have one id")
    logs = document.get("eventlogs", [])
    if not isinstance(logs, list):
        raise VectorFolderInvalid("not a list", where="eventlogs")
    return VectorFolder(path, cases, tuple(_event_log(entry, index) for index, entry in enumerate(logs)))


def _event_log(entry: object, index: int) -> EventLogCase:
    where = f"eventlogs[{index}]"
    if not isinstance(entry, dict):
        raise VectorFolderInvalid("not an event log's case", where=where)
    accepted, registers = entry.get("expected_accept", True), entry.get("replay", {})
    if not isinstance(accepted, bool) or not isinstance(registers, dict):
        raise VectorFolderInvalid("not a verdict, or no registers", where=where)
    quote = None if entry.get("quote") is None else _text(entry, "quote", where)
    matches = _matches(entry.get("matches_quote"), where)
    if matches is not None and (quote is None or not accepted):
        raise VectorFolderInvalid(
            "registers are compared with no quote, or of a log that must be rejected",
            where=f"{where}.matches_quote",
            expected="a log that is accepted, and its quote",
        )
    return EventLogCase(
        identifier=_text(entry, "file", where),
        quote=quote,
        accepted=accepted,
        registers={
            _register(name, where): _register_value(value, where) for name, value in registers.items()
        },
        matches=matches,
    )


def _matches(value: object, where: str) -> tuple[bool, ...] | None:
    if value is None:
        return None
    if not isinstance(value, list) or [type(each) for each in value] != [bool] * len(_REGISTERS):
        raise VectorFolderInvalid(
            "not four truth values", where=f"{where}.matches_quote", expected="one each for RTMR0 to RTMR3"
        )
    return tuple(value)


def _register(name: str, where: str) -> int:
    if name not in _REGISTERS:
        raise VectorFolderInvalid("no such register", where=f"{where}.replay", expected=", ".join(_REGISTERS))
    return _REGISTERS.index(name)


def _register_value(value: object, where: str) -> bytes:
    try:
        if isinstance(value, str):
            return from_hex(value, size=48)
    except EncodingError as error:
        raise VectorFolderInvalid("not 48 bytes in hexadecimal", where=f"{where}.replay") from error
    raise VectorFolderInvalid("not a text", where=f"{where}.replay")


def _case(entry: object, index: int) -> QuoteCase:
    where = f"cases[{index}]"
    if not isinstance(entry, dict) or not isinstance(entry.get("expected"), dict):
        raise VectorFolderInvalid("not a case", where=where, expected="an object with `expected`")
    expected = entry["expected"]
    accepted = expected.get("accepted", 0)
    if not (accepted is None or isinstance(accepted, bool)):
        raise VectorFolderInvalid(
            "not a verdict", where=f"{where}.expected.accepted", expected="true, false, null"
        )
    return QuoteCase(
        identifier=_text(entry, "id", where),
        group=_text(entry, "group", where, default="all"),
        description=_text(entry, "description", where, default=""),
        quote=_text(entry, "quote", where),
        collateral=_text(entry, "collateral", where),
        root=_text(entry, "root", where),
        now=_instant(entry.get("now"), where),
        accepted=accepted,
        status=_text(expected, "status", f"{where}.expected") if accepted else None,
        advisories=_advisories(expected.get("advisory_ids"), where) if accepted else None,
        reason=_text(expected, "reason", f"{where}.expected", default="") or None,
    )


def _text(members: Mapping[str, object], name: str, where: str, *, default: str | None = None) -> str:
    value = members.get(name, default)
    if not isinstance(value, str) or len(value) > 1000:
        raise VectorFolderInvalid("a member is absent, or no text", where=f"{where}.{name}")
    return value


def _instant(value: object, where: str) -> datetime:
    if type(value) is not int or not 0 <= value < 1 << 36:
        raise VectorFolderInvalid("not a timestamp", where=f"{where}.now", expected="seconds since 1970")
    return datetime.fromtimestamp(value, UTC)


def _advisories(value: object, where: str) -> frozenset[str]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise VectorFolderInvalid(
            "not a list of texts", where=f"{where}.expected.advisory_ids", expected="[] if there are none"
        )
    return frozenset(value)
