"""A real upstream and the verifier: the configuration's name is known before anything runs, and can be pinned."""

from __future__ import annotations

import hashlib
import json

import pytest
from click.testing import CliRunner

from affiant.attestation.cli.platform.commands import platform
from affiant.attestation.encoding.binary_text import sha256_name
from affiant.attestation.statements.gateway_config import parse_gateway_config
from affiant.attestation.tlog.note_keys import CosignerKey, LogKey
from affiant.attestation.verdict.trust_file import parse_trust_file
from affiant.gateway.cli.commands import gateway
from affiant.gateway.dialects.chat.chat_members import CHAT_LISTS

URL = "http://127.0.0.1:8000/v1"
PROFILE = "sha384:" + "1" * 96


def invoke(group, *arguments):
    return CliRunner().invoke(group, arguments)


def test_the_configuration_is_named_without_starting_anything(tmp_path):
    result = invoke(gateway, "config", "--home", str(tmp_path / "home"), "--upstream", URL)
    assert result.exit_code == 0, result.output
    digest, raw = result.output.splitlines()
    assert sha256_name(raw.encode()) == digest
    assert [upstream.url for upstream in parse_gateway_config(raw.encode()).upstreams] == [URL]
    assert (
        invoke(gateway, "config", "--home", str(tmp_path / "home"), "--upstream", URL).output == result.output
    )
    as_json = invoke(gateway, "config", "--home", str(tmp_path / "home"), "--upstream", URL, "--json")
    assert json.loads(as_json.output)["digest"] == digest


def test_a_trust_file_pins_it_and_a_profile(tmp_path):
    home = str(tmp_path / "home")
    digest = invoke(gateway, "config", "--home", home, "--upstream", URL).output.splitlines()[0]
    made = invoke(platform, "trust", "--home", home, "--gateway-config", digest, "--profile-digest", PROFILE)
    trust = parse_trust_file(made.output.encode())
    assert digest in [entry.value for entry in trust.gateway_configs]
    assert [entry.value for entry in trust.profiles] == [PROFILE]


def test_a_name_that_is_none_is_refused(tmp_path):
    for option in ("--gateway-config", "--profile-digest"):
        result = invoke(platform, "trust", "--home", str(tmp_path / "home"), option, "sha256:short")
        assert result.exit_code == 1
        assert "trust.malformed" in result.output


def test_how_many_requests_an_upstream_is_asked_at_once_is_bound(tmp_path):
    command = ("config", "--home", str(tmp_path / "home"), "--upstream", URL, "--upstream", URL)
    plain = invoke(gateway, *command).output.splitlines()
    digest, raw = invoke(gateway, *command, "--upstream-concurrency", "64").output.splitlines()
    assert digest != plain[0]
    assert [each.concurrent for each in parse_gateway_config(raw.encode()).upstreams] == [64, None]
    assert "concurrent" not in plain[1]
    for values in (["0"], ["4097"], ["many"], ["1", "1", "1"]):
        options = [option for value in values for option in ("--upstream-concurrency", value)]
        assert invoke(gateway, *command, *options).exit_code == 2


def test_sizes_and_timeouts_are_part_of_the_configuration_and_the_defaults_leave_it_as_it_is(tmp_path):
    command = ("config", "--home", str(tmp_path / "home"), "--upstream", URL, "--upstream", URL)
    plain = invoke(gateway, *command).output.splitlines()
    assert invoke(gateway, *command, "--body-max", "8", "--event-max", "4").output.splitlines() == plain
    options = (
        "--body-max",
        "16",
        "--event-max",
        "2",
        "--upstream-timeout",
        "900",
        "--upstream-timeout",
        "9,8,7",
    )
    digest, raw = invoke(gateway, *command, *options).output.splitlines()
    config = parse_gateway_config(raw.encode())
    found = [(each.head_s, each.idle_s, each.total_s) for each in config.upstreams]
    assert digest != plain[0] and found == [(900, 300, 3600), (9, 8, 7)]
    assert (config.body_max, config.event_max) == (16 << 20, 2 << 20)
    for wrong in ("0", "1,", "1,2,3,4", "86401", "x", "-1", "1.5"):
        refused = invoke(gateway, *command, "--upstream-timeout", wrong)
        assert refused.exit_code == 1 and "HEAD[,IDLE[,TOTAL]]" in refused.output
    for option in ("--body-max", "--event-max"):
        assert {invoke(gateway, *command, option, each).exit_code for each in ("0", "65")} == {2}


def test_added_members_are_part_of_the_configuration_and_none_leave_it_as_it_is(tmp_path):
    command = ["config", "--home", str(tmp_path / "home")]
    plain = invoke(gateway, *command).output.splitlines()
    added = [f"{place}.x" for place in (*CHAT_LISTS.request.extensible, *CHAT_LISTS.response.extensible)]
    options = [option for name in added for option in ("--chat-member", name)]
    digest, raw = invoke(gateway, *command, *options).output.splitlines()
    assert digest != plain[0] and "chat_members" not in plain[1]
    assert list(parse_gateway_config(raw.encode()).allowed_members["chat"]) == sorted(set(added))
    same = [option for name in added for option in ("--allow-member", f"chat:{name}")]
    assert invoke(gateway, *command, *same).output.splitlines() == [digest, raw]
    for wrong in ("thinking", "tool.x", "request.", "request.a b"):
        result = invoke(gateway, *command, "--chat-member", wrong)
        assert result.exit_code == 1 and "config.chat_members" in result.output
    for wrong in ("request.x", "chat:", ":request.x"):
        assert invoke(gateway, *command, "--allow-member", wrong).exit_code == 2
    unserved = invoke(gateway, *command, "--allow-member", "smtp:request.x")
    assert unserved.exit_code == 1 and "no such dialect" in unserved.output


def test_an_upstream_that_is_none_is_refused(tmp_path):
    result = invoke(gateway, "config", "--home", str(tmp_path / "home"), "--upstream", "ftp://x")
    assert result.exit_code == 1


def vkey(name: str) -> str:
    return CosignerKey(f"witness.example/{name}", hashlib.sha256(name.encode()).digest()).vkey()


POLICY = f"""\
# one file for monitor, gateway and trust file
log {LogKey("log.example/x", bytes(32)).vkey()}
witness\ta   {vkey("a")}  https://a.example/

witness b {vkey("b")} http://127.0.0.1:8460
group both 2 a b
quorum both
"""


def test_witnesses_stand_in_the_configuration_and_change_its_name(tmp_path):
    home = str(tmp_path / "home")
    (tmp_path / "w.policy").write_text(POLICY)
    plain = json.loads(invoke(gateway, "config", "--home", home, "--witnesses", "none", "--json").output)
    made = invoke(gateway, "config", "--home", home, "--witnesses", str(tmp_path / "w.policy"), "--json")
    found = json.loads(made.output)
    assert found["digest"] != plain["digest"]
    assert "witnesses" not in plain["config"]
    assert found["config"]["witnesses"] == [
        f"witness a {vkey('a')} https://a.example/",
        f"witness b {vkey('b')} http://127.0.0.1:8460",
        "group both 2 a b",
        "quorum both",
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("quorum none\n", "a quorum"),
        ("", ""),
        ("# nothing\n", ""),
        (f"witness a {vkey('a')}\nquorum a\n", "witness <name> <vkey> http"),
        (f"witness a {vkey('a')} ftp://a.example/\nquorum a\n", "witness <name> <vkey> http"),
        (f"witness a {vkey('a')} https://a.example/\n", "`quorum`"),
        ("witness a nonsense https://a.example/\nquorum a\n", "base64"),
        ("\x00", ""),
    ],
)
def test_witnesses_that_cannot_be_asked_are_refused_by_name_of_the_file(tmp_path, text, expected):
    (tmp_path / "w.policy").write_text(text)
    result = invoke(
        gateway, "config", "--home", str(tmp_path / "home"), "--witnesses", str(tmp_path / "w.policy")
    )
    assert result.exit_code == 1, result.output
    assert "w.policy" in result.output
    assert "gateway.settings" in result.output
    assert expected in result.output


def test_a_trust_file_asks_for_them(tmp_path):
    (tmp_path / "w.policy").write_text(POLICY)
    made = invoke(
        platform, "trust", "--home", str(tmp_path / "home"), "--witnesses", str(tmp_path / "w.policy")
    )
    ((_, policy),) = parse_trust_file(made.output.encode()).witnesses
    assert set(policy.witnesses) == {"a", "b"}
    (tmp_path / "w.policy").write_text("quorum none\n")
    refused = invoke(
        platform, "trust", "--home", str(tmp_path / "home"), "--witnesses", str(tmp_path / "w.policy")
    )
    assert refused.exit_code == 1
    assert "asks nobody" in refused.output


def test_aliases_of_models_are_bound_and_without_any_the_digest_is_the_old_one(tmp_path):
    command = ("config", "--home", str(tmp_path / "home"), "--upstream", URL)
    plain = invoke(gateway, *command).output.splitlines()
    options = ("--model-alias", "gpt-4o=gpt-4o-2024-08-06", "--model-alias", "gpt-4o=gpt-4o-2024-05-13")
    digest, raw = invoke(gateway, *command, *options).output.splitlines()
    assert digest != plain[0] and "model_aliases" not in plain[1]
    expected = {"gpt-4o": ("gpt-4o-2024-05-13", "gpt-4o-2024-08-06")}
    assert parse_gateway_config(raw.encode()).model_aliases == expected
    turned = (*options[2:], *options[:2])
    assert invoke(gateway, *command, *turned).output.splitlines()[0] == digest
    for value in ("gpt-4o", "=x", "gpt-4o="):
        assert invoke(gateway, *command, "--model-alias", value).exit_code == 2
    refused = invoke(gateway, *command, "--model-alias", "gpt-4o=a b")
    assert refused.exit_code == 1 and "gateway.settings" in refused.output
