"""A key that signs requests: what a reviewer reads of it, wherever profiles are told."""

from __future__ import annotations

import json
from html import unescape
from pathlib import Path

import pytest
from click.testing import CliRunner

from affiant.policy.canonical.errors import ValueRefused
from affiant.policy.canonical.names import SPELLINGS
from affiant.policy.commands import policy
from affiant.policy.model.sigv4 import SigV4, parse_sigv4

FILE = """\
agent_configs:
  dev:
    network_egress: [{host: b.example.com, methods: [GET]}]
    secrets_access: [{name: AWS, inject: {sigv4: {service: s3, region: eu-central-1}}}]
"""
MAY = "with which the agent may do whatever the key's own policy allows there"
WORDS = f"signatures of requests to s3 in eu-central-1, {MAY}"


def told(tmp_path: Path, *arguments: str) -> str:
    (tmp_path / "p.yaml").write_text(FILE)
    done = CliRunner().invoke(policy, [arguments[0], str(tmp_path / "p.yaml"), *arguments[1:]])
    return " ".join(done.output.split())


def test_can_says_what_the_agent_may_do_with_it(tmp_path: Path) -> None:
    assert f"AWS in {WORDS}" in told(tmp_path, "can", "dev")
    assert WORDS in told(tmp_path, "can", "dev", "--markdown")


def test_the_page_for_reviewers_says_it(tmp_path: Path) -> None:
    told(tmp_path, "report", "-o", str(tmp_path / "page.html"))
    page = (tmp_path / "page.html").read_text()
    assert "with which the agent may do whatever the key's own policy allows there" in unescape(page)
    assert "A key that signs requests" in page


@pytest.mark.parametrize("target", ["srt", "claude-code", "cilium"])
def test_what_is_exported_signs_nothing_and_says_so(tmp_path: Path, target: str) -> None:
    assert "; nothing is signed with it" in told(tmp_path, "compile", "dev", "--target", target)


def test_cedar_names_the_place_and_does_not_judge_the_signature(tmp_path: Path) -> None:
    found = told(tmp_path, "compile", "dev", "--target", "cedar", "--json")
    assert "sigv4:eu-central-1/s3" in found
    assert "what a request must be to be signed with this key" in found


def test_the_document_names_region_and_service(tmp_path: Path) -> None:
    (agent,) = json.loads(told(tmp_path, "can", "dev", "--json"))["agents"]
    assert agent["secrets"][0]["place"] == "sigv4:eu-central-1/s3"


def test_a_place_is_read_back_as_it_was_named() -> None:
    scope = SigV4("s3", "eu-central-1")
    assert parse_sigv4(scope.surface) == scope
    assert parse_sigv4("header:authorization") is None


def test_what_is_no_name_is_not_repeated() -> None:
    assert SPELLINGS["aws_name"].match("us-east-1")
    for service, region in (("s3", "AKIAIOSFODNN7EXAMPLE"), ("wJalrXUtnFEMI/K7MDENG", "eu-central-1")):
        with pytest.raises(ValueRefused) as refused:
            SigV4(service, region)
        assert "AKIA" not in str(refused.value) and "wJalr" not in str(refused.value)
