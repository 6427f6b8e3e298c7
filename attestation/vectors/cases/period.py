"""Period bundles: archives that are not of the one form, and archives that hold something else than the log says."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from vectors.making import tree
from vectors.making.acts import acts, closed, labelled, opened
from vectors.making.archive import Member, archive, padded
from vectors.making.documents import ORIGIN
from vectors.making.encoding import from_b64u
from vectors.making.keys import ed25519_key
from vectors.making.period import Files, manifest, members, period_files, zipped
from vectors.making.scripts import boot, finish, ids, session, start
from vectors.making.story import Story
from vectors.making.trust import WITNESSED
from vectors.making.witnesses import EARLY, LATE, cosigned, stated, witnessed_boot, witnessed_session

__all__ = ["PERIOD_CASES", "PeriodCase"]

_RECEIPTS = "receipts/000000.ndjson"
_RANGE = ("2026-11-21T00:00:00Z", "2026-11-22T00:00:00Z")
_BEFORE: Mapping[str, int] = {"a": -3, "b": -2, "c": -1}


@dataclass(frozen=True)
class PeriodCase:
    """One archive.

    Args:
        about: what is wrong, or what is shown, in a sentence.
        make: the archive's bytes.
        refused: row -> reason code.
        not_made: of a case without refusals: rows for which something lacks. warnings: rows that hold with a warning.
        asked: the reader's range, RFC 3339; None: no range is asked for.
    """

    id: str
    about: str
    make: Callable[[], bytes]
    refused: Mapping[str, str] = field(default_factory=dict)
    not_made: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    trust: str = "trust.json"
    asked: tuple[str, str] | None = _RANGE


def _story(faults: Mapping[str, Any] | None = None, script: Callable[[Story], None] = session) -> Story:
    story = Story(faults)
    script(story)
    return story


def _built(change: Callable[[Files], object] = lambda _: None, **how: Any) -> Callable[[], bytes]:
    """The usual archive after ``change`` of its files; the manifest lists them as they are then."""

    def make() -> bytes:
        story = _story(**how)
        files = period_files(story)
        change(files)
        return zipped(files, leaves=len(story.records))

    return make


def _formed(change: Callable[[list[Member]], list[Member]], **around: bytes) -> Callable[[], bytes]:
    """An archive of a boot record alone, whose members are written otherwise."""

    def make() -> bytes:
        story = _story(script=boot)
        files = period_files(story)
        files["manifest.json"] = manifest(files, leaves=len(story.records))
        return archive(change(members(files)), **around)

    return make


def _readme(**changes: Any) -> Callable[[list[Member]], list[Member]]:
    """``README.txt``, the first member, with other fields."""
    return lambda found: [dataclasses.replace(found[0], **changes), *found[1:]]


def _padded(found: list[Member]) -> list[Member]:
    return [dataclasses.replace(found[0], packed=padded(found[0].data)), *found[1:]]


def _two_gateways(story: Story) -> None:
    """A second gateway process after the first: another keyset, another chain, one log."""
    session(story)
    story.gateway = story.new_gateway("later-gateway")
    keyset = story.gateway.keyset_digest
    story.gateway_says("later-boot", "boot", {"bld": "sha256:" + "b" * 64, "col": story.col, "ks": keyset})


def _opened_twice(story: Story) -> None:
    """Both are closed at last."""
    boot(story)
    told = start(story)
    for port in [opened(story, told, step) for step in ("first", "second")]:
        closed(story, told, f"closed-{ids(port)}", port)
    finish(story, told, cseq=-1)


def _lines(files: Files, change: Callable[[list[bytes]], list[bytes]]) -> None:
    """Other lines of receipts, without disclosures: theirs would have to follow."""
    del files["disclosures/000000.ndjson"]
    files[_RECEIPTS] = b"".join(change(files[_RECEIPTS].splitlines(keepends=True)))


def _without_sessions(files: Files) -> None:
    """Neither keysets nor records of supervisors: the gateway's records name both."""
    for name in [
        each for each in files if each.startswith("keysets/") and b'"role":"session"' in files[each]
    ]:
        del files[name]
    _lines(files, lambda lines: [line for line in lines if _role(line) == "gateway"])


def _role(line: bytes) -> str:
    role: str = json.loads(from_b64u(json.loads(line).split(".")[1]))["role"]
    return role


def _of_another_signer(files: Files) -> None:
    """The same checkpoint, signed by a key that the archive's maker has."""
    text = files["log/checkpoint"].decode().partition("\n\n")[0] + "\n"
    files["log/checkpoint"] = tree.note(text, ORIGIN, ed25519_key("another log")).encode()


def _another_root(note: str) -> str:
    """Another root over as many leaves, signed by the log all the same."""
    size = int(note.split("\n")[1])
    text = tree.checkpoint(ORIGIN, size, hashlib.sha256(b"another tree").digest())
    return tree.note(text, ORIGIN, ed25519_key("log"))


def _flip(name: str, at: int) -> Callable[[Files], object]:
    def change(files: Files) -> None:
        (found,) = (each for each in files if each.startswith(name))
        data = bytearray(files[found])
        data[at] ^= 1
        files[found] = bytes(data)

    return change


def _without(folder: str) -> Callable[[Files], object]:
    def change(files: Files) -> None:
        for name in [each for each in files if each.startswith(folder)]:
            del files[name]

    return change


def _listed_otherwise() -> bytes:
    story = _story(script=boot)
    files = period_files(story)
    listed = manifest(files | {"README.txt": files["README.txt"].upper()}, leaves=len(story.records))
    return archive(members(files | {"manifest.json": listed}))


def _unlisted() -> bytes:
    story = _story(script=boot)
    files = period_files(story)
    listed = manifest(files, leaves=len(story.records))
    more = b"{}"
    return archive(
        members(files | {"manifest.json": listed, f"keysets/{hashlib.sha256(more).hexdigest()}.json": more})
    )


def _refused(code: str) -> Mapping[str, str]:
    return {"fmt.bundle": code}


_WITNESSED: Mapping[str, Any] = {
    "faults": {
        "epoch-note": cosigned(EARLY),
        "note": cosigned(LATE),
        "document:gateway-statement": stated(_BEFORE),
    },
    "script": witnessed_boot(_BEFORE),
}

_ARCHIVES: tuple[PeriodCase, ...] = tuple(
    PeriodCase(f"archive/{name}", about, make, _refused(code))
    for name, about, make, code in (
        (
            "path-upwards",
            "A name that leads out of the folder.",
            _formed(lambda found: [Member("../trust.json", b"{}"), *found]),
            "zip.name",
        ),
        (
            "path-absolute",
            "An absolute name.",
            _formed(lambda found: [Member("/etc/passwd", b"x"), *found]),
            "zip.name",
        ),
        (
            "path-with-backslash",
            "A name that is a path on another system.",
            _formed(lambda found: [*found, Member("results\\x.jwt", b"x")]),
            "zip.name",
        ),
        (
            "name-twice",
            "Two files of one name: readers differ in which they take.",
            _formed(lambda found: [found[0], *found]),
            "zip.duplicate",
        ),
        (
            "name-twice-by-case",
            "Two names that some file systems take for one.",
            _formed(lambda found: [*found, Member("readme.txt", b"x")]),
            "zip.duplicate",
        ),
        (
            "bomb",
            "A file that claims to unpack to 101 times its packed size.",
            _formed(_readme(said={"size": 101 * 1024}, packed=bytes(1024))),
            "zip.ratio",
        ),
        ("encrypted", "An encrypted member.", _formed(_readme(said={"flags": 1})), "zip.encrypted"),
        ("not-deflated", "A member of another method.", _formed(_readme(said={"method": 0})), "zip.method"),
        ("link", "A symbolic link.", _formed(_readme(said={"mode": 0o120777})), "zip.kind"),
        (
            "two-headers",
            "The header before a member names another file than the directory does.",
            _formed(_readme(local={"name": "README.TXT"})),
            "zip.header",
        ),
        (
            "bytes-before",
            "Something stands before the archive.",
            _formed(lambda found: found, before=b"#!/bin/sh\n"),
            "zip.structure",
        ),
        (
            "bytes-between",
            "Something stands before the directory.",
            _formed(lambda found: found, between=b"hidden"),
            "zip.structure",
        ),
        (
            "comment",
            "Something stands after the archive.",
            _formed(lambda found: found, comment=b"hidden"),
            "zip.structure",
        ),
        ("cut-short", "The download stopped.", lambda: _built(script=boot)()[:-1000], "zip.structure"),
        (
            "checksum",
            "A member has another checksum than it says.",
            _formed(_readme(said={"crc": 1})),
            "zip.content",
        ),
        (
            "padding",
            "A bit after the end of a member's stream, in its last byte, is set.",
            _formed(_padded),
            "zip.content",
        ),
        (
            "listed-otherwise",
            "A file is not the one that the manifest lists.",
            _listed_otherwise,
            "period.digest",
        ),
        ("not-listed", "A keyset that the manifest does not list.", _unlisted, "period.manifest"),
    )
)

_NO_TIME = ("time.bracket", "wit.quorum")
_HELD = ("chain.coverage", "rfs.accepted")
_CHAINS = ("chain.boot", "chain.contiguous", "chain.end", "chain.epochs", "chain.time", "session.supervisor")
_LOG = ("chain.coverage", "log.consistency", "log.inclusion")
_EVIDENCE = (
    *(
        "apr.bound",
        "conf.accepted",
        "conf.bound",
        "iso.floor",
        "key.bound",
        "key.evidence",
        "key.not_after",
        "peer.bound",
    ),
    *("peer.ear", "pol.accepted", "pol.bound", "pol.private", "rfs.accepted", "session.sealed"),
    *("tee.appraisal", "tee.class"),
)
_OF_SESSIONS = (
    *(
        f"session.{name}"
        for name in (
            *("start", "order", "counter", "close", "peer", "intents", "decisions", "supervisor"),
            "sealed",
        )
    ),
    *("apr.bound", "iso.floor", "model.answered", "peer.bound", "peer.ear", "pol.accepted", "pol.bound"),
    *("pol.private", "rfs.accepted"),
)

PERIOD_CASES: tuple[PeriodCase, ...] = (
    PeriodCase(
        "valid/session",
        "One session, and the reader asks for its day: the log ends before the day does.",
        _built(),
        not_made=_NO_TIME,
        warnings=_HELD,
    ),
    PeriodCase(
        "valid/within-the-log",
        "The same, and the reader asks for seconds that the log goes beyond.",
        _built(),
        not_made=_NO_TIME,
        warnings=("rfs.accepted",),
        asked=(_RANGE[0], "2026-11-21T12:00:05Z"),
    ),
    PeriodCase(
        "valid/without-range",
        "The same, and the reader asks for no range: whether anything is missing is not judged.",
        _built(),
        not_made=("chain.coverage", *_NO_TIME),
        warnings=("rfs.accepted",),
        asked=None,
    ),
    PeriodCase(
        "valid/two-gateways",
        "A gateway process ends without an end; another goes on in its log.",
        _built(script=_two_gateways),
        not_made=_NO_TIME,
        warnings=_HELD,
    ),
    PeriodCase(
        "valid/witnessed",
        "Three witnesses cosigned the log, before the boot, in between and at the end.",
        _built(**_WITNESSED),
        warnings=_HELD,
        trust=WITNESSED,
    ),
    PeriodCase(
        "valid/acts",
        "Commands, movements of files, and a port; the task label is disclosed.",
        _built(faults=labelled(), script=acts),
        not_made=_NO_TIME,
        warnings=_HELD,
    ),
    PeriodCase(
        "valid/tail-withheld",
        "The receipt of the close is not here, whose leaf is: withheld, and the session is not known to be over.",
        _built(lambda files: _lines(files, lambda lines: lines[:-1])),
        not_made=_NO_TIME,
        warnings=("chain.contiguous", "session.close", *_HELD),
    ),
    PeriodCase(
        "valid/disclosures-withheld",
        "No disclosure is there: content and identity stay hidden.",
        _built(_without("disclosures/")),
        not_made=_NO_TIME,
        warnings=_HELD,
    ),
    PeriodCase(
        "valid/a-trust-file-inside",
        "The archive brings a trust file along. It is not read, and named.",
        _built(lambda files: files.update({"trust.json": b"{}"})),
        not_made=_NO_TIME,
        warnings=("fmt.bundle", *_HELD),
    ),
    PeriodCase(
        "valid/without-evidence",
        "The evidence is not here: whose keys these are is not known, and so not whose log.",
        _built(_without("evidence/")),
        not_made=("bundle.objects", *_EVIDENCE, *_LOG, *_NO_TIME),
    ),
    PeriodCase(
        "valid/keysets-missing",
        "A session of which the gateway's records alone are here: neither keyset nor record of its supervisor.",
        _built(_without_sessions),
        not_made=("bundle.objects", *_OF_SESSIONS, *_NO_TIME),
        warnings=("chain.contiguous", "chain.coverage"),
    ),
    PeriodCase(
        "valid/without-log",
        "Neither checkpoint nor tiles: the chains are not judged.",
        _built(_without("log/")),
        not_made=(*_CHAINS, *_LOG, *_NO_TIME),
        warnings=("rfs.accepted",),
    ),
    *_ARCHIVES,
    PeriodCase(
        "content/receipt-withheld",
        "A receipt of the session is not here whose leaf is.",
        _built(lambda files: _lines(files, lambda lines: [*lines[:5], *lines[6:]])),
        {"session.order": "session.order", "session.counter": "session.counter"},
    ),
    PeriodCase(
        "content/receipts-swapped",
        "Two receipts stand in another order than their leaves.",
        _built(lambda files: _lines(files, lambda lines: [*lines[:4], lines[5], lines[4], *lines[6:]])),
        {"log.inclusion": "log.not_included"},
    ),
    PeriodCase(
        "content/receipt-twice",
        "One receipt stands twice.",
        _built(lambda files: _lines(files, lambda lines: [*lines[:5], lines[4], *lines[5:]])),
        {
            "chain.ids": "chain.repeated_id",
            "session.intents": "session.intent",
            "log.inclusion": "log.not_included",
        },
    ),
    PeriodCase(
        "session/port-opened-twice",
        "A port is opened while it is open.",
        _built(script=_opened_twice),
        {"session.intents": "session.intent"},
    ),
    PeriodCase(
        "content/tile-changed",
        "A hash of the log is another.",
        _built(_flip("log/tile/0/", 40)),
        {"log.inclusion": "log.root"},
    ),
    PeriodCase(
        "content/leaf-changed",
        "A leaf of the log is another.",
        _built(_flip("log/tile/entries/", 40)),
        {"log.inclusion": "log.leaf"},
    ),
    PeriodCase(
        "content/checkpoint-of-another-tree",
        "An epoch names a checkpoint that the log has signed: of fewer leaves, and no beginning of this tree.",
        _built(script=witnessed_session, faults={"epoch-note": _another_root}),
        {"log.consistency": "log.split_view"},
        trust="trust-log-pinned.json",
    ),
    PeriodCase(
        "content/checkpoint-of-another-key",
        "The checkpoint is signed by a key of the archive's maker.",
        _built(_of_another_signer),
        {"log.inclusion": "note.signature"},
    ),
)
