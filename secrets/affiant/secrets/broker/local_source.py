"""An opened local store, as a source of values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from affiant.errors import ConfigurationError
from affiant.secrets.names.source import LocalReference, Reference, ResolvedSecret
from affiant.secrets.store.local_store import MAX_STORE_BYTES, StoredSecret, open_store, store_key_from
from affiant.secrets.store.private_files import read_private_descriptor

__all__ = ["LocalSource"]

_MAX_KEY_BYTES: Final = 1024


class LocalSource:
    """An opened local store, as a source."""

    def __init__(self, secrets: Mapping[str, StoredSecret]) -> None:
        self._secrets = secrets

    @classmethod
    def from_descriptors(cls, store: int, key: int) -> LocalSource:
        """Open the store behind one descriptor by the key file (or passphrase) behind the other."""
        data = read_private_descriptor(store, limit=MAX_STORE_BYTES)
        material = read_private_descriptor(key, limit=_MAX_KEY_BYTES)
        return cls(open_store(data, key=store_key_from(data, material)))

    def resolve(self, reference: Reference) -> ResolvedSecret:
        """The value under a name.

        Raises:
            ``secret.not_found``: there is none.
        """
        entry = self._secrets.get(reference.name) if isinstance(reference, LocalReference) else None
        if entry is None:
            raise ConfigurationError(
                "no such secret in the local store",
                found=str(reference),
                hint="Keep it with: affiant secret set NAME",
                code="secret.not_found",
            )
        return ResolvedSecret(entry.value, str(entry.version))
