"""One request from end to end: what goes up, what comes down, and the one record that every ending has."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from tests.gateway.conftest import Running, serving_gateway
from tests.gateway.session_client import Answer, SessionClient, opened
from tests.gateway.upstream_server import (
    STREAM_HEAD,
    Received,
    ScriptedUpstream,
    Step,
    chunk,
    completion,
    scripted_upstream,
    streamed,
    whole,
)

from affiant.attestation.encoding.binary_text import b64u
from affiant.attestation.encoding.merkle import root
from affiant.attestation.records.receipt import VerifiedReceipt, parse_receipt, receipt_hash, verify_receipt
from affiant.attestation.simulated.served.client import PlatformClient
from affiant.attestation.statements.statement import parse_statement


def sha(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


def receipt_of(session: SessionClient, jti: str) -> VerifiedReceipt:
    answer = session.receipt(jti)
    assert answer.status == 200, answer.body
    return verify_receipt(parse_receipt(answer.body.decode()), parse_statement(session.gateway.keyset))


def record_of(session: SessionClient, answer: Answer) -> VerifiedReceipt:
    return receipt_of(session, answer.headers["affiant-receipt-id"])


def records_of(session: SessionClient, key: X25519PrivateKey) -> list[VerifiedReceipt]:
    """The session's gateway records with their openings, in chain order."""
    bundle = session.bundle()
    disclosures = opened(bundle, key)
    statement = parse_statement(session.gateway.keyset)
    found = []
    for entry in bundle["bundle"]["receipts"]:
        jws = entry["sdjwt"].rstrip("~")
        text = "~".join([jws, *disclosures.get(receipt_hash(jws), ()), ""])
        with suppress(Exception):
            receipt = verify_receipt(parse_receipt(text), statement)
            if receipt.member("agt", "ses") == session.id:
                found.append(receipt)
    return found


# -- with the embedded echo ------------------------------------------------------------------------------------------


def test_a_whole_answer_is_receipted(session: SessionClient) -> None:
    request = json.dumps(
        {"model": "affiant-dev-echo", "messages": [{"role": "user", "content": "hi"}], "n": 1}
    )
    answer = session.chat(request.encode())
    assert answer.status == 200 and answer.json()["choices"][0]["message"]["content"] == "echo: hi"
    assert answer.headers["affiant-keyset"] == session.ksd
    record = record_of(session, answer)
    assert record.kind == "inference" and record.member("res") == {
        **record.member("res"),
        "st": 200,
        "end": "complete",
    }
    shown = record.disclosed
    assert shown.get("req.dig") == shown.get("req.fwd") == sha(request.encode())
    assert (shown.get("req.len"), shown.get("res.len")) == (len(request), len(answer.body))
    assert shown.get("res.dig") == sha(answer.body)
    assert shown.get("mdl.prm") == {"n": "1"} and record.member("mdl", "id") == "affiant-dev-echo"
    assert shown.get("use.in") == answer.json()["usage"]["prompt_tokens"]
    assert record.member("agt", "cseq") == 0 and record.member("agt", "key") == session.key.kid
    assert record.member("up") == [
        {"id": "affiant-dev-echo", "host": "affiant-dev-echo.internal", "bind": "none", "res": "ok"}
    ]
    assert record.member("peer", "chn") == session.made.chn


def test_a_gateway_says_nothing_of_a_name_that_it_is_not_told(session: SessionClient) -> None:
    record = record_of(session, session.say("hi"))
    assert record.disclosed.get("agt.id") is None and record.disclosed.get("agt.user") is not None
    assert len(record.member("agt", "_sd")) == 3  # its place is taken by a decoy


def test_a_stream_is_receipted_event_by_event(session: SessionClient) -> None:
    answer = session.say("several words to stream", stream=True)
    events = [event + b"\n\n" for event in answer.body.split(b"\n\n")[:-1]]
    assert events[-1] == b"data: [DONE]\n\n"
    record = record_of(session, answer)
    assert record.disclosed.get("res.dig") == sha(answer.body)
    assert record.disclosed.get("res.evs") == len(events)
    assert record.disclosed.get("res.evr") == b64u(root(events))


def test_a_nonce_is_echoed(session: SessionClient) -> None:
    nonce = b64u(bytes(range(32)))
    body = {"model": "affiant-dev-echo", "messages": []}
    answer = session.chat(body, headers={"Affiant-Nonce": nonce}, nonce=nonce)
    assert record_of(session, answer).member("eat_nonce") == nonce
    answer = session.chat(body, headers={"Affiant-Nonce": "short"}, nonce="short")
    assert answer.status == 400 and record_of(session, answer).kind == "refusal"


@pytest.mark.parametrize("stream", [False, True])
def test_an_inline_receipt_comes_on_request_without_who_stands_behind(
    session: SessionClient, stream: bool
) -> None:
    body = {"model": "affiant-dev-echo", "stream": stream, "messages": [{"role": "user", "content": "hi"}]}
    answer = session.chat(body, headers={"Affiant-Receipt": "inline"})
    if stream:
        before, mark, rest = answer.body.partition(b": affiant-receipt ")
        assert mark
        text, _, terminal = rest.partition(b"\n")
        assert terminal == b"data: [DONE]\n\n"
        covered, sdjwt = before + terminal, text.decode()
    else:
        covered, sdjwt = answer.body, answer.headers["affiant-receipt"]
    receipt = verify_receipt(parse_receipt(sdjwt), parse_statement(session.gateway.keyset))
    assert receipt.disclosed.get("res.dig") == sha(covered)
    assert receipt.disclosed.get("agt.user") is None and receipt.disclosed.get("res.dig") is not None


@pytest.mark.parametrize("value", ["Inline", "none", "inline, inline", ""])
def test_another_wish_for_a_receipt_is_refused(session: SessionClient, value: str) -> None:
    answer = session.chat({"model": "affiant-dev-echo", "messages": []}, headers={"Affiant-Receipt": value})
    assert (answer.status, answer.code) == (400, "request.malformed")
    assert record_of(session, answer).kind == "refusal"


def test_an_agent_reads_its_receipt_without_user_and_tenant(session: SessionClient) -> None:
    jti = session.say("hi").headers["affiant-receipt-id"]
    for tail in ("", "/bundle"):
        target = f"/v1/receipts/{jti}{tail}"
        mine = session.ask("GET", target).body
        agents = session.ask("GET", target, headers={"Affiant-On-Behalf": "agent"}).body
        assert session.ask("GET", target).status == 200
        assert len(agents) < len(mine)


REFUSED: dict[str, tuple[Callable[[SessionClient], Answer], int, str]] = {
    "a model that is not text": (lambda s: s.chat({"model": 7, "messages": []}), 400, "request.malformed"),
    "two models": (lambda s: s.chat(b'{"model":"a","model":"b","messages":[]}'), 400, "request.malformed"),
    "no json": (lambda s: s.chat(b"hello"), 400, "request.malformed"),
    "nothing": (lambda s: s.chat(b""), 400, "request.malformed"),
    "too much": (lambda s: s.chat(b" " * ((8 << 20) + 1)), 413, "request.too_large"),
    "another media type": (
        lambda s: s.ask("POST", "/v1/chat/completions", b"{}", content_type="text/plain", counted=True),
        415,
        "request.content_type",
    ),
    "an encoded body": (
        lambda s: s.chat(b"{}", headers={"Content-Encoding": "gzip"}),
        415,
        "request.content_encoding",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_refused_request_has_its_record_and_its_counter(session: SessionClient, name: str) -> None:
    ask, status, code = REFUSED[name]
    answer = ask(session)
    assert (answer.status, answer.code) == (status, code)
    record = record_of(session, answer)
    assert (record.kind, record.member("rsn")) == ("refusal", code)
    assert record.member("agt", "cseq") == 0
    assert record.disclosed.get("res.dig") == sha(answer.body)


MODELS = b"""
agent_configs:
  tester:
    tools: []
    models: [small, {name: big, upstream: attested}]
"""


@pytest.mark.parametrize(
    ("model", "code", "decision"),
    [("other", "model.not_allowed", "deny"), ("big", "upstream.not_attested", "deny")],
)
def test_a_model_that_policy_denies_is_refused(
    running: Running, platform: PlatformClient, model: str, code: str, decision: str
) -> None:
    session = SessionClient.start(running.gateway, platform, profile=MODELS)
    answer = session.chat({"model": model, "messages": []})
    assert (answer.status, answer.code) == (403, code)
    record = record_of(session, answer)
    assert record.member("pol", "dec") == decision and record.member("res", "end") == "policy_stop"
    allowed = session.chat({"model": "small", "messages": []})
    assert allowed.status == 200
    assert record_of(session, allowed).disclosed.get("pol.rules") == ["models/0"]


@pytest.mark.parametrize(
    "member",
    [
        *({"models": ["big"]}, {"fallbacks": [{"model": "big"}]}, {"route": "fallback"}, {"extra_body": {}}),
        *({"Fall-Backs": ["big"]}, {"plugins": None}, {"preset": "x"}, {"custom_llm_provider": "big"}),
    ],
)
def test_no_member_but_model_says_which_model_answers_where_a_profile_lists_some(
    running: Running, platform: PlatformClient, member: dict[str, object]
) -> None:
    """Routers in front of many models read such members; the upstream must not be asked."""
    session = SessionClient.start(running.gateway, platform, profile=MODELS)
    answer = session.chat({"model": "small", "messages": [], **member})
    assert (answer.status, answer.code) == (403, "model.not_allowed")
    record = record_of(session, answer)
    assert record.member("pol", "dec") == "deny" and record.member("up") is None
    anything = SessionClient.start(running.gateway, platform)
    refused = anything.chat({"model": "small", "messages": [], **member})
    assert (refused.status, refused.code) == (403, "request.unlisted")


def test_listed_models_are_those_the_profile_allows(
    session: SessionClient, running: Running, platform: PlatformClient
) -> None:
    (listed,) = session.ask("GET", "/v1/models").json()["data"]
    assert listed["id"] == "affiant-dev-echo"
    assert session.ask("GET", "/v1/models/affiant-dev-echo").json() == listed
    missing = session.ask("GET", "/v1/models/org/other")
    assert (missing.status, missing.code) == (404, "model.not_found")
    other = SessionClient.start(running.gateway, platform, profile=MODELS)
    assert other.ask("GET", "/v1/models").json()["data"] == []
    assert other.ask("GET", "/v1/models/affiant-dev-echo").code == "model.not_found"


# -- tools -----------------------------------------------------------------------------------------------------------


def tool(name: str) -> dict:
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}


@pytest.mark.parametrize("stream", [False, True])
def test_an_allowed_tool_call_has_a_record_of_its_own(
    session: SessionClient, openings: X25519PrivateKey, stream: bool
) -> None:
    answer = session.say('call_tool:read_file {"path": "/x"}', stream=stream, tools=[tool("read_file")])
    assert answer.status == 200 and b"read_file" in answer.body
    made = [r for r in records_of(session, openings) if r.kind in ("tool", "inference")]
    assert [r.kind for r in made] == ["tool", "inference"]  # before the call goes on, not after
    assert made[0].disclosed.get("act.name") == "read_file"
    assert made[0].disclosed.get("act.arg") == sha(b'{"path": "/x"}')
    assert made[0].disclosed.get("pol.rules") == ["tools/0"]
    assert made[0].member("par") == [made[1].jti]
    assert made[0].member("agt", "cseq") is None


@pytest.mark.parametrize("stream", [False, True])
def test_a_forbidden_tool_call_ends_the_answer(
    session: SessionClient, openings: X25519PrivateKey, stream: bool
) -> None:
    answer = session.say('call_tool:rm {"path": "/"}', stream=stream)
    assert b'"rm"' not in answer.body
    record = record_of(session, answer)
    assert record.member("res", "end") == "policy_stop" and record.member("pol", "dec") == "deny"
    assert record.disclosed.get("res.dig") == sha(answer.body)
    if stream:
        assert answer.status == 200 and b"[DONE]" not in answer.body
        event = json.loads(answer.body.rstrip().rpartition(b"data: ")[2])
        assert event["error"]["code"] == "tool.not_allowed"
    else:
        assert (answer.status, answer.code) == (403, "tool.not_allowed")
    assert not [r for r in records_of(session, openings) if r.kind == "tool"]


# -- with an upstream that the test scripts --------------------------------------------------------------------------


class Script:
    """What the next request is answered with; one gateway serves all tests of this module."""

    answer: Sequence[Step] | Callable[[Received], Iterable[Step]] = ()

    def __call__(self, received: Received) -> Iterable[Step]:
        return self.answer(received) if callable(self.answer) else self.answer


@pytest.fixture(scope="module")
def scripted(
    tmp_path_factory: pytest.TempPathFactory, platform: PlatformClient, platform_home: Path
) -> Iterator[tuple[Running, ScriptedUpstream, Script]]:
    script = Script()
    with (
        scripted_upstream(script) as upstream,
        serving_gateway(
            tmp_path_factory.mktemp("scripted"),
            platform_home,
            *("--upstream", upstream.url, "--model-alias", "gpt-4o=gpt-4o-2024-08-06"),
        ) as running,
    ):
        yield running, upstream, script


@pytest.fixture
def told(
    scripted: tuple[Running, ScriptedUpstream, Script], platform: PlatformClient, openings: X25519PrivateKey
) -> tuple[SessionClient, ScriptedUpstream, Script]:
    running, upstream, script = scripted
    upstream.received.clear()
    upstream.keep = False
    return SessionClient.start(running.gateway, platform, openings=openings), upstream, script


LISTS: dict[str, tuple[Sequence[Step], int, str | None]] = {
    "down": ([], 502, "upstream.cut"),
    "an error": (whole({"error": {"message": "x"}}, status="500 Oops"), 502, "upstream.answer"),
    "no list": (whole({"models": []}), 502, "upstream.answer"),
    "not JSON": (whole(b"<html>"), 502, "upstream.answer"),
    "our key refused": (whole({"error": "sk-secret"}, status="401 No"), 502, "upstream.unauthorized"),
    "no such path": (whole(b"<html>", status="404 Not Found", content_type="text/html"), 200, None),
    "a list": (whole({"object": "list", "data": []}), 200, None),
}


@pytest.mark.parametrize("name", LISTS)
def test_a_list_of_models_that_cannot_be_had_is_said_to_be_that(
    told: tuple[SessionClient, ScriptedUpstream, Script], name: str
) -> None:
    """An upstream that lists no models is not one that fails: the list is empty."""
    session, _, script = told
    script.answer, status, code = LISTS[name]
    answer = session.ask("GET", "/v1/models")
    assert (answer.status, answer.code if code else None) == (
        status,
        code,
    ) and b"sk-secret" not in answer.body
    assert code or answer.json() == {"object": "list", "data": []}


def test_the_very_bytes_are_forwarded_and_no_header_of_the_clients(
    told: tuple[SessionClient, ScriptedUpstream, Script],
) -> None:
    session, upstream, script = told
    script.answer = whole(completion())
    body = b'{ "model":"m" , "messages":[ ], "temperature":1.0, "user":"\\u00e9" }'
    headers = {
        "X-Gateway-Inference-Fairness-Id": "me",
        "Affiant-Receipt-Id": "forged",
        "X-Priority": "1",
        "Authorization": "Bearer stolen",
        "Cookie": "a=b",
    }
    answer = session.chat(body, headers=headers)
    assert answer.status == 200 and answer.headers["affiant-receipt-id"] != "forged"
    (sent,) = upstream.received
    assert sent.body == body
    assert set(sent.headers) == {
        "host",
        "accept",
        "accept-encoding",
        "user-agent",
        "content-type",
        "content-length",
    }
    assert sent.headers["accept-encoding"] == "identity"


TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
TRACEPARENT = f"00-{TRACE}-{SPAN}-00"


def test_a_valid_trace_goes_upstream_as_it_came_and_is_recorded(
    told: tuple[SessionClient, ScriptedUpstream, Script],
) -> None:
    session, upstream, script = told
    script.answer = whole(completion())
    answer = session.chat(
        {"model": "m", "messages": []}, headers={"Traceparent": TRACEPARENT, "Tracestate": "vendor=1"}
    )
    (sent,) = upstream.received
    assert sent.headers["traceparent"] == TRACEPARENT and "tracestate" not in sent.headers
    assert record_of(session, answer).disclosed.get("trc") == {"t": TRACE, "s": SPAN}


@pytest.mark.parametrize(
    "headers",
    [
        {"traceparent": TRACEPARENT.upper()},
        {"traceparent": f"01{TRACEPARENT[2:]}"},
        {"traceparent": f"00-{'0' * 32}-{SPAN}-01"},
        {"traceparent": TRACEPARENT, "Traceparent": TRACEPARENT},
        {"traceparent": TRACEPARENT, "Traceparent": f"00-{'1' * 32}-{SPAN}-01"},
        {"traceparent": f"{TRACEPARENT}, {TRACEPARENT}"},
        {"traceparent": f"{TRACEPARENT}\tX-Priority: 1"},
        {"traceparent": TRACEPARENT * 700},
    ],
    ids=["case", "version", "zeros", "twice", "two", "list", "more", "long"],
)
def test_what_is_no_trace_is_neither_recorded_nor_passed_on_and_no_error(
    told: tuple[SessionClient, ScriptedUpstream, Script], headers: dict[str, str]
) -> None:
    session, upstream, script = told
    script.answer = whole(completion())
    answer = session.chat({"model": "m", "messages": []}, headers=headers)
    assert answer.status == 200
    (sent,) = upstream.received
    assert b"traceparent" not in sent.head.lower() and b"x-priority" not in sent.head.lower()
    record = record_of(session, answer)
    assert record.disclosed.get("trc") is None and len(record.member("_sd")) == 1


LISTING = b"""
agent_configs:
  tester:
    tools: []
    models: [gpt-4o, small]
"""
_OMITTED = object()


def answered_by(*models: object, stream: bool = False) -> list[Step]:
    """An answer that names these models, a stream one in each event."""

    def named(document: dict, model: object) -> dict:
        return {name: value for name, value in (document | {"model": model}).items() if value is not _OMITTED}

    if not stream:
        (model,) = models
        return whole(named(completion(), model))
    events = [json.loads(event(f"part {at}")[6:]) for at in range(len(models))]
    shown = [named(each, model) for each, model in zip(events, models, strict=True)]
    return streamed(*(b"data: " + json.dumps(each).encode() + b"\n\n" for each in shown), DONE)


@pytest.mark.parametrize("stream", [False, True])
def test_a_receipt_names_the_model_that_answered_beside_the_one_that_was_asked_for(
    told: tuple[SessionClient, ScriptedUpstream, Script], stream: bool
) -> None:
    """An upstream that answers a request for ``gpt-4o`` with a small local model, and says so."""
    session, _, script = told
    script.answer = answered_by("tiny-model-q4", stream=stream)
    answer = session.chat({"model": "gpt-4o", "messages": [], "stream": stream})
    assert answer.status == 200 and b"tiny-model-q4" in answer.body
    record = record_of(session, answer)
    assert record.member("res", "end") == "complete"
    assert (record.member("mdl", "id"), record.member("mdl", "ans")) == ("gpt-4o", "tiny-model-q4")


@pytest.mark.parametrize(
    ("named", "recorded"),
    [
        *((_OMITTED, None), (None, None), ("", None), (7, "\ufffd"), (1.5, "\ufffd")),
        *(
            ("m\x1b[31m", "m\ufffd[31m"),
            ("m\ud800", "m\ufffd"),
            ("\u202em", "\ufffdm"),
            ("x" * 900, "x" * 256),
        ),
    ],
)
def test_a_receipt_can_hold_whatever_an_answer_calls_its_model(
    told: tuple[SessionClient, ScriptedUpstream, Script], named: object, recorded: str | None
) -> None:
    session, _, script = told
    script.answer = answered_by(named)
    record = record_of(session, session.chat({"model": "m", "messages": []}))
    assert record.payload["mdl"]["ans"] == recorded and record.member("res", "end") == "complete"


def test_a_streams_receipt_names_the_model_of_its_first_event_that_names_one(
    told: tuple[SessionClient, ScriptedUpstream, Script],
) -> None:
    session, _, script = told
    script.answer = answered_by("", "first", "second", stream=True)
    record = record_of(session, session.chat({"model": "m", "messages": [], "stream": True}))
    assert record.member("mdl", "ans") == "first"


def test_a_request_without_an_answer_names_no_model_that_answered(
    told: tuple[SessionClient, ScriptedUpstream, Script],
) -> None:
    session, _, script = told
    for script.answer in ([], whole({"model": "x", "error": {"message": "no"}}, status="500 Oops")):
        record = record_of(session, session.chat({"model": "m", "messages": []}))
        assert record.payload["mdl"] == {**record.payload["mdl"], "id": "m", "ans": None}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("named", ["tiny-model-q4", "gpt-4o-mini", "GPT-4o", 7])
def test_an_answer_from_a_model_that_the_profile_does_not_list_is_stopped(
    told: tuple[SessionClient, ScriptedUpstream, Script],
    scripted: tuple[Running, ScriptedUpstream, Script],
    platform: PlatformClient,
    openings: X25519PrivateKey,
    named: object,
    stream: bool,
) -> None:
    _, _, script = told
    session = SessionClient.start(scripted[0].gateway, platform, profile=LISTING, openings=openings)
    script.answer = answered_by(named, stream=stream)
    answer = session.chat({"model": "gpt-4o", "messages": [], "stream": stream})
    assert (
        b"model.answer_not_allowed" in answer.body and b"hi" not in answer.body and b"part" not in answer.body
    )
    record = record_of(session, answer)
    assert (record.member("res", "end"), record.member("pol", "dec")) == ("policy_stop", "deny")
    assert record.member("mdl", "ans") == (named if isinstance(named, str) else "\ufffd")
    assert record.disclosed.get("pol.rules") == [], (
        "no rule denies it, and those that allowed the request do not"
    )


def test_a_stream_whose_later_events_name_another_model_is_stopped_where_models_are_listed(
    told: tuple[SessionClient, ScriptedUpstream, Script],
    scripted: tuple[Running, ScriptedUpstream, Script],
    platform: PlatformClient,
    openings: X25519PrivateKey,
) -> None:
    _, _, script = told
    session = SessionClient.start(scripted[0].gateway, platform, profile=LISTING, openings=openings)
    script.answer = answered_by("gpt-4o", "tiny-model-q4", stream=True)
    answer = session.chat({"model": "gpt-4o", "messages": [], "stream": True})
    assert b"model.answer_not_allowed" in answer.body and b"part 1" not in answer.body
    record = record_of(session, answer)
    assert record.member("res", "end") == "policy_stop"
    assert record.member("mdl", "ans") == "tiny-model-q4", "the one for which it was stopped"
    assert record.disclosed.get("pol.rules") == []


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("named", ["gpt-4o", "gpt-4o-2024-08-06", "small", _OMITTED])
def test_an_answer_from_the_model_asked_for_its_alias_or_another_listed_one_passes(
    told: tuple[SessionClient, ScriptedUpstream, Script],
    scripted: tuple[Running, ScriptedUpstream, Script],
    platform: PlatformClient,
    named: object,
    stream: bool,
) -> None:
    _, _, script = told
    session = SessionClient.start(scripted[0].gateway, platform, profile=LISTING)
    script.answer = answered_by(named, stream=stream)
    answer = session.chat({"model": "gpt-4o", "messages": [], "stream": stream})
    record = record_of(session, answer)
    assert record.member("res", "end") == "complete"
    assert record.payload["mdl"]["ans"] == (None if named is _OMITTED else named)


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_that_readers_could_take_for_another_models_is_refused_where_models_are_listed(
    told: tuple[SessionClient, ScriptedUpstream, Script],
    scripted: tuple[Running, ScriptedUpstream, Script],
    platform: PlatformClient,
    stream: bool,
) -> None:
    _, _, script = told
    session = SessionClient.start(scripted[0].gateway, platform, profile=LISTING)
    document = (json.loads(event("x")[6:]) if stream else completion()) | {"model": "gpt-4o", "Model": "tiny"}
    data = json.dumps(document).encode()
    script.answer = streamed(b"data: " + data + b"\n\n", DONE) if stream else whole(data)
    answer = session.chat({"model": "gpt-4o", "messages": [], "stream": stream})
    assert b"upstream.answer" in answer.body and b"tiny" not in answer.body
    assert record_of(session, answer).member("res", "end") == "upstream_abort"


FETCHING = b"""
agent_configs:
  tester:
    tools: [read_file]
    network_egress:
      - {host: pictures.example.com, methods: [GET], paths: [/public/**]}
      - {host: counted.example.com, limits: {requests: 3}}
"""


def looking(*urls: str) -> dict[str, object]:
    parts = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
    return {
        "model": "m",
        "messages": [{"role": "user", "content": [{"type": "text", "text": "look"}, *parts]}],
    }


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("http://169.254.169.254/latest/meta-data/", "url.not_canonical"),
        ("http://[fd00:ec2::254]/", "url.not_canonical"),
        ("file:///etc/passwd", "url.not_canonical"),
        ("/etc/passwd", "url.not_canonical"),
        ("https://user@pictures.example.com/public/a.png", "url.not_canonical"),
        ("https://pictures.example.com/public/%2e%2e/a.png", "url.not_canonical"),
        ("https://pictures.example.com/private/a.png", "url.not_allowed"),
        ("https://pictures.example.com:8443/public/a.png", "url.not_allowed"),
        ("http://pictures.example.com/public/a.png", "url.not_allowed"),
        ("https://elsewhere.example.com/public/a.png", "url.not_allowed"),
        ("https://counted.example.com/", "url.not_allowed"),
    ],
)
def test_an_agent_has_no_upstream_fetch_what_it_may_not_fetch_itself(
    told: tuple[SessionClient, ScriptedUpstream, Script],
    scripted: tuple[Running, ScriptedUpstream, Script],
    platform: PlatformClient,
    url: str,
    code: str,
) -> None:
    """With no egress at all, a URL in a prompt had the model server fetch it, cloud metadata included."""
    without, upstream, script = told
    script.answer = whole(completion())
    session = SessionClient.start(scripted[0].gateway, platform, profile=FETCHING)
    for asking in (session, without):
        answer = asking.chat(looking("data:image/png;base64,AA==", url))
        assert answer.status == 403 and answer.code in (code, "url.not_allowed")
        assert b"messages[0].content[2].image_url.url" in answer.body
        record = record_of(asking, answer)
        assert (record.kind, record.member("pol", "dec")) == ("refusal", "deny")
        assert record.member("rsn") == answer.code and record.member("res", "end") == "policy_stop"
    assert upstream.received == []


def test_what_the_upstream_may_fetch_is_in_the_receipt_and_hidden(
    told: tuple[SessionClient, ScriptedUpstream, Script],
    scripted: tuple[Running, ScriptedUpstream, Script],
    platform: PlatformClient,
    openings: X25519PrivateKey,
) -> None:
    _, upstream, script = told
    script.answer = whole(completion())
    session = SessionClient.start(scripted[0].gateway, platform, profile=FETCHING, openings=openings)
    url = "https://Pictures.example.com/public/a.png?size=1"
    plain, fetching = (session.chat(looking(*urls)) for urls in (("data:image/png;base64,AA==",), (url, url)))
    assert plain.status == fetching.status == 200
    assert upstream.received[-1].json == looking(url, url)  # the very bytes
    record = record_of(session, fetching)
    target = "GET https://pictures.example.com:443/public/a.png?size=1"
    assert record.disclosed.get("fet.tgt") == [target, target]
    assert "egress/1" in record.disclosed.get("pol.rules")
    assert "pictures" not in json.dumps(record.payload)
    without = record_of(session, plain)
    assert without.disclosed.get("fet.tgt") is None
    assert (
        len(without.member("fet", "_sd")) == len(record.member("fet", "_sd")) == 1
    )  # a decoy is in its place


def test_a_tool_that_the_provider_runs_is_rejected_before_its_address_is_judged(
    told: tuple[SessionClient, ScriptedUpstream, Script],
) -> None:
    session, upstream, _ = told
    entry = {"type": "mcp", "server_label": "x", "server_url": "https://tools.example.com/mcp"}
    answer = session.chat({"model": "m", "messages": [], "tools": [entry]})
    assert (answer.status, answer.code) == (403, "tool.not_allowed") and upstream.received == []


def test_only_what_is_forwarded_is_judged(
    told: tuple[SessionClient, ScriptedUpstream, Script],
) -> None:
    """A tool that the profile does not list goes, and what its entry names with it."""
    session, upstream, script = told
    script.answer = whole(completion())
    entry = {**tool("rm"), "cache_control": {"url": "https://tools.example.com/mcp"}}
    answer = session.chat({"model": "m", "messages": [], "tools": [entry]})
    assert answer.status == 200 and b"tools.example.com" not in upstream.received[-1].body
    assert record_of(session, answer).disclosed.get("fet.tgt") is None


def test_a_request_names_as_many_urls_as_a_record_holds(
    told: tuple[SessionClient, ScriptedUpstream, Script],
    scripted: tuple[Running, ScriptedUpstream, Script],
    platform: PlatformClient,
) -> None:
    _, _, script = told
    script.answer = whole(completion())
    session = SessionClient.start(scripted[0].gateway, platform, profile=FETCHING)
    one = "https://pictures.example.com/public/" + "a" * 150
    assert session.chat(looking(*[one] * 32)).status == 200
    assert session.chat(looking(*[one] * 33)).code == "request.malformed"
    assert session.chat(looking(*[one + "a" * 200] * 32)).code == "request.malformed"


def test_tools_that_the_profile_does_not_list_are_taken_out(
    told: tuple[SessionClient, ScriptedUpstream, Script],
) -> None:
    session, upstream, script = told
    script.answer = whole(completion())
    body = json.dumps({"model": "m", "messages": [], "tools": [tool("rm"), tool("read_file")]})
    answer = session.chat(body.encode())
    (sent,) = upstream.received
    assert [entry["function"]["name"] for entry in sent.json["tools"]] == ["read_file"]
    record = record_of(session, answer)
    assert record.member("pol", "dec") == "redact"
    assert record.disclosed.get("req.dig") == sha(body.encode())
    assert record.disclosed.get("req.fwd") == sha(sent.body) != sha(body.encode())


def event(content: str) -> bytes:
    choice = {"index": 0, "delta": {"content": content}, "finish_reason": None}
    return b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n"


DONE = b"data: [DONE]\n\n"
BROKEN: dict[str, tuple[Sequence[Step], bool, int, str, str]] = {
    "down": ([], False, 502, "upstream.cut", "upstream_abort"),
    "garbage": ([b"\x00\x01\x02 nonsense\r\n\r\n"], False, 502, "upstream.malformed", "upstream_abort"),
    "not json": (whole(b"<html>"), False, 502, "upstream.answer", "upstream_abort"),
    "another media type": (
        whole(b"{}", content_type="text/html"),
        False,
        502,
        "upstream.answer",
        "upstream_abort",
    ),
    "encoded": (whole(b"{}", content_encoding="gzip"), False, 502, "upstream.answer", "upstream_abort"),
    "a redirect": (
        whole(b"{}", status="302 Found", location="http://x"),
        False,
        502,
        "upstream.answer",
        "upstream_abort",
    ),
    "our key refused": (
        whole(b'{"error":"bad key sk-secret"}', status="401 Unauthorized"),
        False,
        502,
        "upstream.unauthorized",
        "upstream_abort",
    ),
    "a stream nobody asked for": (
        streamed(event("x"), DONE),
        False,
        502,
        "upstream.answer",
        "upstream_abort",
    ),
    "cut in a whole answer": (
        [b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n{"],
        False,
        502,
        "upstream.cut",
        "upstream_abort",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_upstream_ends_in_an_error_and_a_record(
    told: tuple[SessionClient, ScriptedUpstream, Script], name: str
) -> None:
    session, _, script = told
    script.answer, stream, status, code, end = BROKEN[name]
    answer = session.chat({"model": "m", "messages": [], "stream": stream})
    assert (answer.status, answer.code) == (status, code), answer.body
    assert b"sk-secret" not in answer.body
    record = record_of(session, answer)
    assert (record.kind, record.member("res", "end"), record.member("res", "st")) == (
        "inference",
        end,
        status,
    )
    assert record.disclosed.get("res.dig") == sha(answer.body)


FINISH = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'


@pytest.mark.parametrize("framed", ["chunked", "length"])
def test_a_framed_body_is_complete_once_its_choice_is_finished(
    told: tuple[SessionClient, ScriptedUpstream, Script], framed: str
) -> None:
    """`transformers serve` sends no `[DONE]`."""
    session, _, script = told
    body = event("one") + FINISH
    length = STREAM_HEAD.replace(b"transfer-encoding: chunked", f"content-length: {len(body)}".encode())
    script.answer = streamed(event("one"), FINISH) if framed == "chunked" else [length + body]
    for headers in ({}, {"Affiant-Receipt": "inline"}):
        answer = session.chat({"model": "m", "messages": [], "stream": True}, headers=headers)
        comment = answer.body.removeprefix(body)
        assert answer.status == 200 and answer.body.startswith(body)
        assert comment.startswith(b": affiant-receipt ") is bool(headers) and bool(comment) is bool(headers)
        record = record_of(session, answer)
        assert record.member("res", "end") == "complete"
        assert record.disclosed.get("res.dig") == sha(body) and record.disclosed.get("res.evs") == 2


CUTS: dict[str, tuple[Sequence[Step], str]] = {
    "after an event": ([STREAM_HEAD, chunk(event("one"))], "upstream.cut"),
    "amid an event": ([STREAM_HEAD, chunk(event("one")), chunk(b"data: {")], "upstream.cut"),
    "amid the terminal event": ([STREAM_HEAD, chunk(event("one")), chunk(DONE[:-1])], "upstream.cut"),
    "ended without the terminal event, unfinished": (streamed(event("one")), "upstream.cut"),
    "finished, and not framed": (
        [STREAM_HEAD.replace(b"transfer-encoding: chunked", b"connection: close"), event("one") + FINISH],
        "upstream.cut",
    ),
    "finished, amid the chunks": ([STREAM_HEAD, chunk(event("one") + FINISH)], "upstream.cut"),
    "finished, and shorter than its length": (
        [STREAM_HEAD.replace(b"transfer-encoding: chunked", b"content-length: 4096"), event("one") + FINISH],
        "upstream.cut",
    ),
    "nonsense after an event": ([STREAM_HEAD, chunk(event("one")), b"zz\r\n"], "upstream.malformed"),
}


@pytest.mark.parametrize("name", CUTS)
def test_a_cut_stream_ends_in_an_error_event_that_the_record_covers(
    told: tuple[SessionClient, ScriptedUpstream, Script], name: str
) -> None:
    session, _, script = told
    script.answer, code = CUTS[name]
    answer = session.chat({"model": "m", "messages": [], "stream": True})
    assert answer.status == 200 and answer.body.startswith(event("one")) and b"[DONE]" not in answer.body
    last = json.loads(answer.body.removeprefix(event("one")).removeprefix(FINISH).removeprefix(b"data: "))
    assert last["error"]["code"] == code
    record = record_of(session, answer)
    assert record.member("res", "end") == "upstream_abort"
    assert record.disclosed.get("res.dig") == sha(answer.body)


HIDDEN = {"choices": [{"index": 0, "message": {"tool_calls": [{"function": {"name": "evil"}}]}}]}
OTHERWISE: dict[str, tuple[Sequence[Step], bool]] = {
    "in another case": (whole({"Choices": HIDDEN["choices"]}), False),
    "with a status that clients take for success": (whole(HIDDEN, status="201 Created"), False),
    "with an error's status": (whole(HIDDEN, status="400 Bad Request"), False),
    "in a stream, in another case": (
        streamed(b"data: " + json.dumps({"Choices": HIDDEN["choices"]}).encode() + b"\n\n", DONE),
        True,
    ),
    "in a stream, as a bare line": (streamed(json.dumps(HIDDEN).encode() + b"\n\n", DONE), True),
    "in the terminal event": (streamed(json.dumps(HIDDEN).encode() + b"\n" + DONE), True),
}


OTHER_CODES = {
    "in another case": "upstream.unlisted",
    "in a stream, in another case": "upstream.unlisted",
    "with a status that clients take for success": "tool.not_allowed",
}


@pytest.mark.parametrize("name", OTHERWISE)
def test_a_call_that_another_reader_would_find_does_not_reach_the_agent(
    told: tuple[SessionClient, ScriptedUpstream, Script], name: str
) -> None:
    session, _, script = told
    script.answer, stream = OTHERWISE[name]
    answer = session.chat({"model": "m", "messages": [], "stream": stream})
    assert b"evil" not in answer.body and b"[DONE]" not in answer.body
    code = json.loads(answer.body.removeprefix(b"data: "))["error"]["code"]
    assert code == OTHER_CODES.get(name, "upstream.answer")
    assert record_of(session, answer).disclosed.get("res.dig") == sha(answer.body)


def test_an_upstreams_own_error_is_passed_on_whole(
    told: tuple[SessionClient, ScriptedUpstream, Script],
) -> None:
    session, _, script = told
    script.answer = whole({"error": {"message": "overloaded"}}, status="503 Busy")
    answer = session.chat({"model": "m", "messages": [], "stream": True})
    assert answer.status == 503 and answer.json() == {"error": {"message": "overloaded"}}
    record = record_of(session, answer)
    assert (record.member("res", "end"), record.member("res", "st")) == ("complete", 503)


def test_frames_come_as_they_are_sent_and_the_end_only_after_the_record(
    told: tuple[SessionClient, ScriptedUpstream, Script],
) -> None:
    session, _, script = told
    script.answer = streamed(event("one"), 0.15, event("two"), 0.15, event("three"), DONE)
    arrivals = []
    with session.streaming("x") as response:
        while data := response.read1(65536):
            arrivals.append((time.monotonic(), data))
    assert [data for _, data in arrivals][:2] == [event("one"), event("two")]
    assert arrivals[1][0] - arrivals[0][0] > 0.1
    assert b"".join(data for _, data in arrivals) == event("one") + event("two") + event("three") + DONE


def test_requests_that_run_together_each_have_their_record(
    told: tuple[SessionClient, ScriptedUpstream, Script], openings: X25519PrivateKey
) -> None:
    session, _, script = told
    script.answer = lambda received: [0.05 * (received.json["seed"] % 3), *whole(completion())]
    answers: list[Answer] = []
    threads = [
        threading.Thread(
            target=lambda n=n: answers.append(session.chat({"model": "m", "messages": [], "seed": n}))
        )
        for n in range(12)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert [a.status for a in answers] == [200] * 12
    made = [r for r in records_of(session, openings) if r.kind == "inference"]
    assert sorted(r.member("agt", "seq") for r in made) == list(range(1, 13))
    assert sorted(r.member("agt", "cseq") for r in made) == list(range(12))
    assert session.close().status == 200
