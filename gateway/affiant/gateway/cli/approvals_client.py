"""An approver's own client: asks a gateway what waits, and hands it statements. It verifies every response.

The action's name is computed again from the bytes that came, and the card is made from those bytes: a gateway that
lies can show another action, and gets a signature that is good for that one only. The proof that every request carries
names the TLS key of its own connection.
"""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from affiant.attestation.encoding.binary_text import b64u, from_b64u
from affiant.attestation.encoding.keys import Signer
from affiant.attestation.signatures.approvers.identities import BUNDLE_TYPE
from affiant.attestation.signatures.approvers.reader_proof import READER_HEADER, sign_reader_proof
from affiant.errors import NotAuthenticError, StateError
from affiant.policy.approvals.action import Action, parse_action
from affiant.sandbox.base.errors import GatewayNotTheOne, GatewayUnreachable
from affiant.sandbox.processes.gateway_probe import gateway_origin, pinless_context, spki_of

__all__ = ["ApproverClient", "Shown"]

_LIMIT: Final = 8 << 20
_TIMEOUT_S: Final = 15.0


@dataclass(frozen=True, slots=True)
class Shown:
    """An action as it came, its name computed here; ``said``: what the gateway says of it beside its bytes."""

    action: Action
    said: Mapping[str, Any]

    @property
    def state(self) -> str:
        """Its state, as the gateway reports it."""
        return str(self.said.get("state", "unknown"))


class ApproverClient:
    """One approver at one gateway.

    Args:
        spki: the only TLS key to talk to, 43 characters; None: any, because nothing that it says is believed.
        now: seconds since 1970. random_bytes: the operating system's generator.
    """

    def __init__(
        self,
        signer: Signer,
        url: str,
        *,
        spki: str | None,
        now: Callable[[], int],
        random_bytes: Callable[[int], bytes],
    ) -> None:
        self._signer = signer
        self._url = url
        self._origin = gateway_origin(url)
        self._spki = spki
        self._now = now
        self._random_bytes = random_bytes

    def introduce(self, signed: Callable[[str], str]) -> None:
        """Have the gateway take this client's key as an identity's.

        Args:
            signed: the bundle that says so, for the TLS key that it is shown.

        Raises:
            GatewayUnreachable, GatewayNotTheOne, ``approval.refused``: as named. AffiantError: as ``signed``.
        """
        self._asked("POST", "/v1/approvers", signed(self._shown_spki()).encode("utf-8"))

    def listed(self) -> Sequence[Mapping[str, Any]]:
        """What waits for this approver, or has waited, by the gateway's word.

        Raises:
            GatewayUnreachable, GatewayNotTheOne, ``approval.refused``: as named.
        """
        found = self._asked("GET", "/v1/approvals").get("approvals")
        if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
            raise GatewayUnreachable("the gateway's answer is no list of approvals", where=self._url)
        return found

    def shown(self, name: str) -> Shown:
        """The action with this SHA-256 name, as its bytes say it.

        Raises:
            ``approval.shown_other``: the bytes are another action's. ActionMalformed: they are none.
            GatewayUnreachable, GatewayNotTheOne, ``approval.refused``: as named.
        """
        said = self._asked("GET", f"/v1/approvals/{name.removeprefix('sha256:')}")
        action = parse_action(from_b64u(str(said.get("bytes", ""))))
        if action.name != name:
            raise NotAuthenticError(
                "the gateway showed another action",
                expected=name,
                found=action.name,
                code="approval.shown_other",
            )
        return Shown(action, said)

    def hand_over(self, name: str, statement: str) -> Mapping[str, Any]:
        """What became of the action: ``state``, and ``record``, the id of the receipt of the statement.

        Raises:
            GatewayUnreachable, GatewayNotTheOne, ``approval.refused``: as named.
        """
        return self._asked("POST", f"/v1/approvals/{name.removeprefix('sha256:')}", statement.encode("utf-8"))

    def _shown_spki(self) -> str:
        """The TLS key that the gateway shows; it is the only one from now on."""
        connection = http.client.HTTPSConnection(*self._origin, timeout=_TIMEOUT_S, context=pinless_context())
        try:
            self._spki = self._connected(connection)
        except (OSError, http.client.HTTPException) as error:
            raise GatewayUnreachable("the gateway does not answer", where=self._url) from error
        finally:
            connection.close()
        return self._spki

    def _connected(self, connection: http.client.HTTPSConnection) -> str:
        """The TLS key at the other end of a connection made now."""
        connection.connect()
        assert isinstance(connection.sock, ssl.SSLSocket)
        spki = spki_of(connection.sock)
        if self._spki is not None and spki != self._spki:
            raise GatewayNotTheOne("the gateway has another TLS key", expected=self._spki, found=spki)
        return spki

    def _asked(self, method: str, target: str, body: bytes = b"") -> Mapping[str, Any]:
        connection = http.client.HTTPSConnection(*self._origin, timeout=_TIMEOUT_S, context=pinless_context())
        try:
            spki = self._connected(connection)
            headers = {READER_HEADER: self._proof(method, target, body, spki)}
            if body:
                headers["Content-Type"] = BUNDLE_TYPE if body.startswith(b"{") else "application/jose"
            connection.request(method, target, body or None, headers)
            answer = connection.getresponse()
            data = answer.read(_LIMIT + 1)
            members = json.loads(data) if len(data) <= _LIMIT else None
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise GatewayUnreachable("the gateway does not answer", where=self._url) from error
        finally:
            connection.close()
        if not isinstance(members, dict):
            raise GatewayUnreachable("the gateway's answer is no object", where=self._url)
        if answer.status != 200:
            raise StateError(_told(members), code="approval.refused")
        return members

    def _proof(self, method: str, target: str, body: bytes, spki: str) -> str:
        nonce = b64u(self._random_bytes(16))
        return sign_reader_proof(self._signer, method, target, body, spki=spki, nonce=nonce, now=self._now())


def _told(members: Mapping[str, Any]) -> str:
    match members.get("error"):
        case {"message": str(message), "code": str(code)}:
            return f"the gateway refused: {message[:1000]} [{code[:80]}]"
        case _:
            return "the gateway refused, and does not say why"
