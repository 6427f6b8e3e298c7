"""What sessions used, by count: hosts out of targets, hidden names only where they are disclosed."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from tests.attestation.story import Story
from tests.attestation.verifier.test_verify_bundle import judge
from tests.attestation.verifier_js.conftest import HOME, node

from affiant.attestation.verdict import summary, words

FILE = Path(words.__file__).with_suffix(".json")


@pytest.mark.parametrize(
    ("target", "host"),
    [
        ("GET https://API.example/v1?x=1", "api.example"),
        ("api.example:443", "api.example"),
        ("POST https://user@host.example:8443/a:b@c", "host.example"),
        ("GET https://[2001:db8::1]:443/", "2001:db8::1"),
        ("https://", "https"),
        ("", ""),
        (None, "(not disclosed)"),
    ],
)
def test_the_host_of_a_target(target: str | None, host: str) -> None:
    assert summary._host(target) == host


def test_a_session_is_counted_record_by_record() -> None:
    found = judge(Story().bytes()).summary
    assert found.uses["model"] == {"affiant-dev-echo": 1}
    assert found.uses["command"] == {"python3": 1} and found.uses["end"] == {"done": 1}
    assert found.uses["host"] == {"api.example.com": 1}
    assert sum(found.uses["refused"].values()) == 2 and found.more == {}


def test_a_digest_in_a_names_place_is_no_name() -> None:
    assert summary.is_commitment("A" * 43) and not summary.is_commitment("code_implementer")


def test_records_that_are_not_authentic_are_not_counted() -> None:
    document = json.loads(Story().bytes())
    text = document["receipts"][3]["sdjwt"]
    at = text.index(".") + 50
    document["receipts"][3]["sdjwt"] = text[:at] + ("A" if text[at] != "A" else "B") + text[at + 1 :]
    assert judge(json.dumps(document).encode()).summary == summary.Summary()


def test_both_verifiers_have_the_same_words() -> None:
    script = f"import {{ WORDS }} from {json.dumps(str(HOME / 'lib/words.mjs'))}; console.log(JSON.stringify(WORDS))"
    done = subprocess.run(
        [node(), "--input-type=module", "-e", script], check=True, capture_output=True, timeout=30
    )
    assert json.loads(done.stdout) == json.loads(FILE.read_text()), "run scripts/verifier_words.py"
