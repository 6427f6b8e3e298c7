import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from affiant.errors import UnreachableError
from affiant.secrets.names.value import SecretValue
from affiant.secrets.store.commands import secret
from affiant.secrets.store.local_store import KeyKind
from affiant.secrets.store.local_store_file import LocalStoreFile

VALUE = "ghp_9sX2kQ7vLm4TzR1bYwE6"


@pytest.fixture
def run(tmp_path: Path):
    def invoke(*arguments: str, stdin: str = "") -> Result:
        return CliRunner(env={"AFFIANT_HOME": str(tmp_path), "DBUS_SESSION_BUS_ADDRESS": None}).invoke(
            secret, arguments, input=stdin
        )

    return invoke


def test_a_secret_is_set_listed_and_removed_without_being_shown(run, tmp_path: Path) -> None:
    first = run("set", "GITHUB_TOKEN", stdin=VALUE + "\n")
    assert first.exit_code == 0
    assert "Kept GITHUB_TOKEN (version 1)" in first.output
    assert "Anyone who can copy this folder can read the values" in first.output
    assert json.loads(run("set", "GITHUB_TOKEN", "--json", stdin=VALUE).output)["version"] == 2
    assert run("list").output == "GITHUB_TOKEN\n"
    assert json.loads(run("list", "--json").output) == {"secrets": [{"name": "GITHUB_TOKEN", "version": 2}]}
    removed = run("remove", "GITHUB_TOKEN")
    assert "Removed GITHUB_TOKEN" in removed.output
    assert "empty" in run("list").output
    assert VALUE not in first.output + removed.output
    assert not any(VALUE.encode() in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


class LockedKeyring:
    """One that was locked once it had given the key out."""

    def __init__(self, _bus: str | None) -> None:
        pass

    def read(self, _folder: Path) -> bytes:
        return bytes(range(32))

    def keep(self, _folder: Path, _key: bytes) -> None:
        pass

    def forget(self, _folder: Path) -> None:
        raise UnreachableError("the system keyring stays locked", code="store.keyring")


def test_a_store_that_is_encrypted_anew_is_a_success_and_a_key_that_stays_a_warning(
    run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("affiant.secrets.store.commands.SecretService", LockedKeyring)
    store = LocalStoreFile(
        tmp_path / "secrets", random_bytes=lambda size: bytes(range(size)), keyring=LockedKeyring(None)
    )
    store.set("A", SecretValue(VALUE.encode()), kind=KeyKind.KEYRING)
    protected = run("protect", "--key-file")
    assert protected.exit_code == 0
    assert "is encrypted anew" in protected.stdout
    assert "the system keyring still holds its former key" in protected.stderr
    assert (store.kind, set(store.read())) == (KeyKind.FILE, {"A"})


def test_the_path_is_below_the_home(run, tmp_path: Path) -> None:
    assert run("path").output == f"{tmp_path}/secrets/store\n"
    assert json.loads(run("path", "--json").output)["key"] == f"{tmp_path}/secrets/key"


def test_the_default_home_is_the_state_folder(tmp_path: Path) -> None:
    runner = CliRunner(env={"AFFIANT_HOME": None, "XDG_STATE_HOME": str(tmp_path)})
    assert runner.invoke(secret, ["path"]).output == f"{tmp_path}/affiant/secrets/store\n"


@pytest.mark.parametrize(
    ("stdin", "code"),
    [
        ("", "secret_too_weak"),
        ("hunter2\n", "secret_too_weak"),
        ("a" * 40, "secret_too_weak"),
        (VALUE + "\n" + VALUE + "\n", "secret.value"),
        (VALUE * 500, "secret.value"),
    ],
)
def test_a_value_that_will_not_do_is_refused_and_not_shown(
    run, tmp_path: Path, stdin: str, code: str
) -> None:
    refused = run("set", "A", stdin=stdin)
    assert refused.exit_code == 1
    assert f"[{code}]" in refused.output
    assert not stdin or stdin.strip() not in refused.output
    assert not (tmp_path / "secrets" / "store").exists()


@pytest.mark.parametrize("name", ["A B", "1A", "A-B"])
def test_a_strange_name_is_refused_before_the_value_is_read(run, name: str) -> None:
    for command in ("set", "remove"):
        assert "[secret.name]" in run(command, name, stdin=VALUE).output


@pytest.mark.parametrize(
    "arguments", [("A", VALUE), ("A", "--", VALUE), ("A", VALUE, "more"), ("A", f"-{VALUE}")]
)
def test_a_value_is_never_an_argument_and_not_shown(run, arguments: tuple[str, ...]) -> None:
    refused = run("set", *arguments, stdin=VALUE)
    assert refused.exit_code == 2
    assert VALUE not in refused.output


def test_removing_what_is_not_there_is_refused(run) -> None:
    assert "[secret.not_found]" in run("remove", "A").output


def test_a_store_that_others_can_read_is_refused(run, tmp_path: Path) -> None:
    run("set", "A", stdin=VALUE)
    os.chmod(tmp_path / "secrets" / "store", 0o644)
    assert "[store.permissions]" in run("list").output


def test_a_store_is_protected_by_a_passphrase_and_says_so(
    run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("affiant.secrets.store.local_store._SCRYPT", (14, 8, 1))
    run("set", "A", stdin=VALUE)
    assert run("protect").exit_code == run("protect", "--passphrase", "--keyring").exit_code == 2
    done = run("protect", "--passphrase", stdin="correct horse battery\n" * 2)
    assert "opens by the passphrase alone" in done.output
    assert not (tmp_path / "secrets" / "key").exists()
    assert json.loads(run("path", "--json").output)["key"] is None
    assert run("list", stdin="correct horse battery\n").output.endswith("A\n")
    assert "[store.authentic]" in run("list", stdin="correct horse batteri\n").output
    assert run("set", "B", "--passphrase", "--keyring", stdin=VALUE).exit_code == 2


def test_without_a_session_bus_the_keyring_is_refused_and_nothing_is_written(run, tmp_path: Path) -> None:
    pytest.importorskip("secretstorage", reason="the extra 'keyring' is not installed")
    refused = run("set", "A", "--keyring", stdin=VALUE)
    assert "[store.keyring]" in refused.output
    assert "no session bus" in refused.output
    assert not (tmp_path / "secrets" / "store").exists()


def test_every_command_gives_examples(run) -> None:
    for command in ("set", "list", "protect", "remove", "path"):
        assert "affiant secret" in run(command, "--help").output
