"""`affiant erase` and `affiant hold` without a gateway: keys, requests, what is refused before anything is sent."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.attestation.story import Story

from affiant.__main__ import cli
from affiant.attestation.encoding.keys import Signer, public_key_of
from affiant.attestation.erasure.errors import RequestFileMalformed
from affiant.attestation.erasure.making_orders import erasure_request, origin_of, session_items
from affiant.attestation.erasure.orders import verify_order
from affiant.attestation.erasure.request_file import parse_request
from affiant.attestation.schema.records import KINDS, shape_of

LATER = 1 << 40


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [str(each) for each in arguments])


@pytest.fixture
def key(tmp_path: Path) -> Path:
    path = tmp_path / "officer.key"
    made = run("erase", "keygen", "-o", path)
    assert made.exit_code == 0, made.output
    (tmp_path / "officer.jwk").write_text(made.output)
    return path


@pytest.fixture
def story(tmp_path: Path) -> Story:
    story = Story().tell()
    (tmp_path / "s.affiant.json").write_bytes(story.bytes())
    return story


def test_a_key_is_private_made_once_and_not_shown(tmp_path: Path, key: Path) -> None:
    assert key.stat().st_mode & 0o777 == 0o600
    secret = json.loads(key.read_text())["d"]
    assert secret not in (tmp_path / "officer.jwk").read_text()
    again = run("erase", "keygen", "-o", key)
    assert again.exit_code == 1 and json.loads(key.read_text())["d"] == secret


@pytest.mark.parametrize("level", [1, 2])
def test_a_request_names_the_session_and_its_orders_hold(
    tmp_path: Path, key: Path, story: Story, level: int
) -> None:
    bundle, output = tmp_path / "s.affiant.json", tmp_path / "r.json"
    more = ("--session", story.session, "--level", level, "--basis", "Art. 17")
    made = run("erase", "make", bundle, *more, "--key", key, "-o", output)
    assert made.exit_code == 0, made.output
    request = parse_request(output.read_bytes())
    authority = public_key_of(json.loads((tmp_path / "officer.jwk").read_text()))
    named = {}
    for order in request.orders:
        verify_order(order, kind="erasure", origin=story.config.origin, authorities=[authority], latest=LATER)
        named |= {item["rh"]: item for item in order["del"]}
    records = {r.rh: r.payload["kind"] for r in [*story.of_session(), *story.session_records]}
    expected = {rh for rh, kind in records.items() if kind not in ("boot", "end")}
    assert set(named) == expected
    for rh, item in named.items():
        structure = records[rh] in ("session-start", "session-close")
        assert item["lvl"] == (1 if structure else level)
    shown = run("erase", "show", output)
    assert shown.exit_code == 0 and "not verified" in shown.output and "Art. 17" in shown.output


def test_a_hold_and_its_end(tmp_path: Path, key: Path, story: Story) -> None:
    bundle = tmp_path / "s.affiant.json"
    more = ("--target", story.session, "--basis", "case 12/26", "--key", key)
    assert run("hold", "make", bundle, *more, "-o", tmp_path / "h.json").exit_code == 0
    end = run("hold", "release", bundle, *more, "--hold", "A" * 43, "-o", tmp_path / "e.json")
    assert end.exit_code == 0, end.output
    (hold,) = parse_request((tmp_path / "h.json").read_bytes()).orders
    (release,) = parse_request((tmp_path / "e.json").read_bytes()).orders
    assert "rel" not in hold and release["rel"] == "A" * 43
    assert "end the hold" in run("hold", "show", tmp_path / "e.json").output


@pytest.mark.parametrize("read", ["officer.key", "s.affiant.json"])
@pytest.mark.parametrize("command", ["erase make", "hold make", "hold release"])
def test_no_request_takes_the_place_of_the_key_or_the_bundle(
    tmp_path: Path, key: Path, story: Story, command: str, read: str
) -> None:
    before = (tmp_path / read).read_bytes()
    more = {
        "erase make": ("--session", story.session, "--level", 1),
        "hold make": ("--target", story.session),
        "hold release": ("--target", story.session, "--hold", "A" * 43),
    }[command]
    (tmp_path / "link").symlink_to(read)
    for output in (tmp_path / read, tmp_path / "link"):
        given = (tmp_path / "s.affiant.json", *more, "--basis", "x", "--key", key, "-o", output)
        refused = run(*command.split(), *given)
        assert refused.exit_code == 2 and "is read" in refused.output
    assert (tmp_path / read).read_bytes() == before


def test_many_records_are_several_orders_that_records_can_carry() -> None:
    item = {"chn": "A" * 22, "seq": 0, "rh": "B" * 42 + "A", "lvl": 2, "basis": "b" * 256}
    items = [{**item, "seq": n, "agt": {"ses": "A" * 22, "seq": n}} for n in range(100)]
    request = erasure_request(Signer.generate(), items, origin="log.example", made=1)
    assert [each for order in request.orders for each in order["del"]] == items
    assert all(len(json.dumps(order)) < 15_000 for order in request.orders)
    assert parse_request(request.to_bytes()) == request
    assert (
        shape_of("erasure", role="gateway", cls="simulated").required["del"]
        is KINDS["erasure"].required["del"]
    )


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b'{"typ":"affiant-erasure-request/1","origin":"a","orders":[]}',
        b'{"typ":"affiant-erasure-request/1","origin":"a","orders":[{"del":[],"aut":"x"}]}',
        b'{"typ":"affiant-hold-request/1","origin":"a","orders":[{"tgt":"x","basis":"b","aut":"x"}]}',
        b'{"typ":"affiant-hold-request/1","origin":"a b","orders":[]}',
        b'{"typ":"affiant-erasure-request/1","typ":"affiant-erasure-request/1","origin":"a","orders":[]}',
    ],
)
def test_what_is_no_request_is_refused(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(RequestFileMalformed):
        parse_request(content)
    path = tmp_path / "r.json"
    path.write_bytes(content)
    for command in ("erase", "hold"):
        assert run(command, "--request", path).exit_code == 1


def test_nothing_is_handed_to_nobody(tmp_path: Path, key: Path, story: Story) -> None:
    bundle, output = tmp_path / "s.affiant.json", tmp_path / "r.json"
    more = ("--session", story.session, "--level", 1, "--basis", "b", "--key", key, "-o", output)
    assert run("erase", "make", bundle, *more).exit_code == 0
    refused = run("erase", "--home", tmp_path / "home", "--request", output)
    assert refused.exit_code == 1 and "gateway.unreachable" in refused.output
    assert run("hold", "--request", output).exit_code == 1
    assert run("erase").exit_code == 2 and run("hold").exit_code == 2


@pytest.mark.parametrize("wrong", ["mode", "form", "gone", "zero"])
def test_a_key_that_is_none_is_refused_and_not_repeated(
    tmp_path: Path, key: Path, story: Story, wrong: str
) -> None:
    match wrong:
        case "mode":
            key.chmod(0o644)
        case "form":
            key.write_text('{"typ": "affiant-erasure-key/1", "d": "sesame"}')
        case "gone":
            key.unlink()
        case "zero":
            key.write_text(json.dumps({"typ": "affiant-erasure-key/1", "d": "A" * 43}))
    more = ("--session", story.session, "--level", 1, "--basis", "b", "--key", key)
    refused = run("erase", "make", tmp_path / "s.affiant.json", *more, "-o", tmp_path / "r.json")
    assert refused.exit_code == 1 and "erasure.key" in refused.output
    assert "sesame" not in refused.output and not (tmp_path / "r.json").exists()


def test_another_session_or_log_is_refused(story: Story) -> None:
    bundle = story.bundle()
    assert origin_of(bundle) == story.config.origin
    with pytest.raises(RequestFileMalformed, match="no record of this session"):
        session_items(bundle, "A" * 22, level=1, basis="b")
