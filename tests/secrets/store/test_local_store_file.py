import fcntl
import os
import shutil
from pathlib import Path

import pytest
from tests.raising import raises_code

from affiant.errors import AffiantError, UnreachableError
from affiant.secrets.names.errors import LocalStoreLocked
from affiant.secrets.names.value import SecretValue
from affiant.secrets.store.local_store import KeyKind, KeyringKey
from affiant.secrets.store.local_store_file import LocalStoreFile
from affiant.secrets.store.private_files import open_private_file, read_private_descriptor

VALUE = b"ghp_9sX2kQ7vLm4TzR1bYwE6"


@pytest.fixture
def store(tmp_path: Path) -> LocalStoreFile:
    return LocalStoreFile(tmp_path / "home" / "secrets", random_bytes=os.urandom)


def test_secrets_are_set_again_and_removed(store: LocalStoreFile) -> None:
    assert store.read() == {}
    assert store.set("A", SecretValue(VALUE)).version == 1
    assert store.set("B", SecretValue(VALUE)).version == 1
    assert store.set("A", SecretValue(VALUE[::-1])).version == 2
    assert {name: entry.version for name, entry in store.read().items()} == {"A": 2, "B": 1}
    assert store.read()["A"].value.reveal() == VALUE[::-1]
    store.remove("A")
    assert set(store.read()) == {"B"}
    with raises_code("secret.not_found"):
        store.remove("A")


def test_files_are_private_and_nothing_is_left_over(store: LocalStoreFile) -> None:
    store.set("A", SecretValue(VALUE))
    store.set("A", SecretValue(VALUE))
    folder = store.path.parent
    assert sorted(path.name for path in folder.iterdir()) == ["key", "lock", "store"]
    assert folder.stat().st_mode & 0o777 == folder.parent.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
    assert not any(VALUE in path.read_bytes() for path in folder.iterdir())


@pytest.mark.parametrize("name", ["store", "key"])
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o666])
def test_a_file_that_others_reach_is_refused(store: LocalStoreFile, name: str, mode: int) -> None:
    store.set("A", SecretValue(VALUE))
    (store.path.parent / name).chmod(mode)
    with raises_code("store.permissions"):
        store.read()


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_another_user_is_refused(store: LocalStoreFile) -> None:
    store.set("A", SecretValue(VALUE))
    os.chown(store.path, 65534, 65534)
    with raises_code("store.permissions", match="another user"):
        store.read()


def test_links_folders_and_pipes_are_refused(store: LocalStoreFile, tmp_path: Path) -> None:
    store.set("A", SecretValue(VALUE))
    moved = tmp_path / "moved"
    store.path.rename(moved)
    store.path.symlink_to(moved)
    with raises_code("store.permissions"):
        store.read()
    store.path.unlink()
    os.mkfifo(store.path, 0o600)
    with raises_code("store.permissions"):
        store.read()
    store.path.unlink()
    store.path.mkdir(0o700)
    with raises_code("store.permissions"):
        store.read()


def test_a_missing_or_wrong_key_file_is_refused(store: LocalStoreFile) -> None:
    store.set("A", SecretValue(VALUE))
    key = store.key_path.read_bytes()
    store.key_path.write_bytes(os.urandom(32))
    with raises_code("store.authentic"):
        store.read()
    store.key_path.write_bytes(key + b"x")
    with raises_code("store.key"):
        store.read()
    store.key_path.unlink()
    with raises_code("store.key"):
        store.read()


def test_a_second_writer_is_refused_while_the_first_writes(store: LocalStoreFile) -> None:
    store.set("A", SecretValue(VALUE))
    with (store.path.parent / "lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(LocalStoreLocked) as refusal:
            store.set("B", SecretValue(VALUE))
    assert refusal.value.retryable
    assert set(store.read()) == {"A"}


def test_a_failed_write_leaves_the_old_store(store: LocalStoreFile, monkeypatch: pytest.MonkeyPatch) -> None:
    store.set("A", SecretValue(VALUE))
    before = store.path.read_bytes()

    def full_disk(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OSError, match="No space"):
        store.set("B", SecretValue(VALUE))
    assert store.path.read_bytes() == before
    assert sorted(path.name for path in store.path.parent.iterdir()) == ["key", "lock", "store"]


def test_a_passphrase_store_asks_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("affiant.secrets.store.local_store._SCRYPT", (14, 8, 1))
    asked: list[bool] = []

    def ask(new: bool) -> bytes:
        asked.append(new)
        return b"correct horse battery"

    store = LocalStoreFile(tmp_path, random_bytes=os.urandom, ask_passphrase=ask)
    store.set("A", SecretValue(VALUE), kind=KeyKind.PASSPHRASE)
    assert not store.key_path.exists()
    assert store.read()["A"].value.reveal() == VALUE
    assert asked == [True, False]
    with raises_code("store.key"):
        LocalStoreFile(tmp_path, random_bytes=os.urandom).read()


class MemoryKeyring:
    """A keyring in memory: what the interface promises, and no more."""

    def __init__(self) -> None:
        self.keys: dict[Path, bytes] = {}

    def read(self, folder: Path) -> bytes:
        return self.keys[folder]

    def keep(self, folder: Path, key: bytes) -> None:
        self.keys[folder] = key

    def forget(self, folder: Path) -> None:
        del self.keys[folder]


def copied(store: LocalStoreFile, to: Path) -> LocalStoreFile:
    """What a thief of the folder has."""
    shutil.copytree(store.path.parent, to)
    return LocalStoreFile(to, random_bytes=os.urandom, keyring=MemoryKeyring())


@pytest.mark.parametrize("kind", [KeyKind.PASSPHRASE, KeyKind.KEYRING])
def test_a_copied_folder_opens_until_it_is_protected_and_not_from_then_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: KeyKind
) -> None:
    monkeypatch.setattr("affiant.secrets.store.local_store._SCRYPT", (14, 8, 1))
    store = LocalStoreFile(
        tmp_path / "secrets",
        random_bytes=os.urandom,
        ask_passphrase=lambda _new: b"correct horse battery",
        keyring=MemoryKeyring(),
    )
    with raises_code("secret.not_found"):
        store.protect(kind)
    store.set("A", SecretValue(VALUE))
    assert copied(store, tmp_path / "before").read()["A"].value.reveal() == VALUE
    store.protect(kind)
    assert (store.kind, store.key_path.exists()) == (kind, False)
    assert store.read()["A"].value.reveal() == VALUE
    with pytest.raises((AffiantError, KeyError)):
        copied(store, tmp_path / "after").read()
    store.set("B", SecretValue(VALUE))
    store.protect(KeyKind.FILE)
    assert sorted(copied(store, tmp_path / "again").read()) == ["A", "B"]
    with raises_code("store.key"):
        store.protect(KeyKind.FILE)


def test_a_key_is_forgotten_by_the_keyring_once_nothing_opens_by_it(tmp_path: Path) -> None:
    keyring = MemoryKeyring()
    store = LocalStoreFile(tmp_path / "secrets", random_bytes=os.urandom, keyring=keyring)
    store.set("A", SecretValue(VALUE), kind=KeyKind.KEYRING)
    assert (len(keyring.keys), store.key_path.exists()) == (1, False)
    assert type(store.key()) is KeyringKey
    store.protect(KeyKind.FILE)
    assert keyring.keys == {}
    with raises_code("store.key"):
        LocalStoreFile(tmp_path / "secrets", random_bytes=os.urandom).protect(KeyKind.KEYRING)


@pytest.mark.parametrize("kind", [KeyKind.PASSPHRASE, KeyKind.KEYRING])
def test_a_key_file_that_a_kill_left_behind_goes_with_the_next_write_and_opens_nothing_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: KeyKind
) -> None:
    monkeypatch.setattr("affiant.secrets.store.local_store._SCRYPT", (14, 8, 1))
    store = LocalStoreFile(
        tmp_path / "secrets",
        random_bytes=os.urandom,
        ask_passphrase=lambda _new: b"correct horse battery",
        keyring=MemoryKeyring(),
    )
    store.set("A", SecretValue(VALUE))
    key = store.key_path.read_bytes()

    def protected_and_killed() -> None:
        """As a kill behind the renaming of the store leaves the folder."""
        if store.kind is not kind:
            store.protect(kind)
        store.key_path.write_bytes(key)
        store.key_path.chmod(0o600)

    protected_and_killed()
    store.set("B", SecretValue(VALUE))
    assert not store.key_path.exists()
    protected_and_killed()
    store.remove("B")
    assert not store.key_path.exists()
    protected_and_killed()
    store.protect(KeyKind.FILE)
    assert store.key_path.read_bytes() != key
    assert set(store.read()) == {"A"}


def test_a_key_file_without_a_store_opens_the_store_that_is_made_then(store: LocalStoreFile) -> None:
    """A backup of the store may open by it."""
    store.set("A", SecretValue(VALUE))
    key = store.key_path.read_bytes()
    store.path.unlink()
    store.set("A", SecretValue(VALUE))
    assert store.key_path.read_bytes() == key


class LockedKeyring(MemoryKeyring):
    """One that was locked once it had given the key out."""

    def forget(self, folder: Path) -> None:
        raise UnreachableError("the system keyring stays locked", code="store.keyring")


def test_a_store_is_encrypted_anew_also_where_the_keyring_does_not_forget_its_key(tmp_path: Path) -> None:
    keyring = LockedKeyring()
    store = LocalStoreFile(tmp_path / "secrets", random_bytes=os.urandom, keyring=keyring)
    store.set("A", SecretValue(VALUE), kind=KeyKind.KEYRING)
    assert store.protect(KeyKind.FILE) is False
    assert (store.kind, set(store.read())) == (KeyKind.FILE, {"A"})
    assert len(keyring.keys) == 1


@pytest.mark.parametrize(
    ("kind", "message", "hint"),
    [
        (KeyKind.FILE, "key file", "backup"),
        (KeyKind.PASSPHRASE, "passphrase", "--secret-passphrase-file"),
        (KeyKind.KEYRING, "keyring", "desktop session"),
    ],
)
def test_what_is_missing_to_open_a_store_is_named_and_how_to_give_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: KeyKind, message: str, hint: str
) -> None:
    monkeypatch.setattr("affiant.secrets.store.local_store._SCRYPT", (14, 8, 1))
    LocalStoreFile(
        tmp_path / "secrets",
        random_bytes=os.urandom,
        ask_passphrase=lambda _new: b"correct horse battery",
        keyring=MemoryKeyring(),
    ).set("A", SecretValue(VALUE), kind=kind)
    store = LocalStoreFile(tmp_path / "secrets", random_bytes=os.urandom)
    store.key_path.unlink(missing_ok=True)
    for needs_key in (store.read, store.key, store.descriptors):
        with pytest.raises(AffiantError) as refusal:
            needs_key()
        assert refusal.value.code == "store.key"
        assert message in refusal.value.message and hint in str(refusal.value.hint)
        assert kind is KeyKind.PASSPHRASE or "passphrase" not in str(refusal.value)


def test_a_key_file_store_does_not_turn_into_a_passphrase_store_by_itself(store: LocalStoreFile) -> None:
    store.set("A", SecretValue(VALUE))
    with raises_code("store.key"):
        store.set("B", SecretValue(VALUE), kind=KeyKind.PASSPHRASE)


def test_a_descriptor_is_read_from_its_beginning(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"abcdef")
    path.chmod(0o600)
    descriptor = open_private_file(path)
    try:
        os.read(descriptor, 3)
        assert read_private_descriptor(descriptor, limit=6) == b"abcdef"
        with raises_code("store.key"):
            read_private_descriptor(descriptor, limit=5)
    finally:
        os.close(descriptor)
