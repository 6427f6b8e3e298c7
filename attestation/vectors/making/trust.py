"""Trust files: what the reader of a case accepts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from vectors.making import documents as docs
from vectors.making.encoding import canonical, sha256_name
from vectors.making.keys import ed25519_key, jwk, p256_key
from vectors.making.platform import CREATED, Platform, instant
from vectors.making.profile_signatures import KEYS, public_jwk
from vectors.making.timestamps import root_pem
from vectors.making.tree import vkey
from vectors.making.witnesses import self_policy, witness_policy
from vectors.making.witnesses_mldsa import mixed_policy

__all__ = [
    "ANY_PROFILE",
    "ASKING_AUTHORITIES",
    "AUTHORITIES",
    "OPERATORS_OWN",
    "OPERATORS_OWN_AND_ANOTHER",
    "SIGNERS",
    "SIGNERS_AND_PROFILES",
    "STAMPED",
    "STAMPED_ONLY",
    "WITH_WITNESSES",
    "WITNESSED",
    "WITNESSED_MLDSA",
    "trust_files",
]

WITNESSED = "trust-witnesses.json"
"""The trust file that names witnesses: two of three must have cosigned."""
AUTHORITIES = "trust-erasure-authority.json"
"""The trust file that accepts an erasure authority."""
WITNESSED_MLDSA = "trust-witnesses-mldsa.json"
"""Two of five witnesses, of whom three have ML-DSA-44 keys; the log is pinned."""
OPERATORS_OWN = "trust-witness-self.json"
"""One witness, the operator's own."""
OPERATORS_OWN_AND_ANOTHER = "trust-witness-self-or-another.json"
"""Either the operator's own or another."""
STAMPED = "trust-witnesses-and-authority.json"
"""Two of three witnesses, and a timestamp authority."""
STAMPED_ONLY = "trust-authority.json"
"""A timestamp authority, and no witnesses."""
SIGNERS = "trust-profile-signers.json"
"""Profiles count for who has signed them: three keys, and one that was revoked. No digest is listed."""
SIGNERS_AND_PROFILES = "trust-profile-signers-and-profiles.json"
"""The same, and the usual profile's digest."""
ANY_PROFILE = "trust-any-profile.json"
"""Names no profile: each is accepted with a warning."""
_OTHER_AUTHORITY = "trust-authority-other.json"
_OTHER_POLICY = "trust-authority-policy.json"
_REVOKED = "trust-authority-revoked.json"
WITH_WITNESSES = frozenset({WITNESSED, WITNESSED_MLDSA, OPERATORS_OWN, OPERATORS_OWN_AND_ANOTHER, STAMPED})
"""Those that name witnesses."""
ASKING_AUTHORITIES = frozenset({STAMPED, STAMPED_ONLY, _OTHER_AUTHORITY, _OTHER_POLICY, _REVOKED})
"""Those that name timestamp authorities."""


def _trust(**changes: Any) -> bytes:
    """The usual trust file with other members; ``...``: without that member."""
    platform = Platform()
    reference = docs.reference_values(platform)
    config = canonical(docs.configuration(canonical(reference)))
    since = instant(CREATED)
    document: dict[str, Any] = {
        "typ": "affiant-trust/1",
        "tee_roots": [{"from": since, "value": platform.root_name}],
        "reference_values": [{"from": since, "value": reference}],
        "gateway_configs": [{"from": since, "value": sha256_name(config)}],
        "profiles": [{"from": since, "value": docs.profile_digest(docs.POLICY)}],
        "rootfs": [{"from": since, "value": "host-usr"}],
        "log": [{"from": since, "value": "attested"}],
        "isolation_floor": "namespace",
    }
    kept = {name: value for name, value in (document | changes).items() if value is not ...}
    return (json.dumps(kept, indent=1, sort_keys=True) + "\n").encode("ascii")


def trust_files() -> Iterator[tuple[str, bytes]]:
    """Path and content of each."""
    key = vkey(docs.ORIGIN, ed25519_key("log"))
    stranger = vkey(docs.ORIGIN, ed25519_key("another log"))
    other = "sha256:" + "1" * 64
    config = sha256_name(canonical(docs.configuration(canonical(docs.reference_values(Platform())))))
    ended = [{"revoked_at": "2026-11-21T12:29:59Z", "value": config}]
    strict = docs.reference_values(Platform())
    strict["tcb"] = {"min_evaluation": 2, "statuses": ["UpToDate"]}
    yield "trust.json", _trust()
    yield "trust-log-pinned.json", _trust(log=[{"value": key}])
    yield "trust-log-other.json", _trust(log=[{"value": stranger}])
    yield "trust-no-log.json", _trust(log=...)
    yield "trust-other-root.json", _trust(tee_roots=[{"value": "intel"}])
    yield "trust-other-configuration.json", _trust(gateway_configs=[{"value": other}])
    yield "trust-any-configuration.json", _trust(gateway_configs=...)
    yield "trust-configuration-revoked.json", _trust(gateway_configs=ended)
    measured = docs.reference_values(Platform())
    yield (
        "trust-reference-revoked.json",
        _trust(reference_values=[{"revoked_at": "2026-11-21T12:29:59Z", "value": measured}]),
    )
    yield "trust-other-profile.json", _trust(profiles=[{"value": "sha384:" + "1" * 96}])
    yield ANY_PROFILE, _trust(profiles=...)
    yield "trust-other-rootfs.json", _trust(rootfs=[{"value": other}])
    yield "trust-strict-floor.json", _trust(isolation_floor="userspace-kernel")
    yield "trust-releases.json", _trust(isolation_releases={"gvisor": "20250101.0"})
    yield WITNESSED, _trust(witnesses=[{"from": instant(CREATED), "value": witness_policy()}])
    yield WITNESSED_MLDSA, _trust(log=[{"value": key}], witnesses=[{"value": mixed_policy()}])
    yield OPERATORS_OWN, _trust(witnesses=[{"value": self_policy()}])
    yield OPERATORS_OWN_AND_ANOTHER, _trust(witnesses=[{"value": self_policy("b")}])
    both = {"witnesses": [{"from": instant(CREATED), "value": witness_policy()}]}
    authority = {"value": {"certificate": root_pem()}}
    yield STAMPED, _trust(tsa_roots=[authority], **both)
    yield STAMPED_ONLY, _trust(tsa_roots=[authority])
    yield _OTHER_AUTHORITY, _trust(tsa_roots=[{"value": {"certificate": root_pem("another")}}])
    yield _OTHER_POLICY, _trust(tsa_roots=[{"value": {"certificate": root_pem(), "policy": "1.2.3"}}])
    yield _REVOKED, _trust(tsa_roots=[authority | {"revoked_at": "2026-11-21T12:29:59Z"}])
    signers: list[dict[str, Any]] = [
        {"value": {"key": public_jwk(KEYS[name])}} for name in ("P-256", "P-384", "Ed25519")
    ]
    signers.append({"revoked_at": "2026-11-21T12:29:59Z", "value": {"key": public_jwk(KEYS["revoked"])}})
    yield SIGNERS, _trust(profiles=..., profile_signers=signers)
    yield SIGNERS_AND_PROFILES, _trust(profile_signers=signers)
    orderer = jwk(p256_key("erasure authority"))
    yield AUTHORITIES, _trust(erasure_authorities=[{"value": orderer}])
    yield (
        "trust-erasure-authority-revoked.json",
        _trust(erasure_authorities=[{"revoked_at": "2026-11-21T12:29:59Z", "value": orderer}]),
    )
    yield "trust-newer-evaluation.json", _trust(reference_values=[{"value": strict}])
