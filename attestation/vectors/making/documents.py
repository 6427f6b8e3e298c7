"""The documents that evidence binds: configuration, reference values, statements, manifest, activation, results.

Each function gives plain members; whoever calls may change them before they are written as canonical JSON.
"""

from __future__ import annotations

import hashlib
from typing import Any

from vectors.making.encoding import b64u, canonical, link, sha256_name
from vectors.making.keys import ed25519_key, jwk, p256_key, seeded, thumbprint
from vectors.making.platform import MRTD, Platform, replay
from vectors.making.tree import vkey

__all__ = [
    "BUILD",
    "EAR_EXTENSION",
    "ORIGIN",
    "POLICY",
    "START",
    "activation",
    "boot_events",
    "configuration",
    "ear",
    "ear_before",
    "endorsements",
    "evidence",
    "gateway_statement",
    "identifier",
    "initdata",
    "manifest",
    "profile_digest",
    "reference_values",
    "session_events",
    "session_statement",
    "with_model_aliases",
    "with_tool_servers",
    "with_turns",
]

START = 1795262400
"""2026-11-21T12:00:00Z: when the gateway of every case begins."""
ORIGIN = "vectors.affiant.invalid"
ISSUER = "urn:affiant:gateway:vectors"
BUILD = sha256_name(b"affiant vectors: a release manifest")
EAR_EXTENSION = "affiant.dev/appraisal"
POLICY = canonical({"semantics": "affiant.policy/1", "tools": []})
PROFILES_FILE = b"affiant vectors: profiles.yaml"
"""The bytes of the file of profiles, as far as anybody needs them."""
_DAY = 86400


def identifier(label: str) -> str:
    """22 characters: 16 bytes that follow from the label."""
    return b64u(seeded(label, 16))


def profile_digest(normal_form: bytes) -> str:
    """``sha384:`` digest of a profile."""
    return "sha384:" + hashlib.sha384(b"affiant.policy/1\n" + normal_form).hexdigest()


# -- what is measured ----------------------------------------------------------------------------------------


def boot_events(role: str) -> list[dict[str, Any]]:
    """The labelled boot: one event each into RTMR0 to RTMR2."""
    names = ("firmware", "kernel", "command-line")
    return [
        {"rtmr": rtmr, "name": f"affiant-sim-{name}", "payload": {"simulated": True, "image": role}}
        for rtmr, name in enumerate(names)
    ]


def session_events(man: dict[str, Any], man_raw: bytes, act_raw: bytes) -> list[dict[str, Any]]:
    """The five events of RTMR3, in their order."""
    images = {name: man[name] for name in ("supervisor", "rootfs", "runtime")}
    ses = _session_of(act_raw)
    payloads: list[tuple[str, dict[str, Any]]] = [
        ("manifest", {"man": link(man_raw)}),
        ("profile", man["profile"]),
        ("images", images),
        ("activate", {"act": link(act_raw)}),
        ("ready", {"ses": ses}),
    ]
    return [{"rtmr": 3, "name": f"affiant-{name}", "payload": payload} for name, payload in payloads]


def _session_of(act_raw: bytes) -> str:
    return act_raw.split(b'"ses":"')[1].split(b'"')[0].decode("ascii")


def reference_values(platform: Platform, cls: str = "simulated") -> dict[str, Any]:
    """What is pinned before any quote."""

    def image(role: str) -> dict[str, str]:
        events = boot_events(role)
        return {"mrtd": MRTD.hex(), **{f"rtmr{n}": replay(events, n).hex() for n in range(3)}}

    return {
        "typ": "affiant-reference-values/1",
        "cls": cls,
        "roots": [platform.root_name],
        "images": {"gateway": [image("gateway")], "session": [image("session")]},
        "tcb": {"statuses": ["UpToDate"], "min_evaluation": 1},
        "td_attributes": "0000001000000000",
        "xfam": "e702060000000000",
    }


# -- what the quotes bind ------------------------------------------------------------------------------------


def configuration(reference: bytes) -> dict[str, Any]:
    """The gateway's configuration; MRCONFIGID is its SHA-384."""
    upstream = {"bind": "none", "id": "echo", "roots": [], "url": "http://echo.invalid/v1"}
    return {
        "typ": "affiant-gateway-config/1",
        "iss": ISSUER,
        "cls": "simulated",
        "origin": ORIGIN,
        "reference": sha256_name(reference),
        "upstreams": [upstream],
        "epoch_s": 60,
        "session_max_s": _DAY,
        "body_max": 8 << 20,
    }


def with_tool_servers(config: dict[str, Any]) -> dict[str, Any]:
    """The same, with a server of tools at an address and one that is a command."""
    limits = {"timeout_s": 60, "concurrent": 8}
    remote = {
        "id": "docs",
        "url": "https://docs.invalid/mcp",
        "roots": [sha256_name(b"a certificate")],
        "header": "Authorization",
        "key": "local:DOCS",
        **limits,
    }
    local = {
        "id": "k8s",
        "command": ["/usr/bin/k8s-mcp", "--stdio"],
        "env": {"TOKEN": "local:K8S"},
        "folders": ["/srv/manifests"],
        **limits,
    }
    return config | {"mcp_servers": [remote, local]}


def with_model_aliases(config: dict[str, Any]) -> dict[str, Any]:
    """The same, where the upstream answers as one model under other names."""
    return config | {"model_aliases": {"echo": ["echo-2026-11-20", "echo-latest"]}}


def with_turns(config: dict[str, Any]) -> dict[str, Any]:
    """The same, where the upstream is asked so many requests at once."""
    return config | {"upstreams": [upstream | {"concurrent": 64} for upstream in config["upstreams"]]}


def _key(use: str, label: str) -> dict[str, Any]:
    key = p256_key(label)
    return {"jwk": jwk(key), "kid": thumbprint(key), "use": use}


def gateway_statement(label: str, config: bytes) -> dict[str, Any]:
    """A gateway's keyset statement."""
    return {
        "typ": "affiant-keyset/1",
        "iss": ISSUER,
        "role": "gateway",
        "cls": "simulated",
        "chn": [identifier(f"{label} chain")],
        "keys": [
            _key("receipt", f"{label} receipt"),
            _key("ear", f"{label} ear"),
            {"use": "tls-spki", "sha256": link(b"affiant vectors: a TLS key")},
        ],
        "log": {"kept": "file", "origin": ORIGIN, "vkey": vkey(ORIGIN, ed25519_key("log"))},
        "epoch_s": 60,
        "wit_max_s": 300,
        "policy": sha256_name(config),
        "nonce": None,
        "not_after": START + _DAY,
    }


def session_statement(label: str, session: str, man: bytes, act: bytes, gks: str) -> dict[str, Any]:
    """A session's keyset statement."""
    return {
        "typ": "affiant-keyset/1",
        "iss": f"urn:affiant:session:{session}",
        "role": "session",
        "cls": "simulated",
        "chn": [identifier(f"{label} chain")],
        "keys": [_key("session", f"{label} key")],
        "log": None,
        "epoch_s": 60,
        "wit_max_s": 300,
        "nonce": b64u(seeded(f"{label} nonce", 32)),
        "not_after": START + _DAY,
        "man": link(man),
        "act": link(act),
        "gks": gks,
    }


def manifest(config: bytes, reference: bytes) -> dict[str, Any]:
    """A session's template manifest."""
    return {
        "typ": "affiant-manifest/1",
        "cls": "simulated",
        "profile": {"dig": profile_digest(POLICY), "fil": sha256_name(PROFILES_FILE)},
        "supervisor": BUILD,
        "rootfs": "host-usr",
        "runtime": None,
        "isolation_floor": "userspace-kernel",
        "gateway": {
            "cls": "simulated",
            "config": sha256_name(config),
            "origin": ORIGIN,
            "reference": sha256_name(reference),
        },
        "vault": None,
        "hosts": {},
        "upstream_roots": [],
    }


def initdata(man: bytes) -> bytes:
    """The one initdata document; MRCONFIGID of the session is its SHA-384."""
    denied = ("ExecProcess", "CopyFile", "ReadStream", "WriteStream")
    rego = [
        "package agent_policy",
        "default AllowRequestsFailingPolicy := false",
        *(f"default {name}ContainerRequest := true" for name in ("Create", "Start")),
        *(f"default {name}Request := false" for name in denied),
    ]
    text = man.decode("utf-8")
    return (
        'algorithm = "sha384"\nversion = "0.1.0"\n\n[data]\n'
        f"\"affiant-manifest.json\" = '''{text}'''\n"
        f"\"policy.rego\" = '''\n" + "\n".join(rego) + "\n'''\n"
    ).encode()


def activation(label: str, session: str) -> dict[str, Any]:
    """What binds a TD to one session."""
    return {
        "typ": "affiant-activation/1",
        "ses": session,
        "agent": link(seeded(f"{label} agent", 16)),
        "inp": None,
        "iso": "gvisor",
        "challenge": b64u(seeded(f"{label} challenge", 32)),
        "exp": START + 3600,
        "starter": {"iss": "local", "method": "uid", "sub": link(seeded(f"{label} starter", 16))},
        "openings": None,
    }


# -- how it travels ------------------------------------------------------------------------------------------

_TYPES = {
    "quote": "application/vnd.affiant.tdx-quote",
    "eventlog": "application/vnd.affiant.eventlog+json",
    "statement": "application/vnd.affiant.keyset+json",
    "manifest": "application/vnd.affiant.manifest+json",
    "activation": "application/vnd.affiant.activation+json",
}


def evidence(parts: dict[str, bytes]) -> bytes:
    """An evidence collection (CMW, RFC 9999); ``evd`` is its SHA-256. Indicator 4: evidence."""
    records = {label: [_TYPES[label], b64u(data), 4] for label, data in parts.items()}
    return canonical({"__cmwc_t": "tag:affiant.dev,2026:evidence/1", **records})


def endorsements(collateral: bytes) -> bytes:
    """An endorsements collection; ``col`` is its SHA-256. Indicator 2: endorsements."""
    record = ["application/vnd.affiant.dcap-collateral+json", b64u(collateral), 2]
    return canonical({"__cmwc_t": "tag:affiant.dev,2026:endorsements/1", "collateral": record})


def ear(*, reference: bytes, evd: str, col: str) -> dict[str, Any]:
    """An attestation result's payload (draft-ietf-rats-ear-04): simulated evidence is worth the tier none."""
    session = {
        "eat_profile": "tag:affiant.dev,2026:ear/2",
        "ear_status": "none",
        "ear_trustworthiness_vector": {"instance-identity": 0},
        "ear_appraisal_policy_ids": [sha256_name(reference)],
        EAR_EXTENSION: {
            "evd": evd,
            "col": col,
            "cls": "simulated",
            "tcb": "UpToDate",
            "until": START + 29 * _DAY,
        },
    }
    return {
        "eat_profile": "tag:ietf.org,2026:rats/ear#04",
        "iss": ISSUER,
        "iat": START,
        "ear_verifier_id": {"build": BUILD, "developer": "https://affiant.dev"},
        "submods": {"session": session},
    }


def ear_before(payload: dict[str, Any]) -> dict[str, Any]:
    """The same result in the form that gateways wrote before they took the draft's names."""
    told = {
        peer: {
            "ear.status": said["ear_status"],
            "ear.trustworthiness-vector": said["ear_trustworthiness_vector"],
            "ear.appraisal-policy-id": said["ear_appraisal_policy_ids"][0],
            **{f"affiant.{name}": value for name, value in said[EAR_EXTENSION].items()},
        }
        for peer, said in payload["submods"].items()
    }
    return {
        "eat_profile": "tag:affiant.dev,2026:ear/1",
        "iss": payload["iss"],
        "iat": payload["iat"],
        "ear.verifier-id": payload["ear_verifier_id"],
        "submods": told,
    }
