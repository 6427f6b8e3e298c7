"""A log, two witnesses in processes of their own, and a monitor, over HTTP: a split view is found."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.attestation.log_builder import LogBuilder, chain, entry, log_signer
from tests.attestation.log_server import served
from tests.attestation.served_witness import Served

from affiant.__main__ import cli
from affiant.attestation.log.witness.client import ask_witness
from affiant.attestation.log_reading.bounded_http import HTTPSettings, make_client
from affiant.attestation.tlog.entry import parse_entry
from affiant.attestation.tlog.note import Note
from affiant.attestation.tlog.note_keys import LogKey, parse_vkey


class Witnesses:
    """Two, made and served by the command line."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.vkeys: list[str] = []
        self.servers: list[Served] = []
        for name in ("a", "b"):
            home = folder / name
            home.mkdir()
            made = CliRunner().invoke(
                cli, ["witness", "init", "--name", f"witness.example/{name}", "--key", str(home / "w.key")]
            )
            self.vkeys.append(made.stdout.splitlines()[0])
            self.servers.append(Served(home))

    def policy(self, quorum: str) -> Path:
        lines = [f"log {log_signer().verifier.vkey()}"]
        lines += [
            f"witness {name} {vkey} {server.url}"
            for name, vkey, server in zip("ab", self.vkeys, self.servers, strict=True)
        ]
        path = self.folder / "policy"
        path.write_text("\n".join([*lines, f"group g {quorum} a b", "quorum g", ""]))
        return path

    def cosigned(self, log: LogBuilder, old: int, *which: int) -> Note:
        async def ask() -> Note:
            note = log.note()
            async with make_client(HTTPSettings()) as client:
                for each in which:
                    key = parse_vkey(self.vkeys[each])
                    assert not isinstance(key, LogKey)
                    found = await ask_witness(
                        self.servers[each].url,
                        note,
                        lambda begin: log.proof(begin, len(log.leaves)),
                        keys=[key],
                        old=old,
                        now=int(time.time()),
                        client=client,
                    )
                    note = note.with_signatures(found.lines)
            return note

        return asyncio.run(ask())


@pytest.fixture
def witnesses(tmp_path: Path) -> Iterator[Witnesses]:
    made = Witnesses(tmp_path)
    yield made
    for server in made.servers:
        server.kill()


def publish(log: LogBuilder, note: Note) -> None:
    log.sign()
    (log.folder / "checkpoint").write_bytes(note.to_bytes())


def test_an_honest_log_holds_and_a_split_view_is_found(witnesses: Witnesses, tmp_path: Path) -> None:
    now = int(time.time())
    log = LogBuilder(tmp_path / "log", chain("one", 30, start=now - 300))
    publish(log, witnesses.cosigned(log, 0, 0, 1))

    def watch(url: str, quorum: str, state: str) -> tuple[int, dict[str, object]]:
        arguments = [url, "--policy", witnesses.policy(quorum), "--state", tmp_path / state, "--json"]
        done = CliRunner().invoke(cli, ["log", "monitor", *map(str, arguments)])
        return done.exit_code, json.loads(done.stdout)

    with served(log.folder) as url:
        code, report = watch(url, "all", "state")
        assert (code, report["not_made"], report["size"]) == (0, [], 30)
        # The log tells each witness another story; either is a quorum where one is enough.
        other = LogBuilder(
            tmp_path / "other", [*map(parse_entry, log.leaves), entry("tool", "one", 30, now, salt="b")]
        )
        witnesses.cosigned(other, 30, 1)
        log.add([entry("tool", "one", 30, now, salt="a")])
        publish(log, witnesses.cosigned(log, 30, 0))
        code, report = watch(url, "any", "state")
        assert code == 20
        (finding,) = report["findings"]  # type: ignore[misc]
        assert finding["code"] == "log.split_view" and "witness b" in finding["message"]
        assert len(list(Path(finding["files"]).glob("*.note"))) == 2
        # Where both are needed, neither story ever counts.
        code, report = watch(url, "all", "fresh")
        assert "wit.quorum" in report["counts"] and report["accepted"] is False  # type: ignore[operator]
