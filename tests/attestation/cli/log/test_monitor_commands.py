"""`affiant log monitor`: real servers, exit codes, and a clean end."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.attestation.log.monitor.conftest import ORIGIN, POLICY
from tests.attestation.log_builder import LogBuilder, chain, cosigner, entry, log_signer, mldsa_cosigner
from tests.attestation.log_server import served

from affiant.__main__ import cli
from affiant.attestation.log.witness.witness import origin_hash
from affiant.attestation.tlog.note import Note


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["log", "monitor", *map(str, arguments)])


class Live:
    """A log whose records were made just now, served from its folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.now = int(time.time())
        self.log = LogBuilder(folder / "log", chain("one", 30, start=self.now - 300))
        self.policy = folder / "policy"
        self.policy.write_bytes(POLICY)
        self.sign()

    def sign(self, size: int | None = None) -> Note:
        at = int(time.time())
        return self.log.sign(cosigner(1, at), mldsa_cosigner(2, at), size=size)

    @property
    def arguments(self) -> tuple[object, ...]:
        return (self.folder / "log", "--policy", self.policy, "--state", self.folder / "state")


@pytest.fixture
def live(tmp_path: Path) -> Live:
    return Live(tmp_path)


def test_rounds_one_after_the_other(live: Live) -> None:
    first = run(*live.arguments, "--json")
    assert first.exit_code == 0, first.output
    document = json.loads(first.stdout)
    assert (document["size"], document["read"], document["verdict"]) == (30, 30, "affirming")
    again = run(*live.arguments)
    assert again.exit_code == 0 and "open 1, ended 0" in again.output
    live.log.add([entry("tool", "one", 99, live.now)])
    live.sign()
    broken = run(*live.arguments)
    assert broken.exit_code == 20 and "chain.gap" in broken.output
    assert run(*live.arguments).exit_code == 20  # for good


def test_a_stale_checkpoint_is_a_warning(live: Live) -> None:
    old = live.now - 1000
    live.log.sign(cosigner(1, old), mldsa_cosigner(2, old))
    done = run(*live.arguments, "--wit-max-s", "900")
    assert done.exit_code == 10 and "log.stale" in done.output


def test_another_view_in_a_file_or_at_a_witness_is_found(live: Live, tmp_path: Path) -> None:
    other = LogBuilder(tmp_path / "other", chain("other", 30))
    (tmp_path / "also.note").write_bytes(other.note().to_bytes())
    done = run(*live.arguments, "--also", tmp_path / "also.note")
    assert done.exit_code == 20 and "log.split_view" in done.output
    (tmp_path / "w" / origin_hash(ORIGIN)).mkdir(parents=True)
    (tmp_path / "w" / origin_hash(ORIGIN) / "checkpoint").write_bytes(other.note().to_bytes())
    vkey = cosigner(1).verifier.vkey()
    with served(tmp_path / "w") as url:
        live.policy.write_bytes(POLICY.replace(vkey.encode(), f"{vkey} {url}".encode()))
        done = run(live.folder / "log", "--policy", live.policy, "--state", tmp_path / "second", "--json")
    document = json.loads(done.stdout)
    assert done.exit_code == 20 and document["findings"][0]["code"] == "log.split_view"
    assert "witness a" in document["findings"][0]["message"]
    live.policy.write_bytes(POLICY.replace(vkey.encode(), f"{vkey} http://127.0.0.1:1".encode()))
    done = run(live.folder / "log", "--policy", live.policy, "--state", tmp_path / "third")
    assert done.exit_code == 0 and "comparison with witness a" in done.output


def test_names_of_a_policy_that_are_no_text_are_shown_escaped(live: Live, tmp_path: Path) -> None:
    other = LogBuilder(tmp_path / "other", chain("other", 30))
    (tmp_path / "w" / origin_hash(ORIGIN)).mkdir(parents=True)
    (tmp_path / "w" / origin_hash(ORIGIN) / "checkpoint").write_bytes(other.note().to_bytes())
    vkey = cosigner(1).verifier.vkey().encode()
    policy = POLICY.replace(b"witness a", b"witness \xff\xe2\x80\xae").replace(
        b" a b", b" \xff\xe2\x80\xae b"
    )
    with served(tmp_path / "w") as url:
        live.policy.write_bytes(policy.replace(vkey, vkey + b" " + url.encode()))
        for options in ((), ("--json",)):
            done = run(*live.arguments, *options)
            assert done.exit_code == 20 and "log.split_view" in done.output
            assert "\u202e" not in done.output and "udcff" in done.output
    assert len(list((tmp_path / "state/findings").iterdir())) == 1


def test_mistakes_are_usage_and_no_log_is_none(live: Live, tmp_path: Path) -> None:
    (tmp_path / "bad").write_text("nonsense")
    state = ("--state", tmp_path / "new")
    assert run(live.folder / "log", "--policy", tmp_path / "bad", *state).exit_code == 2
    assert run(*live.arguments, "--also", tmp_path / "bad").exit_code == 2
    assert run(*live.arguments, "--once", "--every", "5").exit_code == 2
    assert run(*live.arguments, "--origin", "other").exit_code == 2
    two = POLICY + f"log {log_signer('log.example/2', 'two').verifier.vkey()}\n".encode()
    (tmp_path / "two").write_bytes(two)
    assert run(live.folder / "log", "--policy", tmp_path / "two", *state).exit_code == 2
    assert run(live.folder / "log", "--policy", tmp_path / "two", *state, "--origin", ORIGIN).exit_code == 0
    done = run(tmp_path / "nowhere", "--policy", live.policy, *state, "--json")
    assert done.exit_code == 30 and json.loads(done.stdout)["refused"]["code"] == "log.absent"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_watching_ends_in_order_with_the_worst_that_was_seen(live: Live, number: int) -> None:
    arguments = [*map(str, live.arguments), "--every", "1", "--json"]
    process = subprocess.Popen(
        [sys.executable, "-m", "affiant", "log", "monitor", *arguments], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["verdict"] == "affirming"
    live.sign(size=20)
    assert json.loads(process.stdout.readline())["counts"] == {"log.rollback": 1}
    process.send_signal(number)
    out, _ = process.communicate(timeout=30)
    assert process.returncode == 20
    assert all(json.loads(line)["verdict"] == "contraindicated" for line in out.splitlines())
