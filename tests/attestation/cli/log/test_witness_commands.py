"""`affiant witness`: made once, told plainly, refused with a code."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.attestation.log.witness.conftest import FORK, NOW, opened, request
from tests.attestation.log_builder import log_signer

from affiant.__main__ import cli
from affiant.attestation.log.witness.keys import read_key_file
from affiant.attestation.tlog.note_keys import CosignerKey, MLDSACosignerKey, parse_vkey

VKEY = log_signer().verifier.vkey()


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["witness", *map(str, arguments)])


def test_init_makes_key_and_database_and_prints_the_verifier_keys(tmp_path: Path) -> None:
    done = run("init", "--name", "witness.example/w", "--key", tmp_path / "w.key")
    assert done.exit_code == 0
    keys = [parse_vkey(line) for line in done.stdout.splitlines()]
    assert [type(key) for key in keys] == [CosignerKey, MLDSACosignerKey]
    assert tuple(keys) == read_key_file(tmp_path / "w.key").verifiers()
    before = (tmp_path / "w.key").read_bytes()
    again = run("init", "--name", "witness.example/w", "--key", tmp_path / "w.key")
    assert again.exit_code == 1 and "witness.exists" in again.stderr
    assert (tmp_path / "w.key").read_bytes() == before


def test_init_can_make_one_key_alone(tmp_path: Path) -> None:
    for only in ("ed25519", "mldsa44"):
        done = run("init", "--name", "w.example", "--key", tmp_path / only, "--only", only, "--json")
        assert len(json.loads(done.stdout)["vkeys"]) == 1
    assert run("init", "--name", "a b", "--key", tmp_path / "x").exit_code == 1
    assert not (tmp_path / "x").exists() and not (tmp_path / "x.sqlite").exists()


def test_status_names_the_latest_trees_and_the_evidence(home: Path) -> None:
    with opened(home) as witness:
        witness.add_checkpoint(request(0, 9), now=NOW)
        witness.add_checkpoint(request(9, 9, FORK), now=NOW)
    done = run("status", "--key", home / "w.key", "--json")
    document = json.loads(done.stdout)
    assert done.exit_code == 0 and document["evidence"] == {"certain": 1, "unproven": 0}
    assert [(each["size"], each["time"]) for each in document["logs"]] == [(9, NOW)]
    text = run("status", "--key", home / "w.key")
    assert "time    2026-" in text.output and "certain 1, unproven 0" in text.output
    assert all(vkey in text.output for vkey in document["vkeys"])


def test_a_lost_database_is_refused_with_what_to_do(home: Path) -> None:
    (home / "w.key.sqlite").unlink()
    for arguments in (("status",), ("serve", "--log", VKEY)):
        done = run(*arguments, "--key", home / "w.key")
        assert done.exit_code == 1 and "witness.state_lost" in done.stderr and "retired" in done.stderr


def test_mistakes_are_usage(home: Path) -> None:
    key = home / "w.key"
    (home / "w.yaml").write_text(f"logs: [{VKEY}]\n")
    for arguments in (
        (),
        ("--log", VKEY, "--config", home / "w.yaml"),
        ("--log", "nonsense"),
        ("--log", VKEY, "--listen", "nowhere"),
        ("--log", VKEY, "--tls-cert", key),
        ("--log", VKEY, "--tls-cert", key, "--tls-key", key),
        ("--config", home / "w.yaml", "--listen", "192.0.2.1:1"),
    ):
        done = run("serve", "--key", key, *arguments)
        assert done.exit_code == 2, done.output


def test_it_serves_on_a_unix_socket_that_it_is_given(home: Path) -> None:
    """One that its starter has made: what is asked before it runs waits there."""
    path = home / "w.sock"
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as client:
        listener.bind(str(path))
        listener.listen(4)
        client.connect(str(path))
        client.sendall(b"GET /nothing HTTP/1.1\r\nHost: w\r\nConnection: close\r\n\r\n")
        serve = [sys.executable, "-m", "affiant", "witness", "serve", "--key", str(home / "w.key")]
        serve += ["--log", VKEY, "--listen-fd", str(listener.fileno())]
        with subprocess.Popen(serve, pass_fds=[listener.fileno()]) as process:
            client.settimeout(30)
            assert client.recv(100).startswith(b"HTTP/1.1 404 ")
            process.terminate()
            assert process.wait(30) == 0


@pytest.mark.parametrize(
    "options", [["--listen", "127.0.0.1:0"], ["--tls-cert", "{key}", "--tls-key", "{key}"]]
)
def test_a_given_socket_stands_alone(home: Path, options: list[str]) -> None:
    more = [each.format(key=home / "w.key") for each in options]
    refused = run("serve", "--key", home / "w.key", "--log", VKEY, "--listen-fd", "3", *more)
    assert refused.exit_code == 2 and "excludes" in refused.stderr


def test_a_given_descriptor_that_is_no_listening_unix_socket_is_refused(home: Path) -> None:
    serve = [sys.executable, "-m", "affiant", "witness", "serve", "--key", str(home / "w.key")]
    serve += ["--log", VKEY, "--listen-fd"]
    with socket.socket(socket.AF_UNIX) as silent, socket.socket() as other, open(os.devnull) as file:
        for each in (silent, other, file):
            done = subprocess.run(
                [*serve, str(each.fileno())], pass_fds=[each.fileno()], capture_output=True, check=False
            )
            assert done.returncode == 2 and b"[witness.settings]" in done.stderr
