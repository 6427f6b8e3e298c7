"""Redacts: wherever a known secret comes back, the response gets its placeholder.

The second line of defence (the first is that no value enters a sandbox). Byte-exact, over every encoding of
``variants``, across chunk borders, and the same whatever the chunks are.

**What is held back.** With ``n`` bytes seen and not yet given out and a longest encoding of ``m`` bytes, the
stream gives out everything before position ``n - (m - 1)``: a match that starts before it is complete. It
holds exactly ``m - 1`` bytes (fewer if fewer are there, or if a match reaches into them), *whatever they are*.
Holding back only what looks like the beginning of a secret would answer, by its timing, a guess at that
secret's first bytes, then the next: a door that must not exist.

A *live* stream holds back only a tail with which an encoding begins. It gives out the same bytes, earlier, and
its timing is such an answer: it is for text that only another person sees (the user's terminal), never for
anything that goes to the agent. When nothing comes, it shows a short line that it holds back. Where that was the
beginning of an encoding after all, the placeholder replaces the rest.

**Parts.** An answer of a host that was sent a secret may hold a part of it (``parts``). That one is not replaced, it
ends the stream: before a byte of the part is given out, because a part is shorter than what is held back.

The replacement is the placeholder itself, so that an agent that re-sends what it received still works.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple, Protocol

from affiant.secrets.names.value import SecretValue
from affiant.secrets.redaction.search import Searcher
from affiant.secrets.redaction.variants import variants

__all__ = ["Redacted", "RedactionStream", "Redactor", "Unwanted"]


_SHORT_LINE: Final = 8
"""Bytes: too few of a secret to matter."""


class Redacted(NamedTuple):
    """Bytes without secrets, and how many occurrences were replaced."""

    data: bytes
    replaced: int


class Unwanted(Protocol):
    """What must not be in an answer, and is not replaced (``Parts``)."""

    def require_none(self, data: bytes, *, before: int | None = None) -> None:
        """Refuse it in ``data``, if it begins before the position ``before``.

        Raises:
            SecretPartialEcho: it is there.
        """
        ...


class Redactor:
    """Knows the values of one session; immutable; lives in the broker's process.

    Args:
        secrets: pairs of a value and the placeholder that replaces it.
    """

    __slots__ = ("_replacements", "_searcher")

    def __init__(self, secrets: Iterable[tuple[SecretValue, str]]) -> None:
        self._know((value.reveal(), placeholder.encode("ascii")) for value, placeholder in secrets)

    @classmethod
    def of_made(cls, made: Iterable[tuple[bytes, bytes]]) -> Redactor:
        """One that knows what was made of values for one request, such as its signature.

        Args:
            made: pairs of at least 16 bytes and of what an agent may see in their place.
        """
        redactor = Redactor(())
        redactor._know(made)
        return redactor

    def _know(self, pairs: Iterable[tuple[bytes, bytes]]) -> None:
        known = tuple(pairs)
        self._replacements = tuple(replacement for _, replacement in known)
        self._searcher = Searcher(
            (encoding, key)
            for key, (value, _) in reversed(tuple(enumerate(known)))  # the first of equal values names it
            for encoding in variants(value)
        )

    def __repr__(self) -> str:
        return f"<Redactor of {len(self._replacements)} secrets>"

    def __bool__(self) -> bool:
        return bool(self._replacements)

    @property
    def held_back(self) -> int:
        """The most bytes that a stream ever holds back: one fewer than the longest encoding."""
        return max(self._searcher.longest - 1, 0)

    def redact(self, data: bytes, *, parts: Unwanted | None = None) -> Redacted:
        """``data``, which is complete in itself (a header's value), without secrets.

        Raises:
            SecretPartialEcho: it holds one of ``parts``.
        """
        stream = RedactionStream(self, parts=parts)
        return Redacted(stream.feed(data) + stream.flush(), stream.count)

    def decided(
        self, data: bytes, *, final: bool, live: bool = False, shown: int = 0, parts: Unwanted | None = None
    ) -> tuple[bytes, bytes, int]:
        """What of ``data`` may go out, redacted; what is held back, as it came; how many were replaced.

        Args:
            final: nothing follows ``data``: nothing is held back.
            live: hold back only what may be the beginning of an encoding (see the module's page).
            shown: so many bytes went out before, and do not again: they are only searched.
            parts: what must not be in what goes out.

        Raises:
            SecretPartialEcho: one of ``parts`` begins in what would go out, and in no whole encoding.
        """
        end = len(data)
        if live and not final:
            end = self._searcher.open_end(data)
        elif not final:
            end -= self.held_back
        if end <= 0:
            return b"", data, 0
        pieces: list[bytes] = []
        done = count = 0
        for match in self._searcher.matches(data):
            if match.start >= end:
                break
            if parts is not None:
                parts.require_none(data[done : match.start])
            pieces += (data[max(done, shown) : match.start], self._replacements[match.key])
            done = match.end
            count += 1
        end = max(done, end)
        if parts is not None:
            parts.require_none(data[done:], before=end - done)
        pieces.append(data[max(done, shown) : end])
        return b"".join(pieces), data[end:], count


class RedactionStream:
    """One stream of bytes under way through a :class:`Redactor`.

    Args:
        live: for text that the agent does not get back; see the module's page.
        parts: what ends the stream.
    """

    __slots__ = ("_held", "_live", "_parts", "_redactor", "_shown", "count")

    def __init__(self, redactor: Redactor, *, live: bool = False, parts: Unwanted | None = None) -> None:
        self._redactor = redactor
        self._live = live
        self._parts = parts
        self._held = b""
        self._shown = 0  # bytes of what is held, from its beginning
        self.count = 0

    def feed(self, chunk: bytes, *, final: bool = False) -> bytes:
        """The bytes that are decided now that ``chunk`` has come; all, where it is the ``final`` one.

        Raises:
            SecretPartialEcho: a part of a secret is in them.
        """
        data = self._held + chunk
        out, self._held, count = self._redactor.decided(
            data, final=final, live=self._live, shown=self._shown, parts=self._parts
        )
        self._shown = max(self._shown - (len(data) - len(self._held)), 0)
        self.count += count
        return out

    def settle(self) -> bytes:
        """Gives out a short line that ended like the beginning of an encoding, because nothing has come for a while.

        Many lines end so by chance. What is longer stays held, and what is given out is still searched.
        """
        if not self._live or len(self._held) > _SHORT_LINE or not self._held.endswith(b"\n"):
            return b""
        out, self._shown = self._held[self._shown :], len(self._held)
        return out

    def flush(self) -> bytes:
        """The rest, because the stream has ended: a final :meth:`feed` of nothing."""
        return self.feed(b"", final=True)
