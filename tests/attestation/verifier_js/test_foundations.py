"""JSON, base64, instants, signatures, notes: both verifiers read the same bytes as the same thing, or both refuse."""

from __future__ import annotations

import base64
import json
import random
import string
from collections.abc import Callable

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.attestation.small_order import SMALL_ORDER
from tests.attestation.story import trust_bytes
from tests.attestation.verifier_js.conftest import Answers

from affiant.attestation.encoding.binary_text import b64u, from_b64u
from affiant.attestation.encoding.canonical import canonical, parse_canonical, parse_strict
from affiant.attestation.encoding.keys import Signer, public_jwk, verify_es256
from affiant.attestation.signatures.profiles.signing_keys import ProfileKey
from affiant.attestation.statements.gateway_config import DEV_ECHO, make_gateway_config, parse_gateway_config
from affiant.attestation.tlog.checkpoint import Checkpoint
from affiant.attestation.tlog.note import from_base64, parse_note, signed, verify_note
from affiant.attestation.tlog.note_signing import LogSigner
from affiant.attestation.verdict.lines import quoted
from affiant.attestation.verdict.trust_file import parse_instant, parse_trust_file
from affiant.command_line import printable
from affiant.errors import AffiantError

ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
PRIME = 0xFFFFFFFF00000001000000000000000000000000FFFFFFFFFFFFFFFFFFFFFFFF

Probe = Callable[[list[dict[str, str]]], list[dict[str, object]]]


@pytest.fixture(scope="module")
def probe(probing: Answers) -> Probe:
    return lambda questions: probing([json.dumps(question) for question in questions])


def question(op: str, data: bytes, **more: bytes | str) -> dict[str, str]:
    encoded = {name: value if isinstance(value, str) else _b64(value) for name, value in more.items()}
    return {"op": op, "data": _b64(data), **encoded}


def _b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def answered(call: Callable[[], object]) -> dict[str, object]:
    """What Python says, in the probe's words."""
    try:
        return {"ok": call()}
    except AffiantError as error:
        return {"code": error.code}


def value_of(dice: random.Random, depth: int = 0) -> object:
    kind = dice.randrange(8 if depth < 4 else 5)
    if kind == 0:
        return dice.choice([None, True, False])
    if kind == 1:
        return dice.choice([0, 1, -1, 2**53 - 1, -(2**53 - 1), dice.randrange(-999, 999)])
    if kind < 5:
        alphabet = string.printable + "\u00e4\u20ac\ud7ff\ue000\uffff\U0001f600\u2028\u202e\x7f\x1f"
        return "".join(dice.choices(alphabet, k=dice.randrange(6)))
    if kind == 5:
        return [value_of(dice, depth + 1) for _ in range(dice.randrange(4))]
    names = ["__proto__", "constructor", "", "a", "10", "9", "\u00e4", "\uffff", "\U0001f600", "toString"]
    return {dice.choice(names): value_of(dice, depth + 1) for _ in range(dice.randrange(5))}


def documents() -> list[bytes]:
    dice = random.Random(7)
    made = []
    for _ in range(250):
        value = value_of(dice)
        made += [canonical(value), json.dumps(value, indent=dice.choice([None, 1])).encode()]
        broken = bytearray(made[-2])
        for _ in range(dice.randrange(1, 3)):
            if broken:
                broken[dice.randrange(len(broken))] = dice.choice(b'{}[],:"\\0 19e.-tn\xc3\x00u')
        made.append(bytes(broken))
    return made


NASTY = [
    b"",
    b" ",
    b"-0",
    b"01",
    b"1.0",
    b"1e2",
    b"1E2",
    b"-",
    b"+1",
    b"NaN",
    b"Infinity",
    b"-Infinity",
    b"9007199254740991",
    b"9007199254740992",
    b"-9007199254740992",
    b"1" * 400,
    b"[" * 32 + b"]" * 32,
    b"[" * 33 + b"]" * 33,
    b"[" * 100_000,
    b'{"a":1,"a":1}',
    b'{"__proto__":1,"__proto__":2}',
    b'{"a":1,"\\u0061":2}',
    b'{"__proto__":{"typ":1}}',
    b'"\\ud800"',
    b'"\\ud83d\\ude00"',
    b'"\xed\xa0\x80"',
    b'"\xc0\xaf"',
    b'"\xff"',
    b"\xef\xbb\xbf{}",
    b'"\x00"',
    b'"\x7f"',
    b'"\\u00zz"',
    b'"\\u 123"',
    b'"\\x41"',
    b'"a',
    b"[1,]",
    b"[,1]",
    b'{"a":1,}',
    b"{,}",
    b'{"a"}',
    b"{a:1}",
    b"[1 2]",
    b"{} {}",
    b"\xc2\xa0{}",
    b"\x0b{}",
    b"truex",
    b"nul",
    b"'a'",
    b"[1]//",
]


@pytest.mark.parametrize("op", ["strict", "canonical"])
def test_json_is_read_alike(probe: Probe, op: str) -> None:
    read = {"strict": parse_strict, "canonical": parse_canonical}[op]
    cases = [*documents(), *NASTY]
    answers = probe([question(op, data) for data in cases])
    for data, answer in zip(cases, answers, strict=True):
        assert answer == answered(lambda data=data: canonical(read(data)).hex()), data
    assert sum("ok" in answer for answer in answers) > 200


def test_base64_is_read_alike(probe: Probe) -> None:
    dice = random.Random(8)
    texts = [b64u(dice.randbytes(n)) for n in range(40)] + [
        "AB",
        "A",
        "AA==",
        "AAA=",
        "A A",
        "AA\n",
        "AA+/",
        "____",
    ]
    texts += ["".join(dice.choices("AB-_=+/ \n\u00e4", k=dice.randrange(9))) for _ in range(200)]
    answers = probe([question("base64url", text.encode()) for text in texts])
    for text, answer in zip(texts, answers, strict=True):
        assert answer == answered(lambda text=text: from_b64u(text).hex()), repr(text)
    texts += [_b64(dice.randbytes(n)) for n in range(1, 40)]
    answers = probe([question("base64", text.encode()) for text in texts])
    for text, answer in zip(texts, answers, strict=True):
        expected = answered(lambda text=text: from_base64(text).hex())
        assert answer["ok"] == expected.get("ok"), repr(text)


def test_an_instant_is_read_alike(probe: Probe) -> None:
    texts = ["2026-11-21T12:00:00Z", "2024-02-29T23:59:59Z", "1970-01-01T00:00:00Z", "2026-1-1T3:0:0Z"]
    texts += ["2025-02-29T00:00:00Z", "2026-13-01T00:00:00Z", "2026-01-01T24:00:00Z", "2026-01-01T00:00:60Z"]
    texts += [
        "2026-11-21T12:00:00",
        "2026-11-21T12:00:00.0Z",
        "2026-11-21 12:00:00Z",
        "2026-11-21T12:00:00Z\n",
        "",
    ]
    for text, answer in zip(
        texts, probe([question("instant", text.encode()) for text in texts]), strict=True
    ):
        assert answer == answered(lambda text=text: parse_instant(text).timestamp()), text


def test_signatures_are_judged_alike(probe: Probe) -> None:
    signer, other = (Signer(ec.derive_private_key(n, ec.SECP256R1())) for n in (7, 8))
    message = b"message"
    good = signer.sign(message)
    r, s = good[:32], int.from_bytes(good[32:], "big")
    high = r + (ORDER - s).to_bytes(32, "big")
    made = [
        good,
        high,
        good[:-1],
        good + b"\0",
        bytes(64),
        bytes(32) + good[32:],
        r + bytes(32),
        other.sign(message),
    ]
    made += [ORDER.to_bytes(32, "big") + good[32:], r + ORDER.to_bytes(32, "big"), b"0E\x02\x21\0" + good]
    made += [bytes(b ^ (1 << n % 8) if i == n else b for i, b in enumerate(good)) for n in range(0, 64, 3)]
    jwk = public_jwk(signer.public_key)
    point = from_b64u(jwk["x"]) + from_b64u(jwk["y"])
    answers = probe([question("es256", message, point=point, signature=each) for each in made])
    for signature, answer in zip(made, answers, strict=True):
        expected = answered(
            lambda signature=signature: verify_es256(signer.public_key, message, signature) is None
        )
        assert answer == expected, signature.hex()
    assert [answer for answer in answers if "ok" in answer] == [{"ok": True}]


def test_a_point_off_the_curve_or_out_of_range_is_none(probe: Probe) -> None:
    jwk = public_jwk(Signer(ec.derive_private_key(7, ec.SECP256R1())).public_key)
    x, y = from_b64u(jwk["x"]), from_b64u(jwk["y"])
    beyond = PRIME.to_bytes(32, "big")
    points = [x + y, y + x, bytes(64), x + beyond, beyond + y, b"\xff" * 64]
    answers = probe([question("point", point) for point in points])
    assert [answer["ok"] for answer in answers] == [True, False, False, False, False, False]


def test_notes_are_judged_alike(probe: Probe) -> None:
    signer, other = (
        LogSigner("log.example/1", Ed25519PrivateKey.from_private_bytes(bytes([n]) * 32)) for n in (1, 2)
    )
    text = Checkpoint("log.example/1", 7, bytes(32)).to_text()
    good = signed(text, signer).to_bytes()
    vkey = signer.verifier.vkey()
    notes = [
        good,
        signed(text, other).to_bytes(),
        signed(text, other, signer).to_bytes(),
        good + b"x",
        good[:-1],
    ]
    notes += [
        good.replace(b"\n\n", b"\n"),
        b"",
        b"\n\n",
        good.replace(b"7", b"8"),
        good.replace(b"log", b"l\x00g"),
    ]
    notes += [
        good + good.rpartition(b"\n\n")[2],
        good.replace("\u2014".encode(), b"-"),
        good.replace(b" ", b"  "),
    ]
    dice = random.Random(9)
    for _ in range(150):
        broken = bytearray(good)
        broken[dice.randrange(len(good))] ^= 1 << dice.randrange(8)
        notes.append(bytes(broken))
    answers = probe([question("note", note, vkey=vkey) for note in notes])
    for note, answer in zip(notes, answers, strict=True):
        expected = answered(lambda note=note: bool(verify_note(parse_note(note), [signer.verifier])))
        assert answer == expected, note


def profile_signers() -> list[object]:
    """Lists of signers of profiles: each good one, and what is wrong with the others."""
    keys = [
        dict(ProfileKey.of(key.public_key()).to_jwk())
        for key in (
            ec.derive_private_key(3, ec.SECP256R1()),
            ec.derive_private_key(3, ec.SECP384R1()),
            Ed25519PrivateKey.from_private_bytes(bytes(32)),
        )
    ]
    p256, p384, ed25519 = ({"value": {"key": key}} for key in keys)
    root = {"mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1", "tlogs": [1]}

    def identity(**changes: object) -> dict[str, object]:
        return {"value": {"trusted_root": root, "identity": "a@b.example", "issuer": "https://x", **changes}}

    def changed(key: dict[str, str], **changes: object) -> dict[str, object]:
        return {"value": {"key": {**key, **changes}}}

    until = {**p256, "until": "2026-01-01T00:00:00Z"}
    good: list[object] = [[p256], [p384], [ed25519], [p256, p384, ed25519, identity()], [until]]
    return [
        *good,
        [identity(identity="a" * 1024)],
        [identity(identity="a" * 1025)],
        *([identity(identity=text)] for text in ("", " a", "a ", "\u00e4", "a\x7f", 1)),
        [identity(issuer=None)],
        [identity(trusted_root={})],
        [identity(more=1)],
        [identity()] * 17,
        [p256, p256],
        [until, until],
        [until, p256],
        [identity(), p384, identity()],
        *([changed(keys[2], x=b64u(point))] for point in SMALL_ORDER),
        [changed(keys[2], x=b64u((2**255 - 19 + 3).to_bytes(32, "little")))],
        *([{**p256, "until": text}] for text in (None, 5, "2026-02-30T00:00:00Z", "2026-01-01")),
        [{**p256, "note": 1}],
        [{"value": {"key": "-----BEGIN PUBLIC KEY-----"}}],
        [changed(keys[0], y=keys[0]["x"])],
        [changed(keys[1], y=keys[1]["x"])],
        [changed(keys[1], d="AA")],
        [changed(keys[1], kty="OKP")],
        [changed(keys[2], x="AA")],
        [changed(keys[2], x=5)],
        *([], None, {}, [{}], [[]], ["*"]),
    ]


def test_profile_signers_of_a_configuration_are_read_alike(probe: Probe) -> None:
    plain = make_gateway_config(
        iss="i", cls="simulated", origin="o", reference="sha256:" + "0" * 64, upstreams=[DEV_ECHO]
    )
    members = json.loads(plain.raw)
    files = [canonical({**members, "profile_signers": each}) for each in profile_signers()]
    answers = probe([question("config", data) for data in files])
    for data, answer in zip(files, answers, strict=True):
        assert answer == answered(lambda data=data: parse_gateway_config(data).digest), data
    assert [("ok" in answer) for answer in answers[:6]] == [True] * 6
    assert sum("ok" in answer for answer in answers) == 6


def test_the_baseline_policy_of_a_configuration_is_read_alike(probe: Probe) -> None:
    plain = make_gateway_config(
        iss="i", cls="simulated", origin="o", reference="sha256:" + "0" * 64, upstreams=[DEV_ECHO]
    )
    members = json.loads(plain.raw)
    good = "sha384:" + "0a" * 48
    bad = ["sha256:" + "0" * 64, good.upper(), good + "0", good + "\n", "", None, 5, [good]]
    files = [canonical({**members, "floor": each}) for each in (good, *bad)]
    answers = probe([question("config", data) for data in files])
    for data, answer in zip(files, answers, strict=True):
        assert answer == answered(lambda data=data: parse_gateway_config(data).digest), data
    assert [("ok" in answer) for answer in answers] == [True] + [False] * len(bad)


def test_names_of_tool_servers_are_read_alike(probe: Probe) -> None:
    plain = make_gateway_config(
        iss="i", cls="simulated", origin="o", reference="sha256:" + "0" * 64, upstreams=[DEV_ECHO]
    )
    members = json.loads(plain.raw)
    good = ["k8s", "0", "a" * 63, "affiant", "affiant-session", "affiant-sessions-2", "my-affiant-sessions"]
    bad = ["affiant-sessions", "affiant-sessions\n", "", "-a", "A", "a_b", "a" * 64, 5, None]
    server = {"command": ["/usr/bin/k8s-mcp"], "timeout_s": 60, "concurrent": 8}
    files = [canonical({**members, "mcp_servers": [{**server, "id": each}]}) for each in (*good, *bad)]
    answers = probe([question("config", data) for data in files])
    for data, answer in zip(files, answers, strict=True):
        assert answer == answered(lambda data=data: parse_gateway_config(data).digest), data
    assert [("ok" in answer) for answer in answers] == [True] * len(good) + [False] * len(bad)


def test_members_that_dialects_are_allowed_are_read_alike(probe: Probe) -> None:
    plain = make_gateway_config(
        iss="i", cls="simulated", origin="o", reference="sha256:" + "0" * 64, upstreams=[DEV_ECHO]
    )
    members = json.loads(plain.raw)
    one = ["request.name"]
    good = [{}, {"responses": one}, {"embeddings": ["a b_c d e.~"], "rerank": ["request.x", "request.x"]}]
    bad = [
        *({"chat": one}, {"responses2": one}, {"xresponses": one}, {"": one}, {"responses": []}),
        *(
            {"responses": [each]}
            for each in ("", "request", ".x", "request.", "a b c d e.x", "A.x", "a  b.x", "a.\n")
        ),
        *({"responses": ["a.b"] * 65}, {"responses": "a.b"}, [], None, 5),
    ]
    files = [canonical({**members, "members": each}) for each in (*good, *bad)]
    answers = probe([question("config", data) for data in files])
    for data, answer in zip(files, answers, strict=True):
        assert answer == answered(lambda data=data: parse_gateway_config(data).digest), data
    assert [("ok" in answer) for answer in answers] == [True] * len(good) + [False] * len(bad)


def test_folders_of_tool_servers_are_read_alike(probe: Probe) -> None:
    plain = make_gateway_config(
        iss="i", cls="simulated", origin="o", reference="sha256:" + "0" * 64, upstreams=[DEV_ECHO]
    )
    members = json.loads(plain.raw)
    good = [["/srv"], ["/srv/a.b/c-d_e@f+1", "/w"], ["/..a/b..", "/.a"], ["/" + "a" * 255], ["/a" * 16]]
    bad = [
        *([], ["/"], ["srv"], ["/srv/"], ["/srv//a"], ["/srv/../a"], ["/.."], ["/srv/."], ["/a b"], ["/a\n"]),
        *(["/\u00e9"], ["/" + "a" * 256], ["/a" * 17], ["/a"] * 9, [""], [5], "/srv", {}, None),
    ]
    local = {"id": "k8s", "command": ["/usr/bin/k8s-mcp"], "timeout_s": 60, "concurrent": 8}
    remote = {"id": "web", "url": "https://a.example", "timeout_s": 60, "concurrent": 8, "folders": ["/srv"]}
    servers = [*({**local, "folders": each} for each in (*good, *bad)), remote]
    files = [canonical({**members, "mcp_servers": [each]}) for each in servers]
    answers = probe([question("config", data) for data in files])
    for data, answer in zip(files, answers, strict=True):
        assert answer == answered(lambda data=data: parse_gateway_config(data).digest), data
    assert [("ok" in answer) for answer in answers] == [True] * len(good) + [False] * (len(bad) + 1)


def test_members_of_chat_completions_are_read_alike(probe: Probe) -> None:
    plain = make_gateway_config(
        iss="i", cls="simulated", origin="o", reference="sha256:" + "0" * 64, upstreams=[DEV_ECHO]
    )
    members = json.loads(plain.raw)
    good = [["request.a"], ["part.a.b", "reasoning.\u0021"], [f"response_part.{'a' * 64}"], ["choice.a"] * 64]
    bad = [
        *(
            [],
            ["a"],
            ["request"],
            ["request."],
            ["tool.a"],
            ["request.a b"],
            ["request.\u00e9"],
            [" request.a"],
        ),
        *([f"request.{'a' * 65}"], ["choice.a"] * 65, "request.a", {}, None, [5]),
    ]
    files = [canonical({**members, "chat_members": each}) for each in (*good, *bad)]
    answers = probe([question("config", data) for data in files])
    for data, answer in zip(files, answers, strict=True):
        assert answer == answered(lambda data=data: parse_gateway_config(data).digest), data
    assert [("ok" in answer) for answer in answers] == [True] * len(good) + [False] * len(bad)


def test_members_of_other_dialects_are_read_alike(probe: Probe) -> None:
    plain = make_gateway_config(
        iss="i", cls="simulated", origin="o", reference="sha256:" + "0" * 64, upstreams=[DEV_ECHO]
    )
    members = json.loads(plain.raw)
    good = [
        {"messages": ["request.a"], "responses": ["input item.a.b", "response_part.\u0021"]},
        {"rerank": [f"request.{'a' * 64}"] * 64},
        {},
    ]
    bad = [
        *(
            {"chat": ["request.a"]},
            {"smtp": ["request.a"]},
            {"messages": []},
            {"messages": ["request.a"] * 65},
        ),
        *({"messages": [name]} for name in ("request", "request.", "Request.a", " request.a", "request.a b")),
        *({"messages": [f"request.{'a' * 65}"]}, {"messages": "request.a"}, [], None, 5),
    ]
    files = [canonical({**members, "members": each}) for each in (*good, *bad)]
    answers = probe([question("config", data) for data in files])
    for data, answer in zip(files, answers, strict=True):
        assert answer == answered(lambda data=data: parse_gateway_config(data).digest), data
    assert [("ok" in answer) for answer in answers] == [True] * len(good) + [False] * len(bad)


def test_bounds_at_upstreams_and_of_events_are_read_alike(probe: Probe) -> None:
    plain = make_gateway_config(
        iss="i", cls="simulated", origin="o", reference="sha256:" + "0" * 64, upstreams=[DEV_ECHO]
    )
    members = json.loads(plain.raw)
    (upstream,) = members["upstreams"]
    bad: list[object] = [-1, (1 << 53) - 1, "64", None, True, [64]]
    bounds = {"concurrent": (1, 4096)} | dict.fromkeys(("head_s", "idle_s", "total_s"), (1, 86_400))
    good = [(name, each) for name, ends in bounds.items() for each in (*ends, 64)]
    wrong = [(name, each) for name, (least, most) in bounds.items() for each in (*bad, least - 1, most + 1)]
    files = [
        canonical({**members, "upstreams": [{**upstream, name: each}]}) for name, each in (*good, *wrong)
    ]
    least, most = 64 << 10, 64 << 20
    files = [canonical({**members, "event_max": each}) for each in (least, most)] + files
    files += [canonical({**members, "event_max": each}) for each in (*bad, least - 1, most + 1)]
    answers = probe([question("config", data) for data in files])
    for data, answer in zip(files, answers, strict=True):
        assert answer == answered(lambda data=data: parse_gateway_config(data).digest), data
    accepted = 2 + len(good)
    assert [("ok" in answer) for answer in answers] == [True] * accepted + [False] * (len(files) - accepted)


def test_trust_files_are_read_alike(probe: Probe) -> None:
    log = LogSigner("log.example/1", Ed25519PrivateKey.from_private_bytes(bytes(32))).verifier.vkey()
    instant = {"value": "host-usr", "from": "2026-11-21T00:00:00Z", "until": None}
    changes: list[dict[str, object]] = [
        {},
        {"typ": "affiant-trust/2"},
        {"more": 1},
        {"witnesses": []},
        {"rootfs": []},
        {"rootfs": [instant]},
        {"rootfs": [{**instant, "from": "2026-1-1T3:0:0Z"}]},
        {"rootfs": [{**instant, "more": 1}]},
        {"rootfs": [{"value": "sha256:00"}]},
        {"rootfs": ["host-usr"]},
        {"rootfs": None},
        {"tee_roots": ...},
        {"tee_roots": [{"value": "intel"}]},
        {"tee_roots": [{"value": "amd"}]},
        {"reference_values": ...},
        {"reference_values": [{"value": {}}]},
        {"profiles": ...},
        {"profiles": [{"value": 1}]},
        {"log": ...},
        {"log": [{"value": log}]},
        {"log": [{"value": log.replace("+", "+0", 1)}]},
        {"log": [{"value": None}]},
        {"isolation_floor": None},
        {"isolation_floor": "strong"},
        {"isolation_releases": {"gvisor": "20250101.0"}},
        {"isolation_releases": {}},
        {"isolation_releases": None},
        {"isolation_releases": []},
        {"isolation_releases": {"runc": "1.0"}},
        {"isolation_releases": {"gvisor": "release-20250101.0"}},
        {"isolation_releases": {"gvisor": 20250101}},
        {"isolation_releases": {"gvisor": "20250101.0\n"}},
        {"clock_tolerance_s": 3600},
        {"clock_tolerance_s": 3601},
        {"clock_tolerance_s": True},
        {"clock_tolerance_s": None},
        {"require": ["sig.receipts"]},
        {"require": []},
        {"require": ["sig.more"]},
        {"require": "sig.receipts"},
        {"require": None},
        *({"profile_signers": each} for each in profile_signers()),
        {"approvers": []},
    ]
    files = [*(trust_bytes(**each) for each in changes), b"", b"[]", trust_bytes() + b"x"]
    for data, answer in zip(files, probe([question("trust", data) for data in files]), strict=True):
        assert answer == answered(lambda data=data: parse_trust_file(data).digest), data[:80]


def test_what_is_printed_is_escaped_alike(probe: Probe) -> None:
    texts = [
        "plain",
        "\u202egnp.exe",
        "\x1b[31m",
        "a\u00a0b",
        "\ufeff",
        "\u200b",
        "\U000e0041",
        "\ue000",
        "x" * 2500,
        "\u00e4 \U0001f600",
    ]
    for text, answer in zip(
        texts, probe([question("printable", text.encode()) for text in texts]), strict=True
    ):
        assert answer["ok"] == printable(text)


def test_names_from_a_bundle_are_quoted_alike(probe: Probe) -> None:
    """No name can end its own quotes."""
    dice = random.Random(3)
    alphabet = "'\"\\\n\t a\u202e\u00e4\U0001f600\x7f"
    texts = ["", "'", '"', "'\"", "\\", "\\'", "x" * 101, "\n" * 101]
    texts += ["".join(dice.choices(alphabet, k=dice.randrange(12))) for _ in range(200)]
    answers = probe([question("quoted", text.encode()) for text in texts])
    assert [answer["ok"] for answer in answers] == [quoted(text) for text in texts]
