"""Defines the record kinds in one normative table for issuer, verifier and documentation.

Every record is an EAT (RFC 9711) with the profile ``tag:affiant.dev,2026:receipt/1``, or the same with
``/simulated`` where the evidence class is ``simulated``; the two agree or the record is refused. A kind or a
member that this table does not list is refused. What is sensitive stands only as a salted digest under ``_sd``
(RFC 9901); the number of those is fixed by the table, so that absence tells nothing.

``python -m affiant.attestation.schema.records_page`` prints the page ``docs/formats/records.md``, and
``python -m affiant.attestation.schema.records_json`` prints ``attestation/verifier-js/records.json``, for readers in
other languages.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

from affiant.attestation.schema.shapes import (
    Array,
    Const,
    Enum,
    Int,
    MapOf,
    Nullable,
    Obj,
    Pattern,
    Shape,
    Text,
)

__all__ = [
    "BEGINS",
    "CONCEALING",
    "ENDS",
    "ISOLATIONS",
    "KINDS",
    "PROFILES",
    "RELEASE",
    "TASK",
    "Kind",
    "common_members",
    "objects_with_digests",
    "shape_of",
]

PROFILES: Final[Mapping[str, str]] = {
    "hardware": "tag:affiant.dev,2026:receipt/1",
    "simulated": "tag:affiant.dev,2026:receipt/1/simulated",
}
"""Evidence class -> ``eat_profile``."""

RELEASE: Final = Pattern(r"20[0-9]{6}\.[0-9]{1,4}", "the date and number of a release of gVisor")
"""``20240729.0``; such releases are ordered by date and number."""

ISOLATIONS: Final = ("gvisor", "bwrap-landlock", "vm", "none")
"""Effective inner isolation, strongest of the process kinds first; ``vm`` is a whole virtual machine."""

BEGINS: Final = frozenset(("intent", "opened"))
"""Values of ``ph`` of what begins: a later record of :data:`ENDS` names it in ``par``."""
ENDS: Final = frozenset(("outcome", "closed", "failed", "aborted"))
TASK: Final = Obj({}, sd=4, hidden={"workflow": Text(), "task": Text(), "attempt": Int(), "parent": Text()})
"""What a session belongs to: salted by its starter, with the same digests in the activation and the start record."""

_ID: Final = Pattern(r"[A-Za-z0-9_-]{22}", "22 characters of base64url (16 bytes)")
_LINK: Final = Pattern(r"[A-Za-z0-9_-]{43}", "43 characters of base64url (32 bytes)")
_TARGET: Final = Pattern("[A-Za-z0-9_-]{22}|[A-Za-z0-9_-]{43}", "a session's id or a receipt hash")
_SHA256: Final = Pattern(r"sha256:[0-9a-f]{64}", "`sha256:` and 64 hexadecimal digits")
_SHA384: Final = Pattern(r"sha384:[0-9a-f]{96}", "`sha384:` and 96 hexadecimal digits")
_CODE: Final = Pattern(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*", "a stable code")
_TIER: Final = Enum(("affirming", "warning", "contraindicated", "none"))
_HOST: Final = Text(255)

_TRACE: Final = Obj({"t": Pattern("[0-9a-f]{32}", "32 hex"), "s": Pattern("[0-9a-f]{16}", "16 hex")})
_HEAD: Final = Obj({"chn": _ID, "seq": Int(), "rh": _LINK})
_AGT: Final = Obj(
    {"ses": _ID, "evd": _LINK, "key": _LINK, "bind": Enum(("pop", "bearer")), "iso": Enum(ISOLATIONS)},
    {"seq": Int(), "cseq": Int(), "par": _ID, "fork": _SHA256},
    sd=3,
    hidden={"id": Text(), "user": Text(), "ten": Text()},
)
_POL: Final = Obj(
    {
        "dec": Enum(("allow", "deny", "redact", "ask")),
        "dig": _SHA384,
        "fil": _SHA256,
        "bind": Enum(("mrconfigid", "rtmr3", "gateway-only")),
        "epoch": Int(),
    },
    sd=2,
    hidden={"id": Text(), "rules": Array(Text(), most=256)},
)
_REQ: Final = Obj(
    {"m": Pattern("[A-Z]{1,16}", "an HTTP method"), "p": Text(256)},
    {"hdr": MapOf("[a-z][a-z0-9-]{0,63}", Text(1024), most=8)},  # what of its headers was forwarded, if any
    sd=3,
    hidden={"dig": _SHA256, "fwd": _SHA256, "len": Int()},
)
_RES: Final = Obj(
    {
        "st": Int(0, 999),
        "end": Enum(("complete", "client_abort", "upstream_abort", "policy_stop", "gateway_error")),
    },
    sd=4,
    hidden={"dig": _SHA256, "len": Int(), "evs": Int(), "evr": _LINK},
)
_MDL: Final = Obj(
    {"id": Text()},
    # ``id`` was asked for; ``ans`` is what the answer names, null where it names none. Older records lack it.
    {"dig": _SHA256, "ans": Nullable(Text())},
    sd=1,
    # No name begins with `_`: `_sd` in a disclosed value would be digests of its own to every reader of SD-JWTs.
    hidden={"prm": MapOf("[a-z][a-z_]{0,39}", Text(64), most=16)},
)
_FET: Final = Obj({}, sd=1, hidden={"tgt": Array(Text(2048), least=1, most=32)})
"""What the request asks the upstream to fetch: each a method and an address."""
_ACT: Final = Obj(
    {"typ": Enum(("tool", "secret", "egress", "approval", "exec", "inference", "session", "file", "port"))},
    {"end": Enum(("complete", "refused", "failed", "aborted"))},
    sd=5,
    hidden={"name": Text(), "arg": _SHA256, "out": _SHA256, "tgt": Text(2048), "spki": _SHA256},
)
_USE: Final = Obj({}, sd=2, hidden={"in": Int(), "out": Int()})
_SEC: Final = Array(Obj({"ver": Text(64)}, sd=2, hidden={"ref": Text(), "rule": Text()}), least=1)
_APR: Final = Obj({"dig": _SHA256, "kid": _LINK, "sig": Text(1024), "exp": Int(), "via": Text(32)})
_ATT: Final = MapOf("ses|ups|gw", Obj({"ear": _LINK, "tier": _TIER}), most=3)
_UP: Final = Array(
    Obj(
        {"id": Text(), "host": _HOST, "bind": Enum(("attested", "tls", "none")), "res": _CODE},
        {"spki": _SHA256},
    ),
    most=8,
)
_SNP: Final = Obj({"dig": _SHA256, "kind": Text(32), "carrier": Text(32)})
_PHASE: Final = Enum(("intent", "outcome"))
_MOV: Final = Obj(
    {"dir": Enum(("in", "out", "removed"))},
    sd=4,
    # ``path``: in the sandbox. ``dig``: of the tree. ``n``: its files. ``len``: their bytes.
    hidden={"path": Text(2048), "dig": _SHA256, "n": Int(), "len": Int()},
)
"""What one call moves into or out of the sandbox, or removes there."""
_PRT: Final = Obj({}, sd=3, hidden={"num": Int(1, 65535), "in": Int(), "out": Int()})
"""A port of the agent's that is reached through the supervisor; bytes ``in`` to the agent and ``out`` of it."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One row: the leaf code in the log, who may sign it, and its members beside the common ones."""

    leaf: int
    signers: frozenset[str]
    required: Mapping[str, Shape]
    optional: Mapping[str, Shape]
    of_session: bool
    """Whether the record carries ``agt`` (required, except in a refusal before any session is known)."""


def _kind(
    leaf: int,
    signers: str,
    required: Mapping[str, Shape],
    optional: Mapping[str, Shape] | None = None,
    *,
    of_session: bool = True,
) -> Kind:
    return Kind(leaf, frozenset(signers.split()), required, optional or {}, of_session)


CONCEALING: Final[Mapping[str, Obj]] = {
    "agt": _AGT,
    "pol": _POL,
    "req": _REQ,
    "res": _RES,
    "mdl": _MDL,
    "fet": _FET,
    "act": _ACT,
    "use": _USE,
    "mov": _MOV,
    "prt": _PRT,
    "tsk": TASK,
}
"""The members that hold hidden values in objects of one shape."""

KINDS: Final[Mapping[str, Kind]] = {
    "boot": _kind(
        1, "gateway session", {"ks": _LINK, "bld": _SHA256}, {"gks": _LINK, "col": _LINK}, of_session=False
    ),
    "inference": _kind(
        2,
        "gateway",
        {"req": _REQ, "res": _RES, "mdl": _MDL, "use": _USE, "pol": _POL, "up": _UP, "att": _ATT},
        {"fet": _FET},  # older records lack it
    ),
    "refusal": _kind(
        3, "gateway session", {"rsn": _CODE}, {"pol": _POL, "act": _ACT, "req": _REQ, "res": _RES}
    ),
    "tool": _kind(4, "gateway session", {"act": _ACT, "pol": _POL}, {"apr": _APR, "sec": _SEC, "ph": _PHASE}),
    "secret": _kind(5, "session", {"act": _ACT, "pol": _POL, "sec": _SEC}),
    "egress": _kind(6, "session", {"act": _ACT, "pol": _POL, "ph": _PHASE}, {"apr": _APR, "sec": _SEC}),
    "approval": _kind(7, "gateway", {"act": _ACT, "pol": _POL, "apr": _APR}),
    "epoch": _kind(
        8,
        "gateway session",
        {"n": Int(), "inf": Int()},
        {"cp": _LINK, "cps": Int(), "col": _LINK},
        of_session=False,
    ),
    "end": _kind(
        9,
        "gateway session",
        {"why": Enum(("shutdown", "drain", "rotate"))},
        {"cseq": Int(-1)},
        of_session=False,
    ),
    "erasure": _kind(
        10,
        "gateway",
        {
            "del": Array(
                Obj(
                    {"chn": _ID, "seq": Int(), "rh": _LINK, "lvl": Int(1, 3), "basis": Text()},
                    # Level 3: a chain, from 0 to this, its last record; ``agt`` of a session's names the session alone.
                    # Of a session's record: which, and of the gateway's its number there. Its JWS said so, and is gone.
                    {"agt": Obj({"ses": _ID}, {"seq": Int()})},
                ),
                least=1,
            ),
            "aut": Text(2048),
        },
        of_session=False,
    ),
    "session-start": _kind(
        11,
        "gateway",
        {
            "pol": _POL,
            "att": _ATT,
            "man": Obj({"man": _LINK, "act": _LINK}),
            "ini": Obj({"iss": Text(), "method": Text(32)}, sd=1, hidden={"sub": Text()}),
            "iso": Enum(ISOLATIONS),
            "rfs": Pattern("host-usr|sha256:[0-9a-f]{64}", "`host-usr` or a SHA-256 name"),
        },
        {"inp": _SHA256, "rel": RELEASE, "tsk": TASK},
    ),
    "session-close": _kind(
        12,
        "gateway",
        {
            "out": MapOf(r"[a-z-]+(\.[a-z_]+)?", Int(), most=128),
            "n": Int(),
            "head": _HEAD,
            "root": _LINK,
            "sup": Obj({"chn": _ID, "seq": Int(), "rh": _LINK, "end": Int(0, 1)}),
            "why": Enum(("done", "lease", "lost", "killed", "policy")),
        },
    ),
    "snapshot": _kind(13, "session", {"snp": _SNP}),
    "fork": _kind(14, "session", {"snp": _SNP, "chd": _ID, "pol": _POL}),
    "handoff": _kind(
        15,
        "session",
        {"typ": Enum(("share", "fork", "artifact")), "to": _ID, "art": Array(_SHA256)},
    ),
    "policy": _kind(16, "session", {"pol": _POL, "old": _SHA384, "dif": _SHA256}),
    "gap": _kind(17, "gateway session", {"lst": _HEAD, "src": Const("untrusted-store")}, of_session=False),
    "hold": _kind(
        18, "gateway", {"tgt": _TARGET, "basis": Text(), "aut": Text(2048)}, {"rel": _LINK}, of_session=False
    ),
    "exec": _kind(19, "session", {"act": _ACT, "iso": Enum(ISOLATIONS), "ph": _PHASE}),
    # Itself an intent, acknowledged before the first byte moves. It counts for the whole call, unless a second record
    # names it in ``par`` and says that the call failed or was aborted, and how much had moved, where that is known.
    "file": _kind(20, "session", {"mov": _MOV}, {"ph": Enum(("failed", "aborted"))}),
    "port": _kind(21, "session", {"prt": _PRT, "ph": Enum(("opened", "closed"))}),
}
"""Kind -> row. Members of every record, and ``agt`` and ``peer`` of a session's, are added by :func:`shape_of`."""


def common_members(kind: str, role: str, cls: str) -> dict[str, Shape]:
    """The members that every record has."""
    return {
        "eat_profile": Const(PROFILES[cls]),
        "iss": Text(),
        "jti": _ID,
        "iat": Int(),
        "kind": Const(kind),
        "cls": Const(cls),
        "role": Const(role),
        "chn": _ID,
        "seq": Int(),
        "prev": _LINK,
        "evd": _LINK,
    }


@cache
def shape_of(kind: str, *, role: str, cls: str) -> Obj:
    """The closed shape of one kind's payload, for a signer's role and an evidence class; made once.

    Raises:
        KeyError: no such kind or class; the caller refuses the record.
    """
    row = KINDS[kind]
    required = {**common_members(kind, role, cls), **row.required}
    optional: dict[str, Shape] = {
        "eat_nonce": _LINK,
        "par": Array(_ID, least=1, most=16),
        "lim": Array(_CODE, least=1, most=16),
        "ext": MapOf(r"[a-z][a-z0-9+.-]*:[\x21-\x7e]{1,200}", Text(1024), most=8),
        **row.optional,
    }
    sd, hidden = 0, {}
    if row.of_session:
        (optional if kind == "refusal" else required)["agt"] = _AGT
        optional["peer"] = _HEAD
        sd, hidden = 1, {"trc": _TRACE}
    if row.of_session or any(_has_digests(shape) for shape in [*required.values(), *optional.values()]):
        required["_sd_alg"] = Const("sha-256")
    return Obj(required, optional, sd=sd, hidden=hidden)


def _has_digests(shape: Shape) -> bool:
    return isinstance(shape, Obj) and bool(shape.sd)


def objects_with_digests(
    payload: Mapping[str, object], shape: Obj, where: str = ""
) -> list[tuple[str, dict[str, object], Obj]]:
    """Every object in ``payload`` that carries ``_sd``: its path, itself and its shape, depth first."""
    found: list[tuple[str, dict[str, object], Obj]] = []
    if shape.sd and isinstance(payload, dict):
        found.append((where, payload, shape))
    for name, value in payload.items():
        inner = shape.concealing.get(name)
        if inner is None:
            continue
        path = f"{where}.{name}" if where else name
        if isinstance(inner, Obj) and isinstance(value, dict):
            found.extend(objects_with_digests(value, inner, path))
        elif isinstance(inner, Array) and isinstance(inner.item, Obj) and isinstance(value, list):
            for index, item in enumerate(value):
                found.extend(objects_with_digests(item, inner.item, f"{path}[{index}]"))
    return found
