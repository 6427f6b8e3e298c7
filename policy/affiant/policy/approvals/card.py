"""What an approver reads: lines made from the exact bytes that are signed, and from nothing else.

Every member is shown. Text of the agent's cannot look like a line of the card: each of its lines stands behind ``|``,
and what is not printable (controls, bidirectional and invisible characters), a backslash, and a blank at the end of a
line are escaped, so that two different actions never have one card.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from affiant.policy.approvals.action import Action

__all__ = ["card_lines", "shown"]


def card_lines(action: Action) -> Sequence[str]:
    """The card of ``action``: printable lines."""
    return tuple(_lines(action))


def _lines(action: Action) -> Iterator[str]:
    members: Mapping[str, Any] = action.members
    yield f"action   {action.name}"
    yield f"session  {members['session']}"
    yield "agent    not told" if members["agent"] is None else f"agent    {_quoted(members['agent'])}"
    yield f"policy   {members['policy']}"
    yield f"rules    {', '.join(map(_quoted, members['rules'])) or 'none'}"
    yield f"asked    {_instant(action.made)}   nonce {members['nonce']}"
    yield f"until    {_instant(action.not_after)}"
    yield ""
    yield from _request(members["request"]) if action.plane == "egress" else _call(members["call"])
    for secret in members["secrets"]:
        name, place, to = (shown(secret[part]) for part in ("name", "place", "to"))
        yield f"secret   {name} in {place}, to {to}"
    for path in members["paths"]:
        yield f"path     {_quoted(path['argument'])}: {_quoted(path['path'])}, content {path['sha256']}"


def _request(request: Mapping[str, Any]) -> Iterator[str]:
    yield f"request  {request['method']} {shown(request['url'])}"
    for name, value in request["headers"]:
        yield f"header   {shown(name)}: {shown(value)}"
    body = request["body"]
    yield f"body     {body['size']} bytes, {body['sha256']}"
    yield from _quoted_lines(body["text"])


def _call(call: Mapping[str, Any]) -> Iterator[str]:
    yield f"tool     {_quoted(call['tool'])}"
    yield f"server   {_quoted(call['server'])}"
    yield f"schema   {call['schema']}"
    yield "arguments"
    yield from _quoted_lines(call["arguments"])


def _quoted_lines(text: str) -> Iterator[str]:
    if text:
        for line in text.split("\n"):
            yield f"  | {shown(line)}"


def _quoted(text: str) -> str:
    return "'" + shown(text).replace("'", "\\u0027") + "'"


def shown(text: str) -> str:
    """``text`` on one line, so that no two texts look alike to a program: see the module."""
    escaped = "".join(_escaped(char) for char in text)
    return f"{escaped[:-1]}\\u0020" if escaped.endswith(" ") else escaped


def _escaped(char: str) -> str:
    if char == "\\":
        return "\\\\"
    if char.isprintable():
        return char
    point = ord(char)
    return f"\\u{point:04x}" if point <= 0xFFFF else f"\\U{point:08x}"


def _instant(seconds: int) -> str:
    """UTC, and the number itself: times beyond a calendar's end have only that."""
    try:
        said = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, ValueError, OSError):
        said = "no time of this calendar"
    return f"{said} ({seconds})"
