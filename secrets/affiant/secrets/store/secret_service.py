"""The system keyring: the key of a local store, kept by the desktop's Secret Service and not in a file.

It speaks the freedesktop Secret Service API over the session bus (GNOME Keyring, KWallet, KeePassXC), by
``SecretStorage``. A copy of the state folder then opens nothing: the keyring's own file is sealed by the user's login
password.

1. only the default collection counts: the one called "session" is not kept, and another program may own any other;
2. a locked collection is asked to be unlocked, which shows the desktop's own prompt; dismissed, or not answered in two
   minutes, nothing is opened;
3. an item is known by the folder of its store; two of them, or a key of another length, are an error;
4. where there is no service, no library or no bus, the error says so. There is no other place for the key.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from affiant.errors import ConfigurationError, UnreachableError

if TYPE_CHECKING:
    import secretstorage

__all__ = ["SecretService"]

_ANSWERED_WITHIN_S: Final = 120.0


class SecretService:
    """The Secret Service of the user's session.

    Args:
        bus: the address of the session bus (``$DBUS_SESSION_BUS_ADDRESS``); None: there is none.
    """

    def __init__(self, bus: str | None) -> None:
        self._bus = bus

    def read(self, folder: Path) -> bytes:
        """The key of the store in ``folder``.

        Raises:
            ``store.keyring``: the keyring cannot be reached, stays locked, or holds no such key.
        """
        with self._collection() as collection:
            items = list(collection.search_items(_attributes(folder)))
            if len(items) != 1:
                raise _unreachable(
                    "the system keyring does not hold the key of this store",
                    found=f"{len(items)} keys for {folder}",
                    hint="A store that was moved or restored has its key under its former folder",
                )
            return bytes(items[0].get_secret())

    def keep(self, folder: Path, key: bytes) -> None:
        """Keep ``key`` for the store in ``folder``, in place of an earlier one; read back before this returns.

        Raises:
            ``store.keyring``: as :meth:`read`.
        """
        with self._collection() as collection:
            collection.create_item("Key of an affiant secret store", _attributes(folder), key, replace=True)
        if self.read(folder) != key:
            raise _unreachable("the system keyring did not keep the key")

    def forget(self, folder: Path) -> None:
        """Remove the key of the store in ``folder``.

        Raises:
            ``store.keyring``: as :meth:`read`.
        """
        with self._collection() as collection:
            for item in list(collection.search_items(_attributes(folder))):
                item.delete()

    @contextmanager
    def _collection(self) -> Iterator[secretstorage.Collection]:
        """The default collection, unlocked."""
        try:
            from jeepney import DBusErrorResponse  # noqa: PLC0415 - an extra
            from jeepney.io.blocking import open_dbus_connection  # noqa: PLC0415 - as above
            from secretstorage import get_collection_by_alias  # noqa: PLC0415 - as above
            from secretstorage.exceptions import SecretStorageException  # noqa: PLC0415 - as above
            from secretstorage.util import add_match_rules  # noqa: PLC0415 - as above
        except ImportError as error:
            raise ConfigurationError(
                "the system keyring needs a package that is not installed",
                expected="SecretStorage",
                hint="Install it with: pip install 'affiant[keyring]'",
                code="store.key",
            ) from error
        if self._bus is None:
            raise _unreachable(
                "there is no session bus, and so no system keyring",
                expected="DBUS_SESSION_BUS_ADDRESS, as a desktop sets it",
                hint="Root and services have none: use a passphrase or Vault there",
            )
        try:
            with closing(open_dbus_connection(bus=self._bus)) as connection:
                add_match_rules(connection)
                collection = get_collection_by_alias(connection, "default")
                if collection.is_locked() and collection.unlock(timeout=_ANSWERED_WITHIN_S):
                    raise _unreachable("the system keyring stays locked", hint="Unlock it, and try again")
                yield collection
        except (DBusErrorResponse, OSError, SecretStorageException, ValueError) as error:
            # OSError: a timeout among them. Not shown: what a service says is not ours to repeat.
            raise _unreachable(
                "the system keyring cannot be used",
                found=type(error).__name__,
                expected="a Secret Service with a default collection (GNOME Keyring, KWallet, KeePassXC)",
            ) from error


def _attributes(folder: Path) -> dict[str, str]:
    return {"application": "affiant", "store": str(folder.resolve())}


def _unreachable(message: str, **more: str) -> UnreachableError:
    return UnreachableError(message, code="store.keyring", **more)
