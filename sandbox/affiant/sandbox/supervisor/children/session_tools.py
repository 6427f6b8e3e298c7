"""The tools by which an agent starts and drives sessions: their definitions, and the arguments of a call.

They are the acts of the Python interface, and no others. A definition is what a model reads and what a profile may pin,
so a change of one changes its digest. Sans-IO.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from affiant.attestation.encoding.binary_text import b64u
from affiant.errors import MalformedError
from affiant.policy.canonical.tool_origin import Origin, tool_digest

__all__ = ["MOST_READ", "SERVER", "TOOLS", "SessionTool", "ToolRequest", "tool_request"]

SERVER: Final = "affiant-sessions"
"""The id of affiant's own server of these tools, as a profile's rules name it; no other server may have it."""

_RUN_S: Final = 600
"""Seconds that a command may run where the call names none."""
_MOST_S: Final = 86_400
MOST_READ: Final = 512 * 1024
"""Bytes of a file that a call reads: an answer is one message of the control socket."""
_MOST_WORDS: Final = 256
_MOST_TEXT: Final = 128 * 1024
_MOST_NAME: Final = 256
_MOST_PATH: Final = 4096

_SESSION: Final = {"type": "string", "description": "The id that session_create returned."}
_PATH: Final = {"type": "string", "description": "An absolute path inside that session."}


@dataclass(frozen=True, slots=True)
class SessionTool:
    """One tool, as it is listed."""

    name: str
    description: str
    schema: Mapping[str, object]

    @property
    def origin(self) -> Origin:
        """Where it comes from, for the profile's rules."""
        return Origin(SERVER, tool_digest(self.name, self.description, self.schema))

    def to_json(self) -> Mapping[str, object]:
        """Its entry in a listing: nothing but what the digest covers."""
        return {"name": self.name, "description": self.description, "inputSchema": dict(self.schema)}


@dataclass(frozen=True, slots=True)
class ToolRequest:
    """A call whose arguments were read.

    Args:
        session: the session that it is about; None: of ``session_create`` and ``session_list``.
        act: what the launcher is asked: ``act`` and its members, without the session.
        agent: of ``session_create``.
        within_s: seconds that the launcher has for it.
    """

    session: str | None
    act: Mapping[str, object]
    agent: str | None = None
    within_s: float = 60.0


def _schema(required: Sequence[str], **properties: Mapping[str, object]) -> Mapping[str, object]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


_LISTED: Final = (
    SessionTool(
        "session_create",
        "Starts a session of another agent, in a sandbox of its own with its own permissions. It ends with this one.",
        _schema(
            ("agent",),
            agent={"type": "string", "description": "An agent that this agent's profile may start."},
            task={
                "type": "string",
                "description": "What the session is for; it is in the session's receipts.",
            },
        ),
    ),
    SessionTool(
        "session_run",
        "Runs a command in a session that this agent started, and waits for its end.",
        _schema(
            ("session", "command"),
            session=_SESSION,
            command={
                "type": "array",
                "items": {"type": "string"},
                "description": "The program and its arguments.",
            },
            env={"type": "object", "additionalProperties": {"type": "string"}},
            cwd={"type": "string", "description": "A path inside; the folder of its files if absent."},
            stdin={"type": "string", "description": "What the command reads."},
            timeout_s={"type": "integer", "description": f"Seconds until it is ended; {_RUN_S} if absent."},
        ),
    ),
    SessionTool("session_list", "Lists the sessions that this agent started.", _schema(())),
    SessionTool(
        "session_read_file",
        f"Reads a file of a session that this agent started, of at most {MOST_READ} bytes.",
        _schema(("session", "path"), session=_SESSION, path=_PATH),
    ),
    SessionTool(
        "session_write_file",
        "Writes a file in a session that this agent started.",
        _schema(
            ("session", "path", "content"),
            session=_SESSION,
            path=_PATH,
            content={"type": "string"},
            encoding={
                "type": "string",
                "enum": ["utf-8", "base64"],
                "description": "Of content; utf-8 if absent.",
            },
            executable={"type": "boolean"},
        ),
    ),
    SessionTool(
        "session_list_files",
        "Lists a folder of a session that this agent started.",
        _schema(("session", "path"), session=_SESSION, path=_PATH),
    ),
    SessionTool(
        "session_info",
        "Says what a session that this agent started is, and what it uses now.",
        _schema(("session",), session=_SESSION),
    ),
    SessionTool(
        "session_close",
        "Ends a session that this agent started: its commands are ended, and its receipts are complete.",
        _schema(("session",), session=_SESSION),
    ),
)

TOOLS: Final[Mapping[str, SessionTool]] = MappingProxyType({tool.name: tool for tool in _LISTED})
"""By name, in the order in which they are listed."""


def tool_request(name: str, arguments: Mapping[str, object]) -> ToolRequest:
    """What a call of the tool ``name``, one of :data:`TOOLS`, asks for.

    Raises:
        ``session.tool_arguments``: an argument is missing, unknown or of another form.
    """
    return _READERS[name](_Arguments(name, arguments))


class _Arguments:
    """The arguments of one call; each that is read is known."""

    def __init__(self, tool: str, values: Mapping[str, object]) -> None:
        properties = TOOLS[tool].schema["properties"]
        assert isinstance(properties, Mapping)
        unknown = sorted(set(values) - set(properties))
        if unknown:
            raise _malformed(
                "an unknown argument", expected=", ".join(properties), found=ascii(unknown[0][:40])
            )
        self._values = values

    def has(self, name: str) -> bool:
        return name in self._values

    def text(self, name: str, *, most: int, least: int = 1) -> str:
        value = self._values.get(name)
        if not isinstance(value, str) or not least <= len(value) <= most:
            raise _malformed("not text that is taken", where=name, expected=f"{least} to {most} characters")
        return value

    def flag(self, name: str) -> bool:
        value = self._values.get(name, False)
        if not isinstance(value, bool):
            raise _malformed("neither true nor false", where=name)
        return value

    def seconds(self, name: str, default: int) -> int:
        value = self._values.get(name, default)
        if type(value) is not int or not 1 <= value <= _MOST_S:
            raise _malformed("not a number of seconds", where=name, expected=f"1 to {_MOST_S}")
        return value

    def words(self, name: str) -> list[str]:
        value = self._values.get(name)
        if not isinstance(value, list) or not 1 <= len(value) <= _MOST_WORDS:
            raise _malformed("not a command", where=name, expected=f"1 to {_MOST_WORDS} words")
        if not all(isinstance(word, str) and "\0" not in word for word in value) or not value[0]:
            raise _malformed("not a command", where=name, expected="words without NUL, the first not empty")
        return [str(word) for word in value]

    def variables(self, name: str) -> dict[str, str]:
        value = self._values.get(name, {})
        if not isinstance(value, dict) or len(value) > _MOST_WORDS:
            raise _malformed("not variables", where=name, expected=f"at most {_MOST_WORDS}")
        if not all(isinstance(each, str) for each in value.values()):
            raise _malformed("not variables", where=name, expected="text for each")
        return {str(key): str(each) for key, each in value.items()}


def _malformed(
    what: str, *, where: str | None = None, expected: str | None = None, found: str | None = None
) -> MalformedError:
    return MalformedError(what, where=where, expected=expected, found=found, code="session.tool_arguments")


def _create(given: _Arguments) -> ToolRequest:
    agent = given.text("agent", most=_MOST_NAME)
    task = given.text("task", most=_MOST_NAME) if given.has("task") else None
    return ToolRequest(None, {"act": "open", "agent": agent, "task": task}, agent, within_s=120.0)


def _run(given: _Arguments) -> ToolRequest:
    seconds = given.seconds("timeout_s", _RUN_S)
    stdin = given.text("stdin", most=_MOST_TEXT, least=0).encode("utf-8") if given.has("stdin") else b""
    act = {
        "act": "run",
        "command": given.words("command"),
        "env": given.variables("env"),
        "cwd": given.text("cwd", most=_MOST_PATH) if given.has("cwd") else None,
        "stdin": b64u(stdin),
        "timeout_s": seconds,
    }
    return ToolRequest(_session(given), act, within_s=seconds + 60.0)


def _list(given: _Arguments) -> ToolRequest:
    del given
    return ToolRequest(None, {"act": "list"})


def _read_file(given: _Arguments) -> ToolRequest:
    return ToolRequest(_session(given), {"act": "read", "path": _path(given)})


def _write_file(given: _Arguments) -> ToolRequest:
    content, encoding = given.text("content", most=_MOST_TEXT * 4, least=0), "utf-8"
    if given.has("encoding"):
        encoding = given.text("encoding", most=10)
    if encoding == "utf-8":
        data = content.encode("utf-8")
    elif encoding == "base64":
        try:
            data = base64.b64decode(content, validate=True)
        except (binascii.Error, ValueError) as error:
            raise _malformed("not base64", where="content") from error
    else:
        raise _malformed("an unknown encoding", where="encoding", expected="utf-8 or base64")
    act = {
        "act": "write",
        "path": _path(given),
        "content": b64u(data),
        "executable": given.flag("executable"),
    }
    return ToolRequest(_session(given), act)


def _list_files(given: _Arguments) -> ToolRequest:
    return ToolRequest(_session(given), {"act": "files", "path": _path(given)})


def _info(given: _Arguments) -> ToolRequest:
    return ToolRequest(_session(given), {"act": "info"})


def _close(given: _Arguments) -> ToolRequest:
    return ToolRequest(_session(given), {"act": "close"}, within_s=120.0)


def _session(given: _Arguments) -> str:
    return given.text("session", most=64)


def _path(given: _Arguments) -> str:
    return given.text("path", most=_MOST_PATH)


_READERS: Final[Mapping[str, Callable[[_Arguments], ToolRequest]]] = {
    "session_create": _create,
    "session_run": _run,
    "session_list": _list,
    "session_read_file": _read_file,
    "session_write_file": _write_file,
    "session_list_files": _list_files,
    "session_info": _info,
    "session_close": _close,
}
