"""Vault and OpenBao, KV version 2, by ``hvac`` behind one wrapper that closes the traps it was seen with.

hvac 2.4 by itself follows redirects with the token in its hand, reaches other endpoints by ``..``, honours proxy
variables, picks up ``~/.vault-token``, and raises exceptions that carry URL and server text. Here:

1. address, token and roots are arguments; the environment, home folder and netrc are not read (V3, V4);
2. only https, only the given roots, TLS 1.2 or newer; no redirect is followed, a 3xx is a refusal (V1);
3. mount, path, field and role are checked segment by segment before hvac sees them (V2);
4. every answer is bounded, and its status decides: denied, sealed, standby, rate-limited (V8);
5. what is raised holds no URL, no server text and no token, and is chained to nothing that does (V5);
6. a version that was deleted or destroyed is not a value (V9);
7. with a JWT login, a denial logs in once more, then counts; the token is revoked when the source is closed.
"""

from __future__ import annotations

import json
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, assert_never

import hvac
import hvac.adapters
import requests
import requests.adapters
import requests.exceptions

from affiant.errors import (
    AffiantError,
    ConfigurationError,
    MalformedError,
    NotAllowedError,
    NotAuthenticError,
    UnreachableError,
)
from affiant.secrets.names.errors import VaultDenied, VaultResponseMalformed
from affiant.secrets.names.source import Reference, ResolvedSecret, VaultReference, is_path_segment
from affiant.secrets.names.value import SecretValue
from affiant.secrets.store.tls import client_context

__all__ = ["VaultJWT", "VaultLogin", "VaultSource", "VaultToken"]

_ORIGIN: Final = re.compile(r"https://(?:[A-Za-z0-9.-]{1,253}|\[[0-9a-fA-F:.]{2,45}\])(?::[0-9]{1,5})?\Z")
_TOKEN: Final = re.compile(r"[\x21-\x7e]{1,8192}\Z")
_MAX_ANSWER: Final = 1 << 20

_CLIENT: Any = hvac.Client
_RAW_ADAPTER: Any = hvac.adapters.RawAdapter


@dataclass(frozen=True, slots=True, repr=False)
class VaultToken:
    """A token that its owner made, and revokes."""

    token: str

    def __repr__(self) -> str:
        return "<VaultToken>"


@dataclass(frozen=True, slots=True, repr=False)
class VaultJWT:
    """A login by JWT: the role, the mount of the auth method, and the short-lived token of the gateway."""

    role: str
    mount: str
    jwt: str

    def __repr__(self) -> str:
        return f"<VaultJWT role={self.role} mount={self.mount}>"


VaultLogin: TypeAlias = VaultToken | VaultJWT


class VaultSource:
    """One Vault, as a ``SecretSource``. It blocks: call it from a thread.

    Args:
        address: ``https://host[:port]``.
        roots: the roots of Vault's certificate, in PEM; no others count.
        login: how a token is had.
        timeout_s: for connecting, and between any two bytes of an answer.

    Raises:
        ``vault.address``: another scheme, or anything beside host and port.
        ``vault.path``: a role or mount that is not one plain segment.
    """

    def __init__(
        self, address: str, *, roots: tuple[str, ...], login: VaultLogin, timeout_s: float = 5.0
    ) -> None:
        if _ORIGIN.match(address) is None:
            raise ConfigurationError(
                "not a Vault address", expected="https://host[:port]", code="vault.address"
            )
        if isinstance(login, VaultJWT):
            _require_segments(login.role, login.mount)
        self._login = login
        self._session = _pinned_session(client_context(roots=roots))
        self._client = _CLIENT(
            url=address,
            token="",  # not None: None would look into the environment and the home folder
            verify=True,
            timeout=timeout_s,
            allow_redirects=False,
            session=self._session,
            adapter=_HardenedAdapter,
        )

    def resolve(self, reference: Reference) -> ResolvedSecret:
        """The newest version of a field of a KV v2 secret.

        Raises:
            ``vault.not_found``: no such secret or field, or its newest version is deleted or destroyed.
            AffiantError: what the module's page lists; each is a ``vault.*`` refusal.
        """
        if not isinstance(reference, VaultReference):
            raise MalformedError("not a reference to Vault", found=str(reference), code="secret.reference")
        _require_segments(reference.mount, reference.field, *reference.path.split("/"))
        if not self._client.token:
            self._log_in()
        try:
            answer = self._read(reference)
        except VaultDenied:
            if isinstance(self._login, VaultToken):
                raise
            self._log_in()
            answer = self._read(reference)
        return _resolved(answer, reference)

    def close(self) -> None:
        """Revoke the token if this source logged in for it, and close the connections."""
        try:
            if isinstance(self._login, VaultJWT) and self._client.token:
                self._client.auth.token.revoke_self()
        except AffiantError:
            pass  # it expires by itself: the role gives it a short life
        finally:
            self._client.token = ""
            self._session.close()

    def _read(self, reference: VaultReference) -> object:
        return self._client.secrets.kv.v2.read_secret_version(
            path=reference.path, mount_point=reference.mount, raise_on_deleted_version=True
        )

    def _log_in(self) -> None:
        match self._login:
            case VaultToken(token):
                self._client.token = _checked_token(token)
            case VaultJWT(role, mount, jwt):
                self._client.token = ""
                answer = self._client.auth.jwt.jwt_login(role=role, jwt=jwt, path=mount, use_token=False)
                self._client.token = _checked_token(_member(answer, "auth", "client_token"))
            case _:
                assert_never(self._login)


class _HardenedAdapter(_RAW_ADAPTER):  # type: ignore[misc] # hvac ships no type information
    """hvac's transport, with our decisions: JSON objects come back, everything else is a refusal."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments | {"cert": None, "proxies": None, "namespace": None})

    def request(self, method: str, url: str, **arguments: Any) -> Mapping[str, object]:
        _require_segments(*url.strip("/").split("/"))
        arguments |= {"raise_exception": False, "stream": True}
        try:
            with super().request(method, url, **arguments) as response:
                content = _bounded(response)
                status: int = response.status_code
        except requests.exceptions.SSLError:
            # No chaining here and below: these exceptions spell the URL, and a traceback would print it (V5).
            raise NotAuthenticError(
                "Vault's certificate does not hold under the given roots", code="vault.certificate"
            ) from None
        except (requests.exceptions.RequestException, OSError):
            raise UnreachableError("Vault did not answer", code="vault.unreachable") from None
        _raise_for_status(status, content)
        return _object(content) if status == 200 else {}

    def get_login_token(self, response: Mapping[str, object]) -> str:
        return _member(response, "auth", "client_token")


class _PinnedTransport(requests.adapters.HTTPAdapter):
    """requests' transport, bound to one TLS context and to nothing that requests would add to it."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context
        super().__init__(max_retries=0)

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs, ssl_context=self._context)

    def cert_verify(self, conn: Any, url: str, verify: Any, cert: Any) -> None:  # noqa: ARG002 - requests' signature
        """Not requests' own: that would add its bundle of public roots to the context."""
        conn.cert_reqs = "CERT_REQUIRED"
        conn.ca_certs = conn.ca_cert_dir = None


def _pinned_session(context: ssl.SSLContext) -> requests.Session:
    session = requests.Session()
    session.trust_env = False
    session.adapters.clear()  # no http://
    session.mount("https://", _PinnedTransport(context))
    return session


def _bounded(response: requests.Response) -> bytes:
    content = b""
    for piece in response.iter_content(1 << 14):
        content += piece
        if len(content) > _MAX_ANSWER:
            raise VaultResponseMalformed(
                "Vault's answer is too large", expected=f"at most {_MAX_ANSWER} bytes"
            )
    return content


def _raise_for_status(status: int, content: bytes) -> None:
    """Nothing, if the status is a success; else the refusal it means (Vault API, "HTTP status codes")."""
    match status:
        case 200 | 204:
            return
        case 300 | 301 | 302 | 303 | 307 | 308:
            raise NotAllowedError(
                "Vault answered with a redirect, which is not followed",
                hint="Give the address of the server that answers itself",
                code="vault.redirected",
            )
        case 400 | 401 | 403:
            raise VaultDenied("Vault does not accept the login or the access", found=f"status {status}")
        case 404 if _was_deleted(content):
            raise ConfigurationError(
                "the newest version of the secret is deleted or destroyed", code="vault.not_found"
            )
        case 404 | 405:
            raise ConfigurationError("Vault has no such secret, mount or login", code="vault.not_found")
        case 429:
            raise UnreachableError("Vault asks to slow down", code="vault.rate_limited")
        case 412 | 472 | 473:
            raise UnreachableError(
                "this Vault server is a standby", found=f"status {status}", code="vault.standby"
            )
        case 501 | 503:
            raise UnreachableError(
                "Vault is sealed, not initialised or in maintenance",
                found=f"status {status}",
                code="vault.sealed",
            )
        case _ if status >= 500:
            raise UnreachableError("Vault failed", found=f"status {status}", code="vault.unreachable")
        case _:
            raise VaultResponseMalformed(
                "Vault answered with a status that it does not document", found=str(status)
            )


def _was_deleted(content: bytes) -> bool:
    try:
        metadata = _object(content).get("data")
    except VaultResponseMalformed:
        return False
    return isinstance(metadata, dict) and isinstance(metadata.get("metadata"), dict)


def _resolved(answer: object, reference: VaultReference) -> ResolvedSecret:
    data = _mapping(_mapping(answer).get("data"))
    metadata = _mapping(data.get("metadata"))
    version = metadata.get("version")
    if metadata.get("destroyed") is not False or metadata.get("deletion_time") != "":
        raise ConfigurationError(
            "the newest version of the secret is deleted or destroyed", code="vault.not_found"
        )
    if not isinstance(version, int) or isinstance(version, bool):
        raise VaultResponseMalformed("the secret has no version: is this mount KV version 2?")
    value = _mapping(data.get("data")).get(reference.field)
    if not isinstance(value, str):
        raise ConfigurationError(
            "the secret has no such field, or it is not text", where=str(reference), code="vault.not_found"
        )
    return ResolvedSecret(SecretValue(value.encode()), str(version))


def _object(content: bytes) -> Mapping[str, object]:
    try:
        return _mapping(json.loads(content))
    except (ValueError, RecursionError):
        raise VaultResponseMalformed("Vault's answer is not JSON") from None  # its text may hold a value


def _mapping(value: object) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise VaultResponseMalformed("Vault's answer lacks a member that it documents")
    return value


def _member(answer: object, *names: str) -> str:
    for name in names:
        answer = _mapping(answer).get(name)
    if not isinstance(answer, str):
        raise VaultResponseMalformed("Vault's answer lacks a member that it documents")
    return answer


def _checked_token(token: str) -> str:
    if _TOKEN.match(token) is None:
        raise VaultResponseMalformed("not a Vault token")
    return token


def _require_segments(*segments: str) -> None:
    if not all(map(is_path_segment, segments)):
        raise ConfigurationError(
            "not a plain path of Vault",
            expected="segments of letters, digits, '_', '-' and '.', none empty or beginning with a dot",
            code="vault.path",
        )
