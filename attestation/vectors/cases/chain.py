"""Class *chain*: whole, linked, booted, in rhythm, with nothing after an end."""

from __future__ import annotations

import json
from typing import Any

from vectors.cases.edits import WITHOUT, one
from vectors.making.documents import BUILD, evidence, identifier
from vectors.making.encoding import b64u, canonical, from_b64u, link, sha256_name
from vectors.making.faults import put
from vectors.making.keys import jwk, p256_key, thumbprint
from vectors.making.platform import Platform
from vectors.making.records import Party
from vectors.making.scripts import CHAT, boot, close, end, inference, open_session, start
from vectors.making.stories import epochs
from vectors.making.story import Story

__all__ = ["CASES"]

_GAP = {"chain.contiguous": "chain.gap"}
_NO_BOOT = {"chain.boot": "chain.no_boot"}
_OTHER = link(b"another record")
_RHYTHM: dict[str, Any] = {"base": "valid/epochs", "script": epochs}


def _second_boot(story: Story) -> None:
    keyset = story.gateway.keyset_digest
    story.gateway_says("boot-again", "boot", {"bld": BUILD, "col": story.col, "ks": keyset})


def _late(story: Story) -> None:
    story.gateway_says("late", "epoch", {"inf": 0, "n": story.gateway.records[-1].payload["seq"] + 1})


def _late_of_session(story: Story) -> None:
    told = story.sessions["session"]
    count = told.supervisor.records[-1].payload["seq"] + 1
    story.supervisor_says(told, "late", "epoch", {"inf": 0, "n": count})


def _erasure(story: Story) -> None:
    lost = {"basis": "an order", "chn": identifier("elsewhere"), "lvl": 2, "rh": _OTHER, "seq": 3}
    story.gateway_says("erasure", "erasure", {"aut": "nobody's signature", "del": [lost]})


def _hold(story: Story) -> None:
    story.gateway_says(
        "hold", "hold", {"aut": "nobody's signature", "basis": "a case", "tgt": identifier("session id")}
    )


def _handed_over(story: Story) -> None:
    members = {"typ": "artifact", "to": "A" * 22, "art": ["sha256:" + "1" * 64]}
    story.supervisor_says(story.sessions["session"], "handed-over", "handoff", members)


def fork(story: Story) -> None:
    """The gateway signs two records of one number over one record before: two stories for two readers."""
    boot(story)
    told = start(story)
    story.issue(story.gateway, "epoch-told-to-one", "epoch", {"inf": 0, "n": 2}, {})
    story.gateway.records.pop()
    story.issue(story.gateway, "epoch-told-to-another", "epoch", {"inf": 1, "n": 2}, {})
    inference(story, told)
    end(story, told)
    close(story, told)


def exchanged(story: Story) -> None:
    """Two records whose numbers were exchanged."""
    open_session(story)
    told = story.sessions["session"]
    story.gateway_says("epoch-a", "epoch", {"inf": 0, "n": 4})
    story.gateway_says("epoch-b", "epoch", {"inf": 0, "n": 3})
    end(story, told)


def _same_chain(statement: dict[str, Any]) -> dict[str, Any]:
    statement["chn"] = [identifier("gateway chain")]
    return statement


def _claimed_again(bundle: dict[str, Any]) -> dict[str, Any]:
    statements = [json.loads(from_b64u(text)) for text in bundle["keysets"].values()]
    own = next(statement for statement in statements if statement["role"] == "gateway")
    raw = canonical(own | {"chn": [identifier("another chain")], "not_after": 2**40})
    bundle["keysets"][sha256_name(raw)] = b64u(raw)
    return bundle


def _second_supervisor(story: Story) -> None:
    """Whoever makes a key says that it is the session's too; the quote is of a platform that nobody accepts."""
    told = story.sessions["session"]
    key = p256_key("a second supervisor")
    statement = told.supervisor.statement | {
        "chn": [identifier("a second supervisor's chain")],
        "keys": [{"jwk": jwk(key), "kid": thumbprint(key), "use": "session"}],
    }
    raw = canonical(statement)
    own, story.platform = story.platform, Platform(label="own")
    parts = story.quoted("session", "second", bytes(48), [], raw)
    story.platform = own
    parts |= {"manifest": told.manifest_raw, "activation": told.activation_raw}
    forger = Party("second", "session", key, statement, raw, evidence(parts))
    story.parties.append(forger)
    keysets = {"gks": story.gateway.keyset_digest, "ks": forger.keyset_digest}
    story.issue(forger, "second-boot", "boot", {"bld": BUILD, **keysets}, {})
    members = {
        "agt": story.agent(told) | {"key": thumbprint(key), "evd": forger.evd},
        "peer": told.gateway_records[-1].head,
        "req": dict(CHAT),
        "res": {"end": "complete", "st": 200},
        "rsn": "made.up",
    }
    hidden = {"req": {"dig": sha256_name(FORGED[0])}, "res": {"dig": sha256_name(FORGED[1])}}
    story.issue(forger, "second-refusal", "refusal", members, hidden)


FORGED = (b'{"model":"forged"}', b'{"forged":true}')


def _renamed(members: dict[str, Any]) -> dict[str, Any]:
    members["prev"] = _OTHER
    return members


CASES = (
    one(
        "chain/gap",
        "A record is left out: a number is missing.",
        {"withhold:gateway-epoch-2": WITHOUT},
        _GAP,
        **_RHYTHM,
    ),
    one(
        "chain/gap-of-session",
        "A record of the supervisor's is left out.",
        {"withhold:session-epoch-1": WITHOUT},
        _GAP,
        **_RHYTHM,
    ),
    one(
        "chain/gap-renumbered",
        "A record is left out and the later ones are numbered on; the link still names the one that is missing.",
        {"withhold:gateway-epoch-2": WITHOUT, "members:gateway-epoch-3": put(seq=4, n=4)},
        _GAP,
        **_RHYTHM,
    ),
    one(
        "chain/duplicate-number",
        "One number in two records.",
        {"members:gateway-epoch-3": put(seq=4)},
        _GAP,
        **_RHYTHM,
    ),
    one("chain/fork", "Two records of one number over one record before.", {}, _GAP, script=fork),
    one(
        "chain/wrong-link",
        "`prev` names another record.",
        {"members:gateway-epoch-2": _renamed},
        _GAP,
        **_RHYTHM,
    ),
    one(
        "chain/exchanged",
        "Two records have each other's number.",
        {"members:epoch-a": put(seq=4), "members:epoch-b": put(seq=3)},
        _GAP,
        base="valid/open",
        script=exchanged,
    ),
    one(
        "chain/gap-not-after-boot",
        "A stretch is left out that does not begin right after the boot record.",
        {"withhold:gateway-epoch-2": WITHOUT, "withhold:gateway-epoch-3": WITHOUT},
        _GAP,
        **_RHYTHM,
    ),
    one(
        "chain/no-boot",
        "The boot record is left out.",
        {"withhold:gateway-boot": WITHOUT},
        _NO_BOOT,
        not_made=("tee.appraisal",),
    ),
    one(
        "chain/boot-of-another-keyset",
        "The boot record names another keyset.",
        {"members:gateway-boot": put(ks=_OTHER)},
        _NO_BOOT,
    ),
    one(
        "chain/boot-linked-elsewhere",
        "`prev` of the first record is not the keyset digest.",
        {"members:gateway-boot": put(prev=_OTHER)},
        _NO_BOOT,
    ),
    one(
        "chain/boot-twice",
        "A second boot record in one chain.",
        {"before:close": _second_boot},
        _NO_BOOT,
    ),
    one(
        "chain/after-end",
        "A record after the gateway's end.",
        {"before:after-end": _late},
        {"chain.end": "chain.after_end"},
        **_RHYTHM,
    ),
    one(
        "chain/after-end-of-session",
        "A record after the supervisor's end.",
        {"before:close": _late_of_session},
        {"chain.end": "chain.after_end"},
    ),
    one(
        "chain/reused",
        "Two keysets claim one chain.",
        {"document:session-statement": _same_chain},
        {"fmt.keysets": "chain.broken"},
    ),
    one(
        "chain/one-key-in-two-keysets",
        "A second keyset claims the gateway's key, for another chain and a longer time.",
        {"bundle": _claimed_again},
        {"fmt.keysets": "chain.broken"},
    ),
    one(
        "chain/second-keyset-of-a-session",
        "A second keyset of the same session, its quote forged, with a record that commits to bodies that nobody sent.",
        {"before:finis": _second_supervisor},
        {"fmt.keysets": "chain.broken"},
        request=FORGED[0],
        response=FORGED[1],
    ),
    one(
        "chain/missing-epoch",
        "Three minutes without an epoch record.",
        {
            "skip:gateway-epoch-1": WITHOUT,
            "skip:gateway-epoch-2": WITHOUT,
            "members:gateway-epoch-3": put(n=3),
        },
        {"chain.epochs": "chain.missing_epoch"},
        **_RHYTHM,
    ),
    one(
        "chain/epoch-counts-other-records",
        "An epoch record counts one record more than there are.",
        {"members:gateway-epoch-3": put(n=6)},
        {"chain.epochs": "chain.missing_epoch"},
        **_RHYTHM,
    ),
    one(
        "chain/time-goes-back",
        "A record is dated ten minutes before the one that it follows.",
        {"time:close": lambda now: now - 600},
        {"chain.time": "chain.time"},
    ),
    one(
        "chain/time-to-come",
        "Records are dated after the instant judged at.",
        None,
        {"chain.time": "chain.time"},
        at="2026-11-21T11:30:00Z",
    ),
    one(
        "chain/repeated-id",
        "Two records have one id.",
        {"members:close": put(jti=identifier("gateway inference jti"))},
        {"chain.ids": "chain.repeated_id"},
    ),
    one(
        "chain/erasure-without-authority",
        "An erasure that nobody who may has signed.",
        {"before:close": _erasure},
        {"erasure.authority": "chain.gap"},
    ),
    one(
        "chain/hold-without-authority",
        "A legal hold that nobody who may has signed.",
        {"before:close": _hold},
        {"erasure.authority": "chain.gap"},
    ),
    one(
        "chain/kind-that-is-not-judged",
        "A handoff: a kind that is in the profile and that this version does not judge.",
        {"before:session-end": _handed_over},
        {},
        not_made=("kinds.judged",),
    ),
)
