"""Class *narrowing*: a running session's profile is only narrowed, by an event, a quote and a record that agree."""

from __future__ import annotations

from typing import Any

from vectors.cases.edits import WITHOUT, one
from vectors.making.case import Case, told
from vectors.making.documents import POLICY, PROFILES_FILE, profile_digest
from vectors.making.encoding import b64u, canonical, sha256_name
from vectors.making.faults import Fault, put
from vectors.making.keys import seeded
from vectors.making.narrowings import (
    cut_off,
    narrowed,
    narrowed_twice,
    normal_form,
    twice_and_once_recorded,
    unrecorded,
    wavering,
)
from vectors.making.story import Story

__all__ = ["CASES", "VALID"]

_BASE = "valid/narrowed"
_TWICE = "valid/narrowed-twice"
_WIDE = canonical({"semantics": "affiant.policy/1", "tools": [], "vectors": "anything goes"})
_ELSE = sha256_name(b"affiant vectors: another file")
_EVIDENCE = {"key.evidence": "key.unbound"}
_EVENTS = {"tee.appraisal": "appraisal.rtmr3"}
_ORDER = {"pol.bound": "narrowing.order"}
_POLICY = {"pol.bound": "pol.unbound"}
_PEER = {"peer.bound": "peer.unbound"}


def _refused(name: str, about: str, faults: dict[str, Fault], refused: dict[str, str], **more: Any) -> Case:
    return one(
        f"narrowing/{name}",
        about,
        faults,
        refused,
        base=more.pop("base", _BASE),
        script=more.pop("script", narrowed),
        **more,
    )


def _twice(name: str, about: str, faults: dict[str, Fault], refused: dict[str, str]) -> Case:
    return _refused(name, about, faults, refused, base=_TWICE, script=narrowed_twice)


class _Kept:
    """What one record says, for a later one to say again."""

    def __init__(self, *paths: str) -> None:
        self._paths = paths
        self._values: dict[str, Any] = {}

    def taken(self, members: dict[str, Any]) -> dict[str, Any]:
        for path in self._paths:
            value: Any = members
            for name in path.split("."):
                value = value[name]
            self._values[path] = value
        return members

    def put(self, members: dict[str, Any]) -> dict[str, Any]:
        changed: dict[str, Any] = put(
            **{path.replace(".", "__"): self._values[path] for path in self._paths}
        )(members)
        return changed


def _again(step: str, later: str, *paths: str) -> dict[str, Fault]:
    """What ``later`` says at ``paths`` is what ``step`` said."""
    kept = _Kept(*paths)
    return {f"members:{step}": kept.taken, f"members:{later}": kept.put}


def _more(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [*events, {"rtmr": 3, "name": "affiant-fork", "payload": {"ses": "A" * 22}}]


def _swapped() -> dict[str, Fault]:
    """Both signers name a profile that is not the one that was extended; its normal form is there."""
    digest = profile_digest(_WIDE)

    def with_normal_form(story: Story) -> None:
        story.policies.append(_WIDE)

    faults: dict[str, Fault] = {f"members:{step}": put(pol__dig=digest) for step in ("policy-1", "answer-1")}
    return faults | {"before:start": with_normal_form}


def _told_otherwise() -> dict[str, Fault]:
    """The first narrowing's record names another file; the second one is not recorded."""
    faults = _again("policy-1", "session-end", "evd")
    taken = faults["members:policy-1"]
    return faults | {"members:policy-1": lambda members: put(pol__fil=_ELSE)(taken(members))}


def _narrowed_to() -> dict[str, str]:
    """The profile of epoch 1, as ``pol`` names it."""
    return {
        "pol__dig": profile_digest(normal_form(1)),
        "pol__fil": sha256_name(PROFILES_FILE + b"1"),
    }


def _without_form(bundle: dict[str, Any]) -> dict[str, Any]:
    del bundle["policies"][sha256_name(normal_form(1))]
    return bundle


def _first_nonce(_: Any = None) -> str:
    return b64u(seeded("session nonce", 32))


VALID = (
    Case(
        _BASE,
        "A session whose profile is narrowed once: an event in RTMR3, a quote and a result of their own, a record.",
        told(script=narrowed),
        warnings=("rfs.accepted",),
    ),
    Case(
        _TWICE,
        "A session whose profile is narrowed twice, with an answer under each profile.",
        told(script=narrowed_twice),
        warnings=("rfs.accepted",),
        stored_from=_BASE,
    ),
    Case(
        "valid/narrowing-cut-off",
        "The gateway went on to the narrower profile; the supervisor died before its record of that.",
        told(script=cut_off),
        warnings=("pol.bound", "rfs.accepted", "session.close", "session.supervisor"),
        stored_from=_BASE,
    ),
    Case(
        "valid/narrowing-unrecorded",
        "The gateway went on to the narrower profile; the supervisor did not get its answer, and ended the session.",
        told(_again("session-boot", "session-end", "evd"), unrecorded),
        warnings=("pol.bound", "rfs.accepted"),
        stored_from=_BASE,
    ),
)

CASES = (
    _refused(
        "without-record",
        "The session's evidence changes, and no record says why.",
        {"skip:policy-1": WITHOUT},
        _EVIDENCE,
    ),
    _refused(
        "without-evidence",
        "A record of a narrowing, over the evidence of before.",
        _again("session-boot", "policy-1", "evd"),
        _EVIDENCE,
    ),
    _refused(
        "evidence-goes-back",
        "After the narrowing the supervisor names the evidence that it was admitted with.",
        _again("session-boot", "session-end", "evd"),
        _EVIDENCE,
    ),
    _refused(
        "another-keyset",
        "The quote of the narrowing is of another keyset.",
        {"document:session-statement-1": put(epoch_s=61)},
        _EVIDENCE,
    ),
    _refused(
        "same-nonce",
        "The quote of the narrowing is over the nonce of the admission.",
        {"document:session-statement-1": put(nonce=_first_nonce())},
        _EVIDENCE,
    ),
    _refused(
        "another-manifest",
        "The evidence of the narrowing carries another manifest.",
        {"manifest:1": lambda raw: raw.replace(b"host-usr", b"sha256:" + b"1" * 64)},
        _EVIDENCE,
    ),
    _refused(
        "event-without-record",
        "Two narrowings were extended, and one is recorded.",
        {"events:session-1": lambda events: [*events, events[-1]]},
        _EVENTS,
    ),
    _refused(
        "record-without-event",
        "A narrowing that the register does not hold.",
        {"events:session-1": lambda events: events[:-1]},
        _EVENTS,
    ),
    _refused(
        "before-the-start",
        "The register holds a narrowing when the session is admitted.",
        {
            "events:session": lambda events: [
                *events,
                {
                    "rtmr": 3,
                    "name": "affiant-policy",
                    "payload": {
                        "dig": profile_digest(normal_form(1)),
                        "epoch": 1,
                        "fil": _ELSE,
                        "old": profile_digest(POLICY),
                    },
                },
            ]
        },
        _EVENTS,
    ),
    _refused(
        "member-more",
        "What was extended has a member that no narrowing has.",
        {"narrowing:1": lambda event: {**event, "payload": {**event["payload"], "note": "more"}}},
        _EVENTS,
    ),
    _refused(
        "child-after-it",
        "A child inside the same TD follows the narrowing.",
        {"events:session-1": _more},
        _EVENTS,
    ),
    _refused(
        "another-profile",
        "Records name another profile than was extended, a wider one.",
        _swapped(),
        _EVENTS,
    ),
    _refused(
        "another-old",
        "The record says that another profile was replaced than was in force.",
        {"members:policy-1": put(old=profile_digest(_WIDE))},
        _ORDER,
    ),
    _refused(
        "wrong-epoch",
        "The first narrowing calls itself the second.",
        {"members:policy-1": put(pol__epoch=2)},
        _ORDER,
    ),
    _twice(
        "skipped-epoch",
        "The second narrowing calls itself the third.",
        {"members:policy-2": put(pol__epoch=3)},
        _ORDER,
    ),
    _twice(
        "profile-comes-back",
        "The second narrowing is to the profile of the start.",
        {"members:policy-2": put(pol__dig=profile_digest(POLICY))},
        _ORDER,
    ),
    _refused(
        "started-narrowed",
        "The start says that the session was admitted under the profile that it is narrowed to later.",
        {"members:start": put(pol__bind="rtmr3", pol__epoch=1, **_narrowed_to())},
        _POLICY | _PEER,
    ),
    _refused(
        "old-profile-after-it",
        "The supervisor's record is there, and the gateway decides by the profile before it.",
        _again("start", "answer-1", "pol.dig", "pol.fil", "pol.bind", "pol.epoch"),
        _POLICY | _PEER,
    ),
    _twice(
        "gateway-goes-back",
        "The gateway's last answer is of the epoch before, by profile, evidence and result.",
        _again("answer-1", "answer-2", "pol.dig", "pol.fil", "pol.epoch", "agt.evd", "att"),
        _POLICY | _PEER,
    ),
    _refused(
        "bound-in-mrconfigid",
        "A decision by the narrowed profile says that MRCONFIGID binds it.",
        {"members:answer-1": put(pol__bind="mrconfigid")},
        _POLICY,
    ),
    _refused(
        "evidence-of-before",
        "An answer under the narrowed profile names the evidence of before.",
        _again("start", "answer-1", "agt.evd"),
        _PEER,
    ),
    _refused(
        "result-of-before",
        "An answer under the narrowed profile rests on the result about the evidence of before.",
        _again("start", "answer-1", "att"),
        {"peer.ear": "peer.ear_mismatch"},
    ),
    _refused(
        "close-of-before",
        "The session's close names the evidence of before.",
        _again("start", "close", "agt.evd"),
        _PEER,
    ),
    _refused(
        "normal-form-missing",
        "The narrowed profile's normal form is not in the bundle.",
        {"bundle": _without_form},
        {},
        not_made=("bundle.objects", "pol.bound"),
    ),
    _refused(
        "cut-off-to-an-earlier-profile",
        "Of a session that was cut off: what was extended is no narrowing of the profile in force.",
        {
            "narrowing:1": lambda event: {
                **event,
                "payload": {**event["payload"], "old": profile_digest(_WIDE)},
            }
        },
        _ORDER,
        base="valid/narrowing-cut-off",
        script=cut_off,
    ),
    _refused(
        "decided-by-another-file",
        "The gateway's answer after it names another file than the supervisor's record.",
        {"members:answer-1": put(pol__fil=_ELSE)},
        _POLICY,
    ),
    _refused(
        "gateway-wavers",
        "Before the supervisor's record the gateway goes by the new profile, and then by the old one again.",
        _again("start", "answer-late", "pol.dig", "pol.fil", "pol.bind", "pol.epoch", "agt.evd", "att"),
        _POLICY | _PEER,
        script=wavering,
    ),
    _refused(
        "log-of-another-file",
        "The second narrowing is known from the event log alone, which tells the first otherwise than its record.",
        _told_otherwise(),
        _ORDER,
        script=twice_and_once_recorded,
    ),
)
