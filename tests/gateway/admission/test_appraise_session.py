"""Admission: one wrong fact each, and nothing else wrong, against the real platform and a real gateway."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.gateway.conftest import Running, serving_gateway, serving_platform
from tests.gateway.in_process import in_process
from tests.gateway.session_client import (
    ADMISSION_TYPE,
    Draft,
    Gateway,
    SessionClient,
    admission_headers,
    admission_of,
    admit,
    draft,
    evidence_of,
    start_of,
)

from affiant.attestation.encoding.binary_text import b64u, from_b64u
from affiant.attestation.encoding.canonical import canonical, parse_canonical
from affiant.attestation.encoding.keys import Signer
from affiant.attestation.records.receipt import parse_receipt, verify_receipt
from affiant.attestation.records.task_label import make_task_label
from affiant.attestation.release.boot import Image
from affiant.attestation.simulated.served.client import PlatformClient
from affiant.attestation.statements.evidence import Admission, parse_evidence, wrap_admission
from affiant.attestation.statements.manifest import (
    GatewayIdentity,
    Manifest,
    make_activation,
    make_manifest,
    mrconfigid,
    session_events,
)
from affiant.attestation.statements.statement import parse_statement
from affiant.policy.loading.load import load_profiles

OTHER = "sha256:" + "0" * 64


def test_a_session_in_order_is_admitted(gateway: Gateway, platform: PlatformClient) -> None:
    session = SessionClient.start(gateway, platform)
    start = verify_receipt(parse_receipt(str(session.admitted["start"])), parse_statement(gateway.keyset))
    assert (start.kind, start.member("agt", "seq"), start.member("agt", "ses")) == (
        "session-start",
        0,
        session.id,
    )
    assert start.member("man") == {"man": session.made.manifest.digest, "act": session.made.activation.digest}
    assert start.member("att", "ses", "tier") == "none"  # simulated evidence affirms nothing
    assert session.admitted["head"] == {"chn": start.chn, "seq": start.seq, "rh": start.rh}


def test_a_task_label_is_repeated_in_the_start_record_and_never_shown(
    gateway: Gateway, platform: PlatformClient
) -> None:
    label = make_task_label({"workflow": "nightly", "attempt": 2}, random_bytes=secrets.token_bytes)
    made = activation_like(draft(gateway), task=label.digests)
    answer = admit(gateway, made, platform)
    start = verify_receipt(parse_receipt(str(answer.json()["start"])), parse_statement(gateway.keyset))
    assert start.member("tsk") == {"_sd": list(label.digests)}
    assert not [path for path in start.disclosed.values if path.startswith("tsk")]


def with_manifest(made: Draft, manifest: Manifest) -> Draft:
    """``made`` for another manifest, carried through to every place that names it."""
    return replace(
        made,
        manifest=manifest,
        events=list(session_events(manifest, made.activation)),
        mrconfigid=mrconfigid(manifest),
    )


def manifest_like(made: Draft, **changes: object) -> Manifest:
    manifest = made.manifest
    return make_manifest(
        **{
            "cls": manifest.cls,
            "profile_digest": manifest.profile_digest,
            "file_digest": manifest.file_digest,
            "supervisor": manifest.supervisor,
            "rootfs": manifest.rootfs,
            "runtime": None,
            "isolation_floor": manifest.isolation_floor,
            "gateway": manifest.gateway,
            "hosts": {},
            "upstream_roots": (),
            **changes,
        }
    )


def gateway_like(made: Draft, **changes: object) -> Draft:
    identity = made.manifest.gateway
    members = {
        "origin": identity.origin,
        "reference": identity.reference,
        "config": identity.config,
        "cls": identity.cls,
        **changes,
    }
    return with_manifest(made, manifest_like(made, gateway=GatewayIdentity(**members)))


def activation_like(made: Draft, **changes: object) -> Draft:
    activation = made.activation
    changed = make_activation(
        **{
            "session": activation.session,
            "agent": activation.agent,
            "input_digest": None,
            "isolation": activation.isolation,
            "challenge": activation.challenge,
            "expires": activation.expires,
            "starter": activation.starter,
            "openings": activation.openings,
            **changes,
        }
    )
    return replace(made, activation=changed, events=list(session_events(made.manifest, changed)))


def flip(place: int) -> Callable[[bytes], bytes]:
    return lambda raw: raw[:place] + bytes([raw[place] ^ 1]) + raw[place + 1 :]


def replaced(name: str, value: object) -> Callable[[bytes], bytes]:
    def alter(raw: bytes) -> bytes:
        members = parse_canonical(raw)
        assert isinstance(members, dict)
        return canonical({**members, name: value})

    return alter


def swapped(made: Draft) -> list:
    events = list(made.events)
    events[1], events[2] = events[2], events[1]
    return events


OTHER_PROFILE = load_profiles(b"agent_configs: {other: {tools: [rm]}}").profile("other")

WRONG: dict[str, tuple[Callable[[Draft], Draft], str]] = {
    "a nonce of somebody else": (
        lambda d: replace(d, nonce=b64u(secrets.token_bytes(32))),
        "admission.nonce",
    ),
    "no nonce": (lambda d: replace(d, alter_statement=replaced("nonce", None)), "admission.nonce"),
    "another gateway's keyset": (lambda d: replace(d, gks=b64u(bytes(32))), "admission.mismatch"),
    "a statement for another session": (
        lambda d: replace(d, statement_session=b64u(bytes(16))),
        "admission.mismatch",
    ),
    "a statement for another manifest": (lambda d: replace(d, man=b64u(bytes(32))), "admission.mismatch"),
    "a statement for another activation": (lambda d: replace(d, act=b64u(bytes(32))), "admission.mismatch"),
    "an expired statement": (lambda d: replace(d, not_after=int(time.time()) - 1), "admission.expired"),
    "an expired activation": (
        lambda d: activation_like(d, expires=int(time.time()) - 1),
        "admission.expired",
    ),
    "an isolation below the manifest's floor": (
        lambda d: activation_like(d, isolation="none"),
        "admission.isolation",
    ),
    "hardware claimed in the statement": (lambda d: replace(d, cls="hardware"), "admission.mismatch"),
    "hardware claimed in the manifest": (
        lambda d: with_manifest(
            d,
            manifest_like(
                d,
                cls="hardware",
                gateway=replace(d.manifest.gateway, cls="hardware"),
            ),
        ),
        "admission.mismatch",
    ),
    "another gateway configuration": (lambda d: gateway_like(d, config=OTHER), "admission.mismatch"),
    "other reference values": (lambda d: gateway_like(d, reference=OTHER), "admission.mismatch"),
    "a profile that is not the manifest's": (
        lambda d: replace(d, policy=OTHER_PROFILE.normal_form),
        "admission.mismatch",
    ),
    "a manifest that was swapped after launch": (
        lambda d: replace(
            with_manifest(d, manifest_like(d, profile_digest=OTHER_PROFILE.digest)),
            policy=OTHER_PROFILE.normal_form,
            mrconfigid=d.mrconfigid,
        ),
        "td.mrconfigid",
    ),
    "a TD whose launcher bound nothing": (lambda d: replace(d, mrconfigid=bytes(48)), "td.mrconfigid"),
    "an openings key of low order": (
        lambda d: activation_like(d, openings=b64u(bytes(32))),
        "admission.mismatch",
    ),
    "events in another order": (lambda d: replace(d, events=swapped(d)), "td.rtmr3_events"),
    "an event left out": (lambda d: replace(d, events=d.events[:-1]), "td.rtmr3_events"),
    "an event twice": (lambda d: replace(d, events=[*d.events, d.events[-1]]), "td.rtmr3_events"),
    "an event after the barrier": (
        lambda d: replace(d, events=[*d.events, ("affiant-policy", {"dig": "x"})]),
        "td.rtmr3_events",
    ),
    "another activation in RTMR3": (
        lambda d: replace(
            d, events=list(session_events(d.manifest, activation_like(d, expires=1).activation))
        ),
        "td.rtmr3_events",
    ),
    "a log that is not what was extended": (
        lambda d: replace(d, alter_log=lambda raw: raw.replace(b"affiant-sim-kernel", b"affiant-sim-kernal")),
        "td.event_log",
    ),
    "a gateway's image": (lambda d: replace(d, image=Image.GATEWAY), "td.image"),
    "a flipped bit in MRTD": (lambda d: replace(d, alter_quote=flip(48 + 136)), "quote.signature"),
    "a flipped bit in REPORTDATA": (lambda d: replace(d, alter_quote=flip(48 + 520)), "quote.signature"),
    "a flipped bit in the signature": (
        lambda d: replace(d, alter_quote=flip(48 + 584 + 4)),
        "quote.signature",
    ),
    "a statement changed after the quote": (lambda d: d, "td.report_data"),
}


def code_of(family: str, found: str) -> bool:
    """Codes of the quote verifier are its own; here only that the refusal comes from the right place."""
    return found == family


@pytest.mark.parametrize("name", [name for name in WRONG if name != "a statement changed after the quote"])
def test_one_wrong_fact_is_refused(name: str, gateway: Gateway, platform: PlatformClient) -> None:
    change, expected = WRONG[name]
    answer = admit(gateway, change(draft(gateway)), platform)
    assert 400 <= answer.status < 500
    if expected.startswith(("td.", "quote.")):
        assert answer.code.split(".")[0] not in {"admission", "request", "gateway", "fmt"}, answer.body
    else:
        assert answer.code == expected, answer.body
    assert len(answer.headers["affiant-receipt-id"]) == 22


def test_a_statement_changed_after_the_quote_is_refused(gateway: Gateway, platform: PlatformClient) -> None:
    made = draft(gateway)
    evidence = parse_canonical(evidence_of(made, platform))
    assert isinstance(evidence, dict)
    other = replace(made, key=Signer.generate()).statement()
    evidence["statement"][1] = b64u(other)
    body = wrap_admission(Admission(canonical(evidence), made.policy))
    answer = gateway.ask("POST", "/v1/sessions", body, admission_headers(made.nonce))
    assert answer.status == 403 and not answer.code.startswith(("admission.", "fmt."))


def test_a_nonce_is_used_up_by_a_refusal_too(gateway: Gateway, platform: PlatformClient) -> None:
    nonce = gateway.nonce()
    assert admit(gateway, draft(gateway, nonce=nonce, gks=b64u(bytes(32))), platform).status == 403
    assert admit(gateway, draft(gateway, nonce=nonce), platform).code == "admission.nonce"


def test_evidence_without_a_quote_over_it_uses_up_no_nonce(platform: PlatformClient, tmp_path: Path) -> None:
    """So the memory of used nonces is filled by nobody who has no TD, however much junk is sent."""
    junk: tuple[Callable[[bytes], bytes], ...] = (lambda quote: b"junk", lambda quote: bytes(len(quote)))
    with in_process(platform, tmp_path / "store") as inside:
        inside.service.admissions.nonces._limit = 1
        for alter in (*junk, *junk):
            answer = admit(inside, draft(inside, alter_quote=alter), platform)
            assert 400 <= answer.status < 500 and answer.code.startswith("quote."), answer.body
        made = draft(inside)
        other = replace(made, alter_quote=lambda _, quote=quote_of(draft(inside), platform): quote)
        assert admit(inside, other, platform).code == "appraisal.report_data"
        assert admit(inside, made, platform).status == 201


def quote_of(made: Draft, platform: PlatformClient) -> bytes:
    """A genuine quote, over the statement of ``made``."""
    return parse_evidence(evidence_of(made, platform)).quote


def test_evidence_is_admitted_once(gateway: Gateway, platform: PlatformClient) -> None:
    made = draft(gateway)
    body, headers = admission_of(made, platform), admission_headers(made.nonce)
    assert gateway.ask("POST", "/v1/sessions", body, headers).status == 201
    assert gateway.ask("POST", "/v1/sessions", body, headers).code == "admission.nonce"


@pytest.mark.parametrize("what", ["session", "activation", "key", "chain"])
def test_nothing_is_admitted_a_second_time(what: str, gateway: Gateway, platform: PlatformClient) -> None:
    first = draft(gateway)
    assert admit(gateway, first, platform).status == 201
    again = draft(gateway)
    changes: dict[str, Callable[[], Draft]] = {
        "session": lambda: activation_like(again, session=first.activation.session),
        "activation": lambda: replace(
            again, activation=first.activation, events=list(session_events(again.manifest, first.activation))
        ),
        "key": lambda: replace(again, key=first.key),
        "chain": lambda: replace(again, chn=first.chn),
    }
    assert admit(gateway, changes[what](), platform).code == "admission.replayed"


@pytest.mark.parametrize(
    ("body", "content_type", "status"),
    [
        (b"", ADMISSION_TYPE, 400),
        (b"{}", ADMISSION_TYPE, 400),
        (b"\x00" * 100, ADMISSION_TYPE, 400),
        (b"[" * 100_000, ADMISSION_TYPE, 400),
        (b"{}", "application/json", 415),
        (b"x" * (2 << 20), ADMISSION_TYPE, 413),
    ],
)
def test_garbage_is_refused_and_receipted(
    gateway: Gateway, body: bytes, content_type: str, status: int
) -> None:
    headers = {**admission_headers(gateway.nonce()), "Content-Type": content_type}
    answer = gateway.ask("POST", "/v1/sessions", body, headers)
    assert answer.status == status
    assert answer.headers["affiant-receipt-id"]


def test_a_gateways_own_evidence_is_not_a_sessions(gateway: Gateway) -> None:
    fresh = gateway.ask(
        "POST",
        "/.well-known/affiant/attest",
        b'{"nonce":"%s"}' % b64u(bytes(32)).encode(),
        {"Content-Type": "application/json"},
    )
    body = wrap_admission(Admission(from_b64u(fresh.json()["evidence"]), OTHER_PROFILE.normal_form))
    headers = admission_headers(gateway.nonce())
    assert gateway.ask("POST", "/v1/sessions", body, headers).code == "admission.mismatch"


def test_a_platform_whose_key_is_revoked_admits_nobody(tmp_path: Path, release: None) -> None:
    with (
        serving_platform(tmp_path / "p", "--dangerous-revoke-pck") as revoked,
        serving_gateway(tmp_path / "g", tmp_path / "p") as running,
    ):
        answer = admit(running.gateway, draft(running.gateway), revoked)
        assert answer.status == 403
        assert "revoked" in answer.code


def test_another_platforms_quote_is_refused(running: Running, tmp_path: Path) -> None:
    with serving_platform(tmp_path) as stranger:
        answer = admit(running.gateway, draft(running.gateway), stranger)
        assert answer.status in {400, 403} and not answer.code.startswith(("admission.", "fmt."))


def test_a_session_start_says_what_the_evidence_said(gateway: Gateway, platform: PlatformClient) -> None:
    session = SessionClient.start(gateway, platform)
    start = start_of(session)
    assert start["iso"] == "bwrap-landlock" and start["rfs"] == "host-usr"
    assert (
        start["pol"]["bind"] == "mrconfigid" and start["pol"]["dig"] == session.made.manifest.profile_digest
    )
