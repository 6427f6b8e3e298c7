"""Reads requests as people write them in inline tests and on the command line.

=============================  =====================================================
``tool:run_tests``             may this tool be called, with some arguments?
``tool:apply {"n": 1}``        may it be called with these?
``tool:apply@k8s``             may it be called where the server k8s serves it?
``tool:apply@k8s#sha256:...``  and with this definition? ``@`` or ``#`` may stand alone
``provider_tool:web_search``   may the model's provider run this tool itself?
``model:small-model``          may this model be called?
``read:/workspace/a``          may this path be read?
``write:/workspace/a``         may it be written?
``connect:host[:port]``        may a TLS connection to it be opened?
``POST https://host/path``     may this request be sent?
``secret:NAME@host[:port]``    may this secret be used there, in its own place?
``start:reviewer``             may this agent start a session of that one?
``port:8080``                  may the session's owner reach this port of the agent's servers?
=============================  =====================================================

>>> parse_question("GET https://api.example.com/v1")
EgressQuestion(host='api.example.com', port=443, scheme='https', method='GET', target='/v1')
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, assert_never

from affiant.policy.canonical.errors import HostRefused, RequestRefused, excerpt
from affiant.policy.canonical.hosts import canonical_host
from affiant.policy.canonical.tool_origin import ANY, ANYWHERE, Origin
from affiant.policy.decision.compiled import CompiledPolicy
from affiant.policy.decision.decide import Decision
from affiant.policy.model.profile import PathMode, Scheme

__all__ = [
    "EgressQuestion",
    "ModelQuestion",
    "PathQuestion",
    "PortQuestion",
    "ProviderToolQuestion",
    "Question",
    "SecretQuestion",
    "StartQuestion",
    "ToolQuestion",
    "answer",
    "parse_question",
    "plane_of",
    "question_text",
    "tool_text",
]

_URL: Final = re.compile(r"(https?)://([^/?#]*)(.*)\Z", re.DOTALL)
_PORT: Final = re.compile(r"(.*):([1-9][0-9]{0,4})\Z", re.DOTALL)
_NUMBER: Final = re.compile(r"[1-9][0-9]{0,4}\Z")
_MAX_PORT: Final = 65535


@dataclass(frozen=True, slots=True)
class ToolQuestion:
    """May this tool be called? ``arguments`` is their JSON text; None: with some that it allows.

    Without a server or definition it is asked of whichever the rules name.
    """

    name: str
    arguments: str | None = None
    origin: Origin = ANYWHERE


@dataclass(frozen=True, slots=True)
class ProviderToolQuestion:
    """May the model's provider run this tool itself?"""

    name: str


@dataclass(frozen=True, slots=True)
class ModelQuestion:
    """May this model be called, at an upstream that was not verified?"""

    name: str


@dataclass(frozen=True, slots=True)
class PathQuestion:
    """May this path be used with this mode?"""

    path: str
    mode: PathMode


@dataclass(frozen=True, slots=True)
class EgressQuestion:
    """May this connection (``method`` None) or request go out?"""

    host: str
    port: int
    scheme: Scheme
    method: str | None = None
    target: str | None = None

    def __repr__(self) -> str:
        return (
            f"EgressQuestion(host={self.host!r}, port={self.port}, scheme={self.scheme.value!r}, "
            f"method={self.method!r}, target={self.target!r})"
        )


@dataclass(frozen=True, slots=True)
class SecretQuestion:
    """May this secret be used at this host, in the place that its grant names?"""

    name: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class PortQuestion:
    """May the session's owner reach this port of the agent's own servers?"""

    number: int


@dataclass(frozen=True, slots=True)
class StartQuestion:
    """May this agent start a session of that one?"""

    name: str


Question = (
    ToolQuestion
    | ProviderToolQuestion
    | ModelQuestion
    | PathQuestion
    | EgressQuestion
    | SecretQuestion
    | PortQuestion
    | StartQuestion
)


def parse_question(text: str) -> Question:
    """The question that ``text`` asks; a host or target that is not canonical stays as it is, to be denied.

    Raises:
        RequestRefused: in none of the forms above.
    """
    word, colon, rest = text.partition(":")
    if colon and rest and word in _FORMS:
        return _FORMS[word](rest)
    method, space, url = text.partition(" ")
    match = _URL.match(url)
    if not space or match is None:
        raise RequestRefused(
            "not a request",
            expected="tool:NAME, provider_tool:NAME, model:NAME, read:/path, write:/path, connect:host, "
            "secret:NAME@host, port:NUMBER, start:AGENT or METHOD URL",
            found=excerpt(text),
        )
    scheme = Scheme(match.group(1))
    host, port = _host_and_port(match.group(2), 443 if scheme is Scheme.HTTPS else 80)
    target = match.group(3)
    return EgressQuestion(host, port, scheme, method, target if target.startswith("/") else "/" + target)


def question_text(question: Question) -> str:
    """``question`` as :func:`parse_question` reads it."""
    match question:
        case ToolQuestion(name, arguments, origin):
            return f"tool:{tool_text(name, origin)}" + ("" if arguments is None else f" {arguments}")
        case ProviderToolQuestion(name):
            return f"provider_tool:{name}"
        case ModelQuestion(name):
            return f"model:{name}"
        case PathQuestion(path, mode):
            return f"{'read' if mode is PathMode.READ else 'write'}:{path}"
        case EgressQuestion(host, port, scheme, method, target):
            standard = 443 if scheme is Scheme.HTTPS or method is None else 80
            endpoint = host if port == standard else f"{host}:{port}"
            return (
                f"connect:{endpoint}" if method is None else f"{method} {scheme.value}://{endpoint}{target}"
            )
        case SecretQuestion(name, host, port):
            return f"secret:{name}@{host}" + ("" if port == 443 else f":{port}")
        case PortQuestion(number):
            return f"port:{number}"
        case StartQuestion(name):
            return f"start:{name}"
        case _:
            assert_never(question)


def _host_and_port(text: str, default: int) -> tuple[str, int]:
    match = _PORT.match(text)
    host, port = (match.group(1), int(match.group(2))) if match else (text, default)
    try:
        return canonical_host(host), port
    except HostRefused:
        return host, port


def _connection(text: str) -> Question:
    host, port = _host_and_port(text, 443)
    return EgressQuestion(host, port, Scheme.HTTPS)


def _secret(text: str) -> Question:
    name, at, endpoint = text.partition("@")
    if not at or not endpoint:
        raise RequestRefused("not a use of a secret", expected="secret:NAME@host[:port]", found=excerpt(text))
    return SecretQuestion(name, *_host_and_port(endpoint, 443))


def _server_port(text: str) -> Question:
    if _NUMBER.match(text) is None or int(text) > _MAX_PORT:
        raise RequestRefused("not a port", expected="port:NUMBER, 1 to 65535", found=excerpt(text))
    return PortQuestion(int(text))


def tool_text(name: str, origin: Origin) -> str:
    """A tool as a question names it, with its server and definition where they are asked for."""
    server = "" if origin.server in (None, ANY) else f"@{origin.server}"
    return name + server + ("" if origin.schema in (None, ANY) else f"#{origin.schema}")


def _tool(text: str) -> Question:
    tool, space, arguments = text.partition(" ")
    if not space or not arguments.startswith("{"):
        tool, arguments = text, ""
    rest, _, schema = tool.partition("#")
    name, _, server = rest.partition("@")
    return ToolQuestion(name, arguments or None, Origin(server or ANY, schema or ANY))


_FORMS: Final[Mapping[str, Callable[[str], Question]]] = {
    "tool": _tool,
    "provider_tool": ProviderToolQuestion,
    "model": ModelQuestion,
    "read": lambda path: PathQuestion(path, PathMode.READ),
    "write": lambda path: PathQuestion(path, PathMode.READ_WRITE),
    "connect": _connection,
    "secret": _secret,
    "port": _server_port,
    "start": StartQuestion,
}


def answer(policy: CompiledPolicy, question: Question) -> Decision:
    """What ``policy`` decides."""
    match question:
        case ToolQuestion(name, arguments, origin):
            if arguments is None:
                return policy.decide_tool(name, origin)
            return policy.decide_call(name, arguments, origin)
        case ProviderToolQuestion(name):
            return policy.decide_provider_tool(name)
        case ModelQuestion(name):
            return policy.decide_model(name)
        case PathQuestion(path, mode):
            return policy.decide_path(path, mode)
        case EgressQuestion(host, port, scheme, method, target):
            return policy.decide_egress(host=host, port=port, scheme=scheme, method=method, target=target)
        case SecretQuestion(name, host, port):
            surfaces = {grant.name: grant.surface for grant in policy.secret_grants()}
            surface = surfaces.get(name, "header:authorization")
            return policy.decide_secret(name, host=host, port=port, scheme="https", surface=surface)
        case PortQuestion(number):
            return policy.decide_port(number)
        case StartQuestion(name):
            return policy.decide_start(name)
        case _:
            assert_never(question)


_PLANES: Final[Mapping[type[Question], str]] = {
    ToolQuestion: "tool",
    ProviderToolQuestion: "provider_tool",
    ModelQuestion: "model",
    PathQuestion: "path",
    EgressQuestion: "egress",
    SecretQuestion: "secret",
    PortQuestion: "port",
    StartQuestion: "start",
}


def plane_of(question: Question) -> str:
    """``tool``, ``provider_tool``, ``model``, ``path``, ``egress``, ``secret``, ``port`` or ``start``."""
    return _PLANES[type(question)]
