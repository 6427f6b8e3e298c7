"""Which answers of an upstream can be passed on as they are, and what is told where one cannot."""

from __future__ import annotations

from affiant.errors import AffiantError, NotAllowedError
from affiant.gateway.upstream.upstream import UpstreamAnswer
from affiant.gateway.wire.errors import RequestAbandoned, UpstreamAnswerRefused, UpstreamUnauthorized

__all__ = ["end_of", "media_type", "require_plain"]


def media_type(answer: UpstreamAnswer) -> str:
    """The media type, lower case, without parameters; empty if there is none."""
    value = answer.header(b"content-type") or b""
    return value.partition(b";")[0].strip().lower().decode("latin-1")


def require_plain(answer: UpstreamAnswer, expected: str) -> None:
    """Return if the answer can be passed on as it is.

    Raises:
        UpstreamUnauthorized: it is about this gateway's own credential.
        UpstreamAnswerRefused: encoded, redirected, or of another media type than ``expected``.
    """
    if answer.status in (401, 403, 407):
        raise UpstreamUnauthorized("the upstream refused this gateway's credential", found=answer.status)
    encoding = (answer.header(b"content-encoding") or b"identity").strip().lower()
    if encoding != b"identity":
        raise UpstreamAnswerRefused(
            "the upstream encoded its answer", expected="identity", found=encoding[:40].decode("latin-1")
        )
    if 300 <= answer.status < 400:
        raise UpstreamAnswerRefused("the upstream redirects", expected="an answer", found=answer.status)
    if media_type(answer) != expected:
        raise UpstreamAnswerRefused(
            "the upstream answered with another media type", expected=expected, found=media_type(answer)[:80]
        )


def end_of(error: AffiantError) -> str:
    """How a request that was opened ended (``res.end``), by what ended it."""
    if isinstance(error, NotAllowedError):
        return "policy_stop"
    if isinstance(error, RequestAbandoned):
        return "client_abort"
    return "upstream_abort" if error.code.startswith("upstream.") else "gateway_error"
