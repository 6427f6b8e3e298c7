"""An identity's statement: everything that makes it somebody else's, about something else, or nobody's word."""

from __future__ import annotations

import json
import random
import socket
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.attestation.signatures.approvers.signing_identity import ISSUER, SigningIdentity, named, root_of
from tests.sigstore_authority.authority import Authority

from affiant.attestation.encoding.binary_text import sha256_name
from affiant.attestation.encoding.keys import Signer
from affiant.attestation.signatures.approvers.errors import (
    NotAnApprover,
    ReaderRefused,
    StatementMalformed,
    StatementStale,
    StatementUnproven,
)
from affiant.attestation.signatures.approvers.identities import (
    MAX_SIGNED,
    NO_IDENTITIES,
    ApproverIdentity,
    NamedIdentities,
    require_verifiable,
)
from affiant.attestation.signatures.approvers.signed_by_identity import (
    READER_LIFETIME_S,
    action_statement,
    claimed_identity,
    verify_signed_action,
    verify_signed_reader,
)
from affiant.attestation.signatures.approvers.statement import judge_statement, read_statement
from affiant.attestation.signatures.sigstore.errors import TrustedRootUnusable
from affiant.errors import AffiantError

AT = datetime(2026, 11, 22, 7, 0, tzinfo=UTC)
MADE = int(AT.timestamp())
ACTION = sha256_name(b"an action")
ANN = SigningIdentity()
BOB = SigningIdentity(ANN.authority, "bob@example.org")
BOTH = named(ANN, BOB)
SPKI = "s" * 42 + "A"


def said(**more: Any) -> str:
    return ANN.says(ACTION, **{"at": AT, "expires": MADE + 600, **more})


def refusal(text: str, identities: NamedIdentities = BOTH) -> AffiantError:
    with pytest.raises(AffiantError) as caught:
        verify_signed_action(text, identities)
    return caught.value


@pytest.mark.parametrize("tiled", [False, True], ids=["promised-by-the-log", "stamped-by-an-authority"])
def test_who_signed_what_and_when_is_found_without_asking_anybody(
    monkeypatch: pytest.MonkeyPatch, tiled: bool
) -> None:
    text = said(tiled=tiled)
    require_verifiable(BOTH)
    monkeypatch.setattr(socket, "socket", lambda *_, **__: pytest.fail("asked the network"))
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: pytest.fail("asked for a name"))
    found = verify_signed_action(text, BOTH)
    assert (found.name, found.action, found.approves) == (ANN.name, ACTION, True)
    assert (found.made, found.expires, found.via) == (MADE, MADE + 600, "cli")
    statement = read_statement(text, BOTH)
    assert statement.bundle == text.encode()
    assert statement.sig == sha256_name(text.encode())


def test_a_name_is_of_issuer_subject_and_root_together() -> None:
    other = SigningIdentity(Authority())
    names = {
        ANN.name,
        BOB.name,
        other.name,
        SigningIdentity(ANN.authority, ANN.subject, "https://accounts.other").name,
    }
    assert len(names) == 4
    assert BOTH.names == {ANN.name, BOB.name}
    assert NO_IDENTITIES.names == frozenset()


@pytest.mark.parametrize(
    ("subject", "issuer"),
    [
        ("ann@example.org", "https://accounts.other"),
        ("ann@example.org", ISSUER + "/"),
        ("ann@example.org", ISSUER.upper()),
        ("Ann@example.org", ISSUER),
        ("ann@example.org.evil", ISSUER),
        ("nn@example.org", ISSUER),
        ("ann@example.or", ISSUER),
        ("mailto:ann@example.org", ISSUER),
    ],
)
def test_whoever_is_nearly_an_approver_is_none(subject: str, issuer: str) -> None:
    error = refusal(SigningIdentity(ANN.authority, subject, issuer).says(ACTION, at=AT, expires=MADE + 600))
    assert isinstance(error, NotAnApprover)


def test_a_certificate_of_two_names_or_without_an_issuer_names_nobody() -> None:
    for more in ({"identity": (ANN.subject, BOB.subject)}, {"issuer": None}):
        assert isinstance(refusal(said(**more)), StatementMalformed)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: SigningIdentity(Authority()).says(
            ACTION, at=AT, expires=MADE + 600
        ),  # another authority and log
        lambda: SigningIdentity(Authority(log=ANN.authority.log)).says(ACTION, at=AT, expires=MADE + 600),
        lambda: SigningIdentity(Authority(certificates=ANN.authority.certificates)).says(
            ACTION, at=AT, expires=MADE + 600
        ),
        lambda: said(certified_at=AT - timedelta(minutes=11)),  # signed after the certificate had ended
        lambda: said(certified_at=AT + timedelta(seconds=1)),
        lambda: said(certified_in_log=False),
        lambda: said(code_signing=False),
    ],
)
def test_what_does_not_hold_under_the_profiles_root_is_nobodys_word(wrong: Callable[[], str]) -> None:
    error = refusal(wrong())
    assert isinstance(error, StatementUnproven)
    assert error.code == "approval.signature"


def changed(change: Callable[[dict[str, Any]], object], **more: Any) -> str:
    document = json.loads(said(**more))
    change(document)
    return json.dumps(document)


def entry(document: dict[str, Any]) -> dict[str, Any]:
    return document["verificationMaterial"]["tlogEntries"][0]


@pytest.mark.parametrize(
    ("change", "tiled"),
    [
        (lambda document: entry(document).pop("inclusionProof"), False),
        (lambda document: entry(document)["inclusionProof"].pop("checkpoint"), False),
        (lambda document: entry(document).pop("inclusionPromise"), False),
        (lambda document: document["verificationMaterial"].update(tlogEntries=[]), False),
        (lambda document: document["verificationMaterial"].pop("certificate"), False),
        (lambda document: document.update(more=1), False),
        (lambda document: document["dsseEnvelope"].update(payloadType="text/plain"), False),
        (lambda document: document["verificationMaterial"].pop("timestampVerificationData"), True),
        (lambda document: entry(document).update(integratedTime=str(MADE + 1)), False),
        (lambda document: entry(document).update(integratedTime=str(MADE), logIndex="7"), True),
    ],
)
def test_a_bundle_without_proof_of_the_log_or_of_time_is_refused(
    change: Callable[[dict[str, Any]], object], tiled: bool
) -> None:
    assert isinstance(refusal(changed(change, tiled=tiled)), (StatementMalformed, StatementUnproven))


def test_any_changed_character_is_refused_or_means_the_same() -> None:
    text, dice = said(), random.Random(17)
    whole = verify_signed_action(text, BOTH)
    for place in dice.sample(range(len(text)), 150):
        other = dice.choice([char for char in 'AZaz09+/="{}' if char != text[place]])
        try:
            found = verify_signed_action(text[:place] + other + text[place + 1 :], BOTH)
        except AffiantError:
            continue
        assert found == whole  # pragma: no cover - a hint that nobody reads


@pytest.mark.parametrize(
    "statement",
    [
        b"{}",
        b"[]",
        b"\xff",
        action_statement(action=ACTION, approves=True, expires=1) + b" ",
        action_statement(action=ACTION, approves=True, expires=1).replace(b"approval/1", b"publication/1"),
        action_statement(action=ACTION, approves=True, expires=1).replace(b'"action"', b'"reader"'),
        action_statement(action=ACTION, approves=True, expires=1).replace(b'"approve"', b'"maybe"'),
        action_statement(action=ACTION, approves=True, expires=1).replace(b'"exp":1', b'"exp":1,"exp":2'),
        action_statement(action=ACTION, approves=True, expires=1).replace(b'"exp":1', b'"exp":1.5'),
    ],
)
def test_a_signature_over_anything_else_is_no_statement(statement: bytes) -> None:
    assert isinstance(refusal(ANN.bundle(statement, at=AT)), StatementMalformed)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "{}",
        "{" * 30_000,
        '{"a":' * 5_000,
        '{"mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json"}',
        "{" + "\ud800" + "}",
        "{" + "é" * MAX_SIGNED + "}",
        '{"mediaType":"' + "x" * MAX_SIGNED + '"}',
    ],
)
def test_hostile_text_is_refused_before_anything_is_verified(text: str) -> None:
    for read in (lambda: read_statement(text, BOTH), lambda: claimed_identity(text)):
        with pytest.raises(StatementMalformed):
            read()


def test_whoever_names_no_identity_loads_nothing_that_verifies_them() -> None:
    """The supervisor of every session reads statements; few profiles name identities."""
    names = "('published', 'sigstore', 'signed_by_identity')"
    look = (
        "import sys; from affiant.attestation.signatures.approvers.statement import read_statement; "
        f"sys.exit(any(part in name for name in sys.modules for part in {names}))"
    )
    subprocess.run([sys.executable, "-c", look], check=True)


def test_where_nobody_is_named_by_identity_no_bundle_counts() -> None:
    with pytest.raises(NotAnApprover):
        read_statement(said())


def test_the_logs_time_counts_and_lies_within_the_request() -> None:
    def judge(text: str, *, made: int, now: float) -> None:
        judge_statement(
            read_statement(text, BOTH),
            action=ACTION,
            approvers=BOTH.names,
            made=made,
            not_after=made + 600,
            now=now,
        )

    judge(said(), made=MADE, now=MADE + 5)
    for made, now in ((MADE + 61, MADE + 70), (MADE - 61, MADE - 61), (MADE, MADE + 600)):
        with pytest.raises(StatementStale):
            judge(said(expires=made + 600), made=made, now=now)
    with pytest.raises(StatementStale):  # signed after its own end, by a log whose clock is ahead
        judge(said(expires=MADE), made=MADE - 600, now=MADE - 1)


def test_a_trusted_root_under_which_nothing_holds_is_refused_at_the_start() -> None:
    empty = NamedIdentities(
        frozenset({ANN.who}), b'{"mediaType":"application/vnd.dev.sigstore.trustedroot+json"}'
    )
    with pytest.raises(TrustedRootUnusable):
        require_verifiable(empty)
    require_verifiable(NO_IDENTITIES)


def test_a_readers_key_is_introduced_for_one_gateway_and_an_hour() -> None:
    kid = Signer.generate().kid
    text = ANN.introduces(kid, spki=SPKI, at=AT)

    def taken(
        text: str = text, *, kid: str = kid, spki: str = SPKI, now: float = MADE, who: NamedIdentities = BOTH
    ) -> str:
        return verify_signed_reader(text, who, kid=kid, spki=spki, now=now, tolerance_s=60).name

    assert taken() == ANN.name
    assert taken(now=MADE + READER_LIFETIME_S - 1) == ANN.name
    for wrong in (
        {"kid": Signer.generate().kid},
        {"spki": "t" * 42 + "A"},
        {"now": MADE + READER_LIFETIME_S},
        {"now": MADE - 61},
    ):
        with pytest.raises(ReaderRefused):
            taken(**wrong)  # type: ignore[arg-type]
    with pytest.raises(StatementMalformed):
        taken(said())  # an approval introduces nobody
    assert isinstance(refusal(text), StatementMalformed)  # and who is introduced approves nothing by it
    stranger = NamedIdentities(
        frozenset({ApproverIdentity(ISSUER, "eve@example.org")}), root_of(ANN.authority)
    )
    with pytest.raises(NotAnApprover):
        taken(who=stranger)
