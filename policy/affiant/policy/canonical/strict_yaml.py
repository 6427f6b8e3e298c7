"""Reads a profile's YAML with the shared strict reader, under the limits and errors of profiles.

>>> compose(b"a: 1\\na: 2", source="p.yaml")
Traceback (most recent call last):
    ...
affiant.policy.canonical.errors.DuplicateKey: p.yaml:2:1: key 'a' stands twice in one mapping; first at p.yaml:1:1
"""

from __future__ import annotations

from typing import Final

import yaml

from affiant.attestation.encoding import strict_yaml
from affiant.attestation.encoding.strict_yaml import (
    Dialect,
    ListNode,
    MapNode,
    Mark,
    Member,
    Node,
    ScalarNode,
)
from affiant.errors import MalformedError
from affiant.policy.canonical.errors import (
    CharacterRefused,
    DocumentTooLarge,
    DuplicateKey,
    FeatureRefused,
    PolicySyntaxRefused,
)

__all__ = ["MAX_BYTES", "MAX_DEPTH", "ListNode", "MapNode", "Mark", "Member", "Node", "ScalarNode", "compose"]

MAX_BYTES: Final = 1 << 20
MAX_DEPTH: Final = 16
"""The deepest place in the schema is 6 levels down."""

_PROFILE: Final = Dialect(
    max_bytes=MAX_BYTES,
    max_depth=MAX_DEPTH,
    max_values=100_000,
    syntax=PolicySyntaxRefused,
    character=CharacterRefused,
    too_large=DocumentTooLarge,
    feature=FeatureRefused,
    duplicate=DuplicateKey,
)
_LINE_BREAKS_HINT: Final = "The line breaks are missing: paste the profile again, one key on each line"


def compose(data: bytes, *, source: str) -> Node | None:
    """The one document of ``data``; None if there is none (nothing but comments).

    Args:
        data: at most :data:`MAX_BYTES` bytes.
        source: the name that places in error messages begin with.

    Raises:
        PolicySyntaxRefused, ``policy.line_breaks``, CharacterRefused, DocumentTooLarge, FeatureRefused,
        DuplicateKey: each with ``where``, as ``source:line:column``.
    """
    try:
        node = strict_yaml.compose(data, source=source, dialect=_PROFILE)
    except DocumentTooLarge as error:
        if error.where == source:  # of the file as a whole
            error.where = f"{source}:1:1"
        raise
    except PolicySyntaxRefused as error:
        if isinstance(error.__cause__, UnicodeDecodeError):
            error.where = f"{source}:{_place(data, error.__cause__.start)}"
        if _several_keys_on_one_line(error.__cause__, data):
            raise MalformedError(
                "several keys on one line",
                code="policy.line_breaks",
                where=error.where,
                hint=_LINE_BREAKS_HINT,
            ) from error
        raise
    if node is None and b"agent_configs:" in data:
        raise MalformedError(
            "everything is in a comment",
            code="policy.line_breaks",
            hint=_LINE_BREAKS_HINT,
            where=f"{source}:1:1",
        )
    return node


def _place(data: bytes, start: int) -> str:
    """Line and column of the first byte that is not UTF-8; what stands before it is."""
    before = data[:start].decode("utf-8")
    return f"{before.count(chr(10)) + 1}:{len(before) - before.rfind(chr(10))}"


def _several_keys_on_one_line(cause: BaseException | None, data: bytes) -> bool:
    """Whether the parser met a second ``key:`` on the line where it stopped."""
    if not isinstance(cause, yaml.MarkedYAMLError) or cause.problem_mark is None:
        return False
    if "mapping values are not allowed" not in (cause.problem or ""):
        return False
    lines = data.split(b"\n")
    return cause.problem_mark.line < len(lines) and lines[cause.problem_mark.line].count(b":") > 1
