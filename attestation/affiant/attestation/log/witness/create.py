"""Creates a witness: its database first, then the key that names it, so that no key exists without its database."""

from __future__ import annotations

from pathlib import Path

from affiant.attestation.log.witness.keys import WitnessKeys
from affiant.attestation.log.witness.state import create_state
from affiant.errors import ConfigurationError, StateError
from affiant.files import write_whole

__all__ = ["make_witness"]


def make_witness(keys: WitnessKeys, key_path: Path, database: Path) -> None:
    """Write both, each 0600; nothing is overwritten.

    Raises:
        ``witness.exists``: one of them exists.
        ``witness.settings``: they cannot be written.
    """
    if key_path.exists() or key_path.is_symlink():
        raise StateError(
            "the key file exists already",
            where=str(key_path),
            hint="Nothing is overwritten: name another file.",
            code="witness.exists",
        )
    try:
        create_state(database, keys.identity)
        try:
            write_whole(key_path, keys.to_bytes(), mode=0o600, replace=False)
        except OSError:
            database.unlink(missing_ok=True)  # made just now, and of no use
            raise
    except FileExistsError as error:
        raise StateError("the key file exists already", where=str(key_path), code="witness.exists") from error
    except OSError as error:
        raise ConfigurationError(
            "the witness cannot be written",
            where=str(key_path.parent),
            found=error.strerror,
            code="witness.settings",
        ) from error
