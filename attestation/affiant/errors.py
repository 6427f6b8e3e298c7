"""Errors: one tree, one family for each question that can be answered with no.

::

    AffiantError
    +-- MalformedError       the bytes are not what they claim to be
    +-- NotAuthenticError    a signature, digest or chain does not hold
    +-- NotFreshError        authentic, but outside its time, or seen before
    +-- NotAllowedError      authentic and fresh, but policy says no
    +-- UnreachableError     what is needed did not answer (may be ``retryable``)
    +-- ConfigurationError   what the operator gave does not fit together
    +-- StateError           the step does not fit the present state

Every error has a stable ``code`` (``receipt.signature``), written ``area.reason`` in lower case. It is part of
the interface, is documented, and never changes its meaning. An error that a program catches has a class of its own,
with its code. Every other error is raised as its family with ``code=``; the table ``ERROR_CODES`` of its package has
its meaning.

The text says what happened, what was expected and what to do; it never contains a secret. An error is raised, never
returned; foreign errors are chained with ``from``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from affiant.line_excerpt import LineExcerpt

__all__ = [
    "AffiantError",
    "ConfigurationError",
    "MalformedError",
    "NotAllowedError",
    "NotAuthenticError",
    "NotFreshError",
    "StateError",
    "UnreachableError",
]


class AffiantError(Exception):
    """The root of the tree; never raised itself.

    Args:
        message: one sentence, without a full stop at its end, that names the thing refused and why.
        code: its stable code, where it is raised as its family; listed in its package's table of codes.
        expected: what would have been accepted.
        found: what was there instead. Never a secret, and never more than a short excerpt of hostile input.
        hint: what the reader can do about it.
        where: the place in a document (``profiles.yaml:4:7``) or the member (``req.dig``).

    ``excerpt`` is the line at that place for a person's terminal, given by the reader of the document, which
    knows what may be shown of it; it is no part of the text or of :meth:`to_json`.
    """

    code: str = "error"
    retryable: bool | None = False
    """Whether the same call may succeed later; None: not known."""

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        expected: object = None,
        found: object = None,
        hint: str | None = None,
        where: str | None = None,
    ) -> None:
        super().__init__(message)
        if code is not None:
            self.code = code
        self.message = message
        self.expected = expected
        self.found = found
        self.hint = hint
        self.where = where
        self.excerpt: LineExcerpt | None = None

    def __str__(self) -> str:
        parts = [self.message if self.where is None else f"{self.where}: {self.message}"]
        if self.expected is not None:
            parts.append(f"expected {self.expected}")
        if self.found is not None:
            parts.append(f"found {self.found}")
        text = "; ".join(parts)
        return text if self.hint is None else f"{text}. {self.hint}"

    def to_json(self) -> Mapping[str, object]:
        """The error as members for a JSON document: ``code``, ``message``, and what else is known."""
        members: dict[str, object] = {"code": self.code, "message": self.message}
        for name in ("where", "expected", "found", "hint"):
            value = getattr(self, name)
            if value is not None:
                members[name] = value if isinstance(value, (int, str)) else str(value)
        if self.retryable is not False:
            members["retryable"] = self.retryable
        return members


class MalformedError(AffiantError):
    """The bytes are not what they claim to be."""

    code = "malformed"


class NotAuthenticError(AffiantError):
    """A signature, a digest or a chain does not hold."""

    code = "not_authentic"


class NotFreshError(AffiantError):
    """Authentic, but outside its time, or seen before."""

    code = "not_fresh"


class NotAllowedError(AffiantError):
    """Authentic and fresh, but policy says no."""

    code = "not_allowed"


class UnreachableError(AffiantError):
    """Something that is needed did not answer."""

    code = "unreachable"
    retryable: bool | None = True


class ConfigurationError(AffiantError):
    """What the operator gave does not fit together."""

    code = "configuration"


class StateError(AffiantError):
    """The step does not fit the present state."""

    code = "state"
