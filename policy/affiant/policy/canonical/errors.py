"""The errors of profiles, names and requests before any decision; ``error_codes`` lists those without a class.

An error at load refuses the whole file: there is no such thing as the part of a policy that could be read.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from affiant.errors import AffiantError, ConfigurationError, MalformedError

__all__ = [
    "ArgumentsRefused",
    "CharacterRefused",
    "ComparisonTooLarge",
    "DocumentTooLarge",
    "DuplicateKey",
    "EmptyList",
    "FeatureRefused",
    "HostRefused",
    "NameRefused",
    "NormalFormRefused",
    "PathRefused",
    "PolicyConflict",
    "PolicySyntaxRefused",
    "RequestRefused",
    "TargetRefused",
    "ToolDefinitionRefused",
    "ValueRefused",
    "WrongType",
    "did_you_mean",
    "excerpt",
    "located",
]


class PolicySyntaxRefused(MalformedError):
    """The bytes are not YAML, or not UTF-8."""

    code = "policy.yaml"


class CharacterRefused(MalformedError):
    """A character that a reviewer cannot see, or that reorders what is seen."""

    code = "policy.character"


class DocumentTooLarge(MalformedError):
    """More bytes, levels or values than any profile has."""

    code = "policy.too_large"


class FeatureRefused(MalformedError):
    """A feature of YAML that lets a document mean something else than it shows."""

    code = "policy.yaml_feature"


class DuplicateKey(MalformedError):
    """A key appears twice in one mapping."""

    code = "policy.duplicate_key"


class WrongType(MalformedError):
    """A value of another type than the schema's."""

    code = "policy.wrong_type"


class EmptyList(MalformedError):
    """A list that narrows something holds nothing, which could be read as everything or as nothing."""

    code = "policy.empty_list"


class ValueRefused(MalformedError):
    """A value of the right type that the schema does not allow."""

    code = "policy.value"


class NameRefused(MalformedError):
    """The name of an agent, a tool, a model or a secret is not spelled in its one way."""

    code = "policy.name"


class PathRefused(MalformedError):
    """A path is not absolute and canonical, or cannot be granted."""

    code = "policy.path"


class HostRefused(MalformedError):
    """A host is not a canonical DNS name, or a pattern that is too wide."""

    code = "policy.host"


class TargetRefused(MalformedError):
    """A request target is not in its one canonical form (RFC 3986)."""

    code = "policy.target"


class NormalFormRefused(MalformedError):
    """Bytes are not the normal form of a profile."""

    code = "policy.normal_form"


class ArgumentsRefused(MalformedError):
    """The arguments of a tool call are not JSON that every reader reads alike."""

    code = "policy.arguments"


class ToolDefinitionRefused(MalformedError):
    """What a server says of a tool has no digest."""

    code = "policy.tool_definition"


class RequestRefused(MalformedError):
    """A request to explain is not written in a form that is known."""

    code = "policy.request"


class PolicyConflict(ConfigurationError):
    """Two rules of one profile, or two members of one rule, do not fit together.

    Args:
        key: of two members, the one to report; the reader of the mapping knows its place.
        rule: of two rules, the one to report.
    """

    code = "policy.conflict"

    def __init__(
        self,
        message: str,
        *,
        expected: object = None,
        found: object = None,
        hint: str | None = None,
        where: str | None = None,
        key: str = "",
        rule: object = None,
    ) -> None:
        super().__init__(message, expected=expected, found=found, hint=hint, where=where)
        self.key = key
        self.rule = rule


class ComparisonTooLarge(ConfigurationError):
    """Two profiles can differ on more requests than a comparison may try."""

    code = "policy.comparison"


def excerpt(text: object, *, limit: int = 60) -> str:
    """``text`` quoted, escaped to ASCII and bounded: hostile input as an error may show it."""
    shown = ascii(text)
    return shown if len(shown) <= limit else shown[: limit - 4] + "...'"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A hint that names the nearest of ``known``, or all of them if none is near."""
    names = sorted(known)
    near = difflib.get_close_matches(word.lower(), names, n=1)
    if near:
        return f"Did you mean {near[0]!r}?"
    return "Known: " + (", ".join(names) if names else "none")


class _Located:
    """What :func:`located` returns: every rule of a file is read inside one, so it is no generator."""

    __slots__ = ("_where",)

    def __init__(self, where: object) -> None:
        self._where = where

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, AffiantError) and error.where is None:
            error.where = str(self._where)


def located(where: object) -> _Located:
    """Give every error inside that has no place yet the place ``where``."""
    return _Located(where)
