"""Arguments of calls about child sessions are read strictly, and a definition that changes has another digest."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties import thorough
from tests.raising import raises_code

from affiant.attestation.encoding.binary_text import from_b64u
from affiant.errors import AffiantError
from affiant.policy.canonical.names import check_server, check_tool_name
from affiant.sandbox.supervisor.children.session_tools import SERVER, TOOLS, tool_request

SESSION = "s" * 22


def test_each_tool_can_be_listed_in_a_profile_and_pinned() -> None:
    check_server(SERVER)
    for name, tool in TOOLS.items():
        check_tool_name(name)
        assert tool.origin.server == SERVER
        assert set(tool.to_json()) == {"name", "description", "inputSchema"}
    assert len({tool.origin.schema for tool in TOOLS.values()}) == len(TOOLS)


def test_the_arguments_of_each_tool_are_read() -> None:
    made = tool_request("session_create", {"agent": "reviewer", "task": "x"})
    assert (made.agent, made.session, dict(made.act)) == (
        "reviewer",
        None,
        {"act": "open", "agent": "reviewer", "task": "x"},
    )
    run = tool_request(
        "session_run",
        {"session": SESSION, "command": ["a", ""], "env": {"A": "b"}, "stdin": "é", "timeout_s": 3},
    )
    assert (run.session, run.within_s, run.agent) == (SESSION, 63.0, None)
    assert {**run.act, "stdin": from_b64u(str(run.act["stdin"])).decode()} == {
        "act": "run", "command": ["a", ""], "env": {"A": "b"}, "cwd": None, "stdin": "é", "timeout_s": 3,
    }  # fmt: skip
    written = tool_request(
        "session_write_file", {"session": SESSION, "path": "/w/a", "content": "AP8=", "encoding": "base64"}
    )
    assert from_b64u(str(written.act["content"])) == b"\0\xff"


RUN = {"session": SESSION, "command": ["true"]}
WRITE = {"session": SESSION, "path": "/w/a", "content": "x"}


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("session_create", {}),
        ("session_create", {"agent": ""}),
        ("session_create", {"agent": 1}),
        ("session_create", {"agent": "a" * 257}),
        ("session_create", {"agent": "a", "task": None}),
        ("session_create", {"agent": "a", "input": "/etc"}),
        ("session_create", {"agent": "a", "profile": "other.yaml"}),
        ("session_run", {"command": ["true"]}),
        ("session_run", {"session": SESSION}),
        ("session_run", {**RUN, "command": []}),
        ("session_run", {**RUN, "command": "true"}),
        ("session_run", {**RUN, "command": [""]}),
        ("session_run", {**RUN, "command": ["a\0b"]}),
        ("session_run", {**RUN, "command": ["a"] * 257}),
        ("session_run", {**RUN, "command": [1]}),
        ("session_run", {**RUN, "env": {"A": 1}}),
        ("session_run", {**RUN, "env": []}),
        ("session_run", {**RUN, "timeout_s": 0}),
        ("session_run", {**RUN, "timeout_s": True}),
        ("session_run", {**RUN, "timeout_s": 1.5}),
        ("session_run", {**RUN, "timeout_s": 86_401}),
        ("session_run", {**RUN, "stdin": "x" * (128 * 1024 + 1)}),
        ("session_run", {**RUN, "terminal": [24, 80]}),
        ("session_write_file", {**WRITE, "encoding": "utf-16"}),
        ("session_write_file", {**WRITE, "encoding": "base64", "content": "no!"}),
        ("session_write_file", {**WRITE, "executable": 1}),
        ("session_write_file", {"session": SESSION, "path": "/w/a"}),
        ("session_read_file", {"session": SESSION, "path": "p" * 4097}),
        ("session_list", {"session": SESSION}),
        ("session_close", {}),
    ],
)
def test_an_argument_of_another_form_is_an_error(tool: str, arguments: dict[str, object]) -> None:
    with raises_code("session.tool_arguments"):
        tool_request(tool, arguments)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=5,
)
NAMES = st.sampled_from(
    [
        "agent",
        "task",
        "session",
        "command",
        "env",
        "cwd",
        "stdin",
        "timeout_s",
        "path",
        "content",
        "encoding",
        "x",
    ]
)


@thorough(200)
@given(st.sampled_from(sorted(TOOLS)), st.dictionaries(NAMES, JSON, max_size=4))
def test_arguments_are_read_or_an_error_and_nothing_else(tool: str, arguments: dict[str, object]) -> None:
    try:
        request = tool_request(tool, arguments)
    except AffiantError as error:
        assert error.code == "session.tool_arguments"
    else:
        assert isinstance(request.act["act"], str)
