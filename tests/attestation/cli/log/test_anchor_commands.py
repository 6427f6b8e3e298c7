"""`affiant log anchor` and `anchors`: a real authority over HTTP, a real log in a folder, and what goes wrong."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.attestation.log_builder import LogBuilder, chain, log_signer
from tests.attestation.log_server import served as served_log
from tests.timestamp_authority.authority import TimestampAuthority
from tests.timestamp_authority.serving import Served, served

from affiant.__main__ import cli
from affiant.attestation.anchors.anchor_files import AnchorFolder
from affiant.attestation.log_reading.folder import FolderLog
from affiant.attestation.log_reading.reader import read_checkpoint

VKEY = log_signer().verifier.vkey()
Run = Callable[..., Result]


@dataclass
class Place:
    """A log of 300 leaves that may grow, and the authority that stamps it."""

    log: LogBuilder
    tsa: Served

    @property
    def anchors(self) -> AnchorFolder:
        return AnchorFolder(self.log.folder / "anchors")

    def run(self, command: str, *more: object, log: object = None, root: Path | None = None) -> Result:
        where = self.log.folder if log is None else log
        root = self.tsa.authority.root if root is None else root
        return self.call("log", command, where, "--key", VKEY, "--tsa-root", root, *more)

    def anchor(self, *more: object, **how: object) -> Result:
        return self.run("anchor", "--tsa", self.tsa.url, *more, **how)

    def call(self, *arguments: object) -> Result:
        return CliRunner().invoke(cli, [str(each) for each in arguments])

    def grow(self, count: int = 5, label: str = "more") -> None:
        self.log.add(chain(label, count))
        self.log.sign()


@pytest.fixture
def place(tmp_path: Path, authority: TimestampAuthority) -> Iterator[Place]:
    log = LogBuilder(tmp_path / "log", chain("one", 300))
    log.sign()
    with served(authority) as tsa:
        yield Place(log, tsa)


def test_the_newest_checkpoint_is_stamped_and_listed(place: Place) -> None:
    done = place.anchor()
    assert done.exit_code == 0, done.output
    assert "not after" in done.output and "CN=tests tsa,O=affiant tests" in done.output
    file = place.anchors.read(300)
    text = read_checkpoint(FolderLog(place.log.folder)).text
    assert place.tsa.authority.holds(file.tokens[0], text.encode()), "openssl ts -verify agrees"
    listed = place.run("anchors")
    assert listed.exit_code == 0 and "size       300" in listed.output
    assert place.call("log", "fsck", place.log.folder, "--key", VKEY).exit_code == 0


def test_a_second_run_of_a_day_asks_nobody(place: Place) -> None:
    assert place.anchor().exit_code == 0
    again = place.anchor("--json")
    assert json.loads(again.stdout)["anchors"][0]["why"] == "the log has not grown since"
    place.grow()
    today = place.anchor("--json")
    assert today.exit_code == 0
    assert json.loads(today.stdout)["anchors"][0] | {
        "new": False,
        "why": "there is one of today",
        "size": 300,
    }
    assert len(place.tsa.asked) == 1 and place.anchors.sizes() == [300]
    assert place.anchor("--again").exit_code == 0
    assert len(place.tsa.asked) == 2 and place.anchors.sizes() == [300, 305]


@pytest.mark.parametrize("which", [(), ("newest",), ("oldest",), ("all",), ("300",)])
def test_a_renewal_stamps_the_tokens_before_it_too(place: Place, which: tuple[str, ...]) -> None:
    place.anchor("--sha512")
    place.grow()
    place.anchor("--again")
    before = {size: place.anchors.read(size).tokens for size in (300, 305)}
    done = place.anchor("--json", "--renew", *which)
    assert done.exit_code == 0, done.output
    renewed = {"oldest": [300], "300": [300], "all": [300, 305]}.get("".join(which), [305])
    assert [row["size"] for row in json.loads(done.stdout)["anchors"]] == renewed
    for size, tokens in before.items():
        now = place.anchors.read(size).tokens
        assert now[: len(tokens)] == tokens and len(now) == 1 + (size in renewed)
    assert place.run("anchors").exit_code == 0


def test_a_log_that_contradicts_what_was_stamped_is_not_stamped_again(place: Place, tmp_path: Path) -> None:
    place.anchor()
    other = LogBuilder(tmp_path / "other", chain("two", 310))
    other.sign()
    for log in (other, LogBuilder(tmp_path / "smaller", chain("one", 299))):
        log.sign()
        done = place.anchor("--again", "--out", place.log.folder / "anchors", log=log.folder)
        assert done.exit_code == 20, done.output
    assert len(place.tsa.asked) == 1
    assert place.run("anchors", "--out", place.log.folder / "anchors", log=other.folder).exit_code == 20


def test_a_checkpoint_that_the_log_did_not_sign_is_not_stamped(place: Place) -> None:
    stranger = log_signer(label="stranger").verifier.vkey()
    done = place.call(
        "log", "anchor", place.log.folder, "--key", stranger, "--tsa", place.tsa.url,
        "--tsa-root", place.tsa.authority.root,
    )  # fmt: skip
    assert done.exit_code == 20 and "note.signature" in done.output
    assert place.tsa.asked == []


def test_tiles_of_another_tree_are_not_stamped(place: Place) -> None:
    path = place.log.folder / "tile/0/001.p/44"
    path.write_bytes(path.read_bytes()[::-1])
    assert place.anchor().exit_code == 20
    assert place.tsa.asked == []


def test_a_token_under_another_root_is_not_kept(place: Place, tmp_path: Path) -> None:
    stranger = TimestampAuthority(tmp_path / "stranger")
    done = place.anchor(root=stranger.root)
    assert done.exit_code == 20 and "anchor.untrusted" in done.output
    assert place.anchors.sizes() == []


def answering(
    status: int = 200, kind: str = "application/timestamp-reply", body: bytes = b""
) -> Callable[[bytes], object]:
    return lambda _request: (status, kind, body)


@pytest.mark.parametrize(
    ("answer", "code", "exit_code"),
    [
        (answering(500), "anchor.unavailable", 30),
        (answering(200, "text/html", b"<html>"), "anchor.unavailable", 30),
        (answering(302), "anchor.unavailable", 30),
        (answering(body=b"\x30" * 70_000), "anchor.unavailable", 30),
        (answering(body=b""), "anchor.token", 20),
        (answering(body=bytes.fromhex("30053003020102")), "anchor.refused", 20),
    ],
)
def test_what_is_no_token_is_a_refusal_with_its_code(
    place: Place, answer: object, code: str, exit_code: int
) -> None:
    place.tsa.answer = answer
    done = place.anchor("--json")
    assert done.exit_code == exit_code, done.output
    assert json.loads(done.stdout)["refused"]["code"] == code
    assert place.anchors.sizes() == [] and not place.anchors.path.exists()


def test_an_answer_to_another_request_is_refused(place: Place) -> None:
    """Same bytes, an older nonce: somebody replays a token."""
    place.anchor("--out", place.log.folder.parent / "elsewhere")
    old = place.tsa.asked[0]
    replayed = place.tsa.authority.answer(old)
    place.tsa.answer = lambda _request: (200, "application/timestamp-reply", replayed)
    done = place.anchor()
    assert done.exit_code == 20 and "anchor.nonce" in done.output


def test_an_authority_that_is_not_there_is_unreachable(place: Place) -> None:
    done = place.run("anchor", "--tsa", "http://127.0.0.1:9/tsa", "--timeout", "5")
    assert done.exit_code == 30 and "anchor.unreachable" in done.output


def test_a_log_behind_an_address_needs_a_place_for_its_anchors(place: Place, tmp_path: Path) -> None:
    with served_log(place.log.folder) as url:
        assert place.anchor(log=url).exit_code == 2
        done = place.anchor("--out", tmp_path / "anchors", log=url)
        assert done.exit_code == 0 and (tmp_path / "anchors" / "300.tsr").is_file()
        assert place.run("anchors", "--out", tmp_path / "anchors", log=url).exit_code == 0


def test_no_anchor_is_a_warning_and_one_that_was_changed_is_refused(place: Place) -> None:
    assert place.run("anchors").exit_code == 10
    place.anchor()
    path = place.anchors.path / "300.tsr"
    path.write_bytes(path.read_bytes()[:-1])
    done = place.run("anchors", "--json")
    assert done.exit_code == 20
    assert json.loads(done.stdout)["anchors"][0]["refused"]["code"] == "anchor.token"
    (place.anchors.path / "300.note").unlink()
    (place.anchors.path / "300.note").symlink_to("/etc/hostname")
    assert place.run("anchors").exit_code in (2, 20)


def test_nothing_to_renew_is_said(place: Place) -> None:
    done = place.anchor("--renew")
    assert done.exit_code == 20 and "anchor.absent" in done.output


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--tsa", "ftp://tsa.example"),
        ("--tsa", "https://user:secret@tsa.example"),
        ("--bundle", __file__),
        ("-o", "out"),
        ("--tsa", "https://tsa.example", "--bundle", __file__, "-o", "out"),
        ("--bundle", __file__, "-o", "out", "--again"),
    ],
)
def test_what_cannot_be_meant_is_usage_and_no_password_is_shown(
    place: Place, arguments: tuple[str, ...]
) -> None:
    done = place.run("anchor", *arguments)
    assert done.exit_code == 2, done.output
    assert "secret" not in done.output
    assert place.tsa.asked == []
