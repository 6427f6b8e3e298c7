"""What two readers could read differently is refused whole; what is judged is what is sent."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties import thorough

from affiant.policy.canonical.tool_messages import (
    MAX_MESSAGES,
    Message,
    RequestMalformed,
    call_params,
    parse_envelope,
)

CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "x", "arguments": {"a": 1}}}


def test_a_request_a_notification_and_a_batch_are_read() -> None:
    (call,) = parse_envelope(json.dumps(CALL).encode()).messages
    assert call == Message(1, "tools/call", {"name": "x", "arguments": {"a": 1}})
    notice = parse_envelope(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
    assert (notice.messages[0].id, notice.ids, notice.batch) == (None, (), False)
    batch = parse_envelope(json.dumps([CALL, {**CALL, "id": "1"}]).encode())
    assert (batch.ids, batch.batch) == ((1, "1"), True)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"1",
        b"null",
        b'"x"',
        b"[[]]",
        b"\xff",
        b"\xef\xbb\xbf" + json.dumps(CALL).encode(),
        json.dumps(CALL).encode("utf-16"),
        json.dumps(CALL).encode() + b"x",
        json.dumps([{**CALL, "id": n} for n in range(MAX_MESSAGES + 1)]).encode(),
        json.dumps([CALL, CALL]).encode(),
        b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call"}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","Method":"tools/call"}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":1,"a":2}}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":NaN}}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":Infinity}}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":1e400}}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":9007199254740993}}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":' + b"9" * 5000 + b"}}",
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"\\ud800"}}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"\\ud800":1}}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":' + b'{"a":' * 60 + b"1" + b"}" * 60 + b"}",
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":' + b"[" * 100000 + b"]" * 100000 + b"}",
        b'{"jsonrpc":"2.0","id":null,"method":"ping"}',
        b'{"jsonrpc":"2.0","id":true,"method":"ping"}',
        b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}',
        b'{"jsonrpc":"2.0","id":[1],"method":"ping"}',
        b'{"jsonrpc":"2.0","id":1,"method":["ping"]}',
        b'{"jsonrpc":"2.0","id":1,"method":""}',
        b'{"jsonrpc":"2.0","id":1}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":null}',
        b'{"jsonrpc":"1.0","id":1,"method":"ping"}',
        b'{"id":1,"method":"ping"}',
        b'{"jsonrpc":"2.0","id":1,"result":{}}',
        b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"x"}}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","result":{}}',
    ],
)
def test_anything_with_another_reading_is_refused(body: bytes) -> None:
    with pytest.raises(RequestMalformed):
        parse_envelope(body)


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"name": 1},
        {"name": ["x"]},
        {"name": "x", "arguments": []},
        {"name": "x", "arguments": "{}"},
        {"name": "x", "arguments": None},
        {"name": "x", "Arguments": {}},
        {"name": "x", "input": {}},
        {"name": "x", "arguments": {}, "task": {}},
    ],
)
def test_a_call_of_another_form_is_refused(params: dict[str, object]) -> None:
    with pytest.raises(RequestMalformed):
        call_params(Message(1, "tools/call", params))


@thorough(40)
@given(
    st.dictionaries(
        st.text(max_size=4),
        st.recursive(
            st.none()
            | st.booleans()
            | st.integers(-(2**53) + 1, 2**53 - 1)
            | st.text()
            | st.floats(-1e6, 1e6),
            lambda inner: (
                st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
            ),
            max_leaves=6,
        ),
        max_size=4,
    )
)
def test_what_is_judged_is_what_is_sent(arguments: dict[str, object]) -> None:
    body = json.dumps({**CALL, "params": {"name": "x", "arguments": arguments}}, indent=3).encode()
    found = call_params(parse_envelope(body).messages[0])
    assert json.loads(found.text) == found.arguments == arguments
