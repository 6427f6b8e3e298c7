"""The published receipt vectors: byte-stable, made without the library, and judged by it exactly as they say."""

from __future__ import annotations

import ast
import hashlib
import json
import random
import subprocess
import sys
import types
from collections import Counter
from functools import cache
from pathlib import Path

import jwt
import pytest
from jwcrypto.jwk import JWK
from jwt.algorithms import ECAlgorithm
from sd_jwt.verifier import SDJWTVerifier

from affiant.attestation.records.receipt import parse_receipt, verify_receipt
from affiant.attestation.statements.statement import parse_statement
from affiant.attestation.verdict.codes import CODES
from affiant.attestation.verdict.trust_file import TrustFile, parse_instant, parse_trust_file
from affiant.attestation.verdict.verdict import EXIT_CODES, LEVELS, State, Tier, Verdict
from affiant.attestation.verifier.standard_verifiers import STANDARD_VERIFIERS
from affiant.attestation.verifier.verify_bundle import CHECKS, verify_bundle

ROOT = Path(__file__).resolve().parents[3]
MAKER = ROOT / "attestation" / "vectors"
FOLDER = MAKER / "receipts"
DOCUMENT = json.loads((FOLDER / "cases.json").read_text())
CASES = {case["id"]: case for case in DOCUMENT["cases"]}
VALID = {name: case for name, case in CASES.items() if "base" not in case}
TAMPERED = {name: case for name, case in CASES.items() if "base" in case}


def applied(value: object, patch: list[dict[str, object]]) -> object:
    """RFC 6902, for the three operations that the vectors use."""
    for operation in patch:
        *outer, last = str(operation["path"])[1:].split("/")
        at = value
        for name in outer:
            at = at[int(name) if isinstance(at, list) else name]
        key = int(last) if isinstance(at, list) else last
        match operation["op"]:
            case "remove":
                del at[key]
            case "add" if isinstance(at, list):
                at.insert(key, operation["value"])
            case "add" | "replace":
                at[key] = operation["value"]
            case other:
                raise ValueError(other)
    return value


def bundle_of(case: dict) -> bytes:
    data = (FOLDER / case["files"]["bundle"]).read_bytes()
    if "patch" not in case["files"]:
        return data
    return json.dumps(
        applied(json.loads(data), json.loads((FOLDER / case["files"]["patch"]).read_text()))
    ).encode()


@cache
def trust_of(name: str) -> TrustFile:
    return parse_trust_file((FOLDER / name).read_bytes())


def judged(case: dict, data: bytes | None = None) -> Verdict:
    bodies = {
        name: (FOLDER / case[name]).read_bytes() if name in case else None for name in ("request", "response")
    }
    return verify_bundle(
        bundle_of(case) if data is None else data,
        trust_of(case["trust"]),
        verifiers=STANDARD_VERIFIERS,
        at=parse_instant(case["at"]),
        build="build",
        **bodies,
    )


def found(verdict: Verdict, *, warnings: bool) -> dict:
    result = {
        "exit_code": verdict.exit_code,
        "tier": str(verdict.tier),
        "level": verdict.level,
        "refused": {check.code: check.reason for check in verdict.checks if check.state is State.REFUSED},
        "not_made": sorted(check.code for check in verdict.checks if check.state is State.NOT_MADE),
    }
    if warnings:
        held = [check for check in verdict.checks if check.state is State.HELD]
        result["warnings"] = sorted(check.code for check in held if check.tier is Tier.WARNING)
    return result


# -- the files -------------------------------------------------------------------------------------------------


def test_the_published_files_are_exactly_what_the_generator_makes(tmp_path: Path) -> None:
    """In a process of its own, which ends if anything of affiant was ever loaded."""
    program = (
        "import runpy, sys\n"
        f"sys.argv[1:] = [{str(tmp_path)!r}]\n"
        "try: runpy.run_module('vectors.generate', run_name='__main__')\n"
        "except SystemExit as end: assert not end.code\n"
        "assert not [name for name in sys.modules if name.partition('.')[0] == 'affiant']\n"
    )
    subprocess.run([sys.executable, "-c", program], cwd=MAKER.parent, check=True, timeout=100)
    made = {path.relative_to(tmp_path): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    published = {path.relative_to(FOLDER): path for path in FOLDER.rglob("*") if path.is_file()}
    assert set(published) - {Path("README.md")} == set(made)
    assert [str(name) for name, data in made.items() if published[name].read_bytes() != data] == []


def test_the_generator_imports_the_standard_library_and_cryptography_alone() -> None:
    allowed = {*sys.stdlib_module_names, "cryptography", "vectors"}
    for path in sorted(MAKER.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                assert node.level == 0, path
                names = [str(node.module)]
            assert {name.partition(".")[0] for name in names} <= allowed, path


def test_the_collection_is_of_reasonable_size_and_names_only_what_it_has() -> None:
    files = {str(path.relative_to(FOLDER)) for path in FOLDER.rglob("*") if path.is_file()}
    assert sum((FOLDER / name).stat().st_size for name in files) < 12_000_000
    named = {value for case in CASES.values() for value in case["files"].values()}
    named |= {
        case[name] for case in CASES.values() for name in ("trust", "request", "response") if name in case
    }
    archives = json.loads((FOLDER / "period" / "cases.json").read_text())["cases"]
    named |= {case["file"] for case in archives}
    assert files == named | {"README.md", "cases.json", "openings.json", "period/cases.json"}


def test_the_readme_counts_the_cases() -> None:
    text = (FOLDER / "README.md").read_text()
    assert f"{len(VALID)} valid bundles and {len(TAMPERED)} tampered ones" in text
    for name in Counter(case.partition("/")[0] for case in TAMPERED):
        assert f"| `{name}` |" in text


def test_the_readmes_program_runs_and_agrees(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With a verifier that knows the answers: the program reads every file and compares every member."""
    program = (FOLDER / "README.md").read_text().split("```python\n")[1].split("```")[0]
    answers = iter(DOCUMENT["cases"])
    given: list[bytes] = []

    def my_verify(data: bytes, *, trust: bytes, at: str, **bodies: bytes) -> dict:
        case = next(answers)
        given.append(data)
        assert trust == (FOLDER / case["trust"]).read_bytes()
        assert set(bodies) == {"request", "response"} & set(case)
        return case["expect"]

    patching = types.ModuleType("jsonpatch")
    patching.apply_patch = applied
    monkeypatch.setitem(sys.modules, "jsonpatch", patching)
    monkeypatch.setattr(sys, "argv", ["program", str(FOLDER)])
    exec(compile(program, "README.md", "exec"), {"my_verify": my_verify})
    assert capsys.readouterr().out.splitlines() == [f"ok  {name}" for name in CASES]
    assert given == [bundle_of(case) for case in CASES.values()]


# -- the verdicts ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
def test_the_library_finds_exactly_what_the_vectors_expect(name: str) -> None:
    case = CASES[name]
    assert found(judged(case), warnings="warnings" in case["expect"]) == case["expect"]


def test_what_is_valid_is_never_refused_and_a_tampered_case_always_loses_something() -> None:
    assert all(not case["expect"]["refused"] for case in VALID.values())
    for name, case in TAMPERED.items():
        lost = set(case["expect"]["not_made"]) - set(CASES[case["base"]]["expect"]["not_made"])
        assert case["expect"]["refused"] or lost, name


def test_no_tampered_case_reaches_a_better_tier_or_level_than_its_base() -> None:
    tiers, levels = [str(tier) for tier in Tier], [None, *LEVELS]
    for name, case in TAMPERED.items():
        base = CASES[case["base"]]["expect"]
        assert tiers.index(case["expect"]["tier"]) >= tiers.index(base["tier"]), name
        assert levels.index(case["expect"]["level"]) <= levels.index(base["level"]), name
        assert case["expect"]["exit_code"] in (EXIT_CODES[Tier.CONTRAINDICATED], EXIT_CODES[Tier.NONE], 40)


def test_the_rows_of_the_vectors_are_those_of_the_verifier() -> None:
    rows = {row["row"]: row["level"] for row in DOCUMENT["rows"]}
    assert set(rows) == CODES - {"chain.coverage"}  # of period bundles alone
    assert {row.code: row.level for row in CHECKS}.items() <= rows.items()


def test_every_row_that_can_be_refused_is_refused_by_a_case() -> None:
    refused = {row for case in CASES.values() for row in case["expect"]["refused"]}
    never_refused = {"kinds.judged", "chain.coverage", "chain.gaps", "session.supervisor", "pol.private"}
    never_refused |= {"model.answered", "bundle.objects"}  # a warning; what is missing is no forgery
    no_case_yet = {"time.sigstore"}  # tests/attestation/verifier/test_sigstore_anchors.py
    assert refused == CODES - never_refused - no_case_yet


def test_every_class_of_the_specification_has_its_cases() -> None:
    classes = Counter(name.partition("/")[0] for name in CASES)
    assert set(classes) == {
        *("valid", "signature", "format", "disclosure", "chain", "session", "act", "witness", "anchor"),
        *("log", "platform", "peer", "content", "bundle", "erasure", "narrowing"),
    }
    assert classes["valid"] >= 14
    assert len(TAMPERED) >= 90


FLIPPED = VALID["valid/inference"]
WHOLE = bundle_of(FLIPPED)


def nowhere_better(verdict: Verdict) -> bool:
    """Whether neither tier nor level nor one row is better than without the change."""
    levels = [None, *LEVELS]
    held = {check.code for check in verdict.checks if check.state is State.HELD}
    return (
        verdict.exit_code in (20, 30, 40)
        and verdict.tier in (Tier.NONE, Tier.CONTRAINDICATED)
        and levels.index(verdict.level) <= levels.index(FLIPPED["expect"]["level"])
        and held <= HELD
    )


HELD = {check.code for check in judged(FLIPPED).checks if check.state is State.HELD}


def test_no_changed_byte_of_a_bundle_raises_tier_or_level() -> None:
    chance = random.Random(1)
    for _ in range(600):
        data = bytearray(WHOLE)
        position = chance.randrange(len(data))
        data[position] ^= chance.randrange(1, 256)
        assert nowhere_better(judged(FLIPPED, bytes(data))), position


@pytest.mark.parametrize("member", ["keysets", "evidence", "endorsements", "results", "policies"])
def test_no_changed_byte_of_an_object_raises_tier_or_level_though_it_is_named_anew(member: str) -> None:
    """So that the object's name is not what refuses it."""
    chance = random.Random(member)
    for _ in range(40):
        document = json.loads(WHOLE)
        name = chance.choice(sorted(document[member]))
        data = bytearray(jwt.utils.base64url_decode(document[member].pop(name)))
        position = chance.randrange(len(data))
        data[position] ^= chance.randrange(1, 256)
        named = f"sha256:{hashlib.sha256(data).hexdigest()}"
        document[member][named] = jwt.utils.base64url_encode(bytes(data)).decode()
        verdict = judged(FLIPPED, json.dumps(document).encode())
        assert nowhere_better(verdict), (name, position)
        assert verdict.level in (None, "L0", "L1") or data.startswith(b'{"cls":"simulated","images"'), (
            name,
            position,
        )


@pytest.mark.parametrize("part", [0, 1, 2])
def test_no_changed_byte_of_a_receipts_parts_is_accepted(part: int) -> None:
    chance = random.Random(part)
    for _ in range(40):
        document = json.loads(WHOLE)
        receipt = chance.choice(document["receipts"])
        jws, _, rest = receipt["sdjwt"].partition("~")
        parts = jws.split(".")
        data = bytearray(jwt.utils.base64url_decode(parts[part]))
        position = chance.randrange(len(data))
        data[position] ^= chance.randrange(1, 256)
        parts[part] = jwt.utils.base64url_encode(bytes(data)).decode()
        receipt["sdjwt"] = ".".join(parts) + "~" + rest
        verdict = judged(FLIPPED, json.dumps(document).encode())
        assert (verdict.exit_code, verdict.level) == (20, None), position


@pytest.mark.parametrize(
    "name", ["valid/inference", "valid/actions", "valid/acts", "valid/epochs", "valid/two-sessions"]
)
def test_no_record_can_be_left_out_unseen(name: str) -> None:
    case = VALID[name]
    document = json.loads(bundle_of(case))
    before = found(judged(case), warnings=True)
    payloads = [
        json.loads(jwt.utils.base64url_decode(r["sdjwt"].split(".")[1])) for r in document["receipts"]
    ]
    for index, claims in enumerate(payloads):
        if (claims["kind"], claims["role"]) == ("end", "gateway"):
            continue  # what a gateway did after a session: without a witnessed checkpoint a chain's own tail is open
        left = {**document, "receipts": [each for at, each in enumerate(document["receipts"]) if at != index]}
        after = found(judged(case, json.dumps(left).encode()), warnings=True)
        assert after["refused"] or set(after["warnings"]) > set(before["warnings"]), index


def test_a_streams_root_is_the_tree_hash_over_its_events() -> None:
    """RFC 9162, section 2.1.1, for three leaves, written out."""
    body = (FOLDER / VALID["valid/stream"]["response"]).read_bytes()
    one, two, three = (hashlib.sha256(b"\0" + part + b"\n\n").digest() for part in body.split(b"\n\n")[:-1])
    left = hashlib.sha256(b"\1" + one + two).digest()
    shown = disclosed(bundle_of(VALID["valid/stream"]))
    assert shown["evs"] == 3
    assert jwt.utils.base64url_decode(shown["evr"]) == hashlib.sha256(b"\1" + left + three).digest()


def disclosed(data: bytes) -> dict:
    texts = [receipt["sdjwt"] for receipt in json.loads(data)["receipts"]]
    found = [jwt.utils.base64url_decode(part) for text in texts for part in text.split("~")[1:-1]]
    return {name: value for _, name, value in map(json.loads, found)}


# -- other people's readers ------------------------------------------------------------------------------------


def keys_of(document: dict) -> dict[str, dict]:
    statements = [json.loads(jwt.utils.base64url_decode(text)) for text in document["keysets"].values()]
    entries = [key for statement in statements for key in statement["keys"]]
    return {entry["kid"]: entry["jwk"] for entry in entries if entry["use"] in ("receipt", "session")}


def holds_for_pyjwt(case: dict) -> bool:
    """Whether PyJWT verifies every receipt of the case as ES256 under a key of the bundle's keysets."""
    document = json.loads(bundle_of(case))
    keys = keys_of(document)
    try:
        for receipt in document["receipts"]:
            text = receipt["sdjwt"].partition("~")[0]
            jwk = keys[jwt.get_unverified_header(text)["kid"]]
            options = {"verify_iat": False, "verify_exp": False, "verify_nbf": False}
            jwt.decode(text, ECAlgorithm.from_jwk(jwk), algorithms=["ES256"], options=options)
    except (jwt.PyJWTError, KeyError, ValueError):
        return False
    return True


PYJWT_CANNOT_SEE = {
    # One spelling of a record is this profile's rule, not that of JWS.
    *("high-s", "header-extra-member", "header-reordered", "header-whitespace"),
    *("header-typ", "header-typ-jwt"),
    # Roles, classes, chains and issuers are in keysets.
    *("role-session-signs-inference", "role-gateway-signs-exec", "role-claimed", "class-claimed"),
    *("foreign-chain", "foreign-issuer"),
}
DEPENDS_ON_ITS_VERSION = {"unused-bits", "padding", "standard-base64"}


def test_pyjwt_refuses_the_signatures_that_it_can_judge_and_accepts_every_valid_one() -> None:
    assert [name for name, case in VALID.items() if not holds_for_pyjwt(case)] == []
    names = {name.partition("/")[2] for name in TAMPERED if name.startswith("signature/")}
    unseen = {name for name in names if holds_for_pyjwt(CASES[f"signature/{name}"])}
    assert unseen - DEPENDS_ON_ITS_VERSION == PYJWT_CANNOT_SEE


def opened_by_sd_jwt(case: dict) -> list[dict]:
    """What the reference implementation of SD-JWT opens of each receipt, signatures verified."""
    document = json.loads(bundle_of(case))
    keys = keys_of(document)
    opened = []
    for receipt in document["receipts"]:
        kid = jwt.get_unverified_header(receipt["sdjwt"].partition("~")[0])["kid"]
        verifier = SDJWTVerifier(receipt["sdjwt"], lambda *_, kid=kid: JWK.from_json(json.dumps(keys[kid])))
        opened.append(verifier.get_verified_payload())
    return opened


def inference_of(payloads: list[dict]) -> dict:
    return next(payload for payload in payloads if payload["kind"] == "inference")


@pytest.mark.parametrize(
    "name", ["valid/inference", "valid/actions", "valid/erased-1", "valid/optional-members"]
)
def test_sd_jwt_opens_what_the_library_opens(name: str) -> None:
    """``sec[0].ref`` and the like: each path that the library has is where the reference implementation has it."""
    document = json.loads(bundle_of(CASES[name]))
    statements = [parse_statement(jwt.utils.base64url_decode(text)) for text in document["keysets"].values()]
    by_kid = {statement.receipt_kid: statement for statement in statements}
    count = 0
    for receipt, payload in zip(document["receipts"], opened_by_sd_jwt(CASES[name]), strict=True):
        parsed = parse_receipt(receipt["sdjwt"])
        for path, value in verify_receipt(parsed, by_kid[parsed.split.kid]).disclosed.values.items():
            at: object = payload
            for part in path.replace("[", ".").replace("]", "").split("."):
                at = at[int(part)] if isinstance(at, list) else at[part]
            assert at == value, path
            count += 1
    assert bool(count) == (name != "valid/erased-1")


def test_sd_jwt_opens_no_altered_value() -> None:
    """It passes over what no digest commits to, where a receipt's reader refuses; and it refuses what is no SD-JWT."""
    true = inference_of(opened_by_sd_jwt(CASES["valid/inference"]))
    for name in ("value-altered", "salt-altered"):
        shown = inference_of(opened_by_sd_jwt(CASES[f"disclosure/{name}"]))
        assert shown["req"] == {member: value for member, value in true["req"].items() if member != "dig"}
    for name in ("unreferenced", "of-another-receipt"):
        assert inference_of(opened_by_sd_jwt(CASES[f"disclosure/{name}"])) == true
    for name in ("given-twice", "empty", "no-tilde-at-all"):
        with pytest.raises(Exception):
            opened_by_sd_jwt(CASES[f"disclosure/{name}"])
