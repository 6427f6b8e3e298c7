"""Gathering a session's receipts when its launcher did not: from what still has them, nothing signed anew.

1. What the supervisor fetched when it had closed the session (``bundle.json``), or a file that the gateway's operator
   gave, or what the gateway of this state folder finds in its journal, of this boot or an earlier one;
2. the supervisor's records that are missing there, because they were never acknowledged, from the session's own
   journal, unless a close speaks for both sides: it says which record was the last, and stays true;
3. the openings of both, which are sealed to the session's starter, and the task label, which its launcher kept.

The gateway's operator socket gives a bundle without proof of possession, because only the owner of the state folder can
open it, and what a session hides is sealed to its starter.

Every record is as it was signed. What is missing is missing: a session without a close is judged as open or lost.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from affiant.attestation.bundle.bundle import MAX_BUNDLE, Bundle
from affiant.errors import AffiantError
from affiant.sandbox.base.errors import GatewayUnreachable, SessionBundleTooLarge
from affiant.sandbox.processes.home import Home
from affiant.sandbox.session_state.bundle_out import (
    SealedBundle,
    close_of,
    open_bundle,
    parse_sealed_bundle,
    read_sealed_bundle,
    read_spooled,
    with_spooled,
    write_bundle,
)
from affiant.sandbox.session_state.session_folder import BUNDLE, RECORDS, SEALED
from affiant.sandbox.session_state.task_label import kept_label, with_label
from affiant.unix_http import OPERATOR_SOCKET, ResponseTooLarge, request

__all__ = ["Gathered", "fetch_sealed", "fetch_session_bundle", "gather", "gather_now", "operator_socket"]


@dataclass(frozen=True, slots=True)
class Gathered:
    """A session's bundle, written."""

    path: Path
    bundle: Bundle
    closed: str | None
    """``why`` of its close; None: it has none."""
    added: int
    """Records that only the supervisor's journal has."""
    left_out: int
    """Such records beside a close that speaks for both sides: they stay in the session's folder."""

    @property
    def in_order(self) -> bool:
        """Whether the session was closed while its supervisor could still speak for it."""
        return self.closed not in {None, "lost"}


def fetch_sealed(home: Home, session: str) -> SealedBundle:
    """What the supervisor left, else what the running gateway of this state folder has. Blocks for some seconds.

    Raises:
        GatewayUnreachable: the supervisor left none, and no gateway of this folder has it.
        ``session.bundle``, BundleMalformed: it is not what it should be.
    """
    left = home.session(session) / SEALED
    if left.exists():
        return read_sealed_bundle(left)
    return parse_sealed_bundle(fetch_session_bundle(operator_socket(home.gateway), session))


def gather(home: Home, session: str, sealed: SealedBundle, key: X25519PrivateKey) -> Gathered:
    """Write the bundle of ``session``, hidden values opened, into its folder.

    Args:
        key: opens what is sealed to the session's starter.

    Raises:
        AffiantError: something in it is not of its form, or an opening is for another key or receipt.
    """
    spooled = read_spooled(home.session(session) / RECORDS)
    whole, left_out = with_spooled(sealed, spooled, session=session)
    label = kept_label(home.session(session))
    bundle = with_label(open_bundle(whole, key), label, session=session)
    path = home.session(session) / BUNDLE
    write_bundle(path, bundle)
    return Gathered(
        path=path,
        bundle=bundle,
        closed=close_of(sealed, session),
        added=len(whole.bundle.receipts) - len(sealed.bundle.receipts),
        left_out=left_out,
    )


def gather_now(home: Home, session: str) -> Gathered | None:
    """As :func:`gather`, from what is at hand; None: it cannot be had now, or is malformed: recovering says which."""
    try:
        key = home.openings_key(random_bytes=secrets.token_bytes)
        return gather(home, session, fetch_sealed(home, session), key)
    except AffiantError:
        return None


_TIMEOUT_S: Final = 10.0
_LIMIT: Final = 2 * MAX_BUNDLE
"""Bytes of a bundle and of what is sealed beside it."""


def operator_socket(gateway_folder: Path) -> Path:
    """Where the gateway that keeps its store in ``gateway_folder`` listens for its operator."""
    return gateway_folder / OPERATOR_SOCKET


def fetch_session_bundle(path: Path, session: str) -> bytes:
    """The answer to ``GET /v1/sessions/{id}/bundle``. Blocks for at most some seconds.

    Raises:
        GatewayUnreachable: no gateway is there, or it does not know the session.
        SessionBundleTooLarge: it has more records than a single bundle holds.
    """
    target = f"/v1/sessions/{session}/bundle"
    try:
        answer = request(path, "GET", target, limit=_LIMIT, timeout_s=_TIMEOUT_S)
    except ResponseTooLarge as error:
        raise SessionBundleTooLarge(session, limit=_LIMIT) from error
    except OSError as error:
        raise GatewayUnreachable("the gateway's operator socket does not answer") from error
    if answer.status != 200:
        raise GatewayUnreachable(
            "the gateway has no bundle of this session", found=f"HTTP status {answer.status}"
        )
    return answer.body
