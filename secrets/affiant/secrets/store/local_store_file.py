"""The local store on disk: two files that no other user may read, changed under a lock and all at once.

``store`` holds the sealed secrets, ``key`` the 32 bytes that open it (absent with a passphrase), ``lock`` is
held by the process that changes the store. Reading goes through a file descriptor that was checked: a regular file, of
this user (or root), without any right for group and others. Writing makes a new file (``O_EXCL``, 0600),
flushes it, and renames it over the old one; a crash leaves the old store or the new one.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from affiant.errors import ConfigurationError
from affiant.secrets.names.errors import LocalStoreLocked
from affiant.secrets.names.value import SecretValue
from affiant.secrets.store.local_store import (
    KEY_BYTES,
    MAX_STORE_BYTES,
    KeyFileKey,
    PassphraseKey,
    StoredSecret,
    StoreKey,
    open_store,
    seal_store,
    wants_passphrase,
)
from affiant.secrets.store.private_files import open_private_file, read_private_descriptor

__all__ = ["LocalStoreFile"]

_PRIVATE: Final = 0o600


class LocalStoreFile:
    """The store in one folder.

    Args:
        folder: made when the first secret is set, its parent too (0700 both).
        random_bytes: a source of cryptographic randomness.
        ask_passphrase: asks the person at the terminal; called only for a store that is opened by a passphrase.
    """

    def __init__(
        self,
        folder: Path,
        *,
        random_bytes: Callable[[int], bytes],
        ask_passphrase: Callable[[], bytes] | None = None,
    ) -> None:
        self.path = folder / "store"
        self.key_path = folder / "key"
        self._lock_path = folder / "lock"
        self._random_bytes = random_bytes
        self._ask_passphrase = ask_passphrase

    def read(self) -> Mapping[str, StoredSecret]:
        """What the store holds; nothing, if it does not exist yet."""
        data = self._data()
        return {} if data is None else open_store(data, key=self._key(data))

    def set(self, name: str, value: SecretValue, *, with_passphrase: bool = False) -> StoredSecret:
        """Keep ``value`` under ``name``, in place of an earlier one.

        Args:
            with_passphrase: a store that is made now is opened by a passphrase, not by a key file.
        """
        with self._locked():
            data = self._data()
            if with_passphrase and data is not None and not wants_passphrase(data):
                raise ConfigurationError(
                    "the store exists already, and is opened by its key file", code="store.key"
                )
            key = self._new_key(with_passphrase) if data is None else self._key(data)
            secrets = {} if data is None else dict(open_store(data, key=key))
            before = secrets.get(name)
            secrets[name] = StoredSecret(value, 1 if before is None else before.version + 1)
            self._write(self.path, seal_store(secrets, key=key, random_bytes=self._random_bytes))
            return secrets[name]

    def remove(self, name: str) -> None:
        """Forget ``name``.

        Raises:
            ``secret.not_found``: there is no such name.
        """
        with self._locked():
            data = self._data()
            key = None if data is None else self._key(data)
            secrets = {} if data is None or key is None else dict(open_store(data, key=key))
            if key is None or secrets.pop(name, None) is None:
                raise ConfigurationError(
                    "no such secret in the local store", found=name, code="secret.not_found"
                )
            self._write(self.path, seal_store(secrets, key=key, random_bytes=self._random_bytes))

    def _data(self) -> bytes | None:
        try:
            descriptor = open_private_file(self.path)
        except FileNotFoundError:
            return None
        try:
            return read_private_descriptor(descriptor, limit=MAX_STORE_BYTES)
        finally:
            os.close(descriptor)

    def _key(self, data: bytes) -> StoreKey:
        if wants_passphrase(data):
            return PassphraseKey(self._passphrase())
        try:
            descriptor = open_private_file(self.key_path)
        except FileNotFoundError as error:
            raise ConfigurationError(
                "the store's key file is missing",
                expected=self.key_path.name,
                hint="Restore it from a backup",
                code="store.key",
            ) from error
        try:
            return KeyFileKey(read_private_descriptor(descriptor, limit=KEY_BYTES))
        finally:
            os.close(descriptor)

    def _new_key(self, with_passphrase: bool) -> StoreKey:  # noqa: FBT001 - private
        if with_passphrase:
            return PassphraseKey(self._passphrase())
        if not self.key_path.exists():
            self._write(self.key_path, self._random_bytes(KEY_BYTES))
        descriptor = open_private_file(self.key_path)
        try:
            return KeyFileKey(read_private_descriptor(descriptor, limit=KEY_BYTES))
        finally:
            os.close(descriptor)

    def _passphrase(self) -> bytes:
        if self._ask_passphrase is None:
            raise ConfigurationError(
                "the store is opened by a passphrase, and there is no terminal to ask for it",
                code="store.key",
            )
        return self._ask_passphrase()

    def _write(self, path: Path, data: bytes) -> None:
        fresh = path.with_name(f".{path.name}.{self._random_bytes(8).hex()}")
        descriptor = os.open(
            fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, _PRIVATE
        )
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            fresh.rename(path)
        except BaseException:
            fresh.unlink(missing_ok=True)
            raise
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        folder = self.path.parent
        folder.parent.mkdir(
            mode=0o700, parents=True, exist_ok=True
        )  # the state folder: no other user enters it
        folder.mkdir(mode=0o700, exist_ok=True)
        descriptor = os.open(self._lock_path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, _PRIVATE)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise LocalStoreLocked("another process is changing the store", hint="Try again") from error
            yield
        finally:
            os.close(descriptor)
