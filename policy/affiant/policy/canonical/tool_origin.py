"""Names where a tool comes from: the server that offers it, and the digest of its definition.

A model reads a tool's name, its description and the schema of its arguments, so those three are what a profile pins and
what a tool gate passes on; nothing else that a server says of a tool is passed on. The digest is ``sha256:`` of the
RFC 8785 bytes of ``{"description", "inputSchema", "name"}``, the description empty where there is none.

>>> tool_digest("add", "Adds.", {"type": "object"})[:23]
'sha256:721f6e658ca53e1b'
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Final, NamedTuple

from affiant.attestation.encoding.binary_text import sha256_name
from affiant.attestation.encoding.canonical import MAX_INTEGER
from affiant.policy.canonical.errors import ToolDefinitionRefused

__all__ = ["ANY", "ANYWHERE", "Origin", "tool_digest"]

ANY: Final = "*"
"""No server's id and no digest: whichever a rule names."""
MAX_DEFINITION: Final = 64 * 1024
"""Bytes of a tool's definition."""
_MAX_DEPTH: Final = 32


class Origin(NamedTuple):
    """Where a tool comes from, as far as is known. What is not known fulfils no rule that names it."""

    server: str | None = None
    schema: str | None = None
    """``sha256:`` of its definition, from :func:`tool_digest`."""


ANYWHERE: Final = Origin(ANY, ANY)
"""For questions about what a profile could allow, from any origin that its rules name. Enforcement never asks like
this.
"""


def tool_digest(name: str, description: str, schema: Mapping[str, object]) -> str:
    """``sha256:<64 hex>`` of a tool's definition.

    Raises:
        ToolDefinitionRefused: it has no RFC 8785 form, is nested too deep, or is too large.
    """
    members = {"description": description, "inputSchema": schema, "name": name}
    try:
        data = _written(members, 0).encode("utf-8")
    except UnicodeEncodeError:
        raise ToolDefinitionRefused("a tool's definition is not Unicode text") from None
    if len(data) > MAX_DEFINITION:
        raise ToolDefinitionRefused(
            "a tool's definition is too large", expected=f"at most {MAX_DEFINITION} bytes", found=len(data)
        )
    return sha256_name(data)


def _written(value: object, depth: int) -> str:
    if depth > _MAX_DEPTH:
        raise ToolDefinitionRefused("nested too deep", expected=f"at most {_MAX_DEPTH} levels")
    if isinstance(value, Mapping):
        members = sorted((_name(key), item) for key, item in value.items())
        pairs = (f"{_text(name)}:{_written(item, depth + 1)}" for (_, name), item in members)
        return "{" + ",".join(pairs) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(_written(item, depth + 1) for item in value) + "]"
    if isinstance(value, str):
        return _text(value)
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, (int, float)):
        return _number(value)
    raise ToolDefinitionRefused("not a JSON value", found=type(value).__name__)


def _name(key: object) -> tuple[bytes, str]:
    """What a member is sorted by (RFC 8785, section 3.2.3: UTF-16 code units), and its name."""
    if not isinstance(key, str):
        raise ToolDefinitionRefused("a member's name is not text")
    return key.encode("utf-16-be", "surrogatepass"), key


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


def _number(value: float) -> str:
    """A number as ECMAScript writes it (RFC 8785, section 3.2.2.3)."""
    if isinstance(value, int):
        if abs(value) > MAX_INTEGER:
            raise ToolDefinitionRefused("an integer that not every reader keeps", expected="within 2**53")
        return str(value)
    try:
        sign, figures, exponent = Decimal(repr(value)).normalize().as_tuple()
        point = len(figures) + int(exponent)
    except ValueError:
        raise ToolDefinitionRefused("a number that is not finite") from None
    if value == 0:
        return "0"
    digits = "".join(map(str, figures))
    return ("-" if sign else "") + _placed(digits, point)


def _placed(digits: str, point: int) -> str:
    """``digits`` with the decimal point after the first ``point`` of them (ECMAScript, Number::toString)."""
    if len(digits) <= point <= 21:
        return digits + "0" * (point - len(digits))
    if 0 < point <= 21:
        return f"{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return "0." + "0" * -point + digits
    rest = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{digits[0]}{rest}e{point - 1:+d}"
