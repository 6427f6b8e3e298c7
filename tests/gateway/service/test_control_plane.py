"""The public face: fresh evidence, documents as exact bytes, health, and errors in one form."""

from __future__ import annotations

import json
import secrets
from pathlib import Path

import pytest
from tests.gateway.conftest import Running
from tests.gateway.in_process import settings_for
from tests.gateway.session_client import Gateway, SessionClient, WrongKey

from affiant.attestation.encoding.binary_text import b64u, from_b64u, sha256_name
from affiant.attestation.release.boot import Image
from affiant.attestation.schema.agent_routes import AGENT_ROUTES, AgentRoute
from affiant.attestation.simulated.served.client import PlatformClient
from affiant.attestation.statements.evidence import parse_evidence
from affiant.attestation.statements.gateway_config import parse_gateway_config
from affiant.attestation.statements.statement import parse_statement, report_data
from affiant.attestation.tdx.appraise.appraisal import appraise
from affiant.attestation.tdx.appraise.reference import parse_reference_values
from affiant.attestation.tdx.event_log.eventlog import parse_event_log
from affiant.attestation.tdx.quote.quote import parse_quote
from affiant.attestation.tdx.tcb.collateral_verification import verify_collateral
from affiant.attestation.tdx.verify.verify import verify_quote

JSON = {"Content-Type": "application/json"}


def attest(gateway: Gateway, nonce: str) -> bytes:
    body = json.dumps({"nonce": nonce}).encode()
    answer = gateway.ask("POST", "/.well-known/affiant/attest", body, JSON)
    assert answer.status == 200, answer.body
    return from_b64u(answer.json()["evidence"])


def test_fresh_evidence_is_appraised_like_any(
    running: Running, platform: PlatformClient, tmp_path: object
) -> None:
    from datetime import UTC, datetime

    gateway, nonce, now = running.gateway, b64u(secrets.token_bytes(32)), datetime.now(UTC)
    evidence = parse_evidence(attest(gateway, nonce))
    statement = parse_statement(evidence.statement)
    config = parse_gateway_config(gateway.config)
    reference = parse_reference_values(settings_for(platform, Path("unused")).reference.raw)
    collateral = verify_collateral(platform.collateral(), now=now, trust=reference.trust_roots())
    appraisal = appraise(
        verify_quote(parse_quote(evidence.quote), collateral, now=now),
        reference,
        image="gateway",
        mrconfigid=config.mrconfigid,
        report_data=report_data(evidence.statement),
        log=parse_event_log(evidence.eventlog),
    )
    assert appraisal.tier.value == "none" and Image(appraisal.image) is Image.GATEWAY
    assert (statement.nonce, statement.policy) == (nonce, config.digest)
    assert statement.tls_spki == gateway.spki == running.ready["spki"]
    assert statement.keyset_digest == parse_statement(gateway.keyset).keyset_digest == running.ready["keyset"]


def test_documents_are_served_as_exact_bytes(running: Running) -> None:
    assert sha256_name(running.gateway.config) == running.ready["config"]
    assert parse_statement(running.gateway.keyset).nonce is None


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{}", 422),
        (b"", 422),
        (b'{"nonce": 7}', 422),
        (b'{"nonce": "hunter2-secret", "more": 1}', 422),
        (b'{"nonce": "hunter2-secret"}', 400),
        (b"not json hunter2-secret", 422),
    ],
)
def test_a_refused_form_is_not_repeated(gateway: Gateway, body: bytes, status: int) -> None:
    answer = gateway.ask("POST", "/.well-known/affiant/attest", body, JSON)
    assert answer.status == status
    assert set(answer.json()["error"]) == {"message", "type", "code", "param"}
    assert b"hunter2" not in answer.body


@pytest.mark.parametrize(
    ("method", "target", "status"),
    [
        ("GET", "/nowhere", 404),
        ("GET", "/v1/sessions", 405),
        ("DELETE", "/v1/sessions/nonce", 405),
        ("GET", "/v1/chat/completions", 404),
        ("POST", "/v1/chat/completions/", 404),
        ("GET", "/v1/receipts/..%2f..%2fetc", 404),
        ("GET", "/v1/receipts/short", 422),
        ("GET", f"/v1/receipts/{'A' * 22}%0a", 422),
        ("HEAD", "/readyz", 405),
        ("GET", "/docs", 404),
    ],
)
def test_other_paths_have_errors_of_the_same_form(
    gateway: Gateway, method: str, target: str, status: int
) -> None:
    answer = gateway.ask(method, target)
    assert answer.status == status
    allowed = {"/v1/sessions": "POST", "/v1/sessions/nonce": "POST", "/readyz": "GET"}
    assert answer.headers.get("allow") == (allowed[target] if status == 405 else None)
    if method == "HEAD":
        return
    assert set(answer.json()["error"]) == {"message", "type", "code", "param"}


@pytest.mark.parametrize(
    "route", [each for each in AGENT_ROUTES if each.template != "/mcp"], ids=lambda route: route.name
)
def test_every_route_that_a_supervisor_lets_through_is_served(gateway: Gateway, route: AgentRoute) -> None:
    path = route.template.replace("{model}", "org/m").replace("{receipt}", "A" * 22)
    assert gateway.ask(route.method, path).status == 401, "only the proof is missing"


def test_what_is_not_served_is_an_error_of_its_api_and_says_what_is(gateway: Gateway) -> None:
    answer = gateway.ask("POST", "/v1/messages/batches")
    assert (answer.status, answer.json()["type"]) == (404, "error")
    assert "POST /v1/chat/completions" in answer.json()["error"]["message"]
    assert gateway.ask("POST", "/v1/nothing").code == "not_found"


def test_health(gateway: Gateway) -> None:
    assert gateway.ask("GET", "/healthz").json() == {"status": "ok"}
    assert gateway.ask("GET", "/readyz").json() == {"ready": True}


def test_the_openapi_document_says_what_each_route_takes_and_answers(gateway: Gateway) -> None:
    shown = gateway.ask("GET", "/openapi.json").json()
    document = json.loads((Path(__file__).parent / "openapi.json").read_text())
    assert shown == document


def test_a_form_error_names_the_member_or_the_parameter(gateway: Gateway) -> None:
    attest = gateway.ask("POST", "/.well-known/affiant/attest", b'{"nonce": 7, "more": 1}', JSON)
    assert attest.json()["error"]["message"] == "nonce, more: not a request of this form"
    path = gateway.ask("GET", "/v1/receipts/short")
    assert path.json()["error"]["message"] == "path.receipt: not a request of this form"


def test_a_client_that_pins_another_key_notices(gateway: Gateway) -> None:
    with pytest.raises(WrongKey):
        Gateway(gateway.url, "A" * 43).ask("GET", "/healthz")


def test_a_receipts_bundle_introduces_its_signer(session: SessionClient) -> None:
    from affiant.attestation.bundle.bundle import parse_bundle

    jti = session.say("hi").headers["affiant-receipt-id"]
    bundle = parse_bundle(session.ask("GET", f"/v1/receipts/{jti}/bundle").body)
    kinds = [json.loads(from_b64u(text.split(".")[1]))["kind"] for text in bundle.receipts]
    assert kinds[0] == "boot"
    assert kinds[-2:] == ["session-start", "inference"]
    assert set(kinds[1:-2]) <= {"epoch"}
    assert len(bundle.keysets) == len(bundle.evidence) == 2 and bundle.results and bundle.endorsements
