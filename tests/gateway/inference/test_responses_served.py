"""The Responses API from end to end: bound ids, judged responses, one record for each request."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from tests.gateway.conftest import serving_gateway
from tests.gateway.inference.test_inference import record_of, records_of, sha
from tests.gateway.responses_upstream import ResponsesServer, responses_upstream
from tests.gateway.session_client import Answer, Gateway, SessionClient
from tests.gateway.upstream_server import ScriptedUpstream, streamed, whole

from affiant.attestation.simulated.served.client import PlatformClient

Upstream = tuple[ScriptedUpstream, ResponsesServer]
CREATE = "/v1/responses"
LISTED = b"agent_configs: {tester: {models: [m], tools: [read_file]}}"
SEARCHES = b"agent_configs: {tester: {provider_tools: [web_search, mcp], tools: [read_file]}}"
BUDGET = b"agent_configs: {tester: {limits: {tokens: 300}}}"
SEARCH = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
RM = {"type": "function_call", "id": "fc_9", "call_id": "c_9", "name": "rm", "arguments": "{}"}


@pytest.fixture(scope="module")
def upstream() -> Iterator[Upstream]:
    with responses_upstream() as started:
        yield started


@pytest.fixture(scope="module")
def served(
    tmp_path_factory: pytest.TempPathFactory, platform_home: Path, upstream: Upstream
) -> Iterator[Gateway]:
    home = tmp_path_factory.mktemp("responses")
    with serving_gateway(home, platform_home, "--upstream", upstream[0].url) as running:
        yield running.gateway


@pytest.fixture
def session(
    served: Gateway, platform: PlatformClient, upstream: Upstream, openings: X25519PrivateKey
) -> Iterator[SessionClient]:
    upstream[0].received.clear()
    yield SessionClient.start(served, platform, openings=openings)
    upstream[1].alter, upstream[1].answer = lambda response: response, lambda _: None


def create(session: SessionClient, text: object = "hi", **more: object) -> Answer:
    return session.post(CREATE, {"model": "m", "input": text, **more})


def about(session: SessionClient, method: str, tail: str, body: bytes = b"") -> Answer:
    return session.ask(method, f"{CREATE}/{tail}", body, counted=True)


def events_of(answer: Answer) -> list[dict]:
    events = answer.body.decode().split("\n\n")[:-1]
    return [json.loads(event.partition("data: ")[2]) for event in events]


def test_bytes_go_through_and_one_record_says_so(
    session: SessionClient, upstream: Upstream, openings: X25519PrivateKey
) -> None:
    asked = json.dumps({"model": "m", "input": "hi", "max_output_tokens": 64}, indent=2).encode()
    answer = session.post(CREATE, asked)
    assert answer.status == 200 and answer.json()["output"][0]["content"][0]["text"] == "echo: hi"
    (received,) = upstream[0].received
    assert received.body == asked and received.head.startswith(b"POST /v1/responses ")
    (record,) = [found for found in records_of(session, openings) if found.kind == "inference"]
    assert (record.member("req", "m"), record.member("req", "p")) == ("POST", CREATE)
    assert (record.member("mdl", "id"), record.member("mdl", "ans")) == ("m", "m")
    usage = answer.json()["usage"]
    assert record.disclosed.get("use.in") == usage["input_tokens"] > 0
    assert record.disclosed.get("use.out") == usage["output_tokens"] == 2
    assert record.disclosed.get("res.dig") == sha(answer.body)
    assert record.disclosed.get("mdl.prm") == {"max_output_tokens": "64"}


def test_a_stream_is_receipted_with_its_terminal_event(
    session: SessionClient, openings: X25519PrivateKey
) -> None:
    answer = create(session, 'call_tool:read_file {"path": "a"}', stream=True)
    events = events_of(answer)
    assert events[-1]["type"] == "response.completed"
    kinds = [found.kind for found in records_of(session, openings)]
    assert kinds[-2:] == ["tool", "inference"]
    record = record_of(session, answer)
    assert record.member("res", "end") == "complete" and record.member("mdl", "ans") == "m"
    assert record.disclosed.get("res.dig") == sha(answer.body)
    assert record.disclosed.get("res.evs") == len(events)
    assert record.disclosed.get("use.in") == events[-1]["response"]["usage"]["input_tokens"]


@pytest.mark.parametrize("stream", [False, True])
def test_an_inline_receipt_is_right_before_the_terminal_event(
    session: SessionClient, *, stream: bool
) -> None:
    request = {"model": "m", "input": "hi", "stream": stream}
    answer = session.post(CREATE, request, headers={"Affiant-Receipt": "inline"})
    if stream:
        before, _, rest = answer.body.partition(b": affiant-receipt ")
        assert rest.partition(b"\n")[2].startswith(b"event: response.completed\n") and before
    else:
        assert answer.headers["affiant-receipt"]


@pytest.mark.parametrize("stream", [False, True])
def test_a_call_that_is_not_allowed_ends_the_response(session: SessionClient, *, stream: bool) -> None:
    answer = create(session, "call_tool:rm {}", stream=stream)
    assert b'"name":"rm"' not in answer.body.replace(b" ", b"")
    if stream:
        last = events_of(answer)[-1]
        assert (last["type"], last["code"]) == ("error", "tool.not_allowed")
        assert last["error"]["type"] == "permission_error"
    else:
        assert (answer.status, answer.code) == (403, "tool.not_allowed")
    assert record_of(session, answer).member("res", "end") == "policy_stop"


def test_every_route_reaches_the_upstream_and_has_its_record(
    session: SessionClient, upstream: Upstream, openings: X25519PrivateKey
) -> None:
    name = create(session).json()["id"]
    query = "include%5B%5D=file_search_call.results&stream=false"
    assert about(session, "GET", f"{name}?{query}").json()["id"] == name
    assert about(session, "GET", f"{name}/input_items?limit=2&order=asc").json()["object"] == "list"
    assert about(session, "POST", f"{name}/cancel").json()["status"] == "cancelled"
    again = session.post(f"{CREATE}/compact", {"model": "m", "input": "hi"})
    assert again.json()["object"] == "response.compaction"
    gone = about(session, "DELETE", name)
    assert gone.json() == {"id": name, "object": "response", "deleted": True}
    assert about(session, "GET", name).status == 404  # the upstream's own word
    records = [found for found in records_of(session, openings) if found.kind == "inference"]
    one = "/v1/responses/{response}"
    assert [(found.member("req", "m"), found.member("req", "p")) for found in records] == [
        ("POST", CREATE),
        ("GET", one),
        ("GET", f"{one}/input_items"),
        ("POST", f"{one}/cancel"),
        ("POST", f"{CREATE}/compact"),
        ("DELETE", one),
        ("GET", one),
    ]
    assert [found.member("agt", "cseq") for found in records] == list(range(7))
    assert {found.member("mdl", "id") for found in records} == {"m"}
    spent = [found.disclosed.get("use.out") for found in records]
    assert [each is not None for each in spent] == [True, False, False, False, True, False, False]
    heads = [received.head.split(b" HTTP")[0].decode() for received in upstream[0].received]
    assert heads == [
        "POST /v1/responses",
        f"GET /v1/responses/{name}?{query}",
        f"GET /v1/responses/{name}/input_items?limit=2&order=asc",
        f"POST /v1/responses/{name}/cancel",
        "POST /v1/responses/compact",
        f"DELETE /v1/responses/{name}",
        f"GET /v1/responses/{name}",
    ]


def test_a_stored_response_is_streamed_from_where_it_was_left(session: SessionClient) -> None:
    name = create(session).json()["id"]
    answer = about(session, "GET", f"{name}?stream=true&starting_after=2")
    assert [event["sequence_number"] for event in events_of(answer)][:1] == [3]
    assert record_of(session, answer).member("res", "end") == "complete"


UNKNOWN = {
    "never made": lambda session, name: about(session, "GET", "resp_never"),
    "another session's": lambda session, name: about(session, "GET", name),
    "its items": lambda session, name: about(session, "GET", f"{name}/input_items"),
    "its end": lambda session, name: about(session, "POST", f"{name}/cancel"),
    "its deletion": lambda session, name: about(session, "DELETE", name),
    "going on from it": lambda session, name: create(session, previous_response_id=name),
    "shortening it": lambda session, name: session.post(
        f"{CREATE}/compact", {"model": "m", "previous_response_id": name}
    ),
    "an item of it": lambda session, name: create(
        session, [{"type": "item_reference", "id": "msg_" + name[-8:]}]
    ),
    "an item without a type": lambda session, name: create(session, [{"id": "msg_" + name[-8:]}]),
    "an item with an empty type": lambda session, name: create(
        session, [{"type": "", "id": "x", "role": None}]
    ),
}


@pytest.mark.parametrize("ask", UNKNOWN.values(), ids=UNKNOWN.keys())
def test_what_a_session_did_not_make_is_not_found(
    session: SessionClient, served: Gateway, platform: PlatformClient, upstream: Upstream, ask: object
) -> None:
    name = create(SessionClient.start(served, platform)).json()["id"]
    upstream[0].received.clear()
    answer = ask(session, name)  # type: ignore[operator]
    assert (answer.status, answer.code) == (404, "response.not_found")
    assert set(answer.json()["error"]) == {"message", "type", "code", "param"}
    assert upstream[0].received == []
    record = record_of(session, answer)
    assert (record.kind, record.member("rsn"), record.member("agt", "cseq")) == (
        "refusal",
        "response.not_found",
        0,
    )


def test_what_a_session_made_can_be_gone_on_from(session: SessionClient, upstream: Upstream) -> None:
    made = create(session, "one", stream=True)
    response = events_of(made)[-1]["response"]
    assert create(session, "two", previous_response_id=response["id"]).status == 200
    reference = {"type": "item_reference", "id": response["output"][0]["id"]}
    assert create(session, [reference, {"role": "user", "content": "three"}]).status == 200
    assert len(upstream[0].received) == 3


def test_a_response_that_is_not_stored_is_not_known(session: SessionClient) -> None:
    name = create(session, store=False).json()["id"]
    assert about(session, "GET", name).code == "response.not_found"


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("altered", "code"),
    [({"output": [RM]}, "tool.not_allowed"), ({"model": "other"}, "model.answer_not_allowed")],
    ids=["call", "model"],
)
def test_a_stored_response_is_judged_as_a_new_one(
    served: Gateway,
    platform: PlatformClient,
    upstream: Upstream,
    altered: dict,
    code: str,
    *,
    stream: bool,
) -> None:
    session = SessionClient.start(served, platform, profile=LISTED)
    name = create(session).json()["id"]
    upstream[1].kept[name].response |= altered
    answer = about(session, "GET", name + ("?stream=true" if stream else ""))
    assert (events_of(answer)[-1]["code"] if stream else answer.code) == code
    assert record_of(session, answer).member("res", "end") == "policy_stop"
    assert b"fc_9" not in answer.body


@pytest.mark.parametrize(
    "query",
    [
        *(
            "x=1",
            "stream=1",
            "stream=true&stream=false",
            "starting_after=-1",
            "include=a/b",
            "limit=1",
            "&",
            "=",
        ),
        *("stream", "include_obfuscation=maybe", "include=" + "a" * 65, "stream=true;x=1", "after=a"),
    ],
)
def test_another_query_is_refused(session: SessionClient, upstream: Upstream, query: str) -> None:
    name = create(session).json()["id"]
    upstream[0].received.clear()
    answer = about(session, "GET", f"{name}?{query}")
    assert (answer.status, answer.code) == (400, "request.malformed"), answer.body
    assert upstream[0].received == []


@pytest.mark.parametrize("body", [b"[]", b'{"a": 1}', b"{} "])
def test_a_body_where_none_belongs_is_refused(session: SessionClient, body: bytes) -> None:
    name = create(session).json()["id"]
    assert about(session, "POST", f"{name}/cancel", body).code == "request.malformed"


UNSERVED = {
    "conversation": ({"conversation": "conv_1"}, "request.malformed"),
    "conversation, as an object": ({"conversation": {"id": "conv_1"}}, "request.malformed"),
    "prompt": ({"prompt": {"id": "pmpt_1"}}, "request.unlisted"),
    "request_id": ({"request_id": "resp_1"}, "request.unlisted"),
    "a comparison": ({"prompt_cache_options": {"comparison_response_id": "r"}}, "request.unlisted"),
    "tools in the input": (
        {"input": [{"type": "additional_tools", "role": "developer", "tools": []}]},
        "request.unlisted",
    ),
    "found tools": ({"input": [{"type": "tool_search_output", "tools": []}]}, "request.unlisted"),
    "an unknown item": ({"input": [{"type": "new"}]}, "request.unlisted"),
    "an unknown part": ({"input": [{"role": "user", "content": [{"type": "new"}]}]}, "request.unlisted"),
    "an approval of a provider's call": (
        {"input": [{"type": "mcp_approval_response", "approve": True, "approval_request_id": "a"}]},
        "tool.not_allowed",
    ),
    "almost a member": ({"Previous_Response_ID": "resp_1"}, "request.malformed"),
    "an id that is no text": ({"previous_response_id": 1}, "request.malformed"),
    "an input that is none": ({"input": {"type": "message"}}, "request.malformed"),
    "a URL of an image": (
        {
            "input": [
                {"role": "user", "content": [{"type": "input_image", "image_url": "https://x.example/a"}]}
            ]
        },
        "url.not_allowed",
    ),
    "a URL of a file": (
        {"input": [{"role": "user", "content": [{"type": "input_file", "file_url": "https://x.example/a"}]}]},
        "url.not_allowed",
    ),
    "a URL in what a call returned": (
        {
            "input": [
                {
                    "type": "function_call_output",
                    "call_id": "c",
                    "output": [{"type": "input_image", "image_url": "https://x.example/a"}],
                }
            ]
        },
        "url.not_allowed",
    ),
    "a screenshot's URL": (
        {
            "input": [
                {
                    "type": "computer_call_output",
                    "call_id": "c",
                    "output": {"type": "computer_screenshot", "image_url": "https://x.example/a"},
                }
            ]
        },
        "url.not_allowed",
    ),
    **{
        f"the provider's {kind}": ({"tools": [{"type": kind}]}, "tool.not_allowed")
        for kind in (
            *(
                "web_search",
                "web_search_preview",
                "file_search",
                "code_interpreter",
                "image_generation",
                "mcp",
            ),
            *("computer_use_preview", "computer", "local_shell", "shell", "apply_patch", "tool_search"),
            *("namespace", "programmatic_tool_calling", "new"),
        )
    },
    "a choice of the provider's": ({"tool_choice": {"type": "web_search_preview"}}, "tool.not_allowed"),
    "a choice among the provider's": (
        {"tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "mcp"}]}},
        "tool.not_allowed",
    ),
}


@pytest.mark.parametrize(("members", "code"), UNSERVED.values(), ids=UNSERVED.keys())
def test_what_could_reach_elsewhere_goes_nowhere(
    session: SessionClient, upstream: Upstream, members: dict, code: str
) -> None:
    answer = session.post(CREATE, {"model": "m", "input": "hi", **members})
    assert answer.code == code, answer.body
    assert upstream[0].received == []


def test_texts_and_what_an_earlier_answer_cited_are_no_requests_of_urls(session: SessionClient) -> None:
    cited = {
        "type": "url_citation",
        "url": "https://x.example/",
        "title": "t",
        "start_index": 0,
        "end_index": 1,
    }
    items = [
        {"role": "user", "content": "https://x.example/ is a text"},
        {"role": "user", "content": [{"type": "input_text", "text": "https://x.example/"}]},
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "https://x.example/", "annotations": [cited]}],
        },
        {"type": "function_call", "call_id": "c", "name": "read_file", "arguments": "https://x.example/"},
        {"type": "function_call_output", "call_id": "c", "output": "https://x.example/"},
        {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "https://x.example/"}]},
        {"role": "user", "content": [{"type": "input_image", "image_url": "data:image/png;base64,aGk="}]},
    ]
    assert create(session, items, instructions="https://x.example/").status == 200


def test_tools_that_the_profile_does_not_list_are_removed_and_named(
    session: SessionClient, upstream: Upstream
) -> None:
    tools = [
        {"type": "function", "name": name, "parameters": {"type": "object"}, "strict": True}
        for name in ("rm", "read_file")
    ] + [{"type": "custom", "name": "shred"}]
    choice = {"type": "function", "name": "rm"}
    answer = create(session, tools=tools, tool_choice=choice, parallel_tool_calls=False)
    assert answer.status == 200 and answer.headers["affiant-removed-tools"] == '"rm", "shred"'
    (received,) = upstream[0].received
    assert [tool["name"] for tool in received.json["tools"]] == ["read_file"]
    assert "tool_choice" not in received.json and received.json["parallel_tool_calls"] is False
    assert record_of(session, answer).member("pol", "dec") == "redact"


def test_a_provider_tool_that_the_profile_names_goes_both_ways(
    served: Gateway, platform: PlatformClient, upstream: Upstream
) -> None:
    session = SessionClient.start(served, platform, profile=SEARCHES)
    upstream[1].alter = lambda made: {**made, "output": [SEARCH, *made["output"]]}
    try:
        answer = create(session, tools=[{"type": "web_search"}])
        assert (answer.status, answer.json()["output"][0]) == (200, SEARCH)
        server = {"type": "mcp", "server_label": "s", "server_url": "https://x.example/mcp"}
        assert create(session, tools=[server]).code == "url.not_allowed"
    finally:
        upstream[1].alter = lambda response: response


def test_a_budget_of_tokens_bounds_responses(
    served: Gateway, platform: PlatformClient, upstream: Upstream
) -> None:
    session = SessionClient.start(served, platform, profile=BUDGET)
    assert create(session).code == "limit_answer_unbounded"
    assert create(session, max_output_tokens=400).code == "limit_tokens"
    upstream[1].alter = lambda made: {**made, "usage": {"input_tokens": 100, "output_tokens": 90}}
    try:
        made = create(session, max_output_tokens=100)
        assert made.status == 200
        assert about(session, "GET", made.json()["id"]).status == 200  # costs nothing again
        assert create(session, max_output_tokens=100).code == "limit_tokens"
        assert create(session, max_output_tokens=40).status == 200
    finally:
        upstream[1].alter = lambda response: response


def test_a_budget_counts_what_the_upstream_adds_to_the_prompt(
    served: Gateway, platform: PlatformClient, upstream: Upstream
) -> None:
    session = SessionClient.start(served, platform, profile=BUDGET)
    upstream[1].alter = lambda made: {**made, "usage": {"input_tokens": 60, "output_tokens": 40}}
    try:
        made = create(session, max_output_tokens=40).json()
    finally:
        upstream[1].alter = lambda response: response
    assert create(session, max_output_tokens=60, previous_response_id=made["id"]).code == "limit_tokens"
    assert create(session, max_output_tokens=60).status == 200


def test_a_response_of_the_background_is_asked_for_until_it_is_there(session: SessionClient) -> None:
    made = create(session, background=True).json()
    assert made["status"] == "queued"
    found = [about(session, "GET", made["id"]).json() for _ in range(2)]
    assert [each["status"] for each in found] == ["queued", "completed"]


def test_an_error_of_the_upstream_passes_as_it_is(session: SessionClient, upstream: Upstream) -> None:
    said = {"error": {"message": "no", "type": "invalid_request_error", "param": "input", "code": "bad"}}
    upstream[1].answer = lambda _: whole(said, status="400 Bad Request")
    answer = create(session)
    assert (answer.status, answer.json()) == (400, said)


def test_a_stream_without_its_terminal_event_is_cut(session: SessionClient, upstream: Upstream) -> None:
    begun = {"id": "resp_cut", "object": "response", "status": "in_progress", "model": "m", "output": []}
    event = b"data: " + json.dumps({"type": "response.created", "response": begun}).encode() + b"\n\n"
    upstream[1].answer = lambda _: streamed(event)
    answer = create(session, stream=True)
    assert events_of(answer)[-1]["code"] == "upstream.cut"
    assert record_of(session, answer).member("res", "end") == "upstream_abort"
