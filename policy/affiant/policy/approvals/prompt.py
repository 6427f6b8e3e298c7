"""Writes what an approver reads: lines made only from the exact bytes that the approver signs.

Every member is shown. Text of the agent cannot look like a line of the prompt: each of its lines begins with ``|``,
and what a terminal does not show in its place is escaped, so that two different actions never have one prompt: what is
not printable (controls, bidirectional and invisible characters) and what Unicode counts as printable and a person
cannot see, letters written from right to left (a terminal may move the numbers beside them), marks that strike through
or surround what they are on, marks that are on no letter, or as a pile on one; a backslash, and a blank at the end.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from affiant.policy.approvals.action import Action

__all__ = ["card_lines", "headline", "shown"]

_UNSEEN: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""Of Unicode's Default_Ignorable_Code_Point those that are letters or marks; and the Braille pattern without dots."""
_FROM_THE_RIGHT: Final = frozenset({"R", "AL", "AN"})
_OVERLAY: Final = 1
"""Canonical combining class of what is drawn over a letter."""
_HEADLINE: Final = 160
_MOST_MARKS: Final = 3
"""On one letter; more of them reach into other lines."""


def card_lines(action: Action) -> Sequence[str]:
    """The prompt for ``action``: printable lines."""
    return tuple(_lines(action))


def headline(action: Action) -> str:
    """The action in one line, for the end of a long prompt whose beginning has left the screen."""
    members: Mapping[str, Any] = action.members
    if action.plane == "egress":
        request = members["request"]
        what, text = f"{request['method']} {request['url']}", request["body"]["text"]
    else:
        call = members["call"]
        what = f"tool {call['tool']} of {call['server']}"
        text = "\n".join([call["arguments"], *(path["text"] for path in members["paths"])])
    cut = what if len(what) <= _HEADLINE else what[:_HEADLINE] + "..."
    return shown(f"{cut}, with {len(text.encode())} bytes of text on {len(list(_quoted_lines(text)))} lines")


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
        yield f"path     {_quoted(path['argument'])}: {_quoted(path['path'])}"
        yield f"content  {path['size']} bytes, {path['sha256']}"
        yield from _quoted_lines(path["text"])


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
    escaped = "".join(_shown(text))
    return f"{escaped[:-1]}\\u0020" if escaped.endswith(" ") else escaped


def _shown(text: str) -> Iterator[str]:
    room = 0  # for marks on the letter before
    for char in text:
        if char == "\\":
            yield "\\\\"
            room = 0
        elif unicodedata.category(char) in ("Mn", "Mc") and room and _is_seen(char):
            yield char
            room -= 1
        elif unicodedata.category(char).startswith("M") or not _is_seen(char):
            yield _escaped(char)
            room = 0
        else:
            yield char
            room = _MOST_MARKS if char.isalpha() else 0


def _is_seen(char: str) -> bool:
    """Whether a terminal shows ``char`` in its place, and as nothing else."""
    return (
        char.isprintable()
        and _UNSEEN.match(char) is None
        and unicodedata.bidirectional(char) not in _FROM_THE_RIGHT
        and unicodedata.combining(char) != _OVERLAY
    )


def _escaped(char: str) -> str:
    point = ord(char)
    return f"\\u{point:04x}" if point <= 0xFFFF else f"\\U{point:08x}"


def _instant(seconds: int) -> str:
    """UTC, and the number itself: times beyond a calendar's end have only that."""
    try:
        said = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, ValueError, OSError):
        said = "no time of this calendar"
    return f"{said} ({seconds})"
