"""Server-sent events as exact bytes: an event is everything through its blank line, however it arrives.

Lines end with LF, CRLF or CR (WHATWG HTML, "Server-sent events", 9.2.5). Splitting is by event, never by read:
the same bytes give the same events for every chunking. After a blank line that ended with CR one more byte is
awaited, since an LF there still belongs to it.

>>> splitter = EventSplitter()
>>> splitter.feed(b"data: a\\r"), splitter.feed(b"\\n\\r"), splitter.feed(b"\\ndata: b\\n\\n")
((), (), (b'data: a\\r\\n\\r\\n', b'data: b\\n\\n'))
"""

from __future__ import annotations

import re
from typing import Final

from affiant.attestation.statements.gateway_config import EVENT_MAX
from affiant.errors import MalformedError

__all__ = [
    "EventShapes",
    "EventSplitter",
    "event_data",
    "event_names",
    "is_done",
    "require_done",
    "require_fields",
    "varying_texts",
]

_LINE_END: Final = re.compile(rb"\r\n|\n|\r")
_BOUNDARY: Final = re.compile(rb"(?:\r\n|\n|\r)(?:\r\n|\n|\r)")
_BOM: Final = b"\xef\xbb\xbf"
_LONGEST_SHAPED: Final = 4096
"""Bytes of an event whose shape is compared."""
_MOST_SHAPES: Final = 8
_ONE_LINE: Final = re.compile(rb"(?:event: [A-Za-z0-9._]+\n)?data: *\{[^\r\n]*\}\n\n")
"""An event whose data is an object in one line. No comment: of those more is judged than their shape."""
_FIELD: Final = re.compile(
    rb"data(?::.*)?|event(?:: ?[A-Za-z0-9 ._:/-]{0,128})?|id(?:: ?[A-Za-z0-9 ._:/+=-]{0,256})?"
    rb"|retry(?:: ?[0-9]{0,16})?",
    re.DOTALL,
)
"""A line that every reader takes for the same field; a value that is not data has no room for another line."""


class EventSplitter:
    """Splits a stream into events; :attr:`pending` is what has no blank line yet.

    Args:
        event_max: bytes of one event.
    """

    __slots__ = ("_event_max", "_searched", "pending")

    def __init__(self, *, event_max: int = EVENT_MAX) -> None:
        self.pending = bytearray()
        self._event_max = event_max
        self._searched = 0

    def feed(self, chunk: bytes) -> tuple[bytes, ...]:
        """The events that ``chunk`` completes.

        Raises:
            ``upstream.event_too_large``: an event beyond its bound.
        """
        data = self.pending
        if not data and len(chunk) <= self._event_max and (whole := _whole_events(chunk)):
            return whole
        data += chunk
        events = []
        start, search = 0, self._searched
        while (end := _event_end(data, start, search)) is not None:
            self._require_bounded(end - start)
            events.append(bytes(data[start:end]))
            start = search = end
        del data[:start]
        # a boundary takes at most four bytes, of which three may be here already
        self._searched = max(len(self.pending) - 3, 0)
        self._require_bounded(len(self.pending))
        return tuple(events)

    def _require_bounded(self, size: int) -> None:
        if size > self._event_max:
            raise MalformedError(
                "an event of the upstream's stream is too large",
                expected=f"at most {self._event_max} bytes, as `event_max` says",
                hint="The gateway's operator sets it with --event-max",
                code="upstream.event_too_large",
            )

    def finish(self) -> bytes:
        """At the end of the stream: a last event whose blank line ended with CR; or nothing, and it was cut."""
        if _event_end(self.pending + b"x", 0, 0) == len(self.pending) and self.pending:
            event = bytes(self.pending)
            self.pending.clear()
            return event
        return b""


def _whole_events(chunk: bytes) -> tuple[bytes, ...]:
    """The events in ``chunk`` where that is plain: whole ones, lines that end with LF, no line between them."""
    if not chunk.endswith(b"\n\n") or chunk.startswith(b"\n") or b"\r" in chunk or b"\n\n\n" in chunk:
        return ()
    return tuple([event + b"\n\n" for event in chunk[:-2].split(b"\n\n")])


def _event_end(data: bytes | bytearray, start: int, search: int) -> int | None:
    """Where the first event from ``start`` ends; None while that is not known."""
    at = max(start, search)
    while True:
        if at == start and (blank := _LINE_END.match(data, start)):
            return _settled(data, blank.end())  # a blank line by itself
        match = _BOUNDARY.search(data, at)
        if match is None:
            return None
        if data[match.start() : match.end()] == b"\r\n":  # one line end, not two
            at = match.start() + 1
            continue
        return _settled(data, match.end())


def _settled(data: bytes | bytearray, end: int) -> int | None:
    if data[end - 1 : end] == b"\r":
        if end == len(data):
            return None
        if data[end : end + 1] == b"\n":
            return end + 1
    return end


def varying_texts(*names: str) -> re.Pattern[bytes]:
    """What :class:`EventShapes` leaves out: the texts of members of these names, where they have no escapes."""
    name = b"|".join(re.escape(each.encode("ascii")) for each in names)
    return re.compile(rb'([{,] *"(?:' + name + rb')" *: *")[^"\\\x00-\x1f]+"')


class EventShapes:
    """Tells events that differ from one that was judged only in texts that are not judged.

    An event's shape is its bytes without those texts. In one line of JSON each such place is a whole string, after the
    name of its member: a quotation mark inside of a string has a backslash before it, which no such place has. So an
    event of the same shape holds the same value but for those texts, as long as it is UTF-8.

    Args:
        texts: from :func:`varying_texts`, of members of which the judge looks at no more than that they are text.

    >>> shapes = EventShapes(varying_texts("content"))
    >>> shapes.add(b'data: {"content":"one"}\\n\\n')
    >>> b'data: {"content":"two"}\\n\\n' in shapes, b'data: {"Content":"two"}\\n\\n' in shapes
    (True, False)
    """

    __slots__ = ("_known", "_texts")

    def __init__(self, texts: re.Pattern[bytes]) -> None:
        self._texts = texts
        self._known: set[bytes] = set()

    def __contains__(self, event: bytes) -> bool:
        if not self._known or len(event) > _LONGEST_SHAPED:
            return False
        return self._texts.sub(rb'\1"', event) in self._known and _is_utf8(event)

    def add(self, event: bytes) -> None:
        """Take in an event that was judged as JSON, and went on by itself; beyond eight shapes none is kept."""
        if (
            len(self._known) < _MOST_SHAPES
            and len(event) <= _LONGEST_SHAPED
            and _ONE_LINE.fullmatch(event) is not None
        ):
            self._known.add(self._texts.sub(rb'\1"', event))


def _is_utf8(event: bytes) -> bool:
    try:
        return event.isascii() or event.decode("utf-8") is not None
    except UnicodeDecodeError:
        return False


def event_data(event: bytes) -> bytes | None:
    """The event's data as a client reads it: its ``data`` lines joined by LF; None if it has none."""
    event = event.removeprefix(_BOM)
    lines = []
    for line in _LINE_END.split(event):
        name, _, value = line.partition(b":")
        if name == b"data":
            lines.append(value.removeprefix(b" "))
    return b"\n".join(lines) if lines else None


def event_names(event: bytes) -> frozenset[bytes]:
    """What the ``event`` lines of an event say, each once; readers differ in which of several they take."""
    lines = (line.partition(b":") for line in _LINE_END.split(event.removeprefix(_BOM)))
    return frozenset(value.removeprefix(b" ") for name, _, value in lines if name == b"event" and value)


def is_done(event: bytes) -> bool:
    """Whether an event ends a stream as OpenAI's clients judge it: its data begins with ``[DONE]``."""
    return b"[DONE]" in event and (event_data(event) or b"").startswith(b"[DONE]")


def require_done(event: bytes) -> None:
    """Return if an event that ends a stream so says nothing else.

    Raises:
        ``upstream.answer``: it does.
    """
    require_fields(event)
    if (event_data(event) or b"").strip() != b"[DONE]":
        raise MalformedError("the terminal event says more", expected="[DONE]", code="upstream.answer")


def require_fields(event: bytes) -> None:
    """Return if every line of ``event`` is blank, a comment or a field, and the same to every reader.

    Some readers take a bare line of JSON, ``Data:`` or an indented ``data:`` for data; some end lines at U+2028,
    or at what it is in Latin-1. Where data is JSON, neither can be in it but inside a string.

    Raises:
        ``upstream.answer``: some line is none of these.
    """
    for line in _LINE_END.split(event):
        if line.startswith(b":"):
            plain = len(line.decode("latin-1").splitlines()) == 1 and _is_one_line(line)
        else:
            plain = not line or _FIELD.fullmatch(line) is not None
        if not plain:
            raise MalformedError(
                "a line of the stream is no field",
                expected="data, event, id, retry or a comment",
                code="upstream.answer",
            )


def _is_one_line(line: bytes) -> bool:
    try:
        return len(line.decode("utf-8").splitlines()) == 1
    except UnicodeDecodeError:
        return False
