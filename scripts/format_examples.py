"""Writes ``docs/formats/examples.md`` and the vectors beside it: every literal byte string, from a fixed seed.

``python scripts/format_examples.py`` writes; with ``--check`` it only compares and exits with 1 on a difference. The
keys are made from the seed and are nobody's.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "attestation"))

from story import NOW, REQUEST, Story, leaf_of, trust_bytes  # noqa: E402

from affiant.attestation.encoding.binary_text import b64u, from_b64u, sha256_name  # noqa: E402
from affiant.attestation.encoding.canonical import canonical  # noqa: E402
from affiant.attestation.encoding.keys import Signer  # noqa: E402
from affiant.attestation.records.proof import MACKey, Request, issue_proof  # noqa: E402
from affiant.attestation.records.task_label import make_task_label  # noqa: E402
from affiant.attestation.statements.manifest import initdata, mrconfigid, session_events  # noqa: E402
from affiant.attestation.statements.restriction import Narrowing  # noqa: E402
from affiant.attestation.statements.statement import report_data  # noqa: E402

FOLDER = ROOT / "docs" / "formats"


class Seeded:
    """Bytes that follow from a seed: SHA-256 in counter mode."""

    def __init__(self, seed: bytes) -> None:
        self._seed, self._count = seed, 0

    def __call__(self, size: int) -> bytes:
        out = b""
        while len(out) < size:
            out += hashlib.sha256(self._seed + self._count.to_bytes(8, "big")).digest()
            self._count += 1
        return out[:size]


def told() -> Story:
    return Story(random_bytes=Seeded(b"affiant format examples, 1")).tell()


def _proof(story: Story, key: Signer | MACKey) -> bytes:
    request = Request.of("POST", "/v1/chat/completions", REQUEST, content_type="application/json")
    ksd = story.gateway_statement.keyset_digest
    return issue_proof(key, request, session=story.session, cseq=0, keyset_digest=ksd, now=NOW).encode()


def sections(story: Story) -> Iterator[tuple[str, str, bytes]]:
    """Title, what it is, the exact bytes."""
    yield "Gateway configuration", "MRCONFIGID of the gateway is its SHA-384.", story.config.raw
    yield "Reference values", "Named by `reference` of the configuration.", story.reference
    yield (
        "Keyset statement, gateway",
        "REPORTDATA is SHA-512 of `affiant/keyset/1\\n` and these bytes.",
        (story.gateway_statement.raw),
    )
    yield "Template manifest", "`man` is its SHA-256.", story.manifest.raw
    yield "Initdata", "MRCONFIGID of the session is its SHA-384.", initdata(story.manifest)
    yield "Activation", "`act` is its SHA-256.", story.activation.raw
    name, payload = session_events(story.manifest, story.activation)[3]
    yield (
        "RTMR3 preimage",
        "One event; the register is extended by its SHA-384.",
        canonical({"typ": "affiant-event/1", "name": name, "payload": payload}),
    )
    narrowing = Narrowing(
        1,
        "sha384:" + hashlib.sha384(b"the narrower profile").hexdigest(),
        "sha256:" + hashlib.sha256(b"its file").hexdigest(),
        old=story.manifest.profile_digest,
    )
    yield (
        "RTMR3 preimage, permission restriction",
        "The first event after the barrier, where the profile was restricted; `epoch` counts up to 64.",
        canonical({"typ": "affiant-event/1", "name": narrowing.event.name, "payload": narrowing.payload}),
    )
    yield (
        "Keyset statement, session",
        "As the gateway's, with `man`, `act` and `gks`.",
        story.session_statement.raw,
    )
    yield (
        "Attestation result (EAR)",
        "A compact JWS; `att.ses.ear` is SHA-256 of this text.",
        story.ear.encode(),
    )
    inference = next(r for r in story.gateway_records if r.payload["kind"] == "inference")
    yield "Receipt, header", "Byte-fixed but for `kid`.", from_b64u(inference.jws.split(".")[0])
    yield (
        "Receipt, payload",
        "An `inference`; the receipt hash covers the whole JWS.",
        canonical(inference.payload),
    )
    yield (
        "Disclosure",
        "Base64url of these bytes is the disclosure; its SHA-256 is in `_sd`.",
        from_b64u(inference.disclosures[0]),
    )
    yield from _acts()
    yield "Proof of possession", "The value of `Affiant-Proof`.", _proof(story, story.session_signer)
    key = bytes(range(32))
    yield (
        "Proof of possession by MAC",
        f"The same proof under the key `{key.hex()}` of `POST /v1/sessions/{{id}}/proof-key`.",
        _proof(story, MACKey(key, session=story.session)),
    )
    head = story.gateway_records[-1]
    yield (
        "Acknowledgement",
        "Answer to `POST /v1/sessions/{id}/records`.",
        canonical(
            {
                "rh": story.session_records[-1].rh,
                "leaf": b64u(leaf_of(story.session_records[-1].jws).leaf_hash),
                "head": {"chn": head.payload["chn"], "seq": head.payload["seq"], "rh": head.rh},
            }
        ),
    )
    leaf = leaf_of(inference.jws)
    yield "Log leaf", "66 bytes; the tree holds SHA-256(0x00 || leaf).", leaf.to_bytes()
    proof_text = story.proofs()[inference.rh].encode()
    yield "Proof of inclusion", "C2SP tlog-proof; its checkpoint is a C2SP signed note.", proof_text
    evidence = json.loads(story.session_evidence)
    labels = {k: [v[0], v[1][:16] + "...", v[2]] if isinstance(v, list) else v for k, v in evidence.items()}
    yield (
        "Evidence record (CMW), values cut",
        f"The whole is {len(story.session_evidence)} bytes; `evd` is its SHA-256.",
        (canonical(labels)),
    )


def _acts() -> Iterator[tuple[str, str, bytes]]:
    """What a supervisor writes of files and ports: in a chain of its own, which no bundle has."""
    story = Story(random_bytes=Seeded(b"affiant format examples, acts")).tell()
    label = make_task_label(
        {"workflow": "nightly", "task": "summarise", "attempt": 1}, random_bytes=Seeded(b"task")
    )
    yield (
        "Task label",
        "`task` of the activation, `tsk` of `session-start`.",
        canonical({"_sd": [*label.digests]}),
    )
    moved = story.by_supervisor(
        "file",
        "file",
        {"mov": {"dir": "in"}},
        {"mov": {"path": "/workspace", "dig": sha256_name(b"a tree"), "n": 2, "len": 4096}},
    )
    yield "Files, payload", "Signed and acknowledged before the first byte moves.", canonical(moved.payload)
    failed = story.by_supervisor(
        "file-failed",
        "file",
        {"mov": {"dir": "in"}, "ph": "failed", "par": [moved.payload["jti"]]},
        {"mov": {"n": 1, "len": 1024}},
    )
    yield "Files that did not all move, payload", "Names the record that began it.", canonical(failed.payload)
    opened = story.by_supervisor("port", "port", {"prt": {}, "ph": "opened"}, {"prt": {"num": 8080}})
    yield "Port, payload", "Signed and acknowledged before anybody can connect.", canonical(opened.payload)
    closed = story.by_supervisor(
        "port-closed",
        "port",
        {"prt": {}, "ph": "closed", "par": [opened.payload["jti"]]},
        {"prt": {"num": 8080, "in": 310, "out": 2048}},
    )
    yield "Port that was closed, payload", "Hides how many bytes went in and out.", canonical(closed.payload)
    yield "Disclosure of a path", "Of the files above.", from_b64u(moved.disclosures[0])


def _shown(raw: bytes) -> str:
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return raw.hex()
    return text if text.replace("\n", "").isprintable() else raw.hex()


def page(story: Story) -> str:
    lines = [
        "# Examples of every literal byte string",
        "",
        "Generated by `scripts/format_examples.py` from a fixed seed; SIMULATED, and its keys are nobody's. Beside it",
        "stand the whole bundle and a trust file: `vectors/session.affiant.json` and `vectors/trust.json`, judged at",
        f"`{NOW:%Y-%m-%dT%H:%M:%SZ}` with exit code 40. What is no text is shown in hexadecimal.",
        "",
    ]
    for title, text, raw in sections(story):
        lines += [f"## {title}", "", text, "", "```", _shown(raw), "```", ""]
        lines += [f"{len(raw)} bytes, SHA-256 `{hashlib.sha256(raw).hexdigest()}`", ""]
    lines += [
        "## Digests that follow",
        "",
        "| what | value |",
        "|---|---|",
        f"| keyset digest, gateway | `{story.gateway_statement.keyset_digest}` |",
        f"| keyset digest, session | `{story.session_statement.keyset_digest}` |",
        f"| REPORTDATA, gateway | `{report_data(story.gateway_statement.raw).hex()}` |",
        f"| MRCONFIGID, gateway | `{story.config.mrconfigid.hex()}` |",
        f"| MRCONFIGID, session | `{mrconfigid(story.manifest).hex()}` |",
        f"| `evd`, session | `{b64u(hashlib.sha256(story.session_evidence).digest())}` |",
        f"| bundle | `{hashlib.sha256(story.bytes()).hexdigest()}` |",
        "",
    ]
    return "\n".join(lines)


def files() -> dict[Path, bytes]:
    story = told()
    return {
        FOLDER / "examples.md": page(story).encode(),
        FOLDER / "vectors" / "session.affiant.json": story.bytes(),
        FOLDER / "vectors" / "trust.json": trust_bytes(),
    }


def main() -> int:
    changed = [path for path, data in files().items() if not path.exists() or path.read_bytes() != data]
    if "--check" in sys.argv[1:]:
        for path in changed:
            print(f"{path.relative_to(ROOT)} is not what the code makes; run scripts/format_examples.py")
        return 1 if changed else 0
    for path in changed:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(files()[path])
        print(f"wrote {path.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
