"""Checks the form of every name in a profile: agents, tools, models, secrets, references, headers.

Each function returns nothing, or refuses. What a secret's name, reference, format or shape was is never
repeated in a refusal: if a value was pasted there, it is the value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from affiant.policy.canonical.errors import EmptyList, NameRefused, ValueRefused, did_you_mean, excerpt
from affiant.policy.canonical.request_names import AWS_NAME, POINTER, asks_for_a_part, looks_like_a_value
from affiant.policy.canonical.targets import METHODS

__all__ = [
    "SPELLINGS",
    "check_agent_name",
    "check_approver",
    "check_basic_user",
    "check_format",
    "check_header",
    "check_identity",
    "check_issuer",
    "check_methods",
    "check_model_name",
    "check_parameter",
    "check_port",
    "check_reference",
    "check_schema_pin",
    "check_secret_name",
    "check_server",
    "check_shape",
    "check_subject",
    "check_tool_name",
]

_AGENT: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}\Z")
_TOOL: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}\Z")
_SERVER: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,62}\Z")
_PIN: Final = re.compile(r"sha256:[0-9a-f]{64}\Z")
_MODEL: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,127}\Z")
_SECRET: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}\Z")
_REFERENCE: Final = re.compile(
    r"local:[A-Za-z_][A-Za-z0-9_]{0,63}\Z"
    r"|vault:(?:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}/){1,16}[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}"
    r"#[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}\Z"
)
_ISSUER: Final = re.compile(r"https://[!-~]{1,247}\Z")
_SUBJECT: Final = re.compile(r"[!-~]{1,64}[@:][!-~]{1,190}\Z")
"""A certificate names an e-mail address or a URI: nothing else could ever sign."""
_APPROVER: Final = re.compile(r"[A-Za-z0-9_-]{42}[AEIMQUYcgkosw048]\Z")
"""32 bytes in base64url: the last character holds four bits, so that one key has one spelling."""
_HEADER: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?\Z")
_BASIC_USER: Final = re.compile(r"[A-Za-z0-9._~@+-]{1,64}\Z")
_PARAMETER: Final = re.compile(r"[A-Za-z0-9._~-]{1,64}\Z")
_FORMAT: Final = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]{0,126}[\x21-\x7e])?\Z")
_SHAPE: Final = re.compile(r"[A-Za-z0-9_.-]{0,32}\{([1-9][0-9]{0,2})\}[A-Za-z0-9_.-]{0,32}\Z")

SPELLINGS: Final[Mapping[str, re.Pattern[str]]] = {
    "agent": _AGENT,
    "approver": _APPROVER,
    "issuer": _ISSUER,
    "subject": _SUBJECT,
    "tool": _TOOL,
    "model": _MODEL,
    "secret": _SECRET,
    "reference": _REFERENCE,
    "format": _FORMAT,
    "shape": _SHAPE,
    "basic_user": _BASIC_USER,
    "parameter": _PARAMETER,
    "pointer": POINTER,
    "aws_name": AWS_NAME,
}
"""The patterns that names have at least; the functions below refuse more."""

_RESERVED_VARIABLES: Final = frozenset(
    {
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "ALL_PROXY",
        "NO_PROXY",
        "SSL_CERT_FILE",
        "REQUESTS_CA_BUNDLE",
        "NODE_EXTRA_CA_CERTS",
        "GIT_SSL_CAINFO",
        "OPENAI_BASE_URL",
        "OPENAI_API_KEY",
        "ANTHROPIC_BASE_URL",
        "ANTHROPIC_API_KEY",
        "TRACEPARENT",
        "CURL_CA_BUNDLE",
        "HOME",
        "LANG",
        "LD_LIBRARY_PATH",
        "LD_PRELOAD",
        "PATH",
        "PWD",
        "PYTHONPATH",
        "SHELL",
        "TERM",
        "TMPDIR",
        "USER",
    }
)
"""Variables that the supervisor sets itself, or that steer programs; a placeholder has its own name."""

_FRAMING_HEADERS: Final = frozenset(
    {
        "accept-encoding",
        "connection",
        "content-encoding",
        "content-length",
        "content-type",
        "expect",
        "forwarded",
        "host",
        "keep-alive",
        "location",
        "origin",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "referer",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "user-agent",
        "via",
    }
)
"""Headers that decide where a message ends or goes (RFC 9110, RFC 9112): never a place for a secret."""

_MIN_SHAPE: Final = 24
"""Characters of 62, so at least 142 bits; a placeholder has at least 128."""
_MAX_PLACEHOLDER: Final = 256


def check_agent_name(text: str) -> None:
    """Refuse what is not the name of an agent.

    Raises:
        NameRefused: not 1 to 64 letters, digits, ``_``, ``.``, ``-``, beginning with a letter or digit.
    """
    _check(text, _AGENT, "an agent")


def check_identity(issuer: str, subject: str) -> None:
    """Refuse what no certificate names as an identity and the issuer that knows it.

    Raises:
        NameRefused: an issuer that is no https address, or a subject that is no e-mail address and no URI.
    """
    check_issuer(issuer)
    check_subject(subject)


def check_issuer(issuer: str) -> None:
    """Refuse what no certificate names as the issuer that knows an identity.

    Raises:
        NameRefused: no https address.
    """
    if _ISSUER.match(issuer) is None:
        raise NameRefused(
            "not the issuer of identities",
            expected="its https address in printable ASCII, exactly as in the certificate, at most 255 characters",
            found=excerpt(issuer),
        )


def check_subject(subject: str) -> None:
    """Refuse what no certificate names as an identity.

    Raises:
        NameRefused: no e-mail address and no URI.
    """
    if _SUBJECT.match(subject) is None:
        raise NameRefused(
            "not the subject of an identity",
            expected="an e-mail address or a URI in printable ASCII without blanks, at most 255 characters",
            found=excerpt(subject),
        )


def check_approver(text: str) -> None:
    """Refuse what is not the key of an approver, by its RFC 7638 SHA-256 thumbprint.

    Raises:
        NameRefused: not 32 bytes in base64url, 43 characters.
    """
    if _APPROVER.match(text) is None:
        raise NameRefused(
            "not the key of an approver",
            expected="its RFC 7638 SHA-256 thumbprint, 43 characters",
            found=excerpt(text),
            hint="'affiant approvals keygen' makes a key and prints its thumbprint",
        )


def check_tool_name(text: str) -> None:
    """Refuse what is not the name of a tool.

    Raises:
        NameRefused: not 1 to 128 letters, digits, ``_``, ``.``, ``-``.
    """
    _check(text, _TOOL, "a tool")


def check_server(text: str) -> None:
    """Refuse what is not the id of a server of tools.

    Raises:
        NameRefused: not 1 to 63 lower-case letters, digits and ``-``.
    """
    _check(text, _SERVER, "a server of tools")


def check_schema_pin(text: str) -> None:
    """Refuse what is not the digest of a tool's definition.

    Raises:
        ValueRefused: not ``sha256:`` and 64 hexadecimal digits.
    """
    if _PIN.match(text) is None:
        raise ValueRefused(
            "not the digest of a tool's definition",
            expected="sha256: and 64 hexadecimal digits",
            found=excerpt(text),
            hint="'affiant gateway tools' prints it",
        )


def check_model_name(text: str) -> None:
    """Refuse what is not the name of a model.

    Raises:
        NameRefused: not 1 to 128 letters, digits and ``._:/@+-``.
    """
    _check(text, _MODEL, "a model")


def _check(text: str, pattern: re.Pattern[str], what: str) -> None:
    if pattern.match(text) is None:
        raise NameRefused(f"not the name of {what}", expected=pattern.pattern[:-2], found=excerpt(text))


def check_secret_name(text: str) -> None:
    """Refuse what is not the name of a secret, and so of the variable that holds its placeholder.

    Raises:
        NameRefused: no name, a name that the supervisor uses itself, or something that looks like a value.
    """
    if _SECRET.match(text) is None or looks_like_a_value(text):
        raise NameRefused(
            "not the name of a secret",
            expected="a name such as DEPLOY_KEY, never a value",
            hint="If a value was there, it is no longer secret: revoke it",
        )
    if text.upper() in _RESERVED_VARIABLES:
        raise NameRefused("a variable of this name has a meaning of its own", found=text)


def check_reference(text: str) -> None:
    """Refuse what is not ``local:NAME`` or ``vault:<mount>/<path>#<field>``, segment by segment.

    Raises:
        ValueRefused: anything else.
    """
    if _REFERENCE.match(text) is None:
        raise ValueRefused("not a reference", expected="local:NAME or vault:<mount>/<path>#<field>")


def check_header(name: str) -> None:
    """Refuse a header that is not spelled in lower case, or that is no place for a secret.

    Raises:
        ValueRefused: so.
    """
    if _HEADER.match(name) is None:
        raise ValueRefused("not a header name", expected="letters, digits and hyphens", found=excerpt(name))
    if name in _FRAMING_HEADERS or name.startswith(("affiant-", "sec-")) or asks_for_a_part(name):
        raise ValueRefused("this header cannot carry a secret", found=excerpt(name))


def check_format(text: str) -> None:
    """Refuse a header's format that is not printable ASCII with one ``{}`` and no other brace.

    Raises:
        ValueRefused: so.
    """
    braces = text.count("{") + text.count("}")
    if _FORMAT.match(text) is None or text.count("{}") != 1 or braces != 2:
        raise ValueRefused("not a format", expected="printable text with one {}")


def check_basic_user(text: str) -> None:
    """Refuse a user's name that cannot stand before the colon of Basic credentials (RFC 7617, section 2).

    Raises:
        ValueRefused: so.
    """
    if _BASIC_USER.match(text) is None or looks_like_a_value(text):
        raise ValueRefused("not a user's name", expected=_BASIC_USER.pattern[:-2], found="(not shown)")


def check_parameter(name: str) -> None:
    """Refuse the name of a query's parameter that would have to be escaped.

    Raises:
        ValueRefused: so.
    """
    if _PARAMETER.match(name) is None or looks_like_a_value(name):
        raise ValueRefused(
            "not the name of a parameter", expected=_PARAMETER.pattern[:-2], found="(not shown)"
        )


def check_shape(text: str) -> None:
    """Refuse a placeholder's shape that is not fixed text around one ``{n}`` of random characters.

    Raises:
        ValueRefused: other text, fewer than 24 random characters, or more than 256 in all.
    """
    match = _SHAPE.match(text)
    if match is None or not _MIN_SHAPE <= int(match.group(1)) <= _MAX_PLACEHOLDER - len(text):
        raise ValueRefused(
            "not a shape",
            expected=f"fixed text around one {{n}}, n at least {_MIN_SHAPE}, such as ghp_{{36}}; "
            f"at most {_MAX_PLACEHOLDER} characters",
        )


def check_port(port: int) -> None:
    """Refuse what is not a port.

    Raises:
        ValueRefused: not 1 to 65535.
    """
    if not 1 <= port <= 65535:
        raise ValueRefused("not a port", expected="1 to 65535", found=port)


def check_methods(methods: Sequence[str]) -> None:
    """Refuse methods that no rule may name.

    Raises:
        ValueRefused: lower case, TRACE, TRACK, CONNECT, or unknown.
        EmptyList: none at all.
    """
    if not methods:
        raise EmptyList("an empty list of methods", hint="Leave 'methods' out to allow any, or name some")
    for method in methods:
        if method not in METHODS:
            near = method.upper()
            hint = f"Did you mean {near!r}?" if near in METHODS else did_you_mean(near, METHODS)
            raise ValueRefused("not a method that a rule may name", found=excerpt(method), hint=hint)
