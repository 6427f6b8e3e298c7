"""The log's private key, in a file: on a development machine, and said so in the keyset (``kept: file``).

A log goes on across boots, so that its key must outlive the process. On hardware it is sealed to the measured image, or
held by a TD of the log's own (trust rules, 4); neither exists here yet. Anyone who can read this file can sign
other checkpoints under this origin: witnesses would show it. Its public half is beside it, in ``vkey``, for those
that are to witness the log.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from affiant.attestation.encoding.binary_text import b64u, from_b64u
from affiant.attestation.encoding.canonical import canonical, parse_object
from affiant.attestation.tlog.note_signing import LogSigner
from affiant.errors import AffiantError
from affiant.files import ExposedFile, read_private, write_whole
from affiant.folders import make_private
from affiant.gateway.wire.errors import LogDamaged, LogUnavailable

__all__ = ["KEPT", "load_log_signer", "read_log_vkey"]

KEPT: Final = "file"
_TYP: Final = "affiant-log-key/1"
_VKEY: Final = "vkey"
_MAX: Final = 4096


def load_log_signer(folder: Path, origin: str) -> LogSigner:
    """The key of the log ``origin`` in ``folder``; made, 0600, where there is neither key nor log.

    Raises:
        LogDamaged: there is a log and no key of it, or the file is of another log, form or owner.
        LogUnavailable: it cannot be read or written.
    """
    make_private(folder)
    path = folder / "key.json"
    try:
        if not path.exists():
            if (folder / "checkpoint").exists():
                raise LogDamaged(
                    "the log's key is missing",
                    where=str(path),
                    hint="Bring it back. Without it the log cannot go on; a new one needs another origin.",
                )
            _write(path, origin)
        signer = _read(path, origin)
        if read_log_vkey(folder) != signer.verifier.vkey():
            write_whole(folder / _VKEY, f"{signer.verifier.vkey()}\n".encode("ascii"))
        return signer
    except OSError as error:
        raise LogUnavailable("the log's key cannot be used", where=str(path), found=error.strerror) from error


def read_log_vkey(folder: Path) -> str | None:
    """The public key of the log in ``folder``, if its gateway has written it."""
    try:
        return (folder / _VKEY).read_bytes()[:_MAX].decode("ascii", "replace").strip()
    except FileNotFoundError:
        return None


def _read(path: Path, origin: str) -> LogSigner:
    try:
        data = read_private(path, limit=_MAX)
    except ExposedFile as error:
        raise LogDamaged("others can read the log's key", where=str(path), expected="mode 0600") from error
    try:
        match parse_object(data.rstrip(b"\n"), limit=_MAX):
            case {"typ": "affiant-log-key/1", "origin": str() as named, "ed25519": str() as text, **rest} if (
                not rest
            ):
                private = Ed25519PrivateKey.from_private_bytes(from_b64u(text, size=32))
            case _:
                raise LogDamaged("not the key of a log", where=str(path), expected=_TYP)
    except LogDamaged:
        raise
    except AffiantError:
        raise LogDamaged(
            "not the key of a log", where=str(path), expected=_TYP
        ) from None  # it may quote the key
    if named != origin:
        raise LogDamaged(
            "the key of another log", where=str(path), expected=repr(origin), found=repr(named[:80])
        )
    return LogSigner(origin, private)


def _write(path: Path, origin: str) -> None:
    private = Ed25519PrivateKey.generate().private_bytes_raw()
    data = canonical({"typ": _TYP, "origin": origin, "ed25519": b64u(private)}) + b"\n"
    write_whole(path, data, mode=0o600)
