"""The keyring, by a real Secret Service (GNOME Keyring) on a session bus of the test's own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.raising import raises_code

from affiant.secrets.names.value import SecretValue
from affiant.secrets.store.local_store import KeyKind
from affiant.secrets.store.local_store_file import LocalStoreFile
from affiant.secrets.store.secret_service import SecretService

VALUE = b"ghp_9sX2kQ7vLm4TzR1bYwE6"
KEY = bytes(range(32))


@pytest.fixture(scope="module")
def bus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a session bus with an unlocked keyring; ends with the tests."""
    pytest.importorskip("secretstorage", reason="the extra 'keyring' is not installed")
    if not (shutil.which("dbus-daemon") and shutil.which("gnome-keyring-daemon")):
        pytest.skip("dbus-daemon or gnome-keyring-daemon is not installed (apt install gnome-keyring)")
    home = tmp_path_factory.mktemp("keyring")
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "XDG_DATA_HOME": f"{home}/data"}
    env["XDG_RUNTIME_DIR"] = str(home)
    bus = subprocess.Popen(
        ["dbus-daemon", "--session", "--nofork", "--print-address=1", f"--address=unix:path={home}/bus"],
        env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    assert bus.stdout is not None
    env["DBUS_SESSION_BUS_ADDRESS"] = address = bus.stdout.readline().strip()
    service = subprocess.Popen(
        ["gnome-keyring-daemon", "--foreground", "--unlock", "--components=secrets"],
        env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    assert service.stdin is not None and service.stdout is not None
    service.stdin.write(b"password of the login keyring")
    service.stdin.close()
    service.stdout.readline()  # once it serves
    yield address
    for process in (service, bus):
        process.terminate()
        process.wait(10)
        process.stdout.close()


def test_a_key_is_kept_for_its_folder_until_it_is_forgotten(bus: str, tmp_path: Path) -> None:
    service = SecretService(bus)
    service.keep(tmp_path, bytes(32))
    service.keep(tmp_path, KEY)
    assert service.read(tmp_path) == KEY
    with raises_code("store.keyring", match="0 keys for"):
        service.read(tmp_path / "other")
    service.forget(tmp_path)
    with raises_code("store.keyring"):
        service.read(tmp_path)


def test_a_store_is_opened_by_the_keyring_and_its_copy_is_not(bus: str, tmp_path: Path) -> None:
    store = LocalStoreFile(tmp_path / "secrets", random_bytes=os.urandom, keyring=SecretService(bus))
    store.set("A", SecretValue(VALUE), kind=KeyKind.KEYRING)
    assert store.read()["A"].value.reveal() == VALUE
    shutil.copytree(tmp_path / "secrets", tmp_path / "copy")
    with raises_code("store.keyring"):
        LocalStoreFile(tmp_path / "copy", random_bytes=os.urandom, keyring=SecretService(bus)).read()
    store.protect(KeyKind.FILE)
    assert store.read()["A"].value.reveal() == VALUE
    with raises_code("store.keyring"):
        SecretService(bus).read(tmp_path / "secrets")


def test_a_locked_keyring_opens_nothing(bus: str, tmp_path: Path) -> None:
    """No one answers its prompt here."""
    service = SecretService(bus)
    service.keep(tmp_path, KEY)
    lock = (
        "from jeepney.io.blocking import open_dbus_connection as bus; import secretstorage, sys;"
        "secretstorage.get_collection_by_alias(bus(bus=sys.argv[1]), 'default').lock()"
    )
    subprocess.run([sys.executable, "-c", lock, bus], check=True, timeout=30)
    with raises_code("store.keyring", match="stays locked"):
        service.read(tmp_path)


@pytest.mark.parametrize("address", ["unix:path=/no/such/bus", "nothing", ""])
def test_a_bus_that_is_not_there_opens_nothing(address: str, tmp_path: Path) -> None:
    pytest.importorskip("secretstorage", reason="the extra 'keyring' is not installed")
    with raises_code("store.keyring"):
        SecretService(address).read(tmp_path)


def test_without_the_library_the_error_says_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "secretstorage", None)
    with raises_code("store.key", match="affiant\\[keyring\\]"):
        SecretService("unix:path=/no/such/bus").read(tmp_path)
