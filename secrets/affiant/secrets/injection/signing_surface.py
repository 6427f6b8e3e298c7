"""The place of a key that signs: the ``Authorization`` header of AWS Signature Version 4, made anew by the broker.

The agent's client signs with a placeholder: an access key id that only this session knows, and a secret access key that
is the same for everyone and worth nothing. The id says which key is meant. What the client signed is judged here: the
broker's signature leaves nothing of it out, and nothing of it is sent as another, but for the fields that a signature
brings with it (:data:`SET_ANEW`) and the framing. Refused is

- another algorithm (SigV4A, SigV2), or another form of the header than clients write (``secret.sigv4_authorization``);
- another region or service than the profile's (``secret.sigv4_scope``): neither is ever guessed;
- a signature in the query (``secret.sigv4_presigned``): a key to this request for anyone who is given the URL;
- a body that is signed in pieces, or whose trailers are (``STREAMING-…``, ``aws-chunked``), or that is another than was
  signed (``secret.sigv4_payload``). ``UNSIGNED-PAYLOAD`` is no promise to break: the broker signs the body;
- a signed header that is there twice, not at all, or goes out as another (``secret.sigv4_headers``).

>>> SigningSurface("eu-central-1", "s3").label
'sigv4:eu-central-1/s3'
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias
from urllib.parse import unquote_to_bytes

from affiant.errors import ConfigurationError, NotAllowedError
from affiant.policy.canonical.request_names import asks_for_a_part, is_aws_name
from affiant.policy.model.sigv4 import CLIENT_SETTING, signing_variables
from affiant.secrets.injection.sigv4 import Scope

__all__ = [
    "CONTENT_DIGEST",
    "MAY_BE_LEFT_OUT",
    "SET_ANEW",
    "SIGNING_ID",
    "AgentSignature",
    "SigningSurface",
    "agent_variables",
    "is_signing",
    "judge_signed_body",
    "mint_signing_id",
    "presigned",
]

_Field: TypeAlias = tuple[bytes, bytes]

_LABEL: Final = "sigv4:"

AUTHORIZATION: Final = b"authorization"
CONTENT_DIGEST: Final = b"x-amz-content-sha256"
SET_ANEW: Final = frozenset({AUTHORIZATION, CONTENT_DIGEST, b"x-amz-date", b"x-amz-security-token"})
"""What the broker sets itself, whatever the agent wrote there."""

_FORM: Final = re.compile(
    rb"AWS4-HMAC-SHA256 +Credential=([^/,\s]+)/[0-9]{8}/([^/,\s]+)/([^/,\s]+)/aws4_request, *"
    rb"SignedHeaders=([!#$%&'*+.^_`|~0-9a-z-]+(?:;[!#$%&'*+.^_`|~0-9a-z-]+)*), *Signature=[0-9a-f]{64}\Z"
)
_DIGEST: Final = re.compile(rb"[0-9a-f]{64}\Z")
_UNSIGNED: Final = b"UNSIGNED-PAYLOAD"
_PIECES: Final = frozenset({b"x-amz-trailer", b"x-amz-decoded-content-length"})
_PRESIGNED: Final = re.compile(
    rb"x-amz-(?:algorithm|credential|date|expires|security-token|signature|signedheaders)\Z"
    rb"|awsaccesskeyid\Z|signature\Z",
    re.IGNORECASE,
)
"""AWS, "Authenticating Requests: Using Query Parameters"; the last two are SigV2's."""

_AS_IT_GOES_OUT: Final = SET_ANEW | {b"accept-encoding", b"content-length", b"host"}
"""Signed as the broker sends them."""
_NEVER_SENT: Final = frozenset(
    {
        b"connection", b"expect", b"keep-alive", b"proxy-authenticate", b"proxy-authorization",
        b"proxy-connection", b"te", b"trailer", b"transfer-encoding", b"upgrade",
    }
)  # fmt: skip
"""What the broker leaves out of a request (``request``)."""
_OF_EACH_ATTEMPT: Final = frozenset({b"amz-sdk-invocation-id", b"amz-sdk-request"})
"""What clients say of an attempt: taken out of a request that a person must approve, because it differs each time."""

MAY_BE_LEFT_OUT: Final = SET_ANEW | _OF_EACH_ATTEMPT | {b"content-length"}
"""What a client may have signed, and the broker sends without, or with a value of its own."""

_BASE36: Final = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_ID_PREFIX: Final = b"AKIAAFFIANT"
_ID_CHARACTERS: Final = 26
"""134 bits. With its prefix 37 characters of the 128 that an id may have (AWS, IAM API Reference, AccessKey)."""
SIGNING_ID: Final = re.compile(rb"AKIAAFFIANT[0-9A-Z]{26}")
_NO_SECRET: Final = "AffiantBrokerSignsThisRequestWithTheKey0"  # noqa: S105 - 40 characters, and no secret
"""What clients sign with: they want some secret access key, and what they make of it is thrown away."""


@dataclass(frozen=True, slots=True)
class SigningSurface:
    """Requests to one service in one region, signed by the broker.

    Args:
        region, service: as in the credential scope (``eu-central-1``, ``s3``): lower-case letters, digits and hyphens.

    Raises:
        ``secret.surface``: other characters.
    """

    region: str
    service: str

    def __post_init__(self) -> None:
        for name in (self.region, self.service):
            if not is_aws_name(name):
                raise ConfigurationError(
                    "not the name of a region or a service", found=repr(name[:80]), code="secret.surface"
                )

    @property
    def label(self) -> str:
        """How decisions and records spell it: ``sigv4:eu-central-1/s3``."""
        return f"{_LABEL}{self.region}/{self.service}"

    @property
    def scope(self) -> Scope:
        """What the key is derived for."""
        return Scope(self.region, self.service)

    @staticmethod
    def means(name: bytes, value: bytes, placeholder: bytes) -> bool:
        """Whether this header is an AWS signature that names the placeholder as its key, however well."""
        return name.lower() == AUTHORIZATION and value[:3] == b"AWS" and placeholder in value

    @staticmethod
    def presigned(target: bytes, placeholder: bytes) -> bool:
        """Whether the query is an AWS signature that names the placeholder as its key."""
        return placeholder in target and _signs_in_query(target)

    def judge(self, *, target: bytes, headers: tuple[_Field, ...], placeholder: bytes) -> AgentSignature:
        """What the agent signed, if the broker may sign the same.

        Args:
            headers: those that are to be sent, ``Authorization`` once among them.

        Raises:
            ``secret.sigv4_*``: as the module says.
        """
        value = next(value for name, value in headers if name.lower() == AUTHORIZATION)
        match = _FORM.match(value)
        if match is None or match[1] != placeholder:
            raise NotAllowedError(
                "not a signature that can be made anew",
                expected="AWS4-HMAC-SHA256 Credential=ID/DATE/REGION/SERVICE/aws4_request, SignedHeaders=, Signature=",
                code="secret.sigv4_authorization",
            )
        if (match[2].decode("latin-1"), match[3].decode("latin-1")) != (self.region, self.service):
            raise NotAllowedError(
                "signed for another region or service than the profile names",
                expected=f"{self.region}/{self.service}",
                hint="Set the client's region, or have the profile name this one",
                code="secret.sigv4_scope",
            )
        if _signs_in_query(target):
            raise presigned()
        _judge_payload(headers)
        names = tuple(match[4].split(b";"))
        _judge_headers(headers, names)
        return AgentSignature(names, value.rpartition(b"=")[2])


@dataclass(frozen=True, slots=True)
class AgentSignature:
    """What the agent's client signed.

    Args:
        names: of the headers, lower case. signature: 64 hexadecimal digits, made with a key that everybody has.
    """

    names: tuple[bytes, ...]
    signature: bytes


def presigned() -> NotAllowedError:
    """The refusal of a signature in the query."""
    return NotAllowedError(
        "a signature in the query is not made anew",
        expected="a signature in the Authorization header",
        code="secret.sigv4_presigned",
    )


def is_signing(label: str) -> bool:
    """Whether a surface, by its label, is that of a key that signs: the request's body is then read whole."""
    return label.startswith(_LABEL)


def judge_signed_body(headers: tuple[_Field, ...], body: bytes) -> None:
    """Return if the body is the one whose digest the agent signed, or if it signed none.

    Raises:
        ``secret.sigv4_payload``: it is another.
    """
    for value in _values(headers, CONTENT_DIGEST):
        if value != _UNSIGNED and value != hashlib.sha256(body).hexdigest().encode("ascii"):
            raise NotAllowedError(
                "the body is not the one whose digest was signed", code="secret.sigv4_payload"
            )


def _signs_in_query(target: bytes) -> bool:
    return any(
        _PRESIGNED.match(unquote_to_bytes(part.partition(b"=")[0])) is not None
        for part in re.split(rb"[&;]", target.partition(b"?")[2])
    )


def _judge_payload(headers: tuple[_Field, ...]) -> None:
    digests = _values(headers, CONTENT_DIGEST)
    if len(digests) > 1 or any(value != _UNSIGNED and _DIGEST.match(value) is None for value in digests):
        raise NotAllowedError(
            "a body that is signed in pieces is not signed anew",
            expected=f"one {CONTENT_DIGEST.decode()} with the body's SHA-256, or {_UNSIGNED.decode()}",
            hint=f"Switch chunked signing and trailing checksums off ({CLIENT_SETTING}=when_required)",
            code="secret.sigv4_payload",
        )
    codings = [value.lower() for value in _values(headers, b"content-encoding")]
    if any(b"aws-chunked" in value for value in codings) or any(
        name.lower() in _PIECES for name, _ in headers
    ):
        raise NotAllowedError(
            "a body in aws-chunked pieces, or with trailers, is not signed anew",
            expected="the plain body",
            code="secret.sigv4_payload",
        )


def _judge_headers(headers: tuple[_Field, ...], names: tuple[bytes, ...]) -> None:
    if b"host" not in names or len(set(names)) != len(names):
        raise NotAllowedError(
            "not a list of signed headers",
            expected="each once, and host among them",
            code="secret.sigv4_headers",
        )
    if never := [name for name in names if name in _NEVER_SENT or asks_for_a_part(name.decode("latin-1"))]:
        raise _altered("a signed header is not sent on", min(never))
    for name in {*names, *(name.lower() for name, _ in headers if name.lower().startswith(b"x-amz-"))}:
        values = _values(headers, name)
        if len(values) > 1:
            raise _altered("a signed header is duplicated", name)
        if not values and name not in _AS_IT_GOES_OUT | _OF_EACH_ATTEMPT:
            raise _altered("a signed header is not in the request", name)
        if any(b"\t" in value for value in values):
            raise _altered("a signed header holds a tab, which servers read differently", name)
    if b"accept-encoding" in names and any(
        value.lower() != b"identity" for value in _values(headers, b"accept-encoding")
    ):
        raise _altered("a signed header is sent as another", b"accept-encoding")


def _altered(text: str, name: bytes) -> NotAllowedError:
    return NotAllowedError(text, where=name[:64].decode("latin-1"), code="secret.sigv4_headers")


def _values(headers: tuple[_Field, ...], name: bytes) -> list[bytes]:
    return [value for field, value in headers if field.lower() == name]


def mint_signing_id(random_bytes: Callable[[int], bytes]) -> str:
    """A fresh access key id in place of a key: upper-case letters and digits, as clients expect of one.

    Args:
        random_bytes: a source of cryptographic randomness (``secrets.token_bytes``).
    """
    text = b""
    while len(text) < _ID_CHARACTERS:  # bytes of 252 and more would favour the first characters
        drawn = random_bytes(_ID_CHARACTERS - len(text))
        text += bytes(_BASE36[byte % 36] for byte in drawn if byte < 252)
    return (_ID_PREFIX + text).decode("ascii")


def agent_variables(name: str, placeholder: str) -> Mapping[str, str]:
    """The variables by which an agent's client signs with a placeholder; of a secret ``AWS`` those it looks for."""
    key_id, secret_key = signing_variables(name)
    return {
        key_id: placeholder,
        secret_key: _NO_SECRET,
        CLIENT_SETTING: "when_required",
    }
