"""Class *platform*, of profiles: accepted for who has signed them, in place of their digest."""

from __future__ import annotations

import json
from typing import Any

from vectors.cases.edits import BASE
from vectors.making.case import Case, told
from vectors.making.encoding import b64u, sha256_name
from vectors.making.profile_signatures import envelope
from vectors.making.trust import SIGNERS, SIGNERS_AND_PROFILES

__all__ = ["CASES", "VALID"]

_OTHER = "1" * 64


def _with(*signatures: bytes) -> Any:
    def edit(bundle: dict[str, Any]) -> dict[str, Any]:
        for raw in signatures:
            bundle["policies"][sha256_name(raw)] = b64u(raw)
        return bundle

    return told({"bundle": edit})


def _valid(name: str, about: str, *signatures: bytes, trust: str = SIGNERS) -> Case:
    return Case(
        f"valid/{name}", about, _with(*signatures), trust=trust, warnings=("rfs.accepted",), stored_from=BASE
    )


def _refused(name: str, about: str, *signatures: bytes) -> Case:
    refused = {"pol.accepted": "pol.not_accepted"}
    return Case(f"platform/{name}", about, _with(*signatures), BASE, refused=refused, trust=SIGNERS)


def _in(place: str, **changes: Any) -> Any:
    """Change members of the statement at ``place``."""

    def edit(said: dict[str, Any]) -> dict[str, Any]:
        target = said["subject"][0]["digest"] if place == "digest" else said["predicate"] if place else said
        target.update(changes)
        return said

    return edit


def _signature_of(other: bytes) -> Any:
    def edit(document: dict[str, Any]) -> dict[str, Any]:
        return document | {"signatures": json.loads(other)["signatures"]}

    return edit


def _signatures(change: Any) -> Any:
    return lambda document: document | {"signatures": change(document["signatures"])}


VALID = (
    _valid("profile-signed", "A profile that an accepted key has signed (P-256).", envelope()),
    _valid("profile-signed-p384", "The same with P-384.", envelope("P-384")),
    _valid("profile-signed-ed25519", "The same with Ed25519.", envelope("Ed25519")),
    _valid(
        "profile-signed-unnamed",
        "The envelope does not name its key: which key it was is for the reader to find.",
        envelope(written=_signatures(lambda found: [{"sig": found[0]["sig"]}])),
    ),
    _valid(
        "profile-signed-among-others",
        "One of several signatures is by an accepted key; those of others say nothing.",
        envelope("another"),
        envelope("revoked"),
        envelope(),
    ),
    _valid(
        "profile-listed-or-signed",
        "A trust file with digests and signers: the profile is listed, and nobody has signed it.",
        trust=SIGNERS_AND_PROFILES,
    ),
)

CASES = (
    _refused("profile-unsigned", "The trust file accepts signers, and the bundle holds no signature."),
    _refused("profile-signed-by-another", "Signed by a key that is not accepted.", envelope("another")),
    _refused(
        "profile-signer-revoked", "Signed by a key that was revoked a second before.", envelope("revoked")
    ),
    _refused(
        "profile-signature-of-another-file",
        "An accepted key has signed another file with the same profile: a comment is enough.",
        envelope(said=_in("digest", sha256=_OTHER)),
    ),
    _refused(
        "profile-signature-of-another-profile",
        "An accepted key has signed other profiles of this file.",
        envelope(said=_in("predicate", profiles=["sha384:" + "1" * 96])),
    ),
    _refused(
        "profile-signature-of-another-meaning",
        "An accepted key has signed the digest for another version of the meaning.",
        envelope(said=_in("predicate", semantics="affiant.policy/2")),
    ),
    _refused(
        "profile-signature-altered",
        "The statement was changed after it was signed: the signature is one over other profiles.",
        envelope(written=_signature_of(envelope(said=_in("predicate", profiles=["sha384:" + "1" * 96])))),
    ),
    _refused(
        "profile-signature-without-encoding",
        "The statement's bytes were signed, without the encoding that holds their type and length.",
        envelope(signed=lambda message: b"{" + message.partition(b" {")[2]),
    ),
    _refused(
        "profile-signature-another-predicate",
        "An accepted key has signed a statement of another purpose with the same words.",
        envelope(said=_in("", predicateType="tag:affiant.dev,2026:publication/1")),
    ),
    _refused(
        "profile-signature-member-more",
        "A statement with a member that the form does not list.",
        envelope(said=_in("predicate", note="reviewed")),
    ),
    _refused(
        "profile-signature-profile-twice",
        "A list of profiles that is not sorted without repetition.",
        envelope(said=lambda m: _in("predicate", profiles=m["predicate"]["profiles"] * 2)(m)),
    ),
    _refused(
        "profile-signature-twice",
        "An envelope with two signatures.",
        envelope(written=_signatures(lambda found: found * 2)),
    ),
    _refused(
        "profile-signature-names-another",
        "An envelope that names another key than the one that made it.",
        envelope(written=_signatures(lambda found: [{**found[0], "keyid": "sha256:" + _OTHER}])),
    ),
    _refused(
        "profile-signature-another-type",
        "An envelope that says that something else is in it.",
        envelope(written=lambda document: document | {"payloadType": "application/json"}),
    ),
)
