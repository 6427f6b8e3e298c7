"""Class *anchor*: who says by when a checkpoint existed, and for which records that counts.

The trust file names one timestamp authority. An authority that it does not name vouches for nothing; everything else
that is wrong with an anchor is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from vectors.making.anchors import Script, stamped
from vectors.making.case import Case, told
from vectors.making.documents import START
from vectors.making.faults import Fault, put
from vectors.making.timestamps import CODE_SIGNING, STAMPED, message, response
from vectors.making.trust import STAMPED as BOTH
from vectors.making.trust import STAMPED_ONLY
from vectors.making.witnesses import EARLY, LATE, cosigned, witnessed_session

__all__ = ["CASES"]

_BASE = "valid/stamped"
_WITNESSED = "valid/witnessed"
_NOTES: Mapping[str, Fault] = {"epoch-note": cosigned(EARLY), "note": cosigned(LATE)}
_YEAR = 365 * 86400


def _made(script: Script, faults: Mapping[str, Fault] | None = None) -> Any:
    return told({**_NOTES, **(faults or {})}, script)


def _dated(at: int) -> Callable[[str], Sequence[bytes]]:
    return lambda text: [response(message(text), at)]


def _renewed(text: str) -> Sequence[bytes]:
    first = response(message(text))
    return [first, response(message(text, [first]), STAMPED + _YEAR)]


def _renewed_without_the_first(text: str) -> Sequence[bytes]:
    return [response(message(text)), response(message(text), STAMPED + _YEAR)]


def _renewed_before(text: str) -> Sequence[bytes]:
    first = response(message(text))
    return [first, response(message(text, [first]), STAMPED - 60)]


def _of(text: str, **how: Any) -> Sequence[bytes]:
    return [response(message(text), **how)]


def _refused(reason: str) -> dict[str, str]:
    return {"time.tsa": reason}


def _with_more(bundle: dict[str, Any]) -> dict[str, Any]:
    put(authority="anybody")(bundle["anchors"]["tsr"][0])
    return bundle


def _padded(bundle: dict[str, Any]) -> dict[str, Any]:
    bundle["anchors"]["tsr"][0]["tokens"][0] += "="
    return bundle


CASES: tuple[Case, ...] = (
    Case(
        _BASE,
        "Witnesses cosigned the log, and an authority stamped the checkpoint of its proofs.",
        _made(stamped()),
        trust=BOTH,
        warnings=("rfs.accepted", "time.bracket"),
        stored_from=_WITNESSED,
    ),
    *(
        Case(f"valid/{name}", about, make, trust=trust, warnings=warnings, stored_from=_WITNESSED)
        for name, about, make, trust, warnings in (
            (
                "stamped-alone",
                "Nobody cosigned: the authority alone says by when; L3 is not reached.",
                told(script=stamped()),
                STAMPED_ONLY,
                ("rfs.accepted",),
            ),
            (
                "stamped-larger",
                "The stamped checkpoint has five leaves more, and is shown to be of one tree with that of the proofs.",
                _made(stamped(more=5)),
                BOTH,
                ("rfs.accepted", "time.bracket"),
            ),
            (
                "stamped-smaller",
                "The stamped checkpoint lacks the last two records: those have no token.",
                _made(stamped(fewer=2)),
                BOTH,
                ("rfs.accepted", "time.bracket", "time.tsa"),
            ),
            (
                "stamp-renewed",
                "A second token stamps the checkpoint and the first token, a year later.",
                _made(stamped(tokens=_renewed)),
                BOTH,
                ("rfs.accepted", "time.bracket"),
            ),
        )
    ),
    *(
        Case(f"anchor/{name}", about, make, _BASE, refused=refused, not_made=not_made, trust=trust)
        for name, about, make, trust, refused, not_made in (
            (
                "wrong-imprint",
                "A true token, over another checkpoint's text.",
                _made(stamped(tokens=lambda text: _of(text.replace("\n", "0\n", 1)))),
                BOTH,
                _refused("anchor.imprint"),
                (),
            ),
            (
                "whole-note",
                "A token over the whole note, where its text alone is stamped.",
                _made(stamped(tokens=lambda text: _of(f"{text}\n"))),
                BOTH,
                _refused("anchor.imprint"),
                (),
            ),
            (
                "expired",
                "The authority's certificate had ended a day before the time that the token names.",
                _made(stamped(tokens=lambda text: _of(text, ends=START - 86400))),
                BOTH,
                _refused("anchor.expired"),
                (),
            ),
            (
                "untrusted",
                "An authority that the trust file does not name.",
                _made(stamped(tokens=lambda text: _of(text, label="another"))),
                BOTH,
                _refused("anchor.untrusted"),
                (),
            ),
            (
                "other-root",
                "The trust file names another authority.",
                told(script=stamped()),
                "trust-authority-other.json",
                _refused("anchor.untrusted"),
                (),
            ),
            (
                "revoked",
                "The authority was revoked before the instant judged at, and nothing renewed its token before.",
                told(script=stamped()),
                "trust-authority-revoked.json",
                _refused("anchor.untrusted"),
                (),
            ),
            (
                "other-policy",
                "Stamped under another policy than the one that the trust file pins.",
                told(script=stamped()),
                "trust-authority-policy.json",
                _refused("anchor.policy"),
                (),
            ),
            (
                "other-purpose",
                "Signed with a certificate of the same authority that is for code.",
                _made(stamped(tokens=lambda text: _of(text, purpose=CODE_SIGNING))),
                BOTH,
                _refused("anchor.purpose"),
                (),
            ),
            (
                "other-certificate-named",
                "The signed attributes name another certificate than the signer's.",
                _made(stamped(tokens=lambda text: _of(text, names_itself=False))),
                BOTH,
                _refused("anchor.purpose"),
                (),
            ),
            (
                "truncated",
                "A token without its last byte.",
                _made(stamped(tokens=lambda text: [_of(text)[0][:-1]])),
                BOTH,
                _refused("anchor.token"),
                (),
            ),
            (
                "changed",
                "One bit of the signature.",
                _made(stamped(tokens=lambda text: [_of(text)[0][:-1] + bytes((_of(text)[0][-1] ^ 1,))])),
                BOTH,
                _refused("anchor.untrusted"),
                (),
            ),
            (
                "foreign-log",
                "A checkpoint of another log, signed by that log.",
                _made(stamped(origin="elsewhere.invalid", key="elsewhere")),
                BOTH,
                _refused("anchor.foreign_log"),
                (),
            ),
            (
                "not-signed-by-the-log",
                "A checkpoint in the log's name, with another key's signature.",
                _made(stamped(key="somebody")),
                BOTH,
                _refused("note.signature"),
                (),
            ),
            (
                "other-tree",
                "The log signed another root over the same number of leaves.",
                _made(stamped(root=bytes(32))),
                BOTH,
                _refused("anchor.unproven"),
                (),
            ),
            (
                "no-consistency",
                "A larger checkpoint without the proof that it is of one tree with that of the proofs.",
                _made(stamped(more=5, path=())),
                BOTH,
                _refused("anchor.unproven"),
                (),
            ),
            (
                "not-covering",
                "The checkpoint of the empty tree: it has none of the records.",
                _made(stamped(fewer=9, path=())),
                BOTH,
                _refused("anchor.not_covering"),
                (),
            ),
            (
                "before-the-bracket",
                "The token says that the records existed before witnesses saw what they follow.",
                _made(stamped(tokens=_dated(START - 3600))),
                BOTH,
                _refused("time.empty"),
                (),
            ),
            (
                "dated-after",
                "The records are dated an hour after a token that covers them; nobody cosigned.",
                told(script=stamped(tokens=_dated(START - 3600))),
                STAMPED_ONLY,
                _refused("time.outside"),
                (),
            ),
            (
                "renewal-of-nothing",
                "A second token that stamps the checkpoint alone, and not the token before it.",
                _made(stamped(tokens=_renewed_without_the_first)),
                BOTH,
                _refused("anchor.imprint"),
                (),
            ),
            (
                "renewal-before",
                "A renewal that is a minute older than what it renews.",
                _made(stamped(tokens=_renewed_before)),
                BOTH,
                _refused("anchor.order"),
                (),
            ),
            (
                "checkpoint-missing",
                "The checkpoint that the anchor names is not in the bundle.",
                _made(stamped(kept=False)),
                BOTH,
                {},
                ("time.tsa",),
            ),
            (
                "no-token",
                "The trust file asks for a token, and the bundle has none.",
                _made(witnessed_session),
                BOTH,
                {},
                ("time.tsa",),
            ),
            (
                "member-more",
                "An anchor with a member that the form does not list.",
                _made(stamped(), {"bundle": _with_more}),
                BOTH,
                {"fmt.bundle": "bundle.malformed"},
                (),
            ),
            (
                "padded",
                "A token in another spelling of base64url.",
                _made(stamped(), {"bundle": _padded}),
                BOTH,
                {"fmt.bundle": "bundle.malformed"},
                (),
            ),
        )
    ),
)
