"""Reads and writes what a session TD is launched for: the template manifest, its initdata, the activation, the RTMR3
events.

The **template manifest** names what is the same for every session of its kind: profile digest, supervisor,
root file system, isolation floor, the gateway it will trust, proxy trust roots. It is carried in one fixed
**initdata** document, which gateway and offline verifier regenerate and compare byte for byte;
MRCONFIGID = SHA-384(initdata bytes), 48 bytes, no padding.

What is this session's own is the **activation**: exactly one ``affiant-activate`` event in RTMR3. The events and
their order are fixed (:func:`session_events`); ``affiant-ready`` is the barrier.

Source: TDX specification, "Bindings (normative)".
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Final

from affiant.attestation.encoding.binary_text import b64u_sha256, sha256_name
from affiant.attestation.encoding.canonical import canonical, parse_canonical
from affiant.attestation.schema.records import ISOLATIONS, RELEASE, TASK
from affiant.attestation.schema.shapes import (
    Array,
    Const,
    Enum,
    Int,
    MapOf,
    Nullable,
    Obj,
    Pattern,
    ShapeMismatch,
    Text,
)

__all__ = [
    "Activation",
    "GatewayIdentity",
    "Manifest",
    "agent_commitment",
    "initdata",
    "make_activation",
    "make_manifest",
    "mrconfigid",
    "parse_activation",
    "parse_manifest",
    "reaches_floor",
    "release_order",
    "session_events",
    "vault_authority",
]

_ID: Final = Pattern(r"[A-Za-z0-9_-]{22}", "22 characters of base64url")
_LINK: Final = Pattern(r"[A-Za-z0-9_-]{43}", "43 characters of base64url")
_SHA256: Final = Pattern("sha256:[0-9a-f]{64}", "a SHA-256 name")
_SHA384: Final = Pattern("sha384:[0-9a-f]{96}", "a SHA-384 name")
_HOST: Final = r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?"


_STRENGTH: Final[Mapping[str, int]] = {"none": 0, "bwrap-landlock": 1, "gvisor": 2, "vm": 3}
_FLOORS: Final[Mapping[str, int]] = {"namespace": 1, "userspace-kernel": 2}


_MANIFEST: Final = Obj(
    {
        "typ": Const("affiant-manifest/1"),
        "cls": Enum(("hardware", "simulated")),
        "profile": Obj({"dig": _SHA384, "fil": _SHA256}),
        "supervisor": _SHA256,
        "rootfs": Pattern("host-usr|sha256:[0-9a-f]{64}", "`host-usr` or a SHA-256 name"),
        "runtime": Nullable(_SHA256),
        "isolation_floor": Enum(("userspace-kernel", "namespace")),
        "gateway": Obj(
            {
                "origin": Text(),
                "reference": _SHA256,
                "config": _SHA256,
                "cls": Enum(("hardware", "simulated")),
            }
        ),
        "vault": Nullable(Obj({"address": Text(), "ca": _SHA256})),
        "hosts": MapOf(_HOST, Array(Text(64), least=1, most=8)),
        "upstream_roots": Array(_SHA256, most=16),
    }
)
_ACTIVATION: Final = Obj(
    {
        "typ": Const("affiant-activation/1"),
        "ses": _ID,
        "agent": _LINK,
        "inp": Nullable(_SHA256),
        "iso": Enum(ISOLATIONS),
        "challenge": _LINK,
        "exp": Int(),
        "starter": Obj({"iss": Text(), "method": Text(32), "sub": _LINK}),
        "openings": Nullable(_LINK),
    },
    {"rel": RELEASE, "task": TASK},
)

_POLICY_REGO: Final = """package agent_policy
default AllowRequestsFailingPolicy := false
default CreateContainerRequest := true
default StartContainerRequest := true
default ExecProcessRequest := false
default CopyFileRequest := false
default ReadStreamRequest := false
default WriteStreamRequest := false
"""
"""Confidential Containers agent policy of every session: no exec, copy or stream from the host."""


@dataclass(frozen=True, slots=True)
class GatewayIdentity:
    """The only gateway a session will talk to, by what is measured of it."""

    origin: str
    """The transparency log that it writes."""
    reference: str
    """``sha256:`` of the reference values document that its quote is appraised against."""
    config: str
    """``sha256:`` of its configuration document."""
    cls: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """A template manifest in its closed form."""

    raw: bytes
    cls: str
    profile_digest: str
    file_digest: str
    supervisor: str
    rootfs: str
    runtime: str | None
    isolation_floor: str
    gateway: GatewayIdentity
    vault: Mapping[str, str] | None
    hosts: Mapping[str, tuple[str, ...]]
    """Private hosts: name -> addresses or networks that the proxy may dial for it."""
    upstream_roots: tuple[str, ...]
    """SHA-256 names of the DER certificates that the proxy trusts beside the system's."""

    @property
    def digest(self) -> str:
        """43 characters: what statements and ``session-start`` call ``man``."""
        return b64u_sha256(self.raw)


@dataclass(frozen=True, slots=True)
class Activation:
    """What binds a launched TD to one session, once."""

    raw: bytes
    session: str
    agent: str
    """Salted commitment to the agent's name: :func:`agent_commitment`."""
    input_digest: str | None
    isolation: str
    """What isolates the agent inside, as receipts name it: the supervisor starts nothing else."""
    challenge: str
    expires: int
    """Seconds since 1970, UTC."""
    starter: Mapping[str, str]
    """``iss``, ``method``, and a salted commitment ``sub``."""
    openings: str | None
    """X25519 public key (43 characters) of whoever started the session: disclosures are sealed to it."""
    release: str | None = None
    """Which release isolates: gVisor's, if that is what isolates and it says its release."""
    task: tuple[str, ...] | None = None
    """Salted digests of the task label: :func:`~affiant.attestation.records.task_label.make_task_label`."""

    @property
    def digest(self) -> str:
        """43 characters: what statements and ``session-start`` call ``act``."""
        return b64u_sha256(self.raw)


def make_manifest(
    *,
    cls: str,
    profile_digest: str,
    file_digest: str,
    supervisor: str,
    rootfs: str,
    runtime: str | None,
    isolation_floor: str,
    gateway: GatewayIdentity,
    hosts: Mapping[str, Sequence[str]],
    upstream_roots: Sequence[str],
    vault: Mapping[str, str] | None = None,
) -> Manifest:
    """A manifest from its parts, checked like one that was read."""
    return parse_manifest(
        canonical(
            {
                "typ": "affiant-manifest/1",
                "cls": cls,
                "profile": {"dig": profile_digest, "fil": file_digest},
                "supervisor": supervisor,
                "rootfs": rootfs,
                "runtime": runtime,
                "isolation_floor": isolation_floor,
                "gateway": asdict(gateway),
                "vault": vault,
                "hosts": {name: list(addresses) for name, addresses in hosts.items()},
                "upstream_roots": sorted(set(upstream_roots)),
            }
        )
    )


def make_activation(
    *,
    session: str,
    agent: str,
    input_digest: str | None,
    isolation: str,
    challenge: str,
    expires: int,
    starter: Mapping[str, str],
    openings: str | None,
    release: str | None = None,
    task: Sequence[str] | None = None,
) -> Activation:
    """An activation from its parts, checked like one that was read."""
    return parse_activation(
        canonical(
            {
                "typ": "affiant-activation/1",
                "ses": session,
                "agent": agent,
                "inp": input_digest,
                "iso": isolation,
                "challenge": challenge,
                "exp": expires,
                "starter": starter,
                "openings": openings,
                **({} if release is None else {"rel": release}),
                **({} if task is None else {"task": {"_sd": list(task)}}),
            }
        )
    )


def vault_authority(roots: Sequence[bytes]) -> str:
    """``vault.ca`` of a manifest: ``sha256:`` name over the DER certificates, concatenated in their order."""
    return sha256_name(b"".join(roots))


def reaches_floor(isolation: str, floor: str) -> bool:
    """Whether an isolation (a receipt's ``iso``) is a manifest's ``isolation_floor`` or better."""
    return _STRENGTH[isolation] >= _FLOORS[floor]


def release_order(release: str) -> tuple[int, int]:
    """What releases of gVisor are ordered by.

    >>> release_order("20240729.10") > release_order("20240729.9") > release_order("20231218.0")
    True
    """
    date, _, number = release.partition(".")
    return int(date), int(number)


def agent_commitment(salt: bytes, name: str) -> str:
    """SHA-256 of the canonical ``[salt, name]``: 43 characters. ``salt``: 16 random bytes, kept by the starter."""
    return b64u_sha256(canonical([salt.hex(), name]))


def parse_manifest(raw: bytes) -> Manifest:
    """The manifest in ``raw``, closed and canonical.

    Raises:
        JSONError, ShapeMismatch: anything else.
    """
    value = parse_canonical(raw, limit=64 * 1024)
    _MANIFEST.check(value, "manifest")
    assert isinstance(value, dict)
    if value["upstream_roots"] != sorted(set(value["upstream_roots"])):
        raise ShapeMismatch("not sorted, or repeated", where="manifest.upstream_roots")
    if value["gateway"]["cls"] != value["cls"]:
        raise ShapeMismatch(
            "the gateway's evidence class differs from the session's", where="manifest.gateway.cls"
        )
    return Manifest(
        raw=raw,
        profile_digest=value["profile"]["dig"],
        file_digest=value["profile"]["fil"],
        gateway=GatewayIdentity(**value["gateway"]),
        **{
            name: value[name]
            for name in ("cls", "supervisor", "rootfs", "runtime", "isolation_floor", "vault")
        },
        hosts={name: tuple(addresses) for name, addresses in value["hosts"].items()},
        upstream_roots=tuple(value["upstream_roots"]),
    )


def parse_activation(raw: bytes) -> Activation:
    """The activation in ``raw``, closed and canonical.

    Raises:
        JSONError, ShapeMismatch: anything else.
    """
    value = parse_canonical(raw, limit=16 * 1024)
    _ACTIVATION.check(value, "activation")
    assert isinstance(value, dict)
    return Activation(
        raw=raw,
        session=value["ses"],
        agent=value["agent"],
        input_digest=value["inp"],
        isolation=value["iso"],
        challenge=value["challenge"],
        expires=value["exp"],
        starter=value["starter"],
        openings=value["openings"],
        release=value.get("rel"),
        task=tuple(value["task"]["_sd"]) if "task" in value else None,
    )


def initdata(manifest: Manifest) -> bytes:
    """The initdata document of ``manifest``: TOML text of one fixed form.

    The manifest is ASCII-armoured by its canonical form inside a TOML literal string; it holds no ``'''``, which
    :func:`parse_manifest` could not have let through in any member, and is checked here all the same.
    """
    text = manifest.raw.decode("utf-8")
    if "'''" in text:
        raise ShapeMismatch("manifest cannot be in a TOML literal string", where="manifest")
    return (
        'algorithm = "sha384"\nversion = "0.1.0"\n\n[data]\n'
        f"\"affiant-manifest.json\" = '''{text}'''\n"
        f"\"policy.rego\" = '''\n{_POLICY_REGO}'''\n"
    ).encode()


def mrconfigid(manifest: Manifest) -> bytes:
    """SHA-384 of the initdata: the 48 bytes that the launcher must have set."""
    return hashlib.sha384(initdata(manifest)).digest()


def session_events(
    manifest: Manifest, activation: Activation
) -> tuple[tuple[str, Mapping[str, object]], ...]:
    """Name and payload of the five RTMR3 events up to the barrier, in order."""
    return (
        ("affiant-manifest", {"man": manifest.digest}),
        ("affiant-profile", {"dig": manifest.profile_digest, "fil": manifest.file_digest}),
        (
            "affiant-images",
            {"supervisor": manifest.supervisor, "rootfs": manifest.rootfs, "runtime": manifest.runtime},
        ),
        ("affiant-activate", {"act": activation.digest}),
        ("affiant-ready", {"ses": activation.session}),
    )
