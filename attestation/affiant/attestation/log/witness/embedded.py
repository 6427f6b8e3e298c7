"""Configures the witness that a gateway starts for itself where no other is named: its folder, policy and address.

``$AFFIANT_HOME/witness/``, 0700, holds

- ``witness.policy``: one witness named ``self`` and the quorum ``self`` (C2SP tlog-policy). Public; who needs it
  never opens the key;
- ``key`` and ``state.sqlite``: as ``affiant witness init`` makes them, Ed25519 alone;
- ``serve.lock``: held by the process that serves it.

The folder comes to be whole, by one rename, with whatever command needs it first: a trust file can name the witness
before it has ever run. It is never made anew beside a key: a witness whose state is lost is retired, and its successor
has another name, so that configuration and trust file change with it.

Its address is a name that no resolver knows (RFC 6761, ``.internal``): the gateway is given the Unix socket behind it,
so that the configuration depends neither on a port nor on a path.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from affiant.attestation.tlog.errors import NoteMalformed
from affiant.attestation.tlog.note_keys import CosignerKey, parse_vkey
from affiant.attestation.tlog.quorum import OWN_WITNESS_URL, SELF
from affiant.errors import ConfigurationError, StateError
from affiant.files import sync_folder, write_whole

__all__ = ["OwnWitness", "own_witness", "own_witness_folder"]

_KEY: Final = "key"
_STATE: Final = "state.sqlite"
_POLICY: Final = "witness.policy"
_MAX_POLICY: Final = 1024


@dataclass(frozen=True, slots=True)
class OwnWitness:
    """The witness of one state folder. Only :func:`own_witness` makes one.

    Args:
        policy: the text of a C2SP tlog-policy file that asks for it alone.
    """

    folder: Path
    policy: str

    @property
    def key(self) -> Path:
        """Its private key."""
        return self.folder / _KEY

    @property
    def state(self) -> Path:
        """What it has cosigned."""
        return self.folder / _STATE

    @property
    def lock(self) -> Path:
        """Held by the process that serves it."""
        return self.folder / "serve.lock"


def own_witness_folder(home: Path) -> Path:
    """Where it lies in the state folder ``home``."""
    return home / "witness"


def own_witness(home: Path, *, random_bytes: Callable[[int], bytes]) -> OwnWitness:
    """The witness of the state folder ``home``; made where there is none.

    Raises:
        ``witness.state_lost``: something of it is missing.
        ``witness.settings``: it cannot be made or read, or its policy was not written here.
    """
    folder = own_witness_folder(home)
    try:
        if not folder.exists():
            _make(home, folder, random_bytes)
        for name in (_KEY, _STATE, _POLICY):
            if not (folder / name).exists():
                raise StateError(
                    "a part of the gateway's own witness is missing",
                    where=str(folder / name),
                    hint=f"It is retired: mv {folder} {folder}.retired; the next command makes another, and trust "
                    "files are to be written anew with `affiant platform trust`",
                    code="witness.state_lost",
                )
        return OwnWitness(folder, _read_policy(folder / _POLICY))
    except OSError as error:
        raise ConfigurationError(
            "the gateway's own witness cannot be used",
            where=str(folder),
            found=error.strerror,
            code="witness.settings",
        ) from error


def _make(home: Path, folder: Path, random_bytes: Callable[[int], bytes]) -> None:
    """Make it beside its place and rename it; a second process finds that of the first."""
    from affiant.attestation.log.witness.create import make_witness  # noqa: PLC0415 - once for each state folder
    from affiant.attestation.log.witness.keys import make_keys  # noqa: PLC0415 - as above

    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(dir=home, prefix=".witness-"))
    try:
        keys = make_keys(f"{random_bytes(16).hex()}.witness.affiant.invalid", ("ed25519",), random_bytes)
        (vkey,) = (each.vkey() for each in keys.verifiers())
        make_witness(keys, draft / _KEY, draft / _STATE)
        write_whole(draft / _POLICY, _policy(vkey).encode("ascii"))
        _take_place(draft, folder)
        sync_folder(home)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _take_place(draft: Path, folder: Path) -> None:
    try:
        draft.rename(folder)
    except OSError:  # rename(2): ENOTEMPTY or EEXIST where another process was faster
        if not folder.exists():
            raise


def _policy(vkey: str) -> str:
    return f"witness {SELF} {vkey} {OWN_WITNESS_URL}\nquorum {SELF}\n"


def _read_policy(path: Path) -> str:
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
        text = file.read(_MAX_POLICY).decode("ascii", "replace")
    words = text.split(" ")
    vkey = words[2] if len(words) > 2 else ""
    try:
        written_here = text == _policy(vkey) and isinstance(parse_vkey(vkey), CosignerKey)
    except NoteMalformed:
        written_here = False
    if not written_here:
        raise ConfigurationError(
            "not the policy of a gateway's own witness", where=str(path), code="witness.settings"
        )
    return text
