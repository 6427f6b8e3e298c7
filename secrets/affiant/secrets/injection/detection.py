"""Finding placeholders in what an agent sends: the bound ones in their place, any other anywhere.

Judged are the head (:func:`judge_head`) and, where a secret has its place in a body or signs it, all of that
(:func:`judge_body`): both say which secrets the request uses. Every other body is searched on its way
(:class:`PlaceholderDetector`). A placeholder that is not the whole credential of its surface, at one of its hosts, is
never forwarded: not as it is, nor percent-encoded, in JSON escapes, in base64 at any offset, in UTF-16, reversed, or
split across chunks (negative tests S2, S3). A placeholder is no secret; what is refused here is sending a dead one, and
learning where it would have come alive.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from affiant.errors import NotAllowedError
from affiant.secrets.injection.body_surface import BodySurface, media_type
from affiant.secrets.injection.placeholder import Binding, PlaceholderTable
from affiant.secrets.injection.signing_surface import SIGNING_ID, SigningSurface, judge_signed_body, presigned
from affiant.secrets.injection.surface import QuerySurface, Surface
from affiant.secrets.names.errors import PlaceholderMisplaced, SecretNotBound

__all__ = [
    "HeaderField",
    "PlaceholderDetector",
    "SecretUse",
    "holds_secrets",
    "judge_body",
    "judge_head",
    "without_placeholders",
]


HeaderField: TypeAlias = tuple[bytes, bytes]
"""A header's name and value, as they are in the request."""

_ESCAPE: Final = re.compile(rb"%([0-9A-Fa-f]{2})|\\u00([0-9A-Fa-f]{2})")
_ESCAPE_OPEN: Final = re.compile(rb"(?:%[0-9A-Fa-f]?|\\(?:u0{0,2}|u00[0-9A-Fa-f]))\Z")
"""A tail that may become an escape with the next chunk."""

_FOREIGN: Final = re.compile(rb"affiant-ph-[0-9A-Za-z]{32}|%b" % SIGNING_ID.pattern)
"""A placeholder in its default form, of any session (S17)."""

_INFLATE_STEP: Final = 1 << 18
_INFLATE_FREE: Final = 16 << 20
_INFLATE_RATIO: Final = 200
"""A compressed body is searched decompressed: 16 MiB, and beyond that 200 bytes for each byte sent."""

_WINDOW: Final = {b"gzip": 31, b"x-gzip": 31, b"deflate": 15}
"""zlib's ``wbits``: gzip with its header and trailer, zlib with its own (RFC 9110, section 8.4.1)."""


@dataclass(frozen=True, slots=True)
class SecretUse:
    """One secret in one request: its placeholder is as the surface says.

    Args:
        field: which header holds it; None: the target does, or the body. place: where in that.
        in_body: whether it is the body.
    """

    name: str
    surface: str
    field: int | None
    place: slice | None = None
    in_body: bool = False


def judge_head(
    table: PlaceholderTable,
    *,
    scheme: str,
    host: str,
    port: int,
    target: bytes,
    headers: tuple[HeaderField, ...],
) -> tuple[SecretUse, ...]:
    """The secrets that a request uses, each in its place.

    Args:
        scheme, host, port: where the request goes, canonical.
        target: the request target as it will be sent.
        headers: names in any case; values without line breaks.

    Raises:
        SecretNotBound: a placeholder in a secret's place, but not at one of its hosts over https.
        PlaceholderMisplaced: a placeholder anywhere else, or in a header that is there more than once; or one of
            another session anywhere.
        ``secret.sigv4_*``: a request that is signed with a placeholder, and cannot be signed again.
    """
    uses = list(_in_query(table, target))
    for use in uses:
        _demand_bound(table.binding(use.name), scheme=scheme, host=host, port=port)
    elsewhere = [without_placeholders(target, uses)]
    for index, (name, value) in enumerate(headers):
        binding = _held(table, name, value)
        if binding is None:
            elsewhere += (name, value)
            continue
        _demand_bound(binding, scheme=scheme, host=host, port=port)
        if sum(other.lower() == name.lower() for other, _ in headers) > 1:
            raise PlaceholderMisplaced("the header of a secret is there more than once", where=binding.name)
        if isinstance(binding.surface, SigningSurface):
            placeholder = binding.placeholder.encode("ascii")
            binding.surface.judge(target=target, headers=headers, placeholder=placeholder)
        uses.append(SecretUse(binding.name, binding.surface.label, index))
    if any(
        SigningSurface.presigned(target, binding.placeholder.encode("ascii")) for binding in _signing(table)
    ):
        raise presigned()
    for text in elsewhere:
        if _FOREIGN.search(text) is not None and not _own(table, text):
            raise PlaceholderMisplaced("a placeholder of another session: it is worth nothing here")
        detector = PlaceholderDetector(table)
        detector.feed(text)
        detector.flush()
    return tuple(uses)


def holds_secrets(
    table: PlaceholderTable, *, scheme: str, host: str, port: int, headers: tuple[HeaderField, ...]
) -> bool:
    """Whether the body of a request with these headers can be a secret's place, or is signed with one: it is then read
    whole, and judged."""
    return _is_signed(table, headers) or bool(
        _of_body(table, scheme=scheme, host=host, port=port, headers=headers)
    )


def judge_body(
    table: PlaceholderTable,
    *,
    scheme: str,
    host: str,
    port: int,
    headers: tuple[HeaderField, ...],
    body: bytes,
) -> tuple[SecretUse, ...]:
    """The secrets that a whole body uses, each in its place.

    Args:
        scheme, host, port: as of :func:`judge_head`. headers: as of it; they say what the body is.
        body: all of it, as the agent wrote it.

    Raises:
        PlaceholderMisplaced: a placeholder anywhere else, or in a body that two servers could read differently.
        ``secret.placeholder_hidden``: a body that is signed, and encoded so that it cannot be searched.
        ``secret.sigv4_payload``: it is signed, and is not the body whose digest was signed.
    """
    encodings: list[bytes] = []
    if _is_signed(table, headers):
        judge_signed_body(headers, body)
        encodings = [value for name, value in headers if name.lower() == b"content-encoding"]
    uses = []
    for binding, surface in _of_body(table, scheme=scheme, host=host, port=port, headers=headers):
        place = surface.place(body, binding.placeholder.encode("ascii"))
        if place is not None:
            uses.append(SecretUse(binding.name, surface.label, None, place, in_body=True))
    detector = PlaceholderDetector(table, content_encoding=b", ".join(encodings))
    detector.feed(_without(body, [use.place for use in uses]))
    detector.flush()
    return tuple(uses)


def _signing(table: PlaceholderTable) -> list[Binding]:
    return [binding for binding in table if isinstance(binding.surface, SigningSurface)]


def _is_signed(table: PlaceholderTable, headers: tuple[HeaderField, ...]) -> bool:
    return any(
        SigningSurface.means(name, value, binding.placeholder.encode("ascii"))
        for binding in _signing(table)
        for name, value in headers
    )


def _of_body(
    table: PlaceholderTable, *, scheme: str, host: str, port: int, headers: tuple[HeaderField, ...]
) -> list[tuple[Binding, BodySurface]]:
    """The secrets whose place is in a body like this one, at this host."""
    kind = media_type(headers)
    return [
        (binding, binding.surface)
        for binding in table
        if isinstance(binding.surface, BodySurface)
        and binding.surface.media_type == kind
        and binding.covers(scheme=scheme, host=host, port=port)
    ]


def without_placeholders(target: bytes, uses: Iterable[SecretUse]) -> bytes:
    """``target`` with nothing in place of the placeholders that are ``uses`` of it."""
    return _without(target, [use.place for use in uses if not use.in_body])


def _without(data: bytes, places: Iterable[slice | None]) -> bytes:
    found = [place for place in places if place is not None]
    for place in sorted(found, key=lambda place: place.start, reverse=True):
        data = data[: place.start] + data[place.stop :]
    return data


def _in_query(table: PlaceholderTable, target: bytes) -> Iterator[SecretUse]:
    for binding in table:
        if isinstance(binding.surface, QuerySurface):
            place = binding.surface.place(target, binding.placeholder.encode("ascii"))
            if place is not None:
                yield SecretUse(binding.name, binding.surface.label, None, place)


def _demand_bound(binding: Binding | None, *, scheme: str, host: str, port: int) -> None:
    assert binding is not None, "it was found in this table"
    if not binding.covers(scheme=scheme, host=host, port=port):
        raise SecretNotBound(
            "the secret is not bound to this place",
            where=binding.name,
            expected=_places(binding),
            found=f"{scheme}://{host}:{port}",
        )


def _own(table: PlaceholderTable, text: bytes) -> bool:
    return any(binding.placeholder.encode("ascii") in text for binding in table)


def _held(table: PlaceholderTable, name: bytes, value: bytes) -> Binding | None:
    field = name.lower()
    for binding in table:
        surface = binding.surface
        if isinstance(surface, SigningSurface) and surface.means(
            name, value, binding.placeholder.encode("ascii")
        ):
            return binding
        if not isinstance(surface, Surface):
            continue
        if surface.header.encode("ascii") == field and surface.holds(
            value, binding.placeholder.encode("ascii")
        ):
            return binding
    return None


def _places(binding: Binding) -> str:
    if not binding.endpoints:
        return "no use at all (secret_no_sink: the profile names no https host for it)"
    return ", ".join(f"https://{place.host}:{place.port}" for place in sorted(binding.endpoints))


class PlaceholderDetector:
    """One body under way: gives back what may be forwarded, rejects a placeholder in any known encoding.

    Of an uncompressed body the last bytes that could belong to a placeholder are held back, so that not even a
    part of one is forwarded. Of a compressed body the chunk that completes a placeholder is refused.

    Args:
        table: the session's placeholders.
        content_encoding: the request's ``Content-Encoding``; identity, gzip and deflate can be searched.

    Raises:
        ``secret.placeholder_hidden``: another encoding, if there are placeholders at all.
    """

    __slots__ = ("_carry", "_held", "_inflater", "_names", "_searcher", "_seen", "_unescaped")

    def __init__(self, table: PlaceholderTable, *, content_encoding: bytes = b"identity") -> None:
        self._names = tuple(binding.name for binding in table)
        self._searcher = table.searcher
        self._held = b""
        self._carry = b""
        self._unescaped = b""
        self._seen = [0, 0]
        self._inflater = self._decoder(content_encoding.strip().lower())

    def _decoder(self, encoding: bytes) -> zlib._Decompress | None:
        if encoding in (b"", b"identity") or not self._names:
            return None
        if encoding not in _WINDOW:
            raise NotAllowedError(
                "a body in this encoding cannot be searched for placeholders",
                expected="identity, gzip or deflate",
                code="secret.placeholder_hidden",
            )
        return zlib.decompressobj(_WINDOW[encoding])

    def feed(self, chunk: bytes) -> bytes:
        """The bytes that may be forwarded now.

        Raises:
            PlaceholderMisplaced: ``chunk`` completes a placeholder.
            ``secret.placeholder_hidden``: the compressed body is damaged, is unbounded, or has data after its end.
        """
        if not self._names:
            return chunk
        if self._inflater is not None:
            for plain in self._inflated(self._inflater, chunk):
                self._search(plain)
            return chunk
        self._search(chunk)
        waiting = self._held + chunk
        end = max(len(waiting) - self._reach, 0)
        self._held = waiting[end:]
        return waiting[:end]

    def flush(self) -> bytes:
        """The rest of the body, which has ended.

        Raises:
            PlaceholderMisplaced: as :meth:`feed`.
            ``secret.placeholder_hidden``: the compressed body is not complete.
        """
        if self._inflater is not None and self._seen[0] and not self._inflater.eof:
            raise NotAllowedError("the compressed body is not complete", code="secret.placeholder_hidden")
        self._search(b"", final=True)
        rest, self._held = self._held, b""
        return rest

    @property
    def _reach(self) -> int:
        """As many bytes as a placeholder may take if each of its characters is written as ``\\u00XX``."""
        return max(self._searcher.longest, 1)

    def _search(self, chunk: bytes, *, final: bool = False) -> None:
        """As it came, and with escapes undone (mixed ones too)."""
        tail = self._carry + chunk
        self._reject(tail)
        self._carry = tail[-(self._reach - 1) :] if self._reach > 1 else b""
        text = self._unescaped + chunk
        opened = None if final else _ESCAPE_OPEN.search(text, max(len(text) - 5, 0))
        cut = len(text) if opened is None else opened.start()
        plain, escapes = _ESCAPE.subn(
            lambda escape: bytes.fromhex((escape[1] or escape[2]).decode()), text[:cut]
        )
        if escapes or text != tail:
            self._reject(plain)
        self._unescaped = plain[-(self._reach - 1) :] + text[cut:]

    def _reject(self, data: bytes) -> None:
        for match in self._searcher.matches(data):
            raise PlaceholderMisplaced(
                "a placeholder is where no secret may be",
                where=self._names[match.key],
                hint="Send it as the whole value in the place that the profile names, and nowhere else",
            )

    def _inflated(self, inflater: zlib._Decompress, chunk: bytes) -> Iterator[bytes]:
        self._seen[0] += len(chunk)
        while chunk:
            if inflater.eof:
                raise NotAllowedError(
                    "the compressed body goes on after its end", code="secret.placeholder_hidden"
                )
            try:
                plain = inflater.decompress(chunk, _INFLATE_STEP)
            except zlib.error as error:
                raise NotAllowedError(
                    "the compressed body is damaged", code="secret.placeholder_hidden"
                ) from error
            self._seen[1] += len(plain)
            if self._seen[1] > _INFLATE_FREE + _INFLATE_RATIO * self._seen[0]:
                raise NotAllowedError(
                    "the compressed body expands without bound", code="secret.placeholder_hidden"
                )
            yield plain
            chunk = inflater.unconsumed_tail or inflater.unused_data
