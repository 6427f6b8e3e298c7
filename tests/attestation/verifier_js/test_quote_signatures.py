"""Who signed a quote: both verifiers accept the same and refuse the same, flipped, cut, out of time, alien."""

from __future__ import annotations

import json
import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.attestation.story import NOW, PLATFORM, Story
from tests.attestation.verifier_js.test_foundations import Probe, probe, question

from affiant.attestation.encoding.binary_text import sha256_name
from affiant.attestation.statements.evidence import parse_evidence
from affiant.attestation.tdx.pki.roots import TrustRoots
from affiant.attestation.tdx.quote.quote import parse_quote
from affiant.attestation.tdx.tcb.collateral_verification import verify_collateral
from affiant.attestation.tdx.verify.verify import authenticate_quote
from affiant.errors import AffiantError

__all__ = ["probe"]

QUOTE = parse_evidence(Story().tell().session_evidence).quote
COLLATERAL = verify_collateral(
    PLATFORM.collateral(NOW), now=NOW, trust=TrustRoots.pinned([PLATFORM.root_spki()])
)
ROOT = sha256_name(PLATFORM.root_spki())

OF_A_CHAIN = {
    "cert.malformed",
    "pck.chain",
    "pck.extension",
    "root.untrusted",
    "cert.expired",
    "cert.not_yet_valid",
}
"""A changed certificate can be refused for its form, its signature or its name: which is asked first differs."""
OF_COLLATERAL = {"qe.identity", "tcb.mismatch"}
"""Asked of the collateral, which the second verifier does not read, before what it asks."""


def python_says(quote: bytes) -> str:
    try:
        authenticate_quote(parse_quote(quote), COLLATERAL, now=NOW)
    except AffiantError as error:
        return error.code
    return "simulated"


def asked(quote: bytes, *, roots: str = ROOT, at: datetime = NOW) -> dict[str, str]:
    return question("quote", quote, roots=roots, at=at.strftime("%Y-%m-%dT%H:%M:%SZ"))


def told(answer: dict[str, object]) -> str:
    return str(answer.get("ok") or answer["code"])


def test_any_flipped_bit_of_a_quote_is_judged_alike(probe: Probe) -> None:
    dice = random.Random(14)
    quotes = [QUOTE]
    for _ in range(300):
        broken = bytearray(QUOTE)
        broken[dice.randrange(len(QUOTE))] ^= 1 << dice.randrange(8)
        quotes.append(bytes(broken))
    seen = Counter[str]()
    for quote, answer in zip(quotes, probe([asked(quote) for quote in quotes]), strict=True):
        ours, theirs = python_says(quote), told(answer)
        seen[theirs] += 1
        if ours != theirs:
            assert {ours, theirs} <= OF_A_CHAIN or ours in OF_COLLATERAL, (ours, theirs)
        assert (ours == "simulated") == (theirs == "simulated")
    assert seen["simulated"] >= 1
    assert {"quote.signature", "qe.report_signature", "pck.chain", "cert.malformed"} <= set(seen)


def test_a_cut_or_padded_quote_is_judged_alike(probe: Probe) -> None:
    quotes = [QUOTE[:end] for end in range(0, len(QUOTE), 97)] + [
        QUOTE + bytes(9),
        b"",
        bytes(1024),
        b"\x81" + bytes(1023),
    ]
    for quote, answer in zip(quotes, probe([asked(quote) for quote in quotes]), strict=True):
        assert told(answer) == python_says(quote)


def test_a_root_counts_only_if_it_is_pinned_and_only_in_its_time(probe: Probe) -> None:
    other = "sha256:" + "11" * 32
    questions = [
        asked(QUOTE, roots=other),
        asked(QUOTE, roots=f"{other} {ROOT}"),
        asked(QUOTE, at=NOW - timedelta(days=365 * 20)),
        asked(QUOTE, at=NOW + timedelta(days=365 * 60)),
    ]
    assert [told(answer) for answer in probe(questions)] == [
        "root.untrusted",
        "simulated",
        "cert.not_yet_valid",
        "cert.expired",
    ]


def test_quotes_of_genuine_platforms_are_judged_as_expected(probe: Probe) -> None:
    """Every case of the collection: what is accepted there holds here; what was changed in a quote is refused."""
    folder = Path(__file__).resolve().parents[4] / "shared" / "vectors" / "tdx"
    if not folder.exists():
        pytest.skip("the TDX vectors (../shared/vectors/tdx) are not there")
    cases = json.loads((folder / "expected.json").read_text())["cases"]
    questions = []
    for case in cases:
        root = case["root"]
        trust = TrustRoots.intel() if root == "intel" else TrustRoots.pinned(((folder / root).read_bytes(),))
        roots = " ".join(f"sha256:{digest.hex()}" for digest in trust.spki_sha256)
        at = datetime.fromtimestamp(case["now"], UTC)
        questions.append(asked((folder / case["quote"]).read_bytes(), roots=roots, at=at))
    seen = Counter[tuple[bool, str]]()
    for case, answer in zip(cases, probe(questions), strict=True):
        accepted = case["expected"]["accepted"]
        seen[accepted, told(answer)] += 1
        if accepted:
            assert told(answer) == ("hardware" if case["root"] == "intel" else "simulated"), case["id"]
    assert seen[True, "hardware"] >= 10
    assert {"quote.signature", "qe.report_signature", "qe.binding", "pck.chain"} <= {
        reason for _, reason in seen
    }
