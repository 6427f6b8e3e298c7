"""Writes one line of a decision log for gateway and supervisor (``FORMAT.md``, "The decision log"). Pure.

It holds what the policy judged, and nothing else of the request: no query, no header, no body, no arguments
of a tool, no value and no placeholder of a secret. There is no digest of a request either: a reader of the line could
try guesses at what it leaves out. Names that no profile could list are hostile text and are written as ``?``, which
no profile lists either, so that a replay decides them as they were decided.

>>> from affiant.policy.decision.decide import Effect
>>> by = DecidedBy(session="s-1", policy_digest="sha384:" + "0" * 96, agent="dev")
>>> denied = Decision(Effect.DENY, "tool_not_listed")
>>> line = decision_line(by, ToolQuestion('rm {"force": true}'), denied, ts=1_700_000_000)
>>> b'"request":"tool:?"' in line
True
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from json.encoder import encode_basestring as _text
from typing import Final

from affiant.attestation.encoding.canonical import JSONError
from affiant.errors import AffiantError
from affiant.policy.canonical.errors import TargetRefused
from affiant.policy.canonical.names import SPELLINGS, check_schema_pin, check_server
from affiant.policy.canonical.targets import METHODS, canonical_target
from affiant.policy.canonical.tool_origin import ANY, Origin
from affiant.policy.decision.decide import Decision
from affiant.policy.decision.questions import (
    EgressQuestion,
    ModelQuestion,
    ProviderToolQuestion,
    Question,
    StartQuestion,
    ToolQuestion,
    plane_of,
    question_text,
)
from affiant.policy.model.profile import Scheme

__all__ = ["NAMELESS", "DecidedBy", "decision_line"]

NAMELESS: Final = "?"
"""In the place of a name that no profile could list."""

_QUOTED: Final = '","'
_WITHHELD: Final = ',"withheld":true'
_HTTPS: Final = Scheme.HTTPS
_NO_TARGET: Final = "/%"
"""In the place of a target that must not be repeated: never canonical, so every replay denies it."""


@dataclass(frozen=True, slots=True)
class DecidedBy:
    """Whose decisions: the session, the profile by its digest, and the agent. A gateway does not know the agent."""

    session: str
    policy_digest: str
    agent: str | None = None


def decision_line(
    by: DecidedBy,
    question: Question,
    decision: Decision,
    *,
    ts: int,
    secret: str | None = None,
    surface: str | None = None,
    offered: bool = False,
    target_hidden: bool = False,
    size: int | None = None,
    latency_us: int | None = None,
) -> bytes:
    """The line, with its line feed: RFC 8785, written member by member because each decision waits for it.

    Args:
        question: as it was decided; host and port canonical.
        ts: seconds since 1970.
        secret: the name of the secret that is used. surface: where its placeholder is.
        offered: a tool was offered to a model, not called.
        target_hidden: the target holds what must not be repeated, such as a placeholder.
        size: bytes of the request's body, where the request says so.
        latency_us: microseconds that the decision took.
    """
    agent = "" if by.agent is None else f'"agent":{_text(by.agent)},'
    received = "" if size is None else f'"bytes":{size},'
    latency = "" if latency_us is None else f'"latency":{latency_us},'
    shown = '"offered":true,' if offered else ""
    rules = f'"rules":["{_QUOTED.join(decision.rules)}"],' if decision.rules else ""
    secrets = "" if secret is None else f'"secrets":[{_text(secret)}],'
    place = "" if surface is None else f'"surface":{_text(surface)},'
    withheld = isinstance(question, ToolQuestion) and question.arguments is not None
    line = (
        f'{{{agent}{received}"decision":"{decision.effect}",{latency}{shown}"plane":"{plane_of(question)}",'
        f'"policy_digest":{_text(by.policy_digest)},"reason":"{decision.reason}",'
        f'"request":{_text(_spoken(question, target_hidden=target_hidden))},{rules}{secrets}'
        f'"session":{_text(by.session)},{place}"ts":{ts}{_WITHHELD if withheld else ""}}}\n'
    )
    try:
        return line.encode("utf-8")
    except UnicodeEncodeError as error:
        raise JSONError("text holds a lone surrogate") from error


def _spoken(question: Question, *, target_hidden: bool) -> str:
    """``question`` as text, without what a log may not hold."""
    if type(question) is EgressQuestion and question.method is not None and question.target is not None:
        method, scheme = question.method, question.scheme
        path = _NO_TARGET if target_hidden else _path_of(question.target)
        port = "" if question.port == (443 if scheme is _HTTPS else 80) else f":{question.port}"
        return f"{method if method in METHODS else NAMELESS} {scheme}://{question.host}{port}{path}"
    match question:
        case ToolQuestion(name, origin=origin):
            return question_text(ToolQuestion(_named("tool", name), None, _spoken_origin(origin)))
        case ProviderToolQuestion(name):
            return question_text(ProviderToolQuestion(_named("tool", name)))
        case StartQuestion(name):
            return question_text(StartQuestion(_named("agent", name)))
        case ModelQuestion(name):
            return question_text(ModelQuestion(_named("model", name)))
        case _:
            return question_text(question)


def _named(kind: str, name: str) -> str:
    return name if SPELLINGS[kind].match(name) is not None else NAMELESS


def _spoken_origin(origin: Origin) -> Origin:
    """What is not known, or not spelled as a profile would, fulfils no rule that names it: nor does ``?``."""
    return Origin(_checked(origin.server, check_server), _checked(origin.schema, check_schema_pin))


def _checked(text: str | None, check: Callable[[str], None]) -> str:
    if text is None or text == ANY:
        return text or NAMELESS
    try:
        check(text)
    except AffiantError:
        return NAMELESS
    return text


def _path_of(target: str) -> str:
    """What the policy judges of a target: its path."""
    try:
        return canonical_target(target).partition("?")[0]
    except TargetRefused:
        return _NO_TARGET
