"""A session's local store: what opens it is asked for where the profile needs it, and goes to the broker alone."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.raising import raises_code

from affiant.sandbox.isolation.backends.backend import Availability
from affiant.sandbox.isolation.plan.isolation_class import BackendName, IsolationClass
from affiant.sandbox.session.secret_store import asked_store_key, secret_descriptors
from affiant.sandbox.session.session_plan import SessionPlan, SessionRequest, plan_session
from affiant.secrets.broker.local_source import LocalSource
from affiant.secrets.names.source import parse_reference
from affiant.secrets.names.value import SecretValue
from affiant.secrets.store.local_store import KeyFileKey, KeyKind, PassphraseKey, StoreKey
from affiant.secrets.store.local_store_file import LocalStoreFile
from affiant.secrets.store.secret_service import SecretService

VALUE = b"ghp_9sX2kQ7vLm4TzR1bYwE6"
PASSPHRASE = b"correct horse battery"
OWNERS = frozenset({0, os.geteuid()})
PROFILES = b"""agent_configs:
  user: {tools: [t], network_egress: "allowed:api.example.com", secrets_access: [A]}
  of_vault:
    tools: [t]
    network_egress: "allowed:api.example.com"
    secrets_access: [{name: A, ref: 'vault:kv/a#b'}]
  without: {tools: [t], network_egress: denied, secrets_access: []}
"""


class NeverAsked:
    """A keyring and a person that no one asks."""

    def read(self, folder: Path) -> bytes:
        raise AssertionError(folder)

    keep = forget = read

    def __call__(self, _new: bool) -> bytes:
        raise AssertionError


NEVER = NeverAsked()


@pytest.fixture(autouse=True)
def quick_scrypt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("affiant.secrets.store.local_store._SCRYPT", (14, 8, 1))


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    path = tmp_path / "profiles.yaml"
    path.write_bytes(PROFILES)
    return path


def kept(folder: Path, kind: KeyKind = KeyKind.FILE) -> Path:
    """A store with one secret."""
    store = LocalStoreFile(
        folder / "secrets", random_bytes=os.urandom, ask_passphrase=lambda _new: PASSPHRASE
    )
    store.set("A", SecretValue(VALUE), kind=kind)
    return folder / "secrets"


def planned(profile: Path, folder: Path, agent: str, store_key: StoreKey | None = None) -> SessionPlan:
    request = SessionRequest(
        profile=profile, agent=agent, min_isolation=IsolationClass.NAMESPACE, store_key=store_key
    )
    found = {BackendName.BUBBLEWRAP: Availability(BackendName.BUBBLEWRAP, "1", ())}
    gvisor = {BackendName.GVISOR: Availability(BackendName.GVISOR, "", ("not here",))}
    return plan_session(
        request, session="A" * 22, folder=folder, probe=lambda: {**found, **gvisor}, owners=OWNERS
    )


def value_behind(plan: SessionPlan, folder: Path) -> bytes:
    """What the broker finds behind the descriptors."""
    with ExitStack() as stack:
        found = secret_descriptors(plan, folder, stack)
        source = LocalSource.from_descriptors(found["secret_store"], found["secret_key"])
        return source.resolve(parse_reference("local:A")).value.reveal()


def test_a_store_with_a_key_file_is_handed_on_and_no_one_is_asked(profile: Path, tmp_path: Path) -> None:
    folder = kept(tmp_path)
    request = SessionRequest(profile=profile, agent="user")
    asked = asked_store_key(request, folder, owners=OWNERS, keyring=NEVER, ask_passphrase=NEVER)
    assert asked is None
    assert value_behind(planned(profile, tmp_path, "user"), folder) == VALUE


def test_a_store_with_a_passphrase_opens_for_the_broker(profile: Path, tmp_path: Path) -> None:
    """Before, `affiant run` held no secret of such a store, and said that there was none."""
    folder = kept(tmp_path, KeyKind.PASSPHRASE)
    request = SessionRequest(profile=profile, agent="user")
    key = asked_store_key(
        request, folder, owners=OWNERS, keyring=NEVER, ask_passphrase=lambda _new: PASSPHRASE
    )
    assert type(key) is PassphraseKey
    assert value_behind(planned(profile, tmp_path, "user", key), folder) == VALUE
    assert PASSPHRASE.decode() not in repr(planned(profile, tmp_path, "user", key))
    with raises_code("store.key", match="--secret-passphrase-file"):
        asked_store_key(request, folder, owners=OWNERS, keyring=NEVER, ask_passphrase=None)
    for other in (None, KeyFileKey(bytes(32))):
        with raises_code("store.key"):
            value_behind(planned(profile, tmp_path, "user", other), folder)


def test_a_wrong_passphrase_stops_the_session_before_it_starts(profile: Path, tmp_path: Path) -> None:
    """Else only the broker would find it, and a session whose secrets are optional would start without them."""
    folder = kept(tmp_path, KeyKind.PASSPHRASE)
    with raises_code("store.authentic"):
        asked_store_key(
            SessionRequest(profile=profile, agent="user"),
            folder,
            owners=OWNERS,
            keyring=NEVER,
            ask_passphrase=lambda _new: PASSPHRASE + b"!",
        )


def test_a_profile_whose_tests_hold_only_under_the_floor_is_read_under_it(tmp_path: Path) -> None:
    """Before, ``affiant run --floor`` ended with policy.test_failed: the store's profile was read without it."""
    (tmp_path / "org.yaml").write_text("tools: [{deny: t}]")
    profile = tmp_path / "profiles.yaml"
    profile.write_bytes(
        PROFILES.replace(b"user: {tools: [t],", b"user: {tests: [{deny: {tool: t}}], tools: [t],")
    )
    folder = kept(tmp_path, KeyKind.PASSPHRASE)
    request = SessionRequest(profile=profile, agent="user", floor=tmp_path / "org.yaml")
    key = asked_store_key(
        request, folder, owners=OWNERS, keyring=NEVER, ask_passphrase=lambda _new: PASSPHRASE
    )
    assert type(key) is PassphraseKey


@pytest.mark.parametrize("agent", ["of_vault", "without"])
def test_a_profile_without_a_local_secret_gets_no_store_and_no_one_is_asked(
    profile: Path, tmp_path: Path, agent: str
) -> None:
    folder = kept(tmp_path, KeyKind.PASSPHRASE)
    request = SessionRequest(profile=profile, agent=agent)
    asked = asked_store_key(request, folder, owners=OWNERS, keyring=NEVER, ask_passphrase=NEVER)
    assert asked is None
    with ExitStack() as stack:
        assert secret_descriptors(planned(profile, tmp_path, agent), folder, stack) == {}


def test_a_store_that_is_not_there_or_whose_key_file_is_missing(profile: Path, tmp_path: Path) -> None:
    with ExitStack() as stack:
        assert secret_descriptors(planned(profile, tmp_path, "user"), tmp_path / "none", stack) == {}
        folder = kept(tmp_path)
        (folder / "key").unlink()
        with raises_code("store.key", match="missing"):
            secret_descriptors(planned(profile, tmp_path, "user"), folder, stack)


def test_a_keyring_that_cannot_be_reached_stops_the_session_before_it_starts(
    profile: Path, tmp_path: Path
) -> None:
    pytest.importorskip("secretstorage", reason="the extra 'keyring' is not installed")

    class Kept(NeverAsked):
        def keep(self, folder: Path, key: bytes) -> None:
            pass

    store = LocalStoreFile(tmp_path / "secrets", random_bytes=os.urandom, keyring=Kept())
    store.set("A", SecretValue(VALUE), kind=KeyKind.KEYRING)
    request = SessionRequest(profile=profile, agent="user")
    with raises_code("store.keyring"):
        asked_store_key(
            request,
            tmp_path / "secrets",
            owners=OWNERS,
            keyring=SecretService(None),
            ask_passphrase=NEVER,
        )
