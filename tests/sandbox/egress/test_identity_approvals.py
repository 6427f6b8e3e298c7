"""The supervisor's proxy judges what identities signed itself, under its own profile's root: no mailbox can lie."""

from __future__ import annotations

import json
import time

import pytest
from tests.attestation.signatures.approvers.signing_identity import SigningIdentity, root_of
from tests.sandbox.egress.conftest import HOST
from tests.sandbox.egress.test_approvals import ANN, Mailbox, asking, code, ok, post, says
from tests.sigstore_authority.authority import Authority

from affiant.attestation.encoding.binary_text import sha256_name
from affiant.policy.approvals.action import Action

__all__ = ["asking"]

DEPLOYMENT = Authority()
BOB = SigningIdentity(DEPLOYMENT, "bob@example.org")


def profile(port: int, *, quorum: int = 1) -> str:
    who = f"{ANN.kid}, {{issuer: '{BOB.issuer}', subject: '{BOB.subject}'}}"
    root = json.dumps(root_of(DEPLOYMENT).decode())
    return (
        f"network_egress: [{{host: {HOST}, port: {port}}}]\n"
        f"requires_human_approval: {{egress: [POST], approvers: [{who}], quorum: {quorum}, trusted_root: {root}}}\n"
    )


def signs(who: SigningIdentity = BOB, *, of: str | None = None, ago: int = 0, **more: object):
    def say(action: Action) -> str:
        now = int(time.time()) - ago
        return who.says(of or action.name, at=now, expires=action.not_after, **more)  # type: ignore[arg-type]

    return say


def test_what_an_identity_approved_goes_out_and_its_record_names_the_bundle(world, serve, asking) -> None:
    server, mailbox = serve(ok), asking(Mailbox(signs()))
    reply = world.run(profile(server.port), lambda box: box.https(server.port, post(server.port)))
    assert (reply.status, len(server.received)) == (200, 1), reply.body
    (action,) = mailbox.actions
    (left,) = mailbox.left[action.name]
    intent = world.chain.records[0]
    assert intent.member("apr") == {
        "dig": action.name,
        "kid": BOB.name,
        "sig": sha256_name(left.statement.encode()),
        "exp": action.not_after,
        "via": "cli",
    }
    assert intent.member("par") == [left.record]


def test_a_key_and_an_identity_make_a_quorum(world, serve, asking) -> None:
    server, mailbox = serve(ok), asking(Mailbox(says(ANN), signs()))
    reply = world.run(profile(server.port, quorum=2), lambda box: box.https(server.port, post(server.port)))
    assert reply.status == 200, reply.body
    (action,) = mailbox.actions
    assert world.chain.records[0].member("par") == [left.record for left in mailbox.left[action.name]]


@pytest.mark.parametrize(
    "left",
    [
        [],
        [signs(of="sha256:" + "0" * 64)],
        [signs(ago=120)],  # of an equal action that was asked for before, were it not for the nonce
        [signs(SigningIdentity(Authority(), BOB.subject))],  # certified by somebody else's authority
        [signs(SigningIdentity(DEPLOYMENT, "eve@example.org"))],
        [signs(SigningIdentity(DEPLOYMENT, BOB.subject, "https://accounts.other"))],
        [signs(certified_in_log=False)],
        [lambda action: signs()(action).replace('"inclusionProof"', '"inclusionProofs"')],
        [lambda action: "{" * 30_000],
        [lambda action: "{" + "x" * 500_000],
        [lambda action: "{\ud800}"],
    ],
)
def test_whatever_a_mailbox_brings_counts_only_by_its_signature(world, serve, asking, left) -> None:
    server = serve(ok)
    asking(Mailbox(*left))
    reply = world.run(profile(server.port), lambda box: box.https(server.port, post(server.port)))
    assert (reply.status, code(reply)) == (403, "approval_pending")
    assert server.received == []


def test_one_identity_twice_is_no_quorum(world, serve, asking) -> None:
    server = serve(ok)
    asking(Mailbox(signs(), signs()))
    reply = world.run(profile(server.port, quorum=2), lambda box: box.https(server.port, post(server.port)))
    assert (reply.status, code(reply)) == (403, "approval_pending")
