"""One receipt: its form, its signature, its disclosures; held against PyJWT and sd-jwt."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from types import MappingProxyType

import jwt
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from sd_jwt.verifier import SDJWTVerifier
from tests.attestation.story import NOW, Story
from tests.properties import thorough

from affiant.attestation.encoding import jws
from affiant.attestation.encoding.binary_text import b64u, from_b64u
from affiant.attestation.encoding.canonical import canonical
from affiant.attestation.encoding.jws import SplitJWS
from affiant.attestation.encoding.keys import Signer, public_jwk
from affiant.attestation.records import receipt as module
from affiant.attestation.records.issuing import conceal, issue_receipt
from affiant.attestation.records.receipt import (
    Issued,
    RoleMismatch,
    parse_receipt,
    recall_receipt,
    verify_receipt,
)
from affiant.attestation.schema.disclosure import DisclosureInvalid, disclosure_digest, open_disclosures
from affiant.attestation.schema.records import shape_of
from affiant.attestation.schema.shapes import Obj, ShapeMismatch
from affiant.attestation.statements.statement import KeysetStatement
from affiant.errors import AffiantError

STORY = Story().tell()
STATEMENT = STORY.gateway_statement
INFERENCE = next(r for r in STORY.gateway_records if r.payload["kind"] == "inference")


def refused(text: str) -> str:
    with pytest.raises(AffiantError) as caught:
        verify_receipt(parse_receipt(text), STATEMENT)
    return caught.value.code


def resigned(**changes: object) -> str:
    """The inference record with other members, signed again by the same key."""
    payload = {**INFERENCE.payload, **changes}
    payload = {name: value for name, value in payload.items() if value is not ...}
    return jws.sign(STORY.gateway_signer, payload, typ="eat+jwt") + "~"


def with_header(header: bytes) -> str:
    parts = INFERENCE.jws.split(".")
    signing = f"{b64u(header)}.{parts[1]}"
    return f"{signing}.{b64u(STORY.gateway_signer.sign(signing.encode()))}~"


KID = STORY.gateway_signer.kid


@pytest.mark.parametrize(
    "header",
    [
        b'{"alg":"none","kid":"%s","typ":"eat+jwt"}',
        b'{"alg":"HS256","kid":"%s","typ":"eat+jwt"}',
        b'{"alg":"ES384","kid":"%s","typ":"eat+jwt"}',
        b'{"kid":"%s","alg":"ES256","typ":"eat+jwt"}',
        b'{"alg":"ES256","crit":[],"kid":"%s","typ":"eat+jwt"}',
        b'{"alg":"ES256", "kid":"%s","typ":"eat+jwt"}',
        b'{"alg":"ES256","kid":"%s","typ":"affiant-proof+jwt"}',
        b'{"alg":"ES256","kid":"%s"}',
    ],
)
def test_any_other_header_is_refused_though_signed(header: bytes) -> None:
    assert refused(with_header(header % KID.encode())) == "fmt.jws"


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"eat_profile": "tag:affiant.dev,2026:receipt/1"}, "fmt.profile"),
        ({"cls": "hardware"}, "sig.role"),
        ({"role": "session"}, "sig.role"),
        ({"kind": "egress"}, "sig.role"),
        ({"kind": "party"}, "fmt.profile"),
        ({"kind": None}, "fmt.profile"),
        ({"kind": ["inference"]}, "fmt.profile"),
        ({"kind": {"inference": 1}}, "fmt.profile"),
        ({"chn": "A" * 22}, "sig.role"),
        ({"iss": "urn:other"}, "sig.role"),
        ({"surprise": 1}, "fmt.profile"),
        ({"ext": {"urn:\u00e4": "x"}}, "fmt.profile"),
        ({"agt": ...}, "fmt.profile"),
        ({"req": ...}, "fmt.profile"),
        ({"iat": -1}, "fmt.profile"),
        ({"iat": True}, "fmt.profile"),
        ({"seq": "0"}, "fmt.profile"),
        ({"_sd_alg": "sha-512"}, "fmt.profile"),
        ({"_sd": []}, "fmt.profile"),
        ({"use": {"_sd": ["A" * 43]}}, "fmt.profile"),
        ({"use": {"_sd": ["A" * 43] * 2}}, "fmt.profile"),
        ({"use": {"_sd": ["B" * 42 + "A", "A" * 43]}}, "fmt.profile"),
        ({"mdl": {**INFERENCE.payload["mdl"], "id": "a\x1b[31m"}}, "fmt.profile"),
    ],
)
def test_a_closed_profile_refuses_the_rest_though_signed(changes: dict[str, object], code: str) -> None:
    assert refused(resigned(**changes)) == code


def test_text_beyond_what_a_receipt_may_have_is_refused_before_anything_is_read() -> None:
    more = "A" * (64 * 1024 - len(INFERENCE.sdjwt) - 1)
    assert refused(f"{INFERENCE.sdjwt}{more}~") == "sd.invalid"
    assert refused(f"{INFERENCE.sdjwt}{more}AAAA~") == "fmt.receipt"


@pytest.mark.parametrize("place", [0, len(INFERENCE.jws) - 1, len(INFERENCE.jws) + 5])
def test_a_letter_that_is_no_ascii_is_refused_wherever_it_stands(place: int) -> None:
    """``\u017f`` and the like become ASCII under a careless reader's normalisation."""
    assert refused(INFERENCE.sdjwt[:place] + "\u017f" + INFERENCE.sdjwt[place + 1 :]) == "fmt.receipt"


def test_a_payload_that_is_not_canonical_is_refused_though_signed() -> None:
    head = INFERENCE.jws.split(".")[0]
    signing = f"{head}.{b64u(json.dumps(INFERENCE.payload).encode())}"
    text = f"{signing}.{b64u(STORY.gateway_signer.sign(signing.encode()))}~"
    assert refused(text) == "fmt.json"


def test_a_duplicate_member_is_refused_though_signed() -> None:
    head = INFERENCE.jws.split(".")[0]
    doubled = canonical(INFERENCE.payload)[:-1] + b',"seq":0}'
    signing = f"{head}.{b64u(doubled)}"
    assert refused(f"{signing}.{b64u(STORY.gateway_signer.sign(signing.encode()))}~") == "fmt.json"


def test_another_key_is_refused() -> None:
    payload = dict(INFERENCE.payload)
    assert refused(jws.sign(Signer.generate(), payload, typ="eat+jwt") + "~") == "sig.role"
    assert refused(jws.sign(STORY.ear_signer, payload, typ="eat+jwt") + "~") == "sig.role"


@thorough(200)
@given(st.integers(0, len(INFERENCE.sdjwt) - 1), st.sampled_from("AB09-_.~= \n"))
def test_any_changed_character_is_refused(position: int, character: str) -> None:
    text = INFERENCE.sdjwt
    changed = text[:position] + character + text[position + 1 :]
    if changed != text:
        refused(changed)


@thorough(100)
@given(st.text(max_size=200))
def test_no_text_causes_anything_but_a_typed_refusal(text: str) -> None:
    refused(text)


def test_a_receipt_ends_in_a_tilde() -> None:
    for text in (INFERENCE.jws, INFERENCE.sdjwt[:-1], "", "~", f"~{INFERENCE.sdjwt}"):
        assert refused(text) in ("fmt.receipt", "fmt.jws", "fmt.encoding")
    assert refused(INFERENCE.jws) == refused(INFERENCE.sdjwt[:-1]) == "fmt.receipt"


def test_a_member_that_is_not_there_is_none_at_any_depth() -> None:
    record = verify_receipt(parse_receipt(INFERENCE.sdjwt), STATEMENT)
    assert record.member("pol", "dec") == "allow"
    for path in (("none",), ("pol", "none"), ("pol", "dec", "none"), ("up", "id"), ("seq", "none")):
        assert record.member(*path) is None


def opened(*disclosures: str) -> str:
    return "~".join([INFERENCE.jws, *disclosures, ""])


def test_disclosures_may_be_withheld_one_by_one() -> None:
    for count in range(len(INFERENCE.disclosures) + 1):
        record = verify_receipt(parse_receipt(opened(*INFERENCE.disclosures[:count])), STATEMENT)
        assert len(record.disclosed.values) == count
        assert record.rh == INFERENCE.rh


def made(name: str, value: object, salt: bytes = bytes(16)) -> str:
    return b64u(canonical([b64u(salt), name, value]))


@pytest.mark.parametrize(
    "disclosures",
    [
        lambda d: [d[0], d[0]],
        lambda d: [made("dig", "sha256:" + "0" * 64)],
        lambda d: [b64u(b"[]")],
        lambda d: [b64u(json.dumps(json.loads(from_b64u(d[0]))).encode() + b" ")],
    ],
)
def test_disclosures_that_the_record_does_not_reference_are_refused(disclosures: object) -> None:
    assert refused(opened(*disclosures(INFERENCE.disclosures))) == "sd.invalid"


def test_a_disclosure_is_base64url_before_it_is_looked_up() -> None:
    assert refused(opened(made("dig", "sha256:" + "0" * 64) + "=")) == "fmt.encoding"


SALT = b64u(bytes(16))


@pytest.mark.parametrize(
    "value",
    [
        {"0": SALT, "1": "id", "2": "x"},
        SALT,
        "abc",
        7,
        [SALT, "id"],
        [SALT, "id", "x", "x"],
        [SALT, ["id"], "x"],
        [SALT, {"id": 1}, "x"],
        [SALT, 7, "x"],
        [SALT, None, "x"],
        [16, "id", "x"],
        [None, "id", "x"],
        [[SALT], "id", "x"],
        [b64u(bytes(15)), "id", "x"],
        [b64u(bytes(17)), "id", "x"],
    ],
)
def test_what_is_no_disclosure_is_refused_though_a_digest_commits_to_it(value: object) -> None:
    disclosure = b64u(canonical(value))
    digests = sorted([disclosure_digest(disclosure), "A" * 43, "E" * 43])
    text = resigned(agt={**INFERENCE.payload["agt"], "_sd": digests})
    assert refused(f"{text}{disclosure}~") == "sd.invalid"


@pytest.mark.parametrize("name", ["_sd", "...", "st", "unheard"])
def test_a_disclosure_under_a_name_that_is_not_hidden_there_is_refused(name: str) -> None:
    disclosure = made(name, 1)
    digests = sorted([disclosure_digest(disclosure), "A" * 43])
    text = resigned(use={"_sd": digests})
    assert refused(text + disclosure + "~") == "sd.invalid"


def test_two_disclosures_of_one_member_are_refused_though_both_are_committed_to() -> None:
    """Else whoever shows the receipt chooses what it says."""
    shown = [made("id", "one"), made("id", "another", salt=bytes(15) + b"1")]
    digests = sorted([*map(disclosure_digest, shown), "A" * 43])
    text = resigned(agt={**INFERENCE.payload["agt"], "_sd": digests})
    for one in shown:
        record = verify_receipt(parse_receipt(f"{text}{one}~"), STATEMENT)
        assert record.disclosed.text("agt.id") in ("one", "another")
    assert refused(f"{text}{shown[0]}~{shown[1]}~") == "sd.invalid"


@pytest.mark.parametrize("name", ["_sd", "_sd_alg", "...", "_"])
def test_a_disclosed_value_cannot_hide_further_digests(name: str) -> None:
    """RFC 9901, section 4.1: a reader of SD-JWTs would take such a member out and look for its disclosure."""
    disclosure = made("prm", {"temperature": "0.7", name: "A" * 43})
    text = resigned(mdl={"id": "affiant-dev-echo", "_sd": [disclosure_digest(disclosure)]})
    assert refused(text + disclosure + "~") == "fmt.profile"


def test_one_digest_in_two_places_is_refused() -> None:
    digests = INFERENCE.payload["use"]["_sd"]
    assert (
        refused(resigned(req={**INFERENCE.payload["req"], "_sd": sorted([*digests, "A" * 43])}))
        == "sd.invalid"
    )


def test_decoys_fill_up_to_a_fixed_number_and_salts_never_repeat() -> None:
    shape = shape_of("inference", role="gateway", cls="simulated").required["use"]
    lengths = set()
    salts = set()
    for values in ({}, {"in": 1}, {"in": 1, "out": 2}):
        made = conceal([(shape, values)], random_bytes=os.urandom)
        lengths.add(len(made.digests[0]))
        salts |= {json.loads(from_b64u(d))[0] for d in made.disclosures}
    assert lengths == {2}
    assert len(salts) == 3


AGENT = shape_of("inference", role="gateway", cls="simulated").required["agt"]


@pytest.mark.parametrize(
    ("shape", "values"),
    [
        (AGENT, {"ses": "x"}),
        (AGENT, {"_sd": []}),
        (AGENT, {"id": 7}),
        (replace(AGENT, sd=2), {"id": "a", "user": "b", "ten": "c"}),
    ],
)
def test_nothing_is_hidden_that_a_reader_would_refuse(shape: Obj, values: dict[str, object]) -> None:
    with pytest.raises(ShapeMismatch):
        conceal([(shape, values)], random_bytes=os.urandom)


def test_the_randomness_of_a_whole_record_is_drawn_by_one_call() -> None:
    drawn: list[int] = []

    def random_bytes(size: int) -> bytes:
        drawn.append(size)
        return os.urandom(size)

    record = issued(
        {"rsn": "policy.model", "req": {"m": "POST", "p": "/"}, "res": {"st": 403, "end": "complete"}},
        hidden={"req": {"len": 7}, "res": {"len": 1, "evs": 2}},
        random_bytes=random_bytes,
    )
    assert drawn == [3 * 16 + (3 + 4 + 1 - 3) * 32]  # three salts, and a decoy for every other digest
    assert verify_receipt(parse_receipt(record.sdjwt), STATEMENT).disclosed.get("res.evs") == 2


class Unused:
    """A key that nobody may sign with."""

    kid = STORY.gateway_signer.kid

    def sign(self, message: bytes) -> bytes:
        raise AssertionError("signed")


def issued(members: dict[str, object], signer: object = None, **more: object) -> Issued:
    known = {"hidden": {}, "kind": "refusal", "chn": STORY.gateway.chn, "seq": 1, "prev": "A" * 43}
    known["random_bytes"] = os.urandom
    return issue_receipt(
        signer=signer or STORY.gateway_signer,
        statement=STATEMENT,
        members=members,
        evd="A" * 43,
        jti="A" * 22,
        now=NOW,
        **(known | more),
    )


REFUSAL = {"rsn": "policy.model", "act": {"typ": "tool"}, "agt": INFERENCE.payload["agt"]}


@pytest.mark.parametrize(
    ("members", "more"),
    [
        ({**REFUSAL, "surprise": 1}, {}),
        ({**REFUSAL, "rsn": 7}, {}),
        (REFUSAL, {"hidden": {"mdl": {"prm": {}}}}),
        (REFUSAL, {"hidden": {"sec[0]": {"ref": "TOKEN"}}}),
        (REFUSAL, {"seq": -1}),
        (REFUSAL, {"kind": "exec"}),
    ],
)
def test_nothing_is_signed_that_a_reader_would_refuse(
    members: dict[str, object], more: dict[str, object]
) -> None:
    with pytest.raises(ShapeMismatch):
        issued(members, Unused(), **more)


def test_what_is_given_to_be_signed_stays_as_it_was() -> None:
    act = MappingProxyType({"typ": "tool"})
    sec = (MappingProxyType({"ver": "1"}),)
    members = {**REFUSAL, "act": act, "agt": MappingProxyType(REFUSAL["agt"])}
    before = canonical(members)
    made = issued(members, hidden={"act": {"name": "search"}})
    assert canonical(members) == before and "_sd" not in act
    pol = INFERENCE.payload["pol"]
    used = issued({"act": act, "agt": members["agt"], "pol": pol, "sec": sec}, kind="tool")
    assert len(used.payload["sec"][0]["_sd"]) == 2 and "_sd" not in sec[0]
    assert verify_receipt(parse_receipt(made.sdjwt), STATEMENT).disclosed.text("act.name") == "search"


# -- what was verified before ----------------------------------------------------------------------------------


def test_a_receipt_is_recalled_as_it_was_verified() -> None:
    for text in (INFERENCE.sdjwt, INFERENCE.jws + "~"):
        parsed = parse_receipt(text)
        assert recall_receipt(parsed, STATEMENT, rh=INFERENCE.rh) == verify_receipt(parsed, STATEMENT)


def test_other_bytes_are_not_recalled() -> None:
    other = parse_receipt(resigned(iat=INFERENCE.payload["iat"] + 1))
    with pytest.raises(RoleMismatch):
        recall_receipt(other, STATEMENT, rh=INFERENCE.rh)


def test_a_receipt_is_not_recalled_under_another_keyset() -> None:
    """The digest is the same; whose word it is, would not be."""
    with pytest.raises(RoleMismatch):
        recall_receipt(parse_receipt(INFERENCE.sdjwt), STORY.session_statement, rh=INFERENCE.rh)


def test_disclosures_of_a_recalled_receipt_are_judged_again() -> None:
    """Its digest covers the JWS alone: somebody may have put others beside it since."""
    with pytest.raises(DisclosureInvalid):
        recall_receipt(parse_receipt(opened(made("dig", "x"))), STATEMENT, rh=INFERENCE.rh)


# -- other people's readers ------------------------------------------------------------------------------------


def test_pyjwt_and_sd_jwt_agree() -> None:
    key = jwt.PyJWK({**public_jwk(STORY.gateway_signer.public_key), "alg": "ES256"})
    options = {"verify_aud": False, "verify_iat": False, "verify_iss": False, "verify_exp": False}
    assert jwt.decode(INFERENCE.jws, key.key, algorithms=["ES256"], options=options) == INFERENCE.payload

    from jwcrypto.jwk import JWK

    theirs = SDJWTVerifier(
        INFERENCE.sdjwt, lambda *_: JWK(**public_jwk(STORY.gateway_signer.public_key))
    ).get_verified_payload()
    ours = verify_receipt(parse_receipt(INFERENCE.sdjwt), STATEMENT).disclosed
    assert theirs["req"]["dig"] == ours.get("req.dig")
    assert theirs["agt"]["ses"] == STORY.session


@pytest.mark.parametrize(
    "record", [*STORY.gateway_records, *STORY.session_records], ids=lambda r: r.payload["kind"]
)
def test_every_record_of_the_story_is_verified_under_its_own_keyset_alone(record: Issued) -> None:
    mine = STATEMENT if record.payload["role"] == "gateway" else STORY.session_statement
    other = STORY.session_statement if mine is STATEMENT else STATEMENT
    assert verify_receipt(parse_receipt(record.sdjwt), mine).kind == record.payload["kind"]
    with pytest.raises(AffiantError) as caught:
        verify_receipt(parse_receipt(record.sdjwt), other)
    assert caught.value.code == "sig.role"


COMPILED: dict[tuple[str, str, str], Obj] = {}
STATEMENTS = {"gateway": STORY.gateway_statement, "session": STORY.session_statement}
PAYLOADS = tuple(
    (canonical(record.payload), STATEMENTS[str(record.payload["role"])])
    for record in (*STORY.gateway_records, *STORY.session_records)
)
TOKENS = (
    *(
        '"',
        "\\",
        "\\u0041",
        "{",
        "}",
        "[",
        "]",
        ":",
        ",",
        " ",
        "\n",
        "0",
        "-0",
        "1",
        "1.0",
        "1e3",
        "9" * 17,
        "-1",
    ),
    *("true", "null", "a", "Z", "_sd", "kind", "\x00", "\x7f", "\x85", "\u2028", "é", "\U0001f600", "A" * 43),
)


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every shape is compiled, in this test alone."""

    def shape_of_compiled(kind: str, *, role: str, cls: str) -> Obj:
        if (kind, role, cls) not in COMPILED:
            shape = COMPILED[kind, role, cls] = shape_of.__wrapped__(kind, role=role, cls=cls)
            shape.compile()
        return COMPILED[kind, role, cls]

    monkeypatch.setattr(module, "shape_of", shape_of_compiled)


def both_ways(payload: bytes, statement: KeysetStatement) -> tuple[object, object]:
    """What the short way makes of a payload, and the long way; None: it accepts none of it."""
    usual = module._usual_payload(payload, statement)
    try:
        checked = module._checked_payload(SplitJWS(statement.receipt_kid, payload, b"", b""), statement)
        open_disclosures(*checked, ())
    except AffiantError:
        return usual, None
    return usual, checked


def changed(text: str, data: st.DataObject) -> str:
    """``text`` with some of its parts replaced, doubled, left out or exchanged."""
    parts = re.findall(r'"[^"]*"|[0-9]+|[^"0-9]', text)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(parts) - 1))
        other = data.draw(st.integers(0, len(parts) - 1))
        match data.draw(st.sampled_from(("token", "inside", "insert", "drop", "double", "exchange", "copy"))):
            case "token":
                parts[at] = data.draw(st.sampled_from(TOKENS))
            case "inside":
                place = data.draw(st.integers(0, len(parts[at])))
                parts[at] = parts[at][:place] + data.draw(st.sampled_from(TOKENS)) + parts[at][place:]
            case "insert":
                parts.insert(at, data.draw(st.sampled_from(TOKENS)))
            case "drop" if len(parts) > 1:
                del parts[at]
            case "double":
                begin, end = sorted((at, other))
                parts[end:end] = parts[begin : min(end, begin + 8)]
            case "exchange":
                parts[at], parts[other] = parts[other], parts[at]
            case "copy":
                parts[at] = parts[other]
    return "".join(parts)


@thorough(2_000, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_what_the_short_way_accepts_the_long_way_accepts_alike(compiled: None, data: st.DataObject) -> None:
    payload, statement = data.draw(st.sampled_from(PAYLOADS))
    found, checked = both_ways(changed(payload.decode(), data).encode("utf-8", "surrogatepass"), statement)
    assert found is None or found == checked


def test_every_record_of_the_story_goes_the_short_way(compiled: None) -> None:
    for payload, statement in PAYLOADS:
        usual, checked = both_ways(payload, statement)
        several = b'"session-close"' in payload  # outcomes: a map of several members
        assert usual == (None if several else checked), payload


@pytest.mark.parametrize("change", ["exchanged", "repeated", "twice"])
def test_digests_out_of_order_or_in_two_places_go_the_long_way(compiled: None, change: str) -> None:
    payload = json.loads(canonical(INFERENCE.payload))
    match change:
        case "exchanged":
            payload["req"]["_sd"].reverse()
        case "repeated":
            payload["req"]["_sd"][1] = payload["req"]["_sd"][0]
        case "twice":
            payload["mdl"]["_sd"] = payload["_sd"]
    assert both_ways(canonical(payload), STATEMENT) == (None, None)


def test_a_receipt_is_verified_the_short_way_as_the_long_way(
    compiled: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for record in (*STORY.gateway_records, *STORY.session_records):
        for text in (record.sdjwt, record.jws + "~"):
            statement = STATEMENTS[str(record.payload["role"])]
            short = verify_receipt(parse_receipt(text), statement)
            with monkeypatch.context() as patch:
                patch.setattr(module, "_usual_payload", lambda *_: None)
                assert verify_receipt(parse_receipt(text), statement) == short
