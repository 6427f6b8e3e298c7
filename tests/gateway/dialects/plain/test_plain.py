"""Dialects without tools: what asks for a model and holds texts passes; what could be more is found."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties import thorough
from tests.raising import raises_code

from affiant.errors import AffiantError
from affiant.gateway.dialects.judged_calls import Passed
from affiant.gateway.dialects.plain.plain import PLAIN, Plain
from affiant.gateway.dialects.response_bound import ResponseBound
from affiant.gateway.dialects.usage import Usage
from affiant.gateway.wire.errors import RequestMalformed
from affiant.policy.decision.decide import Decision, denied

COMPLETIONS, EMBEDDINGS, RERANK, MODERATIONS = (
    PLAIN[name] for name in ("completions", "embeddings", "rerank", "moderations")
)
ASKED = {
    "completions": {"model": "m", "prompt": "once"},
    "embeddings": {"model": "m", "input": ["once", "twice"]},
    "rerank": {"model": "m", "query": "q", "documents": ["once", {"text": "twice"}]},
    "moderations": {"input": [{"type": "text", "text": "once"}]},
}
ANSWERED = {
    "completions": {
        "id": "cmpl-1",
        "object": "text_completion",
        "created": 1,
        "model": "m",
        "system_fingerprint": "f",
        "choices": [{"text": "a", "index": 0, "logprobs": {"tokens": ["a"]}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5},
    },
    "embeddings": {
        "object": "list",
        "model": "m",
        "data": [{"object": "embedding", "index": 0, "embedding": [0.1, -0.2]}],
        "usage": {"prompt_tokens": 3, "total_tokens": 3},
    },
    "rerank": {
        "id": "rerank-1",
        "model": "m",
        "results": [{"index": 1, "document": {"text": "twice"}, "relevance_score": 0.9}],
        "usage": {"total_tokens": 9},
    },
    "moderations": {
        "id": "modr-1",
        "model": "omni-moderation-latest",
        "results": [
            {
                "flagged": False,
                "categories": {"illicit/violent": False},
                "category_scores": {"illicit/violent": 0.1},
                "category_applied_input_types": {"illicit/violent": ["text"]},
            }
        ],
    },
}
CALL = {"id": "x", "type": "function", "function": {"name": "rm", "arguments": "{}"}}
EACH = pytest.mark.parametrize("name", PLAIN)


def body(name: str, **more: object) -> bytes:
    return json.dumps({**ASKED[name], **more}).encode()


def deny(_name: str, _arguments: str | None) -> Decision:
    return denied("tool_not_listed")


def ignored(_: object) -> None:
    """Nothing is done with an event's value."""


@EACH
def test_what_clients_send_and_servers_answer_is_listed(name: str) -> None:
    request = PLAIN[name].read_request(body(name))
    assert request.members == (None, ()) and request.urls == () and request.tools == ()
    assert PLAIN[name].judge_response(ANSWERED[name], deny) == ()


@EACH
@pytest.mark.parametrize(
    "more", [{"tools": []}, {"plugins": [{"id": "web"}]}, {"modality": "image"}, {"prompt_embeds": "AAAA"}]
)
def test_what_is_not_listed_is_found(name: str, more: dict[str, object]) -> None:
    (member,) = more
    assert PLAIN[name].read_request(body(name, **more)).members.unlisted == member


@pytest.mark.parametrize(
    ("name", "more", "where"),
    [
        ("completions", {"prompt": [{"url": "x"}]}, "prompt[0].url"),
        ("embeddings", {"input": [{"image": "https://x"}]}, "input[0].image"),
        ("rerank", {"documents": [{"image": "https://x"}]}, "documents[0].image"),
        ("rerank", {"query": {"content": []}}, "query.content"),
        ("moderations", {"input": [{"type": "file", "file": {}}]}, "input[0].type"),
    ],
)
def test_an_object_in_the_place_of_a_text_is_found(name: str, more: dict[str, object], where: str) -> None:
    assert PLAIN[name].read_request(body(name, **more)).members.unlisted == where


@pytest.mark.parametrize(
    ("name", "more", "text"),
    [
        (
            "moderations",
            {"input": [{"type": "image_url", "image_url": {"url": "https://x/a.png"}}]},
            "https://x/a.png",
        ),
        ("embeddings", {"input": [{"image": "https://x/a.png"}]}, "https://x/a.png"),
        ("rerank", {"documents": [{"image": "/etc/passwd"}]}, "/etc/passwd"),
        ("completions", {"json_schema": {"$ref": "https://x/a.json"}}, "https://x/a.json"),
    ],
)
def test_a_url_that_a_server_may_fetch_is_found(name: str, more: dict[str, object], text: str) -> None:
    assert [url.text for url in PLAIN[name].read_request(body(name, **more)).urls] == [text]


@EACH
def test_a_url_in_a_text_is_text(name: str) -> None:
    texts = json.loads(json.dumps(ASKED[name]).replace("once", "https://example.com/"))
    assert PLAIN[name].read_request(json.dumps(texts).encode()).urls == ()


@EACH
@pytest.mark.parametrize("value", [ANSWERED["completions"]["choices"], "text", 5, None])
def test_an_answer_that_is_no_object_is_refused(name: str, value: object) -> None:
    for judge in (None, deny):
        with raises_code("upstream.answer"):
            PLAIN[name].judge_response(value, judge)


@EACH
@pytest.mark.parametrize(
    "more",
    [
        {"tool_calls": [CALL]},
        {"choices": [{"text": "a", "tool_calls": [CALL]}]},
        {"choices": [{"message": {"tool_calls": [CALL]}}]},
        {"data": [CALL]},
        {"results": [{"document": CALL}]},
        {"usage": {"tool_calls": [CALL]}},
        {"metadata": {"type": "tool_call"}},
        {"metadata": {"name": "rm", "arguments": "{}"}},
    ],
)
def test_no_call_is_in_an_answer_wherever_it_is(name: str, more: dict[str, object]) -> None:
    with raises_code("upstream.unlisted", "upstream.answer"):
        PLAIN[name].judge_response({**ANSWERED[name], **more}, deny)
    event = b"data: " + json.dumps({**ANSWERED[name], **more}).encode() + b"\n\n"
    with raises_code("upstream.unlisted", "upstream.answer"):
        PLAIN[name].stream_filter(deny, ignored).feed(event)


def test_events_go_on_as_they_are_and_the_end_says_nothing_else() -> None:
    seen: list[object] = []
    judge = COMPLETIONS.stream_filter(deny, seen.append)
    event = b"data: " + json.dumps(ANSWERED["completions"]).encode() + b"\n\n"
    assert judge.feed(event) == Passed((event,)) and seen == [ANSWERED["completions"]]
    assert judge.feed(b": comment\n\n") == Passed((b": comment\n\n",))
    assert judge.end(b"data: [DONE]\n\n") == Passed()
    for wrong in (b"data: [DONE] more\n\n", b"data: [DONE]\nData: {}\n\n"):
        with raises_code("upstream.answer"):
            judge.end(wrong)
    for wrong in (b"data: {\n\n", b"data: []\n\n", b"Data: {}\n\n"):
        with raises_code("upstream.answer"):
            judge.feed(wrong)


@EACH
def test_what_a_request_must_have_is_demanded(name: str) -> None:
    for member in PLAIN[name].needed:
        for value in ({k: v for k, v in ASKED[name].items() if k != member}, {**ASKED[name], member: None}):
            with pytest.raises(RequestMalformed) as refused:
                PLAIN[name].read_request(json.dumps(value).encode())
            assert refused.value.where == member


@EACH
@pytest.mark.parametrize("spelled", ["Model", "INPUT", "docu_ments", "Stream", "maxTokens"])
def test_a_member_that_is_almost_named_so_is_refused(name: str, spelled: str) -> None:
    known = {"model", "stream", "maxtokens", *PLAIN[name].needed}
    if spelled.replace("_", "").lower() in known:
        with pytest.raises(RequestMalformed):
            PLAIN[name].read_request(body(name, **{spelled: "x"}))


def test_only_moderations_have_a_usual_model() -> None:
    assert MODERATIONS.read_request(b'{"input": "x"}').model == "omni-moderation-latest"
    for value in ({"input": "x"}, {"model": None, "input": "x"}):
        with pytest.raises(RequestMalformed):
            EMBEDDINGS.read_request(json.dumps(value).encode())
    with pytest.raises(RequestMalformed):
        MODERATIONS.read_request(b'{"input": "x", "model": 5}')


@pytest.mark.parametrize(
    ("more", "bound"),
    [
        ({}, ResponseBound(None)),
        ({"max_tokens": 5}, ResponseBound(5)),
        ({"max_tokens": 5, "n": 3}, ResponseBound(5, 3)),
        ({"max_tokens": 5, "prompt": ["a", "b"], "n": 3}, ResponseBound(5, 6)),
        ({"max_tokens": 5, "prompt": [1, 2, 3]}, ResponseBound(5)),
        ({"max_tokens": 5, "prompt": [[1], [2, 3]]}, ResponseBound(5, 2)),
        ({"max_tokens": 5, "prompt": [1, [2]]}, ResponseBound(5, 2)),
        ({"max_tokens": 5, "prompt": []}, ResponseBound(5)),
    ],
)
def test_each_prompt_has_completions_of_its_own(more: dict[str, object], bound: ResponseBound) -> None:
    assert COMPLETIONS.read_request(body("completions", **more)).answer == bound


@pytest.mark.parametrize("name", ["best_of", "max_completion_tokens", "n_predict", "prompt_embeds"])
def test_what_may_bound_completions_otherwise_leaves_them_unbounded(name: str) -> None:
    assert COMPLETIONS.read_request(body("completions", max_tokens=5, **{name: 5})).answer.tokens is None


@pytest.mark.parametrize(
    ("name", "usage"),
    [
        ("completions", Usage(3, 2, 5)),
        ("embeddings", Usage(3, 0, 3)),
        ("rerank", Usage(9, 0, 9)),
        ("moderations", Usage()),
    ],
)
def test_tokens_are_counted_as_they_are_stated(name: str, usage: Usage) -> None:
    found = PLAIN[name].usage_in(ANSWERED[name], streamed=False)
    assert found == usage
    assert (
        found.tokens(answers=1) == {"completions": 5, "embeddings": 3, "rerank": 9, "moderations": None}[name]
    )


def test_only_what_writes_streams() -> None:
    streams = {name: dialect.read_request(body(name, stream=True)).stream for name, dialect in PLAIN.items()}
    assert streams == {"completions": True, "embeddings": False, "rerank": False, "moderations": False}


@EACH
def test_an_operator_adds_a_name_at_every_place_that_takes_one(name: str) -> None:
    lists = PLAIN[name].lists
    for place in (*lists.request.extensible, *lists.response.extensible):
        added = PLAIN[name].with_names([f"{place}.new.thing"]).lists
        tables = (added.request, added.response)
        assert any(
            "new.thing" in (table.members.get(place) or table.kinds.get(place) or ()) for table in tables
        )
    with raises_code("gateway.settings"):
        PLAIN[name].with_names(["nowhere.x"])


@thorough(300)
@given(
    dialect=st.sampled_from(list(PLAIN.values())), data=st.binary(max_size=200) | st.text().map(str.encode)
)
def test_no_body_does_anything_but_be_read_or_refused(dialect: Plain, data: bytes) -> None:
    try:
        dialect.read_request(data)
    except AffiantError as error:
        assert isinstance(error, RequestMalformed)
