"""Quorums of Ed25519 and ML-DSA-44 witnesses: both verifiers count the same lines, and refuse the same ones."""

from __future__ import annotations

import random
import struct
from collections import Counter
from collections.abc import Callable, Sequence

import pytest
from tests.attestation.log_builder import ORIGIN, cosigner, log_signer, mldsa_cosigner, seed
from tests.attestation.verifier_js.test_foundations import Probe, probe, question

from affiant.attestation.tlog.checkpoint import Checkpoint
from affiant.attestation.tlog.errors import QuorumMissed
from affiant.attestation.tlog.note import NoteSignature, parse_note, signed
from affiant.attestation.tlog.note_keys import MLDSACosignerKey
from affiant.attestation.tlog.note_signing import Cosigner, MLDSACosigner
from affiant.attestation.tlog.quorum import parse_witness_policy, verify_quorum
from affiant.errors import AffiantError

__all__ = ["probe"]

NOW = 1_795_000_000
LOG = log_signer()
ED25519 = [cosigner(number, NOW + number) for number in range(3)]
MLDSA = [mldsa_cosigner(number, NOW + number) for number in range(3, 6)]
LONG, LONGER = (
    MLDSACosigner(name, mldsa_cosigner(number).private_key, NOW)
    for name, number in (("w" * 255, 6), ("w" + "\u00e4" * 128, 7))
)
"""Names of 255 and of 257 bytes; the first is the longest that a signed message has room for."""
NAMED: dict[str, Cosigner | MLDSACosigner] = {
    "self": ED25519[0],
    "ed-1": ED25519[1],
    "ed-2": ED25519[2],
    "ml-1": MLDSA[0],
    "ml-2": MLDSA[1],
    "ml-3": MLDSA[2],
    "long": LONG,
}
TREE = Checkpoint(ORIGIN, 7, seed("root"))

Asked = tuple[bytes, str]


def policy(lines: Sequence[str], names: Sequence[str] = tuple(NAMED)) -> str:
    rows = [f"witness {name} {NAMED[name].verifier.vkey()}" for name in names]
    return "\n".join([*rows, *lines, ""])


def python_says(note: bytes, text: str) -> dict[str, object]:
    try:
        seen = verify_quorum(parse_note(note), parse_witness_policy(text.encode()), logs=[LOG.verifier])
    except QuorumMissed:
        return {"ok": None}
    except AffiantError as error:
        return {"code": error.code}
    times = ",".join(f"{name},{time}" for name, time in sorted(seen.times.items()))
    ends = ["null" if time is None else str(time) for time in (seen.not_before, seen.not_after)]
    return {"ok": [str(seen.checkpoint.size), times, str(seen.independent).lower(), *ends]}


def told_alike(probe: Probe, asked: Sequence[Asked]) -> list[dict[str, object]]:
    questions = [
        question("cosigned", note, policy=text.encode(), vkey=LOG.verifier.vkey()) for note, text in asked
    ]
    ours = [python_says(*each) for each in asked]
    for (note, text), mine, theirs in zip(asked, ours, probe(questions), strict=True):
        assert mine == theirs, (note[:200], text[-200:])
    return ours


def note_of(*lines: NoteSignature, tree: Checkpoint = TREE) -> bytes:
    return signed(tree.to_text(), LOG).with_signatures(lines).to_bytes()


def test_random_quorums_are_counted_alike(probe: Probe) -> None:
    dice = random.Random(61)
    asked = []
    for _ in range(60):
        names = dice.sample(sorted(NAMED), dice.randrange(2, 7))
        first = dice.randrange(1, len(names))
        lines = [f"group x {dice.choice(['any', 'all', '1'])} {' '.join(names[:first])}"]
        lines += [f"group y {dice.choice(['any', 'all'])} x {' '.join(names[first:])}", "quorum y"]
        cosigned = [NAMED[name] for name in dice.sample(names, dice.randrange(len(names) + 1))]
        moved = [type(each)(each.name, each.private_key, NOW + dice.randrange(90)) for each in cosigned]
        asked.append((note_of(*(each.sign(TREE.to_text()) for each in moved)), policy(lines, names)))
    answers = told_alike(probe, asked)
    counted = [str(answer["ok"]) for answer in answers if answer["ok"] is not None]
    assert len(counted) > 15 < len(answers) - len(counted)
    assert sum("ml-" in each and "ed-" in each for each in counted) > 3


def message(
    *,
    label: bytes = b"subtree/v1\n\0",
    name: str = MLDSA[0].name,
    time: int = NOW,
    origin: str = ORIGIN,
    start: int = 0,
    end: int = TREE.size,
    root: bytes = TREE.root,
) -> bytes:
    witness, log = name.encode(), origin.encode()
    head = label + bytes((len(witness) & 255,)) + witness + struct.pack(">Q", time)
    return head + bytes((len(log),)) + log + struct.pack(">QQ", start, end) + root


def line_over(signed_message: bytes, *, time: int = NOW, witness: MLDSACosigner = MLDSA[0]) -> NoteSignature:
    """A line of ``witness`` over any message, which names any time."""
    signature = struct.pack(">Q", time) + witness.private_key.sign(signed_message)
    return NoteSignature(witness.verifier.key, signature)


def altered(change: Callable[[bytes], bytes]) -> NoteSignature:
    line = line_over(message())
    return NoteSignature(line.key, change(line.signature))


def flipped(at: int) -> Callable[[bytes], bytes]:
    return lambda data: data[:at] + bytes((data[at] ^ 1,)) + data[at + 1 :]


REFUSED = {
    "a bit of the time": altered(flipped(7)),
    "a bit of the challenge": altered(flipped(8)),
    "a bit of the response": altered(flipped(1000)),
    "a bit of the hints": altered(flipped(8 + 2420 - 1)),
    "cut short": altered(lambda data: data[:-1]),
    "too long": altered(lambda data: data + b"\0"),
    "a time alone": altered(lambda data: data[:8]),
    "a few bytes": altered(lambda data: data[:3]),
    "an Ed25519 signature": NoteSignature(MLDSA[0].verifier.key, ED25519[1].sign(TREE.to_text()).signature),
    "another time": line_over(message(time=NOW + 1)),
    "no time": line_over(message(time=0), time=0),
    "a time that is too large": line_over(message(time=1 << 63), time=1 << 63),
    "another size": line_over(message(end=TREE.size + 1)),
    "another root": line_over(message(root=seed("another root"))),
    "another log": line_over(message(origin="log.example/another")),
    "another witness's name": line_over(message(name=MLDSA[1].name)),
    "a subtree": line_over(message(start=4)),
    "another label": line_over(message(label=b"subtree/v2\n\0")),
    "the text of an Ed25519 cosignature": line_over(f"cosignature/v1\ntime {NOW}\n{TREE.to_text()}".encode()),
    "the text alone": line_over(TREE.to_text().encode()),
    "another key": NoteSignature(MLDSA[0].verifier.key, line_over(message(), witness=MLDSA[1]).signature),
}


@pytest.mark.parametrize("threshold", [1, 3])
def test_a_line_of_a_named_witness_that_does_not_hold_refuses_whoever_else_has_cosigned(
    probe: Probe, threshold: int
) -> None:
    others = [each.sign(TREE.to_text()) for each in (*ED25519[:2], MLDSA[1])]
    text = policy([f"group g {threshold} self ed-1 ml-1 ml-2", "quorum g"])
    answers = told_alike(probe, [(note_of(*others, line), text) for line in REFUSED.values()])
    assert answers == [{"code": "note.signature"}] * len(REFUSED)
    without = policy([f"group g {threshold} self ed-1 ml-2", "quorum g"], ["self", "ed-1", "ml-2"])
    ignored = told_alike(probe, [(note_of(*others, line), without) for line in REFUSED.values()])
    assert all(answer.get("ok") for answer in ignored), "a line of nobody who is named counts for nothing"


def test_a_line_that_holds_is_counted(probe: Probe) -> None:
    text = policy(["quorum ml-1"])
    (answer,) = told_alike(probe, [(note_of(line_over(message())), text)])
    assert answer == {"ok": ["7", f"ml-1,{NOW}", "true", str(NOW), str(NOW)]}


def test_extension_lines_are_in_the_message_of_ed25519_alone(probe: Probe) -> None:
    extended = Checkpoint(ORIGIN, TREE.size, TREE.root, ("an extension",))
    notes = [note_of(witness.sign(TREE.to_text()), tree=extended) for witness in (ED25519[1], MLDSA[0])]
    answers = told_alike(probe, [(note, policy(["group g any ed-1 ml-1", "quorum g"])) for note in notes])
    assert [answer.get("code") for answer in answers] == ["note.signature", None]


def test_a_name_has_255_bytes_at_most(probe: Probe) -> None:
    """The name of 257 bytes signs with a length that wraps around to 1, which no reader may follow."""
    long = policy(["quorum long"])
    longer = f"witness longer {LONGER.verifier.vkey()}\nquorum longer\n"
    wrapped = line_over(message(name=LONGER.name), witness=LONGER)
    answers = told_alike(probe, [(note_of(LONG.sign(TREE.to_text())), long), (note_of(wrapped), longer)])
    assert len(LONG.name.encode()) == 255 < len(LONGER.name.encode())
    assert "ok" in answers[0] and answers[1] == {"code": "note.signature"}


def test_policies_of_both_kinds_are_read_alike(probe: Probe) -> None:
    """A log's key is Ed25519; a key stands once; a vkey's size is its algorithm's."""
    key = MLDSA[0].verifier
    cut = MLDSACosignerKey(key.name, key.public_key[:-1])
    note = note_of(line_over(message()))
    bad = [
        f"log {key.vkey()}\nquorum none\n",
        policy([f"witness twice {key.vkey()}", "quorum ml-1"]),
        policy([f"witness other {MLDSACosignerKey('x', key.public_key).vkey()}", "quorum ml-1"]),
        f"witness cut {cut.vkey()}\nquorum cut\n",
        f"witness log {LOG.verifier.vkey()}\nquorum log\n",
        f"witness id {key.vkey().replace('+', '+0', 1)}\nquorum id\n",
    ]
    questions = [question("cosigned", note, policy=text.encode(), vkey=LOG.verifier.vkey()) for text in bad]
    assert probe(questions) == [{"code": "trust.malformed"}] * len(bad)
    for text in bad:
        assert python_says(note, text)["code"] == "quorum.malformed"


def test_broken_lines_are_judged_alike(probe: Probe) -> None:
    """Bytes of a note flipped anywhere: text, names, key ids, signatures."""
    dice = random.Random(62)
    good = note_of(*(each.sign(TREE.to_text()) for each in (ED25519[1], MLDSA[0])))
    text = policy(["group g all ed-1 ml-1", "quorum g"])
    notes = [good]
    for _ in range(120):
        broken = bytearray(good)
        at = dice.choice([dice.randrange(200), dice.randrange(len(good))])
        broken[at] ^= 1 << dice.randrange(8)
        notes.append(bytes(broken))
    answers = told_alike(probe, [(note, text) for note in notes])
    codes = Counter(str(answer.get("code", "missed")) for answer in answers[1:])
    assert answers[0].get("ok") and codes["note.signature"] > 40 and codes["note.malformed"] > 10, codes
    assert not any(answer.get("ok") for answer in answers[1:])
