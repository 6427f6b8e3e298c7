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
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from affiant.attestation.bundle.bundle import MAX_BUNDLE, Bundle
from affiant.attestation.bundle.period.archive_reader import PeriodBundle
from affiant.attestation.encoding.canonical import JSONError, canonical, parse_object
from affiant.attestation.records.receipt import receipt_hash
from affiant.errors import AffiantError, StateError
from affiant.printable import printable
from affiant.sandbox.base.errors import GatewayUnreachable, SessionBundleTooLarge
from affiant.sandbox.processes.home import OPENINGS_KEY, Home
from affiant.sandbox.session_state.bundle_out import (
    SealedBundle,
    close_in,
    close_of,
    open_bundle,
    parse_sealed_bundle,
    read_sealed_bundle,
    read_spooled,
    spooled_hashes,
    with_spooled,
    write_bundle,
)
from affiant.sandbox.session_state.session_folder import ARCHIVE, BUNDLE, RECORDS, SEALED
from affiant.sandbox.session_state.task_label import kept_label, with_label
from affiant.unix_http import OPERATOR_SOCKET, ResponseTooLarge, request

__all__ = [
    "Gathered",
    "export_archive",
    "fetch_sealed",
    "fetch_session_bundle",
    "gather",
    "gather_now",
    "gather_whole",
    "operator_socket",
]


@dataclass(frozen=True, slots=True)
class Gathered:
    """A session's bundle, written."""

    path: Path
    bundle: Bundle | None
    """None: it is a period archive."""
    closed: str | None
    """``why`` of its close; None: it has none."""
    added: int
    """Records that only the supervisor's journal has."""
    left_out: int
    """Such records beside a close that speaks for both sides, or beside an archive: they stay in the session's
    folder."""

    def receipts(self) -> Iterator[str]:
        """Each, one after another."""
        if self.bundle is not None:
            yield from self.bundle.receipts
            return
        with PeriodBundle(self.path) as archive:
            yield from archive.receipts()

    @property
    def in_order(self) -> bool:
        """Whether the session was closed while its supervisor could still speak for it."""
        return self.closed not in {None, "lost"}


def fetch_sealed(home: Home, session: str, *, most: int = MAX_BUNDLE) -> SealedBundle:
    """What the supervisor left, else what the running gateway of this state folder has. Blocks for some seconds.

    Args:
        most: bytes of it.

    Raises:
        GatewayUnreachable: the supervisor left none, and no gateway of this folder has it.
        SessionBundleTooLarge: it has more bytes.
        ``session.bundle``, BundleMalformed: it is not what it should be.
    """
    left = home.session(session) / SEALED
    if not left.exists():
        return parse_sealed_bundle(fetch_session_bundle(operator_socket(home.gateway), session, most=most))
    if left.lstat().st_size > most:
        raise SessionBundleTooLarge(session, limit=most)
    return read_sealed_bundle(left)


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


def gather_whole(
    home: Home,
    session: str,
    key: X25519PrivateKey,
    *,
    most: int = MAX_BUNDLE,
    within_s: float | None = None,
) -> Gathered:
    """Write what is at hand of ``session``: a single bundle, or an archive where that has more than ``most`` bytes.

    Args:
        within_s: so long an archive may take; None: as long as it takes.

    Raises:
        AffiantError: as of :func:`fetch_sealed`, :func:`gather` and :func:`export_archive`.
    """
    try:
        sealed = fetch_sealed(home, session, most=most)
    except SessionBundleTooLarge as error:
        return export_archive(home, session, error, within_s=within_s)
    return gather(home, session, sealed, key)


def export_archive(
    home: Home, session: str, because: SessionBundleTooLarge, *, within_s: float | None = None
) -> Gathered:
    """Have ``affiant bundle export`` write the session's archive, hidden values opened, into its folder.

    The store is that of the gateway of this state folder. The export holds no more than a segment of it in memory.

    Args:
        within_s: so long it may take; None: as long as it takes.

    Raises:
        ``session.bundle_too_large``: the export failed.
    """
    folder = home.session(session)
    path = folder / ARCHIVE
    with TemporaryDirectory(dir=folder, prefix=".archive-") as working:
        draft = Path(working) / ARCHIVE
        command = [sys.executable, "-I", "-m", "affiant", "bundle", "export", "--json"]
        command += ["--home", str(home.path), "--session", session, "--output", str(draft)]
        command += ["--openings", str(home.path / OPENINGS_KEY)]
        label = canonical({"disclosures": list(kept_label(folder))})
        command += ["--label", "-"]
        try:
            done = subprocess.run(command, input=label, capture_output=True, check=False, timeout=within_s)
        except subprocess.TimeoutExpired:
            because.found = f"no archive after {within_s:g} s"
            raise because from None
        if done.returncode != 0 or not draft.is_file():
            said = done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
            raise StateError(
                "a single bundle does not hold the session's records, and their export as an archive failed",
                where=because.where,
                found=printable(said, limit=300),
                hint=because.hint,
                code=because.code,
            ) from because
        draft.replace(path)
    gathered, known = Gathered(path=path, bundle=None, closed=None, added=0, left_out=0), set[str]()
    for sdjwt in gathered.receipts():
        known.add(receipt_hash(sdjwt.partition("~")[0]))
        gathered = replace(gathered, closed=gathered.closed or close_in(sdjwt, session))
    return replace(gathered, left_out=sum(rh not in known for rh in spooled_hashes(folder / RECORDS)))


def gather_now(home: Home, session: str, *, within_s: float | None = None) -> Gathered | None:
    """As :func:`gather_whole`, from what is at hand; None: it cannot be had now, or is malformed: recovering says
    which."""
    try:
        key = home.openings_key(random_bytes=secrets.token_bytes)
        return gather_whole(home, session, key, within_s=within_s)
    except AffiantError:
        return None


_TIMEOUT_S: Final = 10.0


def operator_socket(gateway_folder: Path) -> Path:
    """Where the gateway that keeps its store in ``gateway_folder`` listens for its operator."""
    return gateway_folder / OPERATOR_SOCKET


def fetch_session_bundle(path: Path, session: str, *, most: int) -> bytes:
    """The answer to ``GET /v1/sessions/{id}/bundle``, at most ``most`` bytes. Blocks for at most some seconds.

    Raises:
        GatewayUnreachable: no gateway is there, or it does not know the session.
        SessionBundleTooLarge: it has more records than a single bundle holds.
    """
    target = f"/v1/sessions/{session}/bundle"
    try:
        answer = request(path, "GET", target, limit=most, timeout_s=_TIMEOUT_S)
    except ResponseTooLarge as error:
        raise SessionBundleTooLarge(session, limit=most) from error
    except OSError as error:
        raise GatewayUnreachable("the gateway's operator socket does not answer") from error
    if answer.status == 409 and _names_too_large(answer.body):
        raise SessionBundleTooLarge(session, limit=most)
    if answer.status != 200:
        raise GatewayUnreachable(
            "the gateway has no bundle of this session", found=f"HTTP status {answer.status}"
        )
    return answer.body


def _names_too_large(body: bytes) -> bool:
    try:
        match parse_object(body, strict_form=False):
            case {"error": {"code": SessionBundleTooLarge.code}}:
                return True
    except JSONError:
        pass
    return False
