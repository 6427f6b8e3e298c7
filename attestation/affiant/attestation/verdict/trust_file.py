"""The trust file: what its owner accepts, kept apart from every bundle.

Strict JSON in any layout, ``"typ": "affiant-trust/1"``. Each list holds entries ``{"value": ..., "from",
"until", "revoked_at"}`` with RFC 3339 UTC instants; an entry counts at the instant that a bundle is judged at.
A list that is absent is *not pinned* (the check that needs it is a warning, or cannot be made); a list that is
empty accepts nothing and is refused here, where its author can see it.

| member | value of an entry |
|---|---|
| ``tee_roots`` (required) | ``intel``, or ``sha256:`` name of a root key (DER SubjectPublicKeyInfo) |
| ``reference_values`` (required) | a reference values document |
| ``gateway_configs`` | ``sha256:`` name of a gateway configuration |
| ``profiles`` | ``sha384:`` digest of a profile |
| ``profile_signers`` | whose signature over a profile is enough too: ``{"key": JWK}``, or as in ``sigstore_root`` |
| ``log`` | ``attested`` (the key that an appraised gateway binds), or a log's public key as a C2SP vkey |
| ``witnesses`` | who must have cosigned: the text of a C2SP tlog-policy file, whose ``log`` lines may be left out |
| ``tsa_roots`` | ``{"certificate", "policy"}``: a timestamp authority's root (PEM, or base64url of DER), an OID |
| ``sigstore_root`` | ``{"trusted_root", "identity", "issuer"}``: a sigstore trusted root, and who must have signed |
| ``erasure_authorities`` | whose orders to erase and to hold count: a P-256 public key, as a JWK |
| ``rootfs`` | ``host-usr``, or ``sha256:`` name |
| ``isolation_floor`` | (no list) ``userspace-kernel`` or ``namespace`` |
| ``isolation_releases`` | (no list) ``{"gvisor": "20250101.0"}``: the first release from which no escape is known |
| ``clock_tolerance_s`` | (no list) seconds, default 60 |
| ``require`` | (no list) check codes; absent means all |
| ``sessions`` | (no list) ``complete``: a session that is open or lost falls short; absent: it is a warning |

A witness that a policy names ``self`` is the operator's own: a quorum that needs it holds as a warning.

Entries of ``tsa_roots`` are judged at the time that a token names, and ``revoked_at`` at the time at which the token is
known to have existed: its renewal's, or the instant judged at.

Entries of ``sigstore_root`` are judged alike, at the time that sigstore's log or its timestamp authority says.

Entries of ``profile_signers`` likewise; a plain key says no time, and is judged at the instant judged at alone.

A file that sets ``approvers`` is refused until they are read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, TypeVar

from cryptography.hazmat.primitives.asymmetric import ec

from affiant.attestation.encoding.binary_text import is_sha256_name
from affiant.attestation.encoding.canonical import canonical, parse_strict
from affiant.attestation.encoding.keys import public_jwk, public_key_of
from affiant.attestation.schema.accepted_entry import PERIOD, Entry, instant_of
from affiant.attestation.schema.records import RELEASE
from affiant.attestation.schema.shapes import ShapeMismatch
from affiant.attestation.signatures.profiles.accepted_signers import (
    AcceptedSigner,
    parse_signer,
    require_once,
    signers_document,
)
from affiant.attestation.signatures.profiles.errors import SignersInvalid
from affiant.attestation.signatures.sigstore.sigstore_root import parse_sigstore_root
from affiant.attestation.signatures.timestamps.errors import AnchorSettingsInvalid
from affiant.attestation.signatures.timestamps.roots import parse_root
from affiant.attestation.statements.gateway_config import local_gateway_config
from affiant.attestation.tdx.appraise.reference import parse_reference_values
from affiant.attestation.tlog.errors import NoteMalformed, QuorumMalformed
from affiant.attestation.tlog.note_keys import LogKey, parse_vkey
from affiant.attestation.tlog.quorum import WitnessPolicy, parse_witness_policy
from affiant.attestation.verdict.accepted_values import ATTESTED, TrustFile
from affiant.attestation.verdict.codes import CODES
from affiant.attestation.verdict.outcome import COMPLETE
from affiant.errors import AffiantError, MalformedError

__all__ = [
    "OLDEST_GVISOR",
    "TrustFile",
    "TrustFileMalformed",
    "parse_instant",
    "parse_trust_file",
    "simulated_trust_file",
]

_LATER: Final = frozenset({"approvers"})
_LISTS: Final = (
    "tee_roots",
    "reference_values",
    "gateway_configs",
    "profiles",
    "profile_signers",
    "rootfs",
    "log",
    "witnesses",
    "tsa_roots",
    "sigstore_root",
    "erasure_authorities",
)
_PLAIN: Final = frozenset(
    {"typ", "isolation_floor", "isolation_releases", "clock_tolerance_s", "require", "sessions"}
)
_Lists = Mapping[str, Sequence[tuple[Entry, object]]]
"""Name of a list -> its entries, each with its value."""
_T = TypeVar("_T")
OLDEST_GVISOR: Final = "20240729.0"
"""The oldest release of gVisor that the sandbox is tried with. It says nothing of escapes that are known since."""
_FLOORS: Final = ("userspace-kernel", "namespace")


class TrustFileMalformed(MalformedError):
    """A trust file is not of the one form; nothing is judged under it."""

    code = "trust.malformed"


def parse_instant(text: str) -> datetime:
    """An RFC 3339 UTC instant with second precision, ``2026-11-21T03:00:00Z``.

    Raises:
        TrustFileMalformed: another form.
    """
    try:
        return instant_of(text)
    except ValueError as error:
        raise TrustFileMalformed(
            "not a time", expected="2026-11-21T03:00:00Z", found=repr(text[:40])
        ) from error


def parse_trust_file(data: bytes) -> TrustFile:
    """Read a trust file.

    Raises:
        TrustFileMalformed: another form, an unknown member, an empty list.
        JSONError: not strict JSON.
    """
    value = parse_strict(data, limit=16 << 20)
    if not isinstance(value, dict) or value.get("typ") != "affiant-trust/1":
        raise TrustFileMalformed("not a trust file", expected='"typ": "affiant-trust/1"')
    for name in value:
        if name in _LATER:
            raise TrustFileMalformed("a member that this version does not read", where=name)
        if name not in _PLAIN and name not in _LISTS:
            raise TrustFileMalformed("unknown member", where=name)
    lists = {name: _entries(value[name], name) for name in _LISTS if name in value}
    for name in ("tee_roots", "reference_values"):
        if name not in lists:
            raise TrustFileMalformed("a required list is missing", where=name)
    return TrustFile(
        raw=data,
        tee_roots=tuple(_root_entry(entry, raw) for entry, raw in lists["tee_roots"]),
        reference_values=tuple(
            (entry, parse_reference_values(canonical(raw))) for entry, raw in lists["reference_values"]
        ),
        gateway_configs=_digests(lists, "gateway_configs"),
        profiles=_digests(lists, "profiles"),
        rootfs=_digests(lists, "rootfs"),
        log=_named(lists, "log", _is_log, "not a log", "attested, or an Ed25519 vkey"),
        witnesses=_parsed(lists, "witnesses", _witness_policy, "not a witness policy", QuorumMalformed),
        tsa_roots=_parsed(lists, "tsa_roots", parse_root, "not a timestamp authority", AnchorSettingsInvalid),
        sigstore_root=_parsed(
            lists, "sigstore_root", parse_sigstore_root, "not a signer by sigstore", AnchorSettingsInvalid
        ),
        isolation_floor=_floor(value.get("isolation_floor")),
        isolation_releases=_releases(value.get("isolation_releases", {})),
        clock_tolerance_s=_tolerance(value.get("clock_tolerance_s", 60)),
        require=_require(value.get("require")),
        erasure_authorities=_parsed(
            lists, "erasure_authorities", public_key_of, "not an authority's key", MalformedError
        ),
        profile_signers=_profile_signers(lists),
        sessions=_sessions(value.get("sessions")),
    )


def _entries(items: object, name: str) -> list[tuple[Entry, object]]:
    if not isinstance(items, list) or not items:
        raise TrustFileMalformed("an empty list accepts nothing; leave it out or fill it", where=name)
    entries = []
    for index, item in enumerate(items):
        where = f"{name}[{index}]"
        if not isinstance(item, dict) or "value" not in item:
            raise TrustFileMalformed("not an entry", expected='{"value": ...}', where=where)
        if not set(item) <= {"value", *PERIOD}:
            raise TrustFileMalformed("unknown member of an entry", where=where)
        instants = {key: _instant(item.get(key), f"{where}.{key}") for key in PERIOD}
        text = item["value"] if isinstance(item["value"], str) else ""
        entries.append(
            (Entry(text, instants["from"], instants["until"], instants["revoked_at"]), item["value"])
        )
    return entries


def _instant(value: object, where: str) -> datetime | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise TrustFileMalformed("not a time", where=where)
    return parse_instant(value)


def _root_entry(entry: Entry, raw: object) -> Entry:
    if not isinstance(raw, str) or not (raw == "intel" or is_sha256_name(raw)):
        raise TrustFileMalformed(
            "not a root", expected='"intel" or sha256:<hex of the DER key>', where="tee_roots"
        )
    return entry


_NAMES: Final = {
    "gateway_configs": re.compile(r"sha256:[0-9a-f]{64}"),
    "profiles": re.compile(r"sha384:[0-9a-f]{96}"),
    "rootfs": re.compile(r"host-usr|sha256:[0-9a-f]{64}"),
}


def _named(
    lists: _Lists, name: str, is_one: Callable[[object], bool], message: str, expected: str
) -> tuple[Entry, ...] | None:
    """The entries of a list of texts; None without it."""
    for entry, raw in lists.get(name, ()):
        if not is_one(raw):
            raise TrustFileMalformed(message, expected=expected, found=entry.value[:80], where=name)
    return tuple(entry for entry, _ in lists[name]) if name in lists else None


def _digests(lists: _Lists, name: str) -> tuple[Entry, ...] | None:
    form = _NAMES[name]
    return _named(
        lists,
        name,
        lambda raw: isinstance(raw, str) and form.fullmatch(raw) is not None,
        "not a digest",
        form.pattern,
    )


def _is_log(raw: object) -> bool:
    try:
        return raw == ATTESTED or (isinstance(raw, str) and isinstance(parse_vkey(raw), LogKey))
    except NoteMalformed:
        return False


def _parsed(
    lists: _Lists, name: str, parse: Callable[[Any], _T], message: str, errors: type[AffiantError]
) -> tuple[tuple[Entry, _T], ...] | None:
    """The entries of a list, each with what it means; None without it. ``errors``: of those that are none."""
    try:
        return tuple((entry, parse(raw)) for entry, raw in lists[name]) if name in lists else None
    except errors as error:
        raise TrustFileMalformed(f"{message}: {error}", where=name) from error


def _witness_policy(raw: object) -> WitnessPolicy:
    try:
        policy = parse_witness_policy(str(raw).encode("utf-8", "surrogateescape"))
    except UnicodeEncodeError as error:
        raise QuorumMalformed(str(error)) from error
    if policy.quorum is None:
        raise TrustFileMalformed(
            "`quorum none` asks nobody; leave `witnesses` out", expected="a quorum", where="witnesses"
        )
    return policy


def _profile_signers(lists: _Lists) -> tuple[AcceptedSigner, ...] | None:
    if "profile_signers" not in lists:
        return None
    try:
        found = tuple(AcceptedSigner(entry, parse_signer(raw)) for entry, raw in lists["profile_signers"])
        require_once(found, "profile_signers")
    except SignersInvalid as error:
        raise TrustFileMalformed(f"not signers of profiles: {error}", where="profile_signers") from error
    return found


def _floor(value: object) -> str | None:
    if value is None:
        return None
    if value not in _FLOORS:
        raise TrustFileMalformed(
            "not a minimum isolation", expected=" or ".join(_FLOORS), where="isolation_floor"
        )
    return str(value)


def _releases(value: object) -> Mapping[str, str]:
    if not isinstance(value, dict) or not value.keys() <= {"gvisor"}:
        raise TrustFileMalformed(
            "not releases of isolations", expected='{"gvisor": "20250101.0"}', where="isolation_releases"
        )
    for release in value.values():
        try:
            RELEASE.check(release, "isolation_releases.gvisor")
        except ShapeMismatch as error:
            raise TrustFileMalformed(
                "not a release of gVisor", expected="20250101.0", where="isolation_releases.gvisor"
            ) from error
    return value


def _tolerance(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= 3600:
        raise TrustFileMalformed("not a tolerance", expected="0 to 3600 seconds", where="clock_tolerance_s")
    return value


def _require(value: object) -> frozenset[str] | None:
    if value is None:
        return None
    if not isinstance(value, list) or not value or not all(isinstance(item, str) for item in value):
        raise TrustFileMalformed(
            "an empty list requires nothing; leave it out to require all", where="require"
        )
    if unknown := sorted(set(value) - CODES):
        raise TrustFileMalformed(
            "no such check", expected="codes as `affiant verify` prints them", found=unknown[0][:60]
        )
    return frozenset(value)


def _sessions(value: object) -> str | None:
    if value not in (None, COMPLETE):
        raise TrustFileMalformed("not a requirement for sessions", expected=f'"{COMPLETE}"', where="sessions")
    return None if value is None else COMPLETE


def simulated_trust_file(
    reference_values: bytes,
    now: datetime,
    *,
    gateway_configs: Sequence[str] = (),
    profiles: Sequence[str] = (),
    witnesses: str | None = None,
    own_witness: str | None = None,
    erasure_authorities: Sequence[ec.EllipticCurvePublicKey] = (),
    profile_signers: Sequence[AcceptedSigner] = (),
) -> bytes:
    """A trust file for the SIMULATED platform: its root, its reference values, the embedded gateway's configuration.

    Args:
        reference_values: the document made at build time; its ``roots`` become ``tee_roots``.
        gateway_configs: ``sha256:`` names of configurations accepted beside the embedded one.
        profiles: ``sha384:`` digests of accepted profiles.
        profile_signers: whose signature over a profile is enough too; without both, no profile is pinned.
        witnesses: the text of a C2SP tlog-policy file: who must have cosigned; None: ``own_witness``, if there is one.
        own_witness: the policy that the embedded gateway runs with, whose only witness is its own; None: none.
    """
    reference = parse_reference_values(reference_values)
    since = now.strftime("%Y-%m-%dT00:00:00Z")
    configs = [local_gateway_config(reference, witnesses=own_witness).digest, *gateway_configs]
    document: dict[str, object] = {
        "typ": "affiant-trust/1",
        "tee_roots": [{"value": root, "from": since} for root in sorted(reference.roots)],
        "reference_values": [{"value": json.loads(reference_values), "from": since}],
        "gateway_configs": [{"value": digest, "from": since} for digest in configs],
        "rootfs": [{"value": "host-usr", "from": since}],
        "log": [{"value": ATTESTED, "from": since}],
        "isolation_floor": "namespace",
        "isolation_releases": {"gvisor": OLDEST_GVISOR},
    }
    if profiles:
        document["profiles"] = [{"value": digest, "from": since} for digest in profiles]
    if profile_signers:
        document["profile_signers"] = signers_document(profile_signers)
    asked = own_witness if witnesses is None else witnesses
    if asked is not None:
        document["witnesses"] = [{"value": asked, "from": since}]
    if erasure_authorities:
        document["erasure_authorities"] = [
            {"value": public_jwk(key), "from": since} for key in erasure_authorities
        ]
    return (json.dumps(document, indent=2) + "\n").encode("ascii")
