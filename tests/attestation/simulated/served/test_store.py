from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from cryptography import x509
from tests.attestation.simulated.conftest import NOW, counting_bytes
from tests.raising import raises_code

from affiant.attestation.simulated.platform.keys import public_spki
from affiant.attestation.simulated.served.store import open_store
from affiant.errors import MalformedError


def no_bytes(size: int) -> bytes:
    raise AssertionError(f"{size} random bytes were drawn where nothing new may be made")


def root_of(home: Path, label: str = "s") -> bytes:
    with open_store(home) as store:
        return store.load_or_create(now=NOW, random_bytes=counting_bytes(label)).root_spki()


def test_a_platform_is_made_once_and_kept(tmp_path: Path) -> None:
    first = root_of(tmp_path)
    with open_store(tmp_path) as store:
        platform = store.load_or_create(now=NOW, random_bytes=no_bytes)
        assert platform.root_spki() == first
        assert store.root_spki(now=NOW, random_bytes=no_bytes) == first
    again = platform.certificates
    with open_store(tmp_path) as store:
        assert store.load_or_create(now=NOW, random_bytes=no_bytes).certificates == again


def test_nobody_else_may_enter_or_read(tmp_path: Path) -> None:
    root_of(tmp_path / "home")
    folder = tmp_path / "home" / "platform"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "keys.json").stat().st_mode) == 0o600


def test_the_umask_opens_nothing(tmp_path: Path) -> None:
    earlier = os.umask(0)
    try:
        root_of(tmp_path / "home")
    finally:
        os.umask(earlier)
    for path in (tmp_path / "home", *(tmp_path / "home").rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path


@pytest.mark.parametrize("mode", [0o604, 0o640, 0o620, 0o601])
def test_keys_that_others_can_reach_are_refused(tmp_path: Path, mode: int) -> None:
    root_of(tmp_path)
    (tmp_path / "platform" / "keys.json").chmod(mode)
    with raises_code("platform.store", match="other users"):
        root_of(tmp_path)


def test_a_folder_that_others_can_enter_is_refused(tmp_path: Path) -> None:
    root_of(tmp_path)
    (tmp_path / "platform").chmod(0o755)
    with raises_code("platform.store", match="chmod"):
        root_of(tmp_path)


def test_a_folder_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (tmp_path / "platform").symlink_to(tmp_path / "elsewhere")
    with raises_code("platform.store"):
        root_of(tmp_path)


def test_keys_that_are_a_link_or_a_pipe_are_refused(tmp_path: Path) -> None:
    root_of(tmp_path)
    keys = tmp_path / "platform" / "keys.json"
    moved = keys.rename(tmp_path / "keys.json")
    keys.symlink_to(moved)
    with raises_code("platform.store"):
        root_of(tmp_path)
    keys.unlink()
    os.mkfifo(keys, 0o600)
    with raises_code("platform.store", match="regular"):
        root_of(tmp_path)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b'{"created":1,"seed":"AAAA","typ":"affiant-simulated-platform/1"}',
        b'{"created":1,"seed":"' + b"A" * 43 + b'","typ":"affiant-simulated-platform/2"}',
        b'{"created":-1,"seed":"' + b"A" * 43 + b'","typ":"affiant-simulated-platform/1"}',
        b'{"created":99999999999999,"seed":"' + b"A" * 43 + b'","typ":"affiant-simulated-platform/1"}',
        b'{"created":1,"extra":1,"seed":"' + b"A" * 43 + b'","typ":"affiant-simulated-platform/1"}',
        b"\xff" * 100,
    ],
)
def test_a_foreign_or_broken_file_is_refused_and_never_replaced(tmp_path: Path, content: bytes) -> None:
    root_of(tmp_path)
    keys = tmp_path / "platform" / "keys.json"
    keys.write_bytes(content)
    with pytest.raises(MalformedError):
        root_of(tmp_path)
    assert keys.read_bytes() == content


def test_no_refusal_shows_the_seed(tmp_path: Path) -> None:
    root_of(tmp_path)
    keys = tmp_path / "platform" / "keys.json"
    text = keys.read_text()
    seed = text.split('"seed":"')[1][:43]
    keys.write_text(text.replace('"created"', '"Created"'))
    with pytest.raises(MalformedError) as caught:
        root_of(tmp_path)
    assert seed not in f"{caught.value!r} {caught.value} {caught.value.to_json()}"


def test_a_write_that_was_cut_short_is_made_anew(tmp_path: Path) -> None:
    first = root_of(tmp_path)
    (tmp_path / "platform" / "keys.json.new").write_bytes(b"half")
    (tmp_path / "platform" / "root.pem").unlink()
    assert root_of(tmp_path) == first
    (tmp_path / "platform" / "keys.json").unlink()
    assert root_of(tmp_path, "another") != first


def test_the_root_certificate_is_public_and_follows_the_keys(tmp_path: Path) -> None:
    root_of(tmp_path)
    path = tmp_path / "platform" / "root.pem"
    certificate = x509.load_pem_x509_certificate(path.read_bytes())
    assert "SIMULATED" in certificate.subject.rfc4514_string()
    path.write_bytes(b"something else")
    with open_store(tmp_path) as store:
        platform = store.load_or_create(now=NOW, random_bytes=no_bytes)
        assert path.read_bytes() != b"something else"
        assert store.root_spki(now=NOW, random_bytes=no_bytes) == platform.root_spki()


def test_the_root_key_alone_is_read_without_opening_the_secret(tmp_path: Path) -> None:
    first = root_of(tmp_path)
    (tmp_path / "platform" / "keys.json").write_bytes(b"not to be opened")
    with open_store(tmp_path) as store:
        assert store.root_spki(now=NOW, random_bytes=no_bytes) == first


def test_one_process_serves_and_the_next_is_told_so(tmp_path: Path) -> None:
    with open_store(tmp_path) as one, open_store(tmp_path) as two, one.serving():
        with raises_code("store.locked") as caught, two.serving():
            pass
        assert caught.value.code == "store.locked"
        two.load_or_create(now=NOW, random_bytes=counting_bytes("x"))  # the state is still readable
    with open_store(tmp_path) as three, three.serving():
        pass


def test_public_keys_of_the_two_files_agree(tmp_path: Path) -> None:
    from affiant.attestation.simulated.platform.keys import Role, derive_key

    with open_store(tmp_path) as store:
        platform = store.load_or_create(now=NOW, random_bytes=counting_bytes("x"))
        spki = store.root_spki(now=NOW, random_bytes=no_bytes)
    assert spki == public_spki(derive_key(platform.seed, Role.ROOT))
