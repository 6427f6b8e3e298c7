"""Every place of a request where a model server may find something to fetch, and no place where it finds text."""

from __future__ import annotations

import json
import sys
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties import thorough

from affiant.gateway.dialects import named_urls as module
from affiant.gateway.dialects.chat.chat_urls import CHAT_URLS
from affiant.gateway.dialects.named_urls import MOST_URLS, NamedURL
from affiant.gateway.dialects.named_urls import named_urls as named_urls_at
from affiant.gateway.dialects.strict_json import parse_json


def named_urls(request: dict[str, object]) -> tuple[NamedURL, ...]:
    """Those of a chat completion."""
    return named_urls_at(request, CHAT_URLS)


URL = "http://169.254.169.254/latest/meta-data/"


def asked(part: object = None, **members: object) -> dict[str, object]:
    content = "hi" if part is None else [{"type": "text", "text": "look"}, part]
    return {"model": "m", "messages": [{"role": "user", "content": content}], **members}


def message(**members: object) -> dict[str, object]:
    return {"model": "m", "messages": [{"role": "user", **members}]}


PARTS: dict[str, tuple[object, str]] = {
    "a picture": ({"type": "image_url", "image_url": {"url": URL, "detail": "low"}}, ".image_url.url"),
    "a picture, in short": ({"type": "image_url", "image_url": URL}, ".image_url"),
    "a picture for transformers": ({"type": "image", "image": URL}, ".image"),
    "a picture, as transformers calls it": ({"type": "image", "url": URL}, ".url"),
    "a video": ({"type": "video_url", "video_url": {"url": URL}}, ".video_url.url"),
    "frames of a video": ({"type": "video", "video": [URL]}, ".video[0]"),
    "a sound": ({"type": "audio_url", "audio_url": {"url": URL}}, ".audio_url.url"),
    "a file": ({"type": "input_file", "file_url": URL}, ".file_url"),
    "a file in an object": ({"type": "file", "file": {"file_url": URL}}, ".file.file_url"),
    "a file's content that is an address": ({"type": "file", "file": {"file_data": URL}}, ".file.file_data"),
    "an input file": ({"type": "input_file", "input_file": {"file_url": URL}}, ".input_file.file_url"),
    "another interface's source": ({"type": "image", "source": {"type": "url", "url": URL}}, ".source.url"),
    "without a type": ({"image_url": {"url": URL}}, ".image_url.url"),
    "beside a text": ({"type": "text", "text": "x", "image_url": URL}, ".image_url"),
    "in what a text should be": ({"type": "text", "text": {"url": URL}}, ".text.url"),
    "the text of another part": ({"type": "page", "text": URL}, ".text"),
    "a type that is none": ({"type": ["text"], "text": URL}, ".text"),
    "a picture's detail": (
        {"type": "image_url", "image_url": {"url": "data:,", "detail": URL}},
        ".image_url.detail",
    ),
    "a picture's format": (
        {"type": "image_url", "image_url": {"url": "data:,", "format": URL}},
        ".image_url.format",
    ),
    "a part's id": ({"type": "image_url", "image_url": "data:,", "uuid": URL}, ".uuid"),
    "a part's type": ({"type": URL, "image": "data:,"}, ".type"),
    "a source's media type": (
        {"type": "image", "source": {"data": "AA==", "media_type": URL}},
        ".source.media_type",
    ),
    "a file's media type": (
        {"type": "file", "file": {"file_id": "f-1", "mime_type": URL}},
        ".file.mime_type",
    ),
    "a name that nobody knows": ({"type": "x", "x": {"y": [[URL]]}}, ".x.y[0][0]"),
}
PATHS: dict[str, tuple[object, str]] = {
    "another spelling": ({"type": "image_url", "Image-URL": {"U_R_L": "/etc/passwd"}}, ".Image-URL.U_R_L"),
    "a path": ({"type": "image_url", "image_url": {"path": "/etc/passwd"}}, ".image_url.path"),
    "a member that nobody knows": (
        {"type": "image_url", "image_url": {"x": ["/etc/passwd"]}},
        ".image_url.x[0]",
    ),
    "without a type": ({"image_url": {"x": "/etc/passwd"}}, ".image_url.x"),
    "in a message's only part": ({"type": "video", "video": {"at": "/etc/passwd"}}, ".video.at"),
    "a file's content": ({"type": "file", "file": {"file_data": "/etc/passwd"}}, ".file.file_data"),
    "a file's name": ({"type": "file", "file": {"filename": "/etc/passwd"}}, ".file.filename"),
    "a file's id": ({"type": "file", "file": {"file_id": "/etc/passwd"}}, ".file.file_id"),
    "a sound's content": (
        {"type": "input_audio", "input_audio": {"data": "/etc/passwd"}},
        ".input_audio.data",
    ),
    "a sound": ({"type": "input_audio", "input_audio": "/etc/passwd"}, ".input_audio"),
    "a scalar with more": ({"type": "image_url", "detail": {"x": "/etc/passwd"}}, ".detail.x"),
    "tensors": ({"type": "image_embeds", "image_embeds": {"x": "/etc/passwd"}}, ".image_embeds.x"),
}


PLACES_OF_NAMES = {
    "detail": {"type": "image_url", "image_url": {"url": "data:,", "detail": ...}},
    "uuid": {"type": "image_url", "image_url": "data:,", "uuid": ...},
    "type": {"type": ..., "image": "data:,"},
    "format": {"type": "image_url", "image_url": {"url": "data:,", "format": ...}},
    "media_type": {"type": "image", "source": {"data": "AA==", "media_type": ...}},
    "mime_type": {"type": "file", "file": {"file_id": "f-1", "mime_type": ...}},
}
SERVER_PATHS = [
    *("/etc/passwd", "//169.254.169.254/x", "\\\\host\\share", "../x", "./x", "~/x", "a/b/c", "a\\b"),
    *(
        "x/../../etc/passwd",
        "C:\\x",
        "image/",
        "/png",
        "image/png;/etc/passwd",
        "image/png;..\\x",
        "image/png\n/x",
    ),
]


def filled(part: object, value: str) -> object:
    if isinstance(part, dict):
        return {name: filled(each, value) for name, each in part.items()}
    return value if part is ... else part


@pytest.mark.parametrize("path", SERVER_PATHS)
@pytest.mark.parametrize("name", PLACES_OF_NAMES)
def test_a_path_where_a_name_should_be_is_a_reference(name: str, path: str) -> None:
    found = named_urls(asked(filled(PLACES_OF_NAMES[name], path)))
    assert [each.text for each in found] == [path]


@pytest.mark.parametrize("name", ["format", "media_type", "mime_type"])
@pytest.mark.parametrize(
    "text", ["image/png", "application/vnd.api+json", "audio/mpeg; rate=8", "wav", "x-y/z_1"]
)
def test_a_media_type_is_no_reference(name: str, text: str) -> None:
    assert named_urls(asked(filled(PLACES_OF_NAMES[name], text))) == ()


@pytest.mark.parametrize("name", ["detail", "uuid", "type"])
def test_a_name_of_two_parts_is_a_reference_where_no_media_type_is_expected(name: str) -> None:
    found = named_urls(asked(filled(PLACES_OF_NAMES[name], "a/b")))
    assert [each.text for each in found] == ["a/b"]


@pytest.mark.parametrize("name", PARTS)
def test_a_part_of_a_message_can_name_a_url(name: str) -> None:
    part, where = PARTS[name]
    assert named_urls(asked(part)) == (NamedURL(f"messages[0].content[1]{where}", URL, "GET"),)


@pytest.mark.parametrize("name", PATHS)
def test_a_part_of_a_message_can_name_a_path_of_the_server(name: str) -> None:
    part, where = PATHS[name]
    assert named_urls(asked(part)) == (NamedURL(f"messages[0].content[1]{where}", "/etc/passwd", "GET"),)


@pytest.mark.parametrize(
    "text", ["/etc/passwd", "//etc/passwd", "/etc/ssh/key", "../etc/passwd", "abc", "aGk=x"]
)
def test_content_is_base64_and_no_absolute_path(text: str) -> None:
    for part in (
        {"type": "file", "file": {"file_data": text}},
        {"type": "input_audio", "input_audio": {"data": text}},
    ):
        assert [found.text for found in named_urls(asked(part))] == [text]


MEMBERS: dict[str, tuple[dict[str, object], str]] = {
    "documents": (asked(documents=[{"title": "a", "text": "b"}, {"url": URL}]), "documents[1].url"),
    "a document that is text": (asked(documents=[URL]), "documents[0]"),
    "a document's source": (asked(documents=[{"source": URL, "text": URL}]), "documents[0].source"),
    "pictures of a message": (message(content="x", images=[URL]), "messages[0].images[0]"),
    "a message's content as an object": (
        message(content={"image_url": URL}),
        "messages[0].content.image_url",
    ),
    "a prediction": (
        asked(prediction={"type": "content", "content": [{"image": URL}]}),
        "prediction.content[0].image",
    ),
    "an extension": (asked(extra_body={"files": [URL]}), "extra_body.files[0]"),
    "an unknown member": (asked(whatever=[{"at": URL}]), "whatever[0].at"),
    "a tool choice": (asked(tool_choice={"type": "x", "x": URL}), "tool_choice.x"),
    "a name of several lines": (asked(**{"a\nb": URL}), "?"),
}


@pytest.mark.parametrize("name", MEMBERS)
def test_a_member_of_a_request_can_name_one(name: str) -> None:
    request, where = MEMBERS[name]
    assert named_urls(request) == (NamedURL(where, URL, "GET"),)


@pytest.mark.parametrize(
    "request_",
    [
        asked(documents=["/etc/passwd"]),
        *(
            asked(mm_processor_kwargs={name: "/etc/passwd"})
            for name in ("path", "file_path", "filename", "src", "source")
        ),
    ],
)
def test_a_member_of_a_request_can_name_a_path_of_the_server(request_: dict[str, object]) -> None:
    assert [found.text for found in named_urls(request_)] == ["/etc/passwd"]


def test_a_server_of_tools_is_not_only_read() -> None:
    tool = {"type": "mcp", "server_label": "x", "server_url": "https://tools.example.com/mcp"}
    found = NamedURL("tools[0].server_url", "https://tools.example.com/mcp", "POST")
    assert named_urls(asked(tools=[tool])) == (found,)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "/etc/passwd",
            "../x",
            "file:///etc/passwd",
            "DATA:image/png;base64,AA",
            " data:image/png;base64,AA",
        ),
        *("//host/x", "C:\\x", "iVBORw0KGgo=", "ftp://example.com/", "http:example.com"),
    ],
)
def test_where_servers_fetch_every_text_counts_but_data(text: str) -> None:
    part = {"type": "image_url", "image_url": {"url": text}}
    assert [found.text for found in named_urls(asked(part))] == [text]


@pytest.mark.parametrize("text", ["file:///etc/passwd", "HTTPS://x/", " http://x/"])
def test_a_url_in_the_place_of_a_word_counts(text: str) -> None:
    part = {"type": "image_url", "image_url": {"url": "data:,", "detail": text}}
    assert [found.text for found in named_urls(asked(part))] == [text]


@pytest.mark.parametrize(
    "text",
    [
        " http://x/",
        "HTTPS://x/",
        "\u00a0http://x/",
        "\x00file:/x",
        "s3://b/k",
        "gs:b",
        "x-y.z+1://h",
        "wss:h",
    ],
)
def test_under_any_name_a_text_that_begins_like_a_url_counts(text: str) -> None:
    assert [found.text for found in named_urls(asked(anything=text))] == [text]


_REMOTE = {"type": "object", "properties": {"a": {"$ref": URL}}}


@pytest.mark.parametrize(
    ("request_", "where"),
    [
        (asked(guided_json=_REMOTE), "guided_json.properties.a.?"),
        (asked(guided_json=json.dumps(_REMOTE)), "guided_json.properties.a.?"),
        (asked(structured_outputs={"json": json.dumps(_REMOTE)}), "structured_outputs.json.properties.a.?"),
        (
            asked(response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": _REMOTE}}),
            "response_format.json_schema.schema.properties.a.?",
        ),
        (
            asked(tools=[{"type": "function", "function": {"name": "f", "parameters": _REMOTE}}]),
            "tools[0].function.parameters.properties.a.?",
        ),
        (asked(functions=[{"name": "f", "parameters": _REMOTE}]), "functions[0].parameters.properties.a.?"),
    ],
)
def test_a_schema_can_take_a_part_from_elsewhere(request_: dict[str, object], where: str) -> None:
    assert named_urls(request_) == (NamedURL(where, URL, "GET"),)


@pytest.mark.parametrize("ref", ["x.json", "//host/x", "file:///x"])
def test_a_schema_takes_parts_only_from_itself_without_a_url(ref: str) -> None:
    schema = {
        "$id": "https://example.com/",
        "$defs": {"a": {}},
        "anyOf": [{"$ref": "#/$defs/a"}, {"$ref": ref}],
    }
    assert [found.text for found in named_urls(asked(json_schema=schema))] == [ref]


@pytest.mark.parametrize("name", ["remote_host", "api_base", "proxy", "endpoint"])
def test_a_host_that_a_server_would_connect_to_counts(name: str) -> None:
    assert [found.text for found in named_urls(asked(**{name: "10.0.0.1"}))] == ["10.0.0.1"]
    assert [found.text for found in named_urls(asked(kv_transfer_params={name: "10.0.0.1"}))] == ["10.0.0.1"]


_SCHEMA = {"$schema": "https://json-schema.org/draft/2020-12/schema", "properties": {"url": {"default": URL}}}


@pytest.mark.parametrize(
    "request_",
    [
        asked({"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}),
        asked({"type": "input_audio", "input_audio": {"data": "//uQxAAA" * 512, "format": "mp3"}}),
        asked({"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}, "uuid": "a-b"}),
        asked(
            {"type": "file", "file": {"filename": "a b.pdf", "file_data": "data:application/pdf;base64,AA=="}}
        ),
        asked({"type": "image_url", "image_url": {"url": "data:,", "detail": "low", "format": "image/png"}}),
        asked({"type": "image_embeds", "image_embeds": {"pixel_values": "AAAA"}, "uuid": None}),
        asked(
            {"type": "file", "file": {"file_id": "f-1"}, "cache_control": {"type": "ephemeral", "ttl": "5m"}}
        ),
        asked({"type": "text", "text": URL, "cache_control": {"type": "ephemeral", "ttl": "5m"}}),
        asked({"text": URL}),
        asked({"type": "thinking", "thinking": URL, "signature": "/x"}),
        asked({"type": "file", "file": {"file_id": "file-abc", "filename": "a.pdf"}}),
        asked({"type": "file", "file": {"filename": "a.pdf", "file_data": "JVBERi0="}}),
        asked({"type": "text", "text": URL}),
        asked({"type": "refusal", "refusal": URL}),
        asked(URL),
        message(content=URL),
        message(content=URL, name=URL, reasoning_content=URL, refusal=URL, tool_call_id=URL),
        message(content="x", annotations=[{"type": "url_citation", "url_citation": {"url": URL}}]),
        message(tool_calls=[{"id": "c", "type": "function", "function": {"name": "f", "arguments": URL}}]),
        message(tool_calls=[{"id": "c", "type": "custom", "custom": {"name": "f", "input": URL}}]),
        message(function_call={"name": "f", "arguments": '{"url": "http://x/"}'}),
        asked(documents=[{"title": URL, "text": URL}]),
        asked(
            tools=[{"type": "function", "function": {"name": "f", "description": URL, "parameters": _SCHEMA}}]
        ),
        asked(tools=[{"type": "custom", "custom": {"name": "f", "description": URL}}]),
        asked(functions=[{"name": "f", "parameters": _SCHEMA | {"examples": [{"ref": "main", "url": URL}]}}]),
        asked(response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": _SCHEMA}}),
        asked(stop=[URL, "Human:"], user=URL, metadata={"page": URL}, guided_json=_SCHEMA, bad_words=[URL]),
        asked(prediction={"type": "content", "content": URL}),
        asked(
            audio={"voice": "alloy", "format": "wav"}, modalities=["text", "audio"], reasoning_effort="low"
        ),
        asked(stream_options={"include_usage": True}, logit_bias={"1": 2}, seed=7, service_tier="auto"),
    ],
)
def test_text_schemas_arguments_and_content_name_none(request_: dict[str, object]) -> None:
    assert named_urls(request_) == ()


def test_they_come_in_their_order_and_any_depth_is_read() -> None:
    first, second = ({"type": "image_url", "image_url": f"https://example.com/{n}"} for n in (1, 2))
    request = {"messages": [{"content": [first, second]}, {"content": [first]}]}
    assert [found.where for found in named_urls(request)] == [
        "messages[0].content[0].image_url",
        "messages[0].content[1].image_url",
        "messages[1].content[0].image_url",
    ]
    depth = 700
    deep = parse_json('{"x":' * depth + f'"{URL}"' + "}" * depth)
    assert isinstance(deep, dict) and len(named_urls(deep)) == 1


def nested(depth: int, siblings: list[object], name: str = "a" * 40) -> dict[str, object]:
    inner: object = URL
    for _ in range(depth):
        inner = {name: [inner, *siblings]}
    return {"x": inner}


def test_a_deep_request_of_many_siblings_takes_little_memory() -> None:
    request = nested(400, [0, "", [], {}] * 250)
    tracemalloc.start()
    try:
        assert len(named_urls(request)) == 1
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def operations(request: dict[str, object]) -> int:
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in {"call", "c_call"}

    sys.setprofile(count)
    try:
        named_urls(request)
    finally:
        sys.setprofile(None)
    return calls


def test_the_work_grows_with_the_request_and_not_with_its_depth() -> None:
    once = operations(nested(50, ["t"] * 40))
    assert operations(nested(50, ["t"] * 80)) < 2.1 * once
    assert operations(nested(100, ["t"] * 40)) < 2.1 * once
    assert operations({"x": ["t"] * 2000}) > 0.8 * once


def test_no_more_are_looked_for_than_a_request_may_name() -> None:
    assert len(named_urls({"url": [URL] * MOST_URLS})) == MOST_URLS
    assert len(named_urls(nested(400, [URL] * 1000))) == MOST_URLS + 1


_schema_names = st.sampled_from(["$ref", "$dynamicRef", "json", "schema", "guided_json", "type", "url", "a"])
_schemas = st.recursive(
    st.one_of(st.just(URL), st.just("#/a"), st.just('{"$ref": "x.json"}'), st.none(), st.integers(0, 1)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_schema_names, inner, max_size=3)),
    max_leaves=10,
)


@given(_schemas, st.sampled_from(["response_format", "guided_json", "functions", "tools", "json_schema"]))
@thorough(300)
def test_a_schema_that_is_passed_over_has_nothing_to_fetch(schema: object, member: str) -> None:
    held = [{"type": "function", "function": schema}] if member == "tools" else schema
    request = asked(**{member: held})
    found = named_urls(request)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, "_may_refer", lambda _: True)
        assert named_urls(request) == found
