"""The gateway's own key stays here: an answer in which its upstream gives the key back is not passed on.

Byte-exact over every spelling of ``variants``. A whole answer is looked at before its first
byte leaves. A stream is looked at by whole events, and only whole events leave: an event ends with an empty
line, a key has no control characters, so no spelling goes over the border of two.
"""

from __future__ import annotations

from affiant.gateway.wire.errors import UpstreamAnswerRefused
from affiant.secrets.names.value import SecretValue
from affiant.secrets.redaction.redaction import Redactor

__all__ = ["KeyGuard"]


class KeyGuard:
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
            UpstreamAnswerRefused: one does; nothing of it may be repeated.
        """
        if self._redactor and any(self._redactor.redact(part).replaced for part in parts):
            raise UpstreamAnswerRefused("the upstream's answer holds this gateway's credential for it")
