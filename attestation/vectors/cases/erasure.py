"""Class *erasure*: what is gone by an authority's order is a warning; what is gone otherwise is a gap."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from vectors.cases.edits import WITHOUT, one, tail
from vectors.making.case import Case, told
from vectors.making.documents import identifier
from vectors.making.encoding import from_b64u, link
from vectors.making.faults import Fault, put
from vectors.making.keys import ed25519_key, p256_key
from vectors.making.orders import chain, erase, hold, item, release
from vectors.making.records import Record, Session
from vectors.making.scripts import REQUEST, RESPONSE, boot, execute, finish, inference, start
from vectors.making.story import Story
from vectors.making.tree import vkey
from vectors.making.trust import AUTHORITIES

__all__ = ["CASES", "VALID"]

_SECOND = b'{"messages":[],"model":"echo"}'
_ANSWER = b'{"choices":[]}'


def _session(story: Story) -> Session:
    """Two answers, and a command between them whose records name the first."""
    boot(story)
    told_session = start(story)
    inference(story, told_session)
    execute(story, told_session)
    inference(story, told_session, step="second", cseq=1, request=_SECOND, response=_ANSWER)
    finish(story, told_session, cseq=1)
    return told_session


def _record(story: Story, step: str) -> Record:
    return next(record for record in story.records if record.step == step)


def _others(story: Story) -> None:
    """What the gateway did afterwards, which a bundle of this session leaves out."""
    for number in (1, 2):
        count = story.gateway.records[-1].payload["seq"] + 1
        story.gateway_says(f"others-{number}", "epoch", {"inf": 0, "n": count})


def _items(story: Story, of: Session, level: int, *steps: str) -> list[dict[str, Any]]:
    return [item(_record(story, step), level, of) for step in steps]


def ordered(level: int, *steps: str) -> Callable[[Story], None]:
    """The session; later, among records of others, an order to erase these."""

    def script(story: Story) -> None:
        of = _session(story)
        _others(story)
        erase(story, "erasure", _items(story, of, level, *steps))

    return script


def _later(story: Story) -> None:
    """The order stands in the chain of a later boot of the gateway."""
    of = _session(story)
    story.gateway = story.new_gateway("later")
    keyset = story.gateway.keyset_digest
    story.gateway_says("later-boot", "boot", {"bld": "sha256:" + "5" * 64, "col": story.col, "ks": keyset})
    _others(story)
    erase(story, "erasure", _items(story, of, 2, "inference"))


def _lost_chain() -> dict[str, Any]:
    """A chain of an earlier boot, of which nothing is here."""
    head = {"chn": identifier("an earlier boot"), "rh": link(b"its last record"), "seq": 4000}
    return {**head, "basis": "a plan of retention", "lvl": 3}


def _pruned_elsewhere(story: Story) -> None:
    """Amid the session an earlier boot is pruned."""
    boot(story)
    of = start(story)
    inference(story, of)
    erase(story, "erasure", [_lost_chain()])
    finish(story, of, cseq=0)


def _pruned(held: Callable[[Story, Session], str] | None = None) -> Callable[[Story], None]:
    """The session's own chain and its gateway's are ordered to be pruned, after a hold if one is named."""

    def script(story: Story) -> None:
        of = _session(story)
        if held is not None:
            hold(story, "hold", held(story, of))
        _others(story)
        last = [record for record in story.records if record.party.role != "gateway"][-1]
        erase(story, "erasure", [chain(last, of), chain(_record(story, "others-2"), of)])

    return script


def _twice(story: Story) -> None:
    """The content first, the record later."""
    of = _session(story)
    _others(story)
    erase(story, "erasure", _items(story, of, 1, "inference"))
    count = story.gateway.records[-1].payload["seq"] + 1
    story.gateway_says("others-3", "epoch", {"inf": 0, "n": count})
    erase(story, "again", _items(story, of, 2, "inference"))


def _held(story: Story) -> None:
    of = _session(story)
    hold(story, "hold", of.id)


def _released(story: Story) -> None:
    of = _session(story)
    held = hold(story, "hold", of.id)
    release(story, "release", held)
    erase(story, "erasure", _items(story, of, 2, "inference"))


def _held_and_erased(target: Callable[[Story, Session], str]) -> Callable[[Story], None]:
    def script(story: Story) -> None:
        of = _session(story)
        hold(story, "hold", target(story, of))
        erase(story, "erasure", _items(story, of, 2, "inference"))

    return script


def _released_too_late(story: Story) -> None:
    of = _session(story)
    held = hold(story, "hold", of.id)
    erase(story, "erasure", _items(story, of, 2, "inference"))
    release(story, "release", held)


def _between(story: Story) -> None:
    """Before the session ends another one's record is erased; what stood before the order is left out."""
    boot(story)
    of = start(story)
    inference(story, of)
    _others(story)
    lost = {"basis": "an order", "chn": identifier("elsewhere"), "lvl": 1, "rh": link(b"lost"), "seq": 3}
    erase(story, "erasure", [lost])
    finish(story, of, cseq=0)


_BARE: dict[str, Any] = {"sent:inference": tail(lambda _: [])}
_GONE: dict[str, Any] = {"withhold:inference": WITHOUT}
_OTHERS: dict[str, Any] = {"withhold:others-1": WITHOUT, "withhold:others-2": WITHOUT}
_ALONE = {**_GONE, **_OTHERS}
_WARNED = ("rfs.accepted", "erasure.authority")
_L2 = (*_WARNED, "chain.contiguous", "session.close", "session.counter")


def _valid(name: str, about: str, faults: dict[str, Any], script: Callable[..., None], **more: Any) -> Case:
    return Case(f"valid/{name}", about, told(faults, script), trust=AUTHORITIES, **more)


VALID = (
    _valid(
        "erased-record",
        "A record is erased by order: its neighbours' links, the session's close and the order name its hash.",
        _ALONE,
        ordered(2, "inference"),
        warnings=_L2,
    ),
    _valid(
        "erased-content",
        "The disclosures of an answer are erased by order; its receipt still verifies.",
        _BARE | _OTHERS,
        ordered(1, "inference"),
        request=REQUEST,
        response=RESPONSE,
        warnings=(*_WARNED, "body.request", "body.response"),
        stored_from="valid/erased-record",
    ),
    _valid(
        "erased-neighbours",
        "Both answers and a supervisor's record are erased by one order.",
        {**_ALONE, "withhold:second": WITHOUT, "withhold:exec-intent": WITHOUT},
        ordered(2, "inference", "second", "exec-intent"),
        warnings=(*_L2, "session.intents"),
        stored_from="valid/erased-record",
    ),
    _valid(
        "erased-later",
        "The order stands in the chain of a later boot.",
        _ALONE,
        _later,
        warnings=_L2,
        stored_from="valid/gateway-died",
    ),
    _valid(
        "erased-twice",
        "The content by one order, the record by a later one; each stands alone in the chain.",
        {**_ALONE, "withhold:others-3": WITHOUT},
        _twice,
        warnings=_L2,
        stored_from="valid/erased-record",
    ),
    _valid(
        "erased-and-still-here",
        "An order proves that it was ordered: the record is here all the same.",
        _OTHERS,
        ordered(2, "inference"),
        warnings=_WARNED,
        stored_from="valid/erased-record",
    ),
    _valid(
        "pruned-elsewhere",
        "The gateway's chain of an earlier boot is pruned by order; of this session nothing is missing.",
        {},
        _pruned_elsewhere,
        warnings=_WARNED,
        stored_from="valid/open",
    ),
    _valid(
        "pruned-and-still-here",
        "The chains of the session and of its gateway were ordered to be pruned, and are here all the same.",
        _OTHERS,
        _pruned(),
        warnings=_WARNED,
        stored_from="valid/erased-record",
    ),
    _valid(
        "held",
        "A session is held, and nothing of it is erased.",
        {},
        _held,
        warnings=("rfs.accepted",),
        stored_from="valid/erased-record",
    ),
    _valid(
        "released",
        "A session was held; after the hold's end a record of it is erased.",
        _GONE,
        _released,
        warnings=_L2,
        stored_from="valid/erased-record",
    ),
)

_UNNAMED = {
    "chain.contiguous": "chain.gap",
    "session.order": "session.order",
    "session.counter": "session.counter",
}
_UNAUTHORIZED = {"erasure.authority": "chain.gap", **_UNNAMED}
_ANOTHER = "another.log.invalid"
_HELD = {"hold.respected": "hold.broken"}


def _another_log(statement: dict[str, Any]) -> dict[str, Any]:
    return statement | {
        "log": statement["log"] | {"origin": _ANOTHER, "vkey": vkey(_ANOTHER, ed25519_key("log"))}
    }


def _tampered(name: str, about: str, faults: dict[str, Any], refused: dict[str, str], **more: Any) -> Case:
    how: dict[str, Any] = {"base": "valid/erased-record", "script": ordered(2, "inference")}
    how |= {"trust": AUTHORITIES} | more
    return one(f"erasure/{name}", about, _ALONE | faults, refused, **how)


def _named(**members: Any) -> Fault:
    return lambda items: [{**items[0], **members}]


def _without_proof(receipts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    def is_order(entry: dict[str, Any]) -> bool:
        return b'"kind":"erasure"' in from_b64u(entry["sdjwt"].split(".")[1])

    return [{**entry, "proof": None} if is_order(entry) else entry for entry in receipts]


CASES = (
    _tampered(
        "no-record",
        "A record is gone, and no order says so.",
        {"withhold:erasure": WITHOUT},
        _UNNAMED,
    ),
    _tampered(
        "other-hash",
        "The order names another hash than the link of the record after it.",
        {"del:erasure": _named(rh=link(b"another record"))},
        {"chain.contiguous": "chain.gap", "session.close": "session.close", "session.peer": "session.peer"},
    ),
    _tampered(
        "other-number",
        "The order names the record under another number of the chain.",
        {"del:erasure": _named(seq=77)},
        {"chain.contiguous": "chain.gap", "session.peer": "session.peer"},
    ),
    _tampered(
        "content-only",
        "Only the content was ordered to be erased, and the record is gone.",
        {"del:erasure": _named(lvl=1)},
        _UNNAMED,
    ),
    _tampered(
        "another-present-record",
        "The order names another hash than that of the record that stands there.",
        {"del:erasure": lambda items: [*items, {**items[0], "seq": items[0]["seq"] + 1}]},
        _UNAUTHORIZED,
    ),
    _tampered(
        "unknown-authority",
        "The order is signed by a key that nobody accepts.",
        {"order-key:erasure": lambda _: p256_key("somebody")},
        _UNAUTHORIZED,
    ),
    _tampered(
        "gateways-own-order",
        "The gateway itself signed the order.",
        {"order-key:erasure": lambda _: p256_key("gateway receipt")},
        _UNAUTHORIZED,
    ),
    _tampered(
        "moved-order",
        "The authority signed an order for other records.",
        {"order:erasure": put(**{"del": link(b"other records")})},
        _UNAUTHORIZED,
    ),
    _tampered(
        "order-of-another-log",
        "The authority signed an order for another log.",
        {"order:erasure": put(origin="elsewhere.invalid")},
        _UNAUTHORIZED,
    ),
    _tampered(
        "order-of-another-type",
        "The authority signed a hold.",
        {"order:erasure": put(typ="affiant-hold/1")},
        _UNAUTHORIZED,
    ),
    _tampered(
        "order-with-a-member",
        "A member beside those of an order.",
        {"order:erasure": put(more=1)},
        _UNAUTHORIZED,
    ),
    _tampered(
        "order-of-tomorrow",
        "An order that was made a day after it was recorded.",
        {"order:erasure": lambda covered: {**covered, "made": covered["made"] + 86400}},
        _UNAUTHORIZED,
    ),
    _tampered(
        "order-spelled-otherwise",
        "A trailing bit in the order's signature.",
        {"aut:erasure": lambda aut: aut[:-1] + chr(ord(aut[-1]) + 1)},
        _UNAUTHORIZED,
    ),
    _tampered("no-authority", "The trust file names no authority.", {}, _UNAUTHORIZED, trust="trust.json"),
    _tampered(
        "revoked-authority",
        "The authority's key was revoked before the instant judged at.",
        {},
        _UNAUTHORIZED,
        trust="trust-erasure-authority-revoked.json",
    ),
    _tampered(
        "not-logged",
        "The order has no proof of inclusion.",
        {"receipts": _without_proof},
        _UNAUTHORIZED,
        not_made=("log.inclusion",),
    ),
    one(
        "erasure/by-another-log",
        "The order stands in the log of another gateway, and is made for that one.",
        _ALONE | {"document:later-statement": _another_log, "order:erasure": put(origin=_ANOTHER)},
        _UNAUTHORIZED | {"conf.bound": "conf.unbound"},
        base="valid/erased-later",
        script=_later,
        trust=AUTHORITIES,
    ),
    one(
        "erasure/two-records-of-one-number",
        "Two orders name one number, and two hashes; the record is gone.",
        {
            **_ALONE,
            "withhold:others-3": WITHOUT,
            "del:erasure": lambda items: [{**items[0], "rh": link(b"another record")}],
        },
        _UNAUTHORIZED,
        base="valid/erased-twice",
        script=_twice,
        trust=AUTHORITIES,
    ),
    one(
        "erasure/hides-a-record",
        "A record before an order is left out, amid the session.",
        _OTHERS,
        {"chain.contiguous": "chain.gap"},
        base="valid/open",
        script=_between,
        trust=AUTHORITIES,
    ),
    *(
        one(
            f"erasure/{name}",
            about,
            _GONE,
            _HELD,
            base="valid/erased-record",
            script=script,
            trust=AUTHORITIES,
        )
        for name, about, script in (
            (
                "held-session",
                "A record of a held session is erased.",
                _held_and_erased(lambda _, of: of.id),
            ),
            (
                "held-record",
                "A held record is erased.",
                _held_and_erased(lambda story, _: _record(story, "inference").rh),
            ),
            ("released-too-late", "The hold ends after the erasure.", _released_too_late),
        )
    ),
    one(
        "erasure/pruned-and-one-record-gone",
        "The whole chain was ordered to be pruned: that excuses no single record.",
        _ALONE,
        _UNNAMED,
        base="valid/erased-record",
        script=_pruned(),
        trust=AUTHORITIES,
    ),
    one(
        "erasure/pruned-another-present-record",
        "The chain's last record is named with another hash than that of the record that stands there.",
        {**_OTHERS, "del:erasure": lambda items: [{**items[0], "rh": link(b"another record")}, items[1]]},
        {"erasure.authority": "chain.gap"},
        base="valid/erased-record",
        script=_pruned(),
        trust=AUTHORITIES,
    ),
    one(
        "erasure/pruned-held-session",
        "A session is held, and its gateway's chain alone is ordered to be pruned.",
        {**_OTHERS, "del:erasure": lambda items: items[1:]},
        _HELD,
        base="valid/erased-record",
        script=_pruned(lambda _, of: of.id),
        trust=AUTHORITIES,
    ),
    one(
        "erasure/pruned-held-record",
        "A record is held, and the chain that it stands in is ordered to be pruned.",
        {**_OTHERS, "del:erasure": lambda items: items[1:]},
        _HELD,
        base="valid/erased-record",
        script=_pruned(lambda story, _: _record(story, "inference").rh),
        trust=AUTHORITIES,
    ),
    one(
        "erasure/pruned-to-no-level",
        "An order of level 4.",
        {"del:erasure": lambda items: [{**items[0], "lvl": 4}]},
        {"sig.receipts": "fmt.profile"},
        base="valid/erased-record",
        script=_pruned_elsewhere,
        trust=AUTHORITIES,
    ),
    one(
        "erasure/release-of-another-hold",
        "The end of another hold.",
        {**_GONE, "release:release": put(rel=link(b"another hold"))},
        _HELD,
        base="valid/erased-record",
        script=_released,
        trust=AUTHORITIES,
    ),
    one(
        "erasure/release-of-another-target",
        "The end names the hold, and another target.",
        {**_GONE, "release:release": put(tgt=identifier("another session"))},
        _HELD,
        base="valid/erased-record",
        script=_released,
        trust=AUTHORITIES,
    ),
    one(
        "erasure/hold-without-order",
        "A hold that nobody who may has ordered.",
        {"order-key:hold": lambda _: p256_key("somebody")},
        {"erasure.authority": "chain.gap"},
        base="valid/erased-record",
        script=_held,
        trust=AUTHORITIES,
    ),
)
