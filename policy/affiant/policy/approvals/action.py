"""Writes one action that needs approval as exact bytes: canonical JSON that states every part of it once.

::

    {"typ": "affiant-action/1", "session", "agent": name or null, "policy": "sha384:<96 hex>",
     "plane": "egress" or "tool", "rules": [rule ids], "nonce", "made", "not_after",
     "secrets": [{"name", "place", "to"}], "paths": [{"argument", "path", "sha256", "size", "text"}],
     "request": {"method", "url", "headers": [[name, value]], "body": {"sha256", "size", "text"}}   (egress)
     "call": {"tool", "server", "schema": "sha256:...", "arguments"}}                               (tool)

``agent`` is null where the caller does not know the name (the gateway knows a session by its profile alone). Secrets
stand in headers and arguments as placeholders, and by name in ``secrets``. ``paths`` holds the content that each path
among the arguments had when it was asked for. The name of an action is SHA-256 of these bytes: what approvers sign and
records hold. The text of a body, of arguments and of what paths lead to is in the bytes, so that a prompt made from
them shows all that is hashed; what is no text, or too long to be read, cannot be put in, and so cannot be approved.

A :class:`Draft` is the same without nonce and times: two requests with the same draft ask for the same thing.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from affiant.attestation.encoding.binary_text import sha256_name
from affiant.attestation.encoding.canonical import canonical, parse_object
from affiant.attestation.schema.shapes import (
    Array,
    Const,
    Enum,
    Int,
    Nullable,
    Obj,
    Pattern,
    Shape,
    ShapeMismatch,
    Text,
)
from affiant.errors import AffiantError
from affiant.policy.approvals.errors import ActionMalformed, ActionUnshowable

__all__ = [
    "MAX_ACTION",
    "Action",
    "BoundPath",
    "BoundSecret",
    "Draft",
    "egress_draft",
    "parse_action",
    "tool_draft",
]

MAX_ACTION: Final = 32 * 1024
"""Bytes: about what a person reads before saying yes."""

_NO_TEXT: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
"""What no text holds: a terminal would act on it, and a person would not see it."""

_ID: Final = Pattern(r"[A-Za-z0-9_-]{22}", "22 characters of base64url")
_SHA256: Final = Pattern(r"sha256:[0-9a-f]{64}", "`sha256:` and 64 hexadecimal digits")
_ANY: Final = Pattern(rf"[\s\S]{{0,{MAX_ACTION}}}", "text")
_NAME: Final = Pattern(r"[A-Za-z0-9_.:~@+\[\]-]{1,300}", "a name, a place or an endpoint, without blanks")
_PLACE: Final = Pattern(r"[A-Za-z0-9_.:~@+$/-]{1,300}", "a place in a request, without blanks")
_FIELD: Final = Pattern(r"[!#$%&'*+.^_`|~0-9a-z-]{1,128}", "a header's name in lower case")
_LINE: Final = Pattern(r"[\x20-\x7e]{0,8192}", "printable ASCII")


@dataclass(frozen=True, slots=True)
class _Header:
    """``[name, value]``."""

    def check(self, value: object, where: str) -> None:
        if not isinstance(value, list) or len(value) != 2:
            raise ShapeMismatch("not a header", expected=self.describe(), where=where)
        _FIELD.check(value[0], where)
        _LINE.check(value[1], where)

    def describe(self) -> str:
        return "[name, value]"


_COMMON: Final[Mapping[str, Shape]] = {
    "typ": Const("affiant-action/1"),
    "session": _ID,
    "agent": Nullable(Text(64)),
    "policy": Pattern(r"sha384:[0-9a-f]{96}", "`sha384:` and 96 hexadecimal digits"),
    "rules": Array(Text(64), most=256),
    "secrets": Array(Obj({"name": _NAME, "place": _PLACE, "to": _NAME})),
    "paths": Array(
        Obj({"argument": Text(128), "path": Text(4096), "sha256": _SHA256, "size": Int(), "text": _ANY})
    ),
    "nonce": _ID,
    "made": Int(),
    "not_after": Int(),
}
_REQUEST: Final = Obj(
    {
        "method": Pattern(r"[A-Z-]{1,32}", "an HTTP method"),
        "url": Pattern(r"https?://[\x21-\x7e]{1,16384}", "an address"),
        "headers": Array(_Header(), most=256),
        "body": Obj({"sha256": _SHA256, "size": Int(), "text": _ANY}),
    }
)
_CALL: Final = Obj({"tool": Text(128), "server": Text(64), "schema": _SHA256, "arguments": _ANY})
_SHAPES: Final[Mapping[str, Obj]] = {
    "egress": Obj({**_COMMON, "plane": Enum(("egress",)), "request": _REQUEST}),
    "tool": Obj({**_COMMON, "plane": Enum(("tool",)), "call": _CALL}),
}


@dataclass(frozen=True, slots=True)
class BoundSecret:
    """A secret that the action uses: its name, the place of its placeholder, and to where it goes."""

    name: str
    place: str
    to: str

    def to_json(self) -> Mapping[str, object]:
        """The member of the action."""
        return {"name": self.name, "place": self.place, "to": self.to}


@dataclass(frozen=True, slots=True)
class BoundPath:
    """A path among the arguments of a call, and the content that it led to: that one, and no later one, is approved."""

    argument: str
    """Its name; of a value in a list with its place: ``files[0]``."""
    path: str
    content: bytes

    def to_json(self) -> Mapping[str, object]:
        """The member of the action.

        Raises:
            ActionUnshowable: the content is no text.
        """
        return {
            "argument": self.argument,
            "path": self.path,
            "sha256": sha256_name(self.content),
            "size": len(self.content),
            "text": _text(self.content, f"the content of {self.argument}"),
        }


@dataclass(frozen=True, slots=True)
class Action:
    """An action as exact bytes, in its form. Made by :func:`parse_action` and :meth:`Draft.issue` only."""

    raw: bytes
    members: Mapping[str, object]

    @property
    def name(self) -> str:
        """``sha256:`` of the bytes: what is signed."""
        return sha256_name(self.raw)

    @property
    def session(self) -> str:
        """The session that asks, 22 characters."""
        return str(self.members["session"])

    @property
    def policy(self) -> str:
        """The digest of the profile that asks for approval."""
        return str(self.members["policy"])

    @property
    def plane(self) -> str:
        """``egress`` or ``tool``."""
        return str(self.members["plane"])

    @property
    def rules(self) -> list[str]:
        """The ids of the rules that ask for approval."""
        rules = self.members["rules"]
        assert isinstance(rules, list)
        return rules

    @property
    def made(self) -> int:
        """When it was asked for, seconds since 1970."""
        return _integer(self.members["made"])

    @property
    def not_after(self) -> int:
        """Until when it may wait and be done, seconds since 1970."""
        return _integer(self.members["not_after"])


@dataclass(frozen=True, slots=True)
class Draft:
    """An action before its submission: all of it but its nonce and times."""

    members: Mapping[str, object]

    @property
    def key(self) -> bytes:
        """The same for the same action of the same session: 32 bytes."""
        return hashlib.sha256(canonical(self.members)).digest()

    def issue(self, *, nonce: str, made: int, not_after: int) -> Action:
        """The action asked for now.

        Raises:
            ActionUnshowable: larger than a person can read, or of a form that cannot be shown.
        """
        members = {**self.members, "nonce": nonce, "made": made, "not_after": not_after}
        raw = canonical(members)
        if len(raw) > MAX_ACTION:
            raise ActionUnshowable(
                "the action is too large to be read before it is approved",
                expected=f"at most {MAX_ACTION} bytes",
                found=len(raw),
            )
        try:
            return parse_action(raw)
        except ActionMalformed as error:
            raise ActionUnshowable(f"the action cannot be shown: {error.message}") from error


def egress_draft(
    *,
    session: str,
    agent: str | None,
    policy: str,
    rules: Sequence[str],
    method: str,
    url: str,
    headers: Sequence[tuple[bytes, bytes]],
    body: bytes,
    secrets: Sequence[BoundSecret] = (),
) -> Draft:
    """A request that is to go out.

    Args:
        url: in full, as it will be sent. headers: all that will be sent but ``Host`` and those that frame the body.
        body: whole, with placeholders in the place of secrets.

    Raises:
        ActionUnshowable: a header or the body is no text.
    """
    request = {
        "method": method,
        "url": url,
        "headers": [[_header(name).lower(), _header(value)] for name, value in headers],
        "body": {"sha256": sha256_name(body), "size": len(body), "text": _text(body, "the body")},
    }
    common = _common(session=session, agent=agent, policy=policy, rules=rules, secrets=secrets)
    return Draft({**common, "plane": "egress", "request": request})


def tool_draft(
    *,
    session: str,
    agent: str | None,
    policy: str,
    rules: Sequence[str],
    tool: str,
    server: str,
    schema: str,
    arguments: str,
    paths: Sequence[BoundPath] = (),
) -> Draft:
    """A call of a tool.

    Args:
        server: the id of the server that serves it. schema: ``sha256:`` of the tool's definition as it is served now.
        arguments: the exact text that the call is made with.
        paths: all that are among them, with what they lead to.

    Raises:
        ActionUnshowable: the arguments, or the content of a path, are no text.
    """
    call = {
        "tool": tool,
        "server": server,
        "schema": schema,
        "arguments": _text(arguments.encode("utf-8", "surrogatepass"), "the arguments"),
    }
    common = _common(session=session, agent=agent, policy=policy, rules=rules, secrets=())
    return Draft({**common, "plane": "tool", "call": call, "paths": [path.to_json() for path in paths]})


def parse_action(raw: bytes) -> Action:
    """The action whose exact bytes are ``raw``.

    Raises:
        ActionMalformed: too large, not canonical, of another form, or a body that is not its own digest's.
    """
    try:
        members = parse_object(raw, limit=MAX_ACTION)
        shape = _SHAPES.get(str(members.get("plane")))
        if shape is None:
            raise ActionMalformed("an action of no plane", expected="egress or tool", where="plane")
        shape.check(members, "action")
        _check_texts(members)
    except ActionMalformed:
        raise
    except AffiantError as error:
        raise ActionMalformed(f"not an action: {error}") from error
    return Action(raw, members)


def _check_texts(members: Mapping[str, object]) -> None:
    """What is shown is what is meant: the text of a body is the body that the digest names."""
    if _integer(members["not_after"]) <= _integer(members["made"]):
        raise ActionMalformed("an action that is over before it begins", where="not_after")
    request, call = members.get("request"), members.get("call")
    if isinstance(call, dict):
        _require_text(str(call["arguments"]), "arguments")
    if isinstance(request, dict):
        _require_content(request["body"], "body")
    paths = members["paths"]
    assert isinstance(paths, list)
    for path in paths:
        _require_content(path, "paths")


def _require_content(said: Mapping[str, Any], where: str) -> None:
    """Return if the text that is shown has the digest and the size given beside it."""
    _require_text(said["text"], where)
    content = said["text"].encode("utf-8")
    if said["sha256"] != sha256_name(content) or said["size"] != len(content):
        raise ActionMalformed("not the content that its digest names", where=where)


def _require_text(text: str, where: str) -> None:
    if _NO_TEXT.search(text) is not None:
        raise ActionMalformed("text with control characters", where=where)


def _common(
    *, session: str, agent: str | None, policy: str, rules: Sequence[str], secrets: Sequence[BoundSecret]
) -> dict[str, object]:
    return {
        "typ": "affiant-action/1",
        "session": session,
        "agent": agent,
        "policy": policy,
        "rules": list(rules)[:256],
        "secrets": [secret.to_json() for secret in secrets],
        "paths": [],
    }


def _header(data: bytes) -> str:
    text = data.decode("latin-1")
    if not text.isascii() or not text.isprintable():
        raise ActionUnshowable("a header is not printable ASCII, so it cannot be approved")
    return text


def _text(data: bytes, what: str) -> str:
    if len(data) > MAX_ACTION:
        raise ActionUnshowable(
            f"{what} is too large to be read before it is approved", expected=f"at most {MAX_ACTION} bytes"
        )
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        text = "\x00"
    if _NO_TEXT.search(text) is not None:
        raise ActionUnshowable(f"{what} is not text that can be shown, so it cannot be approved")
    return text


def _integer(value: object) -> int:
    assert isinstance(value, int)
    return value
