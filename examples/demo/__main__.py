"""``python -m examples.demo``: the story of one attested session, every line computed from outside of it.

The agent (``examples/agent.py``) works and then attacks. What is printed comes from the receipts, from the log of
the stand-in host and from the state of this machine, after the session, and never from what the agent says. The exit
code is 0 only if every line is so.
"""

from __future__ import annotations

import json
import os
import secrets
import sys
import time
from pathlib import Path

from examples.demo import refused_sessions
from examples.demo.facts import Telling, records_of, refusals
from examples.demo.main_session import Seen, run_main_session
from examples.demo.many_acts import AGENT, tell_of_many_acts
from examples.demo.place import ROOT, Place, affiant, fresh, make_runtime
from examples.demo.processes import all_processes
from examples.demo.stand_in import StandIn

from affiant.attestation.bundle.bundle import Bundle, parse_bundle
from affiant.attestation.records.receipt import VerifiedReceipt
from affiant.attestation.statements.evidence import parse_evidence
from affiant.attestation.statements.manifest import mrconfigid, parse_manifest
from affiant.attestation.tdx.quote.quote import parse_quote
from affiant.sandbox.isolation.backends.backend import probe
from affiant.sandbox.isolation.plan.isolation_class import BackendName

ADDRESS, PORTS = "127.84.17.3", (18443, 18444)
NAMES = ("api.demo.affiant.test", "paste.demo.affiant.test", "other.demo.affiant.test")
"""The profile lists the first two, at the first port, and the secret for the first alone. All would answer."""


def main() -> int:
    started = time.monotonic()
    tell = Telling()
    place = fresh(Path(os.environ.get("AFFIANT_DEMO_DIR", ROOT / ".demo")))
    value = secrets.token_urlsafe(30)
    print("affiant demo: one attested session. Platform: SIMULATED; it proves nothing about hardware.")
    isolation = _isolation(tell)
    tell.heading("Setting up")
    make_runtime(place)
    _trust(place)
    tell.fact(
        "platform made (SIMULATED); reference values exist before any quote", _simulated(place), "trust file"
    )
    affiant(place, "secret", "set", "DEMO_TOKEN", input=value.encode())
    with StandIn(NAMES, ADDRESS, PORTS) as stand_in:
        seen = run_main_session(place, stand_in, value.encode(), isolation=isolation)
        if not place.bundle.exists():
            sys.stderr.write(seen.errors.decode("utf-8", "replace"))
            tell.fact("the session ran and left a bundle", False, f"exit code {seen.exit_code}")
            return 1
        bundle = parse_bundle(place.bundle.read_bytes())
        records = records_of(bundle)
        verdict = _verdict(place)
        _session(tell, bundle, records, verdict, seen, isolation)
        _work(tell, place, records, seen)
        _attacks(tell, place, records, seen, stand_in)
        _secret(tell, records, seen, stand_in, value)
    tell_of_many_acts(tell, place, isolation)
    refused_sessions.tell_of_both(tell, place, isolation)
    _check(tell, place, verdict)
    _left(tell, place, seen)
    return _end(tell, place, isolation, time.monotonic() - started)


def _isolation(tell: Telling) -> list[str]:
    """gVisor where it can be had; else bubblewrap, said plainly."""
    gvisor = probe()[BackendName.GVISOR]
    if gvisor.usable:
        return []
    why = "; ".join(gvisor.reasons)
    tell.note(f"{why}: falling back to bubblewrap; the receipts say bwrap-landlock")
    return ["--min-isolation", "namespace"]


def _trust(place: Place) -> None:
    """A trust file for the platform, with the demo's profiles pinned by their digests."""
    done = affiant(place, "platform", "trust")
    document = json.loads(done.stdout)
    named = (
        affiant(place, "policy", "digest", str(place.profiles), agent, "--json")
        for agent in ("demo_agent", AGENT)
    )
    document["profiles"] = [{"value": json.loads(each.stdout)["digest"]} for each in named]
    place.trust.write_text(json.dumps(document, indent=2))


def _simulated(place: Place) -> bool:
    values = json.loads(place.trust.read_bytes())["reference_values"]
    return bool(values) and all(entry["value"]["cls"] == "simulated" for entry in values)


def _verdict(place: Place, *more: str) -> dict[str, object]:
    done = affiant(place, "verify", str(place.bundle), "--trust", str(place.trust), "--json", *more)
    return json.loads(done.stdout)


def _held(verdict: dict[str, object], *codes: str) -> bool:
    states = {check["code"]: check["state"] for check in verdict["checks"]}
    return all(states.get(code) == "held" for code in codes)


def _warned(verdict: dict[str, object], code: str, text: str) -> bool:
    """Whether a check held, as a warning that says so, and the levels up to it with it."""
    (check,) = (each for each in verdict["checks"] if each["code"] == code)
    levels = [verdict["levels"][level] for level in ("L2", "L3")]
    return levels == ["held", "held"] and check["tier"] == "warning" and check["detail"].startswith(text)


def _session(
    tell: Telling,
    bundle: Bundle,
    records: list[VerifiedReceipt],
    verdict: dict[str, object],
    seen: Seen,
    isolation: list[str],
) -> None:
    tell.heading("The session")
    tell.fact(
        "gateway keyset attested: its quote binds keys and configuration",
        _held(verdict, "key.bound", "tee.appraisal", "conf.bound", "conf.accepted"),
        "quote, receipts",
    )
    start = next(record for record in records if record.kind == "session-start")
    tell.attempt(
        "session admitted; profile digest bound in MRCONFIGID", "quote", lambda: _bound(bundle, verdict)
    )
    tell.note(f"profile {str(start.member('pol', 'dig'))[:31]}...  isolation {start.member('iso')}")
    announced = "bwrap-landlock" if isolation else "gvisor"
    tell.fact("the isolation is the one announced", start.member("iso") == announced, "receipts")
    tell.fact(
        "the supervisor appraised this very gateway keyset", _held(verdict, "peer.bound"), "both chains"
    )
    tell.fact("the command's own exit code came back (7)", seen.exit_code == 7, "host")


def _bound(bundle: Bundle, verdict: dict[str, object]) -> bool:
    for raw in bundle.evidence.values():
        evidence = parse_evidence(raw)
        if evidence.manifest is not None:
            found = parse_quote(evidence.quote).body.mrconfigid
            return found == mrconfigid(parse_manifest(evidence.manifest)) and _held(
                verdict, "pol.bound", "pol.accepted"
            )
    return False


def _work(tell: Telling, place: Place, records: list[VerifiedReceipt], seen: Seen) -> None:
    tell.heading("The agent works")
    answers = [r for r in records if r.kind == "inference" and r.member("res", "end") == "complete"]
    whole = [r for r in answers if not _events(r)]
    streamed = [r for r in answers if _events(r) > 1]
    summary = place.output / "summary.txt"
    tell.fact("it read its workspace and brought a summary out", _nonempty(summary), "host")
    tell.fact(
        "it asked the model affiant-dev-echo, named as such in the receipt",
        bool(whole) and all(r.member("mdl", "id") == "affiant-dev-echo" for r in answers),
        "receipts",
    )
    tell.fact("it streamed an answer; the receipt commits to each event", bool(streamed), "receipts")
    keyless = all(record.member("agt", "bind") == "pop" for record in answers)
    tell.fact("each call carries the supervisor's proof of possession", keyless, "receipts")
    tell.fact(
        "its output streamed to the terminal while it ran", b"streamed an answer" in seen.output, "host"
    )


def _events(record: VerifiedReceipt) -> int:
    events = record.disclosed.get("res.evs")
    return events if isinstance(events, int) else 0


def _nonempty(path: Path) -> bool:
    return path.is_file() and path.stat().st_size > 0


def _attacks(
    tell: Telling, place: Place, records: list[VerifiedReceipt], seen: Seen, stand_in: StandIn
) -> None:
    tell.heading("The agent attacks")
    canary = place.canary.read_bytes()
    brought = b"".join(path.read_bytes() for path in place.output.rglob("*") if path.is_file())
    tell.fact(
        "reading outside its scope found nothing of the host",
        canary not in seen.output + brought
        and b"root:" not in seen.output.partition(b"/etc/shadow")[2][:200],
        "host",
    )
    tell.fact(
        "a host that is not listed was refused and receipted",
        bool(refusals(records, "host_not_listed", NAMES[2])),
        "receipts",
    )
    tell.fact(
        "a port that is not listed, at an allowed host, was refused and receipted",
        bool(refusals(records, "port_not_listed", f"{NAMES[0]}:{PORTS[1]}")),
        "receipts",
    )
    tell.fact(
        "the metadata address was refused and receipted",
        bool(refusals(records, "", "169.254.169.254")),
        "receipts",
    )
    asked = [r for r in records if r.kind == "inference"]
    changed = [r for r in asked if r.disclosed.get("req.dig") != r.disclosed.get("req.fwd")]
    stopped = [r for r in records if r.member("res", "end") == "policy_stop"]
    tell.fact("a tool outside its profile was removed from the request", bool(changed), "receipts")
    tell.fact("the model's call of it was stopped, whole and streaming", len(stopped) >= 2, "receipts")
    misplaced = refusals(records, "secret.placeholder_misplaced", "/collect")
    tell.fact(
        "its placeholder in a body and in a query was refused and receipted", len(misplaced) >= 2, "receipts"
    )
    tell.fact(
        "its placeholder for an allowed host of no secret was refused and receipted",
        bool(refusals(records, "secret", NAMES[1])),
        "receipts",
    )
    sent = [r for r in stand_in.received if r.target not in ("/echo", "/hello")]
    tell.fact("none of these arrived anywhere", not sent, "stand-in's log")


def _secret(tell: Telling, records: list[VerifiedReceipt], seen: Seen, stand_in: StandIn, value: str) -> None:
    tell.heading("The secret")
    used = [r for r in stand_in.received if r.authorization == f"Bearer {value}"]
    tell.fact(
        "the secret's host received the real value",
        [r.host for r in used] == [f"{NAMES[0]}:{PORTS[0]}"],
        "stand-in's log",
    )
    asked = [r.authorization for r in stand_in.received if r.target == "/hello"]
    tell.fact("the other allowed host was reached, without any", asked == [None], "stand-in's log")
    intents = [r for r in records if r.kind == "secret"]
    outcomes = [r for r in records if r.kind == "egress" and r.member("sec") is not None]
    tell.fact(
        "its use has an intent before and an outcome after", bool(intents) and bool(outcomes), "receipts"
    )
    echoed = b"the host echoed" in seen.output and b"authenticated" in seen.output
    tell.fact("the echo came back redacted", echoed and value.encode() not in seen.output, "host")
    tell.fact(
        "neither output, files nor the agent's own /proc showed it",
        value.encode() not in seen.output + seen.errors and b"/proc/" in seen.output,
        "host",
    )
    if not seen.may_look:
        tell.note("memory of the session's processes: not looked at, that needs root")
        return
    broker = [place for name, place in seen.looked_at.items() if "broker" in name]
    tell.fact(
        f"the value is in the memory of none of {len(seen.elsewhere)} processes of the session, but in the broker's",
        len(seen.elsewhere) >= 4 and not any(seen.elsewhere.values()) and broker == ["memory"],
        "host",
    )


def _check(tell: Telling, place: Place, verdict: dict[str, object]) -> None:
    tell.heading("The check, offline: affiant verify")
    shown = affiant(place, "verify", str(place.bundle), "--trust", str(place.trust))
    text = shown.stdout.decode()
    tell.fact("it says SIMULATED, exits with 40", shown.returncode == 40 and "SIMULATED" in text, "verifier")
    tell.fact('and does not print the word "verified"', "verified" not in text.lower(), "verifier")
    own = _warned(verdict, "wit.quorum", "witness: self")
    tell.fact("in the log (L2), and witnessed (L3) by the gateway's own witness: a warning", own, "verifier")
    held = [check["code"] for check in verdict["checks"] if check["state"] == "held"]
    tell.note(f"{len(held)} checks held; not made: {', '.join(verdict['not_made']) or 'none'}")
    data = bytearray(place.bundle.read_bytes())
    position = data.index(b'"sdjwt"') + 600
    data[position] = ord("A") if data[position] != ord("A") else ord("B")
    flipped = place.folder / "flipped.affiant.json"
    flipped.write_bytes(data)
    refused = affiant(place, "verify", str(flipped), "--trust", str(place.trust), "--json")
    reasons = [
        check["reason"] for check in json.loads(refused.stdout)["checks"] if check["state"] == "refused"
    ]
    tell.fact(f"one flipped byte is refused: {', '.join(reasons)}", refused.returncode == 20, "verifier")


def _left(tell: Telling, place: Place, seen: Seen) -> None:
    """The session's own processes, by number and time of start, and any whose arguments name the demo's folder."""
    tell.heading("Afterwards")
    folder = f"{place.folder}/"
    left = [p for p in all_processes() if (p.pid, p.started) in seen.processes or folder in p.command]
    mounts = [line for line in Path("/proc/self/mounts").read_text().splitlines() if folder in line]
    spaces = list(Path("/run/netns").glob("affiant-*")) if Path("/run/netns").exists() else []
    links = [link.name for link in Path("/sys/class/net").iterdir() if link.name.startswith("aff")]
    tell.fact(
        "no process, mount, namespace or interface is left", not (left or mounts or spaces or links), "host"
    )


def _end(tell: Telling, place: Place, isolation: list[str], seconds: float) -> int:
    if tell.failed:
        print(f"\n{len(tell.failed)} of {tell.count} lines are not so:")
        for text in tell.failed:
            print(f"  NO  {text}")
        return 1
    where = place.folder.relative_to(Path.cwd()) if place.folder.is_relative_to(Path.cwd()) else place.folder
    print(f"\nAll {tell.count} lines are so ({seconds:.0f} s). The receipts: {where}/session.affiant.json")
    print("Look yourself, then run your own command:")
    print(f"  .venv/bin/affiant verify {where}/session.affiant.json --trust {where}/trust.json")
    print(f"  .venv/bin/affiant run --profile {where}/profiles.yaml --agent demo_agent \\")
    print(
        f"      {' '.join([*isolation, '--input examples'])} -- python3 -c 'print(\"hello from the sandbox\")'"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
