"""What a response of an upstream must be to be passed on: plain, and without this gateway's key for that upstream.

The key is looked for byte by byte in every encoding of ``variants``. A whole response is looked at before its first
byte leaves. A stream is looked at by whole events, and only whole events leave: an event ends with an empty line, a key
has no control characters, so no encoding of it spans two events.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from affiant.errors import AffiantError, MalformedError, NotAllowedError, NotAuthenticError
from affiant.gateway.wire.errors import RequestAbandoned
from affiant.secrets.names.value import SecretValue
from affiant.secrets.redaction.redaction import Redactor

if TYPE_CHECKING:
    from affiant.gateway.upstream.upstream import UpstreamResponse

__all__ = ["UpstreamKeyRedaction", "end_of", "media_type", "require_plain"]


class UpstreamKeyRedaction:
    """Looks for one upstream's key in what that upstream answers.

    Args:
        key: None: there is nothing to look for.
    """

    __slots__ = ("_redactor",)

    def __init__(self, key: SecretValue | None) -> None:
        self._redactor = Redactor(() if key is None else ((key, "key"),))

    def require_absent(self, *parts: bytes) -> None:
        """Return if no part, each complete in itself, holds the key.

        Raises:
            ``upstream.answer``: one does; nothing of it may be repeated.
        """
        if self._redactor and any(self._redactor.redact(part).replaced for part in parts):
            raise MalformedError(
                "the upstream's answer holds this gateway's credential for it", code="upstream.answer"
            )


def media_type(answer: UpstreamResponse) -> str:
    """The media type, lower case, without parameters; empty if there is none."""
    value = answer.header(b"content-type") or b""
    return value.partition(b";")[0].strip().lower().decode("latin-1")


def require_plain(answer: UpstreamResponse, expected: str) -> None:
    """Return if the answer can be passed on as it is.

    Raises:
        ``upstream.unauthorized``: it is about this gateway's own credential.
        ``upstream.answer``: encoded, redirected, or of another media type than ``expected``.
    """
    if answer.status in (401, 403, 407):
        raise NotAuthenticError(
            "the upstream refused this gateway's credential",
            found=answer.status,
            code="upstream.unauthorized",
        )
    encoding = (answer.header(b"content-encoding") or b"identity").strip().lower()
    if encoding != b"identity":
        raise MalformedError(
            "the upstream encoded its answer",
            expected="identity",
            found=encoding[:40].decode("latin-1"),
            code="upstream.answer",
        )
    if 300 <= answer.status < 400:
        raise MalformedError(
            "the upstream redirects", expected="an answer", found=answer.status, code="upstream.answer"
        )
    if media_type(answer) != expected:
        raise MalformedError(
            "the upstream answered with another media type",
            expected=expected,
            found=media_type(answer)[:80],
            code="upstream.answer",
        )


def end_of(error: AffiantError) -> str:
    """How a request that was opened ended (``res.end``), by what ended it."""
    if isinstance(error, NotAllowedError):
        return "policy_stop"
    if isinstance(error, RequestAbandoned):
        return "client_abort"
    return "upstream_abort" if error.code.startswith("upstream.") else "gateway_error"
