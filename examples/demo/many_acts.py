"""A session that takes commands from outside: several commands, files in and out, and a server that is reached."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from examples.demo.facts import Telling, records_of
from examples.demo.place import Place, affiant

from affiant.attestation.bundle.bundle import parse_bundle
from affiant.attestation.records.receipt import VerifiedReceipt
from affiant.sandbox import IsolationClass, Sandbox

AGENT = "loop_agent"
_GIVEN = b"three words here\n"
_COUNTING = "words = open('given.txt').read().split(); open('made.txt', 'w').write(str(len(words)))"
_TRIES = 100
_PAUSE_S = 0.1


@dataclass(frozen=True)
class _Seen:
    """What came back to this side."""

    bundle: Path
    codes: tuple[int, ...]
    made: bytes
    served: bytes


def tell_of_many_acts(tell: Telling, place: Place, isolation: list[str]) -> None:
    """Run it, and tell what its receipts say."""
    tell.heading("A session of many acts, from Python")
    seen = asyncio.run(
        _acts(place, IsolationClass.NAMESPACE if isolation else IsolationClass.USERSPACE_KERNEL)
    )
    records = records_of(parse_bundle(seen.bundle.read_bytes()))
    commands = [r for r in records if r.kind == "exec" and r.member("ph") == "intent"]
    ended = {r.payload["par"][0] for r in records if r.kind == "exec" and r.member("ph") == "outcome"}
    tell.fact(
        f"{len(commands)} commands ran one after another, each with its intent and its outcome",
        seen.codes == (0, 3) and len(commands) == 3 and {r.payload["jti"] for r in commands} == ended,
        "receipts",
    )
    _tell_of_files(tell, records, seen)
    ports = [(r.member("ph"), r.disclosed.get("prt.num")) for r in records if r.kind == "port"]
    tell.fact(
        "the agent's server at port 8080 was reached; opened and closed are receipted",
        seen.served == seen.made and ports == [("opened", 8080), ("closed", 8080)],
        "receipts, host",
    )
    done = affiant(place, "verify", str(seen.bundle), "--trust", str(place.trust), "--json")
    verdict = json.loads(done.stdout)
    rejected = [check["code"] for check in verdict["checks"] if check["state"] == "refused"]
    tell.fact(
        "affiant verify makes every check of it, rejects nothing, and exits with 40",
        (done.returncode, rejected, verdict["not_made"]) == (40, [], []),
        "verifier",
    )


def _tell_of_files(tell: Telling, records: list[VerifiedReceipt], seen: _Seen) -> None:
    moved = {str(r.disclosed.get("mov.path")): r for r in records if r.kind == "file"}
    given, made = moved.get("/workspace/given.txt"), moved.get("/workspace/made.txt")
    tell.fact(
        "a file was written into the session, and a command read it",
        given is not None and given.member("mov", "dir") == "in" and _length(given) == len(_GIVEN),
        "receipts",
    )
    tell.fact(
        "a file that a command made came out",
        made is not None and made.member("mov", "dir") == "out" and seen.made == b"3",
        "receipts, host",
    )


def _length(record: VerifiedReceipt) -> object:
    return record.disclosed.get("mov.len")


async def _acts(place: Place, isolation: IsolationClass) -> _Seen:
    async with Sandbox.create(
        profile=place.profiles, agent=AGENT, home=place.home, min_isolation=isolation, ttl=120
    ) as sandbox:
        await sandbox.files.write("/workspace/given.txt", _GIVEN)
        counted = await sandbox.run(["python3", "-c", _COUNTING], cwd="/workspace")
        failed = await sandbox.run(["sh", "-c", "exit 3"])
        made = await sandbox.files.read("/workspace/made.txt")
        serving = asyncio.create_task(sandbox.run(["python3", "-m", "http.server", "8080"], cwd="/workspace"))
        async with sandbox.port(8080) as port:
            served = await _fetched(f"{port.url}/made.txt")
        serving.cancel()
        await asyncio.wait({serving})
    return _Seen(sandbox.bundle_path, (counted.exit_code, failed.exit_code), made, served)


async def _fetched(url: str) -> bytes:
    """The answer of a server that is still starting."""
    for _ in range(_TRIES):
        try:
            return await asyncio.to_thread(lambda: urllib.request.urlopen(url, timeout=10).read())
        except OSError:
            await asyncio.sleep(_PAUSE_S)
    return b""
