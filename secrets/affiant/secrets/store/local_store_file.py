"""The local store on disk: two files that no other user may read, changed under a lock and all at once.

``store`` holds the sealed secrets, ``key`` the 32 bytes that open it (absent where a passphrase or the system keyring
does), ``lock`` is held by the process that changes the store. Reading goes through a file descriptor that was checked:
a regular file, of this user (or root), without any right for group and others. Writing makes a new file (``O_EXCL``,
0600), flushes it, and renames it over the old one; a crash leaves the old store or the new one.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Protocol, assert_never

from affiant.errors import AffiantError, ConfigurationError
from affiant.secrets.names.errors import LocalStoreLocked
from affiant.secrets.names.value import SecretValue
from affiant.secrets.store.local_store import (
    KEY_BYTES,
    MAX_STORE_BYTES,
    KeyFileKey,
    KeyKind,
    KeyringKey,
    PassphraseKey,
    StoredSecret,
    StoreKey,
    key_kind,
    kind_of,
    open_store,
    seal_store,
)
from affiant.secrets.store.private_files import open_private_file, read_private_descriptor

__all__ = ["Keyring", "LocalStoreFile", "passphrase_in"]

_MISSING: Final[Mapping[KeyKind, tuple[str, str]]] = {
    KeyKind.FILE: ("the store's key file is missing", "Restore it from a backup"),
    KeyKind.PASSPHRASE: (
        "the store is opened by a passphrase, and no passphrase was given",
        "Run the command at a terminal, or give --secret-passphrase-file",
    ),
    KeyKind.KEYRING: (
        "the store is opened by a key in the system keyring, and the keyring returned no key",
        "Run the command in the desktop session of the user whose keyring holds the key",
    ),
}
"""By what opens a store: what happened where it is missing, and what to do."""
_PRIVATE: Final = 0o600
_MAX_PASSPHRASE_FILE: Final = 1026


def passphrase_in(path: Path) -> bytes:
    """The passphrase in a private file (0600), without the line's end.

    Raises:
        ``store.permissions``: others can read it. ``store.key``: it is not there, or too long.
    """
    try:
        return _private_file(path, limit=_MAX_PASSPHRASE_FILE).removesuffix(b"\n").removesuffix(b"\r")
    except FileNotFoundError as error:
        raise ConfigurationError(
            "there is no such file of a passphrase", where=str(path), code="store.key"
        ) from error


class Keyring(Protocol):
    """Keeps the key of the store in a folder somewhere else (``SecretService``)."""

    def read(self, folder: Path) -> bytes:
        """The key."""
        ...

    def keep(self, folder: Path, key: bytes) -> None:
        """Keep a key, in place of an earlier one."""
        ...

    def forget(self, folder: Path) -> None:
        """Remove the key."""
        ...


class LocalStoreFile:
    """The store in one folder.

    Args:
        folder: made when the first secret is set, its parent too (0700 both).
        random_bytes: a source of cryptographic randomness.
        ask_passphrase: asks the person at the terminal for the passphrase, or for a new one (True); called only for a
            store that is opened by a passphrase.
        keyring: where the key of a store is that is opened by one from the system keyring.
    """

    def __init__(
        self,
        folder: Path,
        *,
        random_bytes: Callable[[int], bytes],
        ask_passphrase: Callable[[bool], bytes] | None = None,
        keyring: Keyring | None = None,
    ) -> None:
        self._folder = folder
        self.path = folder / "store"
        self.key_path = folder / "key"
        self._lock_path = folder / "lock"
        self._random_bytes = random_bytes
        self._ask_passphrase = ask_passphrase
        self._keyring = keyring

    def read(self) -> Mapping[str, StoredSecret]:
        """What the store holds; nothing, if it does not exist yet."""
        data = self._data()
        return {} if data is None else open_store(data, key=self._key(data))

    @property
    def kind(self) -> KeyKind | None:
        """What opens the store; None: it does not exist yet."""
        data = self._data()
        return None if data is None else key_kind(data)

    def key(self) -> StoreKey | None:
        """What opens the store, asked for where it must be, and tried; None: the store does not exist yet.

        Raises:
            ``store.authentic``: it does not open the store.
        """
        data = self._data()
        if data is None:
            return None
        key = self._key(data)
        open_store(data, key=key)  # for the error alone
        return key

    def descriptors(self, key: StoreKey | None = None) -> tuple[int, int] | None:
        """The store and what opens it, for a process whose user can open neither; None: there is no store.

        The caller closes both.

        Args:
            key: what opens a store that has no key file.

        Raises:
            ``store.key``: that is missing, or of another kind.
        """
        try:
            store = open_private_file(self.path)
        except FileNotFoundError:
            return None
        try:
            data = read_private_descriptor(store, limit=MAX_STORE_BYTES)
            if key_kind(data) is KeyKind.FILE:
                return store, self._opened_key_file()
            if key is None or kind_of(key) is not key_kind(data):
                raise _key_missing(key_kind(data))
            return store, _memory_file(key.passphrase if isinstance(key, PassphraseKey) else key.key)
        except BaseException:
            os.close(store)
            raise

    def set(self, name: str, value: SecretValue, *, kind: KeyKind | None = None) -> StoredSecret:
        """Keep ``value`` under ``name``, in place of an earlier one.

        Args:
            kind: what opens a store that is made now; None: a key file.
        """
        with self._locked():
            data = self._data()
            if data is not None and kind not in (None, key_kind(data)):
                raise ConfigurationError(
                    "the store exists already, and is opened otherwise",
                    hint="Change that with: affiant secret protect",
                    code="store.key",
                )
            key = self._first_key(kind or KeyKind.FILE) if data is None else self._key(data)
            secrets = {} if data is None else dict(open_store(data, key=key))
            before = secrets.get(name)
            secrets[name] = StoredSecret(value, 1 if before is None else before.version + 1)
            self._write_store(secrets, key)
            return secrets[name]

    def protect(self, kind: KeyKind) -> bool:
        """Have the store be opened by ``kind`` from now on, and remove what opened it before.

        Copies of the store that were made before still open by that.

        Returns:
            Whether that is removed. The store is encrypted anew even if the system keyring does not remove its key.

        Raises:
            ``secret.not_found``: there is no store. ``store.key``: it is opened so already, by a key that has no copy.
        """
        with self._locked():
            data = self._data()
            if data is None:
                raise ConfigurationError(
                    "there is no local store",
                    hint="Make one with: affiant secret set NAME",
                    code="secret.not_found",
                )
            before = key_kind(data)
            if before is kind and kind is not KeyKind.PASSPHRASE:
                raise ConfigurationError("the store is opened so already", code="store.key")
            secrets = open_store(data, key=self._key(data))
            self._write_store(secrets, self._new_key(kind))
            if before is KeyKind.KEYRING:
                try:
                    self._system_keyring().forget(self._folder)
                except AffiantError:
                    return False
            return True

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
            self._write_store(secrets, key)

    def _data(self) -> bytes | None:
        try:
            return _private_file(self.path, limit=MAX_STORE_BYTES)
        except FileNotFoundError:
            return None

    def _key(self, data: bytes) -> StoreKey:
        match key_kind(data):
            case KeyKind.PASSPHRASE:
                return PassphraseKey(self._passphrase(new=False))
            case KeyKind.KEYRING:
                return KeyringKey(self._system_keyring().read(self._folder))
            case KeyKind.FILE:
                return self._file_key()

    def _file_key(self) -> KeyFileKey:
        descriptor = self._opened_key_file()
        try:
            return KeyFileKey(read_private_descriptor(descriptor, limit=KEY_BYTES))
        finally:
            os.close(descriptor)

    def _opened_key_file(self) -> int:
        try:
            return open_private_file(self.key_path)
        except FileNotFoundError as error:
            raise _key_missing(KeyKind.FILE) from error

    def _first_key(self, kind: KeyKind) -> StoreKey:
        """The key of a store that is made now: a key file that is there already may open a backup."""
        return self._file_key() if kind is KeyKind.FILE and self.key_path.exists() else self._new_key(kind)

    def _new_key(self, kind: KeyKind) -> StoreKey:
        match kind:
            case KeyKind.PASSPHRASE:
                return PassphraseKey(self._passphrase(new=True))
            case KeyKind.KEYRING:
                key = KeyringKey(self._random_bytes(KEY_BYTES))
                self._system_keyring().keep(self._folder, key.key)
                return key
            case KeyKind.FILE:
                self._write(self.key_path, self._random_bytes(KEY_BYTES))
                return self._file_key()
            case _:
                assert_never(kind)

    def _passphrase(self, *, new: bool) -> bytes:
        if self._ask_passphrase is None:
            raise _key_missing(KeyKind.PASSPHRASE)
        return self._ask_passphrase(new)

    def _system_keyring(self) -> Keyring:
        if self._keyring is None:
            raise _key_missing(KeyKind.KEYRING)
        return self._keyring

    def _write_store(self, secrets: Mapping[str, StoredSecret], key: StoreKey) -> None:
        """Seal and write the store; remove a key file that does not open it, such as one that a crash left behind."""
        self._write(self.path, seal_store(secrets, key=key, random_bytes=self._random_bytes))
        if kind_of(key) is not KeyKind.FILE:
            self.key_path.unlink(missing_ok=True)

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


def _key_missing(kind: KeyKind) -> ConfigurationError:
    message, hint = _MISSING[kind]
    return ConfigurationError(message, hint=hint, code="store.key")


def _private_file(path: Path, *, limit: int) -> bytes:
    descriptor = open_private_file(path)
    try:
        return read_private_descriptor(descriptor, limit=limit)
    finally:
        os.close(descriptor)


def _memory_file(data: bytes) -> int:
    descriptor = os.memfd_create("affiant-secret-key", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, data)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor
