"""From an upstream's answer to what the agent may see: redacted, without the fields of one hop. No I/O."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from affiant.errors import MalformedError
from affiant.secrets.broker.client.messages import ResponseHead
from affiant.secrets.injection.detection import HeaderField
from affiant.secrets.redaction.redaction import RedactionStream, Redactor, Unwanted

__all__ = ["ResponseFilter"]

_ONE_HOP: Final = frozenset(
    {
        b"alt-svc", b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authentication-info",
        b"proxy-connection", b"te", b"trailer", b"transfer-encoding", b"upgrade",
    }
)  # fmt: skip
"""RFC 9110, section 7.6.1; ``Alt-Svc`` names ways that do not lead through here."""

_BODILESS: Final = frozenset({204, 304})
_PARTIAL: Final = frozenset({206, 226})
_NOTHING: Final = Redactor(())


class ResponseFilter:
    """One answer under way.

    Args:
        redactor: knows what must not pass; if it knows nothing, the answer passes as it is.
        made: knows what was made of secrets for this request alone.
        method: of the request: an answer to ``HEAD`` has no body.
        parts: of what the host was sent. Each method raises SecretPartialEcho where one would be seen.
    """

    def __init__(
        self, redactor: Redactor, *, method: str, made: Redactor = _NOTHING, parts: Unwanted | None = None
    ) -> None:
        self._redactor = redactor
        self._made = made
        self._parts = parts
        self._stream = RedactionStream(redactor, parts=parts)
        self._made_stream = RedactionStream(made)
        self._method = method
        self._replaced_in_fields = 0

    @property
    def redactions(self) -> int:
        """Occurrences replaced until now."""
        return self._replaced_in_fields + self._stream.count + self._made_stream.count

    def head(self, status: int, headers: Iterable[HeaderField]) -> ResponseHead:
        """The head that may be seen. With anything to redact the length is dropped: it changes.

        Raises:
            ``upstream.encoding``: the body is encoded although it was asked not to be, and so unreadable here.
            ``upstream.partial``: it is a part of an answer, in which a part of a secret could be.
        """
        fields = [(name.lower(), value) for name, value in headers if name.lower() not in _ONE_HOP]
        has_body = self._method != "HEAD" and status not in _BODILESS
        if self._redactor and _is_partial(status, fields):
            raise MalformedError(
                "the upstream sent a part of an answer; a secret could be cut in it", code="upstream.partial"
            )
        if self._redactor and has_body:
            if any(name == b"content-encoding" and value.lower() != b"identity" for name, value in fields):
                raise MalformedError(
                    "the answer is encoded although it was asked not to be, and cannot be redacted",
                    code="upstream.encoding",
                )
            fields = [(name, value) for name, value in fields if name != b"content-length"]
        return ResponseHead(status, self.fields(fields))

    def fields(self, fields: Iterable[HeaderField]) -> tuple[HeaderField, ...]:
        """Header or trailer fields, redacted, each complete in itself."""
        return tuple((self._redacted(name), self._redacted(value)) for name, value in fields)

    def body(self, data: bytes) -> bytes:
        """What of the body may be seen now."""
        return self._made_stream.feed(self._stream.feed(data))

    def end(self) -> bytes:
        """The rest of the body."""
        return self._made_stream.feed(self._stream.flush()) + self._made_stream.flush()

    def _redacted(self, text: bytes) -> bytes:
        for redactor, parts in ((self._redactor, self._parts), (self._made, None)):
            text, replaced = redactor.redact(text, parts=parts)
            self._replaced_in_fields += replaced
        return text


def _is_partial(status: int, fields: Iterable[HeaderField]) -> bool:
    """RFC 9110, section 15.3.7, RFC 3229, section 10.4.1, or what says the same under another status.

    A ``Content-Range`` in another unit than bytes says which rows of a table these are: PostgREST does with every 200.
    """
    return status in _PARTIAL or any(
        (name == b"content-range" and value.lower().startswith(b"bytes"))
        or (name == b"content-type" and value.lower().startswith(b"multipart/byteranges"))
        for name, value in fields
    )
